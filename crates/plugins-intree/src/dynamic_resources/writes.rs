//! How claims and pods are changed at the API server (`docs/spec/plugins-dra.md` §16).
//!
//! Invariant: what is written of a claim is the JSON it came from with single fields changed, so that fields which this
//! version does not know stay as they are.

use std::sync::Arc;

use kube_scheduler_devices::api::{Allocation, Consumer};
use kube_scheduler_framework::api::{
    Json, NodeResourceClaim, Object, Pod, RequestMapping, Timestamp,
};
use kube_scheduler_framework::{ObjectKey, ObjectWrite};
use serde_json::{Map, Value, json};

use super::kinds;

/// Whether the claim has the finalizer that keeps it while its devices are allocated.
pub(super) fn has_finalizer(object: &Object) -> bool {
    finalizers(object).any(|finalizer| *finalizer == *kinds::CLAIM_FINALIZER)
}

fn finalizers(object: &Object) -> impl Iterator<Item = &Json> {
    object.json["metadata"]["finalizers"].as_array().into_iter().flatten()
}

/// Adds the finalizer unless it is there.
pub(super) fn add_finalizer(object: &mut Object) {
    if !has_finalizer(object) {
        let all = finalizers(object).cloned().chain([kinds::CLAIM_FINALIZER.into()]).collect();
        object.set_field(&["metadata", "finalizers"], all);
    }
}

/// Gives the claim its devices.
pub(super) fn set_allocation(object: &mut Object, allocation: &Allocation) {
    object.set_field(&["status", "allocation"], allocation.to_json().into());
}

/// Notes when the claim got its devices, unless that is known.
pub(super) fn set_allocation_time(object: &mut Object, now: Timestamp) {
    if object.json["status"]["allocation"]["allocationTimestamp"].is_null() {
        let time = now.floor_to_second().to_string();
        object.set_field(&["status", "allocation", "allocationTimestamp"], time.into());
    }
}

/// The pod as a consumer of claims.
pub(super) fn consumer(pod: &Pod) -> Consumer {
    Consumer {
        api_group: Arc::default(),
        resource: "pods".into(),
        name: pod.name.clone(),
        uid: pod.uid.clone(),
    }
}

/// Lets a pod use the claim, or a group's pods.
pub(super) fn add_reservation(object: &mut Object, consumer: &Consumer) {
    let present = object.json["status"]["reservedFor"].as_array();
    let Consumer { api_group, resource, name, uid } = consumer;
    let mut consumer = json!({"resource": **resource, "name": **name, "uid": **uid});
    if !api_group.is_empty() {
        consumer["apiGroup"] = json!(**api_group);
    }
    let consumers = present.into_iter().flatten().cloned().chain([consumer.into()]).collect();
    object.set_field(&["status", "reservedFor"], consumers);
}

/// The claim without devices and reservations.
pub(super) fn deallocated(object: &Object) -> Object {
    let mut json = (*object.json).clone();
    for field in ["reservedFor", "allocation", "devices"] {
        json.remove(&["status", field]);
    }
    object.clone().with_json(json)
}

/// Whether the pod or the group with this UID may use the claim.
pub(super) fn is_reserved_for(object: &Object, consumer_uid: &str) -> bool {
    let reserved = object.json["status"]["reservedFor"].as_array().into_iter().flatten();
    reserved.into_iter().any(|consumer| consumer["uid"] == *consumer_uid)
}

/// Whether the claim has been given these devices.
pub(super) fn has_allocation(object: &Object, allocation: &Allocation) -> bool {
    without_time(Value::from(&object.json["status"]["allocation"]))
        == without_time(allocation.to_json())
}

/// Whether the claim had devices before, and has others now.
///
/// Parity: the reference reserves such a claim and binds the pod to the node of the devices before.
pub(super) fn are_devices_exchanged(before: &Object, now: &Object) -> bool {
    let devices = |object: &Object| without_time(Value::from(&object.json["status"]["allocation"]));
    let (before, now) = (devices(before), devices(now));
    !before.is_null() && !now.is_null() && before != now
}

