//! What a plugin says of itself so that calls can be left out, against what these calls do.

use std::sync::Arc;

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::reads::PluginReads;
use kube_scheduler_cache::{NodeIdx, NodeOverlay};

use super::{Check, PreparedPod, StatusDisplay};
use crate::context::{Command, Commands};
use crate::cycle_state::CycleState;
use crate::points::PreFilterExtensions;
use crate::status::Status;
use crate::testing::fixture::Fixture;
use crate::view::NodeView;

/// What a call answers, and what it asks for.
struct Outcome {
    status: Status,
    /// The whole answer, to be compared.
    text: String,
    asks_for_nothing: bool,
}

impl Outcome {
    fn new(status: Status, more: impl std::fmt::Debug, commands: &[Command]) -> Self {
        let text = format!("{}, {more:?}, {commands:?}", StatusDisplay(&status));
        Self { status, text, asks_for_nothing: commands.is_empty() }
    }

    /// Whether nothing would be missed without the call.
    fn is_nothing(&self) -> bool {
        self.status.is_success() && self.asks_for_nothing
    }
}

impl Check<'_> {
    /// Adds each of `others` to each node hypothetically, as preemption and nominations do.
    pub(super) fn additions_are_declared(
        &mut self,
        fixture: &Fixture,
        pod: &Pod,
        others: &[Arc<Pod>],
    ) {
        let pre_filter = self.plugin.as_pre_filter();
        let Some(point) = pre_filter.and_then(|point| point.extensions()) else { return };
        let asked = PreparedPod::new(self.plugin, fixture, pod, &PluginReads::default());
        if !asked.once.pre_filter.is_success() {
            return;
        }
        for &idx in fixture.cluster().order() {
            for other in others.iter().filter(|other| other.uid != pod.uid) {
                self.addition_is_declared(fixture, &asked, point, idx, other);
            }
        }
    }

    fn addition_is_declared(
        &mut self,
        fixture: &Fixture,
        asked: &PreparedPod<'_>,
        point: &dyn PreFilterExtensions,
        idx: NodeIdx,
        other: &Arc<Pod>,
    ) {
        let (cx, cluster, pod) = (fixture.cx(), fixture.cluster(), asked.pod);
        let (before, mut after) = (NodeOverlay::new(idx), NodeOverlay::new(idx));
        after.add_pod(cluster, other);
        let views =
            (NodeView::hypothetical(cluster, &before), NodeView::hypothetical(cluster, &after));
        let (Some(before), Some(after)) = views else { return };
        let mut state = asked.state.clone();
        let added = point.add_pod(&cx, &mut state, pod, other, &after);
        let what = |status: &Status| {
            let status = StatusDisplay(status);
            format!("pod {}, with {} on {}: {status}", pod.key(), other.key(), before.name())
        };
        if !point.concerns(&cx, &asked.state, pod, other) {
            let filter = |state| asked.filter().map(|it| it.filter(&cx, state, pod, &after));
            let (with, without) = (filter(&state), filter(&asked.state));
            if !added.is_success() || with != without {
                let status =
                    if added.is_success() { with.unwrap_or_default() } else { added.clone() };
                self.complain("a pod that does not concern another changes nothing", what(&status));
            }
        }
        if !point.may_fail(&asked.state) {
            let removed = point.remove_pod(&cx, &mut state, pod, other, &before);
            if let Some(status) = [added, removed].iter().find(|status| !status.is_success()) {
                self.complain("pods are added and removed without failure", what(status));
            }
        }
    }

    /// Calls Reserve, Permit and the pre-flight of PreBind about each node that fits.
    pub(super) fn late_calls_are_declared(&mut self, fixture: &Fixture, pod: &Arc<Pod>) {
        let reads = PluginReads::default();
        let asked = PreparedPod::new(self.plugin, fixture, pod, &reads);
        let pre_filter = &asked.once.pre_filter;
        if !pre_filter.is_success() && !pre_filter.is_skip() {
            return;
        }
        for &idx in fixture.cluster().order() {
            let Some((node, answer)) = asked.about(fixture, idx, &reads) else { continue };
            if answer.filter.is_success() {
                let placed = Arc::new(pod.with_node_name(&node));
                self.reserve_is_declared(fixture, &asked.state, &placed, &node);
                self.permit_is_declared(fixture, &asked.state, &placed, &node);
                self.pre_bind_is_declared(fixture, &asked.state, &placed, &node);
            }
        }
    }

    fn reserve_is_declared(
        &mut self,
        fixture: &Fixture,
        state: &CycleState,
        pod: &Arc<Pod>,
        node: &str,
    ) {
        let Some(point) = self.plugin.as_reserve() else { return };
        let call = |mut state: CycleState| {
            let (cx, mut commands) = (fixture.cx(), Commands::default());
            let status = point.reserve(&cx, &mut state, pod, node, &mut commands);
            point.unreserve(&cx, &mut state, pod, node, &mut Commands::default());
            Outcome::new(status, (), &commands.into_vec())
        };
        let full = call(state.clone());
        if point.is_idle_for(pod) && !full.is_nothing() {
            self.complain_of_idleness("Reserve", pod, node, &full.text);
        }
        if !point.reads_cycle_state(pod) {
            self.compare_with_empty("Reserve", pod, node, [&full, &call(CycleState::new())]);
        }
    }

    fn permit_is_declared(
        &mut self,
        fixture: &Fixture,
        state: &CycleState,
        pod: &Arc<Pod>,
        node: &str,
    ) {
        let Some(point) = self.plugin.as_permit() else { return };
        let call = |mut state: CycleState| {
            let mut commands = Commands::default();
            let decision = point.permit(&fixture.cx(), &mut state, pod, node, &mut commands);
            Outcome::new(decision.status, decision.timeout, &commands.into_vec())
        };
        let full = call(state.clone());
        let of_source = self.plugin.as_group_source().and_then(|source| source.group_of(pod));
        let is_in_group = pod.spec.pod_group.is_some() || of_source.is_some();
        if point.concerns_groups_alone() && !is_in_group && !full.is_nothing() {
            let what = format!("Permit, pod {}, node {node}: {}", pod.key(), full.text);
            self.complain("a plugin for groups allows pods that are in none", what);
        }
        if !point.reads_cycle_state(pod) {
            self.compare_with_empty("Permit", pod, node, [&full, &call(CycleState::new())]);
        }
    }

    fn pre_bind_is_declared(
        &mut self,
        fixture: &Fixture,
        state: &CycleState,
        pod: &Arc<Pod>,
        node: &str,
    ) {
        let Some(point) = self.plugin.as_pre_bind() else { return };
        let call = |state: &CycleState| {
            let flight = point.pre_bind_pre_flight(&fixture.cx(), state, pod, node);
            Outcome::new(flight.status, flight.may_run_in_parallel, &[])
        };
        let full = call(state);
        let is_idle = self.plugin.as_reserve().is_some_and(|reserve| reserve.is_idle_for(pod));
        if is_idle && !full.status.is_skip() {
            self.complain_of_idleness("PreBind", pod, node, &full.text);
        }
        if !point.reads_cycle_state(pod) {
            self.compare_with_empty("PreBind", pod, node, [&full, &call(&CycleState::new())]);
        }
    }

    fn complain_of_idleness(&mut self, point: &str, pod: &Pod, node: &str, text: &str) {
        let what = format!("{point}, pod {}, node {node}: {text}", pod.key());
        self.complain("a plugin that is idle for a pod has nothing to do", what);
    }

    /// Compares what a point answers with the state of the cycle and without it.
    fn compare_with_empty(&mut self, point: &str, pod: &Pod, node: &str, outcomes: [&Outcome; 2]) {
        let [full, empty] = outcomes.map(|outcome| &outcome.text);
        if full != empty {
            let what =
                format!("{point}, pod {}, node {node}: {full} with it, {empty} without", pod.key());
            self.complain("what does not read the cycle state answers without it", what);
        }
    }
}
