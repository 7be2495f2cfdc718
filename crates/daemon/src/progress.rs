//! How far a running scheduler is, for programs that embed it.

use std::time::Duration;

use kube_scheduler_engine::PendingCounts;

/// Numbers about a running scheduler. They rise at the moment they are known, and are published a few times a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Whether everything in the cluster has been seen; no decision is made before. The other numbers count it from then
    /// on.
    pub is_synced: bool,
    /// Whether decisions are this scheduler's to make: it leads and has seen all that the last leader did, or there is no
    /// leader election.
    pub is_leading: bool,
    /// Decisions so far, whatever their outcome.
    pub n_decisions: u64,
    /// The time they took.
    pub deciding: Duration,
    /// Pods bound so far.
    pub n_bound: u64,
    /// Attempts that found no node.
    pub n_unschedulable_attempts: u64,
    /// Attempts that broke, bindings included.
    pub n_error_attempts: u64,
    /// Pods that wait, by queue.
    pub pending: PendingCounts,
    /// Nodes known.
    pub n_nodes: usize,
}
