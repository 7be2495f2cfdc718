//! How requests reach the API server: over one HTTP/2 connection where its TLS side offers that, else over kept-alive
//! HTTP/1.1 connections, one per request under way. Long answers come over HTTP/1.1 in any case.
//!
//! Both were chosen by measurement (`docs/performance/intake.md`). Whether a connection is still alive is found out by
//! pings, as in the reference's client ([`Http2Options`]). Exec credentials and TLS set-up are kube's business.

use std::sync::Arc;
use std::time::Duration;

use http::header::{AUTHORIZATION, PROXY_AUTHORIZATION};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt};
use rustls::pki_types::ServerName;
use tower::retry::Retry;
use tower::util::{MapRequestLayer, option_layer};
use tower::{BoxError, Layer, Service, ServiceExt};

use super::credentials::{CredentialFiles, without_secrets};
use super::http2::Http2Options;
use super::kubeconfig::PROXY_URL;
use super::proxy::{Dialer, Proxies, Proxy, ProxyError};
use super::renewal::RenewedClient;
use super::resending::ResendPolicy;
use super::times::{ConnectionTimes, Step, TimedConnector, TimedResolver};
use super::token::TokenFile;

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

/// How connections are made.
#[derive(Clone, Copy)]
struct ConnectionKind {
    traffic: Traffic,
    http2: Http2Options,
}

/// How a server is reached: which proxy leads to it, and with what its client shows who we are.
pub(super) struct Way<'e> {
    pub(super) config: kube::Config,
    pub(super) files: &'e CredentialFiles,
    pub(super) proxies: &'e Proxies,
    pub(super) http2: Http2Options,
}

/// What connections are made with, from the bottom: a dialer, TLS and a limit of time.
pub(super) type Wire = TimeoutConnector<
    TimedConnector<HttpsConnector<TimedConnector<Dialer<HttpConnector<TimedResolver>>>>>,
>;

/// A client for the API server that `way` leads to, and what it will know of its connections. Nothing is sent yet.
///
/// Over plain HTTP no credentials are sent, as in the reference; whom to act as is.
pub(super) fn client(
    way: Way<'_>,
    traffic: Traffic,
) -> Result<(kube::Client, Arc<ConnectionTimes>), BoxError> {
    let Way { mut config, files, proxies, http2 } = way;
    let proxy = match &config.proxy_url {
        Some(url) => {
            let parsed = Proxy::parse(&url.to_string(), PROXY_URL);
            Some(parsed.map_err(ProxyError::from)?)
        }
        None => proxies.to(&config.cluster_url)?,
    };
    if let Some(proxy) = &proxy {
        let server = config.cluster_url.to_string();
        tracing::debug!(server, %proxy, "The server is reached through a proxy");
    }
    let is_plain = config.cluster_url.scheme_str() == Some("http");
    let mut followed = files.clone();
    if is_plain {
        config.auth_info = without_secrets(config.auth_info);
        followed = CredentialFiles::default();
        let authorization = proxy.as_ref().and_then(Proxy::authorization);
        config.headers.extend(authorization.map(|value| (PROXY_AUTHORIZATION, value)));
    }
    let times: Arc<ConnectionTimes> = Arc::default();
    let make = {
        let times = times.clone();
        let kind = ConnectionKind { traffic, http2 };
        Box::new(move |config: &kube::Config| wired(config, proxy.as_ref(), kind, &times))
    };
    let client = RenewedClient::new(config.clone(), followed, make)?;
    let client = Retry::new(ResendPolicy::default(), client);
    Ok((layered(config, client)?, times))
}

fn wired(
    config: &kube::Config,
    proxy: Option<&Proxy>,
    ConnectionKind { traffic, http2 }: ConnectionKind,
    times: &Arc<ConnectionTimes>,
) -> Result<Client<Wire, Body>, BoxError> {
    let mut http = HttpConnector::new_with_resolver(TimedResolver::new(times.clone()));
    http.enforce_http(false);
    http.set_nodelay(true);
    let tls = config.rustls_client_config()?;
    let is_tls = config.cluster_url.scheme_str() == Some("https");
    let dialer = TimedConnector::new(Dialer::new(http, proxy, is_tls, &tls), Step::Dial, times);
    let mut https = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = ServerName::try_from(name.clone())
            .map_err(|_| format!("tls-server-name {name:?} is no name of a server"))?;
        https = https.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let https = match traffic {
        Traffic::Requests if http2.is_enabled => {
            https.enable_http1().enable_http2().wrap_connector(dialer)
        }
        Traffic::Requests | Traffic::LongAnswers => https.enable_http1().wrap_connector(dialer),
    };
    let mut connector = TimeoutConnector::new(TimedConnector::new(https, Step::Tls, times));
    connector.set_connect_timeout(config.connect_timeout);
    let mut builder = Client::builder(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .http2_keep_alive_interval(http2.ping_after)
        .http2_keep_alive_timeout(http2.ping_patience)
        .http2_keep_alive_while_idle(true);
    if traffic == Traffic::LongAnswers {
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(LONG_ANSWERS_IDLE);
    }
    Ok(builder.build(connector))
}

/// The client whose requests have the address, the headers and the credentials of `config`.
pub(super) fn layered<S>(config: kube::Config, service: S) -> Result<kube::Client, BoxError>
where
    S: Service<Request<Body>, Response = Response<Incoming>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    let service = config.extra_headers_layer()?.layer(service.map_err(Into::<BoxError>::into));
    let token = TokenFile::of(&config.auth_info)?.map(Arc::new);
    let others = if token.is_some() { None } else { config.auth_layer()? };
    let with_token = token.map(|token| {
        MapRequestLayer::new(move |mut request: Request<Body>| {
            request.headers_mut().insert(AUTHORIZATION, token.authorization());
            request
        })
    });
    let service = option_layer(others).layer(service);
    let service = option_layer(with_token).layer(service);
    let service = config.base_uri_layer().layer(service);
    Ok(kube::Client::new(service, config.default_namespace))
}

#[cfg(test)]
mod reaching;
#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Mutex;

    use bytes::Bytes;
    use futures::future::join_all;
    use http::Version;
    use http_body_util::Full;
    use hyper::server::conn::{http1, http2};
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::super::opening::Opening;
    use super::super::{Api, Call, Endpoint};
    use super::*;

    const N_REQUESTS: usize = 20;
    const DEADLINE: Duration = Duration::from_secs(60);

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
                    let answer = service_fn(move |request: Request<Incoming>| {
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
            let mut api = endpoint(config).client("test").unwrap();
            // Those that wait for the first connection wait for it on a slow machine, too.
            api.opening = Some(Arc::new(Opening::new(DEADLINE)));
            ask_through(api)
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
