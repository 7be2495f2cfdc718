//! The connection to the API server: where it is, who we are, and one request at a time.
//!
//! kube does configuration, TLS and authentication; nothing outside of here knows kube.
//!
//! Invariants: whether an unanswered request was carried out is never guessed ([`ApiError::is_outcome_unknown`]); no
//! request waits for ever, watches excepted; kube's own retries are off, because only the caller knows what may be sent
//! twice.

mod call;
mod connection;
mod credentials;
pub(crate) mod envelope;
mod error;
mod kubeconfig;
mod log;
mod opening;
mod outage;
mod pod;
pub(crate) mod proxy;
mod renewal;
mod source;
mod times;

use std::error::Error as StdError;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{Method, Response};
use http_body_util::BodyExt;
use hyper_util::client::legacy::connect::capture_connection;
// The client library leaves the choice of the API version to its user.
use k8s_openapi as _;
use kube::client::Body;
use kube::config::ExecInteractiveMode;

use crate::backoff::Backoff;
use crate::fence::{Fence, LeadershipOver};
use crate::kinds::versions::ServedVersions;
use crate::metrics::{Metrics, RestCall};
use crate::version::{KUBERNETES_VERSION, architecture};
pub(crate) use call::{Call, Encoding};
use connection::{Traffic, Way};
use credentials::CredentialFiles;
pub(crate) use error::ApiError;
use opening::Opening;
use outage::Outage;
pub(crate) use pod::PodPort;
use proxy::Proxies;
use times::{ConnectionTimes, ResponseTimes};

/// How often a request is sent again when the server asks for patience, as in the reference's client.
pub(crate) const MAX_PATIENCE: u32 = 10;

