//! The thread that owns the engine: inputs in, decisions, effects out, until it is asked to stop.
//!
//! Invariants: one thread, one engine, no lock around it; no decision before every kind is synced and this scheduler
//! leads; inputs that wait are taken before decisions and decisions are made between inputs, so that neither starves the other; a panic ends the
//! thread with an error instead of leaving a scheduler that only looks alive.

use std::any::Any;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Select, TryRecvError};
use kube_scheduler_engine::{AttemptResult, Effect, Engine, Input, ProfileId, Turn};
use kube_scheduler_runtime::panic_message;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{oneshot, watch};

use crate::clock::Clock;
use crate::cycle_log::{CycleLog, GroupOutcome, ProcessLog};
use crate::debugger;
use crate::engine_log::{self, UNHANDLED_ERROR};
use crate::inbox::{InboxReceiver, Moment, Notice, Observation};
use crate::metrics::{CoreNumbers, Metrics, PluginNames};
use crate::newest::NewestRevision;
use crate::progress::Progress;
use crate::spans::Spans;
use crate::watchdog::Heartbeat;

/// Decisions between two looks at the inputs.
const MAX_TURNS: usize = 64;
/// How long decisions are made between two looks at the inputs: fewer than [`MAX_TURNS`] if they take long.
const MAX_DECIDING: Duration = Duration::from_millis(5);
/// Inputs between two rounds of decisions, so that a flood of changes does not hold up pods for ever.
const MAX_INPUTS: usize = 4_096;
/// Bindings being written beyond which decisions wait: enough to keep every connection busy, few enough that a pod of high
/// priority does not queue behind thousands of bindings, and that decisions see fresh state.
const MAX_BINDING: usize = 2_048;
/// How often the numbers for metrics are gathered at most.
const PUBLISH_EVERY: Duration = Duration::from_millis(250);

/// What the core thread works with.
pub(crate) struct Driver {
    pub(crate) engine: Engine,
    pub(crate) inbox: InboxReceiver,
    pub(crate) effects: UnboundedSender<Effect>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) progress: watch::Sender<Progress>,
    /// Signs of life, one for each piece of work.
    pub(crate) heartbeat: Heartbeat,
    /// Whether decisions are ours to make.
    pub(crate) may_decide: bool,
    /// Reflectors that have not passed on everything yet.
    pub(crate) unsynced: BTreeSet<usize>,
    /// Work that effects started and whose results have not come back.
    pub(crate) outstanding: OutstandingWork,
    /// The profiles and their plugins, for metrics; filled in when the thread begins.
    pub(crate) names: Vec<PluginNames>,
    /// Traces attempts, if that was asked for.
    pub(crate) spans: Option<Spans>,
    /// What the log shows, as the engine knows it.
    pub(crate) verbosity: u8,
    /// How many attempts there were.
    pub(crate) n_attempts: u64,
    /// How far the cluster has been seen.
    pub(crate) newest: NewestRevision,
}

/// The core thread panicked, with this text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct CorePanic(pub(crate) String);

/// How many results are waited for. Pods that wait for a permit are not among them: there is no work under way for
/// those, and holding up decisions for them could hold up the very pod that frees them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutstandingWork {
    writes: usize,
    works: usize,
    /// Writes for pods that make room, and for those they make room for.
    evictions: usize,
}

/// What a round leaves to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Running,
    /// No more decisions; bindings under way come to their end.
    Stopping,
    Ended,
}

impl Driver {
    /// Starts the thread. The receiver gets how it ended: well, or with a panic.
    pub(crate) fn spawn(self) -> std::io::Result<oneshot::Receiver<Result<(), CorePanic>>> {
        let (end, end_out) = oneshot::channel();
        std::thread::Builder::new().name("scheduling-core".to_owned()).spawn(move || {
            let result = catch_unwind(AssertUnwindSafe(|| self.run()));
            // There is no receiver when the whole daemon was dropped.
            let _ = end.send(result.map_err(|panic| CorePanic(panic_text(&*panic))));
        })?;
        Ok(end_out)
    }

