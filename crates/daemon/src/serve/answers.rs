//! `/apis/answers.kube-scheduler.rs`: questions about scheduling, as API objects that are only ever created.
//!
//! The core takes a copy of its engine for each question; the answer is computed from the copy on a thread of its own.
//!
//! Invariants: an answer names no node, and no pod of another namespace, that its reader may not list; questions take at
//! most one part in [`SHARE`](share::SHARE) of the core's time, and at most half of the processors (`threads` says what there is on small
//! machines); what questions hold in memory is bounded by their number and size; one user has at most half of the places for questions, and one thread; when a caller is gone, the work on its
//! answer ends after the current attempt, and counts as one of the questions until then.

mod api;
mod fragmentation;
mod places;
mod problem;
mod share;
mod threads;

use std::error::Error;
use std::net::IpAddr;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use http::header::ALLOW;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use kube_scheduler_answers::{
    Answer, ExplainOptions, Inquiry, Interrupt, Notes, Question, QuestionKind, Visibility,
};
use kube_scheduler_api_types::CompileOptions;
use tokio::sync::oneshot;
use tokio::time::{timeout, timeout_at};

pub(super) use self::api::ApiPath;
use self::places::{Place, Places};
use self::problem::Problem;
use self::share::Share;
use self::threads::Threads;
use super::authorization::{Attributes, Authorizer, Verdict};
use super::identity::User;
use super::options::ConnectionPatience;
use super::reply::{self, Reply};
use super::review::ReviewError;
use super::site::query_pairs;
use crate::inbox::{self, Inbox, Moment, Observation};
use crate::plugin_services::apart;

/// How long a question may be.
const MAX_QUESTION: usize = Question::MAX_LENGTH;

/// How long things may take.
#[derive(Clone, Copy)]
struct Patience {
    /// Until a caller has sent its question.
    body: Duration,
    /// Until it is a question's turn.
    turn: Duration,
    /// Until its answer is computed then.
    answer: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        let (body, turn) = (ConnectionPatience::default().question, Duration::from_secs(30));
        Self { body, turn, answer: turn }
    }
}

/// The questions under way.
pub(super) struct Answers {
    places: Places,
    /// Whose turn it is at the core.
    share: Share,
    /// Threads on which answers are computed.
    threads: Threads,
    patience: Patience,
}

impl Default for Answers {
    fn default() -> Self {
        let n_processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self {
            places: Places::default(),
            share: Share::default(),
            threads: Threads::on(n_processors),
            patience: Patience::default(),
        }
    }
}

/// Where answers come from.
#[derive(Clone, Copy)]
pub(super) struct Desk<'s> {
    pub(super) inbox: &'s Inbox,
    /// How the scheduler reads pods.
    pub(super) pod_options: &'s CompileOptions,
    pub(super) authorizer: &'s Authorizer,
    /// Where the caller is.
    pub(super) address: IpAddr,
    /// Whether the whole cluster has been seen.
    pub(super) is_synced: bool,
}

/// Ends the work on an answer once its caller is gone.
struct InterruptOnDrop(Interrupt);

impl Drop for InterruptOnDrop {
    fn drop(&mut self) {
        self.0.set();
    }
}

