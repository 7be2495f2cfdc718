//! One call to an extender: a POST, within a time, with an answer of a size that can be handled.
//!
//! Invariants: a redirection is not followed; files of certificates that change are read again.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ::http::header::{CONTENT_TYPE, PROXY_AUTHORIZATION};
use ::http::{HeaderValue, Method, Request, StatusCode, Uri};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper_util::client::legacy::connect::Connect;
use hyper_util::client::legacy::{Client, ResponseFuture};
use hyper_util::rt::TokioExecutor;
use kube_scheduler_api_types::lock;
use kube_scheduler_api_types::validation::quoted;
use kube_scheduler_config::ExtenderConfig;

use super::tls::{ExtenderTlsError, Material, chain};
use crate::transport::proxy::{Proxies, Proxy};

/// The longest answer, unless the question was long as well.
const MAX_ANSWER: usize = 16 << 20;
/// How much longer than its question an answer may be.
const ANSWER_TO_QUESTION: usize = 4;
/// How often files of certificates are looked at again at most.
const REREAD_AFTER: Duration = Duration::from_secs(60);

/// Sends requests; keeps connections.
#[derive(Clone)]
pub(super) struct Transport(Arc<dyn Fn(Request<Full<Bytes>>) -> ResponseFuture + Send + Sync>);

impl Transport {
    pub(super) fn new(connector: impl Connect + Clone + Send + Sync + 'static) -> Self {
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Self(Arc::new(move |request| client.request(request)))
    }
}

struct CurrentTransport {
    material: Material,
    transport: Transport,
    read: Instant,
}

/// The way to one extender.
pub(super) struct Connection {
    config: ExtenderConfig,
    timeout: Duration,
    /// Through which it leads, or why that is impossible.
    proxy: Result<Option<Proxy>, String>,
    current: Mutex<CurrentTransport>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({:?})", self.config.url_prefix)
    }
}

impl Connection {
    /// Makes ready; nothing is sent.
    pub(super) fn new(
        config: &ExtenderConfig,
        timeout: Duration,
        proxies: &Proxies,
    ) -> Result<Self, ExtenderTlsError> {
        // What is no URL is refused when it is asked for.
        let url = parsed(&config.url_prefix).unwrap_or_default();
        let proxy = proxies.to(&url).map_err(|error| error.to_string());
        let material = Material::load(config)?;
        let transport = material.transport(proxy.as_ref().ok().and_then(Option::as_ref), &url)?;
        let current = Mutex::new(CurrentTransport { material, transport, read: Instant::now() });
        Ok(Self { config: config.clone(), timeout, proxy, current })
    }

    /// Asks for `verb` and gives the answer as it is.
    pub(super) async fn post(&self, verb: &str, question: String) -> Result<Bytes, String> {
        let url = format!("{}/{verb}", self.config.url_prefix.trim_end_matches('/'));
        let failed = |why: String| format!("Post {}: {why}", quoted(&url));
        let uri = parsed(&url).map_err(failed)?;
        let proxy = self.proxy.as_ref().map_err(|why| failed(why.clone()))?.as_ref();
        let dialled = match proxy {
            Some(proxy) => format!("proxyconnect tcp: dial tcp {}", proxy.host_and_port()),
            None => format!("dial tcp {}", uri.authority().map_or("", |host| host.as_str())),
        };
        // Over TLS the proxy is shown the credentials in CONNECT, by the dialer. In the request they would go on to the extender.
        let is_plain = uri.scheme_str() == Some("http");
        let authorization = proxy.filter(|_| is_plain).and_then(Proxy::authorization);
        let limit = MAX_ANSWER.max(question.len().saturating_mul(ANSWER_TO_QUESTION));
        let mut request = Request::new(Full::new(Bytes::from(question)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri;
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.headers_mut().extend(authorization.map(|value| (PROXY_AUTHORIZATION, value)));

        // One deadline for headers and body, as Go's `Client.Timeout` has it: an extender that sends byte by byte must not hold
        // up the core for longer.
        let deadline = tokio::time::Instant::now() + self.timeout;
        let response = tokio::time::timeout_at(deadline, (self.transport().0)(request));
        let response = response.await.map_err(|_| {
            let why = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
            failed(why.to_owned())
        })?;
        let response = response.map_err(|error| failed(cause(&error, &dialled)))?;
        if response.status() != StatusCode::OK {
            let code = response.status().as_u16();
            return Err(format!("failed {verb} with extender at URL {url}, code {code}"));
        }
        let body = Limited::new(response.into_body(), limit).collect();
        match tokio::time::timeout_at(deadline, body).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                Err(format!("extender at URL {url} answered with more than {limit} bytes"))
            }
            Ok(Err(error)) => Err(failed(chain(&*error))),
            // Without method and URL: Go adds these to errors of the request, and this one is from reading the body.
            Err(_) => {
                Err("context deadline exceeded (Client.Timeout or context cancellation while \
                           reading body)"
                    .to_owned())
            }
        }
    }

    /// The way with the certificates as they are now. Files that cannot be used leave it as it was.
    fn transport(&self) -> Transport {
        let mut current = lock(&self.current);
        if current.read.elapsed() >= REREAD_AFTER {
            current.read = Instant::now();
            match Material::load(&self.config) {
                Ok(material) if material == current.material => {}
                Ok(material) => match self.transport_with(&material) {
                    Ok(transport) => {
                        current.transport = transport;
                        current.material = material;
                    }
                    Err(error) => self.complain(&error),
                },
                Err(error) => self.complain(&error),
            }
        }
        current.transport.clone()
    }

