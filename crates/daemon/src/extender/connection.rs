//! One call to an extender: a POST, within a time, with an answer of a size that can be handled.
//!
//! Invariants: a redirection is not followed; files of certificates that change are read again.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ::http::header::CONTENT_TYPE;
use ::http::{HeaderValue, Method, Request, StatusCode, Uri};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper_util::client::legacy::connect::Connect;
use hyper_util::client::legacy::{Client, ResponseFuture};
use hyper_util::rt::TokioExecutor;
use kube_scheduler_api_types::validation::quoted;
use kube_scheduler_config::Extender as ExtenderConfig;

use super::tls::{ExtenderTlsError, Material, chain};

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

struct Current {
    material: Material,
    transport: Transport,
    read: Instant,
}

/// The way to one extender.
pub(super) struct Connection {
    config: ExtenderConfig,
    timeout: Duration,
    current: Mutex<Current>,
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
    ) -> Result<Self, ExtenderTlsError> {
        let material = Material::load(config)?;
        let transport = material.transport()?;
        let current = Mutex::new(Current { material, transport, read: Instant::now() });
        Ok(Self { config: config.clone(), timeout, current })
    }

    /// Asks for `verb` and gives the answer as it is.
    pub(super) async fn post(&self, verb: &str, question: String) -> Result<Bytes, String> {
        let url = format!("{}/{verb}", self.config.url_prefix.trim_end_matches('/'));
        let failed = |why: String| format!("Post {}: {why}", quoted(&url));
        let uri = parsed(&url).map_err(failed)?;
        let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
        let limit = MAX_ANSWER.max(question.len().saturating_mul(ANSWER_TO_QUESTION));
        let mut request = Request::new(Full::new(Bytes::from(question)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri;
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));

        let deadline = tokio::time::Instant::now() + self.timeout;
        let response = tokio::time::timeout_at(deadline, (self.transport().0)(request));
        let response = response.await.map_err(|_| {
            let why = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
            failed(why.to_owned())
        })?;
        let response = response.map_err(|error| failed(cause(&error, &authority)))?;
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
            Err(_) => {
                Err("context deadline exceeded (Client.Timeout or context cancellation while \
                           reading body)"
                    .to_owned())
            }
        }
    }

    /// The way with the certificates as they are now. Files that cannot be used leave it as it was.
    fn transport(&self) -> Transport {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.read.elapsed() >= REREAD_AFTER {
            current.read = Instant::now();
            match Material::load(&self.config) {
                Ok(material) if material == current.material => {}
                Ok(material) => match material.transport() {
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
fn cause(error: &(dyn std::error::Error + 'static), authority: &str) -> String {
    let mut next = Some(error);
    while let Some(error) = next {
        let io = error.downcast_ref::<io::Error>();
        if io.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
            return format!("dial tcp {authority}: connect: connection refused");
        }
        next = error.source();
    }
    chain(error)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
