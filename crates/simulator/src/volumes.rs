//! What the API server and the volume controllers of a cluster make of volumes and claims that the scheduler writes:
//! everything at once and without fail.
//!
//! A claim gets the volume that was reserved for it. For a claim with a node the provisioner of its class makes a volume
//! of just the wanted size, which can be reached from everywhere, as nobody here knows the driver's topology.

use std::sync::Arc;

use kube_scheduler_api_types::Object;
use kube_scheduler_framework::{ObjectStore, WriteError, storage_class_of};
use serde_json::{Value, json};

const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// The answer to a write, and what a watch tells of the consequences.
pub(crate) fn written(
    objects: &ObjectStore,
    object: &Object,
) -> (Result<Arc<Object>, WriteError>, Vec<Arc<Object>>) {
    let stored = match stored(objects, object) {
        Ok(stored) => Arc::new(stored),
        Err(error) => return (Err(error), Vec::new()),
    };
    let mut told = vec![stored.clone()];
    told.extend(consequences(objects, &stored).into_iter().map(Arc::new));
    (Ok(stored), told)
}

/// The object as the API server stores it.
fn stored(objects: &ObjectStore, object: &Object) -> Result<Object, WriteError> {
    let Object { group, kind, namespace, name, .. } = object;
    let resource = format!("{}s", kind.to_lowercase());
    match objects.get(group, kind, namespace, name) {
        None => Err(WriteError {
            reason: "NotFound".into(),
            message: format!("{resource} \"{name}\" not found").into(),
        }),
        Some(known) if known.resource_version != object.resource_version => Err(WriteError {
            reason: "Conflict".into(),
            message: format!(
                "Operation cannot be fulfilled on {resource} \"{name}\": the object has been modified; please apply your changes to the latest version and try again"
            )
            .into(),
        }),
        Some(_) => Ok(revised(object, [])),
    }
}

/// The next revision of an object, with other values in some fields.
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

/// A claim that has got its volume.
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
