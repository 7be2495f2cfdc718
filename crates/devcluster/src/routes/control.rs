//! The control endpoint `/devcluster/faults`.
//!
//! `GET` returns the rules in force; `PUT` replaces them and carries out the orders that come with them; `DELETE`
//! removes them.

use http::{Method, Response};
use serde::Deserialize;
use serde_json::json;

use crate::body::Body;
use crate::faults::FaultRule;
use crate::kinds::KindId;
use crate::response::{json as json_response, rejection};
use crate::server::Server;
use crate::status::StatusError;

/// The body of a `PUT`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Orders {
    /// The new rules; without this member the current ones stay.
    rules: Option<Vec<FaultRule>>,
    seed: Option<u64>,
    drop_watches: Option<DropWatches>,
    /// A plural name, or `*` for all kinds.
    compact_history: Option<String>,
    restart: Option<Restart>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct DropWatches {
    resource: Option<String>,
    abrupt: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Restart {
    downtime_millis: u64,
}

pub(crate) fn handle(server: &Server, method: &Method, path: &str, body: &[u8]) -> Response<Body> {
    if path != "/devcluster/faults" {
        return rejection(&StatusError::no_such_path());
    }
    match *method {
        Method::GET => {}
        Method::DELETE => server.faults.clear(),
        Method::PUT | Method::POST => {
            if let Err(error) = serde_json::from_slice(body)
                .map_err(|error| StatusError::bad_request(format!("fault orders: {error}")))
                .and_then(|orders| carry_out(server, orders))
            {
                return rejection(&error);
            }
        }
        _ => return rejection(&StatusError::method_not_allowed()),
    }
    json_response(
        200,
        &json!({"rules": server.faults.rules(), "injected": server.faults.injected()}),
    )
}

fn carry_out(server: &Server, orders: Orders) -> Result<(), StatusError> {
    // All names are resolved before anything is changed, so that a mistake leaves everything as it was.
    let dropped = match &orders.drop_watches {
        Some(order) => Some((order.resource.as_deref().map(kind_named).transpose()?, order.abrupt)),
        None => None,
    };
    let compacted = match orders.compact_history.as_deref() {
        Some("*") => Some(None),
        Some(name) => Some(Some(kind_named(name)?)),
        None => None,
    };
    if let Some(rules) = orders.rules {
        let refuse = |error: crate::faults::FaultError| StatusError::bad_request(error.to_string());
        server.faults.replace(rules, orders.seed).map_err(refuse)?;
    }
    if let Some(kind) = compacted {
        server.store.compact_history(kind);
    }
    if let Some((kind, abrupt)) = dropped {
        server.faults.drop_watches(kind, abrupt);
    }
    if let Some(restart) = orders.restart {
        server.restart(std::time::Duration::from_millis(restart.downtime_millis));
    }
    Ok(())
}

fn kind_named(name: &str) -> Result<KindId, StatusError> {
    KindId::by_name(name)
        .ok_or_else(|| StatusError::bad_request(format!("resource {name:?} is not served")))
}