impl Answers {
    /// Answers to callers that have this long to send a question.
    pub(super) fn with_questions_within(body: Duration) -> Self {
        let patience = Patience { body, ..Patience::default() };
        Self { patience, ..Self::default() }
    }

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
        let object = match path {
            ApiPath::Groups => api::groups(),
            ApiPath::Group => api::group(),
            ApiPath::Resources => api::resources(),
            ApiPath::Questions { kind, namespace } => {
                match self.answer((kind, namespace), user, &parts, body, desk).await {
                    Ok(text) => {
                        return reply::typed(StatusCode::CREATED, "application/json", text);
                    }
                    Err(problem) => return problem.reply(headers),
                }
            }
        };
        let text = reply::json(&object, reply::is_for_people(headers));
        reply::typed(StatusCode::OK, "application/json", text)
    }

    /// The text of the answer.
    async fn answer(
        &self,
        (kind, namespace): (QuestionKind, &str),
        user: &User,
        parts: &Parts,
        body: Incoming,
        desk: Desk<'_>,
    ) -> Result<String, Problem> {
        let place = self.places.take(&user.name)?;
        if !desk.is_synced {
            return Err(Problem::unavailable("the scheduler has not seen the whole cluster yet"));
        }
        let rendered = TableForm::asked_for(parts)?;
        let body = received(body, self.patience.body).await?;
        let question = Question::from_json(kind, namespace, &body, desk.pod_options)
            .map_err(|error| Problem::bad_request(error.to_string()))?;
        drop(body);
        let reader = reader(desk, user).await?;
        check_demands(question.demands, reader)?;
        let form = Form { reader, rendered, is_pretty: reply::is_for_people(&parts.headers) };
        let write = move |question, answer, moment| form.text(question, answer, moment);
        self.compute(Arc::new(question), write, desk.inbox, place).await
    }

    /// How much of what is free no pod could use, as metrics; with `by`, for the values of that label of nodes. They are computed
    /// for each call, as the answer to a question of `user` is.
    pub(super) async fn fragmentation(
        &self,
        by: Option<&str>,
        user: &User,
        headers: &HeaderMap,
        desk: Desk<'_>,
    ) -> Result<String, Reply> {
        let text = async {
            let place = self.places.take(&user.name)?;
            let question = fragmentation::question(by, desk.pod_options)?;
            let reader = reader(desk, user).await?;
            let write = move |question: Arc<Question>, answer: Answer, _| {
                Ok(fragmentation::text(&answer.for_reader(&question, reader, ExplainOptions::SENT)))
            };
            self.compute(Arc::new(question), write, desk.inbox, place).await
        };
        text.await.map_err(|problem: Problem| problem.reply(headers))
    }

    /// Waits for a thread and for a turn at the core, computes the answer, and writes its text.
    async fn compute(
        &self,
        question: Arc<Question>,
        write: impl FnOnce(Arc<Question>, Answer, Moment) -> Result<String, Problem> + Send + 'static,
        inbox: &Inbox,
        place: Place,
    ) -> Result<String, Problem> {
        let late_at = tokio::time::Instant::now() + self.patience.turn;
        // First wait for the user's other questions: so at most one question of a user waits together with those of others.
        let own_turn = timeout_at(late_at, place.line.clone().acquire_owned()).await;
        let own_turn = own_turn.map_err(|_| late())?.map_err(|_| core_has_ended())?;
        let thread = timeout_at(late_at, self.threads.one(question.is_brief())).await;
        let thread = thread.map_err(|_| late())?.ok_or_else(core_has_ended)?;
        let (inquiry, moment) = self.inquire(&question, inbox, late_at).await?;
        let interrupt = Interrupt::default();
        let wanted = InterruptOnDrop(interrupt.clone());
        // Not on a thread that serves others: this takes as long as thousands of attempts, and the text may be long.
        let work = tokio::task::spawn_blocking(move || {
            let text = thread.spend(|| {
                let answer = apart(|| inquiry.answer(&question, &interrupt));
                answer.map_err(Problem::from).and_then(|answer| write(question, answer, moment))
            });
            // Until here it takes processor and memory.
            drop((own_turn, place));
            text
        });
        let text = timeout(self.patience.answer, work).await;
        drop(wanted);
        let text = text.map_err(|_| {
            let message =
                format!("the answer took longer than {:?}: ask for less", self.patience.answer);
            Problem::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message)
        })?;
        text.map_err(|_| Problem::internal("the answer broke down"))?
    }

    /// Has the core record what the answer needs.
    async fn inquire(
        &self,
        question: &Arc<Question>,
        inbox: &Inbox,
        late_at: tokio::time::Instant,
    ) -> Result<(Inquiry, Moment), Problem> {
        let turn = timeout_at(late_at, self.share.turn()).await.map_err(|_| late())?;
        let turn = turn.ok_or_else(core_has_ended)?;
        let (send, found) = oneshot::channel();
        let question = question.clone();
        let asked = inbox::Question(Box::new(move |engine, moment| {
            let inquiry = turn.spend(|| {
                let inquiry = apart(|| Inquiry::new(&question, engine, moment.now));
                drop(question);
                inquiry
            });
            // The caller may have given up.
            let _ = send.send((inquiry, moment));
        }));
        inbox
            .observe(Observation::Ask(asked))
            .map_err(|ended| Problem::unavailable(&ended.to_string()))?;
        let found = timeout_at(late_at, found).await.map_err(|_| late())?;
        found.map_err(|_| {
            Problem::internal("the answer broke down, or the scheduling core has ended")
        })
    }
}

