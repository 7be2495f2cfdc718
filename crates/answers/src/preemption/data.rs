//! A preemption as data.
//!
//! Invariant: the chosen candidate is the first, and each is at least as good as those after it.

use schemars::JsonSchema;
use serde::Serialize;

use crate::explanation::{GroupAnswer, Rejection, Verdict};

/// Which pods would be evicted for a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Preemption {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    /// The pod, `namespace/name`.
    pub(crate) pod: String,
    pub(super) scheduler_name: String,
    /// The priority that victims must be below.
    pub(super) priority: i32,
    /// The time of the answer. Of an answer that was made from objects, without a running scheduler: the newest timestamp among
    /// the nodes and pods, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) as_of: Option<String>,
    /// Whether the pod fits as things are, or once pods are evicted.
    pub verdict: Verdict,
    /// The same of a gated pod if nothing held it back, which is what all the rest of the answer is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_gates: Option<Verdict>,
    /// The verdict in words, where the pod's group is the reason, or that the pod is being deleted.
    #[serde(skip)]
    pub(super) in_words: Option<String>,
    /// Where the pod's group stands, if it has one whose pods are tried together. But for verdicts, the rest of the answer is about
    /// the pod alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupAnswer>,
    /// Where the pod is or fits as things are, or where pods would be evicted for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The pods to evict there, most important first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub victims: Vec<VictimAnswer>,
    /// What decided between the candidates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choice: Option<PreemptionChoice>,
    /// The plugin that makes room, by evicting pods or otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) by: Option<String>,
    /// What the plugins that could make room say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whether that is the text of an error.
    #[serde(skip)]
    pub(super) is_error: bool,
    /// What keeps the pod from being tried, whatever the nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gated: Option<Rejection>,
    /// How many nodes there are.
    pub(super) nodes: usize,
    /// The nodes where evicting pods makes room, the best first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<CandidateAnswer>,
    /// The other nodes, if the pod fits on none, by reasons, the most frequent first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub in_vain: Vec<NodesInVain>,
    /// What the reader should know about the answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
}

/// A pod that would be evicted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VictimAnswer {
    /// The pod, `namespace/name`; empty if the reader may not see it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pod: String,
    pub(super) priority: i32,
    /// When it was started, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) started: Option<String>,
    /// The PodDisruptionBudgets that the eviction violates, by name; they are in the pod's namespace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub violates: Vec<String>,
    /// All PodDisruptionBudgets that cover the pod, by name, whether or not they have room for its eviction: also those with an
    /// empty selector, which preemption does not look at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<String>,
}

/// A node where evicting pods makes room. What is compared comes in the order in which it counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CandidateAnswer {
    /// The node; empty if the reader may not see it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// Whether its pods would be evicted.
    pub chosen: bool,
    /// How many of the victims a disruption budget protects: fewer is better.
    pub pdb_violations: i64,
    /// The priority of the most important victim: lower is better.
    pub highest_priority: i32,
    /// The sum of the victims' priorities. What is compared is that sum with each priority counted from -2147483648: smaller is
    /// better, and so are fewer victims.
    pub(super) priority_sum: i64,
    /// When the first of the most important victims was started, now for one that was not: later is better.
    pub(super) earliest_start: String,
    /// The pods to evict, most important first. Fewer are better.
    pub victims: Vec<VictimAnswer>,
}

/// What decided between the candidates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreemptionChoice {
    /// The best of the other candidates, if there are others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner_up: Option<String>,
    /// The first criterion in which the two differ: `PdbViolations`, `HighestPriority`, `PrioritySum`, `Victims` or
    /// `EarliestStart`; `Order` if none does, and the one that was found first is taken; `OnlyCandidate`.
    pub decided_by: &'static str,
}

/// Nodes where evicting pods makes no room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodesInVain {
    /// The number of these nodes.
    pub count: usize,
    /// The names of some of these nodes, in the scheduler's order.
    pub examples: Vec<String>,
    /// `NotHelpful`: what rejects the node does not depend on its pods. `NoVictims`: it has no pods of lower priority.
    /// `StillRejected`: it would be rejected without all of them. `NotTried`: there were enough candidates, or no plugin tried to
    /// evict pods. `Error`: the trial failed.
    pub code: &'static str,
    /// What rejects the node, as it is or without the pods of lower priority.
    pub rejection: Rejection,
}
