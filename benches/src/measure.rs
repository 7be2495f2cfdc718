//! Runs one workload through the engine and times every scheduling cycle.
//!
//! What is timed is one call of `schedule_next`: pop, filter, score, select, assume, and the effects that follow. Writing
//! the binding is not part of it, as it is not part of the reference's figure. Churn is: what comes and goes meanwhile
//! is taken in on the same clock.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hdrhistogram::Histogram;
use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_config::{FeatureGates, Gate, load};
use kube_scheduler_engine::{
    AttemptResult, Deduplicator, Effect, Engine, EngineOptions, Input, PodRef,
};
use kube_scheduler_runtime::Timer;
use kube_scheduler_tests::replies::success;

use crate::churn::Churn;
use crate::digest::Digest;
use crate::workload::{NewPod, Workload};

/// How to run a workload.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// How many nodes.
    pub n_nodes: usize,
    /// Whether pods of one class share evaluations.
    pub uses_class_cache: bool,
    /// Whether plugins are measured meanwhile, as the daemon does.
    pub is_metered: bool,
    /// Whether the gates of pod groups are on, also where no pod belongs to one.
    pub has_group_gates: bool,
    /// Whether gangs are planned as a whole.
    pub plans_gangs_exactly: bool,
    /// Whether every bound pod is reported to the engine again, unmeasured, as a watch would.
    pub is_watched: bool,
    /// Measure no longer than this.
    pub limit: Duration,
    /// Place so many times the pods first that the workload says.
    pub init_factor: usize,
    /// Place no more pods than this first.
    pub max_init: usize,
}

impl Conditions {
    /// With the class cache, and nothing else.
    pub const fn new(n_nodes: usize) -> Self {
        Self {
            n_nodes,
            uses_class_cache: true,
            is_metered: false,
            has_group_gates: false,
            plans_gangs_exactly: false,
            is_watched: false,
            limit: Duration::MAX,
            init_factor: 1,
            max_init: usize::MAX,
        }
    }
}

/// What one run gave.
#[derive(Clone, Debug)]
pub struct Run {
    /// How many pods were placed first.
    pub n_init: usize,
    /// How many pods were tried.
    pub n_measured: usize,
    /// How many of them were placed.
    pub n_bound: usize,
    /// Whether all pods were tried before the time was over.
    pub is_complete: bool,
    /// Attempts per second of scheduling time.
    pub pods_per_second: f64,
    /// Median time of one attempt in microseconds.
    pub p50_micros: f64,
    /// 99th percentile in microseconds.
    pub p99_micros: f64,
    /// Longest time of one attempt in microseconds; most often the first one of its kind.
    pub max_micros: f64,
    /// The highest price of an attempt that was made, in units of work: of a pod, with looking for pods to evict if that was tried,
    /// or of a group with all its members.
    pub most_work: u64,
    /// A digest of everything that was decided, equal for equal decisions.
    pub decisions: u64,
}

/// The default profile with every node scored.
const PREEMPTING: &str = "\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
";

/// The same without PostFilter, as in the reference's figures.
const CONFIG: &str = "\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    postFilter:
      disabled:
      - name: '*'
";

/// How often pods that were to wait for victims are tried again.
const MAX_ROUNDS: usize = 20;

/// Time passes so fast from one attempt to the next.
const STEP: Duration = Duration::from_micros(10);

/// Measures lengths as the daemon does.
#[derive(Debug)]
struct Stopwatch(Instant);

