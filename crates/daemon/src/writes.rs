//! Effects as API calls: sends what the [outbox](kube_scheduler_writes::Outbox) gives out, awaits plugins' work, and
//! reports every result to the core.
//!
//! Which request goes next, and how many at once, is the outbox's to say; here are the requests themselves.
//!
//! Invariants: every binding ends in exactly one [`Input::BindingWritten`], every eviction in one
//! [`Input::PodEvicted`], every object to write in one [`Input::ObjectWritten`], every awaited work in one
//! [`Input::WorkFinished`]; memory is bounded by the bindings the core allows, one patch per pod, and a fixed number of
//! events.

mod event_calls;
mod objects;
mod pods;

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use kube_scheduler_engine::{Effect, Input, Token};
use kube_scheduler_framework::{ObjectKey, Status};
use kube_scheduler_writes::{
    DroppedEvent, EndedWrite, EventAnswer, EventApi, EventRequest, Failure, Outbox, OutboxOptions,
    PodWrite, RateLimit, Success, Write,
};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{AbortHandle, JoinSet};

use crate::backoff::random_bits;
use crate::clock::Clock;
use crate::engine_log::UNHANDLED_ERROR;
use crate::inbox::Inbox;
use crate::metrics::Metrics;
use crate::transport::{Api, MAX_PATIENCE};

/// Effects taken in at once.
const BATCH: usize = 256;
/// How often the numbers for metrics are reported at most.
const REPORT_EVERY: Duration = Duration::from_millis(250);

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

/// Something that was under way and has ended; a write with the time that its request took.
enum FinishedTask {
    Pod(Box<PodWrite>, Result<Success, Failure>, Duration),
    Event(Box<EventRequest>, EventAnswer, Duration),
    /// It is known which API events are written to.
    EventApi(EventApi),
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
    outbox: Outbox,
    hostname: Arc<str>,
    under_way: JoinSet<FinishedTask>,
    /// Whether one of the tasks under way asks which API events are written to. It asks for as long as the server does not answer,
    /// so a scheduler that ends and has nothing to write does not wait for it.
    is_finding_event_api: bool,
    /// Plugins' work under way. Looked up only, never walked through.
    works: HashMap<Token, AbortHandle>,
    /// When the numbers for metrics were reported last.
    reported: Instant,
}

impl Writer {
    pub(crate) fn new(
        api: Api,
        inbox: Inbox,
        effects: UnboundedReceiver<Effect>,
        metrics: Arc<Metrics>,
        clock: Clock,
        limits: WriteLimits,
    ) -> Self {
        let options = OutboxOptions {
            width: limits.width,
            rate: limits.rate,
            max_deferrals: MAX_PATIENCE,
            seed: random_bits(),
        };
        Self {
            api,
            inbox,
            effects,
            metrics,
            clock,
            limits,
            outbox: Outbox::new(options, clock.now()),
            hostname: hostname().into(),
            under_way: JoinSet::new(),
            is_finding_event_api: false,
            works: HashMap::new(),
            reported: Instant::now(),
        }
    }

    /// Writes until the core has ended and everything it asked for is done.
    pub(crate) async fn run(mut self) {
        let mut is_open = true;
        let mut batch = Vec::with_capacity(BATCH);
        self.find_event_api();
        loop {
            self.send_what_may_go();
            let n_writes = self.under_way.len() - usize::from(self.is_finding_event_api);
            let is_idle = n_writes == 0 && !self.outbox.has_pod_writes();
            self.report_load(is_idle);
            if !is_open && is_idle && !self.outbox.has_events() {
                return;
            }
            let pause = self.outbox.next_deadline().map(|deadline| self.clock.until(deadline));
            tokio::select! {
                // Answers first: they make room for the requests that the effects ask for.
                biased;
                Some(ended) = self.under_way.join_next() => self.take_end(ended),
                n = self.effects.recv_many(&mut batch, BATCH), if is_open => {
                    is_open = n > 0;
                    batch.drain(..).for_each(|effect| self.take_in(effect));
                }
                () = passed(pause) => {}
            }
        }
    }

