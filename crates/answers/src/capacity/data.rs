//! A capacity as data.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::explanation::Explanation;

/// How many more pods like a template fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Capacity {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    /// The time of the answer. Of an answer that was made from objects, without a running scheduler: the newest timestamp among
    /// the nodes and pods, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) as_of: Option<String>,
    /// The template, `namespace/name`.
    pub(super) template: String,
    /// How many more of these pods fit.
    pub count: usize,
    /// Whether counting ended because more were not asked for.
    pub is_limit: bool,
    /// The number of nodes that they go to.
    pub n_nodes: usize,
    /// How many of them by node; empty if the reader may not list nodes.
    pub by_node: BTreeMap<String, usize>,
    /// How far each request of the template may grow; empty if it does not fit as it is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub largest: Vec<LargestRequest>,
    /// What limits the pods as they are added, if that was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<CapacityStep>,
    /// Why one more pod does not fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<Explanation>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
}

/// The largest request for one resource with which one pod fits, all its other requests being as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LargestRequest {
    /// The name of the resource.
    pub resource: String,
    /// What the containers of the template ask for together, as a quantity.
    pub requested: String,
    /// The most that they may ask for; `None` if nothing limits it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest: Option<String>,
    /// What the pod's overhead adds to each of both, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overhead: Option<String>,
    /// The node that a pod with the largest request goes to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

/// A stretch during which the same things limit the pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityStep {
    /// How many pods had been added when it began.
    pub from: usize,
    /// How many pods had been added when it ended.
    pub to: usize,
    /// How many nodes the next pod fitted on when it began.
    pub feasible_from: usize,
    /// How many at the last moment of it that was looked at.
    pub feasible_to: usize,
    /// What was first in the way on the other nodes at that moment.
    pub limits: Vec<LimitAnswer>,
}

/// One plugin's reasons that keep the next pod from some nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LimitAnswer {
    /// The name of the plugin.
    pub plugin: String,
    /// Its reasons, as in events.
    pub reasons: Vec<String>,
    /// The number of nodes that it rejects for these reasons.
    pub nodes: usize,
    /// Whether the reasons are those of an error.
    #[serde(skip)]
    pub(super) is_error: bool,
}
