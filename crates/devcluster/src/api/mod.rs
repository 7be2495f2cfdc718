//! The verbs that change objects, independent of HTTP: the same functions serve requests and callers in this process.
//!
//! Invariants: each function checks, admits and changes an object while it holds the store's lock once; kinds are storage
//! kinds (core events, never their `events.k8s.io` form); a write that changes nothing takes no resource version and
//! causes no watch event.

pub(crate) mod binding;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod disruption;
pub(crate) mod eviction;
pub(crate) mod scale;
pub(crate) mod update;

use std::sync::Arc;

use serde_json::Value;

use crate::kinds::{KindId, NAMESPACES};
use crate::object::StoredObject;
use crate::status::StatusError;
use crate::store::State;

/// Options of a write.
#[derive(Debug, Clone, Default)]
pub(crate) struct WriteOptions {
    /// Do all checks and return the result, but store nothing.
    pub(crate) dry_run: bool,
    /// Keep the status, uid and timestamps that a new object comes with.
    pub(crate) keep_status: bool,
    /// The owner of the fields of a server-side apply.
    pub(crate) field_manager: String,
    /// Take over fields that other managers own.
    pub(crate) force: bool,
}

/// Stores `value`; in a dry run, returns what would be stored.
fn commit(
    state: &mut State,
    kind: KindId,
    value: Value,
    options: &WriteOptions,
) -> Arc<StoredObject> {
    if options.dry_run {
        return Arc::new(StoredObject::freeze(kind, &value, state.version()));
    }
    state.put(kind, value)
}

/// Rejects new objects in namespaces that do not exist or are being deleted.
fn check_namespace(
    state: &State,
    kind: KindId,
    namespace: &str,
    name: &str,
) -> Result<(), StatusError> {
    if !kind.get().namespaced {
        return Ok(());
    }
    let Some(object) = state.get(NAMESPACES, "", namespace) else {
        return Err(StatusError::not_found(NAMESPACES.get(), namespace));
    };
    if object.field(0) == "Terminating" {
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        return Err(StatusError::forbidden(kind.get(), name, &why));
    }
    Ok(())
}