    fn run(mut self) {
        let mut mode = Mode::Running;
        let mut published = Instant::now();
        self.names = PluginNames::of(self.engine.profiles());
        self.metrics.prepare(self.names.clone());
        loop {
            self.set_verbosity();
            let n_taken = self.take_waiting(&mut mode);
            let n_turns = if mode == Mode::Running && self.may_decide && self.unsynced.is_empty() {
                self.decide()
            } else {
                0
            };
            self.heartbeat.beat();
            self.carry_out();
            if mode == Mode::Ended
                || (mode == Mode::Stopping && self.outstanding == OutstandingWork::default())
            {
                break;
            }
            // Publish before sleeping: the thread may sleep for long, and the numbers must not be stale meanwhile.
            let is_idle = n_turns == 0 && n_taken < MAX_INPUTS;
            if is_idle || published.elapsed() >= PUBLISH_EVERY {
                self.publish();
                published = Instant::now();
            }
            if is_idle {
                self.wait(mode);
            }
        }
        self.publish();
    }

    /// Takes what waits in the inbox, up to a limit, and lets the engine know of time that has passed.
    fn take_waiting(&mut self, mode: &mut Mode) -> usize {
        let mut n_taken = 0;
        while n_taken < MAX_INPUTS && *mode != Mode::Ended {
            self.heartbeat.beat();
            // Notices first: results make room for more bindings, and a flood of changes must not hold up a shutdown.
            match self.inbox.notices.try_recv() {
                Ok(notice) => {
                    self.take_notice(notice, mode);
                    n_taken += 1;
                    continue;
                }
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => *mode = Mode::Ended,
            }
            match self.inbox.observations.try_recv() {
                Ok(observation) => n_taken += self.take_observation(observation),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => *mode = Mode::Ended,
            }
        }
        self.heartbeat.beat();
        // After the inputs, which may have cleared the deadline.
        if self.engine.next_deadline().is_some_and(|deadline| deadline <= self.clock.now()) {
            self.handle(Input::TimePassed);
        }
        n_taken
    }

    /// Takes in one input, and logs it if that is wanted.
    fn handle(&mut self, input: Input) {
        if self.verbosity >= engine_log::CHANGES_FROM {
            engine_log::change(&self.engine, &input);
        }
        self.engine.handle(input, self.clock.now());
        self.log_notices();
    }

    /// Has the engine keep notices of what the log shows, which may change at any time.
    fn set_verbosity(&mut self) {
        let verbosity = engine_log::verbosity();
        if verbosity != self.verbosity {
            self.verbosity = verbosity;
            self.engine.set_verbosity(verbosity);
        }
    }

    fn log_notices(&mut self) {
        if self.verbosity > 0 {
            for notice in self.engine.drain_notices() {
                engine_log::notice(&notice, self.n_attempts);
            }
        }
    }

    fn take_notice(&mut self, notice: Notice, mode: &mut Mode) {
        match notice {
            Notice::Result(input) => {
                match &input {
                    Input::BindingWritten { .. } => {
                        self.outstanding.writes = self.outstanding.writes.saturating_sub(1)
                    }
                    Input::WorkFinished { .. } | Input::ObjectWritten { .. } => {
                        self.outstanding.works = self.outstanding.works.saturating_sub(1)
                    }
                    Input::PodEvicted { .. } | Input::NominationCleared { .. } => {
                        self.outstanding.evictions = self.outstanding.evictions.saturating_sub(1)
                    }
                    _ => {}
                }
                self.handle(input);
            }
            Notice::Stop => {
                if *mode == Mode::Running {
                    *mode = Mode::Stopping;
                }
            }
            Notice::Quit => *mode = Mode::Ended,
        }
    }

