//! Runs one workload through the engine and times every scheduling cycle.
//!
//! What is timed is one call of `schedule_next`: pop, filter, score, select, assume, and the effects that follow. Writing
//! the binding is not part of it, as it is not part of the reference's figure.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_config::{FeatureGates, load};
use kube_scheduler_engine::{AttemptResult, Effect, Engine, EngineOptions, Evicted, Input, PodRef};
use kube_scheduler_framework::Timer;
use serde::Serialize;

use crate::workload::Workload;

/// What one run gave.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// Which workload.
    pub workload: String,
    /// How many nodes.
    pub nodes: usize,
    /// How many pods were tried.
    pub measured: usize,
    /// How many of them were placed.
    pub bound: usize,
    /// Attempts per second of scheduling time.
    pub pods_per_second: f64,
    /// Median time of one attempt in microseconds.
    pub p50_micros: f64,
    /// 99th percentile in microseconds.
    pub p99_micros: f64,
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

/// Measures lengths as the daemon does.
#[derive(Debug)]
struct Stopwatch(Instant);

impl Timer for Stopwatch {
    fn nanos(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Runs `workload` on `n_nodes` nodes; `is_metered` says whether plugins are measured meanwhile.
pub fn run(
    workload: &Workload,
    n_nodes: usize,
    uses_class_cache: bool,
    is_metered: bool,
) -> Result<Figures> {
    let source = if workload.preempts() { PREEMPTING } else { CONFIG };
    let config = load(source, &FeatureGates::default())?;
    let timer: Option<Arc<dyn Timer>> =
        if is_metered { Some(Arc::new(Stopwatch(Instant::now()))) } else { None };
    let options = EngineOptions { uses_class_cache, timer, ..EngineOptions::default() };
    let mut engine = Engine::new(&config, &kube_scheduler_plugins_intree::registry(), options)?;
    let mut now = Timestamp::parse("2026-01-01T00:00:00Z").context("start time")?;
    for node in workload.nodes(n_nodes)? {
        engine.handle(Input::NodeApplied(node), now);
    }
    for pod in workload.init_pods(n_nodes)? {
        engine.handle(Input::PodApplied(pod), now);
    }
    while engine.schedule_next(now).is_some() {
        confirm(&mut engine, now);
    }
    let pods: Vec<Arc<Pod>> = workload.measured_pods()?;
    for pod in &pods {
        engine.handle(Input::PodApplied(pod.clone()), now);
    }
    let mut times = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3)?;
    let mut total = Duration::ZERO;
    let mut bound = 0;
    for _ in 0..pods.len() {
        now = now + Duration::from_micros(10);
        let start = Instant::now();
        let turn = engine.schedule_next(now);
        let time = start.elapsed();
        let Some(turn) = turn else { break };
        total += time;
        times.record(u64::try_from(time.as_nanos())?.max(1))?;
        bound += usize::from(matches!(turn.result, AttemptResult::Assumed(_)));
        confirm(&mut engine, now);
    }
    if workload.preempts() {
        // Long enough for every backoff.
        now = now + Duration::from_secs(60);
        while let Some(turn) = engine.schedule_next(now) {
            bound += usize::from(matches!(turn.result, AttemptResult::Assumed(_)));
            confirm(&mut engine, now);
        }
    }
    let measured = usize::try_from(times.len())?;
    Ok(Figures {
        workload: workload.name.to_owned(),
        nodes: n_nodes,
        measured,
        bound,
        pods_per_second: measured as f64 / total.as_secs_f64(),
        p50_micros: times.value_at_quantile(0.5) as f64 / 1e3,
        p99_micros: times.value_at_quantile(0.99) as f64 / 1e3,
    })
}

/// Reports every binding as written, and every victim as gone.
fn confirm(engine: &mut Engine, now: Timestamp) {
    loop {
        let effects: Vec<Effect> = engine.drain_effects().collect();
        if effects.is_empty() {
            return;
        }
        for effect in effects {
            match effect {
                Effect::WriteBinding { token, .. } => {
                    engine.handle(Input::BindingWritten { token, result: Ok(()) }, now);
                }
                Effect::EvictPod { token, pod, .. } => {
                    engine.handle(Input::PodEvicted { token, result: Ok(Evicted::Deleted) }, now);
                    let PodRef { namespace, name, .. } = pod;
                    engine.handle(Input::PodDeleted { namespace, name }, now);
                }
                _ => {}
            }
        }
    }
}
