//! Effects in, requests out: which write goes next, and when.
//!
//! Invariants: each of the three classes (what bindings wait for, conditions, events) has at least one request under way
//! if it has any to send, whatever the others do; beyond that, requests go out in the order of the classes and never more
//! at once than the server takes; a request that the server wants later returns to the head of its line and is counted
//! again when it goes out again.

use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::Timestamp;
use kube_scheduler_engine::{Effect, EvictionOutcome, FAILED_SCHEDULING, Input};
use kube_scheduler_framework::{ApiError, EventKind, ObjectWrite};

use crate::answer::{Cause, EventAnswer, Failure, Success};
use crate::correlator::{CoreEvent, Correlator};
use crate::events::{EventKey, EventQueue, EventTableSize, EventWrite};
use crate::lanes::Lanes;
use crate::pace::{Bucket, RateLimit, Width};
use crate::pod_write::{PodWrite, Urgency};

/// Limits and seed of an [`Outbox`].
#[derive(Clone, Copy, Debug)]
pub struct OutboxOptions {
    /// The largest number of requests that are under way at a time.
    pub width: usize,
    /// A fixed rate, for pods' writes and for events each. Without one, as many requests go out as the server takes.
    pub rate: Option<RateLimit>,
    /// How often the server may ask for patience with one write before the write counts as failed.
    pub max_deferrals: u32,
    /// What the lengths of pauses and the names of some events follow from.
    pub seed: u64,
}

impl Default for OutboxOptions {
    /// 128 requests at once, no fixed rate, ten deferrals.
    fn default() -> Self {
        Self { width: 128, rate: None, max_deferrals: 10, seed: 0 }
    }
}

/// The API group to which events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventApi {
    /// `events.k8s.io/v1`.
    Modern,
    /// The core group `v1`, for servers without `events.k8s.io/v1`.
    Core,
}

/// One write that is to be sent now.
#[derive(Debug)]
pub struct WriteRequest {
    /// What the request writes.
    pub write: Write,
    /// How long it was held back by the fixed rate; zero without one.
    pub waited: Duration,
}

/// What a request that may go out now writes.
#[derive(Debug)]
pub enum Write {
    /// About a pod; ends in [`Outbox::finish_pod_write`].
    Pod(PodWrite),
    /// An event; ends in [`Outbox::finish_event`].
    Event(EventRequest),
}

/// An event that is to be written now.
#[derive(Clone, Debug)]
pub struct EventRequest {
    /// The event, in the form of `events.k8s.io/v1`.
    pub event: EventWrite,
    /// What to write instead if the server takes events of the old form only.
    pub core: Option<CoreEvent>,
}

/// A write about a pod that is over.
#[derive(Debug)]
pub struct EndedWrite {
    /// What was to be written.
    pub write: PodWrite,
    /// How the request ended.
    pub result: Result<Success, Failure>,
}

impl EndedWrite {
    /// What the engine has to be given; `None` for writes whose answers it does not wait for.
    pub fn into_input(self) -> Option<Input> {
        let Self { write, result } = self;
        let result = result.map_err(|failure| ApiError {
            code: failure.code(),
            reason: failure.reason,
            message: failure.message.into(),
        });
        Some(match write {
            PodWrite::Patch { .. } => return None,
            PodWrite::Bind { token, .. } => {
                Input::BindingWritten { token, result: result.map(drop) }
            }
            PodWrite::ClearNomination { token, .. } => {
                Input::NominationCleared { token, result: result.map(drop) }
            }
            PodWrite::Evict { token, .. } => {
                let evicted = |success| match success {
                    Success::AlreadyGone => EvictionOutcome::AlreadyGone,
                    Success::Done | Success::Stored(_) => EvictionOutcome::Deleted,
                };
                Input::PodEvicted { token, result: result.map(evicted) }
            }
            PodWrite::Object { token: None, .. } => return None,
            PodWrite::Object { token: Some(token), write, .. } => {
                let stored = |success| match (success, write) {
                    (Success::Stored(stored), _)
                    | (
                        Success::Done | Success::AlreadyGone,
                        ObjectWrite::Delete { object: stored, .. },
                    ) => Ok(stored),
                    _ => Err(ApiError::new("", "the API server did not answer with the object")),
                };
                Input::ObjectWritten { token, result: result.and_then(stored) }
            }
        })
    }
}

