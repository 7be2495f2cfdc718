//! What the storage plugins share: volumes, claims and classes as they read them, and the words for what is missing.
//!
//! Objects of the storage kinds are kept as JSON in the cluster's object store; the views here read the fields that
//! scheduling cares about, with the API's defaults. A field of the wrong type reads as absent, since one bad object
//! must not stop a scheduler.
//!
//! Answers to `component-helpers/storage`, `csi-translation-lib` and the listers of the reference; behaviour in
//! `docs/spec/plugins-storage.md` §1 and §2.

mod csi_topology;
mod lookup;
mod node_objects;
mod objects;
mod pod_claims;
mod signature;

pub(crate) use csi_topology::translated_node_affinity;
pub(crate) use lookup::{
    claim, csi_driver, csi_node, is_delay_binding, storage_class, storage_classes, volume,
};
pub(crate) use node_objects::{CsiDriver, CsiNode};
pub(crate) use objects::{PersistentVolume, StorageClass, StorageObject, VolumeClaim, amount};
pub(crate) use pod_claims::{check_ownership, has_claims, names_claim, plain_claims, uses_claim};
pub(crate) use signature::write_volumes;

/// What separates several zones in one label value.
pub(crate) const ZONE_DELIMITER: &str = "__";
