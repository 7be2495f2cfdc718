//! What the secure port counts of its callers, and of the API server that it asks about them.

use std::sync::Arc;
use std::time::Duration;

use super::catalog as desc;
use super::registry::{Family, Registry};

/// What the API server is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delegated {
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

    /// It took so long to find out who a caller is: `user`, or nobody because something presented was no good.
    pub(crate) fn authenticated(&self, user: Option<&str>, length: Duration) {
        let result = if user.is_some() { "success" } else { "error" };
        if let Some(user) = user {
            self.users.inc(&[group_of(user)]);
        }
        self.authentications.inc(&[result]);
        self.authentication_duration.observe(&[result], length.as_secs_f64());
    }

    /// It took so long to decide about a request: `allowed`, `denied`, `no-opinion` or `error`.
    pub(crate) fn authorized(&self, result: &'static str, length: Duration) {
        self.authorizations.inc(&[result]);
        self.authorization_duration.observe(&[result], length.as_secs_f64());
    }

    /// A token was looked for in the cache of verdicts, and after so long there was one: from the cache, or from a review.
    pub(crate) fn token_looked_up(&self, is_hit: bool, length: Duration) {
        let status = if is_hit { "hit" } else { "miss" };
        self.token_cache_requests.inc(&[status]);
        self.token_cache_duration.observe(&[status], length.as_secs_f64());
    }

    /// A caller waits for the review of its token until what is returned is dropped.
    pub(crate) fn token_blocked(&self) -> impl Drop + use<> {
        ActiveFetch::start(&self.token_cache_active, "blocked")
    }

    /// A token is under review until what is returned is dropped.
    pub(crate) fn token_in_review(&self) -> impl Drop + use<> {
        ActiveFetch::start(&self.token_cache_active, "in_flight")
    }

    /// The review of a token has ended, with a verdict or without.
    pub(crate) fn token_reviewed(&self, is_ok: bool) {
        self.token_cache_fetches.inc(&[if is_ok { "ok" } else { "error" }]);
    }

    /// A caller's certificate is valid for so many seconds more; fewer than 0 when it has run out.
    pub(crate) fn certificate_lasts(&self, seconds: f64) {
        self.certificate_expiration.observe(&[], seconds);
    }

    /// The API server was asked, and answered with this status after so long, if it did.
    pub(crate) fn delegated(&self, asked: Delegated, code: Option<u16>, length: Duration) {
        let (requests, duration) = match asked {
            Delegated::Authentication => {
                (&self.authentication_requests, &self.authentication_request_duration)
            }
            Delegated::Authorization => {
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
