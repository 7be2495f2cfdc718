//! A controller's object, and the objects that it owns.

use std::ops::Deref;

use kube_scheduler_api_types::LabelSelector;
use serde_json::{Value, json};

use crate::api::WriteOptions;
use crate::api::delete::{DeleteOptions, delete_in};
use crate::api::update::{Part, Target, modify_in};
use crate::clock::to_rfc3339;
use crate::kinds::{KindId, REPLICATION_CONTROLLERS};
use crate::object::{at, child_mut, int_at, labels_of, list_at, list_mut, meta_mut, text_at};
use crate::selectors::label_selector_in;
use crate::status::StatusError;
use crate::store::State;

/// An object with a controller, as it was read.
pub(super) struct Controller<'v> {
    pub(super) kind: KindId,
    object: kube_scheduler_workloads::Controller<'v>,
}

impl<'v> Deref for Controller<'v> {
    type Target = kube_scheduler_workloads::Controller<'v>;

    fn deref(&self) -> &Self::Target {
        &self.object
    }
}

impl<'v> Controller<'v> {
    pub(super) fn new(kind: KindId, value: &'v Value) -> Self {
        Self { kind, object: kube_scheduler_workloads::Controller::new(value) }
    }

    pub(super) fn is_terminating(&self) -> bool {
        at(self.value, &["metadata", "deletionTimestamp"]).is_some()
    }

    /// The selector; `None` if it is missing, malformed or selects other pods than the template makes, with which pods
    /// would be made without end.
    pub(super) fn selector(&self) -> Option<LabelSelector> {
        let selector = at(self.value, &["spec", "selector"])?;
        let selector = if self.kind == REPLICATION_CONTROLLERS {
            label_selector_in(&json!({"matchLabels": selector}))?
        } else {
            label_selector_in(selector)?
        };
        let labels = labels_of(self.template());
        (selector.matches(&labels) && !selector.is_empty()).then_some(selector)
    }

    /// The objects of a kind that this controller owns, by name; those that match `selector` and have no controller are
    /// adopted before.
    pub(super) fn owned(
        &self,
        state: &mut State,
        kind: KindId,
        selector: Option<&LabelSelector>,
    ) -> Vec<Value> {
        if let Some(selector) = selector.filter(|_| !self.is_terminating()) {
            self.adopt(state, kind, selector);
        }
        let keys: Vec<String> = state
            .dependents
            .of(self.uid)
            .filter(|(other, _)| *other == kind)
            .map(|(_, key)| key.clone())
            .collect();
        let objects = keys.iter().filter_map(|key| {
            let (namespace, name) = key.split_once('/').unwrap_or(("", key));
            state.get(kind, namespace, name).map(|object| object.value())
        });
        objects.filter(|object| self.controls(object)).collect()
    }

    fn controls(&self, object: &Value) -> bool {
        list_at(object, &["metadata", "ownerReferences"]).iter().any(|owner| {
            text_at(owner, &["uid"]) == self.uid && owner.get("controller") == Some(&true.into())
        })
    }

    fn adopt(&self, state: &mut State, kind: KindId, selector: &LabelSelector) {
        let orphans: Vec<Value> = state
            .objects_in(kind, self.namespace)
            .filter(|object| object.owners().is_empty() && !object.is_terminating())
            .filter(|object| selector.matches(object.labels()))
            .map(|object| object.value())
            .collect();
        for mut orphan in orphans {
            list_mut(meta_mut(&mut orphan), "ownerReferences").push(self.reference());
            state.put(kind, orphan);
        }
    }

    /// Writes a status with these counts, those of zero left out as in Kubernetes, and with what went wrong.
    pub(super) fn put_counts(
        &self,
        state: &mut State,
        mut status: Value,
        counts: &[(&str, usize)],
        error: Option<&StatusError>,
    ) {
        for (field, count) in counts.iter().filter(|(_, count)| *count > 0) {
            status[*field] = (*count).into();
        }
        let (now, mut conditions) = (to_rfc3339(state.now), self.conditions());
        set_failure(&mut conditions, error, &now);
        if !conditions.is_empty() {
            status["conditions"] = conditions.into();
        }
        self.put_status(state, status);
    }

    /// Writes the status if it is another one than before; always with the generation that it is about.
    pub(super) fn put_status(&self, state: &mut State, mut status: Value) {
        let generation = int_at(self.value, &["metadata", "generation"]).unwrap_or(1);
        status["observedGeneration"] = generation.into();
        let target = Target {
            kind: self.kind,
            namespace: self.namespace,
            name: self.name,
            part: Part::Status,
        };
        // Rejected only when it is gone.
        let _ = modify_in(state, target, &WriteOptions::default(), |old| {
            let mut new = old.clone();
            crate::object::map_mut(&mut new).insert("status".into(), status);
            Ok(new)
        });
    }

    /// The conditions of the last status.
    pub(super) fn conditions(&self) -> Vec<Value> {
        list_at(self.value, &["status", "conditions"]).to_vec()
    }
}

/// Changes an object that a controller owns, or the controller's own.
pub(super) fn change(
    state: &mut State,
    kind: KindId,
    object: &Value,
    change: impl FnOnce(&mut Value),
) -> Option<Value> {
    let (namespace, name) =
        (text_at(object, &["metadata", "namespace"]), text_at(object, &["metadata", "name"]));
    let target = Target { kind, namespace, name, part: Part::Main };
    let changed = modify_in(state, target, &WriteOptions::default(), |old| {
        let mut new = old.clone();
        change(&mut new);
        Ok(new)
    });
    changed.ok().map(|object| object.value())
}

/// Deletes an object that a controller owns.
pub(super) fn remove(state: &mut State, kind: KindId, object: &Value) {
    let meta = |field| text_at(object, &["metadata", field]);
    let options = DeleteOptions { uid: Some(meta("uid").to_owned()), ..DeleteOptions::default() };
    // Rejected only when it is gone.
    let _ = delete_in(state, kind, meta("namespace"), meta("name"), &options);
}

/// Sets `spec.replicas`.
pub(super) fn scale(
    state: &mut State,
    kind: KindId,
    object: &Value,
    replicas: i64,
) -> Option<Value> {
    change(state, kind, object, |object| {
        child_mut(object, "spec").insert("replicas".into(), replicas.into());
    })
}

/// Sets or removes the condition of a controller whose pods cannot be created. One that is set stays as it is, since its
/// message names the pod, and that is another one with every attempt.
pub(super) fn set_failure(conditions: &mut Vec<Value>, error: Option<&StatusError>, now: &str) {
    const FAILURE: &str = "ReplicaFailure";
    let is_set = conditions.iter().any(|other| text_at(other, &["type"]) == FAILURE);
    if let Some(error) = error.filter(|_| !is_set) {
        let condition = json!({
            "type": FAILURE, "status": "True", "reason": "FailedCreate", "message": error.to_string(),
        });
        update_condition(conditions, FAILURE, Some(condition), now);
    } else if error.is_none() {
        update_condition(conditions, FAILURE, None, now);
    }
}

/// Sets or removes a condition.
pub(super) fn update_condition(
    conditions: &mut Vec<Value>,
    condition_type: &str,
    condition: Option<Value>,
    now: &str,
) {
    match condition {
        Some(condition) => crate::object::set_condition(conditions, condition, now),
        None => conditions.retain(|other| text_at(other, &["type"]) != condition_type),
    }
}
