//! Stored objects: the JSON text, and the few values that selectors, lists and preconditions read.
//!
//! Invariants: a [`StoredObject`] never changes; its text is the compact JSON of the object including its resource version,
//! and every other value equals what parsing the text would give. Storing text instead of a parsed tree means that lists
//! and watches serialise nothing, and that a pod takes about a fifth of the memory.

use std::fmt;

use bytes::Bytes;
use kube_scheduler_api_types::Labels;
pub(crate) use kube_scheduler_workloads::json::{
    annotations_mut, at, child_mut, int_at, labels_mut, labels_of, list_at, list_mut, map_mut,
    meta_mut, text_at,
};
use serde_json::{Value, json};

use crate::kinds::KindId;

/// One version of one object.
pub struct StoredObject {
    json: Bytes,
    resource_version: u64,
    namespace: Box<str>,
    name: Box<str>,
    uid: Box<str>,
    terminating: bool,
    labels: Labels,
    owners: Box<[Box<str>]>,
    fields: Box<[Box<str>]>,
}

impl StoredObject {
    /// Makes a stored object of `value`, which must contain its resource version.
    pub(crate) fn freeze(kind: KindId, value: &Value, resource_version: u64) -> Self {
        let fields =
            kind.get().fields.iter().map(|(_, path)| scalar_text(value, path).into()).collect();
        Self {
            // A `Value` always serialises: its keys are strings and it holds no foreign types.
            json: Bytes::from(serde_json::to_vec(value).unwrap_or_default()),
            resource_version,
            namespace: text_at(value, &["metadata", "namespace"]).into(),
            name: text_at(value, &["metadata", "name"]).into(),
            uid: text_at(value, &["metadata", "uid"]).into(),
            terminating: at(value, &["metadata", "deletionTimestamp"]).is_some(),
            labels: labels_of(value),
            owners: list_at(value, &["metadata", "ownerReferences"])
                .iter()
                .map(|owner| text_at(owner, &["uid"]).into())
                .collect(),
            fields,
        }
    }

    /// Compact JSON text; cloning it copies nothing.
    pub fn json(&self) -> &Bytes {
        &self.json
    }

    /// The object as a tree, parsed from the text on each call.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.json).unwrap_or_default()
    }

    /// The resource version of this text.
    pub fn resource_version(&self) -> u64 {
        self.resource_version
    }

    /// `metadata.namespace`; empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Whether the object is being deleted: it has a deletion timestamp.
    pub fn is_terminating(&self) -> bool {
        self.terminating
    }

    /// The uids of the object's owners.
    pub(crate) fn owners(&self) -> &[Box<str>] {
        &self.owners
    }

    pub(crate) fn labels(&self) -> &Labels {
        &self.labels
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key)
    }

    /// The value of a selectable field by its position in the kind's table; empty when absent.
    pub(crate) fn field(&self, index: usize) -> &str {
        self.fields.get(index).map_or("", |field| field)
    }
}

impl fmt::Debug for StoredObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Object({}/{} @{})", self.namespace, self.name, self.resource_version)
    }
}

/// The key of an object inside its kind, ordered as etcd orders it.
pub(crate) fn key_of(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// Removes every null member: in Kubernetes an explicit null is an absent field.
pub(crate) fn strip_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, member| !member.is_null());
            map.values_mut().for_each(strip_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(strip_nulls),
        _ => {}
    }
}

/// Sets or replaces the entry of a `conditions` list that has the same type. `lastTransitionTime` changes only when
/// the condition's status does.
pub(crate) fn set_condition(conditions: &mut Vec<Value>, mut condition: Value, now: &str) {
    let same_type = |other: &Value| other.get("type") == condition.get("type");
    let position = conditions.iter().position(same_type);
    let transition = position
        .and_then(|position| conditions.get(position))
        .filter(|old| old.get("status") == condition.get("status"))
        .and_then(|old| old.get("lastTransitionTime").cloned())
        .unwrap_or_else(|| now.into());
    map_mut(&mut condition).insert("lastTransitionTime".into(), transition);
    match position.and_then(|position| conditions.get_mut(position)) {
        Some(slot) => *slot = condition,
        None => conditions.push(condition),
    }
}

/// The object reduced to its type and metadata.
pub(crate) fn metadata_only(value: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": value.get("metadata").cloned().unwrap_or_default(),
    })
}

fn scalar_text(value: &Value, path: &[&str]) -> String {
    if path.is_empty() {
        return String::new();
    }
    match at(value, path) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Bool(flag)) => flag.to_string(),
        Some(Value::Number(number)) => number.to_string(),
        // Booleans and counters that are absent select as their zero value.
        _ => match path.last().copied() {
            Some("unschedulable" | "hostNetwork") => "false".to_owned(),
            Some("succeeded" | "replicas") => "0".to_owned(),
            _ => String::new(),
        },
    }
}
