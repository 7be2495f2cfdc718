//! Authentication of callers: by proxies that name the user, client certificates, bearer tokens, or as anonymous clients.
//!
//! Invariants: the ways are tried in this order and the first that knows the caller decides; a caller who presents
//! only invalid credentials is refused and never treated as anonymous; which authorities are trusted is the state of [`Trust`] at
//! the moment of the request.

mod lookup;
mod request_header;
mod token;
mod trust;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use rustls::pki_types::CertificateDer;
use tokio::sync::watch;

use super::error::ServeError;
use super::identity::{User, remaining_lifetime};
use super::options::AuthenticationOptions;
use super::review::{Payer, ReviewError, Reviewer};
use crate::metrics::{DelegatedReview, Metrics};
use crate::transport::Endpoint;
use lookup::Lookup;
use token::Tokens;

pub(crate) use trust::Trust;
use trust::{Anchors, MissingParts};

/// Recognises callers.
pub(crate) struct Authenticator {
    trust: watch::Receiver<Arc<Trust>>,
    /// Whether the certificate of a caller says the user's uid.
    certificates_have_uids: bool,
    /// `None` when there is no API server to ask.
    tokens: Option<Tokens>,
    metrics: Arc<Metrics>,
}

/// Keeps what authentication trusts up to date; see [`Authenticator::new`].
pub(crate) struct TrustKeeper {
    trust: watch::Sender<Arc<Trust>>,
    anchors: Anchors,
    lookup: Option<Lookup>,
}

/// Why no user was recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AuthenticationError {
    /// Everything that was tried and failed.
    Refused(Vec<String>),
    /// There was no slot to ask the API server about the caller's token.
    Busy,
}

impl fmt::Display for AuthenticationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(tried) => f.write_str(&tried.join(", ")),
            Self::Busy => ReviewError::Busy.fmt(f),
        }
    }
}

impl Authenticator {
    /// Reads files and looks up which API server to ask. What is looked up in the cluster comes later, unless it must be there.
    pub(crate) async fn new(
        options: &AuthenticationOptions,
        metrics: &Arc<Metrics>,
    ) -> Result<(Self, TrustKeeper), ServeError> {
        let endpoint = delegate("authentication", options.kubeconfig.as_deref()).await?;
        let api =
            match &endpoint {
                Some(endpoint) => Some(endpoint.client("scheduler").map_err(|source| {
                    ServeError::Delegate { purpose: "authentication", source }
                })?),
                None => None,
            };
        let anchors = Anchors::load(options)?;
        let trust = watch::Sender::new(Arc::new(anchors.trust().clone()));
        let wanted = anchors.missing();
        let lookup = match &api {
            Some(api) if !options.skip_lookup && wanted.is_any() => {
                let mut lookup = Lookup::new(api.clone(), wanted);
                if !options.tolerate_lookup_failure {
                    let found = lookup.once().await.map_err(ServeError::Lookup)?;
                    trust.send_modify(|trust| *trust = Arc::new(trust.with_found(found)));
                }
                Some(lookup)
            }
            None if !options.skip_lookup => {
                warn_of_missing(wanted);
                None
            }
            _ => None,
        };
        let tokens = api.map(|api| {
            let reviewer = Reviewer::new(api, DelegatedReview::Authentication, metrics.clone());
            Tokens::new(reviewer, options.token_cache_ttl, metrics.clone())
        });
        let (metrics, certificates_have_uids) = (metrics.clone(), options.certificates_have_uids);
        let authenticator =
            Self { trust: trust.subscribe(), certificates_have_uids, tokens, metrics };
        Ok((authenticator, TrustKeeper { trust, anchors, lookup }))
    }

