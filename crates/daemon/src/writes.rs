//! From effects to API calls: many at once, a pod's in order, bindings before conditions before events.
//!
//! Invariants: every binding ends in exactly one [`Input::BindingWritten`], every eviction in one
//! [`Input::PodEvicted`], every object to write in one [`Input::ObjectWritten`], every awaited work in one
//! [`Input::WorkFinished`]; conditions and events never hold up bindings, and are not starved by them either: each class
//! always has one request under way if it has any to send; memory is bounded by the bindings the core allows, one patch
//! per pod, and a fixed number of events.

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
use crate::transport::Api;
use events::{EventQueue, EventWrite, Record};
use lanes::{Lanes, PodWrite, Urgency};
pub use pace::RateLimit;
use pace::{Bucket, Width};
use pods::Written;

/// Effects taken in at once.
const BATCH: usize = 256;
/// How often series of events are brought up to date.
const SWEEP_EVERY: Duration = Duration::from_secs(360);

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
    Pod(Box<PodWrite>, Written),
    Event(EventWrite, bool),
    Work(Token),
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
    under_way: JoinSet<Finished>,
    /// Plugins' work under way. Looked up only, never walked through.
    works: HashMap<Token, AbortHandle>,
    /// Requests under way: urgent ones, patches, events.
    n_under_way: [usize; 3],
    width: Width,
    pod_bucket: Bucket,
    event_bucket: Bucket,
    /// When a bucket has something again.
    refilled: Option<Instant>,
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
            events: EventQueue::new(hostname().into()),
            under_way: JoinSet::new(),
            works: HashMap::new(),
            n_under_way: [0; 3],
            width: Width::new(limits.width),
            pod_bucket: Bucket::new(limits.rate, now),
            event_bucket: Bucket::new(limits.rate, now),
            refilled: None,
        }
    }

    /// Writes until the core has ended and everything it asked for is done.
    pub(crate) async fn run(mut self) {
        let mut is_open = true;
        let mut batch = Vec::with_capacity(BATCH);
        let mut sweep = tokio::time::interval_at(Instant::now() + SWEEP_EVERY, SWEEP_EVERY);
        loop {
            self.start_what_may();
            if !is_open
                && self.under_way.is_empty()
                && self.lanes.is_empty()
                && self.events.is_empty()
            {
                return;
            }
            let wake = [self.refilled, self.events.next_due()].into_iter().flatten().min();
            tokio::select! {
                biased;
                Some(ended) = self.under_way.join_next() => self.take_end(ended),
                n = self.effects.recv_many(&mut batch, BATCH), if is_open => {
                    is_open = n > 0;
                    batch.drain(..).for_each(|effect| self.take_in(effect));
                }
                () = until(wake) => {}
                _ = sweep.tick() => self.events.sweep(self.clock.now()),
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
            Effect::RecordEvent { pod, kind, reason, action, note, reporting } => {
                let is_warning = kind == EventKind::Warning;
                let record = Record { pod, is_warning, reason, action, note, reporting };
                self.events.record(record, self.clock.now());
                (0..self.events.take_dropped()).for_each(|_| self.metrics.count_dropped_event());
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

    /// Starts as many requests as may be under way.
    fn start_what_may(&mut self) {
        self.refilled = None;
        loop {
            let now = Instant::now();
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

    fn start_pod_write(&mut self, urgency: Urgency, class: usize, now: Instant) -> bool {
        if !self.lanes.has(urgency) {
            return false;
        }
        if let Err(refilled) = self.pod_bucket.take(now) {
            self.refilled = Some(refilled);
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
            Finished::Pod(Box::new(write), written)
        });
        true
    }

    fn start_event(&mut self, now: Instant) -> bool {
        if self.events.is_empty() && self.events.next_due().is_none_or(|due| due > now) {
            return false;
        }
        if let Err(refilled) = self.event_bucket.take(now) {
            self.refilled = Some(self.refilled.map_or(refilled, |other| other.min(refilled)));
            return false;
        }
        let Some(write) = self.events.pop(now) else { return false };
        self.n_under_way[EVENTS] += 1;
        let (api, hostname, timeout) =
            (self.api.clone(), self.events.hostname(), self.limits.timeout);
        self.under_way.spawn(async move {
            let work = events::write(&api, &write, &hostname, timeout);
            let is_done =
                AssertUnwindSafe(work).catch_unwind().await.is_ok_and(|result| result.is_ok());
            Finished::Event(write, is_done)
        });
        true
    }

    fn take_end(&mut self, ended: Result<Finished, tokio::task::JoinError>) {
        match ended {
            Ok(Finished::Pod(write, written)) => self.take_written(*write, written),
            Ok(Finished::Event(write, is_done)) => {
                self.n_under_way[EVENTS] -= 1;
                if !is_done {
                    self.events.retry(write, Instant::now());
                }
            }
            Ok(Finished::Work(token)) => drop(self.works.remove(&token)),
            // Panics are caught inside, so only a runtime that shuts down gets here.
            Err(error) => tracing::error!(%error, "A write broke down"),
        }
    }

    fn take_written(&mut self, write: PodWrite, written: Written) {
        let class = match write.urgency() {
            Urgency::Now => URGENT,
            Urgency::Soon => PATCHES,
        };
        self.n_under_way[class] -= 1;
        self.lanes.finish(&write.pod().uid);
        if written.n_asked > 0 {
            self.width.narrow(Instant::now());
        } else {
            self.width.widen();
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
