//! Nodes as written.

use serde::Deserialize;

use super::de::{Date, List, ResourceList, Text, or_default};
use super::meta::ObjectMeta;

/// `v1.Node`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Node {
    /// Kind, empty inside lists.
    pub kind: Text,
    /// Metadata.
    #[serde(deserialize_with = "or_default")]
    pub metadata: ObjectMeta,
    /// Specification.
    #[serde(deserialize_with = "or_default")]
    pub spec: NodeSpec,
    /// Status.
    #[serde(deserialize_with = "or_default")]
    pub status: NodeStatus,
}

/// `spec` of a node.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    /// Cordoned.
    pub unschedulable: Option<bool>,
    /// Taints.
    pub taints: List<Taint>,
}

/// One taint.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    /// Key.
    pub key: Text,
    /// Value.
    pub value: Text,
    /// Effect.
    pub effect: Text,
    /// When it was added, as its author says.
    pub time_added: Date,
}

/// `status` of a node.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    /// What pods may use.
    pub allocatable: ResourceList,
    /// Images present.
    pub images: List<ContainerImage>,
    /// Conditions.
    pub conditions: List<NodeCondition>,
    /// Features the node has.
    pub declared_features: List<Text>,
}

/// One image on a node.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerImage {
    /// Names.
    pub names: List<Text>,
    /// Size.
    pub size_bytes: Option<i64>,
}

/// One condition.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeCondition {
    /// Type.
    #[serde(rename = "type")]
    pub kind: Text,
    /// Status.
    pub status: Text,
}
