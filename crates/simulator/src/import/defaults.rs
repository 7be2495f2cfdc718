//! The defaults that an API server would set when an object is created, and those of its checks that nothing else here
//! would make.
//!
//! Invariants: fields that are set are not changed; a field of the wrong type is left for the decoder to reject.

use kube_scheduler_answers::generated_name;
use kube_scheduler_api_types::{DecodeError, Quantity, default_device_requests};
use kube_scheduler_workloads::json::map_at;
use serde_json::{Map, Value};

/// The namespaced kinds among those that scheduling deals with. Objects of other kinds get no namespace.
const NAMESPACED: [&str; 25] = [
    "Pod",
    "PersistentVolumeClaim",
    "CSIStorageCapacity",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "PodDisruptionBudget",
    "PodGroup",
    "CompositePodGroup",
    "Workload",
    "Service",
    "Endpoints",
    "EndpointSlice",
    "ConfigMap",
    "Secret",
    "ServiceAccount",
    "LimitRange",
    "ResourceQuota",
    "ReplicationController",
    "Deployment",
    "ReplicaSet",
    "StatefulSet",
    "DaemonSet",
    "Job",
    "CronJob",
    "JobSet",
];

/// The other kinds of a cluster that scheduling deals with.
const CLUSTER_WIDE: [&str; 11] = [
    "Node",
    "Namespace",
    "PersistentVolume",
    "StorageClass",
    "CSINode",
    "CSIDriver",
    "VolumeAttachment",
    "PriorityClass",
    "ResourceSlice",
    "DeviceClass",
    "DeviceTaintRule",
];

/// Whether objects of this kind decide about pods, stand for some, or usually come with them.
pub(super) fn is_known(kind: &str) -> bool {
    NAMESPACED.contains(&kind) || CLUSTER_WIDE.contains(&kind)
}

fn is_absent(map: &Map<String, Value>, key: &str) -> bool {
    match map.get(key) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false,
    }
}

/// The namespace of what names none in a cluster's manifests.
pub(super) const DEFAULT_NAMESPACE: &str = "default";

/// Fills in namespace, name and UID. Returns false if there is neither a name nor a prefix for one. `n_generated` counts
/// generated names over the whole input, so that they differ.
pub(super) fn complete_name(value: &mut Value, namespace: &str, n_generated: &mut usize) -> bool {
    let Some(object) = value.as_object_mut() else { return false };
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    let Some(metadata) = map_at(object, "metadata") else { return true };
    if NAMESPACED.contains(&kind.as_str()) && is_absent(metadata, "namespace") {
        metadata.insert("namespace".to_owned(), namespace.into());
    }
    if is_absent(metadata, "name") {
        let Some(prefix) =
            metadata.get("generateName").and_then(Value::as_str).filter(|text| !text.is_empty())
        else {
            return false;
        };
        *n_generated += 1;
        let name = generated_name(prefix, *n_generated);
        metadata.insert("name".to_owned(), name.into());
    }
    if is_absent(metadata, "uid") {
        let text = |key: &str| metadata.get(key).and_then(Value::as_str).unwrap_or_default();
        let uid = format!("{}:{}/{}", kind.to_lowercase(), text("namespace"), text("name"));
        metadata.insert("uid".to_owned(), uid.into());
    }
    true
}

/// Gives a pod that is asked about a UID that no pod of the cluster has. It must have its name.
pub(super) fn set_uid_of_question(pod: &mut Value) {
    let Some(metadata) = pod.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let text = |key: &str| metadata.get(key).and_then(Value::as_str).unwrap_or_default();
    let uid = format!("question:pod:{}/{}", text("namespace"), text("name"));
    metadata.insert("uid".to_owned(), uid.into());
}

/// Sets how many devices the requests of a claim, or of a template of claims, are for.
pub(super) fn complete_claim(value: &mut Value) {
    let spec = match value.get("kind").and_then(Value::as_str) {
        Some("ResourceClaim") => "/spec",
        Some("ResourceClaimTemplate") => "/spec/spec",
        _ => return,
    };
    if let Some(spec) = value.pointer_mut(spec) {
        default_device_requests(spec);
    }
}

/// Without an allocatable, a node's whole capacity is allocatable.
pub(super) fn complete_node(value: &mut Value) {
    let Some(status) = value.get_mut("status").and_then(Value::as_object_mut) else { return };
    if status.get("allocatable").is_none_or(Value::is_null)
        && let Some(capacity) = status.get("capacity").cloned()
    {
        status.insert("allocatable".to_owned(), capacity);
    }
}

/// Makes the checks of an API server that the decoder of pods does not make.
pub(super) fn check_pod(value: &Value) -> Result<(), DecodeError> {
    let refuse = |path: String, reason: String| {
        let text = |pointer| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let object = format!("pod {}/{}", text("/metadata/namespace"), text("/metadata/name"));
        Err(DecodeError { object, path, reason })
    };
    let containers = value.pointer("/spec/containers");
    if containers.is_none_or(|list| list.is_null() || list.as_array().is_some_and(Vec::is_empty)) {
        return refuse(
            "spec.containers".to_owned(),
            "required: a pod has at least one container".to_owned(),
        );
    }
    for list in ["initContainers", "containers"] {
        let containers = value.pointer(&format!("/spec/{list}")).and_then(Value::as_array);
        for (idx, container) in containers.into_iter().flatten().enumerate() {
            for amounts in ["limits", "requests"] {
                let path = format!("spec.{list}[{idx}].resources.{amounts}");
                if let Err(bad) =
                    check_amounts(container.pointer(&format!("/resources/{amounts}")), &path)
                {
                    return refuse(bad.path, bad.reason);
                }
            }
        }
    }
    for path in ["resources/limits", "resources/requests", "overhead"] {
        let amounts = value.pointer(&format!("/spec/{path}"));
        if let Err(bad) = check_amounts(amounts, &format!("spec.{}", path.replace('/', "."))) {
            return refuse(bad.path, bad.reason);
        }
    }
    Ok(())
}

/// Makes the checks of an API server that the decoder of nodes does not make.
pub(super) fn check_node(value: &Value) -> Result<(), DecodeError> {
    let checked = check_amounts(value.pointer("/status/allocatable"), "status.allocatable");
    checked.map_err(|BadAmount { path, reason }| {
        let name = value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        DecodeError { object: format!("node {name}"), path, reason }
    })
}

/// An amount of a resource that is invalid.
struct BadAmount {
    path: String,
    reason: String,
}

fn check_amounts(amounts: Option<&Value>, path: &str) -> Result<(), BadAmount> {
    let Some(amounts) = amounts.and_then(Value::as_object) else { return Ok(()) };
    for (name, amount) in amounts {
        let reason = match Quantity::from_json(amount) {
            Ok(quantity) if quantity.sign() >= 0 => continue,
            Ok(_) => format!("{amount} is negative, expected 0 or more"),
            Err(error) => error.to_string(),
        };
        return Err(BadAmount { path: format!("{path}[{name}]"), reason });
    }
    Ok(())
}
