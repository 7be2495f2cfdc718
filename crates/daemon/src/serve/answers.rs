//! `/apis/answers.kube-scheduler.rs`: questions about scheduling, as API objects that are only ever created.
//!
//! The core takes a copy of its engine for each question; the answer is computed from the copy on a thread of its own.
//!
//! Invariants: an answer names no node, and no pod of another namespace, that its reader may not list; questions take at
//! most one part in [`SHARE`] of the core's time, and at most half of the processors; what questions hold in memory is bounded
//! by their number and size; work on an answer that nobody waits for any more ends with the attempt at hand, and keeps its
//! place until then.

mod api;
mod problem;

use std::num::NonZero;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::ALLOW;
use http::request::Parts;
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use kube_scheduler_answers::{
    Answer, ExplainOptions, Inquiry, Interrupt, Notes, Question, QuestionKind, Refusal, Visibility,
};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;

pub(super) use self::api::ApiPath;
use self::problem::Problem;
use super::authorization::{Attributes, Authorizer, Verdict};
use super::identity::User;
use super::reply::{self, Reply};
use super::site::query_pairs;
use crate::inbox::{self, Inbox, Moment, Observation};
use crate::plugin_services::apart;

/// How long a question may be. Read, JSON of small maps takes up to eighty times as much.
const MAX_QUESTION: usize = 256 << 10;
/// Questions that are read, wait or are answered; further ones are refused.
const MAX_QUESTIONS: usize = 4;
/// A question that took the core some time is followed by so many times as much without one.
const SHARE: u32 = 20;
/// How long a caller may take to send its question.
const BODY_PATIENCE: Duration = Duration::from_secs(10);
/// How long a question may wait for its turn, and for its answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// What an answer lists at most.
const LISTED: ExplainOptions = ExplainOptions { max_examples: 10, max_feasible: 100 };

/// The questions under way.
pub(super) struct Answers {
    places: Arc<Semaphore>,
    /// Whose turn it is at the core.
    turns: Arc<Semaphore>,
    /// Threads on which answers are computed.
    threads: Arc<Semaphore>,
}

impl Default for Answers {
    fn default() -> Self {
        let n_processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        let n_threads = (n_processors / 2).clamp(1, MAX_QUESTIONS);
        let semaphore = |n| Arc::new(Semaphore::new(n));
        Self {
            places: semaphore(MAX_QUESTIONS),
            turns: semaphore(1),
            threads: semaphore(n_threads),
        }
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

/// Ends the work on an answer once nobody waits for it.
struct Wanted(Interrupt);

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.set();
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
        let headers = &parts.headers;
        let allowed = match path {
            ApiPath::Questions { .. } => Method::POST,
            _ => Method::GET,
        };
        if parts.method != allowed {
            let message = format!("{} is not supported here: only {allowed} is", parts.method);
            let code = StatusCode::METHOD_NOT_ALLOWED;
            let mut reply = reply::refused(headers, code, "MethodNotAllowed", message);
            if let Ok(allowed) = HeaderValue::from_str(allowed.as_str()) {
                reply.headers_mut().insert(ALLOW, allowed);
            }
            return reply;
        }
        let (code, object) = match path {
            ApiPath::Groups => (StatusCode::OK, api::groups()),
            ApiPath::Group => (StatusCode::OK, api::group()),
            ApiPath::Resources => (StatusCode::OK, api::resources()),
            ApiPath::Questions { kind, namespace } => {
                match self.answer((kind, namespace), user, &parts, body, desk).await {
                    Ok(object) => (StatusCode::CREATED, object),
                    Err(problem) => return problem.reply(headers),
                }
            }
        };
        let text = reply::json(&object, reply::is_for_people(headers));
        reply::typed(code, "application/json", text)
    }

    async fn answer(
        &self,
        (kind, namespace): (QuestionKind, &str),
        user: &User,
        parts: &Parts,
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
        let question = Question::from_json(kind, namespace, &body)
            .map_err(|error| Problem::bad_request(error.to_string()))?;
        drop(body);
        let reader = reader(desk.authorizer, user).await?;
        check_demands(question.demands, reader)?;

        let question = Arc::new(question);
        let (answer, version) = self.compute(&question, desk.inbox, place).await?;
        let question = Arc::unwrap_or_clone(question);
        let answer = answer?.for_reader(&question, reader, LISTED);
        let rendered = rendered(&answer, parts);
        let notes = Notes { resource_version: version, rendered };
        question.answered(&answer, notes).map_err(|error| Problem::internal(&error.to_string()))
    }

