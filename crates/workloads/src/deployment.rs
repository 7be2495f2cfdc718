//! Deployments: a ReplicaSet for each template.

use serde_json::{Value, json};

use crate::controller::{Controller, template_hash};
use crate::json::{at, child_mut, labels_mut, meta_mut};

/// The label whose value differs between the ReplicaSets of a Deployment, and between their pods.
pub const HASH: &str = "pod-template-hash";

/// The ReplicaSet of the Deployment's present template. `collisions` counts the names that were taken by other sets.
pub fn replica_set(deployment: &Controller<'_>, collisions: i64, replicas: i64) -> Value {
    let mut template = deployment.template().clone();
    let hash = template_hash(&json!([template, collisions]));
    labels_mut(&mut template).insert(HASH.into(), hash.as_str().into());
    let mut selector = at(deployment.value, &["spec", "selector"]).cloned().unwrap_or_default();
    child_mut(&mut selector, "matchLabels").insert(HASH.into(), hash.as_str().into());
    let labels = at(&template, &["metadata", "labels"]).cloned().unwrap_or_default();
    let mut set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": format!("{}-{hash}", deployment.name)},
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    });
    meta_mut(&mut set).insert("labels".into(), labels);
    deployment.adopt(&mut set);
    set
}
