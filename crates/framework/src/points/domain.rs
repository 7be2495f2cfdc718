//! Answers that follow other pods through topology domains, kept up to date instead of being computed again.
//!
//! Where a pod may go can depend on pods on other nodes: on how many there are in a zone, or whether one is on the same
//! host. Such an answer is the same for all nodes that stand alike, and few of them stand differently after one more pod
//! was placed. A plugin that knows how its nodes stand lets the engine keep its answers from one pod to the next of the
//! same signature.

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::{CounterId, NodeIdx};
use smallvec::SmallVec;

use crate::cluster_view::ClusterView;
use crate::context::Context;
use crate::cycle_state::CycleState;

/// What sets a node apart from others, as far as some plugins are concerned: a sequence of numbers that they agree on.
pub type GroupKey = SmallVec<[u32; 8]>;

/// Nodes that stand alike and pass all filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidates {
    /// One of them.
    pub node: NodeIdx,
    /// How many there are, at least one.
    pub n_nodes: usize,
}

/// How a plugin whose answers depend on other pods can be asked about one kind of pod.
pub enum DomainScope {
    /// Its answers do not follow pods on other nodes.
    NotFollowing,
    /// Its answers can be kept up to date.
    Followed(Box<dyn DomainAnswers>),
    /// Neither: nothing is kept for such pods.
    Neither,
}

/// Makes [`DomainAnswers`].
pub trait DomainScoped: Send + Sync {
    /// How the plugin can be asked about pods like this one. Everything that was [followed](crate::Following) for the pod
    /// is up to date.
    fn domain_scope(&self, cx: &Context<'_>, pod: &Pod) -> DomainScope;

    /// Drops from `state` what [`Filter`](crate::Filter) and [`Score`](crate::Score) alone read: they are not asked while
    /// [`DomainAnswers`] are, and what they prepared would be kept as long. Drops nothing by default.
    fn forget(&self, state: &mut CycleState) {
        let _ = state;
    }
}

/// The answers of one plugin about one kind of pod, for a cluster in which pods come and go.
///
/// They have to be those of [`Filter`](crate::Filter) and [`Score`](crate::Score) after a fresh
/// [`PreFilter`](crate::PreFilter) and [`PreScore`](crate::PreScore); these are still asked when answers are needed with
/// their reasons.
///
/// A node's answers must follow from where it [stands](Self::stand) and the state of the whole alone. The engine starts
/// over when nodes come, go, or change their labels, taints or names.
pub trait DomainAnswers: Send + Sync {
    /// The counters of the cluster that the answers are read from.
    fn counters(&self) -> &[CounterId];

    /// Catches up with the cluster, in which the pods on `changed` nodes have changed. Adds to `moved` which other nodes
    /// may stand differently now. With `false` the engine starts over.
    fn catch_up(
        &mut self,
        cx: &Context<'_>,
        pod: &Pod,
        changed: &[NodeIdx],
        moved: &mut Vec<NodeIdx>,
    ) -> bool;

    /// Appends where `node` stands. Two nodes with the same numbers get the same answers. How many numbers are appended
    /// must not depend on the node.
    fn stand(&self, cluster: ClusterView<'_>, node: NodeIdx, standing: &mut GroupKey);

    /// Whether Filter lets the pod onto `node`.
    fn fits(&self, cluster: ClusterView<'_>, node: NodeIdx) -> bool;

    /// Fills `scores[i]` with the normalised score of the nodes `candidates[i]`, without its weight. `candidates` are all
    /// nodes that pass; none stands like another. `false` when Score has nothing to say about the pod.
    fn score(
        &mut self,
        cluster: ClusterView<'_>,
        candidates: &[Candidates],
        scores: &mut [i64],
    ) -> bool;
}