/// An event that is given up, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DroppedEvent {
    /// It did not get through too often; the name is that of the event.
    Unreachable(Arc<str>),
    /// The server asked for patience with it too often; the name is that of the event.
    DeferredTooOften(Arc<str>),
}

/// How much there is to write of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassLoad {
    /// Pods or events whose next write could start.
    pub waiting: usize,
    /// How many requests are under way.
    pub under_way: usize,
}

/// How many writes wait and are under way, by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Bindings, and the other writes that bindings and preemptions wait for.
    pub bindings: ClassLoad,
    /// Conditions and nominations of pods.
    pub conditions: ClassLoad,
    /// The load of events.
    pub events: ClassLoad,
    /// Requests that may be under way at once at this moment.
    pub width: usize,
}

/// Classes of writes, first the one that goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Urgent,
    Patch,
    Event,
}

impl Class {
    const fn of(urgency: Urgency) -> Self {
        match urgency {
            Urgency::Now => Self::Urgent,
            Urgency::Soon => Self::Patch,
        }
    }

    /// The class may use one part in this many of the width.
    const fn share(self) -> usize {
        match self {
            Self::Urgent => 1,
            Self::Patch => 2,
            Self::Event => 4,
        }
    }
}

/// What one scheduler wants written, and which of it may be sent when.
#[derive(Debug)]
pub struct Outbox {
    lanes: Lanes,
    events: EventQueue,
    /// Counts events of the old form, if those are written.
    correlator: Option<Correlator>,
    /// Whether it is known which API events are written to; they wait until then.
    knows_event_api: bool,
    /// Requests under way, by [`Class`].
    n_under_way: [usize; 3],
    width: Width,
    pod_rate: RateLine,
    event_rate: RateLine,
    max_deferrals: u32,
    /// When something may start that must not start now, for the sake of the server or the fixed rate.
    held_until: Option<Timestamp>,
}

/// A fixed rate, and since when a request waits for it.
#[derive(Debug)]
struct RateLine {
    bucket: Bucket,
    short_since: Option<Timestamp>,
}

impl RateLine {
    fn new(limit: Option<RateLimit>, now: Timestamp) -> Self {
        Self { bucket: Bucket::new(limit, now), short_since: None }
    }

    /// Takes permissions for `n` requests and says how long they were waited for, or says when there will be some.
    fn take(&mut self, n: u32, now: Timestamp) -> Result<Duration, Timestamp> {
        match self.bucket.take(n, now) {
            Ok(()) => {
                let since = self.short_since.take();
                Ok(since.map_or(Duration::ZERO, |since| now.saturating_since(since)))
            }
            Err(refilled) => {
                self.short_since.get_or_insert(now);
                Err(refilled)
            }
        }
    }
}

impl Outbox {
    /// An outbox without writes, made at time `now`.
    pub fn new(options: OutboxOptions, now: Timestamp) -> Self {
        Self {
            lanes: Lanes::default(),
            events: EventQueue::new(options.seed, now),
            correlator: None,
            knows_event_api: false,
            n_under_way: [0; 3],
            width: Width::new(options.width),
            pod_rate: RateLine::new(options.rate, now),
            event_rate: RateLine::new(options.rate, now),
            max_deferrals: options.max_deferrals,
            held_until: None,
        }
    }

