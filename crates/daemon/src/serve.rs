//! The secure port: TLS, who asks, who may, and the pages.
//!
//! Invariants: the port is taken and certificates are read before anything else is started, so that what is wrong with
//! them is an error at start and nothing is half done; an answer never waits for the core thread's decisions.
//!
//! Reading order: `options` is what can be set; `connection` serves the connections that `listener` and `tls` make;
//! `site` is what every request goes through, `authentication` and `authorization` first.

mod admission;
mod answers;
mod authentication;
mod authorization;
mod connection;
mod debugging;
mod error;
mod exposition;
pub(crate) mod fuzz;
mod health;
mod identity;
mod listener;
mod options;
mod plain_http;
mod pod_resources;
mod reply;
mod review;
mod site;
mod tls;
mod zpages;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::announcement::CertificateDigest;
use crate::metrics::Metrics;
use admission::Admission;
use answers::Answers;
use authentication::{Authenticator, TrustKeeper};
use authorization::Authorizer;
use connection::Limits;
use exposition::Scrapes;
use health::Slis;
use site::Site;
use tls::Tls;
use zpages::ZPages;

pub use error::ServeError;
pub use options::{
    AuthenticationOptions, AuthorizationOptions, ConnectionPatience, Introspection,
    RequestHeaderOptions, ServingOptions, SniCertificate, VerbosityError, VerbositySetter,
};
pub(crate) use site::SiteSources;

/// The secure port, taken but not served yet.
pub(crate) struct SecurePort {
    options: ServingOptions,
    listener: TcpListener,
    address: SocketAddr,
    tls: Tls,
    authenticator: Authenticator,
    trust: TrustKeeper,
    authorizer: Authorizer,
}

impl SecurePort {
    /// Reads certificates and kubeconfigs and takes the port.
    pub(crate) async fn open(
        options: ServingOptions,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, ServeError> {
        let listener = listener::listen(&options)?;
        let address =
            listener.local_addr().map_err(|error| ServeError::listen(options.address, &error))?;
        // What is wrong with the port is reported before anything about its callers.
        let mut tls = Tls::load(&options)?;
        let (authenticator, trust) = Authenticator::new(&options.authentication, metrics).await?;
        if trust.asks_clients() {
            tls.ask_clients();
        }
        let authorizer = Authorizer::new(&options.authorization, metrics).await?;
        Ok(Self { options, listener, address, tls, authenticator, trust, authorizer })
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Which certificate a client sees that asks for no name in particular.
    pub(crate) fn certificate(&self) -> watch::Receiver<CertificateDigest> {
        self.tls.certificate()
    }

    /// Answers until `stop` becomes true, and then what is under way.
    pub(crate) async fn serve(self, sources: SiteSources, stop: watch::Receiver<bool>) {
        let limits = Limits {
            patience: self.options.patience,
            http2_max_streams: self.options.http2_max_streams,
        };
        let admission = Admission::new(connection::CONNECTION_LIMITS);
        let verbosity = self.options.introspection.verbosity.clone();
        let site = Arc::new(Site {
            authenticator: self.authenticator,
            authorizer: self.authorizer,
            zpages: ZPages::new(self.options.introspection, sources.started_at),
            verbosity,
            slis: Slis::default(),
            answers: Answers::with_questions_within(self.options.patience.question),
            scrapes: Scrapes::default(),
            admission: admission.clone(),
            sources,
        });
        tracing::info!("Serving securely on {}", self.address);
        let handler = move |call| {
            let site = site.clone();
            async move { site.answer(call).await }
        };
        let serving =
            connection::serve(self.listener, self.tls.state(), (admission, limits), handler, stop);
        let interval = self.options.reload_interval;
        let following = follow(self.tls, self.trust.trust(), interval);
        let trusting = self.trust.run(interval);
        tokio::select! {
            () = serving => {}
            () = following => {}
            () = trusting => {}
        }
    }
}

/// Keeps certificates up to date, and the authorities announced to clients. Ends only when dropped.
async fn follow(
    mut tls: Tls,
    mut trust: watch::Receiver<Arc<authentication::Trust>>,
    interval: std::time::Duration,
) {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    tls.hint(trust.borrow_and_update().subjects());
    loop {
        tokio::select! {
            _ = ticks.tick() => tls.reload(),
            Ok(()) = trust.changed() => tls.hint(trust.borrow_and_update().subjects()),
        }
    }
}
