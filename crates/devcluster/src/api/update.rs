//! Changing objects: PUT and PATCH of an object or of one of its subresources.

use std::sync::Arc;

use kube_scheduler_api_types::validation::{FieldError, FieldPath};
use serde_json::Value;

use super::{WriteOptions, commit};
use crate::defaults;
use crate::groups;
use crate::kinds::{KindId, LEASES, NAMESPACES, NODES, POD_GROUPS, PODS, WORKLOADS};
use crate::object::{
    StoredObject, at, child_mut, int_at, list_at, map_mut, meta_mut, strip_nulls, text_at,
};
use crate::status::StatusError;
use crate::store::{State, Store};
use crate::validation;

/// Which part of an object a change may touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Everything but status, where status is separate.
    Main,
    /// Only status.
    Status,
    /// Only a pod's resources.
    Resize,
    /// Only a pod's ephemeral containers.
    EphemeralContainers,
    /// Only a namespace's `spec.finalizers`.
    Finalize,
}

impl Part {
    pub(crate) fn parse(subresource: &str) -> Option<Self> {
        Some(match subresource {
            "" => Self::Main,
            "status" => Self::Status,
            "resize" => Self::Resize,
            "ephemeralcontainers" => Self::EphemeralContainers,
            "finalize" => Self::Finalize,
            _ => return None,
        })
    }
}

/// The object to change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'r> {
    pub(crate) kind: KindId,
    pub(crate) namespace: &'r str,
    pub(crate) name: &'r str,
    pub(crate) part: Part,
}

/// Replaces an object by the result of `change`.
pub(crate) fn modify(
    store: &Store,
    target: Target<'_>,
    options: &WriteOptions,
    change: impl FnOnce(&Value) -> Result<Value, StatusError>,
) -> Result<Arc<StoredObject>, StatusError> {
    store.write(|state| modify_in(state, target, options, change))
}

pub(crate) fn modify_in(
    state: &mut State,
    target: Target<'_>,
    options: &WriteOptions,
    change: impl FnOnce(&Value) -> Result<Value, StatusError>,
) -> Result<Arc<StoredObject>, StatusError> {
    let Target { kind, namespace, name, part } = target;
    let Some(current) = state.get(kind, namespace, name).cloned() else {
        return Err(StatusError::not_found(kind.get(), name));
    };
    let old = current.value();
    let mut new = change(&old)?;
    strip_nulls(&mut new);
    validation::check_shape(&new)?;
    // A conflict is reported before anything that is wrong with the content, which may be due to the stale read.
    check_identity(target, &old, &new)?;

    let mut result = match part {
        Part::Main | Part::Resize => new,
        Part::Status => with_part(&old, &new, &["status"]),
        Part::EphemeralContainers => with_part(&old, &new, &["spec", "ephemeralContainers"]),
        Part::Finalize => with_part(&old, &new, &["spec", "finalizers"]),
    };
    if matches!(part, Part::Main | Part::Resize) {
        keep_server_side(kind, &old, &mut result);
        defaults::apply(kind, &mut result);
        if kind == PODS {
            defaults::admit_pod_update(&old, &mut result);
            validation::check_pod_update(&old, &result, part == Part::Resize)?;
        } else if kind == POD_GROUPS || kind == WORKLOADS {
            groups::keep_admitted(&old, &mut result);
            groups::check_group_update(kind, &old, &result)?;
        }
        if kind.get().has_generation && differs_outside_metadata(&old, &result) {
            let generation = int_at(&old, &["metadata", "generation"]).unwrap_or(0) + 1;
            meta_mut(&mut result).insert("generation".into(), generation.into());
        }
    } else if part == Part::Status {
        defaults::apply_to_status(kind, &mut result);
    }
    validation::check(kind, &result)?;
    // With the version of the stored object, so that a write without any change compares equal.
    meta_mut(&mut result)
        .insert("resourceVersion".into(), current.resource_version().to_string().into());
    if result == old {
        return Ok(current);
    }
    let is_last_finalizer = is_released(kind, &result);
    let object = commit(state, kind, result, options);
    if options.dry_run {
        return Ok(object);
    }
    if kind == NAMESPACES {
        state.finish_namespace(name);
    } else if is_last_finalizer {
        return Ok(state.remove(kind, namespace, name).unwrap_or(object));
    }
    Ok(object)
}

