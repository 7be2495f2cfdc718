//! Deleting objects: preconditions, grace periods, finalizers, namespaces with their content.

use std::sync::Arc;

use serde_json::Value;

use crate::clock::{add_seconds, to_rfc3339};
use crate::dependents::ObjectKey;
use crate::kinds::{KindId, NAMESPACES, PODS};
use crate::object::{StoredObject, at, child_mut, int_at, list_at, list_mut, meta_mut, text_at};
use crate::selectors::Selection;
use crate::status::StatusError;
use crate::store::{State, Store};

/// The finalizer of an owner that is deleted after its dependents.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// What happens to the dependents of a deleted object. Without a garbage collector they stay as they are, except for orphans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Propagation {
    /// They are deleted after their owner.
    #[default]
    Background,
    /// They are deleted before their owner.
    Foreground,
    /// They stay, without owner.
    Orphan,
}

impl Propagation {
    /// # Errors
    /// Status 422 for any other name.
    pub(crate) fn parse(policy: &str) -> Result<Self, StatusError> {
        Ok(match policy {
            "" | "Background" => Self::Background,
            "Foreground" => Self::Foreground,
            "Orphan" => Self::Orphan,
            _ => {
                return Err(StatusError::with_code(
                    422,
                    format!(
                        "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: {policy:?}: \
                         supported values: \"Foreground\", \"Background\", \"Orphan\""
                    ),
                ));
            }
        })
    }
}

/// The options of a delete request.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace_seconds: Option<i64>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) dry_run: bool,
    pub(crate) propagation: Propagation,
}

impl DeleteOptions {
    /// Reads a `DeleteOptions` body; an empty body means none.
    ///
    /// # Errors
    /// Status 422 for an unknown propagation policy.
    pub(crate) fn from_body(body: &Value) -> Result<Self, StatusError> {
        let text =
            |path: &[&str]| Some(text_at(body, path).to_owned()).filter(|text| !text.is_empty());
        let is_orphaned = body.get("orphanDependents") == Some(&Value::Bool(true));
        let policy = if is_orphaned { "Orphan" } else { text_at(body, &["propagationPolicy"]) };
        Ok(Self {
            grace_seconds: int_at(body, &["gracePeriodSeconds"]),
            uid: text(&["preconditions", "uid"]),
            resource_version: text(&["preconditions", "resourceVersion"]),
            dry_run: !list_at(body, &["dryRun"]).is_empty(),
            propagation: Propagation::parse(policy)?,
        })
    }
}

/// The result of a deletion.
#[derive(Debug, Clone)]
pub(crate) enum Deletion {
    /// The object is gone; this was its last state.
    Done(Arc<StoredObject>),
    /// The object waits for its kubelet or its finalizers.
    Pending(Arc<StoredObject>),
}

/// Deletes one object.
pub(crate) fn delete(
    store: &Store,
    kind: KindId,
    namespace: &str,
    name: &str,
    options: &DeleteOptions,
) -> Result<Deletion, StatusError> {
    store.write(|state| delete_in(state, kind, namespace, name, options))
}

/// Deletes every selected object, and returns them as they were before.
pub(crate) fn delete_collection(
    store: &Store,
    kind: KindId,
    selection: &Selection,
    options: &DeleteOptions,
) -> Result<Vec<Arc<StoredObject>>, StatusError> {
    store.write(|state| {
        let doomed: Vec<Arc<StoredObject>> =
            state.objects(kind).filter(|object| selection.matches(object)).cloned().collect();
        for object in &doomed {
            delete_in(state, kind, object.namespace(), object.name(), options)?;
        }
        Ok(doomed)
    })
}

