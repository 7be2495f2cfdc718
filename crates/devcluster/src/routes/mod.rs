//! From HTTP to verbs and back.
//!
//! Invariants: a request is authenticated and authorized before anything else; every rejection of an API path is a
//! `Status` object; faults are decided once per API request, before it has any effect; nothing here keeps state.

mod content;
mod control;
mod encode;
mod objects;
mod request;
mod review;
mod watch;

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, header};
use hyper::body::Incoming;

use crate::access::{Action, User};
use crate::body::{Body, ConnectionDrop};
use crate::discovery;
use crate::faults::{FaultEffect, FaultTarget};
use crate::kinds::PODS;
use crate::port_forward;
use crate::response::{rejection, with_body};
use crate::server::Server;
use crate::status::StatusError;
use content::read_body;
use request::{ApiRequest, text_header};

/// Answers one request, or drops the connection because a fault says so.
pub(crate) async fn handle(
    server: Arc<Server>,
    certified: Option<Arc<User>>,
    request: Request<Incoming>,
) -> Result<Response<Body>, ConnectionDrop> {
    let (parts, incoming) = request.into_parts();
    let path = parts.uri.path();
    let user = server
        .access
        .authenticate(&parts.headers, certified.as_deref())
        .and_then(|user| server.access.acting_user(&server.store, user, &parts.headers));
    let user = match user {
        Ok(user) => user,
        Err(error) => return Ok(rejection(&error)),
    };
    // Parsed but not checked: a user without rights learns no more than that, whatever else is wrong with the request.
    let parsed = ApiRequest::parse(&parts, server.options.protobuf);
    let action = match &parsed {
        Some(Ok(request)) => request.action(),
        _ => action_on_path(&parts.method, path),
    };
    if let Err(error) = server.access.authorize(&server.store, &user, &action) {
        return Ok(rejection(&error));
    }
    let parsed = match parsed {
        None if path.starts_with("/devcluster/") => {
            return Ok(match read_body(incoming).await {
                Ok(body) => control::handle(&server, &parts.method, path, &body),
                Err(error) => rejection(&error),
            });
        }
        None => {
            let accept = text_header(&parts.headers, header::ACCEPT);
            return Ok(discovery::answer(parts.uri.path(), accept));
        }
        Some(parsed) => parsed,
    };
    let request = match parsed {
        Ok(request) => request,
        Err(error) => return Ok(rejection(&error)),
    };
    // One decision per request, before it has any effect. What the decision asks for is spread over the rest: some faults
    // replace the answer, others need the request to be carried out first.
    let verdict = server.faults.judge(&FaultTarget {
        verb: request.verb.as_str(),
        kind: request.kind.get(),
        subresource: &request.subresource,
        name: &request.name,
    });
    if !verdict.delay.is_zero() {
        tokio::time::sleep(verdict.delay).await;
    }
    if let Some(response) = injected(verdict.effect.as_ref()) {
        return response;
    }
    if request.kind == PODS && request.subresource == "portforward" {
        let ports = request.query.get("ports").map(str::to_owned);
        let pod = (&*request.namespace, &*request.name);
        let upgradable = Request::from_parts(parts, incoming);
        let response = port_forward::open(&server, pod, ports.as_deref(), upgradable);
        return Ok(response.unwrap_or_else(|error| rejection(&error)));
    }
    let body = match parts.method {
        Method::GET => Bytes::new(),
        _ => match read_body(incoming).await {
            Ok(body) => body,
            Err(error) => return Ok(rejection(&error)),
        },
    };
    let response = objects::answer(&server, &user, request, &body, verdict.effect.as_ref());
    if verdict.effect == Some(FaultEffect::ResetAfter) {
        return Err(ConnectionDrop);
    }
    let response = response.unwrap_or_else(|error| rejection(&error));
    Ok(match verdict.effect {
        Some(FaultEffect::Truncate { after_bytes }) => response.map(|body| body.cut(after_bytes)),
        _ => response,
    })
}

/// A request for no resource in the words of RBAC.
fn action_on_path(method: &Method, path: &str) -> Action {
    let verb = method.as_str().to_ascii_lowercase();
    Action { verb, path: path.to_owned(), ..Action::default() }
}

/// The response that a fault gives instead of carrying out the request; `None` if the request is carried out.
fn injected(effect: Option<&FaultEffect>) -> Option<Result<Response<Body>, ConnectionDrop>> {
    Some(match effect? {
        FaultEffect::Reset => Err(ConnectionDrop),
        FaultEffect::Error { code, retry_after_seconds } => {
            let error =
                StatusError::with_code(*code, format!("fault injected by rule: status {code}"));
            Ok(rejection(&match *retry_after_seconds {
                Some(seconds) => error.retry_after(seconds),
                None => error,
            }))
        }
        FaultEffect::Garbage => {
            Ok(with_body(200, Body::whole(&b"<html>no API server</html>\n"[..])))
        }
        FaultEffect::Silence => Ok(with_body(200, Body::silent())),
        _ => return None,
    })
}