/// Why no client for an API server can be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The kubeconfig cannot be read or makes no sense.
    #[error("kubeconfig {}", path.display())]
    Kubeconfig {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The address is not the URL of a server.
    #[error(
        "--master {address:?} is not the URL of an API server; expected is http(s)://HOST[:PORT]"
    )]
    Master {
        /// What was given.
        address: String,
    },
    /// Credentials would go to an address without encryption, or to none.
    #[error(
        "--server {address:?} is not the URL of a secure port; expected is https://HOST[:PORT]"
    )]
    Server {
        /// What was given.
        address: String,
    },
    /// Nothing says where the API server is.
    #[error(
        "no API server is configured: give --kubeconfig FILE, --master URL or clientConnection.kubeconfig, or run inside a cluster"
    )]
    NotConfigured,
    /// The service account of this pod cannot be used.
    #[error("in-cluster configuration")]
    InCluster(#[source] Box<dyn StdError + Send + Sync>),
    /// Certificates or credentials are unusable.
    #[error("client for {server}")]
    Client {
        /// Where it would have connected.
        server: String,
        /// What is wrong.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
}

/// Where the API server is and who we are there.
#[derive(Clone, Debug)]
pub struct Endpoint {
    config: kube::Config,
    /// What of it stands in files that may change.
    files: CredentialFiles,
    /// Which proxy leads to the server, unless `config` says so.
    proxies: Arc<Proxies>,
    origin: String,
    /// Shared by all clients.
    outage: Arc<Outage>,
}

impl Endpoint {
    /// The API server as the reference finds it: from a kubeconfig, its address replaced by `master` if given; from
    /// `master` alone; else from the cluster this process runs in. Neither `$KUBECONFIG` nor `~/.kube/config` counts.
    ///
    /// # Errors
    /// As those of the function that is used: [`from_kubeconfig`](Self::from_kubeconfig), [`from_url`](Self::from_url) or
    /// [`in_cluster`](Self::in_cluster).
    pub async fn resolve(
        kubeconfig: Option<&Path>,
        master: Option<&str>,
    ) -> Result<Self, ConnectError> {
        match (kubeconfig, master) {
            (Some(path), master) => Self::from_kubeconfig(path, master).await,
            (None, Some(master)) => Self::from_url(master),
            (None, None) => Self::in_cluster(),
        }
    }

    /// The API server that a kubeconfig file means, its address replaced by `master` if given. A file that says nothing about a
    /// server means the cluster that this process runs in.
    ///
    /// # Errors
    /// If the file cannot be read or used, or `master` is no address.
    pub async fn from_kubeconfig(path: &Path, master: Option<&str>) -> Result<Self, ConnectError> {
        let master = master.map(parse_url).transpose()?;
        Self::from_files(&[path], None, master, Self::around)
    }

    /// The API server that a context of kubeconfig files means; the current one without `context`. Files are merged as kubectl
    /// merges those of `$KUBECONFIG`: of a name, and of the current context, the first counts.
    ///
    /// # Errors
    /// [`ConnectError::Kubeconfig`] if a file cannot be read, or there is no such context or none that can be used.
    pub async fn from_context(
        paths: &[impl AsRef<Path>],
        context: Option<&str>,
    ) -> Result<Self, ConnectError> {
        let paths: Vec<&Path> = paths.iter().map(AsRef::as_ref).collect();
        Self::from_files(&paths, context, None, Self::around)
    }

    /// An API server that asks for no credentials, at this URL.
    ///
    /// # Errors
    /// If the URL is none.
    pub fn from_url(url: &str) -> Result<Self, ConnectError> {
        Ok(Self::new(kube::Config::new(parse_url(url)?), "(from --master)".to_owned()))
    }

    /// The cluster that this process runs in as a pod, with the credentials of its service account.
    ///
    /// # Errors
    /// [`ConnectError::NotConfigured`] outside of a pod, [`ConnectError::InCluster`] if token or authority cannot be read.
    pub fn in_cluster() -> Result<Self, ConnectError> {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        if !is_set("KUBERNETES_SERVICE_HOST") || !is_set("KUBERNETES_SERVICE_PORT") {
            return Err(ConnectError::NotConfigured);
        }
        let config =
            kube::Config::incluster().map_err(|error| ConnectError::InCluster(error.into()))?;
        Ok(Self::new(config, "(from the service account)".to_owned()))
    }

    /// Another server with the same credentials, which are sent over TLS alone. Unless `is_checked` is false its certificate is
    /// checked, by `authorities`, or by those of this endpoint if there are none, also where this endpoint's own
    /// certificate is not checked.
    pub(crate) fn elsewhere(
        &self,
        url: &str,
        authorities: Option<Vec<Vec<u8>>>,
        is_checked: bool,
    ) -> Result<Self, ConnectError> {
        let mut config = self.config.clone();
        config.cluster_url = parse_url(url)
            .ok()
            .filter(|url| url.scheme_str() == Some("https"))
            .ok_or_else(|| ConnectError::Server { address: url.to_owned() })?;
        config.tls_server_name = None;
        let files = self.files.clone();
        let files = if authorities.is_some() { files.without_authority() } else { files };
        config.root_cert = authorities.or(config.root_cert);
        config.accept_invalid_certs = !is_checked;
        let proxies = self.proxies.clone();
        Ok(Self { files, proxies, ..Self::new(config, self.origin.clone()) })
    }

    /// The same, whose credential plugins get nothing of this process's standard input.
    #[must_use]
    pub fn without_input(mut self) -> Self {
        if let Some(exec) = &mut self.config.auth_info.exec {
            exec.interactive_mode = Some(ExecInteractiveMode::Never);
        }
        self
    }

    /// Whether the credentials can be used by their receiver, as tokens and passwords can, and a client certificate cannot.
    /// Credentials of a plugin count, because they may be tokens.
    pub fn has_bearer_credentials(&self) -> bool {
        let auth = &self.config.auth_info;
        auth.token.is_some()
            || auth.token_file.is_some()
            || auth.username.is_some()
            || auth.exec.is_some()
            || auth.auth_provider.is_some()
    }

    /// The URL of the API server.
    pub fn url(&self) -> String {
        self.config.cluster_url.to_string()
    }

    /// The namespace that the kubeconfig's context means; `default` if it names none.
    pub fn namespace(&self) -> &str {
        match &*self.config.default_namespace {
            "" => "default",
            named => named,
        }
    }

    /// A kube client over the kind of connection that the scheduler uses, for programs that measure or test it.
    ///
    /// # Errors
    /// If the connection cannot be set up, for example because a certificate cannot be used. Nothing is sent yet.
    pub fn kube_client(&self) -> Result<kube::Client, ConnectError> {
        Ok(self.connect(self.config.clone(), Traffic::Requests)?.0)
    }

    /// A client with the same credentials for what listens at a port of a pod, by this API server's port-forward. Nothing is sent
    /// yet.
    pub(crate) fn client_of_pod(&self, port: PodPort) -> Result<kube::Client, ConnectError> {
        // Only HTTP/1.1 connections become streams.
        let api_server = self.connect(self.config.clone(), Traffic::LongAnswers)?.0;
        let server = format!("pod {}/{}", port.namespace, port.name);
        pod::client(self.config.clone(), api_server, port)
            .map_err(|source| ConnectError::Client { server, source })
    }

    fn connect(
        &self,
        config: kube::Config,
        traffic: Traffic,
    ) -> Result<(kube::Client, Arc<ConnectionTimes>), ConnectError> {
        let way = Way { config, files: &self.files, proxies: &self.proxies };
        connection::client(way, traffic)
            .map_err(|source| ConnectError::Client { server: self.url(), source })
    }

    fn new(mut config: kube::Config, origin: String) -> Self {
        config.default_retry = false;
        let (files, proxies) = (CredentialFiles::default(), Proxies::of_environment());
        Self { config, files, proxies, origin, outage: Arc::default() }
    }

    /// A client whose requests say what they are for. Nothing is sent yet.
    pub(crate) fn client(&self, purpose: &str) -> Result<Api, ConnectError> {
        self.client_for(purpose, Traffic::Requests)
    }

    /// The same for answers so long that each had better have a connection to itself.
    pub(crate) fn client_for_long_answers(&self, purpose: &str) -> Result<Api, ConnectError> {
        self.client_for(purpose, Traffic::LongAnswers)
    }

    fn client_for(&self, purpose: &str, traffic: Traffic) -> Result<Api, ConnectError> {
        let mut config = self.config.clone();
        // The reference's form, with the Kubernetes version that this scheduler replaces where the reference has its commit.
        let agent = format!(
            "kube-scheduler-rs/{} ({}/{}) kubernetes/{}/{purpose}",
            env!("CARGO_PKG_VERSION"),
            std::env::consts::OS,
            architecture(),
            KUBERNETES_VERSION.2
        );
        if let Ok(agent) = HeaderValue::try_from(agent) {
            config.headers.push((USER_AGENT, agent));
        }
        let (client, times) = self.connect(config, traffic)?;
        let opening = (traffic == Traffic::Requests).then(Arc::default);
        let host = self.config.cluster_url.authority().map_or("", |host| host.as_str()).into();
        let base = self.url().trim_end_matches('/').into();
        Ok(Api {
            client,
            host,
            base,
            times,
            metrics: None,
            fence: None,
            is_json_only: Arc::default(),
            opening,
            outage: self.outage.clone(),
            served_versions: Arc::default(),
        })
    }

    /// Logs when the server has not answered for `patience`, and again when it does. Any answer counts.
    pub(crate) async fn watch_reachability(self, api: Api, patience: Duration) {
        let given_up = tokio::time::Instant::now() + patience;
        let (server, origin) = (self.url(), self.origin);
        let mut is_reported = false;
        let mut backoff =
            Backoff::new(Duration::from_millis(50), Duration::from_secs(30), Duration::MAX);
        loop {
            let request = Call::get("/version").timeout(patience.max(Duration::from_secs(1)));
            let error = match api.call(&request).await {
                Err(error) if error.code().is_none() => error,
                _ if is_reported => return tracing::info!(server, "The API server answers"),
                _ => return,
            };
            if !is_reported && tokio::time::Instant::now() >= given_up {
                is_reported = true;
                tracing::warn!(err = %error, server, origin, "The API server does not answer; trying on");
            }
            let pause = backoff.fail(Instant::now());
            let pause = if is_reported { pause } else { pause.min(patience / 4) };
            tokio::time::sleep(pause).await;
        }
    }
}

fn parse_url(text: &str) -> Result<http::Uri, ConnectError> {
    kubeconfig::address(text).ok_or_else(|| ConnectError::Master { address: text.to_owned() })
}

/// The API server.
#[derive(Clone)]
pub(crate) struct Api {
    client: kube::Client,
    host: Arc<str>,
    /// The server's URL.
    base: Arc<str>,
    /// How connections were set up, where the log shows it.
    times: Arc<ConnectionTimes>,
    metrics: Option<Arc<Metrics>>,
    /// What requests that change something must pass.
    fence: Option<Fence>,
    /// Set once the server has refused a body in protobuf. Shared by all clones.
    is_json_only: Arc<AtomicBool>,
    /// Where requests can share a connection, who sets it up. Shared by all clones.
    opening: Option<Arc<Opening>>,
    /// Whether the server is away. Shared by all clients of the server.
    outage: Arc<Outage>,
    /// In which versions the server serves kinds whose version varies. Shared by all clones.
    served_versions: Arc<ServedVersions>,
}

impl Api {
    /// In which versions the server serves kinds whose version varies.
    pub(crate) fn served_versions(&self) -> &ServedVersions {
        &self.served_versions
    }

    /// The same server, with its requests counted.
    pub(crate) fn observed_by(self, metrics: Arc<Metrics>) -> Self {
        Self { metrics: Some(metrics), ..self }
    }

    /// Host and port.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// The same server, which is sent changes only while the fence is open.
    pub(crate) fn behind(self, fence: Option<Fence>) -> Self {
        Self { fence, ..self }
    }

    /// Waits until something may be changed. Fails if that will never be so again.
    pub(crate) async fn may_write(&self) -> Result<(), ApiError> {
        let Some(fence) = &self.fence else { return Ok(()) };
        let refused = |error: LeadershipOver| ApiError::Transport {
            text: error.to_string(),
            is_refused: true,
        };
        fence.opened().await.map_err(refused)
    }

    /// Sends a request once and reads the whole answer.
    pub(crate) async fn call(&self, call: &Call) -> Result<Bytes, ApiError> {
        let Some(fence) = self.fence.as_ref().filter(|_| call.method != Method::GET) else {
            return self.call_unfenced(call).await;
        };
        self.may_write().await?;
        tokio::select! {
            biased;
            // The fence has closed: the request must not reach the server from now on. It may have reached it before.
            () = fence.closed() => Err(ApiError::Transport {
                text: "leadership ran out before there was an answer".to_owned(),
                is_refused: false,
            }),
            answer = self.call_unfenced(call) => answer,
        }
    }

    async fn call_unfenced(&self, call: &Call) -> Result<Bytes, ApiError> {
        let answer = async {
            let response = self.begin(call).await?;
            let body = collect(response).await?;
            log::response_body(log::verbosity(), call.path(), &body);
            self.observe_answer(call, body.len());
            Ok(body)
        };
        tokio::time::timeout(call.timeout, answer)
            .await
            .unwrap_or(Err(ApiError::Timeout(call.timeout)))
    }

    /// As [`call`](Self::call), but comes back as often and as late as the server asks for. Returns beside the answer
    /// how often it was asked. Only what the server refused unseen is sent again.
    pub(crate) async fn call_patiently(&self, call: &Call) -> (Result<Bytes, ApiError>, u32) {
        let mut n_asked = 0;
        loop {
            let answer = self.call(call).await;
            let Some(pause) = self.asked_for(call, answer.as_ref().err(), n_asked) else {
                return (answer, n_asked);
            };
            tokio::time::sleep(pause).await;
            n_asked += 1;
        }
    }

    /// Sends what `make` makes in protobuf, or in JSON to a server that has refused protobuf before or does so now.
    pub(crate) async fn write(&self, make: impl Fn(Encoding) -> Call) -> Result<Bytes, ApiError> {
        if !self.is_json_only.load(Ordering::Relaxed) {
            let answer = self.call(&make(Encoding::Protobuf)).await;
            // Refused for its form alone, nothing was looked at.
            if !matches!(answer.as_ref().err().and_then(ApiError::code), Some(406 | 415)) {
                return answer;
            }
            if !self.is_json_only.swap(true, Ordering::Relaxed) {
                tracing::debug!(host = &*self.host, "The server takes no protobuf; writing JSON");
            }
        }
        self.call(&make(Encoding::Json)).await
    }

    /// Sends a request and returns as soon as the answer begins, with the encoding that it comes in.
    pub(crate) async fn stream(&self, call: &Call) -> Result<(Body, Encoding), ApiError> {
        let response = tokio::time::timeout(call.timeout, self.begin(call))
            .await
            .unwrap_or(Err(ApiError::Timeout(call.timeout)))?;
        let encoding = Encoding::of(response.headers());
        Ok((response.into_body(), encoding))
    }

    /// An answer of this many bytes was read to its end.
    pub(crate) fn observe_answer(&self, call: &Call, n_bytes: usize) {
        if let Some(metrics) = &self.metrics {
            metrics.observe_rest_answer(call.method.as_str(), &self.host, n_bytes);
        }
    }

    /// As [`stream`](Self::stream), but comes back as often and as late as the server asks for.
    pub(crate) async fn stream_patiently(&self, call: &Call) -> Result<(Body, Encoding), ApiError> {
        let mut n_asked = 0;
        loop {
            let answer = self.stream(call).await;
            let Some(pause) = self.asked_for(call, answer.as_ref().err(), n_asked) else {
                return answer;
            };
            tokio::time::sleep(pause).await;
            n_asked += 1;
        }
    }

    /// How long to wait before the same request is sent again; `None` if it is not.
    fn asked_for(&self, call: &Call, error: Option<&ApiError>, n_asked: u32) -> Option<Duration> {
        let pause = error?.retry_after().filter(|_| n_asked < MAX_PATIENCE)?;
        if let Some(metrics) = &self.metrics {
            metrics.count_rest_retry(call.method.as_str(), &self.host, error?.code());
        }
        Some(pause)
    }

    /// Where a request goes, in full, for the log.
    fn url_of(&self, call: &Call) -> String {
        format!("{}{}", self.base.trim_end_matches('/'), call.path())
    }

    async fn begin(&self, call: &Call) -> Result<Response<Body>, ApiError> {
        let mut request = call.request()?;
        let verbosity = log::verbosity();
        let url = if verbosity > 0 { self.url_of(call) } else { String::new() };
        if verbosity > 0 {
            log::request(verbosity, &call.method, &url, request.headers(), &call.body);
        }
        let turn = match &self.opening {
            Some(opening) => opening.turn().await,
            None => None,
        };
        let captured = log::shows_times().then(|| capture_connection(&mut request));
        let start = Instant::now();
        let (answer, connection) = tokio::join!(self.client.send(request), async {
            drop(captured.clone()?.wait_for_connection_metadata().await);
            Some(start.elapsed())
        });
        if let Some(opening) = &self.opening {
            opening.report(answer.is_ok());
        }
        drop(turn);
        if let Some(metrics) = &self.metrics {
            metrics.observe_rest_call(RestCall {
                method: call.method.as_str(),
                host: &self.host,
                code: answer.as_ref().ok().map(|response| response.status().as_u16()),
                length: start.elapsed(),
                request_bytes: call.body.len(),
            });
        }
        if verbosity > 0 {
            let answer = answer.as_ref().ok().map(|answer| (answer.status(), answer.headers()));
            let times = match (&captured, connection) {
                (Some(captured), Some(connection)) => self.times.of(start, captured, connection),
                _ => ResponseTimes { total: start.elapsed(), ..ResponseTimes::default() },
            };
            log::response(verbosity, (&call.method, &url), answer, times);
        }
        let response = match answer {
            Ok(response) => response,
            Err(error) => {
                let error = ApiError::transport(&error);
                if self.outage.begins() {
                    let server = &*self.host;
                    tracing::warn!(err = %error, server, "The API server does not answer; trying on");
                }
                return Err(error);
            }
        };
        if self.outage.ends() {
            tracing::info!(server = &*self.host, "The API server answers again");
        }
        if response.status().is_success() {
            return Ok(response);
        }
        let code = response.status().as_u16();
        let retry_after =
            response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let body = collect(response).await?;
        log::response_body(verbosity, &url, &body);
        Err(ApiError::status(code, retry_after.map(Duration::from_secs), &body))
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Api")
    }
}

async fn collect(response: Response<Body>) -> Result<Bytes, ApiError> {
    match response.into_body().collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) => Err(match error.source() {
            // An answer that breaks off says nothing about what was done; it was under way, so it was not refused.
            Some(source) => {
                ApiError::Transport { text: format!("{error}: {source}"), is_refused: false }
            }
            None => ApiError::Transport { text: error.to_string(), is_refused: false },
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_without_a_scheme_mean_plain_http() {
        assert_eq!(Endpoint::from_url("127.0.0.1:8080").unwrap().url(), "http://127.0.0.1:8080/");
        assert_eq!(Endpoint::from_url("https://a.example").unwrap().url(), "https://a.example/");
        for bad in ["", "http://", "ftp://a", "http://a b"] {
            assert!(matches!(Endpoint::from_url(bad), Err(ConnectError::Master { .. })), "{bad:?}");
        }
    }

    #[test]
    fn a_client_certificate_is_no_bearer_credential() {
        type Change = fn(&mut kube::config::AuthInfo);
        let with = |change: Change| {
            let mut endpoint = Endpoint::from_url("https://a.example").unwrap();
            change(&mut endpoint.config.auth_info);
            endpoint
        };
        let exec: Change = |auth| {
            auth.exec = Some(serde_json::from_value(serde_json::json!({"command": "c"})).unwrap())
        };
        let bearers: [Change; 5] = [
            |auth| auth.token = Some("t".to_owned().into()),
            |auth| auth.token_file = Some("t".to_owned()),
            |auth| auth.username = Some("u".to_owned()),
            |auth| {
                let provider = serde_json::json!({"name": "p", "config": {}});
                auth.auth_provider = Some(serde_json::from_value(provider).unwrap());
            },
            exec,
        ];
        for (at, change) in bearers.into_iter().enumerate() {
            assert!(with(change).has_bearer_credentials(), "{at}");
        }
        assert!(!with(|_| {}).has_bearer_credentials());
        let certificate = with(|auth| auth.client_certificate = Some("c".to_owned()));
        assert!(!certificate.has_bearer_credentials());
        let exec = with(exec).without_input().config.auth_info.exec.unwrap();
        assert!(matches!(exec.interactive_mode, Some(ExecInteractiveMode::Never)));
    }

    #[test]
    fn a_status_says_what_the_server_said() {
        let body = br#"{"kind":"Status","message":"pod a is already assigned","reason":"Conflict","code":409}"#;
        let error = ApiError::status(409, None, body);
        assert_eq!(
            (error.code(), error.to_string()),
            (Some(409), "pod a is already assigned".to_owned())
        );
        assert!(!error.is_outcome_unknown());
        let error = ApiError::status(503, Some(Duration::from_secs(1)), b"  upstream down\n");
        assert_eq!(error.to_string(), "upstream down");
        assert_eq!(error.retry_after(), Some(Duration::from_secs(1)));
        assert_eq!(
            ApiError::status(500, None, b"").to_string(),
            "the server answered with status 500"
        );
    }

    #[tokio::test]
    async fn nobody_listening_is_a_refused_connection() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let api = Endpoint::from_url(&free.to_string()).unwrap().client("test").unwrap();
        let error = api.call(&Call::get("/version")).await.unwrap_err();
        assert!(error.is_connection_refused() && error.to_string().contains("refused"), "{error}");
    }

    #[tokio::test]
    async fn requests_say_who_sends_them_as_the_reference_does() {
        use std::io::{Read, Write};

        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
                head.push(byte[0]);
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").unwrap();
            String::from_utf8(head).unwrap()
        });
        let api = Endpoint::from_url(&address).unwrap().client("scheduler").unwrap();
        api.call(&Call::get("/version")).await.unwrap();
        let expected = format!(
            "user-agent: kube-scheduler-rs/{} ({}/{}) kubernetes/v1.36.0/scheduler\r\n",
            env!("CARGO_PKG_VERSION"),
            std::env::consts::OS,
            architecture()
        );
        let head = server.join().unwrap();
        assert!(head.contains(&expected), "{expected:?} is not in {head}");
    }

    #[tokio::test]
    async fn nothing_is_changed_behind_a_closed_fence() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let api = Endpoint::from_url(&free.to_string()).unwrap().client("test").unwrap();
        let (keeper, fence) = crate::fence::closed(|| kube_scheduler_api_types::Timestamp::EPOCH);
        let api = api.behind(Some(fence));
        // Reads pass the closed fence.
        assert!(api.call(&Call::get("/version")).await.unwrap_err().is_connection_refused());
        let post = Call::post("/api/v1/namespaces", b"{}".to_vec());
        let waits = tokio::time::timeout(Duration::from_millis(20), api.call(&post)).await;
        assert!(waits.is_err(), "{waits:?}");
        keeper.give_up();
        let error = api.call(&post).await.unwrap_err();
        assert_eq!(error.to_string(), "this scheduler does not lead any more");
        assert!(!error.is_outcome_unknown());
    }
}
