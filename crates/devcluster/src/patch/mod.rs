//! The patch types: JSON patch, merge patch, strategic merge patch and server-side apply.
//!
//! Invariant: the result of a patch depends on the stored object and the request body alone.

pub(crate) mod apply;
pub(crate) mod schema;
pub(crate) mod strategic;

use serde_json::Value;

use crate::kinds::{Kind, KindId};
use crate::status::StatusError;

/// The meaning of the body of a PATCH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchType {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl PatchType {
    /// The type that a `Content-Type` names.
    ///
    /// # Errors
    /// Status 415 for any other content type.
    pub(crate) fn parse(content_type: &str) -> Result<Self, StatusError> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" => Ok(Self::Strategic),
            "application/apply-patch+yaml" | "application/apply-patch+json" => Ok(Self::Apply),
            other => Err(StatusError::with_code(
                415,
                format!(
                    "the body of the request was in an unknown format - accepted media types include: \
                     application/json-patch+json, application/merge-patch+json, \
                     application/strategic-merge-patch+json, application/apply-patch+yaml; got {other:?}"
                ),
            )),
        }
    }
}

/// The object after a patch other than server-side apply.
///
/// # Errors
/// Status 400 or 422 if the patch is malformed or does not fit the object.
pub(crate) fn patched(
    kind: KindId,
    patch_type: PatchType,
    old: &Value,
    body: &Value,
) -> Result<Value, StatusError> {
    let mut new = old.clone();
    match patch_type {
        PatchType::Json => {
            let patch: json_patch::Patch =
                serde_json::from_value(body.clone()).map_err(|error| {
                    StatusError::bad_request(format!("the JSON patch cannot be read: {error}"))
                })?;
            json_patch::patch(&mut new, &patch).map_err(|error| {
                StatusError::with_code(422, format!("the JSON patch does not apply: {error}"))
            })?;
        }
        PatchType::Merge => json_patch::merge(&mut new, body),
        PatchType::Strategic | PatchType::Apply => {
            strategic::merge(&mut new, body, &schema::Node::root(kind.get()))
                .map_err(|error| StatusError::bad_request(error.to_string()))?;
        }
    }
    check_type(kind.get(), &new)?;
    Ok(new)
}

fn check_type(kind: &Kind, new: &Value) -> Result<(), StatusError> {
    if new.is_object() {
        return Ok(());
    }
    Err(StatusError::bad_request(format!(
        "the patch makes the {} something else than an object",
        kind.kind
    )))
}

#[cfg(test)]
mod tests;
