//! How long others wait while one tenant does its worst: plain pods of others come all the time, and beside them the
//! tenant's, one after the other of every kind, are created, tried, and deleted again.
//!
//! One thread decides, so a pod of others may have to wait for an attempt that is under way. Time is virtual: it passes by
//! what the core's work takes, either measured or computed from units of work, and by waiting for what comes next. So ten minutes
//! take as long as the core is busy, and in units the outcome is the same on every machine.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use kube_scheduler_api_types::numbers::Numbers;
use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_engine::{AttemptResult, Engine, EngineOptions, Input, Turn};
use serde_json::json;

use super::{KINDS, Share};
use crate::fixtures::{applied, engine};
use crate::replies::write_bindings;

/// How many pods of others are there before they go again.
const N_OTHERS: usize = 1_000;
/// How many pods of each kind differ.
const N_VARIANTS: usize = 3;

/// How long the core takes for its work.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// As long as it takes by this clock.
    Measured(fn() -> Duration),
    /// This many units in a microsecond. Taking in what is reported takes no time.
    PerMicro(u64),
}

/// The pods of the simulation, and its length.
#[derive(Clone, Copy, Debug)]
pub struct Play {
    /// How many nodes there are.
    pub n_nodes: usize,
    /// How long it lasts.
    pub length: Duration,
    /// How many pods of others come in a second, on average; when each comes is drawn.
    pub others_per_second: u64,
    /// How many pods the tenant creates in a minute, and how many of them are there before they go again; none if it is quiet.
    pub tenants: Option<(u64, usize)>,
    /// How long the core takes.
    pub pace: Pace,
}

/// How it went for the pods of others.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// From coming to a node, for each, sorted.
    pub waits: Vec<Duration>,
    /// Of that, their own attempts, sorted.
    pub attempts: Vec<Duration>,
    /// How many attempts were made for the tenant's pods, how many of its pods were refused, and what the longest took.
    pub n_tenant: usize,
    /// See `n_tenant`.
    pub n_refused: usize,
    /// See `n_tenant`.
    pub longest: Duration,
    /// How long the core worked for the tenant, taking in and deciding.
    pub busy: Duration,
}

/// The value that this many thousandths of them do not exceed.
pub fn quantile(sorted: &[Duration], thousandths: usize) -> Duration {
    let at = (sorted.len() * thousandths).div_ceil(1000).saturating_sub(1);
    sorted.get(at).copied().unwrap_or_default()
}

struct Stage {
    engine: Engine,
    now: Timestamp,
    pace: Pace,
    /// When pods of others came.
    came: BTreeMap<Arc<str>, Timestamp>,
    outcome: Outcome,
}

impl Stage {
    fn new(play: &Play) -> Result<Self> {
        let engine = engine(EngineOptions::default());
        let now = Timestamp::parse("2026-01-01T00:00:00Z").context("start time")?;
        let (came, outcome) = (BTreeMap::new(), Outcome::default());
        let mut stage = Self { engine, now, pace: play.pace, came, outcome };
        for at in 0..play.n_nodes {
            let words = format!("cpu=64 memory=256Gi pods=1000 label:zone=z{}", at % 3);
            stage.engine.handle(applied(&format!("node n{at} {words}")), now);
        }
        Ok(stage)
    }

    fn clock(&self) -> Duration {
        match self.pace {
            Pace::Measured(clock) => clock(),
            Pace::PerMicro(_) => Duration::ZERO,
        }
    }

    /// Lets time pass by what is done. Returns how much.
    fn spend(&mut self, started: Duration, units: u64) -> Duration {
        let took = match self.pace {
            Pace::Measured(clock) => clock().saturating_sub(started),
            Pace::PerMicro(n) => Duration::from_nanos(units.saturating_mul(1000) / n.max(1)),
        };
        self.now = self.now + took;
        took
    }

    fn handle(&mut self, input: Input) -> Duration {
        let started = self.clock();
        self.engine.handle(input, self.now);
        self.spend(started, 0)
    }

    /// The next attempt, its effects included; whether there was one.
    fn attempt(&mut self) -> bool {
        let started = self.clock();
        let turn = self.engine.schedule_next(self.now);
        write_bindings(&mut self.engine, self.now);
        let Some(turn) = turn else { return false };
        let is_refused = is_refused(&turn);
        // What is refused costs what its price costs to compute.
        let took = self.spend(started, if is_refused { 1000 } else { turn.work });
        let outcome = &mut self.outcome;
        if let Some(came) = self.came.remove(&turn.pod.name) {
            outcome.waits.push(self.now.saturating_since(came));
            outcome.attempts.push(took);
        } else {
            outcome.n_tenant += 1;
            outcome.n_refused += usize::from(is_refused);
            outcome.longest = outcome.longest.max(took);
            outcome.busy += took;
        }
        true
    }
}

