//! Making responses.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::Value;

use crate::body::Body;
use crate::status::StatusError;

/// A rejection as a `Status` object.
pub(crate) fn rejection(error: &StatusError) -> Response<Body> {
    let mut response = json(error.code(), &error.to_value());
    if let Some(seconds) = error.retry_after_seconds() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// JSON of known length.
pub(crate) fn json(code: u16, value: &Value) -> Response<Body> {
    with_body(code, Body::whole(to_bytes(value)))
}

/// A body that is JSON.
pub(crate) fn with_body(code: u16, body: Body) -> Response<Body> {
    typed(code, "application/json", body)
}

/// A body of any media type.
pub(crate) fn typed(code: u16, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// Compact JSON; a `Value` always serialises.
pub(crate) fn to_bytes(value: &Value) -> Bytes {
    Bytes::from(serde_json::to_vec(value).unwrap_or_default())
}