fn core_has_ended() -> Problem {
    Problem::internal("the scheduling core has ended")
}

fn late() -> Problem {
    Problem::unavailable("the scheduling core has too much to do; try again later")
}

async fn received<B>(body: B, patience: Duration) -> Result<bytes::Bytes, Problem>
where
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let body = timeout(patience, Limited::new(body, MAX_QUESTION).collect()).await;
    let body = body.map_err(|_| {
        let message = format!("the request was not sent within {patience:?}");
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
async fn reader(desk: Desk<'_>, user: &User) -> Result<Visibility, Problem> {
    Ok(Visibility {
        nodes: may_list(desk, user, "nodes").await?,
        all_pods: may_list(desk, user, "pods").await?,
    })
}

/// Whether the user may list these objects of the core group in the whole cluster.
async fn may_list(desk: Desk<'_>, user: &User, resource: &str) -> Result<bool, Problem> {
    let wanted =
        Attributes::Resource { verb: "list", group: "", version: "v1", resource, namespace: "" };
    match desk.authorizer.decide(user, desk.address, wanted).await {
        Verdict::Allowed => Ok(true),
        Verdict::Forbidden(_) | Verdict::Denied(_) => Ok(false),
        Verdict::Unknown(problem) => Err(Problem::internal(&problem)),
        Verdict::Busy => Err(Problem::new(
            StatusCode::TOO_MANY_REQUESTS,
            "TooManyRequests",
            ReviewError::Busy.to_string(),
        )),
    }
}

/// A question must not find out what its reader may not see by the names in it.
fn check_demands(demands: Visibility, reader: Visibility) -> Result<(), Problem> {
    if demands.nodes && !reader.nodes {
        let message = "changes of nodes, and claims that have their volumes or devices, are for readers who may list nodes";
        return Err(Problem::forbidden(message));
    }
    if demands.all_pods && !reader.all_pods {
        let message =
            "pods and objects of other namespaces are for readers who may list pods in all of them";
        return Err(Problem::forbidden(message));
    }
    Ok(())
}

/// A table beside the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TableForm {
    Table,
    Wide,
}

impl TableForm {
    /// The one that the request asks for, if it asks for one.
    fn asked_for(parts: &Parts) -> Result<Option<Self>, Problem> {
        let pairs = query_pairs(parts.uri.query().unwrap_or_default());
        let Some((_, form)) = pairs.into_iter().find(|(key, _)| key == "rendered") else {
            return Ok(None);
        };
        match form.as_str() {
            "table" => Ok(Some(Self::Table)),
            "wide" => Ok(Some(Self::Wide)),
            _ => Err(Problem::bad_request(format!("rendered: {form:?}: expected table or wide"))),
        }
    }
}

/// How an answer is written for its reader.
#[derive(Clone, Copy)]
struct Form {
    reader: Visibility,
    rendered: Option<TableForm>,
    is_pretty: bool,
}

impl Form {
    /// The object with its answer, as text.
    fn text(
        self,
        question: Arc<Question>,
        answer: Answer,
        moment: Moment,
    ) -> Result<String, Problem> {
        let Moment { resource_version, is_leading, .. } = moment;
        let question = Arc::unwrap_or_clone(question);
        let answer = answer.for_reader(&question, self.reader, ExplainOptions::SENT);
        let answer = if is_leading { answer } else { answer.of_standby() };
        let rendered = self.rendered.map(|rendered| answer.table(rendered == TableForm::Wide));
        let notes = Notes { resource_version, is_leading, rendered };
        let object = question.answered(&answer, notes);
        let object = object.map_err(|error| Problem::internal(&error.to_string()))?;
        Ok(reply::json(&object, self.is_pretty))
    }
}

#[cfg(test)]
mod tests;
