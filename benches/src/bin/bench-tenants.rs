//! Measures what the worst pods of one tenant cost the core: time, live heap, and what stays of them.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Parser;
use kube_scheduler_api_types::{Node, Pod, Timestamp};
use kube_scheduler_benches::exit_code;
use kube_scheduler_config::{FeatureGates, load};
use kube_scheduler_engine::{Effect, Engine, EngineOptions, Input, Sharing, WatchedObject};
use kube_scheduler_tests::tenants::{KINDS, Share};
use peak_alloc::PeakAlloc;
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const CONFIG: &str = "\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
";

/// Measure what pods that a tenant may create cost the core, one kind after the other.
#[derive(Debug, Parser)]
struct Args {
    /// How many nodes
    #[arg(long, default_value_t = 2_000)]
    nodes: usize,
    /// Kinds of pods to measure; all if none is named
    #[arg(long, value_name = "NAME")]
    kind: Vec<String>,
}

/// The engine, and what a watch keeps.
struct World {
    engine: Engine,
    sharing: Sharing,
    now: Timestamp,
}

impl World {
    fn new(n_nodes: usize) -> Result<Self> {
        let config = load(CONFIG, &FeatureGates::default())?;
        let registry = kube_scheduler_plugins_intree::registry();
        let engine = Engine::new(&config, &registry, EngineOptions::default())?;
        let now = Timestamp::parse("2026-01-01T00:00:00Z").context("start time")?;
        let mut world = Self { engine, sharing: Sharing::default(), now };
        for at in 0..n_nodes {
            let name = format!("n{at}");
            let labels = json!({"kubernetes.io/hostname": name, "zone": format!("z{}", at % 3)});
            let json = json!({
                "metadata": {"name": name, "uid": name, "labels": labels},
                "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
            });
            world.engine.handle(Input::NodeApplied(Arc::new(Node::from_value(&json)?)), now);
        }
        Ok(world)
    }

    /// Reports a pod; how long the engine took.
    fn add(&mut self, name: &str, mut json: Value) -> Result<Duration> {
        json["metadata"]["namespace"] = "tenant".into();
        json["metadata"]["name"] = name.into();
        json["metadata"]["uid"] = name.into();
        let mut object = WatchedObject::Pod(Arc::new(Pod::from_value(&json)?));
        drop(json);
        self.sharing.share(&mut object);
        let WatchedObject::Pod(pod) = object else { bail!("{object:?}") };
        let start = Instant::now();
        self.engine.handle(Input::PodApplied(pod), self.now);
        Ok(start.elapsed())
    }

    /// All attempts that are due; the longest one.
    fn attempts(&mut self) -> Duration {
        let mut longest = Duration::ZERO;
        loop {
            let start = Instant::now();
            let turn = self.engine.schedule_next(self.now);
            longest = longest.max(start.elapsed());
            for effect in self.engine.drain_effects().collect::<Vec<_>>() {
                if let Effect::WriteBinding { token, .. } = effect {
                    let start = Instant::now();
                    self.engine.handle(Input::BindingWritten { token, result: Ok(()) }, self.now);
                    longest = longest.max(start.elapsed());
                }
            }
            if turn.is_none() {
                return longest;
            }
        }
    }

    fn remove(&mut self, name: &str) {
        let deleted = Input::PodDeleted { namespace: "tenant".into(), name: name.into() };
        self.engine.handle(deleted, self.now);
        self.engine.drain_effects().for_each(drop);
    }

    /// A pod like no other: the time for it, in all.
    fn plain(&mut self, name: &str) -> Result<Duration> {
        let app = json!({"metadata": {"labels": {"app": name}}, "spec": {}});
        let taken = self.add(name, app)?;
        Ok(taken + self.attempts())
    }
}

fn mib(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[expect(clippy::print_stdout, reason = "the figures are what the program is for")]
fn measure(args: &Args) -> Result<()> {
    println!(
        "{:24}{:>6}{:>10}{:>12}{:>12}{:>12}{:>10}{:>10}",
        "pods", "n", "JSON KB", "intake ms", "attempt ms", "plain ms", "MiB", "left MiB"
    );
    for kind in &KINDS {
        if !args.kind.is_empty() && args.kind.iter().all(|name| name != kind.name) {
            continue;
        }
        let mut world = World::new(args.nodes)?;
        world.plain("first")?;
        world.plain("second")?;
        let before = ALLOCATOR.current_usage();
        let (mut intake, mut attempt, mut size) = (Duration::ZERO, Duration::ZERO, 0);
        let mut most = before;
        for at in 0..kind.n_pods {
            let json = (kind.pod)(at, Share::WHOLE);
            size = json.to_string().len();
            intake = intake.max(world.add(&format!("evil{at}"), json)?);
            ALLOCATOR.reset_peak_usage();
            attempt = attempt.max(world.attempts());
            most = most.max(ALLOCATOR.peak_usage());
        }
        // Every pod is tried again, at least once.
        world.now = world.now + Duration::from_secs(400);
        attempt = attempt.max(world.attempts());
        let plain = world.plain("third")?;
        let removed = Instant::now();
        (0..kind.n_pods).for_each(|at| world.remove(&format!("evil{at}")));
        intake = intake.max(removed.elapsed() / u32::try_from(kind.n_pods)?);
        for name in ["first", "second", "third"] {
            world.remove(name);
        }
        world.sharing.sweep();
        let left = ALLOCATOR.current_usage().saturating_sub(before);
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        println!(
            "{:24}{:6}{:10.0}{:12.2}{:12.2}{:12.2}{:10.1}{:10.1}",
            kind.name,
            kind.n_pods,
            size as f64 / 1e3,
            ms(intake),
            ms(attempt),
            ms(plain),
            mib(most.saturating_sub(before)),
            mib(left),
        );
    }
    Ok(())
}

fn main() -> ExitCode {
    exit_code(measure(&Args::parse()).map(|()| true))
}
