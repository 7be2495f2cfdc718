//! A cluster state without anything around it.

use std::sync::Arc;

use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_cache::ClusterState;
use kube_scheduler_cache::reads::Memo;
use kube_scheduler_framework::{
    KnownPods, NominatedPods, RunningPreemptions, Sources, WaitingPod, WaitingPods,
};
use smallvec::SmallVec;

/// No pod is known, waits, is nominated or preempts.
struct NoPods;

/// What contexts read from, for one-off evaluations at time `now`: no pod is known, waits, is nominated or preempts.
pub fn cluster_alone(cluster: &ClusterState, now: Timestamp) -> Sources<'_> {
    Sources {
        cluster,
        pods: &NoPods,
        waiting: &NoPods,
        nominated: &NoPods,
        preemptions: &NoPods,
        memo: &Memo::NONE,
        work: None,
        now,
    }
}

impl KnownPods for NoPods {
    fn all_pods(&self) -> Vec<Arc<Pod>> {
        Vec::new()
    }
}

impl WaitingPods for NoPods {
    fn waiting_pods(&self) -> Vec<WaitingPod> {
        Vec::new()
    }
}

impl NominatedPods for NoPods {
    fn nominated_pods(&self, _: &str) -> Vec<Arc<Pod>> {
        Vec::new()
    }

    fn nominations(&self) -> Vec<(Arc<str>, SmallVec<[Arc<Pod>; 1]>)> {
        Vec::new()
    }
}

impl RunningPreemptions for NoPods {
    fn is_preempting(&self, _: &str) -> bool {
        false
    }
}
