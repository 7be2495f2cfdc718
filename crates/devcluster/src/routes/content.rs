//! Reading and parsing request bodies.

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde_json::Value;

use crate::protobuf::{self, DecodeError};
use crate::status::StatusError;

/// The largest request body in bytes.
const MAX_BODY: usize = 8 * 1024 * 1024;

/// The error for a body in a format that this server does not read.
pub(super) fn unknown_format(content_type: &str) -> StatusError {
    let text = format!(
        "the body of the request was in an unknown format: {content_type}; JSON is expected"
    );
    StatusError::with_code(415, text)
}

/// Parses a request body by its content type: JSON, protobuf, or YAML as in apply requests. An empty body is null.
///
/// # Errors
/// Status 400 or 415 if it cannot be parsed.
pub(super) fn parse_body(body: &[u8], content_type: &str) -> Result<Value, StatusError> {
    if body.is_empty() {
        return Ok(Value::Null);
    }
    if content_type.contains("cbor") {
        return Err(unknown_format(content_type));
    }
    if content_type.contains("protobuf") {
        return protobuf::object(body).map_err(|error| match error {
            DecodeError::UnknownKind { .. } => StatusError::with_code(415, error.to_string()),
            error => {
                StatusError::bad_request(format!("the body is not readable as protobuf: {error}"))
            }
        });
    }
    let json_error = match serde_json::from_slice(body) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    if content_type.contains("yaml")
        && let Ok(text) = std::str::from_utf8(body)
    {
        return serde_saphyr::from_str(text).map_err(|error| {
            StatusError::bad_request(format!("the body is not readable as YAML: {error}"))
        });
    }
    Err(StatusError::bad_request(format!("the body is not readable as JSON: {json_error}")))
}

/// Reads a request body to its end.
///
/// # Errors
/// Status 413 if it is too large, 400 if the connection breaks off.
pub(super) async fn read_body(incoming: Incoming) -> Result<Bytes, StatusError> {
    match Limited::new(incoming, MAX_BODY).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            Err(StatusError::with_code(
                413,
                format!("the request body is larger than {MAX_BODY} bytes"),
            ))
        }
        Err(error) => Err(StatusError::bad_request(format!("the request body broke off: {error}"))),
    }
}