/// The time is added when the allocation is written.
fn without_time(mut allocation: Value) -> Value {
    if let Some(fields) = allocation.as_object_mut() {
        fields.remove("allocationTimestamp");
    }
    allocation
}

/// The write that takes the right to use a claim from the pod or the group with this UID.
///
/// Parity: the reference names no revision. Its patch may arrive long after it was given up, and take away what the pod has
/// reserved since.
pub(super) fn unreserve(object: &Object, claim_uid: &str, consumer_uid: &str) -> ObjectWrite {
    taken_back(object, claim_uid, consumer_uid, false)
}

/// The same for a group. A pod's requests go out in order, but another member of the group may reserve the claim again at the same
/// time: the patch must not be tried again on a revision that has that.
pub(super) fn unreserve_group(object: &Object, claim_uid: &str, group_uid: &str) -> ObjectWrite {
    taken_back(object, claim_uid, group_uid, true)
}

fn taken_back(object: &Object, claim_uid: &str, consumer_uid: &str, is_final: bool) -> ObjectWrite {
    let mut patch = json!({
        "metadata": {"uid": claim_uid},
        "status": {"reservedFor": [{"$patch": "delete", "uid": consumer_uid}]},
    });
    if !object.resource_version.is_empty() {
        patch["metadata"]["resourceVersion"] = json!(*object.resource_version);
    }
    ObjectWrite::PatchStatus { object: object.into(), patch: patch.into(), is_final }
}

/// Takes the reservations of the pod or the group with this UID out of a claim.
pub(super) fn remove_reservation(object: &mut Object, consumer_uid: &str) {
    let present = object.json["status"]["reservedFor"].as_array().into_iter().flatten();
    let left = present.into_iter().filter(|consumer| consumer["uid"] != *consumer_uid);
    let left = left.cloned().collect();
    object.set_field(&["status", "reservedFor"], left);
}

/// The write that deletes a special claim, without the finalizer that would keep it.
pub(super) fn delete_special(object: &Arc<Object>) -> ObjectWrite {
    ObjectWrite::Delete { object: object.clone(), finalizer: Some(kinds::CLAIM_FINALIZER.into()) }
}

/// The special claim as it is created: without what it has only in memory.
pub(super) fn to_create(variant: &Object) -> Object {
    let mut json = (*variant.json).clone();
    json.remove(&["metadata", "name"]);
    json.remove(&["metadata", "uid"]);
    let mut object = variant.clone().with_json(json);
    (object.name, object.uid) = Default::default();
    object
}

/// The write that shows the kubelet which request of the special claim serves which container.
pub(super) fn special_status(pod: &Pod, claim: &str, mappings: &[RequestMapping]) -> ObjectWrite {
    let mappings = mappings.iter().map(|mapping| {
        json!({
            "containerName": *mapping.container_name,
            "resourceName": *mapping.resource_name,
            "requestName": *mapping.request_name,
        })
    });
    let mappings: Vec<Value> = mappings.collect();
    let status = json!({"requestMappings": mappings, "resourceClaimName": claim});
    pod_status(pod, json!({"extendedResourceClaimStatus": status}))
}

/// The write that says what the pod's claims take of its node's resources.
pub(super) fn node_resources(pod: &Pod, claims: &[NodeResourceClaim]) -> ObjectWrite {
    let entries = claims.iter().map(|claim| {
        let resources = claim.resources.iter();
        let resources: Map<String, Value> =
            resources.map(|(name, amount)| (name.to_string(), amount.canonical().into())).collect();
        json!({
            "resourceClaimName": *claim.claim,
            "containers": claim.containers.iter().map(|name| &**name).collect::<Vec<_>>(),
            "resources": resources,
        })
    });
    let entries: Vec<Value> = entries.collect();
    let entries = if entries.is_empty() { Value::Null } else { Value::Array(entries) };
    pod_status(pod, json!({ "nodeAllocatableResourceClaimStatuses": entries }))
}

/// A change of some fields of a pod's status.
pub(super) fn pod_status(pod: &Pod, status: Value) -> ObjectWrite {
    let object = ObjectKey {
        group: "".into(),
        kind: "Pod".into(),
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
    };
    ObjectWrite::PatchStatus { object, patch: json!({ "status": status }).into(), is_final: false }
}
