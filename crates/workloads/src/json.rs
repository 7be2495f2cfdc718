//! Reading and writing JSON of which nothing is certain: what is absent, or of another type, reads as empty and is replaced
//! when it is written to.

use std::sync::Arc;

use kube_scheduler_api_types::Labels;
use serde_json::{Map, Value};

/// The value at `path`, a field name for each step; `None` when there is none.
pub fn at<'v>(value: &'v Value, path: &[&str]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, step| value.get(*step))
}

/// The string at `path`, empty when there is none.
pub fn text_at<'v>(value: &'v Value, path: &[&str]) -> &'v str {
    at(value, path).and_then(Value::as_str).unwrap_or_default()
}

/// The integer at `path`; `None` when there is none or it is no integer.
pub fn int_at(value: &Value, path: &[&str]) -> Option<i64> {
    at(value, path).and_then(Value::as_i64)
}

/// The list at `path`, empty when there is none.
pub fn list_at<'v>(value: &'v Value, path: &[&str]) -> &'v [Value] {
    at(value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The API group of an object, empty for the core group, and its kind.
pub fn group_and_kind(value: &Value) -> (&str, &str) {
    let api_version = text_at(value, &["apiVersion"]);
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    (group, text_at(value, &["kind"]))
}

/// The labels of an object.
pub fn labels_of(value: &Value) -> Labels {
    let pairs = value.pointer("/metadata/labels").and_then(Value::as_object);
    let text = |(key, value): (&String, &Value)| {
        (Arc::<str>::from(key.as_str()), Arc::<str>::from(value.as_str().unwrap_or_default()))
    };
    pairs.into_iter().flatten().map(text).collect()
}

/// `value` as a map, replaced by an empty one when it is anything else.
pub fn map_mut(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("made an object above"),
    }
}

/// The value under `key` if it is a map, created if it is absent or null.
pub fn map_at<'a>(
    map: &'a mut Map<String, Value>,
    key: &str,
) -> Option<&'a mut Map<String, Value>> {
    let place = map.entry(key).or_insert(Value::Null);
    if place.is_null() {
        *place = Value::Object(Map::new());
    }
    place.as_object_mut()
}

/// The map under `key`, created when it is missing.
pub fn child_mut<'v>(value: &'v mut Value, key: &str) -> &'v mut Map<String, Value> {
    map_mut(map_mut(value).entry(key).or_insert(Value::Null))
}

/// The list under `key`, created when it is missing.
pub fn list_mut<'v>(map: &'v mut Map<String, Value>, key: &str) -> &'v mut Vec<Value> {
    let slot = map.entry(key).or_insert(Value::Null);
    if !slot.is_array() {
        *slot = Value::Array(Vec::new());
    }
    match slot {
        Value::Array(list) => list,
        _ => unreachable!("made a list above"),
    }
}

/// `metadata` as a map.
pub fn meta_mut(value: &mut Value) -> &mut Map<String, Value> {
    child_mut(value, "metadata")
}

/// `metadata.labels` as a map.
pub fn labels_mut(value: &mut Value) -> &mut Map<String, Value> {
    map_mut(meta_mut(value).entry("labels").or_insert(Value::Null))
}

/// `metadata.annotations` as a map.
pub fn annotations_mut(value: &mut Value) -> &mut Map<String, Value> {
    map_mut(meta_mut(value).entry("annotations").or_insert(Value::Null))
}
