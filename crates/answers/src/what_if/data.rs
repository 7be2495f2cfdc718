//! What would happen, as data.

use schemars::JsonSchema;
use serde::Serialize;

use crate::course::Eviction;
use crate::explanation::Verdict;
use crate::format::a_node;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_zero(n: &usize) -> bool {
    *n == 0
}

/// What would happen after some changes, as far as it differs from what would happen without them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhatIf {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    /// The time of the answer. Of an answer that was made from objects, without a running scheduler: the newest timestamp among
    /// the nodes and pods, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) as_of: Option<String>,
    /// Whether every pod that is asked about gets a node, none is blocked, and the answer is not cut short.
    pub fits: bool,
    /// Pods that get a node, or another one, by name; those that are asked about in any case.
    pub placements: Vec<PlacementAnswer>,
    /// Pods that are evicted for others, in order.
    pub evictions: Vec<EvictionAnswer>,
    /// Pods without a node, by name: those that are asked about, and those that would have one without the changes.
    pub pending: Vec<PendingAnswer>,
    /// In how many rounds pods are evicted, by name or from nodes that are drained, if disruption budgets are respected.
    #[serde(skip_serializing_if = "is_zero")]
    pub rounds: usize,
    /// Pods that were to be evicted, by name or from nodes that are drained, and cannot be, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocked: Vec<BlockedAnswer>,
    /// How many others are pending, as they would be without the changes; pods that are being deleted do not count.
    pub(super) other_pending: usize,
    /// Nodes whose pods differ.
    pub(super) nodes: Vec<NodeDifference>,
    /// What the reader should know about the answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
    /// How many there are, whatever is listed.
    #[serde(skip)]
    pub(super) totals: Totals,
}

/// How many entries the lists of an answer had before they were cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Pods that are asked about and get a node.
    pub(super) placed: usize,
    /// Those that get none.
    pub(super) left: usize,
    pub(super) evicted: usize,
    pub(super) blocked: usize,
}

/// A pod that gets a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementAnswer {
    /// The pod, `namespace/name`; empty if the reader may not see it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pod: String,
    /// Its node; empty if the reader may not see it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// The node that it has, or would get without the changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) instead_of: Option<String>,
    /// Whether it is asked about.
    pub(super) asked: bool,
    /// The round in which it is evicted, by name or from a node that is drained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round: Option<usize>,
}

/// A pod that was to be evicted, by name or from a node that is drained, and cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockedAnswer {
    /// The pod, `namespace/name`; empty if the reader may not see it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pod: String,
    /// Its node; empty if the reader may not see it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// `NoDisruptionsAllowed`: the budget lets no pod go. `WaitsForReplacements`: it did, but those that went get no node.
    /// `SeveralBudgets`: evictions of pods with more than one budget are refused. `NotReached`: the answer is cut short.
    pub code: &'static str,
    /// The budgets in the way, by name; they are in the pod's namespace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<String>,
    /// Why it cannot be evicted, in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// A pod that is evicted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvictionAnswer {
    /// The pod, `namespace/name`; empty if the reader may not see it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pod: String,
    /// The node that it is on; empty if the reader may not see it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// The pod that it makes room for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl From<&Eviction> for EvictionAnswer {
    fn from(eviction: &Eviction) -> Self {
        let Eviction { pod, by } = eviction;
        Self {
            pod: pod.key(),
            node: pod.node_name.as_ref().map(ToString::to_string).unwrap_or_default(),
            by: by.as_ref().map(ToString::to_string),
        }
    }
}

/// A pod without a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingAnswer {
    /// The pod, `namespace/name`; empty if the reader may not see it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pod: String,
    /// Whether it is asked about.
    pub(super) asked: bool,
    /// `Unschedulable`, `SchedulerError`, `SchedulingGated`, `NotTried`, `NotScheduled` or `Evicted`.
    pub code: &'static str,
    /// Why it has no node, in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What would become of a gated pod at the end if nothing held it back. Not said of more than a hundred pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_gates: Option<UngatedAnswer>,
}

/// What would become of a gated pod if nothing held it back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UngatedAnswer {
    /// Whether it would fit.
    pub verdict: Verdict,
    /// The node that it would get; empty if the reader may not see it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,
}

impl UngatedAnswer {
    /// The same in words.
    pub(super) fn text(&self) -> String {
        let node = a_node(&self.node);
        match self.verdict {
            Verdict::Fits => format!("would fit on {node}"),
            Verdict::FitsAfterPreemption => format!("would fit on {node} once pods are evicted"),
            Verdict::Error => "could not be scheduled because of an error".to_owned(),
            _ => "would not fit".to_owned(),
        }
    }
}

/// The pods that come to a node, and that leave it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeDifference {
    node: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) added: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) removed: Vec<String>,
}

impl NodeDifference {
    pub(super) fn of(node: &str) -> Self {
        Self { node: node.to_owned(), added: Vec::new(), removed: Vec::new() }
    }

    pub(super) fn cells(&self) -> Vec<String> {
        let Self { node, added, removed } = self;
        vec![node.clone(), added.len().to_string(), removed.len().to_string()]
    }
}
