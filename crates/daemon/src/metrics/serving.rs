//! Metrics of the secure port: about its callers, and about the requests to the API server that authenticate and authorize them.

use std::sync::Arc;
use std::time::Duration;

use super::catalog as desc;
use super::registry::{Family, Registry};

/// The purpose of a request to the API server about a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DelegatedReview {
    /// Who a caller is.
    Authentication,
    /// What a caller may do.
    Authorization,
}

/// Metrics of the secure port.
#[derive(Debug)]
pub(crate) struct ServingMetrics {
    users: Arc<Family>,
    authentications: Arc<Family>,
    authentication_duration: Arc<Family>,
    authorizations: Arc<Family>,
    authorization_duration: Arc<Family>,
    certificate_expiration: Arc<Family>,
    authentication_requests: Arc<Family>,
    authentication_request_duration: Arc<Family>,
    authorization_requests: Arc<Family>,
    authorization_request_duration: Arc<Family>,
    token_cache_requests: Arc<Family>,
    token_cache_duration: Arc<Family>,
    token_cache_fetches: Arc<Family>,
    token_cache_active: Arc<Family>,
}

impl ServingMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        Self {
            users: registry.register(desc::AUTHENTICATED_USERS),
            authentications: registry.register(desc::AUTHENTICATIONS),
            authentication_duration: registry.register(desc::AUTHENTICATION_DURATION),
            authorizations: registry.register(desc::AUTHORIZATIONS),
            authorization_duration: registry.register(desc::AUTHORIZATION_DURATION),
            certificate_expiration: registry.register(desc::CERTIFICATE_EXPIRATION),
            authentication_requests: registry.register(desc::DELEGATED_AUTHN),
            authentication_request_duration: registry.register(desc::DELEGATED_AUTHN_DURATION),
            authorization_requests: registry.register(desc::DELEGATED_AUTHZ),
            authorization_request_duration: registry.register(desc::DELEGATED_AUTHZ_DURATION),
            token_cache_requests: registry.register(desc::TOKEN_CACHE_REQUESTS),
            token_cache_duration: registry.register(desc::TOKEN_CACHE_DURATION),
            token_cache_fetches: registry.register(desc::TOKEN_CACHE_FETCHES),
            token_cache_active: registry.register(desc::TOKEN_CACHE_ACTIVE),
        }
    }

    /// Records how long it took to authenticate a caller; `user` is `None` if the credentials that it presented were rejected.
    pub(crate) fn authenticated(&self, user: Option<&str>, length: Duration) {
        let result = if user.is_some() { "success" } else { "error" };
        if let Some(user) = user {
            self.users.inc(&[group_of(user)]);
        }
        self.authentications.inc(&[result]);
        self.authentication_duration.observe(&[result], length.as_secs_f64());
    }

    /// Records how long it took to authorize a request; `result` is `allowed`, `denied`, `no-opinion` or `error`.
    pub(crate) fn authorized(&self, result: &'static str, length: Duration) {
        self.authorizations.inc(&[result]);
        self.authorization_duration.observe(&[result], length.as_secs_f64());
    }

    /// Records a lookup of a token and how long it took until there was a verdict, from the cache (`is_hit`) or from a review.
    pub(crate) fn token_looked_up(&self, is_hit: bool, length: Duration) {
        let status = if is_hit { "hit" } else { "miss" };
        self.token_cache_requests.inc(&[status]);
        self.token_cache_duration.observe(&[status], length.as_secs_f64());
    }

    /// Counts a caller that waits for the review of its token, until the returned value is dropped.
    pub(crate) fn token_blocked(&self) -> impl Drop + use<> {
        ActiveFetch::start(&self.token_cache_active, "blocked")
    }

    /// Counts a token as under review until the returned value is dropped.
    pub(crate) fn token_in_review(&self) -> impl Drop + use<> {
        ActiveFetch::start(&self.token_cache_active, "in_flight")
    }

    /// Counts a review of a token that has ended; `is_ok` if it gave a verdict.
    pub(crate) fn token_reviewed(&self, is_ok: bool) {
        self.token_cache_fetches.inc(&[if is_ok { "ok" } else { "error" }]);
    }

    /// Records for how many seconds a caller's certificate is still valid; negative when it has expired.
    pub(crate) fn certificate_lasts(&self, seconds: f64) {
        self.certificate_expiration.observe(&[], seconds);
    }

    /// Records a request to the API server, its status code, `None` without an answer, and how long it took.
    pub(crate) fn delegated(&self, asked: DelegatedReview, code: Option<u16>, length: Duration) {
        let (requests, duration) = match asked {
            DelegatedReview::Authentication => {
                (&self.authentication_requests, &self.authentication_request_duration)
            }
            DelegatedReview::Authorization => {
                (&self.authorization_requests, &self.authorization_request_duration)
            }
        };
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        requests.inc(&[&code]);
        duration.observe(&[&code], length.as_secs_f64());
    }
}

/// Counts in a gauge as long as it lives.
struct ActiveFetch {
    gauge: Arc<Family>,
    status: &'static str,
}

impl ActiveFetch {
    fn start(gauge: &Arc<Family>, status: &'static str) -> Self {
        gauge.add(&[status], 1.0);
        Self { gauge: gauge.clone(), status }
    }
}

impl Drop for ActiveFetch {
    fn drop(&mut self) {
        self.gauge.add(&[self.status], -1.0);
    }
}

/// Names of users in metrics: few, so that callers cannot make series.
fn group_of(user: &str) -> &str {
    match user {
        "admin"
        | "client"
        | "kube_proxy"
        | "kubelet"
        | "system:serviceaccount:kube-system:default" => user,
        user if user.contains('@') => "email_id",
        _ => "other",
    }
}
