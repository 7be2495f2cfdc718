//! What one attempt knows about the claims of its pod.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube_scheduler_devices::api::{Allocation, ResourceClaim};
use kube_scheduler_devices::{Allocator, ExtendedClaim};
use kube_scheduler_framework::api::{NodeSelector, Object};
use kube_scheduler_framework::{NodeIdx, Status};
use rustc_hash::FxHashMap;

use super::extended::Demand;
use super::kinds;

/// The claims of a pod from PreFilter to the end of its binding. Empty for a pod without.
#[derive(Clone, Default)]
pub(super) struct PodDevices {
    /// The pod's claims in order, then the special claim for its extended resources, if it has one.
    pub(super) claims: Vec<PodClaim>,
    /// Absent if there is nothing to allocate.
    pub(super) allocator: Option<Arc<Allocator>>,
    /// What device classes may have to serve; absent without a special claim.
    pub(super) demand: Option<Arc<Demand>>,
    /// What Filter found. Shared by all copies: preemption tries nodes on copies, and finds the same there.
    found: Arc<Mutex<Found>>,
    /// What the special claim asks for on the chosen node; from Reserve on.
    pub(super) special: Option<Arc<ExtendedClaim>>,
}

/// One claim of the pod.
#[derive(Clone)]
pub(super) struct PodClaim {
    /// As it was read, or as it was written since.
    pub(super) object: Arc<Object>,
    /// The same, decoded.
    pub(super) claim: Arc<ResourceClaim>,
    /// Whether it stands for the pod's extended resources.
    pub(super) is_special: bool,
    /// Where the devices of an allocated claim can be used; `None` means everywhere.
    pub(super) reach: Option<Arc<NodeSelector>>,
    /// The UID under which it is in flight from Reserve on: a temporary one if the claim is created only then.
    pub(super) flight: Arc<str>,
    /// What it gets; from Reserve on, if it was not allocated.
    pub(super) reserved: Option<Arc<Allocation>>,
}

impl PodClaim {
    pub(super) fn is_allocated(&self) -> bool {
        self.claim.status.allocation.is_some()
    }

    /// Whether the API server does not have it yet.
    pub(super) fn is_in_memory(&self) -> bool {
        self.is_special && *self.object.name == *kinds::SPECIAL_NAME
    }

    /// Whether the pod may use it.
    pub(super) fn is_reserved_for(&self, pod_uid: &str) -> bool {
        self.claim.status.reserved_for.iter().any(|consumer| *consumer.uid == *pod_uid)
    }
}

/// What Filter found.
#[derive(Default)]
pub(super) struct Found {
    /// By node.
    pub(super) nodes: FxHashMap<NodeIdx, Arc<OnNode>>,
    /// Claims whose allocation some node cannot use, by place.
    pub(super) unavailable: BTreeSet<usize>,
}

/// What the pod would get on a node.
#[derive(Default)]
pub(super) struct OnNode {
    /// Of the claims to allocate, in order.
    pub(super) allocations: Vec<Arc<Allocation>>,
    /// What the special claim asks for there.
    pub(super) special: Option<Arc<ExtendedClaim>>,
}

impl PodDevices {
    pub(super) fn found(&self) -> MutexGuard<'_, Found> {
        // What a panic left behind is whole: entries are inserted at once.
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What Filter found for a node.
    pub(super) fn on_node(&self, node: NodeIdx) -> Option<Arc<OnNode>> {
        self.found().nodes.get(&node).cloned()
    }

    /// The claims without those for extended resources.
    pub(super) fn has_user_claims(&self) -> bool {
        self.claims.iter().any(|claim| !claim.is_special)
    }
}

/// # Scores
impl PodDevices {
    /// How well the pod's alternatives are served on a node (`docs/spec/plugins-dra.md` §7.5).
    ///
    /// # Errors
    /// If Filter found less than there are claims.
    pub(super) fn score(&self, node: NodeIdx) -> Result<i64, Status> {
        if self.claims.is_empty() {
            return Ok(0);
        }
        let Some(found) = self.on_node(node).filter(|found| !found.allocations.is_empty()) else {
            return Ok(0);
        };
        let mut next = found.allocations.iter();
        let mut score = 0_i64;
        for claim in &self.claims {
            let allocation = match &claim.claim.status.allocation {
                Some(allocation) => allocation,
                None => next.next().ok_or_else(|| {
                    Status::error(format!(
                        "number of allocations {} is smaller than number of claims needing allocation",
                        found.allocations.len()
                    ))
                })?,
            };
            score = score.saturating_add(claim.claim.priority_score(allocation));
        }
        Ok(score)
    }
}
