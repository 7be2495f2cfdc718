//! An extender as a program of its own: a server whose answers are a closure, over HTTP or HTTPS.

use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// What an extender answers.
pub(crate) enum Answer {
    /// 200 with this.
    Json(Value),
    /// This status with this body.
    Plain(u16, Vec<u8>),
    /// A redirection to this place.
    Redirect(String),
    /// Nothing, ever.
    Never,
}

type Answers = dyn Fn(&str, &Value) -> Answer + Send + Sync;

/// A running extender. Dropping it ends it.
pub(crate) struct ExtenderServer {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
    task: JoinHandle<()>,
}

impl Drop for ExtenderServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A CA, and a certificate by it for `extender.test` with its key, all in PEM.
pub(crate) struct Certificates {
    pub(crate) ca: String,
    pub(crate) cert: String,
    pub(crate) key: String,
}

impl Certificates {
    pub(crate) fn new() -> Self {
        let mut ca = CertificateParams::new(Vec::new()).unwrap();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca_key = KeyPair::generate().unwrap();
        let ca_cert = ca.self_signed(&ca_key).unwrap();
        let issuer = Issuer::new(ca, ca_key);
        let key = KeyPair::generate().unwrap();
        let cert = CertificateParams::new(vec!["extender.test".to_owned()]).unwrap();
        let cert = cert.signed_by(&key, &issuer).unwrap();
        Self { ca: ca_cert.pem(), cert: cert.pem(), key: key.serialize_pem() }
    }

    fn acceptor(&self) -> TlsAcceptor {
        let cert = CertificateDer::from_pem_slice(self.cert.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap();
        let config = rustls::ServerConfig::builder().with_no_client_auth();
        TlsAcceptor::from(Arc::new(config.with_single_cert(vec![cert], key).unwrap()))
    }
}

impl ExtenderServer {
    /// Answers by verb and question.
    pub(crate) async fn start(
        answers: impl Fn(&str, &Value) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::start_with(None, answers).await
    }

    /// The same over HTTPS.
    pub(crate) async fn start_https(
        certificates: &Certificates,
        answers: impl Fn(&str, &Value) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::start_with(Some(certificates.acceptor()), answers).await
    }

    async fn start_with(
        tls: Option<TlsAcceptor>,
        answers: impl Fn(&str, &Value) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (log, answers): (_, Arc<Answers>) = (asked.clone(), Arc::new(answers));
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (tls, log, answers) = (tls.clone(), log.clone(), answers.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, log, answers).await,
                        // A client that does not trust the certificate closes the connection.
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, log, answers).await;
                            }
                        }
                    }
                });
            }
        });
        Self { url, asked, task }
    }

    /// The questions so far, by verb.
    pub(crate) fn asked(&self, verb: &str) -> Vec<Value> {
        let asked = self.asked.lock().unwrap();
        asked
            .iter()
            .filter(|(this, _)| this == verb)
            .map(|(_, question)| question.clone())
            .collect()
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    log: Arc<Mutex<Vec<(String, Value)>>>,
    answers: Arc<Answers>,
) {
    let service = service_fn(|request: Request<Incoming>| {
        let (log, answers) = (log.clone(), answers.clone());
        async move {
            assert_eq!(request.method(), "POST");
            assert_eq!(request.headers()["content-type"], "application/json");
            let verb = request.uri().path().trim_start_matches("/sub/").to_owned();
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let question: Value = serde_json::from_slice(&body).unwrap();
            log.lock().unwrap().push((verb.clone(), question.clone()));
            let (status, body) = match answers(&verb, &question) {
                Answer::Json(value) => (200, value.to_string().into_bytes()),
                Answer::Plain(status, body) => (status, body),
                Answer::Redirect(to) => {
                    let response = Response::builder().status(307).header("location", to);
                    return Ok::<_, Infallible>(response.body(Full::default()).unwrap());
                }
                Answer::Never => pending().await,
            };
            let mut response = Response::new(Full::new(Bytes::from(body)));
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            Ok(response)
        }
    });
    let connection = hyper::server::conn::http1::Builder::new();
    // A scheduler that gives up waiting closes the connection.
    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
}
