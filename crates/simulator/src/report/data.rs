//! A report as data.
//!
//! Invariants: `pods.total` is the sum of all other counts except `finished`; every pod in it is in exactly one of
//! `placements`, `pending`, `preempted` and the pods that were running already; everything but `decisions_per_second`
//! depends on the input and the options alone.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::devices::DeviceReport;
use super::explanation::PodExplanation;
use super::timeline::TimelineReport;

/// The result of a simulation: where every pod went, and why the others have no node.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Report {
    /// The number of pods, by what became of them.
    pub pods: OutcomeCounts,
    /// The number of nodes, and of those in use.
    pub nodes: NodeCounts,
    /// By resource, the sum of pods' requests divided by what is allocatable, over all nodes: 0 to 1 unless the pods that
    /// were running already exceed what their nodes have.
    pub utilisation: BTreeMap<String, f64>,
    /// Scheduling attempts, repeated ones included.
    pub decisions: u64,
    /// Attempts per second of real time. `None` from the simulation itself, which has no clock; for the caller to set.
    pub decisions_per_second: Option<f64>,
    /// Pods that got a node, in the order of the decisions, those whose time is over included.
    pub placements: Vec<PlacedPod>,
    /// Pods that have no node, or went without one, by namespace and name.
    pub pending: Vec<PendingPod>,
    /// Pods that were evicted for others, in the order of the decisions.
    pub preempted: Vec<PreemptedPod>,
    /// Usage of each node, in the order of the input.
    pub node_usage: Vec<NodeUsage>,
    /// Waiting times and use over time, if pods came and went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline: Option<TimelineReport>,
    /// Devices and who has them, if the input has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices: Option<DeviceReport>,
    /// The decisions that the options asked to explain.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub explanations: Vec<PodExplanation>,
    /// What the user should know about input and run.
    pub warnings: Vec<String>,
}

/// The number of pods, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OutcomeCounts {
    /// All pods except those that had ended.
    pub total: usize,
    /// Pods that got a node.
    pub scheduled: usize,
    /// Pods that were tried and found no node.
    pub unschedulable: usize,
    /// Never tried, because of scheduling gates or a plugin at PreEnqueue.
    pub gated: usize,
    /// Had a node in the input, and kept it.
    pub already_running: usize,
    /// Pods that were evicted for others.
    pub preempted: usize,
    /// Pods for another scheduler, or that are being deleted.
    pub skipped: usize,
    /// Were deleted at the end of their time, before they got a node.
    #[serde(skip_serializing_if = "is_zero")]
    pub deleted: usize,
    /// Had ended (`Succeeded`, `Failed`) and were left out of the simulation and of the total.
    pub finished: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The number of nodes, and of those in use.
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
pub struct PlacedPod {
    /// The pod, `namespace/name`.
    pub pod: String,
    /// The name of the node that it got.
    pub node: String,
}

/// A pod that has no node, or went without one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PendingPod {
    /// The pod, `namespace/name`.
    pub pod: String,
    /// Why it has no node, as a category.
    pub reason: PendingReason,
    /// Why it has no node, in words.
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
    /// It was deleted at the end of its time. Counts as deleted.
    Deleted,
}

impl fmt::Display for PendingReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unschedulable => "Unschedulable",
            Self::SchedulerError => "SchedulerError",
            Self::SchedulingGated => "SchedulingGated",
            Self::Skipped => "Skipped",
            Self::Deleted => "Deleted",
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

/// What the pods on a node use of it at the end.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct NodeUsage {
    /// The name of the node.
    pub node: String,
    /// The number of pods on it.
    pub pods: i64,
    /// By resource, the sum of pods' requests divided by what is allocatable.
    pub utilisation: BTreeMap<String, f64>,
}
