//! The TLS side of the server: its certificate, and the check of client certificates.
//!
//! Invariant: the handshake succeeds for a client without a certificate, and fails for one whose certificate another
//! authority has signed.

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::authority::{Authority, CertificateError, Identity};
use super::subject::user_of;
use super::user::User;

/// How long a client may take for the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// What a server needs for TLS.
pub(crate) struct Tls {
    acceptor: TlsAcceptor,
    pub(crate) authority: Authority,
    pub(crate) front_proxy: Authority,
}

impl Tls {
    /// A server on loopback whose certificate `authority` signs.
    pub(crate) fn new(
        authority: Authority,
        front_proxy: Authority,
    ) -> Result<Self, CertificateError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(authority.certificate().der().clone())?;
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                .allow_unauthenticated()
                .build()?;
        let (chain, key) = parsed(&authority.server(&["localhost", "127.0.0.1", "::1"])?)?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), authority, front_proxy })
    }

    /// Does the handshake, and returns the user of the client's certificate if it sent one.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
    ) -> std::io::Result<(TlsStream<TcpStream>, Option<User>)> {
        let too_late = |_| std::io::Error::from(std::io::ErrorKind::TimedOut);
        let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, self.acceptor.accept(stream));
        let stream = handshake.await.map_err(too_late)??;
        let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let user = certificates.first().and_then(|certificate| user_of(certificate));
        Ok((stream, user))
    }
}

fn parsed(
    identity: &Identity,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), rustls::Error> {
    // This process has written the PEM texts a moment ago, so failing here is a bug, not bad input.
    let wrong = |error: rustls::pki_types::pem::Error| rustls::Error::General(error.to_string());
    let chain = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).map_err(wrong)?;
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).map_err(wrong)?;
    Ok((vec![chain], key))
}
