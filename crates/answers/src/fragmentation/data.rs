//! Fragmentation as data. Amounts are quantities: CPU in thousandths (`1500m`), bytes with a suffix where it
//! is exact (`8Gi`), others in units.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

/// How much of what is free the mix of a cluster's pods could not use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Fragmentation {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    /// The time of the answer. Of an answer that was made from objects, without a running scheduler: the newest timestamp among
    /// the nodes and pods, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) as_of: Option<String>,
    /// The label by whose values nodes are distinguished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) by: Option<String>,
    /// How many pods have one of the shapes that were tried.
    pub pods: usize,
    /// How many other pods of the mix there are, which count for nothing here.
    pub other_pods: usize,
    /// How many shapes of pods there are, with those that were not tried.
    pub n_shapes: usize,
    /// The shapes that were tried, the most frequent first.
    pub shapes: Vec<ShapeAnswer>,
    /// What is free on all nodes, and what of that is of no use.
    pub resources: Vec<FragmentedResource>,
    /// Nodes by the value of the label, if one was given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<NodePool>,
    /// What the reader should know about the answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
}

/// Pods that ask for the same and may go to the same nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShapeAnswer {
    /// One of them, `namespace/name`; empty if the reader may not see it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub example: String,
    /// The number of pods of this shape.
    pub pods: usize,
    /// What each of them requests, as quantities by resource.
    pub requests: BTreeMap<String, String>,
    /// On how many nodes one more of them fits.
    pub feasible: usize,
}

/// Nodes with the same value of a label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePool {
    /// The value; `None` for nodes without the label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The number of nodes in the pool.
    pub nodes: usize,
    /// What is free there, and what of that is of no use.
    pub resources: Vec<FragmentedResource>,
}

/// How much of one resource is free on some nodes, and how much of that is of no use. Amounts are quantities.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FragmentedResource {
    /// The name of the resource.
    pub resource: String,
    /// The sum of what the nodes have for pods.
    pub allocatable: String,
    /// The sum of what the pods on the nodes leave of it.
    pub free: String,
    /// What of that a pod of the mix which asks for the resource cannot use, in the mean.
    pub unusable: String,
    /// `unusable` in thousandths of `free`.
    pub permille: u32,
    /// The same by the plugin that is first in the way, the largest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub because: Vec<FragmentCause>,
}

/// What one plugin keeps from being used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FragmentCause {
    /// The name of the plugin.
    pub plugin: String,
    /// The amount that it keeps from being used, as a quantity.
    pub unusable: String,
}
