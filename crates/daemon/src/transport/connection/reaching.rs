//! How servers are reached: through proxies, over plain HTTP, with certificates that change.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Mutex;

use bytes::Bytes;
use http::HeaderMap;
use http_body_util::Full;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::super::{Api, Call, Endpoint};
use super::*;

const DEADLINE: Duration = Duration::from_secs(60);

/// An authority, and certificates that it signs.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
struct Issued {
    certificate: String,
    key: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    fn sign(&self, name: &str, names: &[&str], usage: ExtendedKeyUsagePurpose) -> Issued {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Issued { certificate, key: key.serialize_pem() }
    }

    fn client(&self, name: &str) -> Issued {
        self.sign(name, &[], ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()).unwrap();
        Arc::new(roots)
    }

    /// TLS of a server at 127.0.0.1, 0.0.0.0 and `api.example`, whose clients may have a certificate by `clients`.
    fn tls(&self, clients: &Self, protocols: &[&str]) -> Arc<ServerConfig> {
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

impl Issued {
    fn der(&self) -> Vec<u8> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap().to_vec()
    }
}

/// What a server has seen of a request.
#[derive(Clone)]
struct Seen {
    /// The number of its connection.
    connection: usize,
    certificate: Option<Vec<u8>>,
    uri: String,
    headers: HeaderMap,
}

/// A server that answers everything with `{}`, in TLS if it has any.
#[derive(Clone)]
struct Server {
    address: SocketAddr,
    tls: Arc<Mutex<Option<Arc<ServerConfig>>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
    /// The connections that have ended.
    ended: Arc<Mutex<Vec<usize>>>,
}

impl Server {
    async fn start(tls: Option<Arc<ServerConfig>>) -> Self {
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
            seen.lock().unwrap().push(Seen {
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

    fn last(&self) -> Seen {
        self.seen.lock().unwrap().last().unwrap().clone()
    }
}

/// A proxy: what was said to it, and whether it passes connections on.
#[derive(Clone)]
struct FakeProxy {
    address: SocketAddr,
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
    async fn start(upstream: SocketAddr, status: u16, tls: Option<Arc<ServerConfig>>) -> Self {
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

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

/// What the environment says about a proxy.
fn environment(variables: &[(&str, String)]) -> Arc<Proxies> {
    Arc::new(Proxies::read(|name| {
        variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
    }))
}

/// A server at this URL, whose certificate is by this authority, in this environment.
fn endpoint(url: &str, authority: &Authority, variables: &[(&str, String)]) -> Endpoint {
    let mut config = kube::Config::new(url.parse().unwrap());
    let root = CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap();
    config.root_cert = Some(vec![root.to_vec()]);
    Endpoint { proxies: environment(variables), ..Endpoint::new(config, String::new()) }
}

async fn ask(api: &Api) -> Result<Bytes, String> {
    let call = Call::get("/version").timeout(DEADLINE);
    api.call(&call).await.map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_proxy_of_the_environment_passes_connections_on() {
    let authority = Authority::new();
    let tls = || Some(authority.tls(&authority, &["h2", "http/1.1"]));
    let server = Server::start(tls()).await;
    let plain = Some(authority.tls(&authority, &[]));
    for (scheme, tls) in [("http", None), ("https", plain)] {
        let proxy = FakeProxy::start(server.address, 200, tls).await;
        let url = format!("{scheme}://me:secret@{}", proxy.address);
        let api_server = "https://api.example:6443";
        let endpoint = endpoint(api_server, &authority, &[("HTTPS_PROXY", url)]);
        for api in [endpoint.client("test"), endpoint.client_for_long_answers("test")] {
            assert_eq!(ask(&api.unwrap()).await.unwrap(), "{}");
        }
        let heads = proxy.heads();
        assert_eq!(heads.len(), 2);
        for head in heads {
            assert!(head.starts_with("CONNECT api.example:6443 HTTP/1.1\r\n"), "{head}");
            assert!(head.contains("Proxy-Authorization: Basic bWU6c2VjcmV0\r\n"), "{head}");
        }
        // What is for the proxy is not for the server.
        assert!(!server.last().headers.contains_key(PROXY_AUTHORIZATION));
    }
}

#[tokio::test]
async fn what_no_proxy_lists_and_loopback_are_reached_directly() {
    let authority = Authority::new();
    let server = Server::start(Some(authority.tls(&authority, &[]))).await;
    let proxy = FakeProxy::start(server.address, 200, None).await;
    let https = ("HTTPS_PROXY", format!("http://{}", proxy.address));
    let ask_at = async |host: &str, exceptions: &str| {
        let url = format!("https://{host}:{}", server.address.port());
        let variables = [https.clone(), ("NO_PROXY", exceptions.to_owned())];
        let api = endpoint(&url, &authority, &variables).client("test").unwrap();
        assert_eq!(ask(&api).await.unwrap(), "{}");
    };
    ask_at("127.0.0.1", "").await;
    // This machine as well, but no address of loopback.
    ask_at("0.0.0.0", "api.invalid,0.0.0.0/8").await;
    assert_eq!(proxy.heads(), [""; 0]);
    ask_at("0.0.0.0", "").await;
    assert_eq!(proxy.heads().len(), 1);
}

#[tokio::test]
async fn a_proxy_is_told_where_a_request_over_plain_http_goes() {
    let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
    let proxy = FakeProxy::start(nobody, 200, None).await;
    let url = format!("http://me:secret@{}", proxy.address);
    let endpoint = endpoint("http://api.example:8080", &Authority::new(), &[("HTTP_PROXY", url)]);
    assert_eq!(ask(&endpoint.client("test").unwrap()).await.unwrap(), "{}");
    let heads = proxy.heads();
    let head = heads[0].to_ascii_lowercase();
    assert!(head.starts_with("get http://api.example:8080/version http/1.1\r\n"), "{head}");
    assert!(head.contains("proxy-authorization: basic bwu6c2vjcmv0\r\n"), "{head}");
}

#[tokio::test]
async fn a_proxy_that_does_not_help_is_named() {
    let authority = Authority::new();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refusing = FakeProxy::start(nobody, 502, None).await;
    for (address, why) in [(refusing.address, "unsuccessful"), (nobody, "refused")] {
        let url = format!("http://me:secret@{address}");
        let endpoint = endpoint("https://api.example", &authority, &[("https_proxy", url)]);
        let api = endpoint.client("test").unwrap();
        let said = api.call(&Call::get("/version")).await.unwrap_err();
        let text = said.to_string();
        let expected = format!("through the proxy http://{address} (https_proxy)");
        assert!(text.contains(&expected) && text.contains(why), "{text}");
        assert!(!text.contains("secret"), "{text}");
        assert_eq!(said.is_connection_refused(), address == nobody, "{text}");
    }
    let unusable = [("HTTPS_PROXY", "gopher://p".to_owned())];
    let error = endpoint("https://api.example", &authority, &unusable).client("test").unwrap_err();
    let why = std::error::Error::source(&error).unwrap().to_string();
    assert!(why.starts_with("HTTPS_PROXY: unsupported scheme \"gopher\""), "{why}");
}

#[tokio::test]
async fn a_socks_proxy_gets_the_name_of_the_server() {
    let authority = Authority::new();
    let server = Server::start(Some(authority.tls(&authority, &["h2"]))).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let upstream = server.address;
    let proxy = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        let mut greeting = [0; 3];
        stream.read_exact(&mut greeting).await?;
        stream.write_all(&[5, 0]).await?;
        let mut request = [0; 18];
        stream.read_exact(&mut request).await?;
        stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
        let mut upstream = TcpStream::connect(upstream).await?;
        tokio::spawn(
            async move { tokio::io::copy_bidirectional(&mut stream, &mut upstream).await },
        );
        io::Result::Ok((greeting, request))
    });
    let url = format!("socks5://{address}");
    let endpoint = endpoint("https://api.example", &authority, &[("HTTPS_PROXY", url)]);
    assert_eq!(ask(&endpoint.client("test").unwrap()).await.unwrap(), "{}");
    let (greeting, request) = proxy.await.unwrap().unwrap();
    assert_eq!((greeting, &request[..5]), ([5, 1, 0], &[5, 1, 0, 3, 11][..]));
    assert_eq!(&request[5..], b"api.example\x01\xbb");
}

/// A kubeconfig for a server, which says this more about the cluster and the user.
fn kubeconfig(directory: &Path, server: &str, cluster: &Value, user: &Value) -> std::path::PathBuf {
    let mut cluster = cluster.clone();
    cluster["server"] = server.into();
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "x", "cluster": cluster}],
        "users": [{"name": "x", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    });
    let path = directory.join("kubeconfig");
    std::fs::write(&path, text.to_string()).unwrap();
    path
}

#[tokio::test]
async fn the_proxy_of_a_kubeconfig_counts_for_every_address() {
    let authority = Authority::new();
    let server = Server::start(Some(authority.tls(&authority, &["h2"]))).await;
    let proxy = FakeProxy::start(server.address, 200, None).await;
    let directory = tempdir().unwrap();
    std::fs::write(directory.path().join("ca.crt"), &authority.pem).unwrap();
    let cluster = json!({
        "certificate-authority": "ca.crt", "proxy-url": format!("http://{}", proxy.address),
    });
    let url = format!("https://{}", server.address);
    let path = kubeconfig(directory.path(), &url, &cluster, &json!({}));
    let mut endpoint = Endpoint::from_kubeconfig(&path, None).await.unwrap();
    // What the environment says does not matter then.
    endpoint.proxies = environment(&[("NO_PROXY", "*".to_owned())]);
    assert_eq!(ask(&endpoint.client("test").unwrap()).await.unwrap(), "{}");
    let heads = proxy.heads();
    assert!(heads[0].starts_with(&format!("CONNECT {} HTTP/1.1\r\n", server.address)), "{heads:?}");
}

#[tokio::test]
async fn no_credentials_are_sent_over_plain_http() {
    let authority = Authority::new();
    let (plain, tls) =
        (Server::start(None).await, Server::start(Some(authority.tls(&authority, &["h2"]))).await);
    let directory = tempdir().unwrap();
    std::fs::write(directory.path().join("ca.crt"), &authority.pem).unwrap();
    std::fs::write(directory.path().join("token"), "secret").unwrap();
    let cluster = json!({"certificate-authority": "ca.crt"});
    // No such plugin can be run, and none is.
    let exec = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": "/no/such/plugin", "interactiveMode": "Never",
    });
    for credentials in [
        json!({"token": "secret"}),
        json!({"tokenFile": "token"}),
        json!({"username": "me", "password": "secret"}),
        json!({"exec": exec}),
    ] {
        let mut user = credentials.clone();
        user["as"] = "jane".into();
        user["as-groups"] = json!(["readers"]);
        for server in [&plain, &tls] {
            let is_plain = server.address == plain.address;
            let scheme = if is_plain { "http" } else { "https" };
            let url = format!("{scheme}://{}", server.address);
            let path = kubeconfig(directory.path(), &url, &cluster, &user);
            let endpoint = Endpoint::from_kubeconfig(&path, None).await.unwrap();
            let api = endpoint.client("test");
            if credentials["exec"].is_object() && !is_plain {
                assert!(api.is_err());
                continue;
            }
            assert_eq!(ask(&api.unwrap()).await.unwrap(), "{}");
            let headers = server.last().headers;
            assert_eq!(headers.contains_key("authorization"), !is_plain, "{credentials}");
            assert_eq!(headers["impersonate-user"], "jane");
            assert_eq!(headers["impersonate-group"], "readers");
        }
    }
    // The same if only --master says so.
    let path =
        kubeconfig(directory.path(), "https://api.example", &cluster, &json!({"token": "secret"}));
    let master = plain.address.to_string();
    let endpoint = Endpoint::from_kubeconfig(&path, Some(&master)).await.unwrap();
    assert_eq!(ask(&endpoint.client("test").unwrap()).await.unwrap(), "{}");
    assert!(!plain.last().headers.contains_key("authorization"));
    assert!(plain.last().uri.ends_with("/version"));
}

#[tokio::test]
async fn a_kubeconfig_that_says_nothing_leaves_it_to_the_cluster_around() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("empty");
    std::fs::write(&path, "").unwrap();
    let around = || Some(Endpoint::from_url("https://around.example"));
    let found = Endpoint::from_files(&[&path], None, None, around).unwrap();
    assert_eq!(found.url(), "https://around.example/");
    let master = Some("http://master.example".parse().unwrap());
    let found = Endpoint::from_files(&[&path], None, master, around).unwrap();
    assert_eq!(found.url(), "http://master.example/");
    let error = Endpoint::from_files(&[&path], None, None, || None).unwrap_err();
    assert_eq!(error.to_string(), format!("kubeconfig {}", path.display()));
    let why = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(why, "there is no current context");
    // One that says something counts, also if that is no good.
    std::fs::write(&path, r#"{"current-context": "x"}"#).unwrap();
    assert!(Endpoint::from_files(&[&path], None, None, around).is_err());
}

/// A scheduler's credentials in files, and a server that knows their authorities.
struct Rotation {
    directory: TempDir,
    clients: Authority,
    server: Server,
}

impl Rotation {
    async fn new(authority: &Authority, protocols: &[&str]) -> Self {
        let clients = Authority::new();
        let server = Server::start(Some(authority.tls(&clients, protocols))).await;
        let rotation = Self { directory: tempdir().unwrap(), clients, server };
        rotation.write("ca.crt", &authority.pem);
        rotation
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.directory.path().join(name), text).unwrap();
    }

