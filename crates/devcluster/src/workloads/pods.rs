//! The pods of a controller.

use serde_json::Value;

use super::owned::Controller;
use crate::api::WriteOptions;
use crate::api::create::create_in;
use crate::kinds::PODS;
use crate::object::{at, list_at, text_at};
use crate::status::StatusError;
use crate::store::State;

/// How many pods one step creates or deletes at most.
pub(super) const BURST: usize = 256;

/// How many pods a controller has at most.
pub(super) const MOST_PODS: i64 = 20_000;

/// Creates a pod of a controller.
pub(super) fn create(
    state: &mut State,
    controller: &Controller<'_>,
    pod: Value,
) -> Result<(), StatusError> {
    create_in(state, PODS, controller.namespace, pod, &WriteOptions::default()).map(|_| ())
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
