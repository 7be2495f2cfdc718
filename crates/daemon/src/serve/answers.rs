//! `/apis/answers.kube-scheduler.rs`: questions about scheduling, as API objects that are only ever created.
//!
//! Invariants: an answer names no node, and no pod of another namespace, that its reader may not list; questions take at
//! most one part in [`SHARE`] of the core's time; what questions hold in memory is bounded by their number and size; a
//! question whose caller has gone keeps its place until the work on it has ended.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{ALLOW, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use kube_scheduler_answers::{
    API_GROUP, ExplainOptions, Explanation, PodQuestion, QuestionKind, Refusal, Visibility,
    explain, preemption, suggestions,
};
use kube_scheduler_api_types::Timestamp;
use kube_scheduler_engine::Engine;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;

use super::authorization::{Attributes, Authorizer, Verdict};
use super::identity::User;
use super::reply::{self, Reply};
use crate::inbox::{Inbox, Observation, Question};

const VERSION: &str = "v1alpha1";
/// How long a question may be. Read, JSON of small maps takes up to eighty times as much.
const MAX_QUESTION: usize = 256 << 10;
/// Questions that are read, wait or are answered; further ones are refused.
const MAX_QUESTIONS: usize = 4;
/// A question that took the core some time is followed by so many times as much without one.
const SHARE: u32 = 20;
/// How long a caller may take to send its question.
const BODY_PATIENCE: Duration = Duration::from_secs(10);
/// How long a question may wait for its turn, and for its answer.
const CORE_PATIENCE: Duration = Duration::from_secs(30);
/// What an answer lists at most.
const LISTED: ExplainOptions = ExplainOptions { max_examples: 10, max_feasible: 100 };

/// A path of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ApiPath<'p> {
    /// The groups that are served.
    Groups,
    /// The versions of the group.
    Group,
    /// The resources of the version.
    Resources,
    /// Questions about pods of a namespace.
    Questions { kind: QuestionKind, namespace: &'p str },
}

impl<'p> ApiPath<'p> {
    /// The page at `path`, if it is one of the API.
    pub(super) fn of(path: &'p str) -> Option<Self> {
        let rest = path.strip_prefix("/apis")?;
        if rest.is_empty() || rest == "/" {
            return Some(Self::Groups);
        }
        let mut parts = rest.strip_prefix('/')?.split('/');
        if parts.next() != Some(API_GROUP) {
            return None;
        }
        match (parts.next(), parts.next(), parts.next(), parts.next(), parts.next()) {
            (None, ..) => Some(Self::Group),
            (Some(VERSION), None, ..) => Some(Self::Resources),
            (Some(VERSION), Some("namespaces"), Some(namespace), Some(resource), None)
                if !namespace.is_empty() =>
            {
                let mut kinds = QuestionKind::ALL.into_iter();
                let kind = kinds.find(|kind| kind.resource() == resource)?;
                Some(Self::Questions { kind, namespace })
            }
            _ => None,
        }
    }

    /// What a request with this method wants there.
    pub(super) fn wanted(self, method: &Method) -> Option<Attributes<'p>> {
        let Self::Questions { kind, namespace } = self else { return None };
        let verb = match *method {
            Method::POST => "create",
            Method::GET | Method::HEAD => "list",
            Method::PUT => "update",
            Method::PATCH => "patch",
            _ => "deletecollection",
        };
        Some(Attributes::Resource {
            verb,
            group: API_GROUP,
            version: VERSION,
            resource: kind.resource(),
            namespace,
        })
    }
}

/// The questions under way.
pub(super) struct Answers {
    places: Arc<Semaphore>,
    /// Whose turn it is at the core.
    turns: Arc<Semaphore>,
}

impl Default for Answers {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(MAX_QUESTIONS)), turns: Arc::new(Semaphore::new(1)) }
    }
}

/// Where answers come from.
#[derive(Clone, Copy)]
pub(super) struct Desk<'s> {
    pub(super) inbox: &'s Inbox,
    pub(super) authorizer: &'s Authorizer,
    /// Whether the whole cluster has been seen.
    pub(super) is_synced: bool,
}

/// What the core found out.
struct Found<T> {
    found: T,
    now: Timestamp,
    place: OwnedSemaphorePermit,
}

/// Why there is no answer, as the API says it.
struct Problem {
    code: StatusCode,
    reason: &'static str,
    message: String,
    retry: bool,
}

impl Problem {
    fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        let retry = matches!(code, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        Self { code, reason, message: message.into(), retry }
    }

    fn unavailable(message: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
    }

    fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    fn reply(self, asked: &HeaderMap) -> Reply {
        let mut reply = reply::refused(asked, self.code, self.reason, self.message);
        if self.retry {
            reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        reply
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let (code, reason) = match &refusal {
            Refusal::NoSuchPod(_) => (StatusCode::NOT_FOUND, "NotFound"),
            _ => (StatusCode::UNPROCESSABLE_ENTITY, "Invalid"),
        };
        Self::new(code, reason, refusal.to_string())
    }
}

impl Answers {
    /// The page at a path of the API. That `user` may do what is wanted has been decided.
    pub(super) async fn page(
        &self,
        path: ApiPath<'_>,
        user: &User,
        request: Request<Incoming>,
        desk: Desk<'_>,
    ) -> Reply {
        let (parts, body) = request.into_parts();
        let (method, headers) = (&parts.method, &parts.headers);
        let (namespace, allowed) = match path {
            ApiPath::Questions { namespace, .. } => (namespace, Method::POST),
            _ => ("", Method::GET),
        };
        if *method != allowed {
            let message = format!("{method} is not supported here: only {allowed} is");
            let code = StatusCode::METHOD_NOT_ALLOWED;
            let mut reply = reply::refused(headers, code, "MethodNotAllowed", message);
            if let Ok(allowed) = HeaderValue::from_str(allowed.as_str()) {
                reply.headers_mut().insert(ALLOW, allowed);
            }
            return reply;
        }
        let object = match path {
            ApiPath::Groups => {
                json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group()]})
            }
            ApiPath::Group => group(),
            ApiPath::Resources => resources(),
            ApiPath::Questions { kind, namespace } => {
                match self.answer(kind, namespace, user, body, desk).await {
                    Ok(object) => object,
                    Err(problem) => return problem.reply(headers),
                }
            }
        };
        let code = if namespace.is_empty() { StatusCode::OK } else { StatusCode::CREATED };
        let text = reply::json(&object, reply::is_for_people(headers));
        reply::typed(code, "application/json", text)
    }

    async fn answer(
        &self,
        kind: QuestionKind,
        namespace: &str,
        user: &User,
        body: Incoming,
        desk: Desk<'_>,
    ) -> Result<serde_json::Value, Problem> {
        let place = self.places.clone().try_acquire_owned().map_err(|_| {
            let message = format!("{MAX_QUESTIONS} questions are being answered; try again later");
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message)
        })?;
        if !desk.is_synced {
            return Err(Problem::unavailable("the scheduler has not seen the whole cluster yet"));
        }
        let body = received(body).await?;
        let question = PodQuestion::from_json(kind, namespace, &body)
            .map_err(|error| Problem::bad_request(error.to_string()))?;
        drop(body);
        let reader = Visibility {
            nodes: may_list(desk.authorizer, user, "nodes").await?,
            all_pods: may_list(desk.authorizer, user, "pods").await?,
        };
        let answered = match kind {
            QuestionKind::Preemption => {
                let subject = question.subject.clone();
                let work =
                    move |engine: &mut Engine, now| preemption(engine, &subject, LISTED, now);
                let answer = self.ask(desk.inbox, place, work).await?.found?;
                question.answered(&answer.limited(LISTED).visible_to(reader))
            }
            _ => {
                let answer = self.explain(&question, desk.inbox, place).await?;
                question.answered(&answer.limited(LISTED).visible_to(reader))
            }
        };
        answered.map_err(|error| internal(&error.to_string()))
    }

    /// Explains a pod, with suggestions if they are asked for.
    async fn explain(
        &self,
        question: &PodQuestion,
        inbox: &Inbox,
        place: OwnedSemaphorePermit,
    ) -> Result<Explanation, Problem> {
        let (subject, suggest) = (question.subject.clone(), question.suggest);
        let work = move |engine: &mut Engine, now| {
            let options = if suggest { ExplainOptions::ALL } else { LISTED };
            let answer = explain(engine, &subject, options, now);
            let fork = (suggest && answer.is_ok()).then(|| engine.fork(now));
            (answer, fork)
        };
        let Found { found: (answer, fork), now, place } = self.ask(inbox, place, work).await?;
        let mut answer = answer?;
        if let Some(engine) = fork
            && let Some(pod) = question.subject.pod_in(&engine)
        {
            // Not on a thread of the runtime: this takes as long as hundreds of attempts.
            let tried = tokio::task::spawn_blocking(move || {
                answer.suggestions = suggestions(&engine, &pod, &answer, now);
                drop((engine, place));
                answer
            });
            answer = tried.await.map_err(|_| internal("the answer broke down"))?;
        }
        Ok(answer)
    }

    /// Waits for a turn at the core, and for what it finds.
    async fn ask<T: Send + 'static>(
        &self,
        inbox: &Inbox,
        place: OwnedSemaphorePermit,
        work: impl FnOnce(&mut Engine, Timestamp) -> T + Send + 'static,
    ) -> Result<Found<T>, Problem> {
        let late =
            |_| Problem::unavailable("the scheduling core has too much to do; try again later");
        let turn =
            timeout(CORE_PATIENCE, self.turns.clone().acquire_owned()).await.map_err(late)?;
        let Ok(turn) = turn else { return Err(internal("the scheduling core has ended")) };
        let (send, answer) = oneshot::channel();
        let runtime = Handle::current();
        let question = Question(Box::new(move |engine, now| {
            let start = Instant::now();
            let found = work(engine, now);
            let pause = pause_after(start.elapsed());
            // The caller may have given up.
            let _ = send.send(Found { found, now, place });
            runtime.spawn(async move {
                tokio::time::sleep(pause).await;
                drop(turn);
            });
        }));
        inbox
            .observe(Observation::Ask(question))
            .map_err(|ended| Problem::unavailable(&ended.to_string()))?;
        let found = timeout(CORE_PATIENCE, answer).await.map_err(late)?;
        found.map_err(|_| internal("the answer broke down, or the scheduling core has ended"))
    }
}

