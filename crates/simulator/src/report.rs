//! What a simulation found out, as data, and how it is printed.
//!
//! Invariants: `pods.total` is the sum of all other counts but `finished`, and every pod in it is in exactly one of
//! `placements`, `pending`, `preempted` and those already running; everything but `decisions_per_second` depends on the
//! input and the options alone.

mod render;
mod summary;
mod table;

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::explanation::PodExplanation;

pub use render::{Format, RenderError, RenderOptions, render};
pub(crate) use summary::compose;

/// Where everything went, and why not.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Report {
    /// Pods by outcome.
    pub pods: PodCounts,
    /// Nodes.
    pub nodes: NodeCounts,
    /// Requested by pods over allocatable, by resource, over all nodes: 0 to 1 unless running pods overcommit.
    pub utilisation: BTreeMap<String, f64>,
    /// Attempts, repeated ones included.
    pub decisions: u64,
    /// Attempts per second of real time; set by whoever has a clock.
    pub decisions_per_second: Option<f64>,
    /// Pods that were given a node, in the order in which that was decided.
    pub placements: Vec<Placement>,
    /// Pods without a node, by namespace and name.
    pub pending: Vec<Pending>,
    /// Pods that made room for others, in the order in which that was decided.
    pub preempted: Vec<Preempted>,
    /// What is in use on each node, in the order of the input.
    pub node_usage: Vec<NodeUsage>,
    /// The decisions that were asked about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub explanations: Vec<PodExplanation>,
    /// What the user should hear of.
    pub warnings: Vec<String>,
}

/// Pods by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PodCounts {
    /// All pods that had not ended.
    pub total: usize,
    /// Given a node.
    pub scheduled: usize,
    /// Tried in vain.
    pub unschedulable: usize,
    /// Held back by scheduling gates and the like, never tried.
    pub gated: usize,
    /// Came with a node, and kept it.
    pub already_running: usize,
    /// Made room for others.
    pub preempted: usize,
    /// Not this scheduler's business: for another scheduler, or being deleted.
    pub skipped: usize,
    /// Had ended (`Succeeded`, `Failed`) and were left out; not part of the total.
    pub finished: usize,
}

/// Nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct NodeCounts {
    /// All nodes.
    pub total: usize,
    /// Nodes with at least one pod.
    pub used: usize,
}

/// A pod that was given a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Placement {
    /// The pod, `namespace/name`.
    pub pod: String,
    /// The node.
    pub node: String,
}

/// A pod without a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Pending {
    /// The pod, `namespace/name`.
    pub pod: String,
    /// The kind of obstacle.
    pub reason: PendingReason,
    /// The obstacle in words.
    pub message: String,
}

/// Why a pod has no node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub enum PendingReason {
    /// It fits nowhere.
    Unschedulable,
    /// Something broke while it was scheduled. Counts as unschedulable.
    SchedulerError,
    /// It is held back, and was never tried. Counts as gated.
    SchedulingGated,
    /// It is for another scheduler, or being deleted. Counts as skipped.
    Skipped,
}

impl fmt::Display for PendingReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unschedulable => "Unschedulable",
            Self::SchedulerError => "SchedulerError",
            Self::SchedulingGated => "SchedulingGated",
            Self::Skipped => "Skipped",
        })
    }
}

/// A pod that made room for another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Preempted {
    /// The pod, `namespace/name`.
    pub pod: String,
    /// Where it was.
    pub node: String,
    /// The pod that it made room for.
    pub by: Option<String>,
}

/// What is in use on a node.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct NodeUsage {
    /// The node.
    pub node: String,
    /// How many pods it has.
    pub pods: i64,
    /// Requested by pods over allocatable, by resource.
    pub utilisation: BTreeMap<String, f64>,
}
