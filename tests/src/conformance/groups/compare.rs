//! What differs between what is and what was recorded, at the first place where it does.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::text;

/// The first place, by path, at which two values differ.
pub(super) fn difference(path: &str, is: &Value, recorded: &Value) -> Option<String> {
    match (is, recorded) {
        _ if is == recorded => None,
        (Value::Object(a), Value::Object(b)) => {
            let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            names.into_iter().find_map(|name| {
                let path = format!("{path}.{name}");
                difference(
                    &path,
                    a.get(name).unwrap_or(&Value::Null),
                    b.get(name).unwrap_or(&Value::Null),
                )
            })
        }
        (Value::Array(a), Value::Array(b)) => {
            let first = a.iter().zip(b).enumerate().find_map(|(at, (is, recorded))| {
                difference(&format!("{path}[{at}]"), is, recorded)
            });
            first.or_else(|| {
                Some(format!(
                    "{path}: has {} entries, recorded are {}{}",
                    a.len(),
                    b.len(),
                    a.get(b.len())
                        .map(|extra| format!("; not recorded is {extra}"))
                        .or_else(|| b.get(a.len()).map(|lacks| format!("; missing is {lacks}")))
                        .unwrap_or_default()
                ))
            })
        }
        _ => Some(format!("{path}: is {is}, recorded is {recorded}")),
    }
}

/// As [`difference`], for lists whose entries about different objects may come in any order; `field` names the object.
pub(super) fn difference_by_object(
    path: &str,
    field: &str,
    is: &[Value],
    recorded: &Value,
) -> Option<String> {
    let recorded = recorded.as_array().map_or(&[][..], Vec::as_slice);
    let (is, recorded) = (by_object(field, is), by_object(field, recorded));
    let names: BTreeSet<&str> = is.keys().chain(recorded.keys()).copied().collect();
    names.into_iter().find_map(|name| {
        let list = |map: &BTreeMap<&str, Vec<Value>>| {
            Value::Array(map.get(name).cloned().unwrap_or_default())
        };
        difference(&format!("{path} of {name}"), &list(&is), &list(&recorded))
    })
}

fn by_object<'a>(field: &str, entries: &'a [Value]) -> BTreeMap<&'a str, Vec<Value>> {
    let mut map: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for entry in entries {
        map.entry(text(&entry[field])).or_default().push(entry.clone());
    }
    map
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_difference_has_its_path() {
        let is = json!({"a": [1, {"b": "x"}], "c": 1});
        let recorded = json!({"a": [1, {"b": "y"}], "c": 2});
        assert_eq!(
            difference("expect", &is, &recorded).as_deref(),
            Some("expect.a[1].b: is \"x\", recorded is \"y\"")
        );
        assert_eq!(difference("expect", &is, &is), None);
        assert_eq!(
            difference("w", &json!([1]), &json!([1, 2])).as_deref(),
            Some("w: has 1 entries, recorded are 2; missing is 2")
        );
        assert_eq!(
            difference("w", &json!({}), &json!({"node": "n"})).as_deref(),
            Some("w.node: is null, recorded is \"n\"")
        );
    }

    #[test]
    fn only_the_order_within_an_object_counts() {
        let (a, b) = (json!({"name": "a", "n": 1}), json!({"name": "b", "n": 1}));
        let later = json!({"name": "a", "n": 2});
        let is = [a.clone(), b.clone(), later.clone()];
        let same = difference_by_object("writes", "name", &is, &json!([b, a, later]));
        assert_eq!(same, None);
        let swapped = difference_by_object("writes", "name", &is, &json!([later, a, b]));
        assert_eq!(swapped.as_deref(), Some("writes of a[0].n: is 1, recorded is 2"));
    }
}
