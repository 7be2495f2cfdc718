//! From effects to API calls: many at once, a pod's in order, bindings before conditions before events.
//!
//! What the server refuses unseen and wants to be asked again goes back to the head of its line, so that every request,
//! repeated ones included, is counted by [`Width`] and goes out in the order of classes.
//!
//! Invariants: every binding ends in exactly one [`Input::BindingWritten`], every eviction in one
//! [`Input::PodEvicted`], every object to write in one [`Input::ObjectWritten`], every awaited work in one
//! [`Input::WorkFinished`]; conditions and events never hold up bindings, and are not starved by them either: each class
//! always has one request under way if it has any to send; memory is bounded by the bindings the core allows, one patch
//! per pod, and a fixed number of events.

mod correlator;
mod event_calls;
mod events;
mod lanes;
mod objects;
mod pace;
mod pods;

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use kube_scheduler_engine::{Effect, Evicted, Input, StatusPatch, Token};
use kube_scheduler_framework::EventKind;
use kube_scheduler_framework::Status;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use crate::clock::Clock;
use crate::inbox::{Inbox, Message};
use crate::metrics::Metrics;
use crate::transport::{Api, ApiError, MAX_PATIENCE};
use correlator::Correlator;
use event_calls::EventAnswer;
use events::{EventQueue, EventWrite, FORGET_AFTER, Key, REFRESH_EVERY};
use lanes::{Lanes, PodWrite, Urgency};
pub use pace::RateLimit;
use pace::{Bucket, Width};
use pods::Written;

/// Effects taken in at once.
const BATCH: usize = 256;
/// How often the numbers for metrics are told at most.
const TELL_EVERY: Duration = Duration::from_millis(250);

/// Bounds of writing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteLimits {
    /// Requests under way at most.
    pub(crate) width: usize,
    /// How long to wait for an answer.
    pub(crate) timeout: Duration,
    /// A fixed rate, for pods' writes and for events each.
    pub(crate) rate: Option<RateLimit>,
}

/// A write that has ended.
enum Finished {
    Pod(Box<PodWrite>, Written, Duration),
    Event(EventWrite, EventAnswer, Duration),
    /// Whether the server serves `events.k8s.io/v1`.
    EventForm(bool),
    Work(Token),
}

/// What events are written as.
enum EventForm {
    /// The server is being asked.
    Unknown,
    Modern,
    Core(Correlator),
}

/// Carries out effects.
pub(crate) struct Writer {
    api: Api,
    inbox: Inbox,
    effects: UnboundedReceiver<Effect>,
    metrics: Arc<Metrics>,
    clock: Clock,
    limits: WriteLimits,
    lanes: Lanes,
    events: EventQueue,
    event_form: EventForm,
    hostname: Arc<str>,
    under_way: JoinSet<Finished>,
    /// Plugins' work under way. Looked up only, never walked through.
    works: HashMap<Token, AbortHandle>,
    /// Requests under way: urgent ones, patches, events.
    n_under_way: [usize; 3],
    width: Width,
    pod_bucket: Bucket,
    event_bucket: Bucket,
    /// Since when writes wait for their bucket: pods' and events.
    short_since: [Option<Instant>; 2],
    /// When something may start that may not now.
    wake: Option<Instant>,
    told: Instant,
}

const URGENT: usize = 0;
const PATCHES: usize = 1;
const EVENTS: usize = 2;

impl Writer {
    pub(crate) fn new(
        api: Api,
        inbox: Inbox,
        effects: UnboundedReceiver<Effect>,
        metrics: Arc<Metrics>,
        clock: Clock,
        limits: WriteLimits,
    ) -> Self {
        let now = Instant::now();
        Self {
            api,
            inbox,
            effects,
            metrics,
            clock,
            limits,
            lanes: Lanes::default(),
            events: EventQueue::new(),
            event_form: EventForm::Unknown,
            hostname: hostname().into(),
            under_way: JoinSet::new(),
            works: HashMap::new(),
            n_under_way: [0; 3],
            width: Width::new(limits.width),
            pod_bucket: Bucket::new(limits.rate, now),
            event_bucket: Bucket::new(limits.rate, now),
            short_since: [None; 2],
            wake: None,
            told: now,
        }
    }

