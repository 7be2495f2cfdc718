//! Certificates of clients during the handshake: requested, but not required.
//!
//! Invariant: a certificate that is presented is known to belong to the client, because the handshake is signed with its
//! key; nothing else is known about it yet.

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

/// How long a certificate and its chain may be together: it is kept as long as the connection.
const MAX_CHAIN: usize = 16 << 10;

/// Accepts every client certificate in the handshake; authentication verifies it with each request.
#[derive(Debug)]
pub(crate) struct AnyClient {
    algorithms: WebPkiSupportedAlgorithms,
    hints: Vec<DistinguishedName>,
}

impl AnyClient {
    /// `hints` are the authorities that are announced to clients.
    pub(crate) fn new(provider: &CryptoProvider, hints: &[DistinguishedName]) -> Self {
        Self { algorithms: provider.signature_verification_algorithms, hints: hints.to_vec() }
    }
}

impl ClientCertVerifier for AnyClient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let length = leaf.len() + chain.iter().map(|certificate| certificate.len()).sum::<usize>();
        if length > MAX_CHAIN {
            return Err(Error::General(format!(
                "the client's certificates are {length} bytes long; at most {MAX_CHAIN} are allowed"
            )));
        }
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
