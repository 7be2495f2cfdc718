//! The connection to the API server, one request at a time. [`endpoint`] says where the server is and who we are there.
//!
//! kube reads kubeconfigs, sets TLS up and authenticates; of the rest of this crate only the TLS of extenders knows it.
//!
//! Invariants: whether an unanswered request was carried out is never guessed ([`ApiError::is_outcome_unknown`]); no
//! request waits for ever, watches excepted; kube's own retries are off, because only the caller knows what may be sent
//! twice. What the server itself declares unprocessed is sent again, and so is a GET whose connection was lost ([`resending`]).

mod call;
#[cfg(test)]
pub(crate) mod closed_port;
mod connection;
mod credentials;
mod endpoint;
pub(crate) mod envelope;
mod error;
mod http2;
mod kubeconfig;
mod log;
mod opening;
mod outage;
mod pod;
pub(crate) mod proxy;
mod renewal;
mod resending;
#[cfg(test)]
mod scripted;
mod source;
mod stream;
mod times;
mod token;
mod warnings;

use std::error::Error as _;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{Method, Response};
use http_body_util::BodyExt;
use hyper_util::client::legacy::connect::capture_connection;
// The client library leaves the choice of the API version to its user.
use k8s_openapi as _;
use kube::client::Body;

use crate::fence::{Fence, LeadershipOver};
use crate::kinds::versions::ServedVersions;
use crate::metrics::{Metrics, RestCall};
pub(crate) use call::{Call, Encoding};
pub use endpoint::{ConnectError, Endpoint};
pub(crate) use error::ApiError;
#[cfg(test)]
pub(crate) use error::Fate;
use opening::Opening;
use outage::Outage;
pub(crate) use pod::PodPort;
#[cfg(test)]
pub(crate) use scripted::{ScriptedReply, scripted};
use times::{ConnectionTimes, ResponseTimes};

