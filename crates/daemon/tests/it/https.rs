//! Certificates, an HTTPS client that shows what it sees, and an API server that only reviews.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube_scheduler_daemon::{AuthenticationOptions, AuthorizationOptions, ServingOptions};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Nothing here takes as long, unless it is broken.
const DEADLINE: Duration = Duration::from_secs(60);

/// Options that listen on a free port of loopback and look at files often.
pub(crate) fn options() -> ServingOptions {
    ServingOptions {
        address: ([127, 0, 0, 1], 0).into(),
        reload_interval: Duration::from_millis(20),
        ..ServingOptions::default()
    }
}

/// An authority and what it signs.
pub(crate) struct Authority {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
#[derive(Clone)]
pub(crate) struct IssuedCertificate {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// A certificate for a server of these names.
    pub(crate) fn server(&self, names: &[&str]) -> IssuedCertificate {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(&params)
    }

    /// A certificate for a client.
    pub(crate) fn client(&self, name: &str, groups: &[&str]) -> IssuedCertificate {
        self.client_until(name, groups, SystemTime::now() + Duration::from_secs(3600))
    }

    /// A certificate for a client that ends at this time.
    pub(crate) fn client_until(
        &self,
        name: &str,
        groups: &[&str],
        until: SystemTime,
    ) -> IssuedCertificate {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        // rcgen keeps one value of a kind, so one group must do.
        for group in groups {
            params.distinguished_name.push(DnType::OrganizationName, *group);
        }
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.not_before = (until - Duration::from_secs(7200)).into();
        params.not_after = until.into();
        self.sign(&params)
    }

    /// A certificate for a client, with the uid of its user.
    pub(crate) fn client_with_uid(&self, name: &str, uid: &str) -> IssuedCertificate {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let attribute = DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]);
        params.distinguished_name.push(attribute, uid);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> IssuedCertificate {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        IssuedCertificate { certificate, key: key.serialize_pem() }
    }
}

impl IssuedCertificate {
    /// Writes both files.
    pub(crate) fn write(&self, directory: &Path, name: &str) -> (PathBuf, PathBuf) {
        let (certificate, key) =
            (directory.join(format!("{name}.crt")), directory.join(format!("{name}.key")));
        std::fs::write(&certificate, &self.certificate).unwrap();
        std::fs::write(&key, &self.key).unwrap();
        (certificate, key)
    }

    pub(crate) fn der(&self) -> Vec<u8> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap().to_vec()
    }
}

/// How a client connects.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) name: ServerName<'static>,
    pub(crate) config: ClientConfig,
    headers: Vec<(String, String)>,
    /// Where it calls from, if that is not left to the system.
    from: Option<IpAddr>,
}

/// What a server said.
#[derive(Clone, Debug)]
pub(crate) struct HttpReply {
    pub(crate) code: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Client {
    /// Accepts any server certificate.
    pub(crate) fn new(address: SocketAddr) -> Self {
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Believer))
            .with_no_client_auth();
        let name = ServerName::IpAddress(address.ip().into());
        Self { address, name, config, headers: vec![], from: None }
    }

    /// Accepts servers with a certificate by an authority in this PEM text.
    pub(crate) fn trusting(address: SocketAddr, pem: &str) -> Self {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            roots.add(certificate.unwrap()).unwrap();
        }
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self { config, ..Self::new(address) }
    }

    /// Shows a client certificate with what follows it in the PEM text, and accepts any server certificate.
    pub(crate) fn with_certificate(mut self, issued: &IssuedCertificate) -> Self {
        let chain = CertificateDer::pem_slice_iter(issued.certificate.as_bytes());
        let chain = chain.collect::<Result<Vec<_>, _>>().unwrap();
        let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap();
        let provider = Arc::new(ring::default_provider());
        self.config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Believer))
            .with_client_auth_cert(chain, key)
            .unwrap();
        self
    }

    pub(crate) fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Calls from this address of the machine.
    pub(crate) fn calling_from(mut self, address: impl Into<IpAddr>) -> Self {
        self.from = Some(address.into());
        self
    }

    pub(crate) fn asking_for(mut self, name: &str) -> Self {
        self.name = ServerName::try_from(name.to_owned()).unwrap();
        self
    }

    pub(crate) async fn connect(&self) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = match self.from {
            None => TcpStream::connect(self.address).await?,
            Some(from) => {
                let socket = TcpSocket::new_v4()?;
                socket.bind((from, 0).into())?;
                socket.connect(self.address).await?
            }
        };
        let connector = TlsConnector::from(Arc::new(self.config.clone()));
        connector.connect(self.name.clone(), stream).await
    }

    /// The certificate that the server shows.
    pub(crate) async fn shown(&self) -> Vec<u8> {
        let stream = self.connect().await.unwrap();
        stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
    }

    pub(crate) async fn get(&self, path: &str) -> HttpReply {
        self.ask("GET", path, "").await
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, body: &str) -> HttpReply {
        tokio::time::timeout(DEADLINE, self.try_ask(method, path, body)).await.unwrap().unwrap()
    }

    async fn try_ask(&self, method: &str, path: &str, body: &str) -> std::io::Result<HttpReply> {
        let mut stream = self.connect().await?;
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n");
        for (name, value) in &self.headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        // A server may answer before it has read everything, and hang up.
        let _ = stream.write_all(request.as_bytes()).await;
        let _ = stream.flush().await;
        let mut answer = Vec::new();
        // A server that closes without the TLS alert has still sent its answer.
        let _ = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        Ok(HttpReply {
            code: head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0),
            head: head.to_ascii_lowercase(),
            body: body.to_owned(),
        })
    }
}

