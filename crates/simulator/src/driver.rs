//! The loop around the engine: feeds it, carries out its effects as an API server without faults would, and advances
//! virtual time.
//!
//! A run ends when every queued pod that is not gated has been tried since the last progress (a placement, an eviction, or
//! an event of the timeline) and the timeline is over. Before that, time jumps to the engine's next deadline or to the next
//! event whenever no pod is ready.
//!
//! Invariant: every run ends. Between two steps of progress there are at most [`MAX_IDLE`] of virtual time and
//! [`MAX_IDLE_TURNS`] attempts per pod; the number of such steps is bounded by the number of pods, since each pod
//! comes, is placed, is evicted and goes at most once.

use std::collections::{BTreeMap, BTreeSet};

use kube_scheduler_answers::{
    ExplainOptions, Explanation, Idleness, MAX_IDLE, NextStep, PodName, Rehearsal, RehearsalEvent,
    Subject, explain,
};
use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_engine::{AttemptResult, Engine, Input};

use crate::import::ClusterObjects;
use crate::ledger::{Fate, LastFailure, Ledger};
use crate::report::TimelineReport;
use crate::simulation::SimulationProgress;
use crate::timeline::{Event, Timeline};

const MAX_IDLE_TURNS: u64 = 256;

/// Which attempts to explain.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    /// Pods by the number of the attempt.
    at_turn: BTreeMap<u64, PodName>,
    /// Pods that are never tried: explained at the end of the run.
    at_end: BTreeSet<PodName>,
}

impl Recording {
    /// The last attempts at `names` in the run behind `ledger`.
    pub(crate) fn of(ledger: &Ledger, names: &[PodName]) -> Self {
        let mut recording = Self::default();
        for name in names {
            let Some(account) = ledger.named(name) else { continue };
            match account.last_turn {
                Some(turn) => {
                    recording.at_turn.insert(turn, name.clone());
                }
                None if account.fate == Fate::Pending => {
                    recording.at_end.insert(name.clone());
                }
                None => {}
            }
        }
        recording
    }
}

/// The results of a run that are not in the ledger.
#[derive(Debug)]
pub(crate) struct RunResult {
    pub(crate) n_decisions: u64,
    pub(crate) explanations: BTreeMap<PodName, Explanation>,
    pub(crate) warnings: Vec<String>,
    pub(crate) timeline: Option<TimelineReport>,
}

/// One run of the loop around an engine; see the module.
#[derive(Debug)]
pub(crate) struct Driver<'a> {
    engine: &'a mut Engine,
    ledger: &'a mut Ledger,
    recording: Recording,
    now: Timestamp,
    n_turns: u64,
    idleness: Idleness,
    turn_of_last_progress: u64,
    rehearsal: Rehearsal,
    timeline: Option<Timeline>,
    /// The pod of the last attempt.
    current: Option<PodName>,
    explanations: BTreeMap<PodName, Explanation>,
    warnings: Vec<String>,
}

impl<'a> Driver<'a> {
    pub(crate) fn new(
        engine: &'a mut Engine,
        ledger: &'a mut Ledger,
        start: Timestamp,
        recording: Recording,
    ) -> Self {
        Self {
            engine,
            ledger,
            recording,
            now: start,
            n_turns: 0,
            idleness: Idleness::new(start),
            turn_of_last_progress: 0,
            rehearsal: Rehearsal::default(),
            timeline: None,
            current: None,
            explanations: BTreeMap::new(),
            warnings: Vec::new(),
        }
    }

    /// Gives the engine all objects: first those of other kinds, then nodes, running pods and pending pods. Pending pods
    /// are ordered by creation time; those without one come last, in the order of the input. With a timeline they come by it.
    pub(crate) fn feed(&mut self, input: &ClusterObjects, timeline: Option<Timeline>) {
        for object in &input.objects {
            self.handle(Input::ObjectApplied(object.clone()));
        }
        for node in &input.nodes {
            self.handle(Input::NodeApplied(node.clone()));
        }
        let (running, mut pending): (Vec<_>, Vec<_>) =
            input.pods.iter().partition(|pod| pod.is_assigned());
        if timeline.is_some() {
            pending.clear();
        }
        self.timeline = timeline;
        pending.sort_by_key(|pod| (pod.created.is_none(), pod.created));
        for pod in running.into_iter().chain(pending) {
            self.handle(Input::PodApplied(pod.clone()));
        }
    }

    /// Schedules until no pending pod can make progress.
    pub(crate) fn run(&mut self, observe: &mut dyn FnMut(SimulationProgress)) {
        let n_pending =
            self.ledger.accounts().iter().filter(|account| account.fate == Fate::Pending).count();
        observe(self.progress(n_pending));
        self.take_turns(n_pending, observe);
        observe(SimulationProgress { is_over: true, ..self.progress(n_pending) });
    }

    fn take_turns(&mut self, n_pending: usize, observe: &mut dyn FnMut(SimulationProgress)) {
        let limit = MAX_IDLE_TURNS.saturating_mul(n_pending as u64 + 1);
        loop {
            while self.take_turn() {
                observe(self.progress(n_pending));
                if self.n_turns - self.turn_of_last_progress > limit {
                    self.warnings.push(format!(
                        "stopped after {limit} attempts in a row that placed no pod"
                    ));
                    return;
                }
            }
            if !self.let_time_pass() {
                return;
            }
        }
    }

    /// Ends the run: explains the pods that were never tried, and collects warnings.
    pub(crate) fn finish(mut self) -> RunResult {
        for name in std::mem::take(&mut self.recording.at_end) {
            self.explain(name);
        }
        self.warnings.extend(self.engine.drain_notes());
        RunResult {
            n_decisions: self.n_turns,
            explanations: self.explanations,
            warnings: self.warnings,
            timeline: self.timeline.map(|timeline| timeline.report(self.now)),
        }
    }