    /// Takes one observation. Returns how many inputs it held; anything else counts as one.
    fn take_observation(&mut self, observation: Observation) -> usize {
        match observation {
            Observation::Changes(inputs, _permit) => {
                let n = inputs.len();
                for input in inputs {
                    self.heartbeat.beat();
                    self.newest.see(&input);
                    self.handle(input);
                }
                return n;
            }
            Observation::Synced(number) => {
                if self.unsynced.remove(&number) && self.unsynced.is_empty() {
                    tracing::info!(
                        nodes = self.engine.cluster().n_nodes(),
                        pods = self.engine.n_known_pods(),
                        "Caches are synced"
                    );
                    // A caller that waits for this reads the numbers next.
                    self.publish();
                }
            }
            Observation::Lead => {
                self.may_decide = true;
                self.progress.send_modify(|progress| progress.is_leading = true);
            }
            // Here and below the caller may have given up.
            Observation::ListPods(answer) => {
                let _ = answer.send(self.engine.known_pods().cloned().collect());
            }
            Observation::Ask(question) => {
                let (engine, now) = (&mut self.engine, self.clock.now());
                let resource_version = self.newest.resource_version();
                let moment = Moment { now, resource_version, is_leading: self.may_decide };
                // A question that breaks down gets no answer; it must not end the thread.
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (question.0)(engine, moment)))
                {
                    tracing::error!(err = panic_text(&*panic), "A question could not be answered");
                }
            }
            Observation::CompareCaches(actual, done) => {
                debugger::run(&self.engine, actual);
                let _ = done.send(());
            }
        }
        1
    }

    /// Decides about pods that are ready. Returns about how many.
    fn decide(&mut self) -> usize {
        let start = Instant::now();
        let mut turn_start = start;
        for n_turns in 0..MAX_TURNS {
            // Effects of this round are counted when they are carried out, after the last turn. Each turn may have made a
            // binding.
            if self.outstanding.writes + n_turns >= MAX_BINDING {
                return n_turns;
            }
            self.heartbeat.beat();
            let clock = self.clock;
            let mut lines = ProcessLog;
            let now = || clock.now();
            let mut log = CycleLog::new(&mut lines, &now);
            let started = clock.now();
            let turn = self.engine.schedule_next_observed(&mut log, started);
            let group = log.group();
            self.n_attempts += u64::from(turn.is_some());
            // Also without a turn: deadlines that have passed may have moved pods.
            self.log_notices();
            let Some(turn) = turn else { return n_turns };
            let turn_end = Instant::now();
            let length = turn_end - turn_start;
            if let Some(spans) = &mut self.spans {
                let ended = self.clock.now();
                spans.turn(&turn, ended - length, ended);
            }
            if let Some(GroupOutcome { result, decided }) = group {
                let algorithm = decided.saturating_since(started);
                self.metrics.observe_group_cycle(&turn.profile, result, algorithm, length);
            }
            self.record(&turn, length);
            // One reading for the end and for the next start, so that the time in between is not missing from the durations.
            turn_start = turn_end;
            if turn_end - start >= MAX_DECIDING {
                return n_turns + 1;
            }
        }
        MAX_TURNS
    }

    fn record(&self, turn: &Turn, length: Duration) {
        let failed = match &turn.result {
            AttemptResult::Assumed(_) => None,
            AttemptResult::Unschedulable(message) => {
                tracing::debug!(pod = %turn.pod, err = message, "Unable to schedule pod; no fit; waiting");
                Some((&*turn.profile, "unschedulable"))
            }
            AttemptResult::Error(message) => {
                tracing::error!(
                    logger = UNHANDLED_ERROR,
                    pod = %turn.pod,
                    err = message,
                    "Error scheduling pod; retrying"
                );
                Some((&*turn.profile, "error"))
            }
            AttemptResult::Skipped => {
                let pod = self.engine.known_pod(&turn.pod.namespace, &turn.pod.name);
                if pod.is_some_and(|pod| pod.deletion_requested.is_some()) {
                    tracing::debug!(target: "V3", pod = %turn.pod, "Skip schedule deleting pod");
                }
                return;
            }
        };
        self.metrics.observe_cycle(length, failed);
        self.progress.send_if_modified(|progress| {
            progress.n_decisions += 1;
            progress.deciding += length;
            false
        });
    }

    fn carry_out(&mut self) {
        let now = self.clock.now();
        for effect in self.engine.drain_effects() {
            if let Some(spans) = &mut self.spans {
                spans.effect(&effect, now);
            }
            if self.verbosity >= engine_log::CHANGES_FROM {
                engine_log::effect(&effect);
            }
            match &effect {
                Effect::WriteBinding { .. } => self.outstanding.writes += 1,
                // A write without a waiting caller is not answered.
                Effect::Await { .. } | Effect::WriteObject { awaited_by: Some(_), .. } => {
                    self.outstanding.works += 1
                }
                Effect::EvictPod { .. } | Effect::ClearNomination { .. } => {
                    self.outstanding.evictions += 1
                }
                _ => {}
            }
            if self.effects.send(effect).is_err() {
                // The writer is gone only when the whole daemon is.
                return;
            }
        }
        for note in self.engine.drain_notes() {
            tracing::info!("{note}");
        }
    }

    fn publish(&mut self) {
        if let Some(spans) = &mut self.spans {
            self.metrics.count_dropped_spans(spans.take_dropped());
        }
        let names = &self.names;
        let bound: Vec<_> = self.engine.drain_bound().collect();
        let name_of =
            |profile: ProfileId| names.get(profile.index()).map_or("", |names| &*names.profile);
        self.metrics.observe_measurements(&self.engine.drain_measurements(), names);
        self.metrics.observe_preemptions(self.engine.drain_preemption_counts());
        self.metrics.observe_bound(bound.into_iter().map(|pod| (name_of(pod.profile), pod)));

        let engine = &self.engine;
        let (queue, cluster) = (engine.queue(), engine.cluster());
        let counts = engine.profile_counts();
        let numbers = CoreNumbers {
            attempts: names
                .iter()
                .map(|names| names.profile.clone())
                .zip(counts.iter().copied())
                .collect(),
            pending: engine.pending_counts(),
            cache: [cluster.n_nodes() + cluster.n_ghosts(), cluster.n_pods(), cluster.n_assumed()],
            incoming: queue
                .incoming_counts()
                .into_iter()
                .map(|(queue, event, count)| (event.to_string(), queue.as_label(), count))
                .collect(),
            rejected: queue
                .rejected_counts()
                .into_iter()
                .map(|(plugin, profile, count)| {
                    (
                        queue.plugin_name(plugin).to_owned(),
                        queue.profile_name(profile).to_owned(),
                        count,
                    )
                })
                .collect(),
            in_flight: queue
                .in_flight_event_counts()
                .into_iter()
                .map(|(event, count)| (event.to_string(), count))
                .collect(),
            n_binding: engine.n_binding(),
        };
        self.metrics.publish_tables(&engine.table_sizes());
        // First the metrics, then the progress: a caller that waits for the progress finds it in the metrics too.
        self.metrics.publish(&numbers);
        self.progress.send_modify(|progress| {
            progress.is_synced = self.unsynced.is_empty();
            progress.n_bound = counts.iter().map(|count| count.scheduled).sum();
            progress.n_unschedulable_attempts =
                counts.iter().map(|count| count.unschedulable).sum();
            progress.n_error_attempts = counts.iter().map(|count| count.error).sum();
            progress.pending = numbers.pending;
            progress.n_nodes = cluster.n_nodes();
        });
    }

    /// Sleeps until there is something to take, or a deadline of the engine.
    fn wait(&self, mode: Mode) {
        let deadline = match mode {
            Mode::Running => self.engine.next_deadline(),
            // A stopping scheduler only waits for answers.
            Mode::Stopping | Mode::Ended => None,
        };
        let mut select = Select::new();
        select.recv(&self.inbox.notices);
        select.recv(&self.inbox.observations);
        let _rest = self.heartbeat.rest();
        // Which of them is ready, or neither, does not matter: the next round looks at both and at the clock.
        match deadline {
            Some(deadline) => drop(select.ready_timeout(self.clock.until(deadline))),
            None => drop(select.ready()),
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    panic_message(panic).unwrap_or("a panic without a message").to_owned()
}