    fn take_in(&mut self, effect: Effect) {
        let other = self.outbox.push(effect, self.clock.now());
        self.metrics.count_dropped_events(self.outbox.take_dropped_events());
        match other {
            None => {}
            Some(Effect::CancelWork { token }) => {
                if let Some(work) = self.works.get(&token) {
                    work.abort();
                }
            }
            Some(Effect::Await { token, plugin, work }) => {
                let (inbox, api) = (self.inbox.clone(), self.api.clone());
                // A plugin's work may change the cluster, so it needs the permission to write, too.
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
                    let _ = inbox.report(Input::WorkFinished { token, status });
                    FinishedTask::Work(token)
                });
            }
            // Every effect that exists is handled above.
            Some(other) => tracing::error!(effect = %other, "Effect is not understood"),
        }
    }

    /// Events wait until it is known to which API they are written.
    fn find_event_api(&mut self) {
        let (api, timeout) = (self.api.clone(), self.limits.timeout);
        self.is_finding_event_api = true;
        self.under_way.spawn(async move {
            FinishedTask::EventApi(event_calls::find_event_api(&api, timeout).await)
        });
    }

    /// Sends as many requests as may be under way.
    fn send_what_may_go(&mut self) {
        while let Some(request) = self.outbox.next_request(self.clock.now()) {
            let method = match &request.write {
                Write::Pod(write) => write.method(),
                Write::Event(_) => "POST",
            };
            if self.limits.rate.is_some() {
                self.metrics.observe_limiter(method, self.api.host(), request.waited);
            }
            match request.write {
                Write::Pod(write) => self.send_pod_write(write),
                Write::Event(request) => self.send_event(request),
            }
        }
    }

    fn send_pod_write(&mut self, write: PodWrite) {
        let (api, timeout, start) = (self.api.clone(), self.limits.timeout, Instant::now());
        self.under_way.spawn(async move {
            let work = AssertUnwindSafe(pods::send(&api, &write, timeout));
            // Without an answer, the pod whose write panicked would wait for ever.
            let ended = work.catch_unwind().await;
            let (result, length) = ended.unwrap_or_else(|_| (Err(pods::broken()), start.elapsed()));
            FinishedTask::Pod(Box::new(write), result, length)
        });
    }

    fn send_event(&mut self, request: EventRequest) {
        let (api, hostname) = (self.api.clone(), self.hostname.clone());
        let (timeout, start) = (self.limits.timeout, Instant::now());
        self.under_way.spawn(async move {
            let work = AssertUnwindSafe(event_calls::send(&api, &request, &hostname, timeout));
            let answer = work.catch_unwind().await.unwrap_or(EventAnswer::Done);
            FinishedTask::Event(Box::new(request), answer, start.elapsed())
        });
    }

    fn take_end(&mut self, ended: Result<FinishedTask, tokio::task::JoinError>) {
        match ended {
            Ok(FinishedTask::Pod(write, result, length)) => {
                self.take_result(*write, result, length)
            }
            Ok(FinishedTask::Event(request, answer, length)) => {
                let now = self.clock.now();
                match self.outbox.finish_event(*request, answer, length, now) {
                    Ok(()) => {}
                    Err(DroppedEvent::Unreachable(event)) => {
                        tracing::error!(%event, "Unable to write event (retry limit exceeded!)");
                    }
                    Err(DroppedEvent::DeferredTooOften(event)) => {
                        tracing::error!(%event, "Server rejected event (will not retry!)");
                    }
                }
                self.metrics.count_dropped_events(self.outbox.take_dropped_events());
            }
            Ok(FinishedTask::EventApi(api)) => {
                self.is_finding_event_api = false;
                self.outbox.set_event_api(api);
            }
            Ok(FinishedTask::Work(token)) => drop(self.works.remove(&token)),
            // Panics are caught inside, so only a runtime that shuts down gets here.
            Err(error) => tracing::error!(%error, "A write broke down"),
        }
    }

    /// Publishes how much there is to write; at once when there is nothing.
    fn report_load(&mut self, is_idle: bool) {
        if !is_idle && self.reported.elapsed() < REPORT_EVERY {
            return;
        }
        self.reported = Instant::now();
        let load = self.outbox.load();
        let classes =
            [("binding", load.bindings), ("condition", load.conditions), ("event", load.events)]
                .map(|(class, load)| (class, load.waiting, load.under_way));
        self.metrics.set_writes(&classes, load.width);
        self.metrics.set_pending_async_calls("pod_binding", load.bindings.waiting);
        self.metrics.set_pending_async_calls("pod_status_patch", load.conditions.waiting);
        for size in self.outbox.event_tables() {
            self.metrics.publish_table(size.table, size.n_entries, Some(size.n_bytes));
        }
    }

    fn take_result(&mut self, write: PodWrite, result: Result<Success, Failure>, length: Duration) {
        if let Err(failure @ Failure { retry_after: Some(_), .. }) = &result {
            self.metrics.count_rest_retry(write.method(), self.api.host(), failure.code());
        }
        let now = self.clock.now();
        let Some(ended) = self.outbox.finish_pod_write(write, result, length, now) else { return };
        if let Some(call_type) = ended.write.async_call_type() {
            self.metrics.observe_async_call(call_type, ended.result.is_ok(), length);
        }
        log(&ended);
        if let Some(input) = ended.into_input() {
            // A core that has ended needs no answers.
            let _ = self.inbox.report(input);
        }
    }
}

/// Says in the log how a write about a pod ended.
fn log(EndedWrite { write, result }: &EndedWrite) {
    match (write, result) {
        (PodWrite::Object { pod, write, .. }, result) => {
            let ObjectKey { kind, namespace, name, .. } = write.key();
            let (object, method) = (format!("{namespace}/{name}"), write.method());
            match result {
                Ok(_) => tracing::debug!(%pod, method, %kind, object, "Updated object for pod"),
                Err(error) => {
                    tracing::warn!(%pod, method, %kind, object, err = %error, "Failed to update object for pod");
                }
            }
        }
        (PodWrite::Bind { pod, node, .. }, Err(error)) => {
            tracing::warn!(%pod, %node, err = %error, "Failed to bind pod");
        }
        (PodWrite::Evict { pod, .. }, Err(error)) => {
            tracing::error!(%pod, err = %error, "Error evicting pod");
        }
        (PodWrite::ClearNomination { pod, .. }, Err(error)) => {
            tracing::error!(%pod, err = %error, "Error clearing nomination of pod");
        }
        // The pod is gone, and its condition with it.
        (PodWrite::Patch { pod, .. }, Err(error)) if error.code() == Some(404) => {
            tracing::debug!(%pod, err = %error, "Pod to update is gone");
        }
        (PodWrite::Patch { pod, .. }, Err(error)) => {
            tracing::error!(logger = UNHANDLED_ERROR, %pod, err = %error, "Error updating pod");
        }
        (_, Ok(_)) => {}
    }
}

/// Ends a task when its owner ends.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Sleeps for `pause`; for ever without one.
async fn passed(pause: Option<Duration>) {
    match pause {
        Some(pause) => tokio::time::sleep(pause).await,
        None => std::future::pending().await,
    }
}

/// The name of this machine.
pub(crate) fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| std::env::var("HOSTNAME").ok());
    name.map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".to_owned())
}
