//! Server-side apply, in a simple form.
//!
//! An applied configuration is merged into the object by the list keys of [`super::schema`]; the fields it names are
//! recorded under its manager in `metadata.managedFields`; fields that the manager has applied before and now leaves out
//! are removed unless another manager has applied them too; a field that another manager has applied with another value
//! is a conflict unless the apply is forced.
//!
//! Difference from Kubernetes: only apply makes a manager own fields. Other updates record no owner, so applying a
//! different value than an update has written is never a conflict.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::schema::{ListRule, Node};
use crate::kinds::Kind;
use crate::object::{at, list_mut, map_mut, meta_mut, text_at};
use crate::status::StatusError;

/// The manager that applies, the part of the object that it applies to, and the time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Applier<'r> {
    pub(crate) manager: &'r str,
    pub(crate) subresource: &'r str,
    pub(crate) force: bool,
    pub(crate) now: &'r str,
}

/// One step from an object to a field, in the notation of `FieldsV1`.
type Path = Vec<String>;

/// The object after applying `applied` to `live`, which is `None` if the object does not exist yet.
///
/// # Errors
/// Status 409 if other managers own applied fields; 400 if the configuration has no manager or managed fields.
pub(crate) fn applied(
    kind: &Kind,
    live: Option<&Value>,
    applied: &Value,
    applier: Applier<'_>,
) -> Result<Value, StatusError> {
    if applier.manager.is_empty() {
        return Err(StatusError::bad_request(
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
        ));
    }
    let mut configuration = applied.clone();
    if let Some(meta) = configuration.get_mut("metadata").and_then(Value::as_object_mut)
        && meta
            .remove("managedFields")
            .is_some_and(|fields| fields.as_array().is_some_and(|list| !list.is_empty()))
    {
        return Err(StatusError::bad_request("metadata.managedFields must be nil"));
    }
    let root = Node::root(kind);
    let mut fields = BTreeSet::new();
    collect(&configuration, root, &mut Vec::new(), &mut fields);
    fields.retain(|path| !is_identity(path));

    let mut result = live.cloned().unwrap_or_else(|| json!({}));
    let managers = at(&result, &["metadata", "managedFields"])
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let others: Vec<(&Value, BTreeSet<Path>)> = managers
        .iter()
        .filter(|entry| !is_same(entry, applier))
        .map(|entry| (entry, paths_of(entry.get("fieldsV1").unwrap_or(&Value::Null))))
        .collect();
    if !applier.force {
        check_conflicts(&result, &configuration, root, &fields, &others)?;
    }
    // Before merging, because removing a field also removes the maps that become empty, and merging may fill them again.
    let own_before: BTreeSet<Path> = managers
        .iter()
        .filter(|entry| is_same(entry, applier))
        .flat_map(|entry| paths_of(entry.get("fieldsV1").unwrap_or(&Value::Null)))
        .collect();
    for path in own_before.difference(&fields) {
        if !others.iter().any(|(_, theirs)| theirs.contains(path)) {
            remove(&mut result, path);
        }
    }
    merge(&mut result, &configuration, root);

    let mut entries: Vec<Value> =
        managers.iter().filter(|entry| !is_same(entry, applier)).cloned().collect();
    if applier.force {
        for entry in &mut entries {
            disown(entry, &result, live, &fields);
        }
    }
    entries.push(entry_for(kind, applier, &fields));
    // An apply without any change must not even write a new time, else it would be a new version of the object.
    let unchanged = live.is_some_and(|live| own_before == fields && same_content(live, &result));
    let meta = meta_mut(&mut result);
    if unchanged {
        meta.insert("managedFields".into(), Value::Array(managers));
    } else {
        *list_mut(meta, "managedFields") = entries;
    }
    Ok(result)
}

fn is_same(entry: &Value, applier: Applier<'_>) -> bool {
    text_at(entry, &["manager"]) == applier.manager
        && text_at(entry, &["operation"]) == "Apply"
        && text_at(entry, &["subresource"]) == applier.subresource
}

fn entry_for(kind: &Kind, applier: Applier<'_>, fields: &BTreeSet<Path>) -> Value {
    let mut tree = json!({});
    for path in fields {
        let mut node = &mut tree;
        for step in path {
            node = map_mut(node).entry(step.clone()).or_insert_with(|| json!({}));
        }
    }
    let mut entry = json!({
        "manager": applier.manager, "operation": "Apply", "apiVersion": kind.api_version(),
        "time": applier.now, "fieldsType": "FieldsV1", "fieldsV1": tree,
    });
    if !applier.subresource.is_empty() {
        map_mut(&mut entry).insert("subresource".into(), applier.subresource.into());
    }
    entry
}

