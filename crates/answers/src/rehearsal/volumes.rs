//! The API server and the volume controllers of a simulated cluster, as far as volumes and claims are concerned that the
//! scheduler writes. Every step is taken at once and succeeds.
//!
//! A claim gets the volume that the scheduler has reserved for it. For a claim with a selected node the provisioner of its
//! class makes a volume of exactly the requested size. It can be used where nodes have the same values as the selected one of the labels
//! that the driver's topology is about (`topologyKeys` of its CSINode); everywhere if there are none.

use std::sync::Arc;

use kube_scheduler_api_types::well_known::{
    BIND_COMPLETED, NO_PROVISIONER, PROVISIONED_BY, SELECTED_NODE, STORAGE_GROUP,
};
use kube_scheduler_api_types::{Json, Object};
use kube_scheduler_cache::{ClusterState, storage_class_of};
use kube_scheduler_framework::{ApiError, ObjectKey, ObjectStore, ObjectWrite};
use serde_json::{Value, json};

/// What follows from a write.
#[derive(Debug)]
pub(crate) struct WriteOutcome {
    /// The API server's answer.
    pub(crate) result: Result<Arc<Object>, ApiError>,
    /// All objects that changed, in the order in which a watch reports them.
    pub(crate) changed: Vec<Arc<Object>>,
    /// The object that is gone.
    pub(crate) removed: Option<Arc<Object>>,
}

impl WriteOutcome {
    fn without_effect(result: Result<Arc<Object>, ApiError>) -> Self {
        Self { result, changed: Vec::new(), removed: None }
    }
}

/// Carries out a request about an object.
pub(crate) fn write(cluster: &ClusterState, write: &ObjectWrite) -> WriteOutcome {
    let objects = cluster.objects();
    let known = known(objects, &write.key());
    let stored = match write {
        ObjectWrite::Replace(object) => replaced(known, object),
        ObjectWrite::ReplaceStatus(object) => replaced(known, object)
            .and_then(|_| Ok(with_status(known.ok_or_else(|| not_found(&write.key()))?, object))),
        ObjectWrite::Create(object) => Ok(created(objects, object)),
        ObjectWrite::PatchStatus { .. } if &*write.key().kind == "Pod" => {
            // What plugins write into the status of a pod is read by kubelets alone: it is accepted and not kept.
            return WriteOutcome::without_effect(pod_named(&write.key()));
        }
        ObjectWrite::PatchStatus { object, patch, .. } => {
            known.ok_or_else(|| not_found(object)).map(|known| {
                revised(
                    known,
                    [(&["status"], patched(&known.json["status"], &patch["status"]).into())],
                )
            })
        }
        ObjectWrite::Delete { object, .. } => {
            let removed = known.cloned();
            return WriteOutcome { result: Ok(object.clone()), changed: Vec::new(), removed };
        }
        _ => {
            let result = known.cloned().ok_or_else(|| not_found(&write.key()));
            return WriteOutcome::without_effect(result);
        }
    };
    let stored = match stored {
        Ok(stored) => Arc::new(stored),
        Err(error) => return WriteOutcome::without_effect(Err(error)),
    };
    let mut changed = vec![stored.clone()];
    changed.extend(consequences(cluster, &stored).into_iter().map(Arc::new));
    WriteOutcome { result: Ok(stored), changed, removed: None }
}

fn known<'a>(objects: &'a ObjectStore, key: &ObjectKey) -> Option<&'a Arc<Object>> {
    objects.get(&key.group, &key.kind, &key.namespace, &key.name)
}

/// A pod as far as the answer to a patch of its status needs it.
fn pod_named(key: &ObjectKey) -> Result<Arc<Object>, ApiError> {
    let metadata = json!({"namespace": &*key.namespace, "name": &*key.name});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata});
    let pod = Object::from_value(pod).map(Arc::new);
    pod.map_err(|error| ApiError::new("InternalError", error.to_string()))
}

fn not_found(key: &ObjectKey) -> ApiError {
    let (resource, name) = (format!("{}s", key.kind.to_lowercase()), &key.name);
    let message = format!("{resource} \"{name}\" not found").into();
    ApiError { code: Some(404), reason: "NotFound".into(), message }
}

/// A new object under a name of its own.
fn created(objects: &ObjectStore, object: &Object) -> Object {
    let mut created = object.clone();
    if created.name.is_empty() {
        let prefix = object.json["metadata"]["generateName"].as_str().unwrap_or_default();
        let mut names = (1_u64..).map(|number| format!("{prefix}{number}"));
        let is_free = |name: &String| {
            objects.get(&object.group, &object.kind, &object.namespace, name).is_none()
        };
        created.name = names.find(is_free).unwrap_or_default().into();
    }
    created.uid = format!("{}-{}", object.kind.to_lowercase(), created.key()).into();
    let metadata = [("name", created.name.clone()), ("uid", created.uid.clone())];
    for (field, value) in metadata {
        created.set_field(&["metadata", field], (*value).into());
    }
    revised(&created, [])
}