#[derive(Debug)]
struct Believer;

impl ServerCertVerifier for Believer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// Answers HTTP/1.1 requests, for as long as the test runs.
pub(crate) fn serve<B, F>(
    listener: TcpListener,
    answer: impl Fn(Request<Incoming>) -> F + Clone + Send + 'static,
) where
    B: hyper::body::Body<Data: Send, Error: std::error::Error + Send + Sync> + Send + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
{
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = answer.clone();
            let service = service_fn(move |request| {
                let answering = answer(request);
                async { Ok::<_, Infallible>(answering.await) }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
}

/// An API server that reviews tokens and access and publishes authorities.
#[derive(Clone)]
pub(crate) struct ReviewServer {
    address: SocketAddr,
    pub(crate) state: Arc<Mutex<Reviews>>,
    /// The ConfigMap with the authorities.
    pub(crate) published: watch::Sender<BTreeMap<String, String>>,
    /// Whether questions with the word `held` in them are not answered yet.
    pub(crate) holds: watch::Sender<bool>,
}

#[derive(Default)]
pub(crate) struct Reviews {
    /// Users by token.
    pub(crate) tokens: BTreeMap<String, Value>,
    /// Paths that may be seen, by user; what may be done with objects, as `VERB GROUP/RESOURCE NAMESPACE`.
    pub(crate) allowed: Vec<(String, String)>,
    /// The reason with which everything else is forbidden.
    pub(crate) reason: String,
    /// Every question is answered with this status.
    pub(crate) broken: Option<u16>,
    /// What was asked.
    pub(crate) token_reviews: Vec<Value>,
    pub(crate) access_reviews: Vec<Value>,
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

impl ReviewServer {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            state: Arc::default(),
            published: watch::Sender::new(BTreeMap::new()),
            holds: watch::Sender::new(false),
        };
        let served = server.clone();
        serve(listener, move |request| {
            let served = served.clone();
            async move { served.answer(request).await }
        });
        server
    }

    pub(crate) fn allow(&self, user: &str, path: &str) {
        self.state.lock().unwrap().allowed.push((user.to_owned(), path.to_owned()));
    }

    /// A kubeconfig that leads here.
    pub(crate) fn kubeconfig(&self, directory: &Path) -> PathBuf {
        let path = directory.join("review.kubeconfig");
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{"name": "x", "cluster": {"server": format!("http://{}", self.address)}}],
            "users": [{"name": "x", "user": {}}],
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        });
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }

    /// Options that ask here about everything.
    pub(crate) fn options(&self, directory: &Path) -> ServingOptions {
        let kubeconfig = Some(self.kubeconfig(directory));
        ServingOptions {
            authentication: AuthenticationOptions {
                kubeconfig: kubeconfig.clone(),
                ..AuthenticationOptions::default()
            },
            authorization: AuthorizationOptions { kubeconfig, ..AuthorizationOptions::default() },
            ..options()
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let body = request.into_body().collect().await.unwrap().to_bytes();
        if let Some(code) = self.state.lock().unwrap().broken {
            return reply_with(
                code,
                &json!({"kind": "Status", "code": code, "reason": "InternalError", "message": "out of order"}),
            );
        }
        let review = || serde_json::from_slice::<Value>(&body).unwrap();
        match (method, path.as_str()) {
            (Method::POST, "/apis/authentication.k8s.io/v1/tokenreviews") => {
                self.held(reply_with(201, &self.review_token(review())), &body).await
            }
            (Method::POST, "/apis/authorization.k8s.io/v1/subjectaccessreviews") => {
                self.held(reply_with(201, &self.review_access(review())), &body).await
            }
            (
                Method::GET,
                "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication",
            ) => {
                let map = config_map(&self.published.borrow());
                reply_with(200, &map)
            }
            (Method::GET, "/api/v1/namespaces/kube-system/configmaps") if is_watch => {
                self.watch_published()
            }
            _ => reply_with(404, &json!({"kind": "Status", "code": 404, "message": "not here"})),
        }
    }

    /// The reply to this question, when it is time.
    async fn held(&self, reply: Response<Body>, question: &[u8]) -> Response<Body> {
        if question.windows(4).any(|word| word == b"held") {
            let _ = self.holds.subscribe().wait_for(|holds| !holds).await;
        }
        reply
    }

    fn review_token(&self, mut review: Value) -> Value {
        let mut state = self.state.lock().unwrap();
        let token = review["spec"]["token"].as_str().unwrap().to_owned();
        state.token_reviews.push(review.clone());
        review["status"] = match state.tokens.get(&token) {
            Some(user) => json!({"authenticated": true, "user": user}),
            None => json!({"authenticated": false}),
        };
        review
    }

    fn review_access(&self, mut review: Value) -> Value {
        let mut state = self.state.lock().unwrap();
        state.access_reviews.push(review.clone());
        let spec = &review["spec"];
        let text = |field: &str| spec["resourceAttributes"][field].as_str().unwrap_or_default();
        let of_objects = match spec["resourceAttributes"] {
            Value::Null => None,
            _ => Some(format!(
                "{} {}/{} {}",
                text("verb"),
                text("group"),
                text("resource"),
                text("namespace")
            )),
        };
        let path = spec["nonResourceAttributes"]["path"].as_str();
        let asked = of_objects.as_deref().or(path);
        let is_allowed = state
            .allowed
            .iter()
            .any(|(user, allowed)| spec["user"] == **user && asked == Some(allowed));
        review["status"] = if is_allowed {
            json!({"allowed": true})
        } else {
            json!({"allowed": false, "reason": state.reason})
        };
        review
    }

    fn watch_published(&self) -> Response<Body> {
        let mut published = self.published.subscribe();
        // What changed since the list must not get lost, so each watch begins with what there is.
        published.mark_changed();
        let events = futures::stream::unfold(published, |mut published| async move {
            published.changed().await.ok()?;
            let event =
                json!({"type": "MODIFIED", "object": config_map(&published.borrow_and_update())});
            let line = Bytes::from(format!("{event}\n"));
            Some((Ok::<_, Infallible>(Frame::data(line)), published))
        });
        Response::new(BodyExt::boxed_unsync(StreamBody::new(events)))
    }
}

fn config_map(data: &BTreeMap<String, String>) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "data": data})
}

fn reply_with(code: u16, value: &Value) -> Response<Body> {
    let body = Full::new(Bytes::from(value.to_string())).boxed_unsync();
    Response::builder().status(code).header("content-type", "application/json").body(body).unwrap()
}

/// Waits for something to become true that has to be asked for.
pub(crate) async fn until_asked<F: Future<Output = bool>>(
    what: &str,
    mut is_true: impl FnMut() -> F,
) {
    let deadline = tokio::time::Instant::now() + DEADLINE;
    while !is_true().await {
        assert!(tokio::time::Instant::now() < deadline, "{what}: not within {DEADLINE:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
