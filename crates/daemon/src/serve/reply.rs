//! Answers in the reference's forms: plain text, JSON, and the API's Status object for refusals.

use std::io;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use serde::Serialize;

use super::authorization::Attributes;

/// What is sent. An error ends the connection, so that nobody takes a part for the whole.
pub(crate) type ReplyBody = UnsyncBoxBody<Bytes, io::Error>;
pub(crate) type Reply = Response<ReplyBody>;

/// An answer of this type, which clients must not take for another.
pub(crate) fn typed(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Reply {
    let body = Full::new(body.into()).map_err(|never| -> io::Error { match never {} });
    with_body(status, content_type, body.boxed_unsync())
}

/// An answer of this type whose body may come in parts.
pub(crate) fn with_body(status: StatusCode, content_type: &'static str, body: ReplyBody) -> Reply {
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    reply
}

/// Plain text.
pub(crate) fn plain(status: StatusCode, text: impl Into<String>) -> Reply {
    typed(status, "text/plain; charset=utf-8", text.into())
}

/// There is no such page.
pub(crate) fn not_found() -> Reply {
    plain(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// A handler broke down.
pub(crate) fn panicked() -> Reply {
    let text = "This request caused apiserver to panic. Look in the logs for details.\n";
    plain(StatusCode::INTERNAL_SERVER_ERROR, text)
}

/// The reply to a request whose authorization could not be decided.
pub(crate) fn internal_error(uri: &str, problem: &str) -> Reply {
    let text = format!("Internal Server Error: {uri:?}: {problem}");
    plain(StatusCode::INTERNAL_SERVER_ERROR, sanitized(&text) + "\n")
}

/// There is no room for the request, in the words of API servers.
pub(crate) fn too_many_requests() -> Reply {
    let text = "Too many requests, please try again later.\n";
    let mut reply = plain(StatusCode::TOO_MANY_REQUESTS, text);
    reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    reply
}

/// The caller was not recognised.
pub(crate) fn unauthorized(asked: &HeaderMap) -> Reply {
    let status = Status {
        code: 401,
        reason: "Unauthorized",
        message: "Unauthorized".to_owned(),
        details: None,
        ..Status::FAILURE
    };
    status.reply(StatusCode::UNAUTHORIZED, asked)
}

/// The caller may not do that.
pub(crate) fn forbidden(
    asked: &HeaderMap,
    user: &str,
    wanted: Attributes<'_>,
    reason: &str,
) -> Reply {
    let mut message =
        format!("forbidden: {}", sanitized(&format!("User {user:?} cannot {wanted}")));
    if !reason.is_empty() {
        message.push_str(": ");
        message.push_str(reason);
    }
    let details = Some(Details {});
    let status = Status { code: 403, reason: "Forbidden", message, details, ..Status::FAILURE };
    status.reply(StatusCode::FORBIDDEN, asked)
}

/// A request that cannot be carried out, with the reason that the API has for it.
pub(crate) fn refused(
    asked: &HeaderMap,
    code: StatusCode,
    reason: &'static str,
    message: String,
) -> Reply {
    let status = Status { code: code.as_u16(), reason, message, ..Status::FAILURE };
    status.reply(code, asked)
}

/// The page is not there in any form the caller takes.
pub(crate) fn not_acceptable(asked: &HeaderMap, accepted: &str) -> Reply {
    let message = format!("only the following media types are accepted: {accepted}");
    let status =
        Status { code: 406, reason: "NotAcceptable", message, details: None, ..Status::FAILURE };
    status.reply(StatusCode::NOT_ACCEPTABLE, asked)
}

/// A value as JSON: on one line, or indented for people.
pub(crate) fn json(value: &impl Serialize, is_pretty: bool) -> String {
    // What is serialised here has string keys and finite numbers only.
    if is_pretty {
        serde_json::to_string_pretty(value).unwrap_or_default()
    } else {
        serde_json::to_string(value).unwrap_or_default() + "\n"
    }
}

/// Whether the client is one that people look at.
pub(crate) fn is_for_people(asked: &HeaderMap) -> bool {
    let agent = asked.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    ["curl", "Wget", "Mozilla/5.0"].iter().any(|known| agent.starts_with(known))
}

/// The API's form of a refusal.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    kind: &'static str,
    api_version: &'static str,
    metadata: Details,
    status: &'static str,
    message: String,
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details>,
    code: u16,
}

#[derive(Serialize)]
struct Details {}

impl Status {
    const FAILURE: Self = Self {
        kind: "Status",
        api_version: "v1",
        metadata: Details {},
        status: "Failure",
        message: String::new(),
        reason: "",
        details: None,
        code: 500,
    };

    /// Parity: always JSON; the reference answers in YAML or protobuf if asked to.
    fn reply(&self, code: StatusCode, asked: &HeaderMap) -> Reply {
        let accept = asked.get(ACCEPT).map(|accept| accept.to_str().unwrap_or_default());
        let takes_json = accept.is_none_or(|accept| {
            accept.is_empty() || accept.contains("*/*") || accept.contains("application/json")
        });
        let is_pretty = !takes_json || is_for_people(asked);
        typed(code, "application/json", json(self, is_pretty))
    }
}

/// The text with characters escaped that could be read as HTML.
fn sanitized(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn body(reply: Reply) -> String {
        let bytes = reply.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn refusals_are_status_objects() {
        let asked = HeaderMap::new();
        assert_eq!(
            body(forbidden(
                &asked,
                "system:anonymous",
                Attributes::Path { verb: "get", path: "/metrics" },
                ""
            ))
            .await,
            "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\
             \"forbidden: User \\\"system:anonymous\\\" cannot get path \\\"/metrics\\\"\",\"reason\":\"Forbidden\",\
             \"details\":{},\"code\":403}\n"
        );
        assert_eq!(
            body(unauthorized(&asked)).await,
            "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\
             \"Unauthorized\",\"reason\":\"Unauthorized\",\"code\":401}\n"
        );
        let wanted = Attributes::Path { verb: "get", path: "/a&b" };
        let body_text = body(forbidden(&asked, "<b>", wanted, "because")).await;
        assert!(
            body_text.contains("User \\\"&lt;b&gt;\\\" cannot get path \\\"/a&amp;b\\\": because"),
            "{body_text}"
        );
    }

    #[tokio::test]
    async fn there_is_no_room_for_all() {
        let reply = too_many_requests();
        assert_eq!(
            (reply.status().as_u16(), &reply.headers()[RETRY_AFTER]),
            (429, &HeaderValue::from_static("1"))
        );
        assert_eq!(body(reply).await, "Too many requests, please try again later.\n");
    }

    #[tokio::test]
    async fn people_get_it_laid_out() {
        let mut asked = HeaderMap::new();
        asked.insert(USER_AGENT, HeaderValue::from_static("curl/8.0"));
        let body_text = body(unauthorized(&asked)).await;
        assert!(
            body_text.starts_with("{\n  \"kind\": \"Status\",\n") && body_text.ends_with("401\n}"),
            "{body_text}"
        );
    }
}
