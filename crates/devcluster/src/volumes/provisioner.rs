//! The external provisioner of every driver: creates volumes for claims.

use kube_scheduler_api_types::well_known::{HOSTNAME, PROVISIONED_BY, SELECTED_NODE, ZONE};
use serde_json::{Value, json};

use super::claims::{claim_value, class_of};
use crate::api::WriteOptions;
use crate::api::create::create_in;
use crate::kinds::{
    CSI_NODES, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES,
};
use crate::object::{StoredObject, at, child_mut, list_at, map_mut, text_at};
use crate::status::StatusError;
use crate::store::State;

/// Whether a class has a provisioner.
pub(super) fn can_provision(class: &Value) -> bool {
    !matches!(text_at(class, &["provisioner"]), "" | "kubernetes.io/no-provisioner")
}

/// Creates the volume of a claim, which the binder then binds. A volume that exists already is left alone.
///
/// # Errors
/// If the volume would be invalid.
pub(super) fn provision(state: &mut State, key: &str) -> Result<(), StatusError> {
    let Some(claim) = claim_value(state, key) else { return Ok(()) };
    if !text_at(&claim, &["spec", "volumeName"]).is_empty() {
        return Ok(());
    }
    let Some(class) = state.get(STORAGE_CLASSES, "", class_of(&claim)).map(|class| class.value())
    else {
        return Ok(());
    };
    let meta = |field: &str| text_at(&claim, &["metadata", field]);
    let driver = text_at(&class, &["provisioner"]);
    let name = format!("pvc-{}", meta("uid"));
    if state.get(PERSISTENT_VOLUMES, "", &name).is_some() {
        return Ok(());
    }
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: driver}},
        "spec": {
            "capacity": {"storage": at(&claim, &["spec", "resources", "requests", "storage"])},
            "accessModes": list_at(&claim, &["spec", "accessModes"]),
            "volumeMode": at(&claim, &["spec", "volumeMode"]),
            "storageClassName": class_of(&claim),
            "persistentVolumeReclaimPolicy": at(&class, &["reclaimPolicy"]),
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": meta("namespace"),
                "name": meta("name"), "uid": meta("uid"), "resourceVersion": meta("resourceVersion"),
            },
            "csi": {"driver": driver, "volumeHandle": name},
        },
    });
    let node = text_at(&claim, &["metadata", "annotations", SELECTED_NODE]);
    let terms = if node.is_empty() { allowed(&class) } else { around(state, driver, node) };
    if !terms.is_empty() {
        child_mut(&mut volume, "spec")
            .insert("nodeAffinity".into(), json!({"required": {"nodeSelectorTerms": terms}}));
    }
    create_in(state, PERSISTENT_VOLUMES, "", volume, &WriteOptions::default()).map(|_| ())
}

/// Removes the selected node from a claim, which tells the scheduler that no volume can be made there and that it has to
/// choose again. Returns false if the claim had no selected node.
pub(super) fn reject_selected_node(state: &mut State, key: &str) -> bool {
    let Some(mut claim) = claim_value(state, key) else { return true };
    let meta = child_mut(&mut claim, "metadata");
    let Some(annotations) = meta.get_mut("annotations").map(map_mut) else { return false };
    if annotations.remove(SELECTED_NODE).is_none() {
        return false;
    }
    if annotations.is_empty() {
        meta.remove("annotations");
    }
    state.put(PERSISTENT_VOLUME_CLAIMS, claim);
    true
}

/// The topologies that a class allows, as terms of a node selector.
fn allowed(class: &Value) -> Vec<Value> {
    let requirement = |expression: &Value| json!({"key": expression["key"], "operator": "In", "values": expression["values"]});
    let term = |term: &Value| {
        let all = list_at(term, &["matchLabelExpressions"]);
        json!({"matchExpressions": all.iter().map(requirement).collect::<Vec<_>>()})
    };
    list_at(class, &["allowedTopologies"]).iter().map(term).collect()
}

/// Where a volume that is made for `node` can be used, as terms of a node selector.
fn around(state: &State, driver: &str, node: &str) -> Vec<Value> {
    let Some(object) = state.get(NODES, "", node) else { return Vec::new() };
    let keys = topology_keys(state, driver, object).or_else(|| {
        let own = [ZONE, HOSTNAME].into_iter().find(|key| object.label(key).is_some())?;
        Some(vec![own.to_owned()])
    });
    let requirement =
        |key: String| json!({"key": key, "operator": "In", "values": [object.label(&key)]});
    keys.into_iter()
        .map(|keys| json!({"matchExpressions": keys.into_iter().map(requirement).collect::<Vec<_>>()}))
        .collect()
}

/// The labels by which a driver describes where a node is, if its CSINode lists any and the node has them all.
fn topology_keys(state: &State, driver: &str, node: &StoredObject) -> Option<Vec<String>> {
    let csi_node = state.get(CSI_NODES, "", node.name())?.value();
    let drivers = list_at(&csi_node, &["spec", "drivers"]);
    let installed = drivers.iter().find(|entry| text_at(entry, &["name"]) == driver)?;
    let keys: Vec<String> = list_at(installed, &["topologyKeys"])
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    (!keys.is_empty() && keys.iter().all(|key| node.label(key).is_some())).then_some(keys)
}
