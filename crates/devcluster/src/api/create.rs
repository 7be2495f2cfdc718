//! Creating objects.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{WriteOptions, check_namespace, commit};
use crate::clock::to_rfc3339;
use crate::defaults;
use crate::kinds::KindId;
use crate::object::{StoredObject, map_mut, meta_mut, strip_nulls, text_at};
use crate::status::StatusError;
use crate::store::{State, Store};
use crate::validation;

/// Creates one object in `namespace`, which is empty for cluster-scoped kinds.
pub(crate) fn create(
    store: &Store,
    kind: KindId,
    namespace: &str,
    value: Value,
    options: &WriteOptions,
) -> Result<Arc<StoredObject>, StatusError> {
    store.write(|state| create_in(state, kind, namespace, value, options))
}

pub(crate) fn create_in(
    state: &mut State,
    kind: KindId,
    namespace: &str,
    mut value: Value,
    options: &WriteOptions,
) -> Result<Arc<StoredObject>, StatusError> {
    // Everything below reads metadata, so its shape comes first, as a decoder would reject it.
    strip_nulls(&mut value);
    validation::check_shape(&value)?;
    let entry = kind.get();
    check_type(kind, &value)?;
    let namespace = scope(kind, namespace, &value)?;
    if !text_at(&value, &["metadata", "resourceVersion"]).is_empty() && !options.keep_status {
        return Err(StatusError::bad_request(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    // The name is needed for the errors of all later checks.
    name_object(state, kind, &namespace, &mut value);
    let name = text_at(&value, &["metadata", "name"]).to_owned();
    check_namespace(state, kind, &namespace, &name)?;

    let members = map_mut(&mut value);
    members.insert("kind".into(), entry.kind.into());
    members.insert("apiVersion".into(), entry.api_version().into());
    if entry.namespaced {
        meta_mut(&mut value).insert("namespace".into(), namespace.as_str().into());
    }
    // Admission before validation: what admission fills in must be valid too.
    defaults::admit(state, kind, &mut value, options.keep_status)?;
    validation::check(kind, &value)?;
    if state.get(kind, &namespace, &name).is_some() {
        return Err(StatusError::already_exists(entry, &name));
    }

    let created = to_rfc3339(state.now);
    let uid = state.rng.uuid();
    let meta = meta_mut(&mut value);
    if options.keep_status {
        // A dump of another cluster: identities that its objects refer to stay.
        meta.entry("uid").or_insert_with(|| uid.into());
        meta.entry("creationTimestamp").or_insert_with(|| created.into());
    } else {
        meta.insert("uid".into(), uid.into());
        meta.insert("creationTimestamp".into(), created.into());
        for server_side in
            ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"]
        {
            meta.remove(server_side);
        }
    }
    if entry.has_generation {
        meta.entry("generation").or_insert_with(|| 1.into());
    }
    drop_empty_maps(meta);
    Ok(commit(state, kind, value, options))
}

/// Rejects a body whose type is not that of the path.
pub(crate) fn check_type(kind: KindId, value: &Value) -> Result<(), StatusError> {
    let entry = kind.get();
    let (api_version, kind_name) = (text_at(value, &["apiVersion"]), text_at(value, &["kind"]));
    if (!api_version.is_empty() && api_version != entry.api_version())
        || (!kind_name.is_empty() && kind_name != entry.kind)
    {
        return Err(StatusError::bad_request(format!(
            "{kind_name} in version {api_version:?} cannot be handled as a {}: the API version in the data \
             ({api_version}) or its kind ({kind_name}) does not match the expected {} {}",
            entry.kind,
            entry.api_version(),
            entry.kind,
        )));
    }
    Ok(())
}

/// The namespace of the new object: that of the request, which the object may repeat but not contradict.
fn scope(kind: KindId, namespace: &str, value: &Value) -> Result<String, StatusError> {
    let own = text_at(value, &["metadata", "namespace"]);
    if !kind.get().namespaced {
        if own.is_empty() {
            return Ok(String::new());
        }
        return Err(StatusError::bad_request(
            "namespace may not be set on a cluster-scoped object",
        ));
    }
    match (namespace.is_empty(), own.is_empty()) {
        (true, true) => {
            Err(StatusError::bad_request("an empty namespace may not be set during creation"))
        }
        (true, false) => Ok(own.to_owned()),
        (false, false) if own != namespace => Err(StatusError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )),
        _ => Ok(namespace.to_owned()),
    }
}

/// Generates the name of an object that only has a prefix (`generateName`). If all tries are taken, the object keeps the
/// last one and is rejected as already existing.
fn name_object(state: &mut State, kind: KindId, namespace: &str, value: &mut Value) {
    /// Room that is left for the random suffix.
    const LONGEST_BASE: usize = 58;
    const MAX_TRIES: usize = 8;
    let base = text_at(value, &["metadata", "generateName"]);
    if base.is_empty() || !text_at(value, &["metadata", "name"]).is_empty() {
        return;
    }
    let base: String = base.chars().take(LONGEST_BASE).collect();
    let mut name = String::new();
    for _ in 0..MAX_TRIES {
        name = format!("{base}{}", state.rng.name_suffix());
        if state.get(kind, namespace, &name).is_none() {
            break;
        }
    }
    meta_mut(value).insert("name".into(), name.into());
}

fn drop_empty_maps(meta: &mut Map<String, Value>) {
    for key in ["labels", "annotations"] {
        if meta.get(key).and_then(Value::as_object).is_some_and(Map::is_empty) {
            meta.remove(key);
        }
    }
}