/// How long the core has no further question after one that took it so long.
fn pause_after(spent: Duration) -> Duration {
    spent * (SHARE - 1)
}

fn internal(message: &str) -> Problem {
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
}

async fn received(body: Incoming) -> Result<bytes::Bytes, Problem> {
    let body = timeout(BODY_PATIENCE, Limited::new(body, MAX_QUESTION).collect()).await;
    let body = body.map_err(|_| {
        let message = format!("the request was not sent within {BODY_PATIENCE:?}");
        Problem::new(StatusCode::REQUEST_TIMEOUT, "Timeout", message)
    })?;
    match body {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            let message =
                format!("the request is too long: at most {MAX_QUESTION} bytes are allowed");
            Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message))
        }
        Err(error) => Err(Problem::bad_request(error.to_string())),
    }
}

/// Whether the user may list these objects of the core group in the whole cluster.
async fn may_list(authorizer: &Authorizer, user: &User, resource: &str) -> Result<bool, Problem> {
    let wanted =
        Attributes::Resource { verb: "list", group: "", version: "v1", resource, namespace: "" };
    match authorizer.decide(user, wanted).await {
        Verdict::Allowed => Ok(true),
        Verdict::Forbidden(_) | Verdict::Denied(_) => Ok(false),
        Verdict::Unknown(problem) => Err(internal(&problem)),
    }
}

fn group() -> serde_json::Value {
    let version = json!({"groupVersion": format!("{API_GROUP}/{VERSION}"), "version": VERSION});
    json!({
        "kind": "APIGroup", "apiVersion": "v1", "name": API_GROUP,
        "versions": [version], "preferredVersion": version,
    })
}

fn resources() -> serde_json::Value {
    let resources = QuestionKind::ALL.map(|kind| {
        json!({
            "name": kind.resource(), "singularName": kind.singular(), "namespaced": true,
            "kind": kind.kind(), "verbs": ["create"],
        })
    });
    json!({
        "kind": "APIResourceList", "apiVersion": "v1",
        "groupVersion": format!("{API_GROUP}/{VERSION}"),
        "resources": resources,
    })
}

#[cfg(test)]
mod tests {
    use kube_scheduler_answers::API_VERSION;

    use super::*;

    #[test]
    fn paths_are_those_of_an_api() {
        let prefix = format!("/apis/{API_VERSION}");
        for (path, expected) in [
            ("/apis", Some(ApiPath::Groups)),
            ("/apis/", Some(ApiPath::Groups)),
            ("/apis/answers.kube-scheduler.rs", Some(ApiPath::Group)),
            (&*prefix, Some(ApiPath::Resources)),
            (
                &*format!("{prefix}/namespaces/web/explanations"),
                Some(ApiPath::Questions { kind: QuestionKind::Explanation, namespace: "web" }),
            ),
            (
                &*format!("{prefix}/namespaces/web/preemptions"),
                Some(ApiPath::Questions { kind: QuestionKind::Preemption, namespace: "web" }),
            ),
            (&*format!("{prefix}/namespaces//explanations"), None),
            (&*format!("{prefix}/namespaces/web/explanations/x"), None),
            (&*format!("{prefix}/namespaces/web/whatever"), None),
            ("/apisx", None),
            ("/apis/apps/v1", None),
            ("/metrics", None),
        ] {
            assert_eq!(ApiPath::of(path), expected, "{path}");
        }
    }

    #[test]
    fn questions_take_one_part_in_twenty() {
        let spent = Duration::from_millis(7);
        assert_eq!(spent + pause_after(spent), spent * 20);
    }

    #[test]
    fn the_version_is_that_of_the_answers() {
        assert_eq!(format!("{API_GROUP}/{VERSION}"), API_VERSION);
    }
}
