//! What is served: who asks, whether they may, and which page answers.
//!
//! Invariants: no page is reached without both questions answered; paths are compared as they read after decoding, for
//! permission and for finding the page alike; answers never wait for the core thread longer than a scrape may take.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{CACHE_CONTROL, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Version};
use http_body_util::{BodyExt, Limited};

use hyper::body::Incoming;
use kube_scheduler_api_types::{CompileOptions, Pod};
use percent_encoding::percent_decode_str;
use tokio::sync::{oneshot, watch};

use super::admission::Admission;
use super::answers::{Answers, ApiPath, Desk};
use super::authentication::{AuthenticationError, Authenticator};
use super::authorization::{Attributes, Authorizer, Verdict};
use super::connection::{Answer, Call, MAX_HELD};
use super::debugging;
use super::exposition::{self, Scrapes};
use super::health::{self, Check, Endpoint, Slis};
use super::identity::User;
use super::options::VerbositySetter;
use super::pod_resources::PodResources;
use super::reply::{self, Reply};
use super::zpages::{Page, ZPages};
use crate::inbox::{Inbox, Observation};
use crate::metrics::{Metrics, TextPage};
use crate::progress::Progress;

/// How long the body of a request may be that sets the verbosity.
const MAX_BODY: usize = 4 << 10;
/// How long the core thread may take to list its pods.
const CORE_PATIENCE: Duration = Duration::from_secs(30);
/// The header of metrics that says when the process started, in seconds since the epoch.
const STARTED_AT: &str = "process-start-time-unix";
/// The type of a patch that applies a configuration.
const APPLY: &str = "application/apply-patch+yaml";

/// What the endpoints report on.
#[derive(Clone)]
pub(crate) struct SiteSources {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) progress: watch::Receiver<Progress>,
    /// The answer of `/configz`.
    pub(crate) configz: Arc<str>,
    /// Whether the scheduler is terminating.
    pub(crate) is_terminating: watch::Receiver<bool>,
    /// Whether the core thread hangs.
    pub(crate) core_hangs: watch::Receiver<bool>,
    /// The core thread.
    pub(crate) inbox: Inbox,
    /// When the process started, in seconds since the epoch.
    pub(crate) started_at: f64,
    /// Whether this scheduler takes part in an election.
    pub(crate) elects: bool,
    /// `enableProfiling`.
    pub(crate) has_profiling: bool,
    /// How pods are read.
    pub(crate) pod_options: CompileOptions,
}

/// All pages and the two questions before them.
pub(crate) struct Site {
    pub(crate) sources: SiteSources,
    pub(crate) authenticator: Authenticator,
    pub(crate) authorizer: Authorizer,
    pub(crate) zpages: ZPages,
    /// Changes how much is logged.
    pub(crate) verbosity: Option<VerbositySetter>,
    pub(crate) slis: Slis,
    pub(super) answers: Answers,
    pub(super) scrapes: Scrapes,
    /// The connections of the port.
    pub(super) admission: Admission,
}

impl Site {
    /// Answers a request.
    pub(crate) async fn answer(&self, call: Call) -> Answer {
        let start = Instant::now();
        let (mut request, peer) = (call.request, call.peer);
        let (uri, verb) = (request_uri(&request), logged_verb(&request));
        let agent = request.headers().get(USER_AGENT).cloned();
        let metrics = self.sources.metrics.serving();
        let address = peer.address.ip();
        let headers = request.headers_mut();
        let user = self.authenticator.recognise(headers, &peer.certificates, address).await;
        metrics.authenticated(user.as_ref().ok().map(|user| &*user.name), start.elapsed());
        let (mut reply, is_to_known_caller, ends_connection) = match user {
            Err(problem) => {
                tracing::error!(err = %problem, "Unable to authenticate the request");
                let reply = match problem {
                    AuthenticationError::Refused(_) => reply::unauthorized(request.headers()),
                    AuthenticationError::Busy => reply::too_many_requests(),
                };
                (reply, false, true)
            }
            Ok(user) => {
                let path = percent_decode_str(request.uri().path()).decode_utf8_lossy();
                let path = path.into_owned();
                let verb = request.method().as_str().to_ascii_lowercase();
                let of_api = ApiPath::of(&path).and_then(|api| api.wanted(request.method()));
                let wanted = of_api.unwrap_or(Attributes::Path { verb: &verb, path: &path });
                let asked = Instant::now();
                let verdict = self.authorizer.decide(&user, address, wanted).await;
                metrics.authorized(verdict.label(), asked.elapsed());
                let reply = match verdict {
                    Verdict::Allowed => self.page(request, &path, &user, address).await,
                    Verdict::Forbidden(reason) | Verdict::Denied(reason) => {
                        tracing::debug!(target: "V4", URI = %uri, reason, "Forbidden");
                        reply::forbidden(request.headers(), &user.name, wanted, &reason)
                    }
                    Verdict::Unknown(problem) => {
                        tracing::error!(err = %problem, URI = %uri, "The request could not be authorized");
                        reply::internal_error(&uri, &problem)
                    }
                    Verdict::Busy => reply::too_many_requests(),
                };
                (reply, !user.is_anonymous(), user.is_anonymous())
            }
        };
        reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        let agent = agent.as_ref().map(HeaderValue::as_bytes).unwrap_or_default();
        tracing::debug!(
            target: "V3",
            verb,
            URI = %uri,
            latency = ?start.elapsed(),
            userAgent = %String::from_utf8_lossy(agent),
            // The reference's scheduler gives requests no such id, and prints none.
            "audit-ID" = "",
            srcIP = %peer.address,
            resp = reply.status().as_u16(),
            "HTTP"
        );
        Answer { response: reply, is_to_known_caller, ends_connection }
    }

