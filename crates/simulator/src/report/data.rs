//! A report as data.
//!
//! Invariants: `pods.total` is the sum of all other counts except `finished`; every pod in it is in exactly one of
//! `placements`, `pending`, `preempted` and the pods that were running already; everything but `decisions_per_second`
//! depends on the input and the options alone.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::devices::DeviceReport;

/// The result of a simulation: where every pod went, and why the others have no node.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Report {
    /// Pods by outcome.
    pub pods: PodCounts,
    /// Nodes by use.
    pub nodes: NodeCounts,
    /// By resource, the sum of pods' requests divided by what is allocatable, over all nodes: 0 to 1 unless the pods that
    /// were running already exceed what their nodes have.
    pub utilisation: BTreeMap<String, f64>,
    /// Scheduling attempts, repeated ones included.
    pub decisions: u64,
    /// Attempts per second of real time. `None` from the simulation itself, which has no clock; for the caller to set.
    pub decisions_per_second: Option<f64>,
    /// Pods that got a node, in the order of the decisions.
    pub placements: Vec<Placement>,
    /// Pods without a node, by namespace and name.
    pub pending: Vec<PendingPod>,
    /// Pods that were evicted for others, in the order of the decisions.
    pub preempted: Vec<PreemptedPod>,
    /// Usage of each node, in the order of the input.
    pub node_usage: Vec<NodeUsage>,
    /// Devices and who has them, if the input has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices: Option<DeviceReport>,
    /// The decisions that the options asked to explain.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub explanations: Vec<PodExplanation>,
    /// What the user should know about input and run.
    pub warnings: Vec<String>,
}

/// Pods by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PodCounts {
    /// All pods except those that had ended.
    pub total: usize,
    /// Got a node.
    pub scheduled: usize,
    /// Tried, without finding a node.
    pub unschedulable: usize,
    /// Never tried, because of scheduling gates or a plugin at PreEnqueue.
    pub gated: usize,
    /// Had a node in the input, and kept it.
    pub already_running: usize,
    /// Were evicted for others.
    pub preempted: usize,
    /// For another scheduler, or being deleted.
    pub skipped: usize,
    /// Had ended (`Succeeded`, `Failed`) and were left out of the simulation and of the total.
    pub finished: usize,
}

/// Nodes by use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct NodeCounts {
    /// All nodes.
    pub total: usize,
    /// Nodes with at least one pod.
    pub used: usize,
}

/// A pod that got a node.
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
pub struct PendingPod {
    /// The pod, `namespace/name`.
    pub pod: String,
    /// Why, as a category.
    pub reason: PendingReason,
    /// Why, in words.
    pub message: String,
}

/// Why a pod has no node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub enum PendingReason {
    /// It fits on no node.
    Unschedulable,
    /// An error occurred while it was scheduled. Counts as unschedulable.
    SchedulerError,
    /// A gate holds it back, and it was never tried. Counts as gated.
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

/// A pod that was evicted for another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PreemptedPod {
    /// The pod, `namespace/name`.
    pub pod: String,
    /// The node it was on.
    pub node: String,
    /// The pod it was evicted for.
    pub by: Option<String>,
}

/// Usage of a node.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct NodeUsage {
    /// The node.
    pub node: String,
    /// The number of pods on it.
    pub pods: i64,
    /// By resource, the sum of pods' requests divided by what is allocatable.
    pub utilisation: BTreeMap<String, f64>,
}

/// The last decision about one pod: every node's verdict and scores right before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PodExplanation {
    /// The pod, `namespace/name`.
    pub pod: String,
    /// `Scheduled`, `AlreadyRunning`, `Preempted`, or the [`PendingReason`].
    pub outcome: String,
    /// The node of the pod, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// What the nodes below do not explain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The number of attempts; the following fields describe the last one.
    pub attempts: u32,
    /// Pods that were evicted for this one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preempts: Vec<String>,
    /// Why PreFilter rejected the pod before any node was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_filter: Option<String>,
    /// All nodes, in the scheduler's order.
    pub nodes: Vec<NodeVerdict>,
}

/// The result for one pod on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct NodeVerdict {
    /// The node.
    pub node: String,
    /// Whether the pod passes all filters.
    pub feasible: bool,
    /// `Success`, or the status code of the rejection.
    pub verdict: String,
    /// The plugin that rejected the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// The plugin's reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// The sum of all scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<i64>,
    /// Weighted, normalised scores by plugin. Plugins that skip the pod are not listed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub scores: BTreeMap<String, i64>,
    /// Whether no other node has a higher total.
    pub best: bool,
}
