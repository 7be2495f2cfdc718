//! The scale subresource of workloads.

use std::sync::Arc;

use serde_json::{Value, json};

use super::WriteOptions;
use super::update::{Target, modify};
use crate::object::{StoredObject, at, child_mut, int_at, text_at};
use crate::status::StatusError;
use crate::store::Store;

/// The `Scale` object of a workload.
pub(crate) fn read(workload: &Value) -> Value {
    let selector: Vec<String> = at(workload, &["spec", "selector", "matchLabels"])
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": text_at(workload, &["metadata", "name"]),
            "namespace": text_at(workload, &["metadata", "namespace"]),
            "uid": text_at(workload, &["metadata", "uid"]),
            "resourceVersion": text_at(workload, &["metadata", "resourceVersion"]),
            "creationTimestamp": text_at(workload, &["metadata", "creationTimestamp"]),
        },
        "spec": {"replicas": int_at(workload, &["spec", "replicas"]).unwrap_or(0)},
        "status": {
            "replicas": int_at(workload, &["status", "replicas"]).unwrap_or(0),
            "selector": selector.join(","),
        },
    })
}

/// Changes `spec.replicas` through a `Scale` object.
pub(crate) fn write(
    store: &Store,
    target: Target<'_>,
    options: &WriteOptions,
    change: impl FnOnce(&Value) -> Result<Value, StatusError>,
) -> Result<Arc<StoredObject>, StatusError> {
    modify(store, target, options, |old| {
        let scale = change(&read(old))?;
        let replicas = int_at(&scale, &["spec", "replicas"]).unwrap_or(0);
        if replicas < 0 {
            return Err(StatusError::bad_request(format!("spec.replicas: {replicas} is negative")));
        }
        let mut new = old.clone();
        child_mut(&mut new, "spec").insert("replicas".into(), replicas.into());
        Ok(new)
    })
}
