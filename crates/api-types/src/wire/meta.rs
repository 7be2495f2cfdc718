//! Object metadata.

use serde::Deserialize;

use super::de::{Date, List, Text};
use crate::labels::Labels;

/// `metadata` of any object.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMeta {
    /// Name of the object, unique among those of its kind and namespace.
    pub name: Text,
    /// Namespace; empty for cluster-wide kinds.
    pub namespace: Text,
    /// The identity of the object, which no other object ever has.
    pub uid: Text,
    /// The revision of the object, an opaque text.
    pub resource_version: Text,
    /// The generation, which grows with changes of the specification.
    pub generation: Option<i64>,
    /// When the object was created.
    pub creation_timestamp: Date,
    /// When its deletion was requested.
    pub deletion_timestamp: Date,
    /// The labels of the object.
    pub labels: Labels,
    /// The annotations of the object.
    pub annotations: Labels,
    /// The objects that own this one.
    pub owner_references: List<OwnerReference>,
}

/// One owner of an object.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// API version of the owner, such as `apps/v1`.
    pub api_version: Text,
    /// Kind of the owner, such as `ReplicaSet`.
    pub kind: Text,
    /// Name of the owner.
    pub name: Text,
    /// UID of the owner.
    pub uid: Text,
    /// Whether this owner manages the object.
    pub controller: Option<bool>,
}
