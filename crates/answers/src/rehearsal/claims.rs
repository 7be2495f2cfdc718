//! What becomes of claims of devices when their pod is gone.

use std::sync::Arc;

use kube_scheduler_api_types::well_known::{CLAIM_FINALIZER, RESOURCE_GROUP};
use kube_scheduler_api_types::{Json, Object};
use kube_scheduler_framework::ObjectStore;

use super::volumes::revised;

/// What the controller of claims does once a pod is gone.
#[derive(Debug, Default)]
pub(crate) struct ClaimRelease {
    /// Claims without the pod's reservation; without the last one, they lose their allocation.
    pub(crate) changed: Vec<Arc<Object>>,
    /// Claims that were generated for the pod.
    pub(crate) removed: Vec<Arc<Object>>,
}

/// Releases the claims of a pod that is gone.
pub(crate) fn release(objects: &ObjectStore, namespace: &str, pod_uid: &str) -> ClaimRelease {
    let mut released = ClaimRelease::default();
    for claim in objects.list_in(RESOURCE_GROUP, "ResourceClaim", namespace) {
        if list(&claim.json["metadata"]["ownerReferences"]).any(|owner| owner["uid"] == pod_uid) {
            released.removed.push(claim.clone());
            continue;
        }
        let reserved = &claim.json["status"]["reservedFor"];
        let left: Vec<Json> =
            list(reserved).filter(|consumer| consumer["uid"] != pod_uid).cloned().collect();
        if left.len() == list(reserved).count() {
            continue;
        }
        let changed = if left.is_empty() {
            let finalizers = list(&claim.json["metadata"]["finalizers"]);
            let others =
                finalizers.filter(|finalizer| *finalizer != CLAIM_FINALIZER).cloned().collect();
            revised(claim, [(&["metadata", "finalizers"], others), (&["status"], Json::Null)])
        } else {
            revised(claim, [(&["status", "reservedFor"], left.into())])
        };
        released.changed.push(Arc::new(changed));
    }
    released
}

fn list(value: &Json) -> impl Iterator<Item = &Json> {
    value.as_array().into_iter().flatten()
}