    async fn page(
        &self,
        request: Request<Incoming>,
        path: &str,
        user: &User,
        address: IpAddr,
    ) -> Reply {
        // Before the request is taken apart: a question is read from its body.
        if let Some(api) = ApiPath::of(path) {
            return self.answers.page(api, user, request, self.desk(address)).await;
        }
        let (parts, body) = request.into_parts();
        let (method, headers) = (&parts.method, &parts.headers);
        let query = query_pairs(parts.uri.query().unwrap_or_default());
        let is_reset = method == Method::DELETE;
        match path {
            "/healthz" => self.health_of(Endpoint::Healthz, &query),
            "/livez" => self.health_of(Endpoint::Livez, &query),
            "/readyz" => self.health_of(Endpoint::Readyz, &query),
            "/configz" => {
                reply::typed(StatusCode::OK, "application/json", self.sources.configz.to_string())
            }
            "/metrics" if is_reset => {
                self.sources.metrics.reset();
                reset_done()
            }
            "/metrics" => {
                // The numbers of connections are not kept up to date otherwise.
                self.count_connections();
                self.exposition(headers, self.sources.metrics.text()).await
            }
            "/metrics/slis" if is_reset => {
                self.slis.reset();
                reset_done()
            }
            "/metrics/slis" => self.exposition(headers, self.slis_text()).await,
            "/metrics/resources" => self.resources(method, headers).await,
            "/metrics/fragmentation" => {
                let desk = self.desk(address);
                self.fragmentation(method, headers, &query, user, desk).await
            }
            "/flagz" if self.zpages.has(Page::Flagz) => self.zpage(Page::Flagz, headers, &query),
            "/statusz" if self.zpages.has(Page::Statusz) => {
                self.zpage(Page::Statusz, headers, &query)
            }
            _ => {
                if let Some(check) = path.strip_prefix("/healthz/") {
                    self.health_check(Endpoint::Healthz, check)
                } else if let Some(check) = path.strip_prefix("/livez/") {
                    self.health_check(Endpoint::Livez, check)
                } else if let Some(check) = path.strip_prefix("/readyz/") {
                    self.health_check(Endpoint::Readyz, check)
                } else if self.sources.has_profiling {
                    self.debugging(method, path, &query, body).await
                } else {
                    reply::not_found()
                }
            }
        }
    }

    fn zpage(&self, page: Page, headers: &HeaderMap, query: &[(String, String)]) -> Reply {
        let pretty = query.iter().find(|(key, value)| key == "pretty" && !value.is_empty());
        let is_pretty = pretty
            .map(|(_, value)| matches!(value.as_str(), "1" | "t" | "T" | "true" | "TRUE" | "True"));
        self.zpages.reply(page, headers, is_pretty)
    }