pub(crate) fn delete_in(
    state: &mut State,
    kind: KindId,
    namespace: &str,
    name: &str,
    options: &DeleteOptions,
) -> Result<Deletion, StatusError> {
    let Some(current) = state.get(kind, namespace, name).cloned() else {
        return Err(StatusError::not_found(kind.get(), name));
    };
    check_preconditions(kind, &current, options)?;
    if options.dry_run {
        return Ok(Deletion::Done(current));
    }
    if kind == NAMESPACES {
        return delete_namespace(state, &current);
    }
    let mut value = current.value();
    prepare_dependents(state, kind, &current, &mut value, options.propagation);
    let finalized = list_at(&value, &["metadata", "finalizers"]).is_empty();
    let terminating = at(&value, &["metadata", "deletionTimestamp"]).is_some();
    let grace = grace_seconds(kind, &value, options);
    if finalized && grace == 0 {
        return Ok(match state.remove(kind, namespace, name) {
            Some(last) => Deletion::Done(last),
            None => Deletion::Done(current),
        });
    }
    if terminating {
        // A second request can only shorten the wait.
        let left = int_at(&value, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
        if grace >= left {
            return Ok(Deletion::Pending(current));
        }
    }
    let deadline = to_rfc3339(add_seconds(state.now, grace));
    let generation = int_at(&value, &["metadata", "generation"]);
    let meta = meta_mut(&mut value);
    meta.insert("deletionTimestamp".into(), deadline.into());
    meta.insert("deletionGracePeriodSeconds".into(), grace.into());
    if let Some(generation) = generation {
        meta.insert("generation".into(), (generation + 1).into());
    }
    Ok(Deletion::Pending(state.put(kind, value)))
}

/// Lets the dependents of a doomed object go, or makes it wait for them.
fn prepare_dependents(
    state: &mut State,
    kind: KindId,
    object: &StoredObject,
    value: &mut Value,
    propagation: Propagation,
) {
    let dependents: Vec<ObjectKey> = state.dependents.of(object.uid()).cloned().collect();
    match propagation {
        Propagation::Foreground if state.dependents.are_collected() && !dependents.is_empty() => {
            let finalizers = list_mut(meta_mut(value), "finalizers");
            if !finalizers.iter().any(|finalizer| finalizer == FOREGROUND) {
                finalizers.push(FOREGROUND.into());
            }
            state.dependents.wait_for(kind, object);
        }
        Propagation::Orphan => {
            for (kind, key) in dependents {
                let (namespace, name) = key.split_once('/').unwrap_or(("", &key));
                let Some(dependent) = state.get(kind, namespace, name) else { continue };
                let mut released = dependent.value();
                let meta = meta_mut(&mut released);
                let owners = list_mut(meta, "ownerReferences");
                owners.retain(|owner| text_at(owner, &["uid"]) != object.uid());
                if owners.is_empty() {
                    meta.remove("ownerReferences");
                }
                state.put(kind, released);
            }
        }
        _ => {}
    }
}

fn check_preconditions(
    kind: KindId,
    current: &StoredObject,
    options: &DeleteOptions,
) -> Result<(), StatusError> {
    let entry = kind.get();
    let failed = |what: &str, wanted: &str, found: &str| {
        let why = format!(
            "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
        );
        Err(StatusError::conflict(entry, entry.plural, current.name(), &why))
    };
    if let Some(uid) = options.uid.as_deref()
        && uid != current.uid()
    {
        return failed("UID", uid, current.uid());
    }
    if let Some(version) = options.resource_version.as_deref() {
        let found = current.resource_version().to_string();
        if version != found {
            return failed("ResourceVersion", version, &found);
        }
    }
    Ok(())
}

/// The grace period in seconds: pods that a kubelet runs have one; everything else is removed at once.
fn grace_seconds(kind: KindId, value: &Value, options: &DeleteOptions) -> i64 {
    let runs = !text_at(value, &["spec", "nodeName"]).is_empty();
    let finished = matches!(text_at(value, &["status", "phase"]), "Succeeded" | "Failed");
    if kind != PODS || !runs || finished {
        return 0;
    }
    let own = int_at(value, &["spec", "terminationGracePeriodSeconds"]).unwrap_or(30);
    options.grace_seconds.unwrap_or(own).max(0)
}

fn delete_namespace(
    state: &mut State,
    current: &Arc<StoredObject>,
) -> Result<Deletion, StatusError> {
    let name = current.name().to_owned();
    if matches!(name.as_str(), "default" | "kube-system" | "kube-public") {
        let why = "this namespace may not be deleted";
        return Err(StatusError::forbidden(NAMESPACES.get(), &name, why));
    }
    let mut value = current.value();
    let mut pending = current.clone();
    if at(&value, &["metadata", "deletionTimestamp"]).is_none() {
        let now = to_rfc3339(state.now);
        meta_mut(&mut value).insert("deletionTimestamp".into(), now.into());
        child_mut(&mut value, "status").insert("phase".into(), "Terminating".into());
        pending = state.put(NAMESPACES, value);
    }
    for kind in KindId::all().filter(|kind| kind.get().namespaced && kind.storage() == *kind) {
        let doomed: Vec<String> =
            state.objects_in(kind, &name).map(|object| object.name().to_owned()).collect();
        for object in doomed {
            delete_in(state, kind, &name, &object, &DeleteOptions::default())?;
        }
    }
    state.finish_namespace(&name);
    if state.get(NAMESPACES, "", &name).is_none() {
        return Ok(Deletion::Done(pending));
    }
    Ok(Deletion::Pending(pending))
}
