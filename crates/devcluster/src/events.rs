//! The two forms of an event.
//!
//! Invariant: converting to the core form and back gives the same event; only names of fields change.

use serde_json::{Map, Value, json};

use crate::kinds::{EVENTS, EVENTS_V1};

/// Core name, `events.k8s.io` name.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// An `events.k8s.io` event in its core form.
pub(crate) fn to_core(event: Value) -> Value {
    renamed(event, EVENTS.get().api_version(), |name| {
        RENAMED.iter().find(|(_, new)| *new == name).map(|(core, _)| *core)
    })
}

/// A core event in its `events.k8s.io` form.
pub(crate) fn from_core(event: Value) -> Value {
    renamed(event, EVENTS_V1.get().api_version(), |name| {
        RENAMED.iter().find(|(core, _)| *core == name).map(|(_, new)| *new)
    })
}

fn renamed(
    event: Value,
    api_version: String,
    rename: impl Fn(&str) -> Option<&'static str>,
) -> Value {
    let Value::Object(members) = event else { return event };
    let mut result: Map<String, Value> = members
        .into_iter()
        .map(|(name, value)| (rename(&name).map_or(name, str::to_owned), value))
        .collect();
    if result.contains_key("apiVersion") {
        result.insert("apiVersion".into(), json!(api_version));
    }
    Value::Object(result)
}
