//! What an answer depends on, beside the pod: how the engine knows which answers are still good.

use kube_scheduler_cache::ChangeKinds;

/// What an answer for one node depends on.
///
/// Saying too much costs time; saying too little gives wrong decisions. [`EVERYTHING`](Self::EVERYTHING) is always
/// right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependencies {
    /// Kinds of change to the node itself.
    pub node: ChangeKinds,
    /// Which nodes exist, or how many.
    pub membership: bool,
    /// Image states across the cluster.
    pub images: bool,
    /// Objects that are neither pods nor nodes, as counted by the sequence of the object store.
    pub objects: bool,
    /// The affinity terms that pods on nodes carry, where, and which pods they mean.
    pub affinity_terms: bool,
    /// Anything else: other nodes, other pods.
    pub anything: bool,
}

impl Dependencies {
    /// Nothing but the pod.
    pub const POD_ONLY: Self = Self {
        node: ChangeKinds::NONE,
        membership: false,
        images: false,
        objects: false,
        affinity_terms: false,
        anything: false,
    };
    /// Anything at all; nothing is reused.
    pub const EVERYTHING: Self = Self {
        node: ChangeKinds::ALL,
        membership: true,
        images: true,
        objects: true,
        affinity_terms: true,
        anything: true,
    };

    /// The pod and these aspects of the node in question.
    pub const fn node(kinds: ChangeKinds) -> Self {
        Self { node: kinds, ..Self::POD_ONLY }
    }

    /// What either depends on.
    pub fn union(self, other: Self) -> Self {
        Self {
            node: self.node | other.node,
            membership: self.membership | other.membership,
            images: self.images | other.images,
            objects: self.objects | other.objects,
            affinity_terms: self.affinity_terms | other.affinity_terms,
            anything: self.anything | other.anything,
        }
    }
}