    /// Takes in what the engine asks for. Gives the effect back if it is no write, such as a plugin's work.
    pub fn push(&mut self, effect: Effect, now: Timestamp) -> Option<Effect> {
        let write = match effect {
            Effect::WriteBinding { token, pod, node } => PodWrite::Bind { token, pod, node },
            Effect::EvictPod { token, pod, patch } => PodWrite::Evict { token, pod, patch },
            Effect::ClearNomination { token, pod } => PodWrite::ClearNomination { token, pod },
            Effect::WriteObject { pod, write, awaited_by } => {
                let token = awaited_by.map(|(token, _)| token);
                PodWrite::Object { token, pod, write }
            }
            Effect::PatchStatus { pod, patch, is_announcement } => {
                PodWrite::Patch { pod, patch, is_announcement }
            }
            Effect::RecordEvent {
                pod,
                resource_version,
                related,
                kind,
                reason,
                action,
                note,
                reporting,
            } => {
                let is_warning = kind == EventKind::Warning;
                // The attempt has failed: that the pod is being bound to its node must not be announced any more.
                if is_warning && reason == FAILED_SCHEDULING {
                    self.lanes.withdraw_announcement(&pod.uid);
                }
                let key = EventKey {
                    pod,
                    resource_version,
                    is_warning,
                    reason,
                    action,
                    reporting,
                    related,
                };
                self.events.record(key, &note, now);
                return None;
            }
            other => return Some(other),
        };
        self.lanes.push(write, now);
        None
    }

    /// Lets events go out, to this API. Until this is called they wait.
    pub fn set_event_api(&mut self, api: EventApi) {
        self.knows_event_api = true;
        self.correlator = match api {
            EventApi::Modern => None,
            EventApi::Core => Some(Correlator::default()),
        };
    }

    /// The next request to send, if one may go out at `now`. Ask again until there is none, and again after every other
    /// call and at [`next_deadline`](Self::next_deadline).
    pub fn next_request(&mut self, now: Timestamp) -> Option<WriteRequest> {
        // After this, no deadline has passed, so `next_deadline` is in the future.
        self.lanes.wake(now);
        self.events.wake(now);
        self.held_until = self.width.held_until(now);
        if self.held_until.is_some() {
            return None;
        }
        self.next_pod_write(Urgency::Now, now)
            .or_else(|| self.next_pod_write(Urgency::Soon, now))
            .or_else(|| self.next_event(now))
    }

    fn next_pod_write(&mut self, urgency: Urgency, now: Timestamp) -> Option<WriteRequest> {
        let class = Class::of(urgency);
        if !self.has_room(class) {
            return None;
        }
        let n_requests = self.lanes.peek(urgency)?.n_requests();
        let waited = self.take_permissions(class, n_requests, now)?;
        let write = self.lanes.pop(urgency)?;
        self.n_under_way[class as usize] += 1;
        Some(WriteRequest { write: Write::Pod(write), waited })
    }

    fn next_event(&mut self, now: Timestamp) -> Option<WriteRequest> {
        while self.knows_event_api && !self.events.is_empty() && self.has_room(Class::Event) {
            let waited = self.take_permissions(Class::Event, 1, now)?;
            let event = self.events.pop()?;
            let core = match &mut self.correlator {
                None => None,
                Some(correlator) => match correlator.take_up(&event) {
                    Some(core) => Some(core),
                    // There were too many about this object: the event is never written.
                    None => continue,
                },
            };
            self.n_under_way[Class::Event as usize] += 1;
            return Some(WriteRequest {
                write: Write::Event(EventRequest { event, core }),
                waited,
            });
        }
        None
    }

    /// Whether one more request of a class may be under way: within its share, or as its only one.
    fn has_room(&self, class: Class) -> bool {
        let (n_all, n_own) =
            (self.n_under_way.iter().sum::<usize>(), self.n_under_way[class as usize]);
        let width = self.width.get();
        n_own == 0 || (n_all < width && n_own < width / class.share())
    }

    /// Takes permissions for `n` requests from the fixed rate and says how long they were waited for.
    fn take_permissions(&mut self, class: Class, n: u32, now: Timestamp) -> Option<Duration> {
        let rate = if class == Class::Event { &mut self.event_rate } else { &mut self.pod_rate };
        match rate.take(n, now) {
            Ok(waited) => Some(waited),
            Err(refilled) => {
                self.held_until =
                    Some(self.held_until.map_or(refilled, |until| until.min(refilled)));
                None
            }
        }
    }