    fn progress(&self, n_pending: usize) -> SimulationProgress {
        SimulationProgress {
            n_decisions: self.n_turns,
            n_tried: self.ledger.n_tried,
            n_pending,
            is_over: false,
        }
    }

    /// Makes one attempt and carries out its effects. Returns false if no pod is ready.
    fn take_turn(&mut self) -> bool {
        if let Some(name) = self.recording.at_turn.remove(&self.n_turns) {
            self.explain(name);
        }
        let Some(turn) = self.engine.schedule_next(self.now) else { return false };
        let number = self.n_turns;
        self.n_turns += 1;
        self.current =
            Some(PodName { namespace: turn.pod.namespace.clone(), name: turn.pod.name.clone() });
        for (pod, result) in turn.into_results() {
            self.idleness.tried(&pod.uid);
            let Some(at) = self.ledger.position(&pod.uid) else { continue };
            self.ledger.record_attempt(at, number);
            self.ledger.account_mut(at).last_failure = match result {
                AttemptResult::Unschedulable(message) => {
                    Some(LastFailure { is_error: false, message })
                }
                AttemptResult::Error(message) => Some(LastFailure { is_error: true, message }),
                _ => None,
            };
        }
        self.carry_out_effects();
        true
    }

    /// Advances time to the next deadline or event. Returns false if there is none, or if no pod could be placed then.
    fn let_time_pass(&mut self) -> bool {
        let event = self.timeline.as_ref().and_then(Timeline::next_time);
        match self.idleness.next(self.engine, self.now) {
            NextStep::WaitUntil(next) if event.is_none_or(|event| next < event) => {
                self.now = next;
                self.handle(Input::TimePassed);
                return true;
            }
            NextStep::GivenUp if event.is_none() => {
                let minutes = MAX_IDLE.as_secs() / 60;
                self.warnings.push(format!(
                    "stopped after {minutes} minutes of virtual time without placing a pod"
                ));
            }
            _ => {}
        }
        let Some(event) = event else { return false };
        self.now = event.max(self.now);
        self.handle(Input::TimePassed);
        self.let_events_happen();
        true
    }

    fn let_events_happen(&mut self) {
        while let Some(event) = self.timeline.as_mut().and_then(|timeline| timeline.pop(self.now)) {
            match event {
                Event::Comes(pod) => self.handle(Input::PodApplied(pod)),
                Event::Goes(pod) => self.end(&pod),
            }
            self.record_progress();
        }
    }

    /// Deletes a pod whose time is over, unless it was evicted before.
    fn end(&mut self, pod: &Pod) {
        let Some(at) = self.ledger.position(&pod.uid).filter(|at| !self.is_gone(*at)) else {
            return;
        };
        let account = self.ledger.account_mut(at);
        account.fate = if account.pod.is_assigned() { Fate::Ended } else { Fate::Deleted };
        let pod = account.pod.clone();
        self.delete(&pod);
    }

    fn explain(&mut self, name: PodName) {
        let Some(pod) = self.ledger.named(&name).map(|account| account.pod.clone()) else { return };
        let subject = Subject::Manifest(pod);
        if let Ok(explanation) = explain(self.engine, &subject, ExplainOptions::ALL, self.now) {
            self.explanations.insert(name, explanation);
        }
    }

    fn record_progress(&mut self) {
        self.idleness.progressed(self.now);
        self.turn_of_last_progress = self.n_turns;
    }

    fn handle(&mut self, input: Input) {
        self.engine.handle(input, self.now);
        self.carry_out_effects();
    }

    fn carry_out_effects(&mut self) {
        for happening in self.rehearsal.carry_out(self.engine, self.now) {
            self.enter(happening);
        }
    }

    /// Enters into the ledger what happened to a pod.
    fn enter(&mut self, happening: RehearsalEvent) {
        let uid = match &happening {
            RehearsalEvent::Bound(pod)
            | RehearsalEvent::Changed(pod)
            | RehearsalEvent::Evicted(pod) => &pod.uid,
            RehearsalEvent::Failed { pod, .. } => &pod.uid,
        };
        let Some(at) = self.ledger.position(uid) else { return };
        let account = self.ledger.account_mut(at);
        match happening {
            RehearsalEvent::Bound(pod) => {
                account.pod = pod.clone();
                account.fate = Fate::Placed;
                if let Some(timeline) = &mut self.timeline {
                    timeline.record_placement(&pod, self.now);
                }
                self.ledger.placed.push(at);
                self.record_progress();
            }
            RehearsalEvent::Changed(pod) => account.pod = pod,
            RehearsalEvent::Failed { is_error, message, .. } => {
                account.last_failure = Some(LastFailure { is_error, message });
            }
            RehearsalEvent::Evicted(pod) => {
                account.fate =
                    Fate::Preempted { node: pod.node_name.clone(), by: self.current.clone() };
                self.ledger.preempted.push(at);
                self.record_progress();
                self.departs(&pod);
            }
        }
    }

    /// Notifies the engine that a pod is gone, and releases its claims.
    fn delete(&mut self, pod: &Pod) {
        self.departs(pod);
        self.rehearsal.delete(self.engine, pod, self.now);
    }

    fn departs(&mut self, pod: &Pod) {
        if let Some(timeline) = self.timeline.as_mut().filter(|_| pod.is_assigned()) {
            timeline.record_departure(pod, self.now);
        }
    }

    fn is_gone(&self, at: usize) -> bool {
        matches!(self.ledger.account(at).fate, Fate::Preempted { .. } | Fate::Ended | Fate::Deleted)
    }
}
