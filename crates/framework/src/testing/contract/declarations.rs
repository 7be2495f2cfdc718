//! What a plugin says of itself so that calls can be left out, against what these calls do.

use std::sync::Arc;

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::reads::PluginReads;
use kube_scheduler_cache::{NodeIdx, NodeOverlay};

use super::{Check, PreparedPod, StatusDisplay, score_text};
use crate::context::{Command, Commands};
use crate::cycle_state::CycleState;
use crate::points::{PlacedGroup, Placement, PreFilterExtensions, ProposedPlacement};
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

/// What is called after a node was chosen.
#[derive(Clone, Copy)]
struct LateCall<'c> {
    fixture: &'c Fixture,
    /// What PreFilter and PreScore have left.
    state: &'c CycleState,
    /// With its node filled in.
    pod: &'c Arc<Pod>,
    node: &'c str,
}

const IDLENESS: &str = "a plugin that is idle for a pod has nothing to do";

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

    /// Calls Reserve, Permit, the pre-flight of PreBind, and Bind about each node that fits.
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
                let late = LateCall { fixture, state: &asked.state, pod: &placed, node: &node };
                self.reserve_is_declared(late);
                self.permit_is_declared(late);
                self.pre_bind_is_declared(late);
                self.bind_is_declared(late);
            }
        }
    }

    fn reserve_is_declared(&mut self, late: LateCall<'_>) {
        let Some(point) = self.plugin.as_reserve() else { return };
        let LateCall { fixture, pod, node, .. } = late;
        let reads_state = point.reads_cycle_state(pod);
        let outcome = self.call(late, "Reserve", reads_state, |mut state| {
            let (cx, mut commands) = (fixture.cx(), Commands::default());
            let status = point.reserve(&cx, &mut state, pod, node, &mut commands);
            point.unreserve(&cx, &mut state, pod, node, &mut Commands::default());
            Outcome::new(status, (), &commands.into_vec())
        });
        if point.is_idle_for(pod) && !outcome.is_nothing() {
            self.complain_about(late, IDLENESS, "Reserve", &outcome.text);
        }
    }

    fn permit_is_declared(&mut self, late: LateCall<'_>) {
        let Some(point) = self.plugin.as_permit() else { return };
        let LateCall { fixture, pod, node, .. } = late;
        let reads_state = point.reads_cycle_state(pod);
        let outcome = self.call(late, "Permit", reads_state, |mut state| {
            let mut commands = Commands::default();
            let decision = point.permit(&fixture.cx(), &mut state, pod, node, &mut commands);
            Outcome::new(decision.status, decision.timeout, &commands.into_vec())
        });
        let of_source = self.plugin.as_group_source().and_then(|source| source.group_of(pod));
        let is_in_group = pod.spec.pod_group.is_some() || of_source.is_some();
        if point.concerns_groups_alone() && !is_in_group && !outcome.is_nothing() {
            let promise = "a plugin for groups allows pods that are in none";
            self.complain_about(late, promise, "Permit", &outcome.text);
        }
    }

    fn pre_bind_is_declared(&mut self, late: LateCall<'_>) {
        let Some(point) = self.plugin.as_pre_bind() else { return };
        let LateCall { fixture, pod, node, .. } = late;
        let reads_state = point.reads_cycle_state(pod);
        let outcome = self.call(late, "PreBind", reads_state, |state| {
            let flight = point.pre_bind_pre_flight(&fixture.cx(), &state, pod, node);
            Outcome::new(flight.status, flight.may_run_in_parallel, &[])
        });
        let is_idle = self.plugin.as_reserve().is_some_and(|reserve| reserve.is_idle_for(pod));
        if is_idle && !outcome.status.is_skip() {
            self.complain_about(late, IDLENESS, "PreBind", &outcome.text);
        }
    }

    fn bind_is_declared(&mut self, late: LateCall<'_>) {
        let Some(point) = self.plugin.as_bind() else { return };
        let LateCall { fixture, pod, node, .. } = late;
        self.call(late, "Bind", point.reads_cycle_state(), |mut state| {
            let outcome = point.bind(&fixture.cx(), &mut state, pod, node);
            Outcome {
                status: Status::SUCCESS,
                text: format!("{outcome:?}"),
                asks_for_nothing: true,
            }
        });
    }

    /// Puts the pods on nodes, one each, in as many ways as there are nodes.
    pub(super) fn placement_score_is_declared(&mut self, fixture: &Fixture, pods: &[Arc<Pod>]) {
        let Some(point) = self.plugin.as_placement_score() else { return };
        let Some(first) = pods.first().filter(|_| point.goes_by_members()) else { return };
        let order = fixture.cluster().order();
        let placement = Placement { name: "all".into(), nodes: order.into() };
        let name = first.spec.pod_group.as_deref().unwrap_or_default();
        let group = PlacedGroup { namespace: &first.namespace, name, members: pods };
        let scores = (0..order.len()).map(|n| {
            let nodes = order.iter().cycle().skip(n).copied();
            let assignments: Vec<_> = pods.iter().cloned().zip(nodes).collect();
            let proposed = ProposedPlacement { placement: &placement, assignments: &assignments };
            point.score(&fixture.cx(), group, proposed)
        });
        let scores: Vec<_> = scores.collect();
        if let Some(pair) = scores.windows(2).find(|pair| pair[0] != pair[1]) {
            let [one, other] = [&pair[0], &pair[1]].map(score_text);
            let what = format!("PlacementScore: {one} and {other} for other nodes");
            self.complain("a score that goes by members is the same on other nodes", what);
        }
    }

    /// Makes a call with the cycle state, and compares it with one without if the plugin says that it does not read the state.
    fn call(
        &mut self,
        late: LateCall<'_>,
        point: &str,
        reads_state: bool,
        call: impl Fn(CycleState) -> Outcome,
    ) -> Outcome {
        let full = call(late.state.clone());
        if !reads_state {
            let empty = call(CycleState::new());
            if full.text != empty.text {
                let promise = "what does not read the cycle state answers without it";
                let what = format!("{} with it, {} without", full.text, empty.text);
                self.complain_about(late, promise, point, &what);
            }
        }
        full
    }

    fn complain_about(
        &mut self,
        late: LateCall<'_>,
        promise: &'static str,
        point: &str,
        what: &str,
    ) {
        let what = format!("{point}, pod {}, node {}: {what}", late.pod.key(), late.node);
        self.complain(promise, what);
    }
}
