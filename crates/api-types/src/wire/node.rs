//! Nodes as written.

use serde::Deserialize;

use super::de::{Date, List, ResourceList, Text, or_default};
use super::meta::ObjectMeta;

/// `v1.Node`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Node {
    /// The kind, `Node`; empty inside lists.
    pub kind: Text,
    /// Name, labels and the like.
    #[serde(deserialize_with = "or_default")]
    pub metadata: ObjectMeta,
    /// Taints and whether the node is cordoned.
    #[serde(deserialize_with = "or_default")]
    pub spec: NodeSpec,
    /// What the node has.
    #[serde(deserialize_with = "or_default")]
    pub status: NodeStatus,
}

/// `spec` of a node.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    /// Whether the node is cordoned.
    pub unschedulable: Option<bool>,
    /// The taints of the node, in order.
    pub taints: List<Taint>,
}

/// One taint of a node.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    /// Key of the taint.
    pub key: Text,
    /// Value of the taint.
    pub value: Text,
    /// Effect of the taint, such as `NoSchedule`.
    pub effect: Text,
    /// When it was added, as its author says.
    pub time_added: Date,
}

/// `status` of a node.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    /// What the node has for pods, by resource.
    pub allocatable: ResourceList,
    /// The images that are on the node.
    pub images: List<ContainerImage>,
    /// The conditions of the node.
    pub conditions: List<NodeCondition>,
    /// The features that the node declares.
    pub declared_features: List<Text>,
}

/// One image on a node.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerImage {
    /// All names of the image.
    pub names: List<Text>,
    /// Size of the image in bytes.
    pub size_bytes: Option<i64>,
}

/// One condition of a node.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeCondition {
    /// Type of the condition, such as `Ready`.
    #[serde(rename = "type")]
    pub kind: Text,
    /// `True`, `False` or `Unknown`.
    pub status: Text,
}