    fn transport_with(&self, material: &Material) -> Result<Transport, ExtenderTlsError> {
        let url = parsed(&self.config.url_prefix).unwrap_or_default();
        material.transport(self.proxy.as_ref().ok().and_then(Option::as_ref), &url)
    }

    fn complain(&self, error: &ExtenderTlsError) {
        let extender = &self.config.url_prefix;
        tracing::warn!(extender, %error, "Going on with the certificates that were read before");
    }
}

/// Addresses without a scheme are refused in the reference's words.
fn parsed(url: &str) -> Result<Uri, String> {
    let unsupported = |scheme: &str| format!("unsupported protocol scheme {}", quoted(scheme));
    if !url.contains("://") {
        let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
        let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
        return Err(unsupported(if is_scheme { scheme } else { "" }));
    }
    let uri: Uri = url.parse().map_err(|error| format!("{error}"))?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http" | "https"), Some(host)) if !host.is_empty() => Ok(uri),
        (Some("http" | "https"), _) => Err("http: no Host in request URL".to_owned()),
        (scheme, _) => Err(unsupported(scheme.unwrap_or_default())),
    }
}

/// What kept a request from being answered.
fn cause(error: &(dyn std::error::Error + 'static), dialled: &str) -> String {
    let mut next = Some(error);
    while let Some(error) = next {
        let io = error.downcast_ref::<io::Error>();
        if io.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
            return format!("{dialled}: connect: connection refused");
        }
        next = error.source();
    }
    chain(error)
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;
    use crate::transport::closed_port::ClosedPort;

    #[test]
    fn addresses_that_lead_nowhere_are_refused() {
        let refused = [
            ("", "unsupported protocol scheme \"\""),
            ("/filter", "unsupported protocol scheme \"\""),
            ("127.0.0.1:80/filter", "unsupported protocol scheme \"\""),
            ("localhost:80/filter", "unsupported protocol scheme \"localhost\""),
            ("ftp://a/filter", "unsupported protocol scheme \"ftp\""),
        ];
        for (url, text) in refused {
            assert_eq!(parsed(url), Err(text.to_owned()), "{url}");
        }
        for url in ["http:///filter", "http://a b/filter", "http://[::1/filter", "http://\u{7f}/"] {
            assert!(parsed(url).is_err(), "{url}");
        }
        assert_eq!(parsed("https://a:1/x?y=z/filter").unwrap().path(), "/x");
    }

    /// A proxy that hangs up after it has read the head of a request, which it gives.
    async fn proxy() -> (String, tokio::task::JoinHandle<String>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let head = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            String::from_utf8(head).unwrap().to_ascii_lowercase()
        });
        (address, head)
    }

    /// A connection to an extender, where the environment names the same proxy for both schemes.
    fn connection(url: &str, proxy: &str, exceptions: &str) -> Connection {
        let config = ExtenderConfig { url_prefix: url.to_owned(), ..ExtenderConfig::default() };
        let proxies = Proxies::read(|name| match name {
            "HTTP_PROXY" | "HTTPS_PROXY" => Some(proxy.to_owned()),
            "NO_PROXY" => Some(exceptions.to_owned()),
            _ => None,
        });
        Connection::new(&config, Duration::from_secs(60), &proxies).unwrap()
    }

    #[tokio::test]
    async fn extenders_are_reached_through_the_proxy_of_the_environment() {
        for (url, request) in [
            ("http://extender.example/x", "post http://extender.example/x/filter http/1.1\r\n"),
            ("https://extender.example/x", "connect extender.example:443 http/1.1\r\n"),
        ] {
            let (address, head) = proxy().await;
            let connection = connection(url, &format!("http://me:secret@{address}"), "");
            let said = connection.post("filter", "{}".to_owned()).await.unwrap_err();
            let head = tokio::time::timeout(Duration::from_secs(60), head).await.unwrap().unwrap();
            assert!(head.starts_with(request), "{head}");
            assert!(head.contains("proxy-authorization: basic bwu6c2vjcmv0\r\n"), "{head}");
            assert!(!said.contains("secret"), "{said}");
        }
    }

    #[tokio::test]
    async fn a_proxy_that_is_not_there_is_named() {
        let port = ClosedPort::new();
        let free = port.address();
        let through = connection("http://extender.example", &free.to_string(), "");
        let said = through.post("filter", String::new()).await.unwrap_err();
        let expected = format!("proxyconnect tcp: dial tcp {free}: connect: connection refused");
        assert!(said.ends_with(&expected), "{said}");
        // Directly there is nobody either, which is said as before.
        for exceptions in ["", "*"] {
            let direct = connection(&format!("http://{free}"), "http://127.0.0.1:1", exceptions);
            let said = direct.post("filter", String::new()).await.unwrap_err();
            let expected = format!("/filter\": dial tcp {free}: connect: connection refused");
            assert!(said.ends_with(&expected), "{said}");
        }
        let unusable = connection("http://extender.example", "gopher://p", "");
        let said = unusable.post("filter", String::new()).await.unwrap_err();
        assert!(said.contains("HTTP_PROXY: unsupported scheme"), "{said}");
    }
}
