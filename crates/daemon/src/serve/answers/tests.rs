//! Nobody waits for ever, and nobody is waited for.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::thread;

use bytes::Bytes;
use hyper::body::Frame;
use kube_scheduler_api_types::Timestamp;
use kube_scheduler_config::{Configuration, FeatureGates};
use kube_scheduler_engine::{Engine, EngineOptions};

use super::places::MAX_QUESTIONS;
use super::*;
use crate::inbox::InboxReceiver;

/// Short, for what never comes.
const SHORT: Duration = Duration::from_millis(20);
/// Longer than any of this takes.
const LONG: Duration = Duration::from_secs(600);

/// A body of which nothing more comes.
struct Silent;

impl Body for Silent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }
}

fn answers(turn: Duration, answer: Duration) -> Answers {
    let patience = Patience { turn, answer, ..Patience::default() };
    // One thread, and a part of one for brief answers.
    Answers { threads: Threads::on(2), patience, ..Answers::default() }
}

fn question(kind: QuestionKind) -> Arc<Question> {
    let options = CompileOptions::default();
    let arguments = serde_json::json!({});
    Arc::new(Question::from_arguments(kind, &arguments, "default", &options).unwrap())
}

/// A core that answers every question, until its inbox is gone.
fn core(receiver: InboxReceiver) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut config = Configuration::default();
        kube_scheduler_config::default(&mut config, &FeatureGates::default());
        let registry = kube_scheduler_plugins_intree::registry();
        let mut engine = Engine::new(&config, &registry, EngineOptions::default()).unwrap();
        for observation in receiver.observations {
            if let Observation::Ask(inbox::Question(ask)) = observation {
                let now = Timestamp::from_millis(1_000_000);
                ask(&mut engine, Moment { now, resource_version: None, is_leading: true });
            }
        }
    })
}

async fn computed(
    answers: &Answers,
    inbox: &Inbox,
    write: impl FnOnce() -> String + Send + 'static,
) -> Result<String, StatusCode> {
    computed_for("user", answers, inbox, write).await
}

async fn computed_for(
    user: &str,
    answers: &Answers,
    inbox: &Inbox,
    write: impl FnOnce() -> String + Send + 'static,
) -> Result<String, StatusCode> {
    computed_about(QuestionKind::Fragmentation, user, answers, inbox, write).await
}

async fn computed_about(
    kind: QuestionKind,
    user: &str,
    answers: &Answers,
    inbox: &Inbox,
    write: impl FnOnce() -> String + Send + 'static,
) -> Result<String, StatusCode> {
    let place = answers.places.take(user).map_err(status)?;
    let write = move |_, _, _| Ok(write());
    answers.compute(question(kind), write, inbox, place).await.map_err(status)
}

fn status(problem: Problem) -> StatusCode {
    problem.reply(&HeaderMap::new()).status()
}

#[tokio::test]
async fn a_question_has_to_be_sent_in_time() {
    let problem = received(Silent, SHORT).await.unwrap_err();
    assert_eq!(status(problem), StatusCode::REQUEST_TIMEOUT);
}

#[tokio::test]
async fn who_has_no_turn_in_time_is_told_to_come_again() {
    let (inbox, receiver) = Inbox::open();
    // No core takes anything.
    let late = answers(SHORT, LONG);
    let outcome = computed(&late, &inbox, String::new).await;
    assert_eq!(outcome, Err(StatusCode::SERVICE_UNAVAILABLE));
    // Another answer has the thread.
    let thread = late.threads.all.clone().acquire_owned().await.unwrap();
    let outcome = computed(&late, &inbox, String::new).await;
    assert_eq!(outcome, Err(StatusCode::SERVICE_UNAVAILABLE));
    drop(thread);
    let core = core(receiver);
    let outcome = computed(&answers(LONG, LONG), &inbox, || "answer".to_owned()).await;
    assert_eq!(outcome.as_deref(), Ok("answer"));
    drop(inbox);
    core.join().unwrap();
}

#[tokio::test]
async fn an_answer_that_takes_too_long_is_given_up_and_counts_until_it_has_ended() {
    let (inbox, receiver) = Inbox::open();
    let core = core(receiver);
    let answers = answers(LONG, SHORT);
    let (end, is_to_end) = mpsc::channel::<()>();
    let outcome = computed(&answers, &inbox, move || {
        let _ = is_to_end.recv();
        String::new()
    });
    assert_eq!(outcome.await, Err(StatusCode::GATEWAY_TIMEOUT));
    assert_eq!(answers.places.free.available_permits(), MAX_QUESTIONS - 1);
    assert_eq!(answers.threads.all.available_permits(), 0);
    drop(end);
    // Once it has ended, its place is free.
    let all = u32::try_from(MAX_QUESTIONS).unwrap();
    drop(answers.places.free.acquire_many(all).await.unwrap());
    assert_eq!(answers.threads.all.available_permits(), 1);
    drop(inbox);
    core.join().unwrap();
}

#[tokio::test]
async fn a_second_question_of_a_user_lets_those_of_others_go_first() {
    let (inbox, receiver) = Inbox::open();
    let core = core(receiver);
    let answers = Answers { threads: Threads::on(4), ..answers(LONG, LONG) };
    let (end, is_to_end) = mpsc::channel::<()>();
    let (begin, has_begun) = oneshot::channel::<()>();
    let first = computed_for("greedy", &answers, &inbox, move || {
        let _ = begin.send(());
        let _ = is_to_end.recv();
        "first".to_owned()
    });
    let others = async {
        has_begun.await.unwrap();
        // There is a thread for it, and it does not get it; another user's question does.
        let mut second = Box::pin(computed_for("greedy", &answers, &inbox, || "second".to_owned()));
        let waits = timeout(SHORT, &mut second).await;
        assert!(waits.is_err(), "{waits:?}");
        let other = computed_for("other", &answers, &inbox, || "other".to_owned()).await;
        assert_eq!(other.as_deref(), Ok("other"));
        drop(end);
        second.await
    };
    let (first, second) = tokio::join!(first, others);
    assert_eq!((first.as_deref(), second.as_deref()), (Ok("first"), Ok("second")));
    drop(inbox);
    core.join().unwrap();
}

#[tokio::test]
async fn a_brief_question_does_not_wait_for_a_long_one() {
    let (inbox, receiver) = Inbox::open();
    let core = core(receiver);
    let answers = answers(LONG, LONG);
    let (end, is_to_end) = mpsc::channel::<()>();
    let (begin, has_begun) = oneshot::channel::<()>();
    let long = computed_for("one", &answers, &inbox, move || {
        let _ = begin.send(());
        let _ = is_to_end.recv();
        "long".to_owned()
    });
    let others = async {
        has_begun.await.unwrap();
        // There is one thread for long ones.
        let mut second = Box::pin(computed_for("other", &answers, &inbox, || "second".to_owned()));
        let waits = timeout(SHORT, &mut second).await;
        assert!(waits.is_err(), "{waits:?}");
        for _ in 0..2 {
            let brief = || "brief".to_owned();
            let brief = computed_about(QuestionKind::Queue, "third", &answers, &inbox, brief);
            assert_eq!(brief.await.as_deref(), Ok("brief"));
        }
        drop(end);
        second.await
    };
    let (long, second) = tokio::join!(long, others);
    assert_eq!((long.as_deref(), second.as_deref()), (Ok("long"), Ok("second")));
    drop(inbox);
    core.join().unwrap();
}
