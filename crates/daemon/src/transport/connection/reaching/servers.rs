//! Servers and proxies, and the certificates that they show and ask for.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
/// An authority, and certificates that it signs.
pub(super) struct Authority {
    pub(super) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
pub(super) struct IssuedCertificate {
    pub(super) certificate: String,
    pub(super) key: String,
}

impl Authority {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    fn sign(
        &self,
        name: &str,
        names: &[&str],
        usage: ExtendedKeyUsagePurpose,
    ) -> IssuedCertificate {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        IssuedCertificate { certificate, key: key.serialize_pem() }
    }

    pub(super) fn client(&self, name: &str) -> IssuedCertificate {
        self.sign(name, &[], ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()).unwrap();
        Arc::new(roots)
    }

    /// TLS of a server at 127.0.0.1, 0.0.0.0 and `api.example`, whose clients may have a certificate by `clients`.
    pub(super) fn tls(&self, clients: &Self, protocols: &[&str]) -> Arc<ServerConfig> {
        let names = ["127.0.0.1", "0.0.0.0", "api.example"];
        let issued = self.sign("server", &names, ExtendedKeyUsagePurpose::ServerAuth);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(clients.roots(), provider.clone())
                .allow_unauthenticated()
                .build()
                .unwrap();
        let certificate = CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap();
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![certificate], key)
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }
}

impl IssuedCertificate {
    pub(super) fn der(&self) -> Vec<u8> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap().to_vec()
    }
}

/// What a server has seen of a request.
#[derive(Clone)]
pub(super) struct ReceivedRequest {
    /// The number of its connection.
    pub(super) connection: usize,
    pub(super) certificate: Option<Vec<u8>>,
    pub(super) uri: String,
    pub(super) headers: HeaderMap,
}

/// A server that answers everything with `{}`, in TLS if it has any.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) tls: Arc<Mutex<Option<Arc<ServerConfig>>>>,
    seen: Arc<Mutex<Vec<ReceivedRequest>>>,
    /// The connections that have ended.
    pub(super) ended: Arc<Mutex<Vec<usize>>>,
}

impl Server {
    pub(super) async fn start(tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            tls: Arc::new(Mutex::new(tls)),
            seen: Arc::default(),
            ended: Arc::default(),
        };
        let served = server.clone();
        tokio::spawn(async move {
            for number in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                let served = served.clone();
                tokio::spawn(async move {
                    let tls = served.tls.lock().unwrap().clone();
                    match tls {
                        Some(tls) => {
                            if let Ok(stream) = TlsAcceptor::from(tls).accept(stream).await {
                                let connection = stream.get_ref().1;
                                let certificate =
                                    connection.peer_certificates().map(|shown| shown[0].to_vec());
                                let is_h2 = connection.alpn_protocol() == Some(b"h2");
                                served.serve(number, stream, certificate, is_h2).await;
                            }
                        }
                        None => served.serve(number, stream, None, false).await,
                    }
                    served.ended.lock().unwrap().push(number);
                });
            }
        });
        server
    }

    async fn serve(
        &self,
        connection: usize,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        certificate: Option<Vec<u8>>,
        is_h2: bool,
    ) {
        let seen = self.seen.clone();
        let answer = service_fn(move |request: Request<Incoming>| {
            seen.lock().unwrap().push(ReceivedRequest {
                connection,
                certificate: certificate.clone(),
                uri: request.uri().to_string(),
                headers: request.headers().clone(),
            });
            async { Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("{}")))) }
        });
        let io = TokioIo::new(stream);
        if is_h2 {
            http2::Builder::new(TokioExecutor::new()).serve_connection(io, answer).await.ok();
        } else {
            http1::Builder::new().serve_connection(io, answer).await.ok();
        }
    }

    pub(super) fn last(&self) -> ReceivedRequest {
        self.seen.lock().unwrap().last().unwrap().clone()
    }
}

/// A proxy: what was said to it, and whether it passes connections on.
#[derive(Clone)]
pub(super) struct FakeProxy {
    pub(super) address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

/// Reads until the end of a head.
async fn head_of(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

impl FakeProxy {
    /// Answers `CONNECT` with `status`, and passes on to `upstream` where that is 200. With TLS if there is any.
    pub(super) async fn start(
        upstream: SocketAddr,
        status: u16,
        tls: Option<Arc<ServerConfig>>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let proxy = Self { address, heads: Arc::default() };
        let served = proxy.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (served, tls) = (served.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        Some(tls) => {
                            let stream = TlsAcceptor::from(tls).accept(stream).await.unwrap();
                            served.pass(stream, upstream, status).await
                        }
                        None => served.pass(stream, upstream, status).await,
                    }
                });
            }
        });
        proxy
    }

    async fn pass(
        &self,
        mut stream: impl AsyncRead + AsyncWrite + Unpin,
        upstream: SocketAddr,
        status: u16,
    ) -> io::Result<()> {
        let head = head_of(&mut stream).await?;
        let is_connect = head.starts_with("CONNECT ");
        self.heads.lock().unwrap().push(head);
        if !is_connect {
            return stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
        }
        stream.write_all(format!("HTTP/1.1 {status} Said\r\n\r\n").as_bytes()).await?;
        if status == 200 {
            let mut upstream = TcpStream::connect(upstream).await?;
            tokio::io::copy_bidirectional(&mut stream, &mut upstream).await?;
        }
        Ok(())
    }

    pub(super) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}
