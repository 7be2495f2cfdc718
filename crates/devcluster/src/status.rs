//! Errors in the form in which Kubernetes reports them: the `Status` object.
//!
//! Invariant: reasons, codes and message patterns are those of `k8s.io/apimachinery/pkg/api/errors`, because clients
//! decide by them.

use kube_scheduler_api_types::validation::{ErrorKind, FieldError, aggregate};
use serde_json::{Map, Value, json};

use crate::kinds::Kind;

/// Why a request was rejected. Prints as the message that clients see.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct StatusError {
    code: u16,
    reason: &'static str,
    message: String,
    details: Map<String, Value>,
}

impl StatusError {
    /// Any error by its code, which determines the reason.
    pub(crate) fn with_code(code: u16, message: impl Into<String>) -> Self {
        let reason = match code {
            400 => "BadRequest",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "NotFound",
            405 => "MethodNotAllowed",
            406 => "NotAcceptable",
            409 => "Conflict",
            410 => "Expired",
            413 => "RequestEntityTooLarge",
            415 => "UnsupportedMediaType",
            422 => "Invalid",
            429 => "TooManyRequests",
            500 => "InternalError",
            503 => "ServiceUnavailable",
            504 => "Timeout",
            _ => "Unknown",
        };
        Self { code, reason, message: message.into(), details: Map::new() }
    }

    /// 400.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::with_code(400, message)
    }

    /// 404 for an object.
    pub(crate) fn not_found(kind: &Kind, name: &str) -> Self {
        Self::with_code(404, format!("{} {name:?} not found", kind.qualified_plural()))
            .about(kind, name)
    }

    /// 404 for a path that is not served.
    pub(crate) fn no_such_path() -> Self {
        Self::with_code(404, "the server could not find the requested resource")
    }

    /// 405.
    pub(crate) fn method_not_allowed() -> Self {
        Self::with_code(405, "the server does not allow this method on the requested resource")
    }

    /// 409 on create.
    pub(crate) fn already_exists(kind: &Kind, name: &str) -> Self {
        let mut error =
            Self::with_code(409, format!("{} {name:?} already exists", kind.qualified_plural()))
                .about(kind, name);
        error.reason = "AlreadyExists";
        error
    }

    /// 409 on a change. `resource` is the plural, with a subresource where there is one.
    pub(crate) fn conflict(kind: &Kind, resource: &str, name: &str, why: &str) -> Self {
        let qualified = if kind.group.is_empty() {
            resource.to_owned()
        } else {
            format!("{resource}.{}", kind.group)
        };
        let mut error = Self::with_code(
            409,
            format!("Operation cannot be fulfilled on {qualified} {name:?}: {why}"),
        )
        .about(kind, name);
        error.details.insert("kind".into(), resource.into());
        error
    }

    /// 409 because the caller's resource version is not the current one.
    pub(crate) fn modified(kind: &Kind, name: &str) -> Self {
        const WHY: &str = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(kind, kind.plural, name, WHY)
    }

    /// 403 by admission.
    pub(crate) fn forbidden(kind: &Kind, name: &str, why: &str) -> Self {
        Self::with_code(403, format!("{} {name:?} is forbidden: {why}", kind.qualified_plural()))
            .about(kind, name)
    }

    /// 403 by authorization.
    pub(crate) fn access_denied(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let qualified =
            if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
        let subject = if name.is_empty() { qualified } else { format!("{qualified} {name:?}") };
        let mut error = Self::with_code(403, format!("{subject} is forbidden: {why}"));
        for (key, value) in [("name", name), ("group", group), ("kind", resource)] {
            if !value.is_empty() {
                error.details.insert(key.into(), value.into());
            }
        }
        error
    }

    /// 410: the requested version is no longer in the history.
    pub(crate) fn too_old(asked: u64, oldest: u64) -> Self {
        Self::with_code(410, format!("too old resource version: {asked} ({oldest})"))
    }

    /// 504: the requested version lies in the future.
    pub(crate) fn too_large(asked: u64, current: u64) -> Self {
        let mut error = Self::with_code(
            504,
            format!("Timeout: Too large resource version: {asked}, current: {current}"),
        );
        error.details.insert("retryAfterSeconds".into(), 1.into());
        error.details.insert(
            "causes".into(),
            json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]),
        );
        error
    }

    /// 422 with every field that is wrong.
    pub(crate) fn invalid(kind: &Kind, name: &str, errors: &[FieldError]) -> Self {
        let why = aggregate(errors);
        let message = format!("{} {name:?} is invalid: {why}", kind.qualified_kind());
        let mut error = Self::with_code(422, message).about(kind, name);
        error.details.insert("kind".into(), kind.kind.into());
        error.details.insert("causes".into(), errors.iter().map(cause).collect());
        error
    }

    /// 422 about the options of a list or watch.
    pub(crate) fn list_options(error: &FieldError) -> Self {
        Self::with_code(422, format!("ListOptions.meta.k8s.io \"\" is invalid: {error}"))
    }

    /// 429 for another reason than load, as for an eviction that a disruption budget rejects.
    pub(crate) fn too_many(message: impl Into<String>, cause_reason: &str, cause: String) -> Self {
        let mut error = Self::with_code(429, message);
        error.details.insert("causes".into(), json!([{"reason": cause_reason, "message": cause}]));
        error
    }

    /// Adds the `Retry-After` hint.
    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.details.insert("retryAfterSeconds".into(), seconds.into());
        self
    }

    /// The HTTP status.
    pub fn code(&self) -> u16 {
        self.code
    }

    /// The machine-readable reason, such as `NotFound`.
    pub fn reason(&self) -> &str {
        self.reason
    }

    /// Seconds for the `Retry-After` header, if there is one.
    pub(crate) fn retry_after_seconds(&self) -> Option<u64> {
        self.details.get("retryAfterSeconds").and_then(Value::as_u64)
    }

    /// The `Status` object.
    pub(crate) fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if !self.details.is_empty() {
            status["details"] = Value::Object(self.details.clone());
        }
        status
    }

    fn about(mut self, kind: &Kind, name: &str) -> Self {
        self.details.insert("name".into(), name.into());
        if !kind.group.is_empty() {
            self.details.insert("group".into(), kind.group.into());
        }
        self.details.insert("kind".into(), kind.plural.into());
        self
    }
}

/// One wrong field as a cause in the details of a `Status`.
fn cause(error: &FieldError) -> Value {
    let reason = match error.kind {
        ErrorKind::Required => "FieldValueRequired",
        ErrorKind::Duplicate => "FieldValueDuplicate",
        ErrorKind::Unsupported => "FieldValueNotSupported",
        ErrorKind::Forbidden => "FieldValueForbidden",
        _ => "FieldValueInvalid",
    };
    let text = error.to_string();
    let message = text.strip_prefix(error.path.as_str()).unwrap_or(&text).trim_start_matches(": ");
    json!({"reason": reason, "message": message, "field": error.path.as_str()})
}

/// The `Status` object of a success, which DELETE and the binding subresource return.
pub(crate) fn success(code: u16, details: Option<Value>) -> Value {
    let mut status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code});
    if let Some(details) = details {
        status["details"] = details;
        if let Value::Object(map) = &mut status {
            map.remove("code");
        }
    }
    status
}