    /// Puts a new certificate and its key in place.
    fn renew(&self) -> Issued {
        let issued = self.clients.client("scheduler");
        self.write("client.crt", &issued.certificate);
        self.write("client.key", &issued.key);
        issued
    }

    /// A client that looks at the files with every request.
    async fn api(&self) -> Api {
        let cluster = json!({"certificate-authority": "ca.crt"});
        let user = json!({"client-certificate": "client.crt", "client-key": "client.key"});
        let url = format!("https://{}", self.server.address);
        let path = kubeconfig(self.directory.path(), &url, &cluster, &user);
        let mut endpoint = Endpoint::from_kubeconfig(&path, None).await.unwrap();
        endpoint.files.reread_after = Duration::ZERO;
        endpoint.client("test").unwrap()
    }

    /// By which connection and with which certificate a request comes.
    async fn way(&self, api: &Api) -> (usize, Option<Vec<u8>>) {
        assert_eq!(ask(api).await.unwrap(), "{}");
        let seen = self.server.last();
        (seen.connection, seen.certificate)
    }
}

#[tokio::test]
async fn a_renewed_certificate_is_used_and_old_connections_end() {
    for protocols in [&["h2"][..], &["http/1.1"]] {
        let rotation = Rotation::new(&Authority::new(), protocols).await;
        let first = rotation.renew();
        let api = rotation.api().await;
        for _ in 0..2 {
            assert_eq!(rotation.way(&api).await, (0, Some(first.der())));
        }
        let second = rotation.renew();
        for _ in 0..2 {
            assert_eq!(rotation.way(&api).await, (1, Some(second.der())));
        }
        let deadline = tokio::time::Instant::now() + DEADLINE;
        while rotation.server.ended.lock().unwrap().as_slice() != [0] {
            assert!(tokio::time::Instant::now() < deadline, "the old connection stays");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn files_that_cannot_be_used_change_nothing() {
    let rotation = Rotation::new(&Authority::new(), &["h2"]).await;
    let first = rotation.renew();
    let api = rotation.api().await;
    let other = rotation.clients.client("other");
    for (name, text) in [
        // Of a certificate that is already there the key is still to come.
        ("client.crt", &*other.certificate),
        ("client.crt", "rubbish"),
        ("client.crt", ""),
        ("client.key", "rubbish"),
        ("ca.crt", ""),
        ("ca.crt", "rubbish"),
    ] {
        let whole = std::fs::read_to_string(rotation.directory.path().join(name)).unwrap();
        rotation.write(name, text);
        assert_eq!(rotation.way(&api).await, (0, Some(first.der())), "{name} {text}");
        rotation.write(name, &whole);
        assert_eq!(rotation.way(&api).await, (0, Some(first.der())), "{name}");
    }
    std::fs::remove_file(rotation.directory.path().join("client.key")).unwrap();
    assert_eq!(rotation.way(&api).await, (0, Some(first.der())));
    // At the start they are an error.
    let path = rotation.directory.path().join("kubeconfig");
    let error = Endpoint::from_kubeconfig(&path, None).await.unwrap_err();
    let why = std::error::Error::source(&error).unwrap().to_string();
    assert!(why.ends_with("client.key: no such file or directory"), "{why}");
}

#[tokio::test]
async fn a_renewed_authority_is_trusted_and_the_former_is_not() {
    let (former, next) = (Authority::new(), Authority::new());
    let rotation = Rotation::new(&former, &["h2"]).await;
    let issued = rotation.renew();
    let api = rotation.api().await;
    assert_eq!(rotation.way(&api).await, (0, Some(issued.der())));
    *rotation.server.tls.lock().unwrap() = Some(next.tls(&rotation.clients, &["h2"]));
    rotation.write("ca.crt", &next.pem);
    assert_eq!(rotation.way(&api).await, (1, Some(issued.der())));
    // The server of the former authority is not believed any more.
    *rotation.server.tls.lock().unwrap() = Some(former.tls(&rotation.clients, &["h2"]));
    rotation.renew();
    let said = ask(&api).await.unwrap_err();
    assert!(said.contains("invalid peer certificate"), "{said}");
}