    /// Who sent a request with these headers over a connection with these certificates, from this address. Removes the headers that said so.
    pub(crate) async fn recognise(
        &self,
        headers: &mut HeaderMap,
        certificates: &[CertificateDer<'static>],
        address: IpAddr,
    ) -> Result<User, AuthenticationError> {
        let mut tried = Vec::new();
        let known = self.known(headers, certificates, address, &mut tried).await;
        // Whatever came of it, nothing behind this sees the token.
        headers.remove(AUTHORIZATION);
        let trust = self.trust.borrow().clone();
        request_header::clear_standard(headers);
        if let Some(proxy) = &trust.front_proxy {
            proxy.clear(headers);
        }
        match known? {
            Some(user) => Ok(user.authenticated()),
            None if tried.is_empty() => Ok(User::anonymous()),
            None => Err(AuthenticationError::Refused(tried)),
        }
    }

    async fn known(
        &self,
        headers: &HeaderMap,
        certificates: &[CertificateDer<'static>],
        address: IpAddr,
        tried: &mut Vec<String>,
    ) -> Result<Option<User>, AuthenticationError> {
        let trust = self.trust.borrow().clone();
        // In the order of the reference, because the first that succeeds decides: the certificate of a front proxy may be valid
        // for a client, too, and the proxy would be taken for the caller.
        if let (Some(proxy), Some((leaf, chain))) = (&trust.front_proxy, certificates.split_first())
        {
            match proxy.user(headers, leaf, chain) {
                Ok(Some(user)) => return Ok(Some(user)),
                Ok(None) => {}
                Err(problem) => tried.push(problem),
            }
        }
        if let (Some(authorities), Some((leaf, chain))) =
            (&trust.client_ca, certificates.split_first())
        {
            if let Some(seconds) = remaining_lifetime(leaf) {
                self.metrics.serving().certificate_lasts(seconds);
            }
            let has_uid = self.certificates_have_uids;
            let user =
                authorities.verify(leaf, chain).and_then(|()| User::of_certificate(leaf, has_uid));
            match user {
                Ok(Some(user)) => return Ok(Some(user)),
                Ok(None) => {}
                Err(problem) => tried.push(problem),
            }
        }
        if let (Some(tokens), Some(token)) = (&self.tokens, token::bearer_token(headers)) {
            match tokens.user(token, &Payer::at(address)).await {
                Ok(Some(user)) => return Ok(Some(user)),
                Ok(None) => tried.push("invalid bearer token".to_owned()),
                // Not among what was tried: the token may be good, so the caller is asked to come back and not refused.
                Err(ReviewError::Busy) => return Err(AuthenticationError::Busy),
                Err(ReviewError::Failed(problem)) => tried.push(problem),
            }
        }
        Ok(None)
    }
}

impl TrustKeeper {
    /// What is trusted, now and later.
    pub(crate) fn trust(&self) -> watch::Receiver<Arc<Trust>> {
        self.trust.subscribe()
    }

    /// Whether certificates of clients can ever mean anything.
    pub(crate) fn asks_clients(&self) -> bool {
        self.lookup.is_some() || self.anchors.has_files()
    }

    /// Looks at the files every so often, and follows the cluster. Ends only when dropped.
    pub(crate) async fn run(mut self, reload_interval: std::time::Duration) {
        let trust = self.trust.clone();
        let lookup = async {
            match self.lookup {
                Some(lookup) => {
                    lookup
                        .follow(|found| {
                            trust.send_modify(|trust| *trust = Arc::new(trust.with_found(found)));
                        })
                        .await;
                }
                None => std::future::pending().await,
            }
        };
        let files = async {
            let mut ticks = tokio::time::interval(reload_interval);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                if self.anchors.reload() {
                    let from_files = self.anchors.trust();
                    self.trust.send_modify(|trust| *trust = Arc::new(trust.with_files(from_files)));
                }
            }
        };
        tokio::join!(lookup, files);
    }
}

/// Logs which authorities are neither in a file nor can be looked up.
fn warn_of_missing(wanted: MissingParts) {
    let MissingParts { client_ca, front_proxy } = wanted;
    for (is_missing, key, purpose) in [
        (client_ca, "client-ca-file", "client certificate"),
        (front_proxy, "requestheader-client-ca-file", "request-header client certificate"),
    ] {
        if is_missing {
            tracing::warn!(
                "No authentication-kubeconfig provided in order to lookup {key} in \
                 configmap/extension-apiserver-authentication in kube-system, so {purpose} authentication won't work."
            );
        }
    }
}

/// The API server to ask about callers: of a kubeconfig, else of the surrounding cluster, else none.
pub(crate) async fn delegate(
    purpose: &'static str,
    kubeconfig: Option<&std::path::Path>,
) -> Result<Option<Endpoint>, ServeError> {
    if let Some(path) = kubeconfig {
        let endpoint = Endpoint::from_kubeconfig(path, None).await;
        return endpoint.map(Some).map_err(|source| ServeError::Delegate { purpose, source });
    }
    match Endpoint::in_cluster() {
        Ok(endpoint) => Ok(Some(endpoint)),
        Err(crate::transport::ConnectError::NotConfigured) => Ok(None),
        Err(error) => {
            let error = super::error::chain(&error);
            tracing::warn!("failed to read in-cluster kubeconfig for delegated {purpose}: {error}");
            Ok(None)
        }
    }
}
