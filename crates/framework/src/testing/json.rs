//! Changing JSON at a path.

use serde_json::{Map, Value, json};

/// What is at the path. Maps on the way are made where there are none; a step `0` goes to the first item of a list.
pub(super) fn place<'v>(root: &'v mut Value, path: &[&str]) -> &'v mut Value {
    path.iter().fold(root, |at, step| {
        if *step == "0" && at.is_array() {
            return first(at);
        }
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        &mut at[*step]
    })
}

/// The first item of a list, made if there is none.
fn first(list: &mut Value) -> &mut Value {
    if list.get(0).is_none() {
        *list = json!([null]);
    }
    &mut list[0]
}

/// Adds to the list at `place`, made if there is none.
pub(super) fn push(place: &mut Value, item: Value) {
    match place {
        Value::Array(items) => items.push(item),
        other => *other = Value::Array(vec![item]),
    }
}

/// Adds `extra` to `base`, map by map.
pub(super) fn merge(base: &mut Value, extra: Value) {
    match (base, extra) {
        (Value::Object(base), Value::Object(extra)) => {
            for (key, value) in extra {
                merge(base.entry(key).or_insert_with(|| Value::Object(Map::new())), value);
            }
        }
        (base, extra) => *base = extra,
    }
}