fn same_content(live: &Value, result: &Value) -> bool {
    let bare = |value: &Value| {
        let mut value = value.clone();
        meta_mut(&mut value).remove("managedFields");
        value
    };
    bare(live) == bare(result)
}

/// Fields that identify the object; they have no owner.
fn is_identity(path: &[String]) -> bool {
    match path {
        [top] => top == "f:apiVersion" || top == "f:kind",
        [top, field] => {
            top == "f:metadata"
                && matches!(
                    field.as_str(),
                    "f:name"
                        | "f:namespace"
                        | "f:resourceVersion"
                        | "f:uid"
                        | "f:creationTimestamp"
                )
        }
        _ => false,
    }
}

/// Adds every leaf of `value` to `fields` as a path; elements of keyed lists are steps, other lists are leaves.
fn collect(value: &Value, node: Node, path: &mut Path, fields: &mut BTreeSet<Path>) {
    let Some(members) = value.as_object() else {
        fields.insert(path.clone());
        return;
    };
    if members.is_empty() && !path.is_empty() {
        fields.insert(path.clone());
    }
    for (key, member) in members {
        path.push(format!("f:{key}"));
        match (member, keys(node.list(key))) {
            (Value::Array(elements), Some(merge_keys)) => {
                for element in elements {
                    path.push(element_step(element, merge_keys));
                    // The element itself is owned too, so that it goes when its manager drops it.
                    let mut own = path.clone();
                    own.push(".".into());
                    fields.insert(own);
                    collect(element, node.child(key), path, fields);
                    path.pop();
                }
            }
            (Value::Array(elements), None) if node.list(key) == ListRule::Set => {
                for element in elements {
                    let mut own = path.clone();
                    own.push(format!("v:{element}"));
                    fields.insert(own);
                }
            }
            (Value::Object(_), _) => collect(member, node.child(key), path, fields),
            _ => {
                fields.insert(path.clone());
            }
        }
        path.pop();
    }
}

fn keys(rule: ListRule) -> Option<&'static [&'static str]> {
    match rule {
        ListRule::Keyed("name") => Some(&["name"]),
        ListRule::Keyed("uid") => Some(&["uid"]),
        ListRule::Keyed("type") => Some(&["type"]),
        ListRule::Keyed("ip") => Some(&["ip"]),
        ListRule::Keyed("mountPath") => Some(&["mountPath"]),
        ListRule::Keyed("devicePath") => Some(&["devicePath"]),
        ListRule::Keyed("topologyKey") => Some(&["topologyKey", "whenUnsatisfiable"]),
        ListRule::Keyed("containerPort") => Some(&["containerPort", "protocol"]),
        ListRule::Keyed("port") => Some(&["port", "protocol"]),
        ListRule::ApplyKeyed(keys) => Some(keys),
        ListRule::Keyed(_) | ListRule::Atomic | ListRule::Set => None,
    }
}

/// `k:{"name":"a"}`; a protocol that is left out is TCP.
fn element_step(element: &Value, merge_keys: &[&str]) -> String {
    let identity: Map<String, Value> = merge_keys
        .iter()
        .filter_map(|key| {
            let value = element.get(*key).cloned();
            let value = value.or_else(|| (*key == "protocol").then(|| "TCP".into()));
            value.map(|value| ((*key).to_owned(), value))
        })
        .collect();
    format!("k:{}", Value::Object(identity))
}

fn merge(target: &mut Value, applied: &Value, node: Node) {
    let Some(members) = applied.as_object() else {
        *target = applied.clone();
        return;
    };
    let target = map_mut(target);
    for (key, member) in members {
        match (member, node.list(key)) {
            (Value::Array(elements), ListRule::Set) => {
                let list = list_mut(target, key);
                for element in elements {
                    if !list.contains(element) {
                        list.push(element.clone());
                    }
                }
            }
            (Value::Array(elements), rule) if keys(rule).is_some() => {
                let merge_keys = keys(rule).unwrap_or(&[]);
                let list = list_mut(target, key);
                for element in elements {
                    let step = element_step(element, merge_keys);
                    match list.iter_mut().find(|own| element_step(own, merge_keys) == step) {
                        Some(own) => merge(own, element, node.child(key)),
                        None => list.push(element.clone()),
                    }
                }
            }
            (Value::Object(_), _) => {
                merge(
                    target.entry(key.clone()).or_insert_with(|| json!({})),
                    member,
                    node.child(key),
                );
            }
            (Value::Null, _) => {}
            _ => {
                target.insert(key.clone(), member.clone());
            }
        }
    }
}

