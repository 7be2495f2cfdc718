//! InterPodAffinity: places pods near or away from other pods, by the pod's own affinity and anti-affinity terms and by
//! those of the pods that run already.
//!
//! What existing pods ask for comes from the cluster's index of [carried
//! terms](kube_scheduler_framework::AffinityTerms); what the pod itself asks for from counters that the cluster follows.
//!
//! Answers to `plugins/interpodaffinity` of the reference; behaviour in `docs/spec/plugins-topology.md` §5.

mod attraction;
mod hints;
mod neighbours;
mod own_terms;
mod sums;

use std::sync::Arc;

use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::columns::VecPool;
use kube_scheduler_framework::{
    ClusterView, Context, CycleState, EnqueueExtensions, EventRegistration, FeasibleNodes, Filter,
    FilterSink, Handle, NodeIdx, NodeView, Normalization, Plugin, PluginArgs, PluginError,
    PreFilter, PreFilterExtensions, PreFilterOutcome, PreScore, Score, Sign, SignatureWriter,
    Status,
};

use self::attraction::Attraction;
use self::neighbours::{Neighbours, Rule};
use self::own_terms::{compile_error, has_preferred};
use crate::plugin_args::checked_args;
use crate::signature::{pod_affinity, write};

pub(crate) const NAME: &str = "InterPodAffinity";

const REASON_AFFINITY: &str = "node(s) didn't match pod affinity rules";
const REASON_ANTI_AFFINITY: &str = "node(s) didn't match pod anti-affinity rules";
const REASON_EXISTING: &str = "node(s) didn't satisfy existing pods anti-affinity rules";
const NO_FILTER_STATE: &str =
    "error reading \"PreFilterInterPodAffinity\" from cycleState: not found";
const NO_SCORE_STATE: &str =
    "failed to read \"PreScoreInterPodAffinity\" from cycleState: not found";

pub(crate) fn new(args: &PluginArgs, _: &Handle) -> Result<Arc<dyn Plugin>, PluginError> {
    let args = checked_args!(InterPodAffinity, args)?;
    let name = NAME.into();
    Ok(Arc::new(InterPodAffinity {
        hard_pod_affinity_weight: args.hard_pod_affinity_weight.unwrap_or_default(),
        ignores_preferences_of_others: args.ignore_preferred_terms_of_existing_pods,
        rejections: [
            Status::unresolvable(REASON_AFFINITY).from_plugin(&name),
            Status::unschedulable(REASON_ANTI_AFFINITY).from_plugin(&name),
            Status::unschedulable(REASON_EXISTING).from_plugin(&name),
        ],
        spare: VecPool::new(),
    }))
}

struct InterPodAffinity {
    hard_pod_affinity_weight: i32,
    /// Whether preferences of other pods are ignored for a pod that has none of its own.
    ignores_preferences_of_others: bool,
    /// In the order of [`Rule`].
    rejections: [Status; 3],
    /// For numbers by domain, which are as many as nodes where every host is one.
    spare: Arc<VecPool<i64>>,
}

impl InterPodAffinity {
    fn rejection(&self, rule: Rule) -> &Status {
        &self.rejections[rule as usize]
    }

    /// Whether preferences about the pod count.
    ///
    /// Quirk: the weight of required affinity is left out along with the preferences. The reference does the same.
    fn scores(&self, pod: &Pod) -> bool {
        has_preferred(pod) || !self.ignores_preferences_of_others
    }

    fn attraction(&self, cluster: ClusterView<'_>, pod: &Pod) -> Attraction {
        Attraction::of(cluster, pod, self.hard_pod_affinity_weight, &self.spare)
    }
}

/// What PreFilter leaves for PreScore.
#[derive(Clone)]
struct Preferences(Attraction);

plugin!(InterPodAffinity, PreFilter, Filter, PreScore, Score, EnqueueExtensions, Sign);

impl PreFilter for InterPodAffinity {
    fn pre_filter(&self, cx: &Context<'_>, state: &mut CycleState, pod: &Pod) -> PreFilterOutcome {
        if let Some(error) = compile_error(pod) {
            return Status::unresolvable(format!("parsing pod: {error}")).into();
        }
        // Quirk: after a skip the anti-affinity of nominated pods is not checked either. The reference does the same.
        let neighbours = Neighbours::of(cx.cluster(), pod, &self.spare);
        if self.scores(pod) {
            // PreScore may run several times for a pod, for different groups of nodes. What it needs of the pod is computed once
            // here.
            state.insert(Preferences(self.attraction(cx.cluster(), pod)));
        }
        if !neighbours.is_any() {
            return PreFilterOutcome::skip();
        }
        state.insert(neighbours);
        PreFilterOutcome::success()
    }

    fn extensions(&self) -> Option<&dyn PreFilterExtensions> {
        Some(self)
    }
}

