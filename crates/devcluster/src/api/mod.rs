//! The verbs that change objects, independent of HTTP: the same functions serve requests and in-process callers.
//!
//! Invariants: each function checks, admits and changes under one hold of the store's lock; kinds are storage kinds
//! (core events, never their `events.k8s.io` form); a change that changes nothing takes no version and wakes nobody.

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
use crate::object::Object;
use crate::status::ApiError;
use crate::store::State;

/// How a write is to be done.
#[derive(Debug, Clone, Default)]
pub(crate) struct WriteOptions {
    /// Check and answer, but store nothing.
    pub(crate) dry_run: bool,
    /// Keep a status that comes with a new object.
    pub(crate) keep_status: bool,
    /// Who owns the fields of a server-side apply.
    pub(crate) field_manager: String,
    /// Take over fields that others own.
    pub(crate) force: bool,
}

/// Stores `value`, or only shows what would be stored.
fn commit(state: &mut State, kind: KindId, value: Value, options: &WriteOptions) -> Arc<Object> {
    if options.dry_run {
        return Arc::new(Object::freeze(kind, &value, state.version()));
    }
    state.put(kind, value)
}

/// Refuses writes into namespaces that do not exist or, for new objects, that are going away.
fn check_namespace(
    state: &State,
    kind: KindId,
    namespace: &str,
    name: &str,
) -> Result<(), ApiError> {
    if !kind.get().namespaced {
        return Ok(());
    }
    let Some(object) = state.get(NAMESPACES, "", namespace) else {
        return Err(ApiError::not_found(NAMESPACES.get(), namespace));
    };
    if object.field(0) == "Terminating" {
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        return Err(ApiError::forbidden(kind.get(), name, &why));
    }
    Ok(())
}
