//! The API server and the volume controllers of a simulated cluster, as far as volumes and claims are concerned that the
//! scheduler writes. Every step is taken at once and succeeds.
//!
//! A claim gets the volume that the scheduler has reserved for it. For a claim with a selected node the provisioner of its
//! class makes a volume of exactly the requested size that can be used on every node, since the topology of drivers is not
//! known here.

use std::sync::Arc;

use kube_scheduler_api_types::Object;
use kube_scheduler_cache::storage_class_of;
use kube_scheduler_framework::{ApiError, ObjectStore};
use serde_json::{Value, json};

const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// What follows from a write.
pub(crate) struct WriteOutcome {
    /// The API server's answer.
    pub(crate) result: Result<Arc<Object>, ApiError>,
    /// All objects that changed, in the order in which a watch reports them.
    pub(crate) changed: Vec<Arc<Object>>,
}

/// Writes an object.
pub(crate) fn write(objects: &ObjectStore, object: &Object) -> WriteOutcome {
    let stored = match stored(objects, object) {
        Ok(stored) => Arc::new(stored),
        Err(error) => return WriteOutcome { result: Err(error), changed: Vec::new() },
    };
    let mut changed = vec![stored.clone()];
    changed.extend(consequences(objects, &stored).into_iter().map(Arc::new));
    WriteOutcome { result: Ok(stored), changed }
}

/// The object as the API server stores it.
fn stored(objects: &ObjectStore, object: &Object) -> Result<Object, ApiError> {
    let Object { group, kind, namespace, name, .. } = object;
    let resource = format!("{}s", kind.to_lowercase());
    match objects.get(group, kind, namespace, name) {
        None => Err(ApiError { code: None,
            reason: "NotFound".into(),
            message: format!("{resource} \"{name}\" not found").into(),
        }),
        Some(known) if known.resource_version != object.resource_version => Err(ApiError { code: None,
            reason: "Conflict".into(),
            message: format!(
                "Operation cannot be fulfilled on {resource} \"{name}\": the object has been modified; please apply your changes to the latest version and try again"
            )
            .into(),
        }),
        Some(_) => Ok(revised(object, [])),
    }
}

/// The next revision of an object, with new values in some fields.
fn revised<const N: usize>(object: &Object, fields: [(&[&str], Value); N]) -> Object {
    let number: u64 = object.resource_version.parse().unwrap_or_default();
    let resource_version = number.saturating_add(1).to_string();
    let mut revised = object.clone();
    for (path, value) in fields {
        revised.set_field(path, value);
    }
    revised.set_field(&["metadata", "resourceVersion"], resource_version.as_str().into());
    revised.resource_version = resource_version.into();
    revised
}

/// The objects that controllers change because of a write.
fn consequences(objects: &ObjectStore, written: &Object) -> Vec<Object> {
    match (&*written.group, &*written.kind) {
        ("", "PersistentVolume") => {
            let reference = &written.json["spec"]["claimRef"];
            let field = |name: &str| reference[name].as_str().unwrap_or_default();
            let claim = objects.get("", "PersistentVolumeClaim", field("namespace"), field("name"));
            let Some(claim) = claim.filter(|claim| *claim.uid == *field("uid")) else {
                return Vec::new();
            };
            let volume = revised(written, [(&["status", "phase"], "Bound".into())]);
            vec![volume, bound(claim, &written.name)]
        }
        ("", "PersistentVolumeClaim")
            if written.json["metadata"]["annotations"][SELECTED_NODE].is_string() =>
        {
            match provisioned(objects, written) {
                Some(volume) => {
                    let claim = bound(written, &volume.name);
                    vec![volume, claim]
                }
                None => Vec::new(),
            }
        }
        _ => Vec::new(),
    }
}

/// The claim, bound to its volume.
fn bound(claim: &Object, volume: &str) -> Object {
    revised(
        claim,
        [
            (&["spec", "volumeName"], volume.into()),
            (&["metadata", "annotations", BIND_COMPLETED], "yes".into()),
            (&["status", "phase"], "Bound".into()),
        ],
    )
}

/// The volume that the provisioner of the claim's class makes; `None` if it makes none.
fn provisioned(objects: &ObjectStore, claim: &Object) -> Option<Object> {
    let class = storage_class_of(claim);
    let class_object = objects.get("storage.k8s.io", "StorageClass", "", class)?;
    let provisioner = class_object.json["provisioner"].as_str().unwrap_or_default();
    let name = format!("pvc-{}", claim.uid);
    if matches!(provisioner, "" | NO_PROVISIONER)
        || !claim.json["spec"]["volumeName"].is_null()
        || objects.get("", "PersistentVolume", "", &name).is_some()
    {
        return None;
    }
    let spec = &claim.json["spec"];
    let volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": name,
            "uid": name,
            "resourceVersion": "1",
            "annotations": {"pv.kubernetes.io/provisioned-by": provisioner},
        },
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "volumeMode": spec["volumeMode"],
            "storageClassName": class,
            "csi": {"driver": provisioner, "volumeHandle": name},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": &*claim.namespace,
                "name": &*claim.name,
                "uid": &*claim.uid,
            },
        },
        "status": {"phase": "Bound"},
    });
    Object::from_value(volume).ok()
}
