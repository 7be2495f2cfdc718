//! Spans of attempts and binding cycles for OpenTelemetry.
//!
//! A sampled attempt is one trace: a span for the whole way of the pod, one below it for the scheduling cycle, and one for
//! the binding cycle if a node was found. Off unless asked for.
//!
//! Parity: kube-scheduler has no spans of its own; this follows its tracing settings (an endpoint and a sampling rate), but
//! uses OTLP over HTTP with JSON, where the reference's components use OTLP over gRPC.
//!
//! Invariants: the core thread never waits: when the channel is full, a span is dropped and counted; the number of open attempts
//! is bounded; a collector that is slow or down has no other effect than that spans are lost.

mod exporter;
mod otlp;

use std::collections::HashMap;
use std::sync::Arc;

use kube_scheduler_api_types::Timestamp;
use kube_scheduler_engine::{AttemptResult, Effect, FAILED_SCHEDULING, Turn};
use kube_scheduler_writes::Jitter;
use tokio::sync::mpsc;

use crate::backoff::random_jitter;

pub(crate) use exporter::Exporter;

/// Spans that may wait to be exported, and attempts that may be open.
const MAX_WAITING: usize = 2_048;
const MAX_OPEN: usize = 4_096;
/// What a sampling rate is a share of.
const MILLION: f64 = 1_000_000.0;

/// Where to send spans, and how many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracingOptions {
    /// The collector's OTLP/HTTP address, such as `http://localhost:4318`.
    pub endpoint: String,
    /// How many of a million attempts are traced.
    pub sampling_rate_per_million: u32,
}

