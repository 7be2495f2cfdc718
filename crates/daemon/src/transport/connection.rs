//! How requests reach the API server: over one HTTP/2 connection where its TLS side offers that, else over kept-alive
//! HTTP/1.1 connections, one per request under way. Long answers come over HTTP/1.1 in any case.
//!
//! Both were chosen by measurement (`docs/performance/intake.md`). Whether a connection is still alive is found out by
//! pings, as in the reference's client: one after 30 quiet seconds, to be answered within 15. Credentials, certificates and
//! names are kube's business.

use std::sync::Arc;
use std::time::Duration;

use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt};
use rustls::pki_types::ServerName;
use tower::util::option_layer;
use tower::{BoxError, Layer, ServiceExt};

use super::times::{ConnectionTimes, Step, Timed, TimedResolver};

const PING_AFTER: Duration = Duration::from_secs(30);
const PING_PATIENCE: Duration = Duration::from_secs(15);
/// Pages of a list follow each other more quickly, and what comes after a list is a watch.
const LONG_ANSWERS_IDLE: Duration = Duration::from_secs(5);

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Traffic {
    /// Many small requests and watches, which share a connection.
    Requests,
    /// Long answers, each with a connection to itself: to cut them into frames costs kube-apiserver more than half as much
    /// as to make them.
    LongAnswers,
}

/// A client for the API server that `config` means, and what it will know of its connections. Nothing is sent yet.
pub(super) fn client(
    config: kube::Config,
    traffic: Traffic,
) -> Result<(kube::Client, Arc<ConnectionTimes>), kube::Error> {
    let times = Arc::default();
    let name = config.tls_server_name.clone().map(ServerName::try_from).transpose();
    let (None, Ok(name)) = (&config.proxy_url, name) else {
        // Proxies, and names that are none, are what kube has messages for.
        return Ok((kube::Client::try_from(config)?, times));
    };
    let mut http = HttpConnector::new_with_resolver(TimedResolver::new(times.clone()));
    http.enforce_http(false);
    http.set_nodelay(true);
    let http = Timed::new(http, Step::Dial, &times);
    let mut https = HttpsConnectorBuilder::new()
        .with_tls_config(config.rustls_client_config()?)
        .https_or_http();
    if let Some(name) = name {
        https = https.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let https = match traffic {
        Traffic::Requests => https.enable_http1().enable_http2().wrap_connector(http),
        Traffic::LongAnswers => https.enable_http1().wrap_connector(http),
    };
    let mut connector = TimeoutConnector::new(Timed::new(https, Step::Tls, &times));
    connector.set_connect_timeout(config.connect_timeout);
    let mut builder = Client::builder(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .http2_keep_alive_interval(PING_AFTER)
        .http2_keep_alive_timeout(PING_PATIENCE)
        .http2_keep_alive_while_idle(true);
    if traffic == Traffic::LongAnswers {
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(LONG_ANSWERS_IDLE);
    }
    let client: Client<_, Body> = builder.build(connector);
    Ok((layered(config, client)?, times))
}

/// The client whose requests have the address, the headers and the credentials of `config`.
pub(super) fn layered<C>(
    config: kube::Config,
    client: Client<C, Body>,
) -> Result<kube::Client, kube::Error>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let service = config.extra_headers_layer()?.layer(client.map_err(BoxError::from));
    let service = option_layer(config.auth_layer()?).layer(service);
    let service = config.base_uri_layer().layer(service);
    Ok(kube::Client::new(service, config.default_namespace))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Mutex;

    use bytes::Bytes;
    use futures::future::join_all;
    use http::{Request, Response, Version};
    use http_body_util::Full;
    use hyper::server::conn::{http1, http2};
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::super::{Api, Call, Endpoint};
    use super::*;

    const N_REQUESTS: usize = 20;

    /// Which versions of HTTP a server that offers `protocols` hears, by connection, while `ask` asks it for as many
    /// answers as it says.
    async fn versions_seen<A: Future<Output = usize>>(
        protocols: &[&str],
        ask: impl FnOnce(kube::Config) -> A,
    ) -> Vec<Vec<Version>> {
        let identity = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key =
            PrivateKeyDer::from(PrivatePkcs8KeyDer::from(identity.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![identity.cert.der().clone()], key)
            .unwrap();
        tls.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen: Arc<Mutex<Vec<Vec<Version>>>> = Arc::default();
        let server = tokio::spawn({
            let seen = seen.clone();
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let Ok(stream) = acceptor.accept(stream).await else { continue };
                    let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                    let number = {
                        let mut seen = seen.lock().unwrap();
                        seen.push(Vec::new());
                        seen.len() - 1
                    };
                    let seen = seen.clone();
                    let answer = service_fn(move |request: Request<hyper::body::Incoming>| {
                        seen.lock().unwrap()[number].push(request.version());
                        async { Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("{}")))) }
                    });
                    let io = TokioIo::new(stream);
                    tokio::spawn(async move {
                        if is_h2 {
                            let http2 = http2::Builder::new(TokioExecutor::new());
                            http2.serve_connection(io, answer).await.ok();
                        } else {
                            http1::Builder::new().serve_connection(io, answer).await.ok();
                        }
                    });
                }
            }
        });
        let mut config = kube::Config::new(format!("https://127.0.0.1:{port}").parse().unwrap());
        config.accept_invalid_certs = true;
        let n_asked = ask(config).await;
        server.abort();
        let seen = seen.lock().unwrap().clone();
        assert_eq!(seen.iter().map(Vec::len).sum::<usize>(), n_asked);
        seen
    }

    /// Many at once, from the beginning.
    async fn ask_through(api: Api) -> usize {
        let call = Call::get("/version");
        for answer in join_all((0..N_REQUESTS).map(|_| api.call(&call))).await {
            assert_eq!(answer.unwrap(), "{}");
        }
        N_REQUESTS
    }

    fn endpoint(config: kube::Config) -> Endpoint {
        Endpoint::new(config, String::new())
    }

    #[tokio::test]
    async fn requests_share_a_connection_where_the_server_offers_http2() {
        let seen = versions_seen(&["h2", "http/1.1"], |config| {
            ask_through(endpoint(config).client("test").unwrap())
        });
        assert_eq!(seen.await, [vec![Version::HTTP_2; N_REQUESTS]]);
    }

    #[tokio::test]
    async fn a_server_without_http2_is_spoken_to_in_http1() {
        for protocols in [&["http/1.1"][..], &[]] {
            let seen = versions_seen(protocols, |config| {
                ask_through(endpoint(config).client("test").unwrap())
            })
            .await;
            assert!(seen.iter().flatten().all(|version| *version == Version::HTTP_11), "{seen:?}");
        }
    }

    #[tokio::test]
    async fn long_answers_come_over_http1_all_the_same() {
        let seen = versions_seen(&["h2", "http/1.1"], |config| {
            ask_through(endpoint(config).client_for_long_answers("test").unwrap())
        })
        .await;
        assert!(seen.iter().flatten().all(|version| *version == Version::HTTP_11), "{seen:?}");
    }
}