/// How often a request is sent again when the server asks for patience, as in the reference's client.
pub(crate) const MAX_PATIENCE: u32 = 10;

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

    /// This client, with its requests counted in `metrics`.
    pub(crate) fn observed_by(self, metrics: Arc<Metrics>) -> Self {
        Self { metrics: Some(metrics), ..self }
    }

    /// Host and port.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// This client, which sends changes only while the fence is open.
    pub(crate) fn behind(self, fence: Option<Fence>) -> Self {
        Self { fence, ..self }
    }

    /// Waits until something may be changed. Fails if that will never be so again.
    pub(crate) async fn may_write(&self) -> Result<(), ApiError> {
        let Some(fence) = &self.fence else { return Ok(()) };
        let refused = |error: LeadershipOver| ApiError::not_sent(error.to_string());
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
            () = fence.closed() => {
                Err(ApiError::unclear("leadership ran out before there was an answer"))
            }
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
        self.in_time(call, answer).await
    }

    /// What `answer` ends with, if that is within the time of the call. A server that has shown no sign of life meanwhile hangs.
    async fn in_time<T>(
        &self,
        call: &Call,
        answer: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<T, ApiError> {
        let n_signs = self.outage.n_signs();
        let Ok(answer) = tokio::time::timeout(call.timeout, answer).await else {
            let error = ApiError::Timeout(call.timeout);
            if self.outage.n_signs() == n_signs {
                self.note_outage(&error);
            }
            return Err(error);
        };
        answer
    }

    /// A part of a long answer has come, so the server lives.
    pub(crate) fn heard(&self) {
        self.outage.heard();
    }

    /// Whether the server is away, which was logged.
    pub(crate) fn is_away(&self) -> bool {
        self.outage.is_away()
    }

    /// How many signs of life there were of the server.
    #[cfg(test)]
    pub(crate) fn n_signs(&self) -> u64 {
        self.outage.n_signs()
    }

    /// Logs that the server is away, unless that was logged.
    fn note_outage(&self, error: &ApiError) {
        if self.outage.begins() {
            let server = &*self.host;
            tracing::warn!(err = %error, server, "The API server does not answer; trying on");
        }
    }

    /// As [`call`](Self::call), but comes back as often as the server asks for, and as late, within bounds. Returns beside the answer
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
        let response = self.in_time(call, self.begin(call)).await?;
        let encoding = Encoding::of(response.headers());
        Ok((response.into_body(), encoding))
    }

    /// An answer of this many bytes was read to its end.
    pub(crate) fn observe_answer(&self, call: &Call, n_bytes: usize) {
        if let Some(metrics) = &self.metrics {
            metrics.observe_rest_answer(call.method.as_str(), &self.host, n_bytes);
        }
    }

    /// As [`stream`](Self::stream), but comes back as often as the server asks for, and as late, within bounds.
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
        let pause = error?.pause().filter(|_| n_asked < MAX_PATIENCE)?;
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
                // One connection may end for many reasons; whether the server is away shows the next one.
                let is_lost = error::has_lost_connection(&error);
                let error = ApiError::transport(&error);
                if !is_lost {
                    self.note_outage(&error);
                }
                return Err(error);
            }
        };
        if self.outage.ends() {
            tracing::info!(server = &*self.host, "The API server answers again");
        }
        warnings::log(response.headers());
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
            Some(source) => ApiError::unclear(format!("{error}: {source}")),
            None => ApiError::unclear(error.to_string()),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::closed_port::ClosedPort;
    use super::*;
    use crate::version::architecture;

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
        let port = ClosedPort::new();
        let api = Endpoint::from_url(&port.address().to_string()).unwrap().client("test").unwrap();
        let error = api.call(&Call::get("/version")).await.unwrap_err();
        assert!(error.is_not_sent() && error.to_string().contains("refused"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_hangs_is_away_and_one_whose_connection_breaks_is_not() {
        let reset = ScriptedReply::Lost(std::io::ErrorKind::ConnectionReset);
        let answers =
            [ScriptedReply::Body("{}"), reset, ScriptedReply::Silence, ScriptedReply::Silence];
        let (api, _) = scripted(answers.into_iter().chain([ScriptedReply::Body("{}")]));
        let post = Call::post("/api/v1/namespaces", b"{}".to_vec());
        assert!(api.call(&post).await.is_ok());
        assert!(api.call(&post).await.unwrap_err().is_cut_off());
        assert!(!api.outage.ends(), "a lost connection is no outage");
        assert_eq!(api.call(&post).await, Err(ApiError::Timeout(post.timeout)));
        assert!(api.outage.ends(), "there was no answer for half a minute");
        // A request that takes long is none while others are answered.
        let answered = async {
            tokio::time::sleep(post.timeout / 2).await;
            api.call(&post).await
        };
        let (slow, other) = tokio::join!(api.call(&post), answered);
        assert_eq!((slow, other.is_ok()), (Err(ApiError::Timeout(post.timeout)), true));
        assert!(!api.outage.ends());
        // Nor while a watch brings something.
        let watched = async {
            tokio::time::sleep(post.timeout / 2).await;
            api.heard();
        };
        let (slow, ()) = tokio::join!(api.call(&post), watched);
        assert_eq!(slow, Err(ApiError::Timeout(post.timeout)));
        assert!(!api.is_away());
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_may_not_ask_for_too_much_patience() {
        let (api, script) =
            scripted([ScriptedReply::Status(429, Some(3_600)), ScriptedReply::Body("{}")]);
        let (answer, n_asked) = api.call_patiently(&Call::get("/version")).await;
        assert!(answer.is_ok() && n_asked == 1);
        let (second, _) = script.asked().pop().unwrap();
        assert_eq!(second.as_secs(), 30);
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
        let port = ClosedPort::new();
        let api = Endpoint::from_url(&port.address().to_string()).unwrap().client("test").unwrap();
        let (keeper, fence) = crate::fence::closed(|| kube_scheduler_api_types::Timestamp::EPOCH);
        let api = api.behind(Some(fence));
        // Reads pass the closed fence.
        assert!(api.call(&Call::get("/version")).await.unwrap_err().is_not_sent());
        let post = Call::post("/api/v1/namespaces", b"{}".to_vec());
        let waits = tokio::time::timeout(Duration::from_millis(20), api.call(&post)).await;
        assert!(waits.is_err(), "{waits:?}");
        keeper.give_up();
        let error = api.call(&post).await.unwrap_err();
        assert_eq!(error.to_string(), "this scheduler does not lead any more");
        assert!(!error.is_outcome_unknown());
    }
}