fn is_refused(turn: &Turn) -> bool {
    matches!(&turn.result, AttemptResult::Error(text) if text.contains("too expensive"))
}

/// The tenant's pods, decoded beforehand as watches do it beside the core.
fn worst_pods() -> Result<Vec<Arc<Pod>>> {
    let kinds = KINDS.iter().filter(|kind| kind.name != "Plain");
    let pods = (0..N_VARIANTS).flat_map(|at| kinds.clone().map(move |kind| (kind, at)));
    pods.map(|(kind, at)| {
        let mut json = (kind.pod)(at, Share::WHOLE);
        json["metadata"]["namespace"] = "tenant".into();
        json["metadata"]["name"] = "evil".into();
        Ok(Arc::new(Pod::from_value(&json)?))
    })
    .collect()
}

/// Where pods come from, and which are there.
struct Source {
    namespace: &'static str,
    n_there: usize,
    period: Duration,
    next: Timestamp,
    n_come: usize,
    there: VecDeque<Arc<str>>,
}

impl Source {
    fn new(namespace: &'static str, (per_minute, n_there): (u64, usize), now: Timestamp) -> Self {
        let period = Duration::from_secs(60) / u32::try_from(per_minute.max(1)).unwrap_or(u32::MAX);
        Self { namespace, n_there, period, next: now, n_come: 0, there: VecDeque::new() }
    }

    /// The next pod comes, and maybe the oldest goes.
    fn step(&mut self, stage: &mut Stage, pod: &Pod, numbers: &mut Numbers) -> Duration {
        let name: Arc<str> = format!("{}{}", self.namespace, self.n_come).into();
        self.n_come += 1;
        // Between nothing and twice the period.
        let drawn = numbers.below(2 * u64::try_from(self.period.as_nanos()).unwrap_or(u64::MAX));
        self.next = self.next + Duration::from_nanos(drawn);
        let mut pod = pod.clone();
        (pod.name, pod.uid, pod.namespace) = (name.clone(), name.clone(), self.namespace.into());
        let mut took = stage.handle(Input::PodApplied(Arc::new(pod)));
        self.there.push_back(name);
        if self.there.len() > self.n_there
            && let Some(name) = self.there.pop_front()
        {
            let namespace = self.namespace.into();
            took += stage.handle(Input::PodDeleted { namespace, name });
        }
        took
    }
}

/// Plays it to the end. A function of `play` unless time is measured.
///
/// # Errors
/// If the engine cannot be built.
pub fn play(play: &Play) -> Result<Outcome> {
    let mut stage = Stage::new(play)?;
    let mut numbers = Numbers::new(1);
    let worst = worst_pods()?;
    let end = stage.now + play.length;
    let mut others = Source::new("other", (60 * play.others_per_second, N_OTHERS), stage.now);
    let mut tenant = play.tenants.map(|tenants| Source::new("tenant", tenants, stage.now));
    while stage.now < end {
        if others.next <= stage.now {
            let app = format!("other{}", others.n_come);
            let json = json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [
                {"name": "c", "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}]}});
            let (pod, came) = (Pod::from_value(&json)?, others.next);
            others.step(&mut stage, &pod, &mut numbers);
            stage.came.insert(app.into(), came);
        } else if let Some(tenant) = tenant.as_mut().filter(|tenant| tenant.next <= stage.now) {
            let Some(pod) = worst.get(tenant.n_come % worst.len().max(1)) else { break };
            let took = tenant.step(&mut stage, pod, &mut numbers);
            stage.outcome.busy += took;
            stage.outcome.longest = stage.outcome.longest.max(took);
        } else if !stage.attempt() {
            // Idle until something comes, or is due that was not before.
            let due = stage.engine.next_deadline().filter(|due| *due > stage.now);
            let next = [Some(others.next), tenant.as_ref().map(|tenant| tenant.next), due];
            stage.now = next.into_iter().flatten().min().unwrap_or(end);
            stage.engine.handle(Input::TimePassed, stage.now);
        }
    }
    let mut outcome = stage.outcome;
    outcome.waits.sort_unstable();
    outcome.attempts.sort_unstable();
    Ok(outcome)
}