    async fn debugging(
        &self,
        method: &Method,
        path: &str,
        query: &[(String, String)],
        body: Incoming,
    ) -> Reply {
        if path == "/debug/pprof" {
            return debugging::pprof_redirect();
        }
        if let Some(page) = path.strip_prefix("/debug/pprof/") {
            return debugging::pprof(page, query).await;
        }
        if path == "/debug/flags/v" {
            let body = Limited::new(body, MAX_BODY).collect().await;
            let body = body.map(|body| body.to_bytes()).map_err(|error| error.to_string());
            let text = match &body {
                Ok(bytes) => std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8"),
                Err(problem) => Err(problem.as_str()),
            };
            return debugging::set_verbosity(method, text, self.verbosity.as_ref());
        }
        if path == "/debug/flags" || path.starts_with("/debug/flags/") {
            return debugging::flags();
        }
        reply::not_found()
    }

    fn desk(&self, address: IpAddr) -> Desk<'_> {
        Desk {
            inbox: &self.sources.inbox,
            pod_options: &self.sources.pod_options,
            authorizer: &self.authorizer,
            address,
            is_synced: self.sources.progress.borrow().is_synced,
        }
    }

    /// How much of what is free no pod could use.
    async fn fragmentation(
        &self,
        method: &Method,
        headers: &HeaderMap,
        query: &[(String, String)],
        user: &User,
        desk: Desk<'_>,
    ) -> Reply {
        let progress = *self.sources.progress.borrow();
        // As with what pods take, only one of several schedulers says it.
        if !progress.is_synced || !progress.is_leading {
            return reply::plain(StatusCode::OK, "");
        }
        // There is nothing to reset: every scrape starts from zero.
        if method == Method::DELETE {
            return reset_done();
        }
        let by = query.iter().find(|(key, _)| key == "by").map(|(_, label)| label.as_str());
        match self.answers.fragmentation(by, user, headers, desk).await {
            Ok(text) => self.exposition(headers, text).await,
            Err(refused) => refused,
        }
    }

    /// What the pods take, as the scheduler knows it.
    async fn resources(&self, method: &Method, headers: &HeaderMap) -> Reply {
        let progress = *self.sources.progress.borrow();
        if !progress.is_synced || !progress.is_leading {
            return reply::plain(StatusCode::OK, "");
        }
        // There is nothing to reset: every scrape starts from zero.
        if method == Method::DELETE {
            return reset_done();
        }
        let Some(scrape) = self.scrapes.begin().await else {
            return reply::too_many_requests();
        };
        let page = async {
            let pods = self.pods().await?;
            let parts = PodResources::new(pods);
            scrape.reply(headers, parts).await.map_err(|error| error.to_string())
        };
        match page.await {
            Ok(reply) => self.with_start(reply),
            Err(problem) => reply::plain(StatusCode::INTERNAL_SERVER_ERROR, problem + "\n"),
        }
    }

    /// The pods as the core knows them.
    async fn pods(&self) -> Result<Vec<Arc<Pod>>, String> {
        let (ask, answer) = oneshot::channel();
        let asked = self.sources.inbox.observe(Observation::ListPods(ask));
        asked.map_err(|error| error.to_string())?;
        let pods = tokio::time::timeout(CORE_PATIENCE, answer).await;
        let pods = pods
            .map_err(|_| format!("the scheduling core did not answer within {CORE_PATIENCE:?}"))?;
        pods.map_err(|_| "the scheduling core has ended".to_owned())
    }

    fn failure(&self, check: Check) -> Option<String> {
        match check {
            Check::Ping | Check::LeaderElection => self.sources.core_hangs.borrow().then(|| {
                "the scheduling core hangs: it has worked on one thing for longer than it may"
                    .to_owned()
            }),
            Check::Shutdown => {
                self.sources.is_terminating.borrow().then(|| "process is shutting down".to_owned())
            }
            Check::Sync => (!self.sources.progress.borrow().is_synced)
                .then(|| "handlers are not fully synchronized".to_owned()),
        }
    }

    fn health_of(&self, endpoint: Endpoint, query: &[(String, String)]) -> Reply {
        let checks = endpoint.checks(self.sources.elects);
        let (is_well, text) =
            health::root(endpoint, checks, query, &self.slis, |check| self.failure(check));
        let status = if is_well { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
        reply::plain(status, text)
    }

    fn health_check(&self, endpoint: Endpoint, name: &str) -> Reply {
        let Some(check) =
            endpoint.checks(self.sources.elects).iter().find(|check| check.as_str() == name)
        else {
            return reply::not_found();
        };
        match self.failure(*check) {
            None => reply::plain(StatusCode::OK, "ok"),
            Some(reason) => {
                let text = format!("internal server error: {reason}\n");
                reply::plain(StatusCode::INTERNAL_SERVER_ERROR, text)
            }
        }
    }

    fn count_connections(&self) {
        let (n_known, n_others) = self.admission.counts();
        let metrics = &self.sources.metrics;
        metrics.publish_table(
            "connections of unknown callers",
            n_others,
            Some(n_others * MAX_HELD),
        );
        metrics.publish_table("connections of authenticated callers", n_known, None);
    }

    /// Metrics in text form, with the time since when they have been counted.
    async fn exposition(&self, asked: &HeaderMap, text: String) -> Reply {
        self.with_start(exposition::whole(asked, text).await)
    }

    fn with_start(&self, mut reply: Reply) -> Reply {
        reply.headers_mut().insert(STARTED_AT, HeaderValue::from(self.sources.started_at as i64));
        reply
    }

    fn slis_text(&self) -> String {
        let mut page = TextPage::default();
        self.slis.print(&mut page);
        let name = "process_start_time_seconds";
        let help = "[ALPHA] Start time of the process since unix epoch in seconds.";
        page.metric(name, "gauge", help);
        page.sample(name, &[], self.sources.started_at);
        page.into_string()
    }
}

