//! The pods of a controller.

use serde_json::{Map, Value, json};

use super::owned::Controller;
use crate::api::WriteOptions;
use crate::api::create::create_in;
use crate::kinds::PODS;
use crate::object::{at, child_mut, list_at, meta_mut, text_at};
use crate::status::ApiError;
use crate::store::State;

/// How many pods one step creates or deletes at most.
pub(super) const BURST: usize = 256;

/// How many pods a controller has at most.
pub(super) const MOST_PODS: i64 = 20_000;

/// How a pod is named.
pub(super) enum PodName<'n> {
    /// The controller's name and a random end.
    Generated,
    /// Exactly so.
    Exactly(&'n str),
}

/// A pod of the controller's template, not created yet.
pub(super) fn from_template(controller: &Controller<'_>, name: &PodName<'_>) -> Value {
    let template = controller.template();
    let mut pod =
        json!({"metadata": {}, "spec": template.get("spec").cloned().unwrap_or_default()});
    let meta = meta_mut(&mut pod);
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = at(template, &["metadata", field]) {
            meta.insert(field.into(), value.clone());
        }
    }
    match name {
        PodName::Generated => {
            meta.insert("generateName".into(), format!("{}-", controller.name).into())
        }
        PodName::Exactly(name) => meta.insert("name".into(), (*name).into()),
    };
    meta.insert("ownerReferences".into(), json!([controller.reference()]));
    pod
}

/// Creates a pod of a controller.
pub(super) fn create(
    state: &mut State,
    controller: &Controller<'_>,
    pod: Value,
) -> Result<(), ApiError> {
    create_in(state, PODS, controller.namespace, pod, &WriteOptions::default()).map(|_| ())
}

/// The labels of a pod or template that is about to be created.
pub(super) fn labels_mut(object: &mut Value) -> &mut Map<String, Value> {
    crate::object::map_mut(meta_mut(object).entry("labels").or_insert(Value::Null))
}

/// The annotations of an object.
pub(super) fn annotations_mut(object: &mut Value) -> &mut Map<String, Value> {
    crate::object::map_mut(meta_mut(object).entry("annotations").or_insert(Value::Null))
}

pub(super) fn is_terminating(pod: &Value) -> bool {
    at(pod, &["metadata", "deletionTimestamp"]).is_some()
}

/// Whether the pod has ended, one way or the other.
pub(super) fn has_ended(pod: &Value) -> bool {
    matches!(text_at(pod, &["status", "phase"]), "Succeeded" | "Failed")
}

/// Whether the pod counts as a replica.
pub(super) fn is_active(pod: &Value) -> bool {
    !is_terminating(pod) && !has_ended(pod)
}

pub(super) fn is_ready(pod: &Value) -> bool {
    list_at(pod, &["status", "conditions"]).iter().any(|condition| {
        text_at(condition, &["type"]) == "Ready" && text_at(condition, &["status"]) == "True"
    })
}

/// The value of a label.
pub(super) fn label<'v>(object: &'v Value, key: &str) -> &'v str {
    text_at(object, &["metadata", "labels", key])
}

/// Sets a member of a pod's spec.
pub(super) fn set_spec(pod: &mut Value, field: &str, value: Value) {
    child_mut(pod, "spec").insert(field.into(), value);
}
