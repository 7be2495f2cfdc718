//! TLS of the secure port: which certificate a client gets, which versions and ciphers are allowed, and reloading of files.
//!
//! Invariants: a handshake always finds a certificate, the last one that was whole; files that break later are reported
//! once and change nothing; a client certificate is asked for and its possession proved, but which authority has signed it is
//! judged with each request, so that authorities may change while connections live.

mod certificates;
mod client;
mod self_signed;
mod settings;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use rustls::server::{ResolvesServerCert, ServerConfig};
use rustls::{DistinguishedName, crypto::CryptoProvider};
use tokio::sync::watch;

use super::error::ServeError;
use super::options::ServingOptions;
use crate::announcement::CertificateDigest;
use certificates::{CertificateChoice, Certificates};
use client::AnyClient;
use settings::Settings;

pub(crate) use certificates::read_certificates;

/// The TLS configuration of new connections.
pub(crate) struct TlsState {
    config: Arc<ServerConfig>,
    /// For connections to an address that a certificate names, when the client names nothing.
    by_address: BTreeMap<IpAddr, Arc<ServerConfig>>,
}

impl TlsState {
    /// The configuration for a connection that came in at `local`.
    pub(crate) fn for_address(&self, local: IpAddr) -> Arc<ServerConfig> {
        self.by_address.get(&local.to_canonical()).unwrap_or(&self.config).clone()
    }
}

/// Keeps [`TlsState`] up to date.
pub(crate) struct Tls {
    settings: Settings,
    certificates: Certificates,
    /// `None` when client certificates are never asked for.
    authorities: Option<Vec<DistinguishedName>>,
    state: watch::Sender<Arc<TlsState>>,
    certificate: watch::Sender<CertificateDigest>,
    complaint: Option<String>,
}

impl Tls {
    /// Reads or makes certificates. Clients are not asked for theirs yet.
    pub(crate) fn load(options: &ServingOptions) -> Result<Self, ServeError> {
        let settings = Settings::parse(options)?;
        let certificates = Certificates::load(options, settings.provider())?;
        let chosen = certificates.chosen();
        let state = build(&settings, &chosen, None)?;
        Ok(Self {
            settings,
            certificates,
            authorities: None,
            state: watch::Sender::new(Arc::new(state)),
            certificate: watch::Sender::new(chosen.usual()),
            complaint: None,
        })
    }

    /// The TLS configuration of new connections, and its changes.
    pub(crate) fn state(&self) -> watch::Receiver<Arc<TlsState>> {
        self.state.subscribe()
    }

    /// The certificate of clients that ask for no name in particular, and its changes.
    pub(crate) fn certificate(&self) -> watch::Receiver<CertificateDigest> {
        self.certificate.subscribe()
    }

    /// Looks at the files again.
    pub(crate) fn reload(&mut self) {
        match self.certificates.reload(self.settings.provider()) {
            Ok(false) => self.complaint = None,
            Ok(true) => {
                self.complaint = None;
                tracing::info!("Loaded a changed serving certificate");
                self.publish();
            }
            Err(error) => {
                let text = super::error::chain(&error);
                if self.complaint.as_ref() != Some(&text) {
                    tracing::error!(err = %text, "The serving certificate has changed and cannot be used; going on with the former");
                    self.complaint = Some(text);
                }
            }
        }
    }

    /// From now on clients are asked for certificates, as these can mean something.
    pub(crate) fn ask_clients(&mut self) {
        self.authorities = Some(Vec::new());
        self.publish();
    }

    /// Announces to clients which authorities may have signed their certificates.
    pub(crate) fn hint(&mut self, authorities: Vec<DistinguishedName>) {
        let is_new = |known: &Vec<DistinguishedName>| {
            !known.iter().map(AsRef::<[u8]>::as_ref).eq(authorities.iter().map(AsRef::as_ref))
        };
        if self.authorities.as_ref().is_some_and(is_new) {
            self.authorities = Some(authorities);
            self.publish();
        }
    }

    fn publish(&self) {
        let chosen = self.certificates.chosen();
        match build(&self.settings, &chosen, self.authorities.as_deref()) {
            Ok(state) => {
                self.state.send_replace(Arc::new(state));
                self.certificate.send_replace(chosen.usual());
            }
            // Building the configuration from the same parts has succeeded before.
            Err(error) => tracing::error!(err = %error, "TLS stays as it was"),
        }
    }
}

fn build(
    settings: &Settings,
    chosen: &CertificateChoice,
    authorities: Option<&[DistinguishedName]>,
) -> Result<TlsState, ServeError> {
    let config = |resolver: Arc<dyn ResolvesServerCert>| -> Result<Arc<ServerConfig>, ServeError> {
        let provider: Arc<CryptoProvider> = settings.provider().clone();
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(settings.versions())
            .map_err(|error| ServeError::Setting(error.to_string()))?;
        let builder = match authorities {
            Some(hints) => {
                builder.with_client_cert_verifier(Arc::new(AnyClient::new(&provider, hints)))
            }
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(resolver);
        config.alpn_protocols = settings.protocols();
        Ok(Arc::new(config))
    };
    let by_address = chosen
        .addresses()
        .map(|(address, resolver)| Ok((address, config(Arc::new(resolver))?)))
        .collect::<Result<_, ServeError>>()?;
    Ok(TlsState { config: config(Arc::new(chosen.clone()))?, by_address })
}
