//! From HTTP to verbs and back.
//!
//! Invariants: whoever sends a request is known, and may send it, before anything else is looked at; every refusal of an API path is a `Status` object; faults are decided once per API request, before
//! anything is looked at; nothing here keeps state.

pub(crate) mod control;
pub(crate) mod encode;
pub(crate) mod objects;
pub(crate) mod request;
pub(crate) mod review;
pub(crate) mod watch;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde_json::Value;

use crate::access::{Action, User};
use crate::body::{Body, Dropped};
use crate::discovery;
use crate::faults::{Asked, Effect};
use crate::protobuf;
use crate::server::Server;
use crate::status::ApiError;
use request::ApiRequest;

/// The largest body that is read, as in the API server's default.
const MAX_BODY: usize = 8 * 1024 * 1024;

/// Answers one request, or drops the connection because a fault says so.
pub(crate) async fn handle(
    server: Arc<Server>,
    certified: Option<Arc<User>>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Dropped> {
    let (parts, incoming) = request.into_parts();
    let path = parts.uri.path();
    let user = match server.access.authenticate(&parts.headers, certified.as_deref()) {
        Ok(user) => user,
        Err(error) => return Ok(refused(&error)),
    };
    let parsed = ApiRequest::parse(&parts, server.options.protobuf);
    let action = match &parsed {
        Some(Ok(request)) => request.action(),
        _ => Action {
            verb: parts.method.as_str().to_ascii_lowercase(),
            path: path.to_owned(),
            ..Action::default()
        },
    };
    if let Err(error) = server.access.authorize(&server.store, &user, &action) {
        return Ok(refused(&error));
    }
    let parsed = match parsed {
        None if path.starts_with("/devcluster/") => {
            return Ok(match read_body(incoming).await {
                Ok(body) => control::handle(&server, &parts.method, path, &body),
                Err(error) => refused(&error),
            });
        }
        None => return Ok(discovery::answer(&parts)),
        Some(parsed) => parsed,
    };
    let request = match parsed {
        Ok(request) => request,
        Err(error) => return Ok(refused(&error)),
    };
    let verdict = server.faults.judge(&Asked {
        verb: request.verb.as_str(),
        kind: request.kind.get(),
        subresource: &request.subresource,
        name: &request.name,
    });
    if !verdict.delay.is_zero() {
        tokio::time::sleep(verdict.delay).await;
    }
    match verdict.effect {
        Some(Effect::Reset) => return Err(Dropped),
        Some(Effect::Error { code, retry_after_seconds }) => {
            let mut error =
                ApiError::with_code(code, format!("fault injected by rule: status {code}"));
            if let Some(seconds) = retry_after_seconds {
                error = error.retry_after(seconds);
            }
            return Ok(refused(&error));
        }
        Some(Effect::Garbage) => {
            return Ok(with_body(200, Body::whole(&b"<html>no API server</html>\n"[..])));
        }
        Some(Effect::Silence) => return Ok(with_body(200, Body::silent())),
        _ => {}
    }
    let body = match parts.method {
        Method::GET => Bytes::new(),
        _ => match read_body(incoming).await {
            Ok(body) => body,
            Err(error) => return Ok(refused(&error)),
        },
    };
    let response = objects::answer(&server, &user, request, &body, verdict.effect.as_ref());
    if verdict.effect == Some(Effect::ResetAfter) {
        return Err(Dropped);
    }
    let response = response.unwrap_or_else(|error| refused(&error));
    Ok(match verdict.effect {
        Some(Effect::Truncate { after_bytes }) => response.map(|body| body.cut(after_bytes)),
        _ => response,
    })
}

/// A refusal as a response.
pub(crate) fn refused(error: &ApiError) -> Response<Body> {
    let mut response = json(error.code(), &error.to_value());
    if let Some(seconds) = error.retry_after_seconds() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// JSON of known length.
pub(crate) fn json(code: u16, value: &Value) -> Response<Body> {
    with_body(code, Body::whole(encode::to_bytes(value)))
}

/// A JSON body with a status.
pub(crate) fn with_body(code: u16, body: Body) -> Response<Body> {
    typed(code, "application/json", body)
}

/// Any body.
pub(crate) fn typed(code: u16, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// A body in a format that is not read here.
pub(crate) fn unknown_format(content_type: &str) -> ApiError {
    let text = format!(
        "the body of the request was in an unknown format: {content_type}; JSON is expected"
    );
    ApiError::with_code(415, text)
}

/// Reads a JSON body; YAML when the content type says so, as apply requests do.
pub(crate) fn parse_body(body: &[u8], content_type: &str) -> Result<Value, ApiError> {
    if body.is_empty() {
        return Ok(Value::Null);
    }
    if content_type.contains("protobuf") || content_type.contains("cbor") {
        if let Some(object) = protobuf::object(body) {
            return Ok(object);
        }
        return Err(unknown_format(content_type));
    }
    let json_error = match serde_json::from_slice(body) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    if content_type.contains("yaml")
        && let Ok(text) = std::str::from_utf8(body)
    {
        return serde_saphyr::from_str(text).map_err(|error| {
            ApiError::bad_request(format!("the body is not readable as YAML: {error}"))
        });
    }
    Err(ApiError::bad_request(format!("the body is not readable as JSON: {json_error}")))
}

async fn read_body(incoming: Incoming) -> Result<Bytes, ApiError> {
    match Limited::new(incoming, MAX_BODY).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(ApiError::with_code(
            413,
            format!("the request body is larger than {MAX_BODY} bytes"),
        )),
        Err(error) => Err(ApiError::bad_request(format!("the request body broke off: {error}"))),
    }
}
