//! What follows from a state: an engine schedules in virtual time until nothing changes any more.
//!
//! Invariant: it ends. The number of attempts is limited, and so is the time without progress.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_api_types::{KeyedMap, Pod, Timestamp};
use kube_scheduler_engine::{AttemptResult, Engine, Input};

use crate::explanation::is_being_deleted;
use crate::idleness::{Idleness, NextStep};
use crate::interrupt::Interrupt;
use crate::pod_name::PodName;
use crate::rehearsal::{Rehearsal, RehearsalEvent};

/// A pod that was evicted.
#[derive(Clone, Debug)]
pub(crate) struct Eviction {
    pub(crate) pod: Arc<Pod>,
    pub(crate) by: Option<PodName>,
}

/// Why a course ended before nothing changed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// The answer is not wanted any more.
    Interrupted,
    /// The limit of attempts was reached, with pods that were ready.
    Attempts,
    /// Pods were evicted, came again and were evicted again, and so on.
    Circle,
}

/// An engine in virtual time, with a rehearsed API server around it, and a record of what happened to pods.
#[derive(Debug)]
pub(crate) struct Course {
    pub(crate) engine: Engine,
    pub(crate) now: Timestamp,
    rehearsal: Rehearsal,
    attempts_left: u64,
    interrupt: Interrupt,
    idleness: Idleness,
    /// The pod of the last attempt.
    current: Option<PodName>,
    /// The nodes of pods that were placed, by name.
    pub(crate) placements: BTreeMap<PodName, Arc<str>>,
    pub(crate) evictions: Vec<Eviction>,
    /// How many nodes passed the filters in the last attempt.
    pub(crate) n_feasible: usize,
    /// Every pod that got a node, in order.
    pub(crate) bound: Vec<Arc<Pod>>,
    /// Why the last attempt at a pod failed, by UID, and whether that was an error.
    pub(crate) failures: KeyedMap<Arc<str>, (bool, String)>,
    /// Why it ended before nothing changed any more, if it did.
    pub(crate) cut_short: Option<StopReason>,
}

impl Course {
    /// Starts at the state of `engine`.
    pub(crate) fn new(
        engine: &Engine,
        now: Timestamp,
        max_attempts: u64,
        interrupt: &Interrupt,
    ) -> Self {
        let mut engine = engine.fork(now);
        engine.give_up_when(interrupt.flag());
        Self {
            engine,
            now,
            rehearsal: Rehearsal::default(),
            attempts_left: max_attempts,
            interrupt: interrupt.clone(),
            idleness: Idleness::new(now),
            current: None,
            placements: BTreeMap::new(),
            evictions: Vec::new(),
            n_feasible: 0,
            bound: Vec::new(),
            failures: KeyedMap::default(),
            cut_short: None,
        }
    }

    /// Gives the engine a change from outside, such as a new node, and carries out what follows at once.
    pub(crate) fn handle(&mut self, input: Input) {
        self.engine.handle(input, self.now);
        self.idleness.progressed(self.now);
        self.carry_out();
    }

    /// Deletes a pod and releases its resource claims.
    pub(crate) fn delete(&mut self, pod: &Pod) {
        self.rehearsal.delete(&mut self.engine, pod, self.now);
        self.idleness.progressed(self.now);
        self.carry_out();
    }

    /// Deletes all queued pods, so that they do not compete. Returns how many of them waited for a node.
    pub(crate) fn leave_pending_aside(&mut self) -> usize {
        let queued = self.engine.queue().pending_pods();
        let pending: Vec<Arc<Pod>> = queued.map(|(_, queued)| queued.entry().0.clone()).collect();
        for pod in &pending {
            self.delete(pod);
        }
        pending.iter().filter(|pod| !is_being_deleted(pod)).count()
    }

    /// Goes on until no pending pod can make progress.
    pub(crate) fn run(&mut self) {
        loop {
            while self.attempt() {}
            if self.cut_short.is_some() || !self.let_time_pass() {
                return;
            }
        }
    }

    /// Makes one attempt. Returns false if no pod is ready, or the course is cut short.
    pub(crate) fn attempt(&mut self) -> bool {
        if self.interrupt.is_set() {
            self.cut_short = Some(StopReason::Interrupted);
        }
        if self.cut_short.is_some() {
            return false;
        }
        if self.attempts_left == 0 {
            if self.engine.has_ready() {
                self.cut_short = Some(StopReason::Attempts);
            }
            return false;
        }
        let Some(turn) = self.engine.schedule_next(self.now) else { return false };
        self.attempts_left -= 1;
        self.n_feasible = turn.n_feasible;
        self.current =
            Some(PodName { namespace: turn.pod.namespace.clone(), name: turn.pod.name.clone() });
        for (pod, result) in turn.into_results() {
            self.idleness.tried(&pod.uid);
            match result {
                AttemptResult::Unschedulable(message) => {
                    self.failures.insert(pod.uid, (false, message));
                }
                AttemptResult::Error(message) => {
                    self.failures.insert(pod.uid, (true, message));
                }
                _ => {
                    self.failures.remove(&pod.uid);
                }
            }
        }
        self.carry_out();
        true
    }

    /// Whether the answer is not wanted any more.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupt.is_set()
    }

    /// A warning for the reader of the answer if the course was cut short.
    pub(crate) fn warning_if_cut_short(&self) -> Option<String> {
        let why = match self.cut_short? {
            StopReason::Interrupted => ": it took too long",
            StopReason::Attempts => " by the limit of attempts",
            StopReason::Circle => {
                ": it would never end, as pods that are evicted come again and are evicted again"
            }
        };
        Some(format!("the answer is cut short{why}"))
    }

    /// Warnings for the reader of the answer about extenders and plugins that a real attempt would ask and that were not asked.
    pub(crate) fn warnings_about_outside(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.engine.has_extenders() {
            warnings.push("extenders are not asked, so that pods may go elsewhere".to_owned());
        }
        let trusted: Vec<&str> = self.engine.trusted_plugins().map(|plugin| &**plugin).collect();
        if !trusted.is_empty() {
            let plugins = trusted.join(", ");
            warnings.push(format!("taken to succeed, without being done: the work of {plugins}"));
        }
        warnings
    }

    fn carry_out(&mut self) {
        for happening in self.rehearsal.carry_out(&mut self.engine, self.now) {
            match happening {
                RehearsalEvent::Bound(pod) => {
                    let name = PodName::from(&*pod);
                    self.failures.remove(&pod.uid);
                    self.placements.insert(name, pod.node_name.clone().unwrap_or_default());
                    self.bound.push(pod);
                    self.idleness.progressed(self.now);
                }
                RehearsalEvent::Evicted(pod) => {
                    self.placements.remove(&PodName::from(&*pod));
                    self.evictions.push(Eviction { pod, by: self.current.clone() });
                    self.idleness.progressed(self.now);
                }
                RehearsalEvent::Failed { pod, is_error, message } => {
                    self.failures.insert(pod.uid, (is_error, message));
                }
                RehearsalEvent::Changed(_) => {}
            }
        }
    }

    /// Advances time to the next deadline; false if there is none, or if no pod could be placed then.
    fn let_time_pass(&mut self) -> bool {
        let NextStep::WaitUntil(next) = self.idleness.next(&self.engine, self.now) else {
            return false;
        };
        self.now = next;
        self.engine.handle(Input::TimePassed, next);
        self.carry_out();
        true
    }
}
