//! A connection to a port of a pod: through the API server's port-forward, with TLS inside, to the holder of one certificate.
//!
//! Invariant: nothing but the handshake is sent before the other side has proved to hold the key of the expected certificate,
//! so credentials reach only that process; the API server and the kubelet on the way see TLS only.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Uri;
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::client::{Body, ConfigExt};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, SignatureScheme};
use tokio::io::DuplexStream;
use tower::{BoxError, Service};

use super::connection::layered;
use super::stream::ConnectedStream;
use crate::announcement::CertificateDigest;

/// The name that is asked for. No certificate is for it, so that a server with several shows its usual one.
const SERVER_NAME: &str = "kube-scheduler.invalid";

/// A port of a pod, and who is expected there.
#[derive(Clone, Debug)]
pub(crate) struct PodPort {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) port: u16,
    pub(crate) certificate: CertificateDigest,
}

/// A client with the credentials of `config` for what listens at the port. `api_server` forwards. Nothing is sent yet.
pub(super) fn client(
    mut config: kube::Config,
    api_server: kube::Client,
    port: PodPort,
) -> Result<kube::Client, BoxError> {
    config.cluster_url = format!("https://{SERVER_NAME}/").parse()?;
    let mut tls = config.rustls_client_config()?;
    let algorithms = tls.crypto_provider().signature_verification_algorithms;
    let pinned = PinnedCertificate { certificate: port.certificate, algorithms };
    tls.dangerous().set_certificate_verifier(Arc::new(pinned));
    let name = ServerName::try_from(SERVER_NAME)?.to_owned();
    let forwarder = Forwarder {
        pods: Api::namespaced(api_server, &port.namespace),
        name: port.name.into(),
        port: port.port,
    };
    let https = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_only()
        .with_server_name_resolver(FixedServerNameResolver::new(name))
        .enable_http1()
        .wrap_connector(forwarder);
    let mut connector = TimeoutConnector::new(https);
    connector.set_connect_timeout(config.connect_timeout);
    let client: Client<_, Body> = Client::builder(TokioExecutor::new()).build(connector);
    layered(config, client)
}

/// Opens streams to a port of a pod, whatever URL is asked for.
#[derive(Clone)]
struct Forwarder {
    pods: Api<Pod>,
    name: Arc<str>,
    port: u16,
}

impl Service<Uri> for Forwarder {
    type Response = ConnectedStream<TokioIo<DuplexStream>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let Self { pods, name, port } = self.clone();
        Box::pin(async move {
            let mut forwarder = pods.portforward(&name, &[port]).await?;
            let stream = forwarder.take_stream(port).ok_or("the port is not forwarded")?;
            let error = forwarder.take_error(port).ok_or("errors of the port are not forwarded")?;
            let error = async {
                let text = error.await?;
                Some(std::io::Error::other(format!("port-forward: {}", text.trim())))
            };
            Ok(ConnectedStream::with_ending(TokioIo::new(stream), error))
        })
    }
}

/// Accepts one certificate, whichever authority has signed it, from a server that proves to hold its key.
#[derive(Debug)]
struct PinnedCertificate {
    certificate: CertificateDigest,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for PinnedCertificate {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if CertificateDigest::of(end_entity) == self.certificate {
            return Ok(ServerCertVerified::assertion());
        }
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
