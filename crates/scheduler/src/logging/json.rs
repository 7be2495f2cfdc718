//! JSON lines: `{"ts":…,"caller":…,"msg":…,"v":0,…}`.
//!
//! Invariants: an event is one object on one line; `ts` is in milliseconds; `v` stands with everything but errors; pods
//! are objects with name and namespace.

use std::fmt;

use serde_json::{Value, json};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::fields::Fields;
use super::{caller, now, verbosity};

/// Keys whose values are names of namespaced objects, written `namespace/name` in the text form.
const REFERENCES: [&str; 10] = [
    "pod",
    "preemptor",
    "victim",
    "waitingPod",
    "podInPreBind",
    "podGroup",
    "lock",
    "resourceclaim",
    "persistentVolumeClaim",
    "PVC",
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
        // Written field by field, because the order matters to human readers.
        let ts = now().as_nanos() as f64 / 1e6;
        write!(out, "{{\"ts\":{ts},\"caller\":{}", Value::from(caller(event, 1)))?;
        write!(out, ",\"msg\":{}", Value::from(fields.message))?;
        if *event.metadata().level() != Level::ERROR {
            write!(out, ",\"v\":{}", verbosity::of(event.metadata()).max(0))?;
        }
        for (name, value) in fields.others {
            write!(out, ",{}:{}", Value::from(name), referring(name, value))?;
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
