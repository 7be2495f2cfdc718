//! Object metadata.

use serde::Deserialize;

use super::de::{Date, List, Text};
use crate::labels::Labels;

/// `metadata` of any object.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMeta {
    /// Name.
    pub name: Text,
    /// Namespace; empty for cluster-wide kinds.
    pub namespace: Text,
    /// Identity.
    pub uid: Text,
    /// Revision.
    pub resource_version: Text,
    /// Generation of the specification.
    pub generation: Option<i64>,
    /// When the object was created.
    pub creation_timestamp: Date,
    /// When its deletion was requested.
    pub deletion_timestamp: Date,
    /// Labels.
    pub labels: Labels,
    /// Annotations.
    pub annotations: Labels,
    /// Owners.
    pub owner_references: List<OwnerReference>,
}

/// One owner of an object.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// API version.
    pub api_version: Text,
    /// Kind.
    pub kind: Text,
    /// Name.
    pub name: Text,
    /// Identity.
    pub uid: Text,
    /// Whether this owner manages the object.
    pub controller: Option<bool>,
}
