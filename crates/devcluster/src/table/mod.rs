//! Objects as tables, which is what `kubectl get` prints.
//!
//! Invariants: every row has as many cells as there are columns; columns of priority 1 are for `-o wide` only.

mod age;
mod cluster;
mod core;
mod groups;
mod storage;
mod workloads;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::forms;
use crate::kinds::KindId;
use crate::object::{StoredObject, metadata_only, text_at};
use crate::status::StatusError;

/// How much of the object is part of its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    Nothing,
    Metadata,
    Object,
}

impl IncludeObject {
    /// Reads the query parameter; metadata is the default.
    pub(crate) fn parse(text: Option<&str>) -> Result<Self, StatusError> {
        match text {
            None | Some("" | "Metadata") => Ok(Self::Metadata),
            Some("None") => Ok(Self::Nothing),
            Some("Object") => Ok(Self::Object),
            Some(other) => Err(StatusError::bad_request(format!(
                "includeObject={other:?} is not supported; allowed are None, Metadata, Object"
            ))),
        }
    }
}

/// One column of a table.
#[derive(Debug, Clone, Copy)]
struct Column {
    name: &'static str,
    /// `string` or `integer`.
    column_type: &'static str,
    /// Whether it shows with `-o wide` only.
    wide: bool,
}

const fn column(name: &'static str) -> Column {
    Column { name, column_type: "string", wide: false }
}

const fn number(name: &'static str) -> Column {
    Column { name, column_type: "integer", wide: false }
}

const fn wide(name: &'static str) -> Column {
    Column { name, column_type: "string", wide: true }
}

/// The columns of a kind and how a row's cells come from an object. The first column is always the name.
struct Layout {
    columns: &'static [Column],
    cells: fn(&Value, Timestamp) -> Vec<Value>,
}

/// The `Table` object, without list metadata.
pub(crate) fn render(
    kind: KindId,
    objects: &[&StoredObject],
    include: IncludeObject,
    now: Timestamp,
) -> Value {
    let layout = layout(kind);
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let value = object.value();
            let mut row = json!({"cells": (layout.cells)(&value, now)});
            match include {
                IncludeObject::Nothing => {}
                IncludeObject::Metadata => row["object"] = metadata_only(&value),
                IncludeObject::Object => row["object"] = forms::served(kind, value),
            }
            row
        })
        .collect();
    let columns: Vec<Value> = layout
        .columns
        .iter()
        .map(|column| {
            json!({
                "name": column.name, "type": column.column_type,
                "format": if column.name == "Name" { "name" } else { "" },
                "description": "", "priority": u8::from(column.wide),
            })
        })
        .collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "columnDefinitions": columns, "rows": rows,
    })
}

fn layout(kind: KindId) -> Layout {
    let entry = kind.get();
    core::layout(entry.kind)
        .or_else(|| workloads::layout(entry.kind))
        .or_else(|| storage::layout(entry.kind))
        .or_else(|| cluster::layout(entry.kind))
        .or_else(|| groups::layout(entry.kind).filter(|_| !entry.is_custom()))
        .unwrap_or(Layout {
            columns: const { &[column("Name"), column("Age")] },
            cells: |value, now| vec![name(value), age(value, now)],
        })
}

fn name(value: &Value) -> Value {
    text_at(value, &["metadata", "name"]).into()
}

fn age(value: &Value, now: Timestamp) -> Value {
    age::since(text_at(value, &["metadata", "creationTimestamp"]), now).into()
}

/// `text`, or a placeholder when there is none.
fn or(text: &str, placeholder: &str) -> Value {
    if text.is_empty() { placeholder.into() } else { text.into() }
}

fn labels_text(labels: Option<&Value>) -> String {
    let pairs: Vec<String> = labels
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    if pairs.is_empty() { "<none>".to_owned() } else { pairs.join(",") }
}

/// A label selector object as kubectl shows it.
fn selector_text(selector: Option<&Value>) -> String {
    let Some(selector) = selector else { return "<none>".to_owned() };
    let mut parts: Vec<String> = Vec::new();
    let labels = labels_text(selector.get("matchLabels"));
    if labels != "<none>" {
        parts.push(labels);
    }
    for expression in crate::object::list_at(selector, &["matchExpressions"]) {
        let key = text_at(expression, &["key"]);
        let values: Vec<&str> = crate::object::list_at(expression, &["values"])
            .iter()
            .filter_map(Value::as_str)
            .collect();
        parts.push(match text_at(expression, &["operator"]) {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        });
    }
    if parts.is_empty() { "<none>".to_owned() } else { parts.join(",") }
}

/// Names and images of a pod template's containers, as the wide columns show them.
fn containers_and_images(pod_spec: Option<&Value>) -> (Value, Value) {
    let containers = pod_spec.map_or(&[][..], |spec| crate::object::list_at(spec, &["containers"]));
    let column = |field: &str| {
        let texts: Vec<&str> =
            containers.iter().map(|container| text_at(container, &[field])).collect();
        Value::from(texts.join(","))
    };
    (column("name"), column("image"))
}
