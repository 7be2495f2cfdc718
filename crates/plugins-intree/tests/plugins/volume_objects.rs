//! Volumes, claims and classes from a few words.

use kube_scheduler_framework::api::Pod;
use serde_json::{Value, json};
use std::sync::Arc;

use crate::support::{World, merge, node, pod};

/// A free volume of class `wffc` that every node reaches, unless `extra` says otherwise.
pub(crate) fn pv(name: &str, size: &str, extra: Value) -> Value {
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "uid": name, "resourceVersion": "5"},
        "spec": {
            "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"],
            "storageClassName": "wffc",
        },
        "status": {"phase": "Available"},
    });
    merge(&mut volume, extra);
    volume
}

/// A claim of class `wffc`, unless `extra` says otherwise.
pub(crate) fn pvc(name: &str, size: &str, extra: Value) -> Value {
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("{name}-uid"),
            "resourceVersion": "3",
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}},
            "storageClassName": "wffc",
        },
        "status": {"phase": "Pending"},
    });
    merge(&mut claim, extra);
    claim
}

/// What makes a claim fully bound.
pub(crate) fn bound_to(volume: &str) -> Value {
    json!({
        "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": volume}, "status": {"phase": "Bound"},
    })
}

/// A class whose claims wait for their first consumer.
pub(crate) fn class(name: &str, provisioner: &str, extra: Value) -> Value {
    let mut class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer",
    });
    merge(&mut class, extra);
    class
}

/// The node affinity of a volume: every list is a term that wants one label to have one of some values.
pub(crate) fn reachable(terms: &[(&str, &[&str])]) -> Value {
    let terms: Vec<Value> = terms
        .iter()
        .map(|(key, values)| {
            json!({"matchExpressions": [{"key": key, "operator": "In", "values": values}]})
        })
        .collect();
    json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}})
}

/// A reference from a volume to a claim of the default namespace.
pub(crate) fn claimed_by(claim: &str, uid: &str) -> Value {
    json!({"spec": {"claimRef": {"name": claim, "namespace": "default", "uid": uid}}})
}

/// A pod with these claims.
pub(crate) fn pod_with(claims: &[&str]) -> Arc<Pod> {
    let volumes: Vec<Value> = claims
        .iter()
        .enumerate()
        .map(|(at, claim)| {
            json!({"name": format!("v{at}"), "persistentVolumeClaim": {"claimName": claim}})
        })
        .collect();
    pod("p", json!({"spec": {"volumes": volumes}}))
}

/// A pod with one ephemeral volume `data`.
pub(crate) fn ephemeral_pod() -> Arc<Pod> {
    pod(
        "p",
        json!({"spec": {"volumes": [{"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]}}),
    )
}

/// Two nodes in zones of their own, and what is there beside.
pub(crate) fn world(objects: impl IntoIterator<Item = Value>) -> World {
    let in_zone =
        |name: &str, zone: &str| node(name, json!({"metadata": {"labels": {"zone": zone}}}));
    let world = World::new([in_zone("a", "za"), in_zone("b", "zb")], []);
    objects.into_iter().fold(world, World::with_object)
}
