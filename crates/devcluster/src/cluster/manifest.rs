//! Where a manifest belongs.

use serde_json::Value;

use crate::forms;
use crate::kinds::KindId;
use crate::object::text_at;
use crate::status::StatusError;

/// The storage kind of a manifest, its namespace (`default` if it names none), and the manifest in its stored form.
///
/// # Errors
/// Status 400 if no such kind is stored here.
pub(super) fn placed(object: Value) -> Result<(KindId, String, Value), StatusError> {
    let (api_version, kind_name) = (text_at(&object, &["apiVersion"]), text_at(&object, &["kind"]));
    let kind = KindId::by_manifest(api_version, kind_name)
        .filter(|kind| !kind.get().review)
        .ok_or_else(|| {
            StatusError::bad_request(format!(
                "no matches for kind {kind_name:?} in version {api_version:?}"
            ))
        })?;
    let namespace = match text_at(&object, &["metadata", "namespace"]) {
        _ if !kind.get().namespaced => String::new(),
        "" => "default".to_owned(),
        own => own.to_owned(),
    };
    Ok((kind.storage(), namespace, forms::stored(kind, object)))
}
