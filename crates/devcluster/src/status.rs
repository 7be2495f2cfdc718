//! Failures in the form in which Kubernetes tells them: the `Status` object.
//!
//! Invariant: reasons, codes and message patterns are those of `k8s.io/apimachinery/pkg/api/errors`, because clients
//! decide by them.

use serde_json::{Map, Value, json};

use crate::kinds::Kind;

/// A refused request.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    code: u16,
    reason: &'static str,
    message: String,
    details: Map<String, Value>,
}

/// One cause of a 422.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    reason: &'static str,
    field: String,
    message: String,
}

impl FieldError {
    /// The value is present and wrong.
    pub fn invalid(field: impl Into<String>, value: &Value, why: &str) -> Self {
        let shown = match value {
            Value::Null => "null".to_owned(),
            other => other.to_string(),
        };
        Self {
            reason: "FieldValueInvalid",
            field: field.into(),
            message: format!("Invalid value: {shown}: {why}"),
        }
    }

    /// The value is missing.
    pub fn required(field: impl Into<String>, why: &str) -> Self {
        let message = if why.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {why}")
        };
        Self { reason: "FieldValueRequired", field: field.into(), message }
    }

    /// The value occurs twice.
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self {
            reason: "FieldValueDuplicate",
            field: field.into(),
            message: format!("Duplicate value: {value}"),
        }
    }

    /// The value may not be given or changed here.
    pub fn forbidden(field: impl Into<String>, why: &str) -> Self {
        Self {
            reason: "FieldValueForbidden",
            field: field.into(),
            message: format!("Forbidden: {why}"),
        }
    }

    /// The value is none of those allowed.
    pub fn unsupported(field: impl Into<String>, value: &str, allowed: &[&str]) -> Self {
        let allowed: Vec<String> = allowed.iter().map(|one| format!("{one:?}")).collect();
        Self {
            reason: "FieldValueNotSupported",
            field: field.into(),
            message: format!(
                "Unsupported value: {value:?}: supported values: {}",
                allowed.join(", ")
            ),
        }
    }
}

impl ApiError {
    /// Any failure with a chosen code; the reason follows from the code.
    pub fn with_code(code: u16, message: impl Into<String>) -> Self {
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
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::with_code(400, message)
    }

    /// 404 for an object.
    pub fn not_found(kind: &Kind, name: &str) -> Self {
        Self::with_code(404, format!("{} {name:?} not found", kind.qualified_plural()))
            .about(kind, name)
    }

    /// 404 for a path that is not served.
    pub fn no_such_path() -> Self {
        Self::with_code(404, "the server could not find the requested resource")
    }

    /// 405.
    pub fn method_not_allowed() -> Self {
        Self::with_code(405, "the server does not allow this method on the requested resource")
    }

    /// 409 on create.
    pub fn already_exists(kind: &Kind, name: &str) -> Self {
        let mut error =
            Self::with_code(409, format!("{} {name:?} already exists", kind.qualified_plural()))
                .about(kind, name);
        error.reason = "AlreadyExists";
        error
    }

    /// 409 on a change. `resource` is the plural, with a subresource where there is one.
    pub fn conflict(kind: &Kind, resource: &str, name: &str, why: &str) -> Self {
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
    pub fn modified(kind: &Kind, name: &str) -> Self {
        const WHY: &str = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(kind, kind.plural, name, WHY)
    }

    /// 403 by admission.
    pub fn forbidden(kind: &Kind, name: &str, why: &str) -> Self {
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

    /// 410: the version asked for is no longer in the history.
    pub fn too_old(asked: u64, oldest: u64) -> Self {
        Self::with_code(410, format!("too old resource version: {asked} ({oldest})"))
    }

    /// 504: the version asked for lies in the future.
    pub fn too_large(asked: u64, current: u64) -> Self {
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
    pub fn invalid(kind: &Kind, name: &str, errors: &[FieldError]) -> Self {
        let lines: Vec<String> =
            errors.iter().map(|one| format!("{}: {}", one.field, one.message)).collect();
        let body = match lines.as_slice() {
            [single] => single.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let mut error =
            Self::with_code(422, format!("{} {name:?} is invalid: {body}", kind.qualified_kind()))
                .about(kind, name);
        error.details.insert("kind".into(), kind.kind.into());
        let causes = errors
            .iter()
            .map(|one| json!({"reason": one.reason, "message": one.message, "field": one.field}))
            .collect();
        error.details.insert("causes".into(), Value::Array(causes));
        error
    }

    /// 422 about the options of a list or watch.
    pub(crate) fn list_options(error: &FieldError) -> Self {
        Self::with_code(
            422,
            format!("ListOptions.meta.k8s.io \"\" is invalid: {}: {}", error.field, error.message),
        )
    }

    /// 429 with a cause that is not about load, as eviction gives it.
    pub fn too_many(message: impl Into<String>, cause_reason: &str, cause: String) -> Self {
        let mut error = Self::with_code(429, message);
        error.details.insert("causes".into(), json!([{"reason": cause_reason, "message": cause}]));
        error
    }

    /// Adds the `Retry-After` hint.
    pub fn retry_after(mut self, seconds: u64) -> Self {
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
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.details.get("retryAfterSeconds").and_then(Value::as_u64)
    }

    /// The `Status` object.
    pub fn to_value(&self) -> Value {
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

/// The `Status` object of a success, as DELETE and the binding subresource answer it.
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
