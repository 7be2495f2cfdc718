//! Answers that depend on other pods through topology domains: cached and kept up to date instead of computed again.
//!
//! Where a pod may go can depend on pods on other nodes: on how many there are in a zone, or whether one is on the same
//! host. The engine puts nodes with the same answers into one group: a plugin gives each node a short sequence of numbers,
//! its standing, and nodes with equal standings get equal answers. One more placed pod changes the standing of few nodes.
//! A plugin that implements [`DomainScoped`] lets the engine reuse its answers for the next pod of the same signature.

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::NodeIdx;
use kube_scheduler_cache::counters::CounterId;
use smallvec::SmallVec;

use crate::cluster_view::ClusterView;
use crate::context::Context;
use crate::cycle_state::CycleState;

/// The key of a group of nodes: the standings of its nodes for some plugins, one after the other.
pub type GroupKey = SmallVec<[u32; 8]>;

/// A group of nodes with equal standings that pass all filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidates {
    /// One node of the group, for all of them.
    pub node: NodeIdx,
    /// Number of nodes in the group, at least one.
    pub n_nodes: usize,
}

/// Makes [`DomainAnswers`].
pub trait DomainScoped: Send + Sync {
    /// Answers for pods like this one. All counters and columns that the plugin [follows](crate::Following) for the pod
    /// are up to date. `None` when the answers do not depend on pods on other nodes, or cannot be kept up to date: the plugin
    /// is then asked about each node, and what it reads decides whether its answers are cached.
    fn domain_answers(&self, cx: &Context<'_>, pod: &Pod) -> Option<Box<dyn DomainAnswers>>;

    /// Drops from `state` what only [`Filter`](crate::Filter) and [`Score`](crate::Score) read. While [`DomainAnswers`] are
    /// used, those two are not called, and what was prepared for them would only take memory. Drops nothing by default.
    fn forget(&self, state: &mut CycleState) {
        let _ = state;
    }
}

/// The answers of one plugin about one kind of pod, for a cluster in which pods come and go.
///
/// They must equal those of [`Filter`](crate::Filter) and [`Score`](crate::Score) after a fresh
/// [`PreFilter`](crate::PreFilter) and [`PreScore`](crate::PreScore). The latter are still called when the reasons of
/// rejections are needed.
///
/// The answers about a node must depend on nothing but its [standing](Self::stand) and the state of the whole cluster. The
/// engine starts over when nodes come, go, or change their labels, taints or names.
pub trait DomainAnswers: Send + Sync {
    /// The counters of the cluster that the answers are read from.
    fn counters(&self) -> &[CounterId];

    /// Updates the answers after the pods on `changed` nodes have changed. Adds to `moved` the other nodes whose standing
    /// may have changed with them. Returns `false` if that is not possible: the engine then starts over.
    fn catch_up(
        &mut self,
        cx: &Context<'_>,
        pod: &Pod,
        changed: &[NodeIdx],
        moved: &mut Vec<NodeIdx>,
    ) -> bool;

    /// Appends the standing of `node`. Two nodes with the same numbers get the same answers. The count of numbers appended
    /// must be the same for all nodes.
    fn stand(&self, cluster: ClusterView<'_>, node: NodeIdx, standing: &mut GroupKey);

    /// Whether Filter lets the pod onto `node`.
    fn fits(&self, cluster: ClusterView<'_>, node: NodeIdx) -> bool;

    /// Fills `scores[i]` with the normalised score of the nodes `candidates[i]`, before it is multiplied by the plugin's
    /// weight. `candidates` cover all nodes that pass, each group once. Returns `false` when Score skips the pod.
    fn score(
        &mut self,
        cluster: ClusterView<'_>,
        candidates: &[Candidates],
        scores: &mut [i64],
    ) -> bool;
}