    /// Waits for a thread and for a turn at the core, and computes the answer; with it comes how far the cluster had been seen.
    async fn compute(
        &self,
        question: &Arc<Question>,
        inbox: &Inbox,
        place: OwnedSemaphorePermit,
    ) -> Result<(Result<Answer, Refusal>, Option<String>), Problem> {
        let thread = turn_of(&self.threads).await?;
        let (inquiry, version) = self.inquire(question, inbox).await?;
        let interrupt = Interrupt::default();
        let (question, wanted) = (question.clone(), Wanted(interrupt.clone()));
        // Not on a thread that serves others: this takes as long as thousands of attempts.
        let work = tokio::task::spawn_blocking(move || {
            let answer = apart(|| inquiry.answer(&question, &interrupt));
            drop((question, thread, place));
            answer
        });
        let answer = timeout(PATIENCE, work).await;
        drop(wanted);
        let answer = answer.map_err(|_| {
            let message = format!("the answer took longer than {PATIENCE:?}: ask for less");
            Problem::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message)
        })?;
        Ok((answer.map_err(|_| Problem::internal("the answer broke down"))?, version))
    }

    /// Has the core take down what the answer needs.
    async fn inquire(
        &self,
        question: &Arc<Question>,
        inbox: &Inbox,
    ) -> Result<(Inquiry, Option<String>), Problem> {
        let turn = turn_of(&self.turns).await?;
        let (send, found) = oneshot::channel();
        let (runtime, question) = (Handle::current(), question.clone());
        let asked = inbox::Question(Box::new(move |engine, moment| {
            let start = Instant::now();
            let Moment { now, resource_version } = moment;
            let inquiry = apart(|| Inquiry::new(&question, engine, now));
            drop(question);
            let pause = pause_after(start.elapsed());
            // The caller may have given up.
            let _ = send.send((inquiry, resource_version));
            runtime.spawn(async move {
                tokio::time::sleep(pause).await;
                drop(turn);
            });
        }));
        inbox
            .observe(Observation::Ask(asked))
            .map_err(|ended| Problem::unavailable(&ended.to_string()))?;
        let found = timeout(PATIENCE, found).await.map_err(|_| late())?;
        found.map_err(|_| {
            Problem::internal("the answer broke down, or the scheduling core has ended")
        })
    }
}

/// Waits for one of a few.
async fn turn_of(turns: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Problem> {
    let turn = timeout(PATIENCE, turns.clone().acquire_owned()).await.map_err(|_| late())?;
    turn.map_err(|_| Problem::internal("the scheduling core has ended"))
}

fn late() -> Problem {
    Problem::unavailable("the scheduling core has too much to do; try again later")
}

/// How long the core has no further question after one that took it so long.
fn pause_after(spent: Duration) -> Duration {
    spent * (SHARE - 1)
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

/// What the user may see of the cluster.
async fn reader(authorizer: &Authorizer, user: &User) -> Result<Visibility, Problem> {
    Ok(Visibility {
        nodes: may_list(authorizer, user, "nodes").await?,
        all_pods: may_list(authorizer, user, "pods").await?,
    })
}

/// Whether the user may list these objects of the core group in the whole cluster.
async fn may_list(authorizer: &Authorizer, user: &User, resource: &str) -> Result<bool, Problem> {
    let wanted =
        Attributes::Resource { verb: "list", group: "", version: "v1", resource, namespace: "" };
    match authorizer.decide(user, wanted).await {
        Verdict::Allowed => Ok(true),
        Verdict::Forbidden(_) | Verdict::Denied(_) => Ok(false),
        Verdict::Unknown(problem) => Err(Problem::internal(&problem)),
    }
}

/// A question must not find out what its reader may not see by the names in it.
fn check_demands(demands: Visibility, reader: Visibility) -> Result<(), Problem> {
    if demands.nodes && !reader.nodes {
        return Err(Problem::forbidden("changes of nodes are for readers who may list nodes"));
    }
    if demands.all_pods && !reader.all_pods {
        let message = "pods of other namespaces are for readers who may list pods in all of them";
        return Err(Problem::forbidden(message));
    }
    Ok(())
}

/// The answer for people, if the request asks for it.
fn rendered(answer: &Answer, parts: &Parts) -> Option<String> {
    let pairs = query_pairs(parts.uri.query().unwrap_or_default());
    let (_, form) = pairs.into_iter().find(|(key, _)| key == "rendered")?;
    match form.as_str() {
        "table" => Some(answer.table(false)),
        "wide" => Some(answer.table(true)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_take_one_part_in_twenty() {
        let spent = Duration::from_millis(7);
        assert_eq!(spent + pause_after(spent), spent * 20);
    }
}