impl Timer for Stopwatch {
    fn nanos(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// An engine for `workload` with nothing in it, and when its time begins.
pub(crate) fn engine(workload: &Workload, conditions: &Conditions) -> Result<(Engine, Timestamp)> {
    let source = if workload.preempts { PREEMPTING } else { CONFIG };
    let needs_gates = workload.has_gangs() || conditions.has_group_gates;
    let gates = [
        Gate::GenericWorkload,
        Gate::GangScheduling,
        Gate::TopologyAwareWorkloadScheduling,
        Gate::WorkloadAwarePreemption,
    ];
    let gates = gates.into_iter().filter(|_| needs_gates);
    let gates = gates.fold(FeatureGates::default(), |gates, gate| gates.with(gate, true));
    let config = load(source, &gates)?;
    let timer: Option<Arc<dyn Timer>> =
        if conditions.is_metered { Some(Arc::new(Stopwatch(Instant::now()))) } else { None };
    let Conditions { uses_class_cache, plans_gangs_exactly, .. } = *conditions;
    let options = EngineOptions {
        uses_class_cache,
        plans_gangs_exactly,
        timer,
        gates,
        ..EngineOptions::default()
    };
    let engine = Engine::new(&config, &kube_scheduler_plugins_intree::registry(), options)?;
    Ok((engine, Timestamp::parse("2026-01-01T00:00:00Z").context("start time")?))
}

/// Runs `workload`; `progress` is called for every pod that was tried or placed first.
pub fn run(workload: &Workload, conditions: &Conditions, progress: &dyn Fn()) -> Result<Run> {
    let (engine, now) = engine(workload, conditions)?;
    let mut cluster = MeasuredCluster {
        engine,
        now,
        sharing: Deduplicator::default(),
        digest: Digest::default(),
        running: conditions.is_watched.then(VecDeque::new),
    };
    for node in workload.nodes(conditions.n_nodes) {
        let (mut node, objects) = node?;
        cluster.sharing.share_node(&mut node);
        cluster.handle(Input::NodeApplied(node));
        objects.into_iter().for_each(|object| cluster.handle(Input::ObjectApplied(object)));
    }
    for namespace in workload.namespaces()? {
        cluster.handle(Input::ObjectApplied(namespace));
    }
    let n_init = cluster.place_first(workload, conditions, progress)?;
    let mut wanted = 0;
    for pod in workload.measured_pods(conditions.n_nodes) {
        cluster.add(pod?)?;
        wanted += 1;
    }
    let mut churn = Churn::new(workload, conditions.n_nodes)?;
    let mut times = Histogram::<u64>::new_with_bounds(1, 600_000_000_000, 3)?;
    let mut total = Duration::ZERO;
    let mut most_work = 0;
    let mut n_bound = 0;
    let mut n_measured = 0;
    while n_measured < wanted && total < conditions.limit {
        cluster.now = cluster.now + STEP;
        let inputs = churn.inputs(n_measured)?;
        let start = Instant::now();
        inputs.into_iter().for_each(|input| cluster.handle(input));
        total += start.elapsed();
        let Some(attempt) = cluster.attempt() else { break };
        total += attempt.time;
        if Churn::owns(&attempt.pod) {
            continue;
        }
        times.record(u64::try_from(attempt.time.as_nanos())?.max(1))?;
        most_work = most_work.max(attempt.work);
        n_bound += attempt.n_bound;
        n_measured += attempt.n_pods;
        (0..attempt.n_pods).for_each(|_| progress());
    }
    let is_complete = n_measured == wanted;
    // What had to wait for victims is placed now, and if others have taken the room, in a later round.
    let mut rounds = if workload.preempts && is_complete { MAX_ROUNDS } else { 0 };
    while rounds > 0 && n_bound < wanted {
        rounds -= 1;
        // Long enough for every backoff.
        cluster.now = cluster.now + Duration::from_secs(60);
        while let Some(attempt) = cluster.attempt() {
            n_bound += attempt.n_bound;
        }
    }
    Ok(Run {
        n_init,
        n_measured,
        n_bound,
        is_complete,
        pods_per_second: n_measured as f64 / total.as_secs_f64(),
        p50_micros: times.value_at_quantile(0.5) as f64 / 1e3,
        p99_micros: times.value_at_quantile(0.99) as f64 / 1e3,
        max_micros: times.max() as f64 / 1e3,
        most_work,
        decisions: cluster.digest.value(),
    })
}

/// The engine and what surrounds it.
struct MeasuredCluster {
    engine: Engine,
    now: Timestamp,
    /// Shares what objects have in common, as a watch does.
    sharing: Deduplicator,
    digest: Digest,
    /// Pods as reported, oldest first, if they are to be reported again when they are bound.
    running: Option<VecDeque<Arc<Pod>>>,
}

/// One attempt.
struct Attempt {
    pod: PodRef,
    time: Duration,
    /// How many pods were tried: all members of a group at once.
    n_pods: usize,
    /// What it may cost at most, in units.
    work: u64,
    n_bound: usize,
}

impl MeasuredCluster {
    fn handle(&mut self, input: Input) {
        self.engine.handle(input, self.now);
    }

    fn add(&mut self, new: NewPod) -> Result<()> {
        let mut pod = new.pod()?;
        self.sharing.share_pod(&mut pod);
        new.objects.into_iter().for_each(|object| self.handle(Input::ObjectApplied(object)));
        if let Some(running) = &mut self.running {
            running.push_back(pod.clone());
        }
        self.handle(Input::PodApplied(pod));
        Ok(())
    }

    /// Places what is placed first; how many pods that are.
    fn place_first(
        &mut self,
        workload: &Workload,
        conditions: &Conditions,
        progress: &dyn Fn(),
    ) -> Result<usize> {
        let (mut n_added, mut n_bound) = (0, 0);
        let Conditions { n_nodes, init_factor, max_init, .. } = *conditions;
        for pod in workload.init_pods(n_nodes, init_factor).take(max_init) {
            self.add(pod?)?;
            n_added += 1;
            // A gang is tried when its last pod is there.
            let Some(attempt) = self.attempt() else { continue };
            (0..attempt.n_bound).for_each(|_| progress());
            n_bound += attempt.n_bound;
            if n_bound < n_added {
                break;
            }
        }
        if n_bound < n_added {
            bail!("{}: pod {n_bound} of those that are placed first found no node", workload.name);
        }
        Ok(n_bound)
    }

    /// One timed attempt, and untimed what the API server answers.
    fn attempt(&mut self) -> Option<Attempt> {
        let start = Instant::now();
        let turn = self.engine.schedule_next(self.now);
        let time = start.elapsed();
        let turn = turn?;
        let own = [(turn.pod.clone(), turn.result)];
        let tried = turn.group.map_or_else(|| own.to_vec(), |group| group.members);
        let mut n_bound = 0;
        for (pod, result) in &tried {
            if let AttemptResult::Assumed(node) = result {
                self.digest.add(&format_args!("{pod} {node}"));
                n_bound += 1;
            } else {
                self.digest.add(&format_args!("{pod} {result:?}"));
            }
        }
        self.answer();
        Some(Attempt { pod: turn.pod, time, n_pods: tried.len(), work: turn.work, n_bound })
    }

    /// Every request succeeds, and the watch reports what came of it.
    fn answer(&mut self) {
        loop {
            let effects: Vec<Effect> = self.engine.drain_effects().collect();
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                self.digest.add(&effect);
                let known = self.take_running(&effect);
                for input in success(effect, known.as_ref(), None) {
                    self.handle(input);
                }
            }
        }
    }

    /// The pod that an effect binds, if it is to be reported on its node.
    fn take_running(&mut self, effect: &Effect) -> Option<Arc<Pod>> {
        let Effect::WriteBinding { pod, .. } = effect else { return None };
        let running = self.running.as_mut()?;
        running.remove(running.iter().position(|known| known.uid == pod.uid)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::WORKLOADS;

    const N_NODES: usize = 30;

    #[test]
    fn every_workload_is_decided_alike_with_and_without_shared_evaluations() {
        for workload in &WORKLOADS {
            let conditions = Conditions::new(N_NODES);
            let shared = run(workload, &conditions, &|| ()).unwrap();
            let (bound, measured) = (shared.n_bound, shared.n_measured);
            assert!(workload.outcome.allows(bound, measured), "{}: {shared:?}", workload.name);
            assert_eq!(measured, workload.n_measured(N_NODES), "{}", workload.name);
            let from_scratch = Conditions { uses_class_cache: false, ..conditions };
            let alone = run(workload, &from_scratch, &|| ()).unwrap();
            assert_eq!(shared.decisions, alone.decisions, "{}", workload.name);
        }
    }

    #[test]
    fn a_watch_changes_nothing_that_is_decided() {
        for workload in WORKLOADS.iter().filter(|workload| !workload.preempts) {
            let conditions = Conditions::new(N_NODES);
            let watched = Conditions { is_watched: true, ..conditions };
            let [unwatched, watched] =
                [conditions, watched].map(|c| run(workload, &c, &|| ()).unwrap().decisions);
            assert_eq!(unwatched, watched, "{}", workload.name);
        }
    }
}
