//! Finds controllers whose pods are not in the input. Controllers do not run in a simulation, which users should know.

use std::collections::BTreeSet;

use kube_scheduler_api_types::Object;
use serde_json::Value;

use super::ClusterObjects;

/// How many controllers a warning names.
const MAX_NAMED: usize = 5;

/// A warning about all controllers that want pods and have none in the input.
pub(super) fn not_expanded(found: &ClusterObjects) -> Option<String> {
    let owners: BTreeSet<(&str, &str, &str)> = found
        .pods
        .iter()
        .filter_map(|pod| {
            let owner = pod.controller.as_ref()?;
            Some((&*pod.namespace, &*owner.kind, &*owner.name))
        })
        .collect();
    let named: Vec<String> = found
        .objects
        .iter()
        .filter_map(|object| {
            let wanted = wanted(object)?;
            (!has_pods(object, &owners))
                .then(|| format!("{} {} ({wanted})", object.kind, object.key()))
        })
        .collect();
    if named.is_empty() {
        return None;
    }
    let rest = named.len().saturating_sub(MAX_NAMED);
    let mut text = named.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join(", ");
    if rest > 0 {
        text.push_str(&format!(" and {rest} more"));
    }
    Some(format!(
        "controllers are not expanded into pods: {text}; add the pods themselves to have them scheduled"
    ))
}

/// How many pods a controller asks for, in words; `None` for other kinds and when it asks for none.
fn wanted(object: &Object) -> Option<String> {
    let field = match (&*object.group, &*object.kind) {
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet") | ("", "ReplicationController") => {
            "/spec/replicas"
        }
        ("batch", "Job") => "/spec/parallelism",
        ("apps", "DaemonSet") => return Some("one pod per node".to_owned()),
        _ => return None,
    };
    let owners = object.json.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    if owners.is_some_and(|owners| !owners.is_empty()) || is_finished(object) {
        return None;
    }
    match object.json.pointer(field).and_then(Value::as_i64).unwrap_or(1) {
        n if n <= 0 => None,
        1 => Some("1 pod".to_owned()),
        n => Some(format!("{n} pods")),
    }
}

fn is_finished(object: &Object) -> bool {
    *object.kind == *"Job"
        && object.json.pointer("/status/completionTime").is_some_and(|at| !at.is_null())
}

/// A deployment's pods belong to replica sets that carry its name and a hash.
fn has_pods(object: &Object, owners: &BTreeSet<(&str, &str, &str)>) -> bool {
    if *object.kind != *"Deployment" {
        return owners.contains(&(&*object.namespace, &*object.kind, &*object.name));
    }
    owners.iter().any(|(namespace, kind, name)| {
        let hash = name.strip_prefix(&*object.name).and_then(|rest| rest.strip_prefix('-'));
        *namespace == &*object.namespace
            && *kind == "ReplicaSet"
            && hash.is_some_and(|hash| !hash.contains('-'))
    })
}
