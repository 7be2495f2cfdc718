//! The kinds of objects the plugin reads and writes, and the constants that stand in them (`docs/spec/plugins-dra.md` §3).

use kube_scheduler_framework::ObjectStore;
use kube_scheduler_framework::api::Object;
pub(super) use kube_scheduler_framework::api::well_known::{
    CLAIM_FINALIZER, EXTENDED_RESOURCE_CLAIM, RESOURCE_GROUP as GROUP,
};
use std::sync::Arc;

pub(super) const CLAIM: &str = "ResourceClaim";
pub(super) const SLICE: &str = "ResourceSlice";
pub(super) const CLASS: &str = "DeviceClass";
pub(super) const TAINT_RULE: &str = "DeviceTaintRule";

/// What a claim for extended resources is called until the API server has given it a name.
pub(super) const SPECIAL_NAME: &str = "<extended-resources>";

/// A claim as it is expected to be.
pub(super) fn claim<'a>(
    objects: &'a ObjectStore,
    namespace: &str,
    name: &str,
) -> Option<&'a Arc<Object>> {
    objects.latest(GROUP, CLAIM, namespace, name)
}

/// The class of this name.
pub(super) fn class<'a>(objects: &'a ObjectStore, name: &str) -> Option<&'a Arc<Object>> {
    objects.get(GROUP, CLASS, "", name)
}

/// Whether the claim has devices.
pub(super) fn is_allocated(claim: &Object) -> bool {
    !claim.json["status"]["allocation"].is_null()
}
