//! A node where preemption could make room for a pod, in the form that extenders get and as it is kept meanwhile.
//!
//! Invariant: a candidate that is offered has at least one victim.

use std::sync::Arc;

use kube_scheduler_framework::NodeIdx;
use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::preemption::PreemptionCandidate;
use smallvec::SmallVec;

/// Pods of one node. Few nodes have more that could go.
pub(super) type SomePods<'a> = SmallVec<[&'a Arc<Pod>; 8]>;

/// A node that fits the pod once its victims are gone.
#[derive(Clone, Debug)]
pub(super) struct Candidate<'a> {
    pub(super) node: NodeIdx,
    /// Most important first, never empty.
    pub(super) victims: SomePods<'a>,
    /// How many victims a disruption budget protects. An extender may say any number.
    pub(super) n_violations: i64,
}

impl From<&Candidate<'_>> for PreemptionCandidate {
    fn from(candidate: &Candidate<'_>) -> Self {
        Self {
            node: candidate.node,
            victims: candidate.victims.iter().copied().cloned().collect(),
            n_pdb_violations: candidate.n_violations,
        }
    }
}

impl<'a> From<&'a PreemptionCandidate> for Candidate<'a> {
    fn from(left: &'a PreemptionCandidate) -> Self {
        let victims = left.victims.iter().collect();
        Self { node: left.node, victims, n_violations: left.n_pdb_violations }
    }
}