/// Checks the body of a PUT, and returns it ready to be stored.
pub(crate) fn replacement(target: Target<'_>, mut new: Value) -> Result<Value, StatusError> {
    strip_nulls(&mut new);
    validation::check_shape(&new)?;
    super::create::check_type(target.kind, &new)?;
    let name = text_at(&new, &["metadata", "name"]);
    if !name.is_empty() && name != target.name {
        return Err(StatusError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            target.name
        )));
    }
    let namespace = text_at(&new, &["metadata", "namespace"]);
    if !namespace.is_empty() && namespace != target.namespace {
        return Err(StatusError::bad_request(format!(
            "the namespace of the object ({namespace}) does not match the namespace on the URL ({})",
            target.namespace
        )));
    }
    let versionless = text_at(&new, &["metadata", "resourceVersion"]).is_empty();
    // Leases guard leadership, so they are never replaced without knowledge of their current version.
    if versionless && target.kind == LEASES {
        let path = FieldPath::new("metadata.resourceVersion");
        let error = FieldError::invalid(path, 0_i64, "must be specified for an update");
        return Err(StatusError::invalid(target.kind.get(), target.name, &[error]));
    }
    Ok(new)
}

fn check_identity(target: Target<'_>, old: &Value, new: &Value) -> Result<(), StatusError> {
    let entry = target.kind.get();
    let (given, current) = (
        text_at(new, &["metadata", "resourceVersion"]),
        text_at(old, &["metadata", "resourceVersion"]),
    );
    if !given.is_empty() && given != "0" && given != current {
        return Err(StatusError::modified(entry, target.name));
    }
    let (given, current) = (text_at(new, &["metadata", "uid"]), text_at(old, &["metadata", "uid"]));
    if !given.is_empty() && given != current {
        let why = format!(
            "Precondition failed: UID in precondition: {given}, UID in object meta: {current}"
        );
        return Err(StatusError::conflict(entry, entry.plural, target.name, &why));
    }
    let renamed = |field| {
        let given = text_at(new, &["metadata", field]);
        !given.is_empty() && given != text_at(old, &["metadata", field])
    };
    if renamed("name") || renamed("namespace") {
        let path = FieldPath::new("metadata.name");
        let name = text_at(new, &["metadata", "name"]);
        let error = FieldError::invalid(path, name, "field is immutable");
        return Err(StatusError::invalid(entry, target.name, &[error]));
    }
    Ok(())
}

/// Restores what this request may not change: metadata that only the server sets, and the status where it is a
/// subresource.
fn keep_server_side(kind: KindId, old: &Value, new: &mut Value) {
    let members = map_mut(new);
    for key in ["kind", "apiVersion"] {
        if let Some(value) = old.get(key) {
            members.insert(key.into(), value.clone());
        }
    }
    if kind.get().has_status {
        match old.get("status") {
            Some(status) => members.insert("status".into(), status.clone()),
            None => members.remove("status"),
        };
    }
    let meta = meta_mut(new);
    const KEPT: [&str; 7] = [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
    ];
    for key in KEPT {
        match at(old, &["metadata", key]) {
            Some(value) => meta.insert(key.into(), value.clone()),
            None => meta.remove(key),
        };
    }
    for key in ["managedFields", "generateName"] {
        if let Some(value) = at(old, &["metadata", key]).filter(|_| !meta.contains_key(key)) {
            meta.insert(key.into(), value.clone());
        }
    }
    for key in ["labels", "annotations"] {
        if meta.get(key).and_then(Value::as_object).is_some_and(serde_json::Map::is_empty) {
            meta.remove(key);
        }
    }
    // What a kubelet or a binding has written into the spec survives a manifest without that field.
    if kind == NODES || kind == PODS {
        let field = if kind == NODES { "podCIDR" } else { "nodeName" };
        if let Some(value) = at(old, &["spec", field]) {
            child_mut(new, "spec").entry(field).or_insert_with(|| value.clone());
        }
    }
}

/// `old` with the value at `path` taken from `new`.
fn with_part(old: &Value, new: &Value, path: &[&str]) -> Value {
    let mut result = old.clone();
    let Some((last, parents)) = path.split_last() else { return result };
    let mut slot = &mut result;
    for step in parents {
        slot = map_mut(slot).entry(*step).or_insert(Value::Null);
    }
    match at(new, path) {
        Some(value) => map_mut(slot).insert((*last).to_owned(), value.clone()),
        None => map_mut(slot).remove(*last),
    };
    result
}

fn differs_outside_metadata(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return true };
    let content = |(key, _): &(&String, &Value)| !matches!(key.as_str(), "metadata" | "status");
    !old.iter().filter(content).eq(new.iter().filter(content))
}

/// Whether a deleted object was only waiting for its finalizers and they are gone now.
fn is_released(kind: KindId, value: &Value) -> bool {
    let terminating = at(value, &["metadata", "deletionTimestamp"]).is_some();
    let graceful =
        kind == PODS && int_at(value, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0) > 0;
    terminating && !graceful && list_at(value, &["metadata", "finalizers"]).is_empty()
}
