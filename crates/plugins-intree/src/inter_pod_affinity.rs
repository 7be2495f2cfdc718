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
    ClusterView, Context, CycleState, Handle, Plugin, PluginArgs, PluginError, PreFilter,
    PreFilterExtensions, PreFilterOutcome, Sign, SignatureWriter, Status,
};

use self::attraction::Attraction;
use self::neighbours::Neighbours;
use self::own_terms::{compile_error, has_preferred};
use crate::plugin_args::checked_args;
use crate::signature::{pod_affinity, write};

pub(crate) const NAME: &str = "InterPodAffinity";

const REASON_AFFINITY: &str = "node(s) didn't match pod affinity rules";
const REASON_ANTI_AFFINITY: &str = "node(s) didn't match pod anti-affinity rules";
const REASON_EXISTING: &str = "node(s) didn't satisfy existing pods anti-affinity rules";

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
    /// In the order of [`Rule`](neighbours::Rule).
    rejections: [Status; 3],
    /// For numbers by domain, which are as many as nodes where every host is one.
    spare: Arc<VecPool<i64>>,
}

impl InterPodAffinity {
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
