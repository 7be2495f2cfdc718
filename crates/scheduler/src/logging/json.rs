//! JSON lines: `{"ts":…,"caller":…,"msg":…,"v":0,…}`.
//!
//! Invariants: an event is one object on one line; `ts` is in milliseconds; `v` stands with everything but errors; pods
//! are objects with name and namespace; so are nodes, with their name, in those lines in which they are the reference's.

use std::fmt;

use serde_json::{Value, json};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::fields::Fields;
use super::{caller, now, verbosity};

/// Keys whose values are names of namespaced objects, written `namespace/name` in the text form.
const REFERENCES: [&str; 9] = [
    "pod",
    "preemptor",
    "victim",
    "waitingPod",
    "podInPreBind",
    "podGroup",
    "resourceclaim",
    "persistentVolumeClaim",
    "PVC",
];

/// The key of lines about volumes whose value is always the name of an object without a namespace.
const VOLUME: &str = "PV";

/// The key of lines about nodes, whose value is such a name in some lines and a plain text in others.
const NODE: &str = "node";

/// Messages of lines in which a node is an object, as in the reference.
const ABOUT_NODE_OBJECTS: [&str; 19] = [
    "Add event for node",
    "Update event for node",
    "Delete event for node",
    "Attempting to bind pod to node",
    "Ignored node for which the extender didn't report victims",
    "Listed internal info for allocatable resources, requested resources and score",
    "FindPodVolumes",
    "PersistentVolume and node matches for pod",
    "PersistentVolume and node mismatch for pod",
    "All bound volumes for pod match with node",
    "Found matching PV for PVC for pod",
    "No matching volumes for pod",
    "Found matching volumes for pod",
    "Node cannot satisfy provisioning topology requirements of claim",
    "Node has no accessible CSIStorageCapacity with enough capacity for PVC",
    "Provisioning for claims of pod that has no matching volumes...",
    "AssumePodVolumes",
    "AssumePodVolumes: all PVCs bound and nothing to do",
    "BindPodVolumes",
];

/// The format.
pub(super) struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let fields = Fields::of(event);
        let has_node_object = ABOUT_NODE_OBJECTS.contains(&&*fields.message);
        // Written field by field, because the order matters to human readers.
        let ts = now().as_nanos() as f64 / 1e6;
        write!(out, "{{\"ts\":{ts},\"caller\":{}", Value::from(caller(event, 1)))?;
        write!(out, ",\"msg\":{}", Value::from(fields.message))?;
        if *event.metadata().level() != Level::ERROR {
            write!(out, ",\"v\":{}", verbosity::of(event.metadata()).max(0))?;
        }
        for (name, value) in fields.others {
            let value = match value {
                Value::String(name_of) if name == VOLUME || name == NODE && has_node_object => {
                    json!({"name": name_of})
                }
                other => referring(name, other),
            };
            write!(out, ",{}:{value}", Value::from(name))?;
        }
        writeln!(out, "}}")
    }
}

/// A value; names of namespaced objects become objects with name and namespace.
fn referring(key: &str, value: Value) -> Value {
    match &value {
        Value::String(text) if REFERENCES.contains(&key) => match text.split_once('/') {
            Some((namespace, name)) => json!({"name": name, "namespace": namespace}),
            None => value,
        },
        _ => value,
    }
}