    /// A request about a pod has ended after `length`. `None` if the write goes out again later because the server asked
    /// for patience.
    pub fn finish_pod_write(
        &mut self,
        write: PodWrite,
        result: Result<Success, Failure>,
        length: Duration,
        now: Timestamp,
    ) -> Option<EndedWrite> {
        let n_under_way = &mut self.n_under_way[Class::of(write.urgency()) as usize];
        *n_under_way = n_under_way.saturating_sub(1);
        self.learn(&result, length, now);
        let retry_after = result.as_ref().err().and_then(|failure| failure.retry_after);
        let write = match retry_after {
            Some(pause) => self.lanes.defer(write, now + pause, self.max_deferrals)?,
            None => write,
        };
        if result.is_ok() && matches!(write, PodWrite::Object { token: Some(_), .. }) {
            self.lanes.go_on(&write.pod().uid);
        }
        self.lanes.finish(&write.pod().uid, now);
        Some(EndedWrite { write, result })
    }

    /// Learns from an answer how many requests the server takes.
    fn learn(&mut self, result: &Result<Success, Failure>, length: Duration, now: Timestamp) {
        match result {
            Err(Failure { retry_after: Some(pause), .. }) => {
                self.width.pushed_back(Some(*pause), now)
            }
            Err(Failure { cause: Cause::Status(429) | Cause::Timeout, .. }) => {
                self.width.pushed_back(None, now)
            }
            // Without a connection there is nothing to learn about how many requests it could carry.
            Err(Failure { cause: Cause::Unreachable, .. }) => {}
            Ok(_) | Err(Failure { cause: Cause::Status(_), .. }) => self.width.answered(length),
        }
    }

    /// A request about an event has ended after `length`.
    ///
    /// # Errors
    /// If the event is given up after this answer. That it is counted in
    /// [`take_dropped_events`](Self::take_dropped_events) too.
    pub fn finish_event(
        &mut self,
        request: EventRequest,
        answer: EventAnswer,
        length: Duration,
        now: Timestamp,
    ) -> Result<(), DroppedEvent> {
        let n_under_way = &mut self.n_under_way[Class::Event as usize];
        *n_under_way = n_under_way.saturating_sub(1);
        match answer {
            EventAnswer::Done => {
                self.width.answered(length);
                Ok(())
            }
            EventAnswer::Unreachable => self.events.retry(request.event, now),
            EventAnswer::RetryAfter(pause) => {
                self.width.pushed_back(Some(pause), now);
                self.events.defer(request.event, now + pause, self.max_deferrals)
            }
        }
    }

    /// When [`next_request`](Self::next_request) may give something that it does not give now, if only time holds it
    /// back.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let deadlines = [self.held_until, self.lanes.next_due(), Some(self.events.next_due())];
        deadlines.into_iter().flatten().min()
    }

    /// Whether writes about pods wait or are under way.
    pub fn has_pod_writes(&self) -> bool {
        !self.lanes.is_empty()
    }

    /// Whether events wait to be sent. Those that come again later are not counted: a scheduler that ends does not wait
    /// for them.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// How many events were dropped since the last call, because the queue was full or after too many tries.
    pub fn take_dropped_events(&mut self) -> u64 {
        self.events.take_dropped()
    }

    /// How large the tables of events are: of those that wait to be written, and of those that are remembered because they may
    /// repeat.
    pub fn event_tables(&self) -> [EventTableSize; 2] {
        self.events.sizes()
    }

    /// How much waits to be written, and how many requests are under way.
    pub fn load(&self) -> Load {
        let load = |class: Class, waiting| ClassLoad {
            waiting,
            under_way: self.n_under_way[class as usize],
        };
        Load {
            bindings: load(Class::Urgent, self.lanes.len(Urgency::Now)),
            conditions: load(Class::Patch, self.lanes.len(Urgency::Soon)),
            events: load(Class::Event, self.events.len()),
            width: self.width.get(),
        }
    }
}

#[cfg(test)]
mod tests;