/// What was asked for as it stands in the request: for HTTP/2, whose addresses have host and scheme here, path and query.
fn request_uri<B>(request: &Request<B>) -> String {
    let uri = request.uri();
    match uri.path_and_query() {
        Some(path) if request.version() == Version::HTTP_2 => path.as_str().to_owned(),
        _ => uri.to_string(),
    }
}

/// The verb of the log's access lines: the method, but for requests of the API that it does not tell apart.
fn logged_verb<B>(request: &Request<B>) -> String {
    let asked = query_pairs(request.uri().query().unwrap_or_default());
    let watch = asked.iter().find(|(key, _)| key == "watch").map(|(_, value)| value);
    let watches = watch.is_some_and(|value| !matches!(&*value.to_lowercase(), "0" | "false"));
    let applies = request.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == APPLY);
    match *request.method() {
        Method::GET if watches => "WATCH".to_owned(),
        Method::PATCH if applies => "APPLY".to_owned(),
        ref method => method.to_string(),
    }
}

/// Metrics were set back.
fn reset_done() -> Reply {
    reply::plain(StatusCode::OK, "metrics reset\n")
}

/// The keys and values of a query, decoded.
pub(super) fn query_pairs(query: &str) -> Vec<(String, String)> {
    let decoded =
        |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    query
        .split('&')
        .filter(|part| !part.is_empty())
        .map(|part| part.split_once('=').unwrap_or((part, "")))
        .map(|(key, value)| (decoded(key), decoded(value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_lines_have_what_the_request_says() {
        let of = |method: &str, uri: &str, version: Version, kind: &str| {
            let request = Request::builder().method(method).uri(uri).version(version);
            let request = request.header(CONTENT_TYPE, kind).body(()).unwrap();
            (logged_verb(&request), request_uri(&request))
        };
        let said = |verb: &str, uri: &str| (verb.to_owned(), uri.to_owned());
        let (old, new) = (Version::HTTP_11, Version::HTTP_2);
        assert_eq!(of("GET", "/readyz?verbose", old, ""), said("GET", "/readyz?verbose"));
        assert_eq!(of("GET", "https://x:1/readyz?a=b", new, ""), said("GET", "/readyz?a=b"));
        // Some clients of HTTP/1.1 send the whole address.
        assert_eq!(of("DELETE", "http://x:1/y", old, ""), said("DELETE", "http://x:1/y"));
        for (query, verb) in [("watch", "WATCH"), ("watch=True", "WATCH"), ("watch=0", "GET")] {
            assert_eq!(of("GET", &format!("/x?{query}"), old, "").0, verb);
        }
        assert_eq!(of("PUT", "/x?watch=1", old, "").0, "PUT");
        assert_eq!(of("PATCH", "/x", old, APPLY).0, "APPLY");
        assert_eq!(of("PATCH", "/x", old, "application/json").0, "PATCH");
    }

    #[test]
    fn queries_are_taken_apart_and_decoded() {
        let pairs = query_pairs("verbose&exclude=a%2Fb&exclude=c+d&&x=1=2&bad%zz=%ff");
        let pairs: Vec<(&str, &str)> =
            pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(
            pairs,
            [
                ("verbose", ""),
                ("exclude", "a/b"),
                ("exclude", "c d"),
                ("x", "1=2"),
                ("bad%zz", "\u{fffd}"),
            ]
        );
        assert!(query_pairs("").is_empty());
    }
}
