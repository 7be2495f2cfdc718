//! An explanation as data.
//!
//! Invariants: `nodes` is the number of feasible nodes plus the counts of all `rejected`, unless an `error` ended the
//! evaluation; no two of `rejected` have the same rejections.

use kube_scheduler_api_types::Pod;
use schemars::JsonSchema;
use serde::Serialize;

use super::group::GroupAnswer;

/// Whether a pod fits, as things are now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub enum Verdict {
    /// It fits on at least one node.
    Fits,
    /// It fits on no node, but would if pods are evicted for it.
    FitsAfterPreemption,
    /// It fits on no node.
    DoesNotFit,
    /// A plugin failed, or the attempt is refused.
    Error,
    /// It has its node: nothing is to be decided.
    Bound,
    /// It is not tried at all while something holds it back, such as scheduling gates.
    Gated,
}

/// Why a pod goes where it goes, or nowhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    /// The pod, `namespace/name`.
    pub(super) pod: String,
    pub(crate) scheduler_name: String,
    /// The time of the answer. Of an answer that was made from objects, without a running scheduler: the newest timestamp among
    /// the nodes and pods, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) as_of: Option<String>,
    /// Whether the pod fits, as things are now.
    pub verdict: Verdict,
    /// Whether a gated pod would fit if nothing held it back, which is what all the rest of the answer is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_gates: Option<Verdict>,
    /// Whether that is how it fares with its group, and not how it would fare alone.
    #[serde(skip)]
    pub(crate) is_by_group: bool,
    /// Whether it is going away, so that it is not tried at all.
    #[serde(skip)]
    pub(crate) is_being_deleted: bool,
    /// The text of the event if an attempt failed now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The events that may bring the pod back once an attempt has found what is said here. Empty where `place` has those of an
    /// earlier attempt.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<String>,
    /// Where the pod is; `None` for one that does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<PlaceAnswer>,
    /// Where the pod's group stands, if it has one whose pods are tried together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupAnswer>,
    /// What keeps the pod from being tried, whatever the nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gated: Option<Rejection>,
    /// Rejections of the pod as a whole, before any node was looked at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) pod_rejections: Vec<Rejection>,
    /// The number of nodes that were looked at.
    pub nodes: usize,
    /// The number of these nodes that the pod fits on.
    pub n_feasible: usize,
    /// The node that an attempt would choose now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// Nodes that it fits on, the best first, then in the scheduler's order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub feasible: Vec<FeasibleNode>,
    /// Nodes that it does not fit on, by reasons, the most frequent first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<RejectedNodes>,
    /// What looking for pods to evict gives, if it fits nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemption: Option<PreemptionAnswer>,
    /// The error that ended the evaluation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Rejection>,
    /// Changes that make it fit, smallest first, if they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub suggestions: Vec<Suggestion>,
    /// What the reader should know about the answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
}

impl Explanation {
    /// Whether it fits, if nothing holds it back.
    pub(crate) fn judged(&self) -> Verdict {
        self.without_gates.unwrap_or(self.verdict)
    }

    /// Whether it gets no node as things are, and nothing has failed.
    pub(crate) fn is_rejected(&self) -> bool {
        !self.is_being_deleted
            && matches!(self.judged(), Verdict::DoesNotFit | Verdict::FitsAfterPreemption)
    }

    /// Whether changes help only if the whole group of the pod then fits.
    pub(crate) fn is_up_to_group(&self) -> bool {
        self.group.as_ref().is_some_and(GroupAnswer::is_stuck)
    }

    /// What was found about a copy of `pod`, said of the pod: where the copy is says nothing.
    pub(crate) fn about_another(self, pod: &Pod) -> Self {
        Self { pod: pod.key(), place: None, waits_for: Vec::new(), ..self }
    }

    /// Says that it fits or does not, if nothing holds it back, because its group fits or does not.
    pub(super) fn judge_by_group(&mut self, verdict: Verdict) {
        self.is_by_group = true;
        match &mut self.without_gates {
            Some(judged) => *judged = verdict,
            None => self.verdict = verdict,
        }
    }
}

/// Where a pod is, and what it waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlaceAnswer {
    /// `Active`, `Backoff`, `Unschedulable`, `Gated`, `InFlight`, `WaitingOnPermit`, `Binding`, `Bound`, `BeingDeleted` or
    /// `NotOurs`.
    pub stage: &'static str,
    /// Until when, if it is tried again by time alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<String>,
    /// The plugins that hold it at this stage.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held_by: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) nominated_node: Option<String>,
    /// How many times the scheduler has tried the pod so far.
    pub attempts: u32,
    /// The plugins that rejected it in its last attempt.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) rejected_by: Vec<String>,
    /// The events that may bring it back.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) waits_for: Vec<String>,
    /// Whether pods are being evicted for it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_preempting: bool,
}