/// The known object with the status of another one.
fn with_status(known: &Object, object: &Object) -> Object {
    revised(known, [(&["status"], object.json["status"].clone())])
}

/// A status after a strategic merge patch, as far as plugins send such: elements of lists are taken out by uid.
fn patched(status: &Json, patch: &Value) -> Value {
    let mut patched = Value::from(status);
    for (field, change) in patch.as_object().into_iter().flatten() {
        let deleted: Vec<&Value> = change
            .as_array()
            .into_iter()
            .flatten()
            .filter(|element| element["$patch"] == "delete")
            .map(|element| &element["uid"])
            .collect();
        match patched[field].as_array_mut() {
            Some(list) if change.is_array() => {
                list.retain(|element| !deleted.contains(&&element["uid"]))
            }
            _ if change.is_array() => {}
            _ => patched[field] = change.clone(),
        }
    }
    patched
}

/// The object as the API server stores it in place of the known one.
fn replaced(known: Option<&Arc<Object>>, object: &Object) -> Result<Object, ApiError> {
    let (resource, name) = (format!("{}s", object.kind.to_lowercase()), &object.name);
    match known {
        None => Err(not_found(&ObjectKey::from(object))),
        Some(known) if known.resource_version != object.resource_version => Err(ApiError { code: Some(409),
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
pub(crate) fn revised<const N: usize>(object: &Object, fields: [(&[&str], Json); N]) -> Object {
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

/// The next revision of an object after a change of its text; `None` if that is no object any more.
pub(crate) fn edited(object: &Object, change: impl FnOnce(&mut Value)) -> Option<Object> {
    let mut json = Value::from(&*object.json);
    change(&mut json);
    Some(revised(&Object::from_value(json).ok()?, []))
}

/// The objects that controllers change because of a write.
fn consequences(cluster: &ClusterState, written: &Object) -> Vec<Object> {
    let objects = cluster.objects();
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
            if written.json["metadata"]["annotations"][SELECTED_NODE].as_str().is_some() =>
        {
            match provisioned(cluster, written) {
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
fn provisioned(cluster: &ClusterState, claim: &Object) -> Option<Object> {
    let objects = cluster.objects();
    let class = storage_class_of(claim);
    let class_object = objects.get(STORAGE_GROUP, "StorageClass", "", class)?;
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
            "annotations": {PROVISIONED_BY: provisioner},
        },
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "volumeMode": spec["volumeMode"],
            "storageClassName": class,
            "csi": {"driver": provisioner, "volumeHandle": name},
            "nodeAffinity": reach(cluster, provisioner, claim),
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

/// Where a volume can be used that a driver makes for a claim with a selected node; null if everywhere.
fn reach(cluster: &ClusterState, driver: &str, claim: &Object) -> Value {
    let node = claim.json["metadata"]["annotations"][SELECTED_NODE].as_str().unwrap_or_default();
    let csi_node = cluster.objects().get(STORAGE_GROUP, "CSINode", "", node);
    let drivers = csi_node.and_then(|csi_node| csi_node.json["spec"]["drivers"].as_array());
    let driver = drivers.into_iter().flatten().find(|known| known["name"].as_str() == Some(driver));
    let keys = driver.and_then(|driver| driver["topologyKeys"].as_array()).into_iter().flatten();
    let node = cluster.node_idx(node).and_then(|idx| cluster.node(idx));
    let same = |key: &Json| {
        let key = key.as_str()?;
        let value = node?.labels.get(key)?;
        Some(json!({"key": key, "operator": "In", "values": [value]}))
    };
    let same: Vec<Value> = keys.filter_map(same).collect();
    match same.is_empty() {
        true => Value::Null,
        false => json!({"required": {"nodeSelectorTerms": [{"matchExpressions": same}]}}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_a_pod_takes_any_patch() {
        let key = |kind: &str| ObjectKey {
            group: "".into(),
            kind: kind.into(),
            namespace: "ns".into(),
            name: "p".into(),
        };
        let patch = |kind: &str| ObjectWrite::PatchStatus {
            object: key(kind),
            patch: json!({"status": {"phase": "Failed"}}).into(),
            is_final: false,
        };
        let cluster = ClusterState::default();
        assert_eq!(ObjectKey::from(&*write(&cluster, &patch("Pod")).result.unwrap()), key("Pod"));
        let unknown = write(&cluster, &patch("Secret")).result.unwrap_err();
        assert_eq!(unknown.code, Some(404));
    }

    #[test]
    fn what_has_no_name_gets_one() {
        let claim = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
                           "metadata": {"namespace": "ns", "generateName": "p-extended-resources-"}});
        let claim = Arc::new(Object::from_value(claim).unwrap());
        let created = write(&ClusterState::default(), &ObjectWrite::Create(claim)).result.unwrap();
        assert_eq!(created.key(), "ns/p-extended-resources-1");
        assert_eq!(created.json["metadata"]["name"], "p-extended-resources-1");
        assert!(!created.uid.is_empty() && !created.resource_version.is_empty());
    }
}
