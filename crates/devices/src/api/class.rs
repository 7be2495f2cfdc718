//! DeviceClasses: kinds of devices that an administrator has named.

use std::sync::Arc;

use kube_scheduler_api_types::{Json, Timestamp};
use serde::Deserialize;

use super::claim::{DeviceSelector, opaque_configs};
use super::decode::{ObjectError, Parts, decode, list, text};

/// A DeviceClass: which devices belong to it, and how they are configured.
#[derive(Clone, Debug, Default)]
pub struct DeviceClass {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// What devices must match to belong to the class.
    pub selectors: Vec<DeviceSelector>,
    /// Configuration of every device of the class, each as its `opaque` part in JSON.
    pub config: Vec<Option<Json>>,
    /// The extended resource that the class provides, empty for none.
    pub extended_resource_name: Arc<str>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(deserialize_with = "list")]
    selectors: Vec<DeviceSelector>,
    #[serde(deserialize_with = "opaque_configs")]
    config: Vec<Option<Json>>,
    #[serde(deserialize_with = "text")]
    extended_resource_name: Arc<str>,
}

impl DeviceClass {
    /// Reads a DeviceClass.
    ///
    /// # Errors
    /// If a field has the wrong type.
    pub fn from_json(json: &Json) -> Result<Self, ObjectError> {
        let Parts::<Spec> { metadata, spec } = decode("DeviceClass", json)?;
        Ok(Self {
            name: metadata.name.0,
            created: metadata.creation_timestamp.0,
            selectors: spec.selectors,
            config: spec.config,
            extended_resource_name: spec.extended_resource_name,
        })
    }
}
