//! Reading claims and volumes.

use kube_scheduler_api_types::well_known::STORAGE_CLASS_ANNOTATION;
use serde_json::Value;

use crate::kinds::PERSISTENT_VOLUME_CLAIMS;
use crate::object::{key_of, text_at};
use crate::store::State;

/// The key of the claim that a volume names.
pub(super) fn claim_of(volume: &Value) -> Option<String> {
    let field = |name: &str| text_at(volume, &["spec", "claimRef", name]);
    (!field("name").is_empty()).then(|| key_of(field("namespace"), field("name")))
}

/// A claim by its key, parsed; `None` if it is gone or being deleted.
pub(super) fn claim_value(state: &State, key: &str) -> Option<Value> {
    let (namespace, name) = key.split_once('/')?;
    let claim = state.get(PERSISTENT_VOLUME_CLAIMS, namespace, name)?;
    (!claim.is_terminating()).then(|| claim.value())
}

/// The class of a claim or volume.
pub(super) fn class_of(value: &Value) -> &str {
    match text_at(value, &["metadata", "annotations", STORAGE_CLASS_ANNOTATION]) {
        "" => text_at(value, &["spec", "storageClassName"]),
        class => class,
    }
}