    /// Writes until the core has ended and everything it asked for is done.
    pub(crate) async fn run(mut self) {
        let mut is_open = true;
        let mut batch = Vec::with_capacity(BATCH);
        let every = |period| tokio::time::interval_at(Instant::now() + period, period);
        let (mut finish, mut refresh) = (every(FORGET_AFTER), every(REFRESH_EVERY));
        self.ask_for_event_form();
        loop {
            self.start_what_may();
            let is_idle = self.under_way.is_empty() && self.lanes.is_empty();
            self.tell(is_idle);
            if !is_open && is_idle && self.events.is_empty() {
                return;
            }
            let wake =
                self.wake.into_iter().chain(self.events.next_due()).chain(self.lanes.next_due());
            let wake = wake.min();
            tokio::select! {
                biased;
                Some(ended) = self.under_way.join_next() => self.take_end(ended),
                n = self.effects.recv_many(&mut batch, BATCH), if is_open => {
                    is_open = n > 0;
                    batch.drain(..).for_each(|effect| self.take_in(effect));
                }
                () = until(wake) => {}
                _ = finish.tick() => self.events.finish(self.clock.now()),
                _ = refresh.tick() => self.events.refresh(),
            }
        }
    }

    fn take_in(&mut self, effect: Effect) {
        match effect {
            Effect::WriteBinding { token, pod, node } => {
                self.lanes.push(PodWrite::Bind { token, pod, node })
            }
            Effect::EvictPod { token, pod, patch } => {
                self.lanes.push(PodWrite::Evict { token, pod, patch })
            }
            Effect::ClearNomination { token, pod } => {
                self.lanes.push(PodWrite::ClearNomination { token, pod })
            }
            Effect::CancelWork { token } => {
                if let Some(work) = self.works.get(&token) {
                    work.abort();
                }
            }
            Effect::WriteObject { token, pod, object, .. } => {
                self.lanes.push(PodWrite::Object { token, pod, object })
            }
            Effect::PatchStatus { pod, patch } => self.lanes.push(PodWrite::Patch { pod, patch }),
            Effect::RecordEvent {
                pod,
                resource_version,
                kind,
                reason,
                action,
                note,
                reporting,
            } => {
                let is_warning = kind == EventKind::Warning;
                let key = Key { pod, resource_version, is_warning, reason, action, reporting };
                self.events.record(key, &note, self.clock.now());
                self.metrics.count_dropped_events(self.events.take_dropped());
            }
            Effect::Await { token, plugin, work } => {
                let (inbox, api) = (self.inbox.clone(), self.api.clone());
                // What a plugin does outside may be a change, too.
                let work = tokio::spawn(async move {
                    match api.may_write().await {
                        Ok(()) => work.await,
                        Err(error) => Status::error(error.to_string()),
                    }
                });
                self.works.insert(token, work.abort_handle());
                self.under_way.spawn(async move {
                    let _abort = AbortOnDrop(work.abort_handle());
                    let status = work.await.unwrap_or_else(|error| {
                        Status::error(if error.is_cancelled() {
                            "context canceled".to_owned()
                        } else {
                            format!("the work of plugin {plugin} broke down")
                        })
                    });
                    // A core that has ended needs no answers.
                    let _ = inbox.tell(Message::Done(Input::WorkFinished { token, status }));
                    Finished::Work(token)
                });
            }
            // Effects are added together with their shell.
            other => tracing::error!(effect = %other, "Effect is not understood"),
        }
    }

    /// Events wait until it is known in which form they are written.
    fn ask_for_event_form(&mut self) {
        let (api, timeout) = (self.api.clone(), self.limits.timeout);
        self.under_way.spawn(async move {
            Finished::EventForm(event_calls::serves_modern_events(&api, timeout).await)
        });
    }

    /// Starts as many requests as may be under way.
    fn start_what_may(&mut self) {
        let now = Instant::now();
        // From here on nothing is due that has not started, but for want of room: no reason to look again before.
        self.lanes.wake(now);
        self.events.wake(now);
        self.wake = self.width.held_until(now);
        if self.wake.is_some() {
            return;
        }
        loop {
            let n_all: usize = self.n_under_way.iter().sum();
            let has_room = n_all < self.width.get();
            // A share for each class, and one request for each whatever the others do.
            let may = |class: usize, share: usize| {
                (has_room && self.n_under_way[class] < self.width.get() / share)
                    || self.n_under_way[class] == 0
            };
            let (may_urgent, may_patch, may_event) =
                (may(URGENT, 1), may(PATCHES, 2), may(EVENTS, 4));
            if may_urgent && self.start_pod_write(Urgency::Now, URGENT, now)
                || may_patch && self.start_pod_write(Urgency::Soon, PATCHES, now)
                || may_event && self.start_event(now)
            {
                continue;
            }
            return;
        }
    }

