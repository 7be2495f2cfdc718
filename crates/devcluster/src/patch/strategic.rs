//! Strategic merge patch.
//!
//! Invariants: directives (`$patch`, `$retainKeys`, `$deleteFromPrimitiveList/…`, `$setElementOrder/…`) never end up in
//! the result; merging the same patch twice equals merging it once.

use serde_json::{Map, Value};

use super::schema::{ListRule, Node};

/// Why a patch cannot be merged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StrategicError {
    #[error("unknown patch directive {0:?}; allowed are replace, delete and merge")]
    UnknownDirective(String),
    #[error("list {list:?} is merged by {key:?}, but an element of the patch lacks it")]
    MissingKey { list: String, key: &'static str },
    #[error("the patch is not an object")]
    NotAnObject,
}

/// Merges `patch` into `target`.
pub(crate) fn merge(target: &mut Value, patch: &Value, node: &Node) -> Result<(), StrategicError> {
    let Some(patch) = patch.as_object() else { return Err(StrategicError::NotAnObject) };
    match directive(patch)? {
        Directive::Replace => {
            let mut replacement = patch.clone();
            replacement.remove("$patch");
            *target = Value::Object(replacement);
            return Ok(());
        }
        Directive::Delete => {
            *target = Value::Object(Map::new());
            return Ok(());
        }
        Directive::Merge => {}
    }
    merge_maps(crate::object::map_mut(target), patch, *node)
}

enum Directive {
    Merge,
    Replace,
    Delete,
}

fn directive(patch: &Map<String, Value>) -> Result<Directive, StrategicError> {
    match patch.get("$patch").map(|value| value.as_str().unwrap_or_default()) {
        None | Some("merge") => Ok(Directive::Merge),
        Some("replace") => Ok(Directive::Replace),
        Some("delete") => Ok(Directive::Delete),
        Some(other) => Err(StrategicError::UnknownDirective(other.to_owned())),
    }
}

fn merge_maps(
    target: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    node: Node,
) -> Result<(), StrategicError> {
    // Directives that remove come before values are merged, and the order of elements is set at the end, when all
    // elements are there.
    if let Some(kept) = patch.get("$retainKeys").and_then(Value::as_array) {
        target.retain(|key, _| kept.iter().any(|kept| kept == key));
    }
    for (key, value) in patch {
        if let Some(list) = key.strip_prefix("$deleteFromPrimitiveList/") {
            let doomed = value.as_array().map_or(&[][..], Vec::as_slice);
            if let Some(values) = target.get_mut(list).and_then(Value::as_array_mut) {
                values.retain(|value| !doomed.contains(value));
            }
        }
    }
    for (key, value) in patch {
        if key.starts_with('$') {
            continue;
        }
        match value {
            Value::Null => {
                target.remove(key);
            }
            Value::Object(child) => {
                if matches!(directive(child)?, Directive::Delete) {
                    target.remove(key);
                    continue;
                }
                let slot = target.entry(key.clone()).or_insert_with(|| Value::Object(Map::new()));
                merge(slot, value, &node.child(key))?;
            }
            Value::Array(elements) => merge_list(target, key, elements, node)?,
            scalar => {
                target.insert(key.clone(), scalar.clone());
            }
        }
    }
    for (key, value) in patch {
        if let (Some(list), Some(order)) = (key.strip_prefix("$setElementOrder/"), value.as_array())
            && let Some(values) = target.get_mut(list).and_then(Value::as_array_mut)
        {
            reorder(values, order, node.list(list));
        }
    }
    Ok(())
}

fn merge_list(
    target: &mut Map<String, Value>,
    key: &str,
    elements: &[Value],
    node: Node,
) -> Result<(), StrategicError> {
    let rule = node.list(key);
    let is_replace =
        |element: &Value| element.get("$patch").is_some_and(|directive| directive == "replace");
    if elements.iter().any(is_replace) || matches!(rule, ListRule::Atomic | ListRule::ApplyKeyed(_))
    {
        let plain = elements
            .iter()
            .filter(|element| !is_replace(element))
            .map(without_directives)
            .collect();
        target.insert(key.to_owned(), Value::Array(plain));
        return Ok(());
    }
    let list = crate::object::list_mut(target, key);
    match rule {
        ListRule::Set => {
            for element in elements {
                if !list.contains(element) {
                    list.push(element.clone());
                }
            }
        }
        ListRule::Keyed(merge_key) => {
            let child = node.child(key);
            for element in elements {
                merge_element(list, key, merge_key, element, child)?;
            }
        }
        ListRule::Atomic | ListRule::ApplyKeyed(_) => {}
    }
    Ok(())
}

fn merge_element(
    list: &mut Vec<Value>,
    list_name: &str,
    merge_key: &'static str,
    element: &Value,
    child: Node,
) -> Result<(), StrategicError> {
    let missing = || StrategicError::MissingKey { list: list_name.to_owned(), key: merge_key };
    let identity = element.get(merge_key).ok_or_else(missing)?;
    let position = list.iter().position(|own| own.get(merge_key) == Some(identity));
    let Some(members) = element.as_object() else { return Err(missing()) };
    match (directive(members)?, position) {
        (Directive::Delete, _) => list.retain(|own| own.get(merge_key) != Some(identity)),
        (_, Some(position)) => merge(&mut list[position], element, &child)?,
        (_, None) => {
            let mut fresh = Value::Object(Map::new());
            merge(&mut fresh, element, &child)?;
            list.push(fresh);
        }
    }
    Ok(())
}

/// Puts the elements that `order` names into that order; the others stay behind the named element they followed.
fn reorder(values: &mut Vec<Value>, order: &[Value], rule: ListRule) {
    let identity = |value: &Value| match rule {
        ListRule::Keyed(key) => value.get(key).cloned().unwrap_or_default(),
        _ => value.clone(),
    };
    let rank = |value: &Value| {
        let wanted = identity(value);
        order.iter().position(|entry| identity(entry) == wanted)
    };
    let old = std::mem::take(values);
    let ranks: Vec<Option<usize>> = old.iter().map(rank).collect();
    let mut named: Vec<(usize, Value)> = Vec::new();

    let mut followers: Vec<(Option<usize>, Value)> = Vec::new();
    let mut anchor = None;
    for (value, rank) in old.into_iter().zip(ranks) {
        match rank {
            Some(rank) => {
                anchor = Some(rank);
                named.push((rank, value));
            }
            None => followers.push((anchor, value)),
        }
    }
    named.sort_by_key(|(rank, _)| *rank);
    let followers_of = |anchor: Option<usize>| {
        followers.iter().filter(move |(own, _)| *own == anchor).map(|(_, value)| value.clone())
    };
    values.extend(followers_of(None));
    for (rank, value) in &named {
        values.push(value.clone());
        values.extend(followers_of(Some(*rank)));
    }
}

fn without_directives(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(key, _)| !key.starts_with('$'))
                .map(|(key, value)| (key.clone(), without_directives(value)))
                .collect(),
        ),
        Value::Array(list) => Value::Array(list.iter().map(without_directives).collect()),
        scalar => scalar.clone(),
    }
}