/// One span, complete.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) trace: [u64; 2],
    pub(crate) id: u64,
    pub(crate) parent: Option<u64>,
    pub(crate) name: &'static str,
    pub(crate) started: Timestamp,
    pub(crate) ended: Timestamp,
    pub(crate) attributes: Vec<(&'static str, Attribute)>,
    /// What went wrong, if something did.
    pub(crate) error: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Attribute {
    Text(Arc<str>),
    Number(usize),
}

/// An attempt whose binding cycle is not over.
#[derive(Debug)]
struct OpenAttempt {
    trace: [u64; 2],
    id: u64,
    started: Timestamp,
    cycle_ended: Timestamp,
    attributes: Vec<(&'static str, Attribute)>,
}

/// Makes spans of what the core does.
#[derive(Debug)]
pub(crate) struct Spans {
    rate: u32,
    random: Jitter,
    out: mpsc::Sender<Span>,
    /// By uid. Looked up only, never walked through.
    open: HashMap<Arc<str>, OpenAttempt>,
    n_dropped: u64,
}

impl Spans {
    /// Spans come out at the other end.
    pub(crate) fn new(options: &TracingOptions) -> (Self, mpsc::Receiver<Span>) {
        let (out, spans) = mpsc::channel(MAX_WAITING);
        let rate = options.sampling_rate_per_million;
        let random = random_jitter();
        (Self { rate, random, out, open: HashMap::new(), n_dropped: 0 }, spans)
    }

    /// The core decided about a pod.
    pub(crate) fn turn(&mut self, turn: &Turn, started: Timestamp, ended: Timestamp) {
        let (node, error) = match &turn.result {
            AttemptResult::Skipped => return,
            AttemptResult::Assumed(node) => (Some(node.clone()), None),
            AttemptResult::Unschedulable(message) | AttemptResult::Error(message) => {
                (None, Some(message.clone()))
            }
        };
        if self.random.next_share() * MILLION >= f64::from(self.rate) {
            return;
        }
        // Zero is not a valid number of a trace or a span.
        let trace = [self.random.next_bits().max(1), self.random.next_bits().max(1)];
        let id = self.random.next_bits().max(1);
        let mut attributes = vec![
            ("k8s.namespace.name", Attribute::Text(turn.pod.namespace.clone())),
            ("k8s.pod.name", Attribute::Text(turn.pod.name.clone())),
            ("k8s.pod.uid", Attribute::Text(turn.pod.uid.clone())),
            ("profile", Attribute::Text(turn.profile.clone())),
            ("attempts", Attribute::Number(turn.attempts as usize)),
        ];
        let cycle = Span {
            trace,
            id: self.random.next_bits().max(1),
            parent: Some(id),
            name: "Scheduling cycle",
            started,
            ended,
            attributes: vec![
                ("evaluatedNodes", Attribute::Number(turn.n_evaluated)),
                ("feasibleNodes", Attribute::Number(turn.n_feasible)),
            ],
            error: error.clone(),
        };
        self.send(cycle);
        let Some(node) = node else {
            let name = "Scheduling attempt";
            let whole = Span { trace, id, parent: None, name, started, ended, attributes, error };
            return self.send(whole);
        };
        attributes.push(("k8s.node.name", Attribute::Text(node)));
        if self.open.len() >= MAX_OPEN {
            self.n_dropped += self.open.len() as u64;
            self.open.clear();
        }
        let open = OpenAttempt { trace, id, started, cycle_ended: ended, attributes };
        self.open.insert(turn.pod.uid.clone(), open);
    }

    /// The core wants something done; the event that reports the outcome to users ends the pod's attempt.
    pub(crate) fn effect(&mut self, effect: &Effect, now: Timestamp) {
        if self.open.is_empty() {
            return;
        }
        let Effect::RecordEvent { pod, reason, note, .. } = effect else { return };
        let error = match &**reason {
            "Scheduled" => None,
            FAILED_SCHEDULING => Some(note.clone()),
            _ => return,
        };
        let Some(open) = self.open.remove(&pod.uid) else { return };
        let OpenAttempt { trace, id, started, cycle_ended, attributes } = open;
        let binding = Span {
            trace,
            id: self.random.next_bits().max(1),
            parent: Some(id),
            name: "Binding cycle",
            started: cycle_ended,
            ended: now,
            attributes: Vec::new(),
            error: error.clone(),
        };
        self.send(binding);
        let name = "Scheduling attempt";
        self.send(Span { trace, id, parent: None, name, started, ended: now, attributes, error });
    }

    /// How many spans were dropped since the last call.
    pub(crate) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.n_dropped)
    }

    fn send(&mut self, span: Span) {
        if self.out.try_send(span).is_err() {
            self.n_dropped += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use kube_scheduler_engine::PodRef;
    use kube_scheduler_framework::EventKind;

    use super::*;

    fn spans(rate: u32) -> (Spans, mpsc::Receiver<Span>) {
        Spans::new(&TracingOptions { endpoint: String::new(), sampling_rate_per_million: rate })
    }

    fn pod(uid: &str) -> PodRef {
        PodRef { namespace: "x".into(), name: "p".into(), uid: uid.into() }
    }

    fn turn(uid: &str, result: AttemptResult) -> Turn {
        Turn {
            pod: pod(uid),
            profile: "default-scheduler".into(),
            result,
            attempts: 1,
            n_feasible: 2,
            n_evaluated: 3,
            chosen: None,
            work: 0,
            group: None,
        }
    }

    fn event(uid: &str, reason: &'static str) -> Effect {
        Effect::RecordEvent {
            pod: pod(uid),
            resource_version: "1".into(),
            related: None,
            kind: EventKind::Normal,
            reason: reason.into(),
            action: "Binding".into(),
            note: "no".to_owned(),
            reporting: "default-scheduler".into(),
        }
    }

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn drain(spans: &mut mpsc::Receiver<Span>) -> Vec<Span> {
        std::iter::from_fn(|| spans.try_recv().ok()).collect()
    }

    #[test]
    fn a_bound_pod_is_a_trace_of_three_spans() {
        let (mut spans, mut out) = spans(1_000_000);
        spans.turn(&turn("1", AttemptResult::Assumed("n1".into())), at(1), at(2));
        spans.effect(&event("2", "Scheduled"), at(3));
        spans.effect(&event("1", "Preempted"), at(3));
        assert_eq!(drain(&mut out).len(), 1, "the whole is not over");
        spans.effect(&event("1", "Scheduled"), at(5));
        let ended = drain(&mut out);
        assert_eq!(
            ended.iter().map(|span| span.name).collect::<Vec<_>>(),
            ["Binding cycle", "Scheduling attempt"]
        );
        let (binding, whole) = (&ended[0], &ended[1]);
        assert_eq!(
            (binding.started, binding.ended, binding.parent),
            (at(2), at(5), Some(whole.id))
        );
        assert_eq!((whole.started, whole.ended, whole.parent), (at(1), at(5), None));
        assert_eq!(binding.trace, whole.trace);
        assert!(spans.open.is_empty());
    }

    #[test]
    fn a_failure_is_reported_at_once_or_when_the_binding_fails() {
        let (mut spans, mut out) = spans(1_000_000);
        spans.turn(&turn("1", AttemptResult::Unschedulable("0/1".to_owned())), at(1), at(2));
        let failed = drain(&mut out);
        assert_eq!(failed.len(), 2);
        assert!(failed.iter().all(|span| span.error.as_deref() == Some("0/1")));
        spans.turn(&turn("1", AttemptResult::Assumed("n1".into())), at(3), at(4));
        spans.effect(&event("1", "FailedScheduling"), at(5));
        assert_eq!(drain(&mut out)[2].error.as_deref(), Some("no"));
    }

    #[test]
    fn the_rate_is_a_share_of_a_million() {
        let (mut spans, mut out) = spans(0);
        spans.turn(&turn("1", AttemptResult::Error("e".to_owned())), at(1), at(2));
        assert!(drain(&mut out).is_empty());
        let (mut spans, mut out) = self::spans(250_000);
        let mut n_traced = 0;
        for _ in 0..4_000 {
            spans.turn(&turn("1", AttemptResult::Error("e".to_owned())), at(1), at(2));
            n_traced += drain(&mut out).len() / 2;
        }
        assert!((800..1_200).contains(&n_traced), "{n_traced}");
    }

    #[test]
    fn what_finds_no_room_is_dropped_and_counted() {
        let (mut spans, _out) = spans(1_000_000);
        for _ in 0..MAX_WAITING {
            spans.turn(&turn("1", AttemptResult::Error("e".to_owned())), at(1), at(2));
        }
        assert_eq!(spans.take_dropped(), MAX_WAITING as u64);
        assert_eq!(spans.take_dropped(), 0);
        let (mut spans, mut out) = self::spans(1_000_000);
        for uid in 0..=MAX_OPEN {
            spans.turn(&turn(&uid.to_string(), AttemptResult::Assumed("n".into())), at(1), at(2));
            drain(&mut out);
        }
        assert_eq!(spans.open.len(), 1, "open ones are given up rather than kept for ever");
    }
}