/// One plugin's rejection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rejection {
    /// The plugin; empty if the answer is of several.
    pub plugin: String,
    /// `Unschedulable`, `UnschedulableAndUnresolvable` (evicting pods does not help), `Pending`, or `Error`.
    pub code: &'static str,
    /// The plugin's reasons, in its words.
    pub reasons: Vec<String>,
}

/// Nodes that are rejected for the same reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RejectedNodes {
    /// The number of these nodes.
    pub count: usize,
    /// The names of some of these nodes, in the scheduler's order.
    pub examples: Vec<String>,
    /// All that is in the way. The first is what an attempt reports.
    pub rejections: Vec<Rejection>,
    /// What the nodes lack, where a plugin can count it; in the order in which plugins say so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shortages: Vec<ShortageAnswer>,
}

/// Things of which nodes have too few, summed up over the nodes of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShortageAnswer {
    /// The plugin that counted the things.
    pub plugin: String,
    /// What the things are for, such as a request of a claim.
    pub subject: String,
    /// How many are needed on one node.
    pub needed: usize,
    /// On how many nodes of the group they were counted.
    pub nodes: usize,
    /// How many are left on the node that has most left. Not fewer than are needed if they cannot be had together.
    pub most_left: usize,
    /// How many there are on these nodes.
    pub present: usize,
    /// How many of them cannot be had, by reason, the most frequent first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<LostAnswer>,
}

/// Things that cannot be had for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LostAnswer {
    /// Why the things cannot be had.
    pub reason: &'static str,
    /// How many things cannot be had for this reason.
    pub count: usize,
}

/// A node that the pod fits on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeasibleNode {
    /// The name of the node.
    pub node: String,
    /// Whether no other has a higher total.
    pub best: bool,
    /// The sum of all weighted scores, if scoring worked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<i64>,
    /// By plugin, in their order; plugins that skip the pod are not listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<ScoreAnswer>,
}

/// What one plugin gives one node: `weighted` is `normalized` times `weight`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScoreAnswer {
    /// The name of the plugin.
    pub plugin: String,
    pub(super) raw: i64,
    /// From 0 to 100.
    pub(super) normalized: i64,
    pub(super) weight: i64,
    /// What counts towards the node's total: `normalized` times `weight`.
    pub weighted: i64,
}

/// The choice among the feasible nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// The node; empty if the reader may not see it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// How far its total is above that of the best node that is not as good; `None` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub margin: Option<i64>,
    /// How many nodes have the same total, this one included.
    pub ties: usize,
    /// Whether it was chosen because the pod is nominated to it, whatever the scores.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) by_nomination: bool,
}

/// Whether evicting other pods would make room for the pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreemptionAnswer {
    /// Whether evicting pods makes room.
    pub helps: bool,
    /// Where.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<String>,
    /// The pods to evict, most important first, `namespace/name`; empty where the reader may not see the pod.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub victims: Vec<String>,
    /// Why it does not help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    /// Whether that is the text of an error.
    #[serde(skip)]
    pub(crate) is_error: bool,
}

/// One change that makes the pod fit, or several that do so together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Suggestion {
    /// The kinds of change: `LowerRequest`, `Tolerate`, `RaiseMaxSkew`, `SoftenSpreadConstraint`, `DropSpreadConstraint`,
    /// `DropPodAffinityTerm`, `DropPodAffinity`, `DropPodAntiAffinityTerm`, `DropPodAntiAffinity`, `DropHostPort`,
    /// `DropHostPorts`, `DropNodeSelectorLabel`, `DropNodeSelector`, `DropNodeAffinity`, `LowerDeviceCount`,
    /// `DropDeviceSelector`, `DropDeviceConstraint`, `MoveVolume`, `AllowTopology`, `Uncordon`, `ScaleDown`, `RaisePriority`,
    /// `AddNodeLike`, `LowerMinCount`.
    pub codes: Vec<&'static str>,
    /// The changes in words.
    pub changes: Vec<String>,
    /// How large they are together; suggestions come smallest first. Lowering a request or a number of devices by p percent
    /// counts p, a toleration 20, a higher maxSkew 20 and one for each that it is higher but 29 at most, a spread constraint that
    /// is softened or dropped 30, pod affinity 35 and one of its terms 32, anti-affinity and host ports 40 and one of these 38,
    /// a selector or constraint of devices 40, node selectors and node affinity 45 and one label 40, topologies of a storage
    /// class 45, a cordon 50, fewer pods of a workload 55 and five for each, a priority 60 and one for each victim, a volume at
    /// another place 70, a node 80 and ten for each further one, a lower minCount of a pod group 55 and five for each pod less.
    pub size: u32,
    /// On how many nodes the pod itself then fits, without any eviction.
    pub n_feasible: usize,
    /// Pods that would be evicted, `namespace/name`; empty where the reader may not see the pod.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub victims: Vec<String>,
}