fn check_conflicts(
    live: &Value,
    configuration: &Value,
    root: Node,
    fields: &BTreeSet<Path>,
    others: &[(&Value, BTreeSet<Path>)],
) -> Result<(), StatusError> {
    let mut merged = live.clone();
    merge(&mut merged, configuration, root);
    let mut lines = Vec::new();
    for (entry, theirs) in others {
        for path in theirs.intersection(fields) {
            if find(live, path) != find(&merged, path) {
                let shown: String =
                    path.iter().map(|step| format!(".{}", step.trim_start_matches("f:"))).collect();
                lines.push(format!("conflict with {:?}: {shown}", text_at(entry, &["manager"])));
            }
        }
    }
    if lines.is_empty() {
        return Ok(());
    }
    let n_conflicts = lines.len();
    let plural = if n_conflicts == 1 { "conflict" } else { "conflicts" };
    Err(StatusError::with_code(
        409,
        format!("Apply failed with {n_conflicts} {plural}: {}", lines.join("; ")),
    ))
}

/// Removes the fields that a forced apply has changed from those of their former owner.
fn disown(entry: &mut Value, result: &Value, live: Option<&Value>, fields: &BTreeSet<Path>) {
    let Some(live) = live else { return };
    let Some(tree) = entry.get_mut("fieldsV1") else { return };
    for path in paths_of(tree).intersection(fields) {
        if find(live, path) != find(result, path) {
            prune(tree, path);
        }
    }
}

fn prune(tree: &mut Value, path: &[String]) {
    let Some((step, rest)) = path.split_first() else { return };
    let Some(members) = tree.as_object_mut() else { return };
    if rest.is_empty() {
        members.remove(step);
        return;
    }
    if let Some(child) = members.get_mut(step) {
        prune(child, rest);
        if child.as_object().is_some_and(Map::is_empty) {
            members.remove(step);
        }
    }
}

fn paths_of(tree: &Value) -> BTreeSet<Path> {
    fn walk(tree: &Value, path: &mut Path, paths: &mut BTreeSet<Path>) {
        match tree.as_object().filter(|members| !members.is_empty()) {
            Some(members) => {
                for (step, child) in members {
                    path.push(step.clone());
                    walk(child, path, paths);
                    path.pop();
                }
            }
            None if path.is_empty() => {}
            None => {
                paths.insert(path.clone());
            }
        }
    }
    let mut paths = BTreeSet::new();
    walk(tree, &mut Vec::new(), &mut paths);
    paths
}

fn find<'v>(value: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, step| {
        if step == "." {
            return Some(value);
        }
        if let Some(field) = step.strip_prefix("f:") {
            return value.get(field);
        }
        position(value.as_array()?, step).and_then(|position| value.get(position))
    })
}

fn remove(value: &mut Value, path: &[String]) {
    let Some((step, rest)) = path.split_first() else { return };
    if let Some(field) = step.strip_prefix("f:") {
        let Some(members) = value.as_object_mut() else { return };
        if rest.is_empty() {
            members.remove(field);
        } else if let Some(child) = members.get_mut(field) {
            remove(child, rest);
            if child.as_object().is_some_and(Map::is_empty)
                || child.as_array().is_some_and(Vec::is_empty)
            {
                members.remove(field);
            }
        }
        return;
    }
    let Some(list) = value.as_array_mut() else { return };
    let Some(position) = position(list, step) else { return };
    match rest {
        [] => {
            list.remove(position);
        }
        [dot] if dot == "." => {
            list.remove(position);
        }
        _ => remove(&mut list[position], rest),
    }
}

fn position(list: &[Value], step: &str) -> Option<usize> {
    if let Some(scalar) = step.strip_prefix("v:") {
        let scalar: Value = serde_json::from_str(scalar).ok()?;
        return list.iter().position(|element| *element == scalar);
    }
    let identity: Map<String, Value> = serde_json::from_str(step.strip_prefix("k:")?).ok()?;
    list.iter().position(|element| {
        identity.iter().all(|(key, value)| match element.get(key) {
            Some(own) => own == value,
            None => key == "protocol" && value == "TCP",
        })
    })
}