    /// Whether a bucket holds permissions for `n` requests; notes how long they were waited for.
    fn may_send(&mut self, class: usize, method: &str, n: u32, now: Instant) -> bool {
        let is_event = class == EVENTS;
        let bucket = if is_event { &mut self.event_bucket } else { &mut self.pod_bucket };
        let since = &mut self.short_since[usize::from(is_event)];
        match bucket.take(n, now) {
            Ok(()) => {
                let waited = since.take().map_or(Duration::ZERO, |since| now - since);
                if self.limits.rate.is_some() {
                    self.metrics.observe_limiter(method, self.api.host(), waited);
                }
                true
            }
            Err(refilled) => {
                since.get_or_insert(now);
                self.wake = Some(self.wake.map_or(refilled, |other| other.min(refilled)));
                false
            }
        }
    }

    fn start_pod_write(&mut self, urgency: Urgency, class: usize, now: Instant) -> bool {
        let Some(next) = self.lanes.peek(urgency) else { return false };
        let n_requests = if matches!(next, PodWrite::Evict { patch: Some(_), .. }) { 2 } else { 1 };
        let method = next.method();
        if !self.may_send(class, method, n_requests, now) {
            return false;
        }
        let Some(write) = self.lanes.pop(urgency) else { return false };
        self.n_under_way[class] += 1;
        let (api, timeout) = (self.api.clone(), self.limits.timeout);
        self.under_way.spawn(async move {
            let work = async {
                match &write {
                    PodWrite::Bind { pod, node, .. } => pods::bind(&api, pod, node, timeout).await,
                    PodWrite::Evict { pod, patch, .. } => {
                        pods::evict(&api, pod, patch.as_ref(), timeout).await
                    }
                    PodWrite::ClearNomination { pod, .. } => {
                        pods::patch(&api, pod, &StatusPatch::NO_NOMINATION, timeout).await
                    }
                    PodWrite::Patch { pod, patch } => pods::patch(&api, pod, patch, timeout).await,
                    PodWrite::Object { object, .. } => {
                        objects::replace(&api, object, timeout).await
                    }
                }
            };
            // A pod whose write broke down without a word would wait for ever.
            let written =
                AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| Written::broken());
            Finished::Pod(Box::new(write), written, now.elapsed())
        });
        true
    }

    fn start_event(&mut self, now: Instant) -> bool {
        if matches!(self.event_form, EventForm::Unknown)
            || self.events.is_empty()
            || !self.may_send(EVENTS, "POST", 1, now)
        {
            return false;
        }
        let Some(write) = self.events.pop(now) else { return false };
        let (api, hostname, timeout) =
            (self.api.clone(), self.hostname.clone(), self.limits.timeout);
        let core = match &mut self.event_form {
            EventForm::Unknown | EventForm::Modern => None,
            EventForm::Core(correlator) => match correlator.take_up(&write) {
                Some(event) => Some(event),
                // Held back for good: there were too many of the kind.
                None => return true,
            },
        };
        self.n_under_way[EVENTS] += 1;
        self.under_way.spawn(async move {
            let work = async {
                match &core {
                    Some(event) => event_calls::write_core(&api, event, timeout).await,
                    None => event_calls::write(&api, &write, &hostname, timeout).await,
                }
            };
            let answer = AssertUnwindSafe(work).catch_unwind().await.unwrap_or(EventAnswer::Done);
            Finished::Event(write, answer, now.elapsed())
        });
        true
    }

    fn take_end(&mut self, ended: Result<Finished, tokio::task::JoinError>) {
        match ended {
            Ok(Finished::Pod(write, written, length)) => self.take_written(*write, written, length),
            Ok(Finished::Event(write, answer, length)) => self.take_event(write, answer, length),
            Ok(Finished::EventForm(is_modern)) => {
                self.event_form = if is_modern {
                    EventForm::Modern
                } else {
                    EventForm::Core(Correlator::default())
                };
            }
            Ok(Finished::Work(token)) => drop(self.works.remove(&token)),
            // Panics are caught inside, so only a runtime that shuts down gets here.
            Err(error) => tracing::error!(%error, "A write broke down"),
        }
    }

    fn take_event(&mut self, write: EventWrite, answer: EventAnswer, length: Duration) {
        self.n_under_way[EVENTS] -= 1;
        let now = Instant::now();
        match answer {
            EventAnswer::Done => self.width.answered(length),
            EventAnswer::Unreachable => self.events.retry(write, now),
            EventAnswer::Asked(pause) => {
                self.width.refused(Some(pause), now);
                self.events.put_back(write, now + pause, MAX_PATIENCE);
            }
        }
        self.metrics.count_dropped_events(self.events.take_dropped());
    }

    /// Learns from an answer how much the server takes.
    fn learn(&mut self, written: &Written, length: Duration, now: Instant) {
        match &written.result {
            _ if written.asked.is_some() => self.width.refused(written.asked, now),
            Err(error) if error.code() == Some(429) => self.width.refused(None, now),
            Err(ApiError::Timeout(_)) => self.width.refused(None, now),
            // Nobody there: says nothing about how much there could be.
            Err(ApiError::Transport { .. }) => {}
            Ok(()) | Err(ApiError::Status { .. }) => self.width.answered(length),
        }
    }

    fn tell(&mut self, is_idle: bool) {
        if !is_idle && self.told.elapsed() < TELL_EVERY {
            return;
        }
        self.told = Instant::now();
        let (urgent, patches) = (self.lanes.len(Urgency::Now), self.lanes.len(Urgency::Soon));
        let classes = [
            ("binding", urgent, self.n_under_way[URGENT]),
            ("condition", patches, self.n_under_way[PATCHES]),
            ("event", self.events.len(), self.n_under_way[EVENTS]),
        ];
        self.metrics.set_writes(&classes, self.width.get());
        self.metrics.set_pending_async_calls("pod_binding", urgent);
        self.metrics.set_pending_async_calls("pod_status_patch", patches);
    }

    fn take_written(&mut self, write: PodWrite, written: Written, length: Duration) {
        let class = match write.urgency() {
            Urgency::Now => URGENT,
            Urgency::Soon => PATCHES,
        };
        self.n_under_way[class] -= 1;
        let now = Instant::now();
        self.learn(&written, length, now);
        let write = match written.asked {
            Some(pause) => {
                self.metrics.count_rest_retry(write.method(), self.api.host(), written.code());
                match self.lanes.put_back(write, now + pause, MAX_PATIENCE) {
                    Some(write) => write,
                    None => return,
                }
            }
            None => write,
        };
        self.lanes.finish(&write.pod().uid);
        if let Some(call_type) = write.async_call_type() {
            self.metrics.observe_async_call(call_type, written.result.is_ok(), length);
        }
        let Written { result, is_gone, object: stored, .. } = written;
        match write {
            PodWrite::Object { token, pod, object } => {
                let key = object.key();
                let result = match (result, stored) {
                    (Ok(()), Some(stored)) => {
                        tracing::debug!(%pod, kind = %object.kind, object = key, "Updated object for pod");
                        Ok(stored)
                    }
                    (Ok(()), None) => Ok(object),
                    (Err(error), _) => {
                        let kind = &object.kind;
                        tracing::warn!(%pod, %kind, object = key, err = %error, "Failed to update object for pod");
                        Err(objects::write_error(&error))
                    }
                };
                // A core that has ended needs no answers.
                let _ = self.inbox.tell(Message::Done(Input::ObjectWritten { token, result }));
            }
            PodWrite::Bind { token, pod, node } => {
                match &result {
                    Ok(()) => tracing::debug!(%pod, %node, "Successfully bound pod to node"),
                    Err(error) => tracing::warn!(%pod, %node, err = %error, "Failed to bind pod"),
                }
                let result = result.map_err(|error| error.to_string());
                // A core that has ended needs no answers.
                let _ = self.inbox.tell(Message::Done(Input::BindingWritten { token, result }));
            }
            PodWrite::Evict { token, pod, .. } => {
                if let Err(error) = &result {
                    tracing::error!(%pod, err = %error, "Error evicting pod");
                }
                let evicted = if is_gone { Evicted::AlreadyGone } else { Evicted::Deleted };
                let result = result.map(|()| evicted).map_err(|error| error.to_string());
                // A core that has ended needs no answers.
                let _ = self.inbox.tell(Message::Done(Input::PodEvicted { token, result }));
            }
            PodWrite::ClearNomination { token, pod } => {
                if let Err(error) = &result {
                    tracing::error!(%pod, err = %error, "Error clearing nomination of pod");
                }
                let result = result.map_err(|error| error.to_string());
                // A core that has ended needs no answers.
                let _ = self.inbox.tell(Message::Done(Input::NominationCleared { token, result }));
            }
            PodWrite::Patch { pod, .. } => match result {
                // The pod is gone, and its condition with it.
                Err(error) if error.code() == Some(404) => {
                    tracing::debug!(%pod, err = %error, "Pod to update is gone");
                }
                Err(error) => tracing::error!(%pod, err = %error, "Error updating pod"),
                Ok(()) => {}
            },
        }
    }
}

/// Ends a task when its owner ends.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// The name of this machine.
pub(crate) fn hostname() -> String {
    let told = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| std::env::var("HOSTNAME").ok());
    told.map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".to_owned())
}
