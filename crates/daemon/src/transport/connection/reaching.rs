//! How servers are reached: through proxies, over plain HTTP, with certificates that change.

mod closing;
mod http2;
mod renewal;
mod servers;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::PROXY_AUTHORIZATION;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use tempfile::tempdir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use self::servers::{Authority, FakeProxy, Server};
use crate::transport::closed_port::ClosedPort;
use crate::transport::proxy::Proxies;
use crate::transport::{Api, Call, Endpoint};

const DEADLINE: Duration = Duration::from_secs(60);

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
    let absent_server = SocketAddr::from(([127, 0, 0, 1], 1));
    let proxy = FakeProxy::start(absent_server, 200, None).await;
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
    let port = ClosedPort::new();
    let absent_server = port.address();
    let refusing = FakeProxy::start(absent_server, 502, None).await;
    for (address, why) in [(refusing.address, "unsuccessful"), (absent_server, "refused")] {
        let url = format!("http://me:secret@{address}");
        let endpoint = endpoint("https://api.example", &authority, &[("https_proxy", url)]);
        let api = endpoint.client("test").unwrap();
        let said = api.call(&Call::get("/version")).await.unwrap_err();
        let text = said.to_string();
        let expected = format!("through the proxy http://{address} (https_proxy)");
        assert!(text.contains(&expected) && text.contains(why), "{text}");
        assert!(!text.contains("secret"), "{text}");
        assert!(said.is_not_sent(), "{text}");
    }
    let unusable = [("HTTPS_PROXY", "gopher://p".to_owned())];
    let error = endpoint("https://api.example", &authority, &unusable).client("test").unwrap_err();
    let why = std::error::Error::source(&error).unwrap().to_string();
    assert!(why.starts_with("HTTPS_PROXY: unsupported scheme \"gopher\""), "{why}");
}

#[tokio::test]
async fn what_finds_no_connection_was_not_sent() {
    let authority = Authority::new();
    let without_tls = Server::start(None).await;
    let unknown = Server::start(Some(Authority::new().tls(&authority, &["h2"]))).await;
    for server in [without_tls, unknown] {
        let url = format!("https://{}", server.address);
        let api = endpoint(&url, &authority, &[]).client("test").unwrap();
        let post = Call::post("/api/v1/namespaces", b"{}".to_vec()).timeout(DEADLINE);
        let error = api.call(&post).await.unwrap_err();
        assert!(error.is_not_sent() && !error.is_outcome_unknown(), "{error}");
    }
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