impl PreFilterExtensions for InterPodAffinity {
    fn concerns(&self, cx: &Context<'_>, state: &CycleState, pod: &Pod, added: &Pod) -> bool {
        let neighbours = state.get::<Neighbours>();
        neighbours.is_none_or(|neighbours| neighbours.may_change(cx.cluster(), pod, added))
    }

    fn add_pod(
        &self,
        _: &Context<'_>,
        state: &mut CycleState,
        pod: &Pod,
        added: &Pod,
        node: &NodeView<'_>,
    ) -> Status {
        change(state, pod, added, node, 1)
    }

    fn remove_pod(
        &self,
        _: &Context<'_>,
        state: &mut CycleState,
        pod: &Pod,
        removed: &Pod,
        node: &NodeView<'_>,
    ) -> Status {
        change(state, pod, removed, node, -1)
    }
}

fn change(
    state: &mut CycleState,
    pod: &Pod,
    other: &Pod,
    node: &NodeView<'_>,
    sign: i64,
) -> Status {
    let Some(neighbours) = state.get_mut::<Neighbours>() else {
        return Status::error(NO_FILTER_STATE);
    };
    neighbours.change(pod, other, node, sign);
    Status::SUCCESS
}

impl Filter for InterPodAffinity {
    fn filter(&self, _: &Context<'_>, state: &CycleState, _: &Pod, node: &NodeView<'_>) -> Status {
        let Some(neighbours) = state.get::<Neighbours>() else {
            return Status::error(NO_FILTER_STATE);
        };
        let rule = neighbours.refusal(node);
        rule.map_or(Status::SUCCESS, |rule| self.rejection(rule).clone())
    }

    fn filter_all(
        &self,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &Pod,
        nodes: &[NodeIdx],
        sink: &mut FilterSink<'_>,
    ) -> Result<(), Status> {
        let Some(neighbours) = state.get::<Neighbours>() else {
            return sink.reject_each(cx, nodes, |_, _| Status::error(NO_FILTER_STATE));
        };
        let rejection = |rule| self.rejection(rule);
        if neighbours.refuse_all(cx.cluster(), nodes, sink, &self.spare, rejection).is_none() {
            return sink.reject_each(cx, nodes, |cx, node| self.filter(cx, state, pod, node));
        }
        Ok(())
    }
}

impl PreScore for InterPodAffinity {
    fn pre_score(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &Pod,
        _: &FeasibleNodes<'_>,
    ) -> Status {
        if !self.scores(pod) {
            return Status::skip();
        }
        if let Some(error) = compile_error(pod) {
            return Status::error(format!("failed to parse pod: {error}"));
        }
        let found = state.get::<Preferences>().map(|found| found.0.clone());
        let attraction = found.unwrap_or_else(|| self.attraction(cx.cluster(), pod));
        if !attraction.is_any(cx.cluster()) {
            return Status::skip();
        }
        state.insert(attraction);
        Status::SUCCESS
    }
}

impl Score for InterPodAffinity {
    fn score(
        &self,
        _: &Context<'_>,
        state: &CycleState,
        _: &Pod,
        node: &NodeView<'_>,
    ) -> Result<i64, Status> {
        let attraction = state.get::<Attraction>();
        let attraction = attraction.ok_or_else(|| Status::error(NO_SCORE_STATE))?;
        Ok(attraction.of_node(node.cluster(), node.idx()))
    }

    fn score_all(
        &self,
        cx: &Context<'_>,
        state: &CycleState,
        _: &Pod,
        nodes: &[NodeIdx],
        scores: &mut [i64],
    ) -> Result<(), Status> {
        if nodes.is_empty() {
            return Ok(());
        }
        let attraction = state.get::<Attraction>();
        let attraction = attraction.ok_or_else(|| Status::error(NO_SCORE_STATE))?;
        attraction.of_nodes(cx.cluster(), nodes, scores, &self.spare);
        Ok(())
    }

    fn normalization(&self) -> Normalization {
        Normalization::MinMax
    }
}

impl Sign for InterPodAffinity {
    /// Parity: the namespace is written as well, since terms of other pods look at it, and both whatever the arguments
    /// are: required anti-affinity of others counts in any case. The reference writes the labels alone, or nothing.
    fn sign(&self, pod: &Pod, signature: &mut SignatureWriter) -> bool {
        if compile_error(pod).is_some() {
            return false;
        }
        write(pod_affinity(pod.spec.pod_affinity.as_deref()), signature);
        write(pod_affinity(pod.spec.pod_anti_affinity.as_deref()), signature);
        signature.text(&pod.namespace);
        signature.selectable_labels(&pod.labels);
        true
    }
}

impl EnqueueExtensions for InterPodAffinity {
    fn events_to_register(&self) -> Vec<EventRegistration> {
        hints::events()
    }
}
