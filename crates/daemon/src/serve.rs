//! The HTTP endpoints: health, metrics, configuration.
//!
//! Parity: upstream serves HTTPS with delegated authentication and authorisation here. This first form serves plain HTTP
//! to whoever reaches the port; bind it to loopback where that matters.
//!
//! Invariants: an answer never waits for the core thread; the port is taken before anything else is started, so that a
//! port in use is an error at start and nothing is half done.

mod health;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::metrics::Metrics;
use crate::progress::Progress;
use health::{Check, Endpoint};

/// The port cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}")]
pub struct ListenError {
    /// What was asked for.
    pub address: SocketAddr,
    /// What the system said.
    #[source]
    pub source: std::io::Error,
}

/// What the endpoints tell about.
#[derive(Clone)]
pub(crate) struct Shown {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) progress: watch::Receiver<Progress>,
    /// The answer of `/configz`.
    pub(crate) configz: Arc<str>,
    /// Whether termination has begun.
    pub(crate) is_terminating: watch::Receiver<bool>,
}

/// Takes the port.
pub(crate) async fn listen(address: SocketAddr) -> Result<TcpListener, ListenError> {
    TcpListener::bind(address).await.map_err(|source| ListenError { address, source })
}

/// Answers until the returned future is dropped.
pub(crate) async fn serve(listener: TcpListener, shown: Shown) {
    let router = Router::new()
        .route("/healthz", get(|shown, query| health_of(shown, query, Endpoint::Healthz)))
        .route("/livez", get(|shown, query| health_of(shown, query, Endpoint::Livez)))
        .route("/readyz", get(|shown, query| health_of(shown, query, Endpoint::Readyz)))
        .route("/healthz/{check}", get(|shown, check| child(shown, check, Endpoint::Healthz)))
        .route("/livez/{check}", get(|shown, check| child(shown, check, Endpoint::Livez)))
        .route("/readyz/{check}", get(|shown, check| child(shown, check, Endpoint::Readyz)))
        .route("/metrics", get(metrics))
        .route("/configz", get(configz))
        .fallback(not_found)
        .with_state(shown);
    if let Err(error) = axum::serve(listener, router).await {
        tracing::error!(%error, "The HTTP endpoints have ended");
    }
}

impl Shown {
    /// The reason why a check fails.
    fn failure(&self, check: Check) -> Option<&'static str> {
        match check {
            Check::Ping => None,
            Check::Shutdown => self.is_terminating.borrow().then_some("process is shutting down"),
            Check::Sync => {
                (!self.progress.borrow().is_synced).then_some("handlers are not fully synchronized")
            }
        }
    }
}

async fn health_of(
    State(shown): State<Shown>,
    RawQuery(query): RawQuery,
    endpoint: Endpoint,
) -> Response {
    let (is_well, text) =
        health::root(endpoint, query.as_deref().unwrap_or_default(), |check| shown.failure(check));
    plain(if is_well { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR }, text)
}

async fn child(
    State(shown): State<Shown>,
    Path(name): Path<String>,
    endpoint: Endpoint,
) -> Response {
    let Some(check) = endpoint.checks().iter().find(|check| check.name() == name) else {
        return not_found().await;
    };
    match shown.failure(*check) {
        None => plain(StatusCode::OK, "ok".to_owned()),
        Some(reason) => {
            plain(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {reason}\n"))
        }
    }
}

async fn metrics(State(shown): State<Shown>) -> Response {
    typed(
        StatusCode::OK,
        "text/plain; version=0.0.4; charset=utf-8; escaping=underscores",
        shown.metrics.text(),
    )
}

async fn configz(State(shown): State<Shown>) -> Response {
    typed(StatusCode::OK, "application/json", shown.configz.to_string())
}

async fn not_found() -> Response {
    plain(StatusCode::NOT_FOUND, "404 page not found\n".to_owned())
}

fn plain(status: StatusCode, text: String) -> Response {
    typed(status, "text/plain; charset=utf-8", text)
}

fn typed(status: StatusCode, content_type: &'static str, text: String) -> Response {
    let mut response = (status, text).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}
