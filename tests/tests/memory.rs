//! What is allocated: no more than tables say, no more than a tenant may take, and nothing once everything is deleted. In a
//! program of their own, and one test at a time, because all that the process allocates is counted.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube_scheduler_api_types::{Node, Pod, Timestamp, lock};
use kube_scheduler_engine::{AttemptResult, Deduplicator, Engine, EngineOptions, Input};
use kube_scheduler_framework::testing;
use kube_scheduler_tests::fault::{self, run_and_weigh};
use kube_scheduler_tests::fixtures::{applied, engine, pod_applied};
use kube_scheduler_tests::replies::write_bindings;
use kube_scheduler_tests::tenants::{KINDS, Kind, Share};
use peak_alloc::PeakAlloc;
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Held by the test that runs. Those that wait for it, and the test harness, allocate next to nothing.
static ALONE: Mutex<()> = Mutex::new(());

const N_NODES: usize = 300;
const N_CLASSES: usize = 70;

fn selector(class: usize, at: usize) -> Value {
    json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [format!("x{class}-{at}")]}]})
}

fn list(n: usize, one: impl Fn(usize) -> Value) -> Vec<Value> {
    (0..n).map(one).collect()
}

/// Makes the specification of a pod of the class with this number.
type SpecOf = fn(usize) -> Value;

/// What evaluations are kept of, and how many terms and constraints pods of one class have.
fn kinds() -> [(&'static str, SpecOf); 7] {
    fn spread(class: usize, n: usize, key: &str, when: &str) -> Value {
        let constraint = |at| json!({"maxSkew": 1000, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector(class, at)});
        json!({"topologySpreadConstraints": list(n, constraint)})
    }
    fn term(class: usize, at: usize, key: &str) -> Value {
        json!({"topologyKey": key, "labelSelector": selector(class, at)})
    }
    [
        ("plain", |class| json!({"nodeSelector": {"pool": format!("p{}", class % 3)}})),
        ("spread by host", |class| spread(class, 30, "kubernetes.io/hostname", "ScheduleAnyway")),
        ("spread by zone, required", |class| spread(class, 20, "zone", "DoNotSchedule")),
        ("preferred affinity", |class| {
            let one = |at| json!({"weight": 1, "podAffinityTerm": term(class, at, "kubernetes.io/hostname")});
            json!({"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": list(25, one)}}})
        }),
        ("required anti-affinity", |class| {
            let one = |at| {
                json!({"topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"nothing": format!("{class}-{at}")}}})
            };
            json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(30, one)}}})
        }),
        ("many values", |class| {
            let values = |at| list(200, |value| json!(format!("x{class}-{at}-{value}")));
            let one = |at| {
                json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchExpressions": [
                    {"key": "app", "operator": "In", "values": values(at)}]}})
            };
            json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(5, one)}}})
        }),
        ("fits nowhere", |class| {
            let mut spec = spread(class, 10, "zone", "DoNotSchedule");
            spec["containers"] = json!([{"name": "c", "resources": {"requests": {"cpu": "1000"}}}]);
            spec
        }),
    ]
}

/// Live bytes after many classes of pods, how many evaluations are kept and what they are said to take.
fn after(of_class: fn(usize) -> Value, uses_class_cache: bool) -> (usize, usize, usize) {
    let mut engine = engine(EngineOptions { uses_class_cache, ..EngineOptions::default() });
    let now = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
    for at in 0..N_NODES {
        let words = format!("cpu=64 memory=64Gi pods=500 label:zone=z{0} label:pool=p{0}", at % 3);
        engine.handle(applied(&format!("node n{at} {words}")), now);
    }
    let before = ALLOCATOR.current_usage();
    for class in 0..N_CLASSES {
        for at in 0..4 {
            let name = format!("p{class}-{at}");
            let json = json!({"metadata": {"namespace": "a", "name": name, "uid": name,
                "labels": {"app": format!("c{class}")}}, "spec": of_class(class)});
            engine.handle(pod_applied(&json), now);
            while engine.schedule_next(now).is_some() {
                write_bindings(&mut engine, now);
            }
            engine.drain_effects().for_each(drop);
        }
    }
    let sizes = engine.table_sizes();
    let evaluations = sizes.iter().find(|size| size.table == "evaluations").unwrap();
    let live = ALLOCATOR.current_usage() - before;
    (live, evaluations.n_entries, evaluations.n_bytes.unwrap())
}

#[test]
fn evaluations_take_no_more_than_the_table_says_and_are_bounded_in_bytes() {
    let _alone = lock(&ALONE);
    // What is made once in a process is made by the first.
    after(kinds()[0].1, true);
    let mut counts = Vec::new();
    for (name, of_class) in kinds() {
        let (with, n_entries, n_bytes) = after(of_class, true);
        let (without, none, _) = after(of_class, false);
        assert!(with > without, "{name}: {with} with evaluations, {without} without");
        let taken = with - without;
        println!("{name}: {n_entries} evaluations take {taken} bytes, said to be {n_bytes}");
        assert!(n_entries > 0 && none == 0, "{name}");
        assert!(taken <= n_bytes, "{name}: {taken} is more than {n_bytes}");
        counts.push(n_entries);
    }
    // Of large ones there are fewer.
    assert_eq!(counts[0], 64);
    assert!(counts[1] < 32, "{counts:?}");
}

/// The size of cluster for which limits are stated (`docs/security.md`).
const N_MANY_NODES: usize = 2000;
/// What all pods of one kind may take there, in bytes, at any time.
const MAX_HELD: usize = 64 << 20;
/// What may stay of them, in tables that are bounded in bytes.
const MAX_LEFT: usize = 1 << 20;

/// A cluster of others, to which a tenant's pods come, and what the watch of pods keeps.
struct TenantCluster {
    engine: Engine,
    sharing: Deduplicator,
    now: Timestamp,
    /// What an attempt may cost, in units.
    limit: u64,
}

impl TenantCluster {
    fn new(nodes: &[Arc<Node>]) -> Self {
        let options = EngineOptions::default();
        let limit = options.work.base + options.work.per_node * nodes.len() as u64;
        let now = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
        let mut cluster =
            Self { engine: engine(options), sharing: Deduplicator::default(), now, limit };
        for node in nodes {
            cluster.engine.handle(Input::NodeApplied(node.clone()), now);
        }
        for name in ["first", "second", "third"] {
            cluster.add("other", name, json!({"metadata": {"labels": {"app": name}}, "spec": {}}));
            cluster.attempts();
        }
        cluster
    }

    /// The peak is that from here on: the JSON is gone.
    fn add(&mut self, namespace: &str, name: &str, mut json: Value) {
        for (key, value) in [("namespace", namespace), ("name", name), ("uid", name)] {
            json["metadata"][key] = value.into();
        }
        let mut pod = Arc::new(Pod::from_value(&json).unwrap());
        drop(json);
        ALLOCATOR.reset_peak_usage();
        self.sharing.share_pod(&mut pod);
        self.engine.handle(Input::PodApplied(pod), self.now);
    }

    /// Whatever is due; all bindings succeed.
    fn attempts(&mut self) {
        loop {
            let turn = self.engine.schedule_next(self.now);
            write_bindings(&mut self.engine, self.now);
            let Some(turn) = turn else { return };
            let is_refused = matches!(&turn.result, AttemptResult::Error(text) if text.contains("too expensive"));
            assert!(
                is_refused || turn.work <= self.limit,
                "{} units: {:?}",
                turn.work,
                turn.result
            );
        }
    }
}

fn many_nodes() -> Vec<Arc<Node>> {
    let node = |at: usize| {
        testing::node(&format!("n{at} cpu=8 memory=32Gi label:zone=z{}", at % 3)).build()
    };
    (0..N_MANY_NODES).map(node).collect()
}

/// The most bytes that pods of a kind take while they come and are tried, each twice if it has to be, and what stays of them.
fn held_and_left(kind: &Kind, nodes: &[Arc<Node>]) -> (usize, usize) {
    let mut cluster = TenantCluster::new(nodes);
    let before = ALLOCATOR.current_usage();
    let mut most = before;
    for at in 0..kind.n_pods {
        cluster.add("tenant", &format!("evil{at}"), (kind.pod)(at, Share::WHOLE));
        cluster.attempts();
        most = most.max(ALLOCATOR.peak_usage());
    }
    ALLOCATOR.reset_peak_usage();
    cluster.now = cluster.now + Duration::from_secs(400);
    cluster.attempts();
    most = most.max(ALLOCATOR.peak_usage());
    for at in 0..kind.n_pods {
        let name = format!("evil{at}").into();
        cluster.engine.handle(Input::PodDeleted { namespace: "tenant".into(), name }, cluster.now);
        cluster.engine.drain_effects().for_each(drop);
    }
    cluster.attempts();
    cluster.sharing.sweep();
    (most - before, ALLOCATOR.current_usage().saturating_sub(before))
}

/// Kinds with tens of thousands of labels are the larger half of the work, most of it for making their JSON.
fn has_very_many_labels(kind: &&Kind) -> bool {
    kind.name.contains("Labels")
}

fn assert_bounded<'a>(kinds: impl Iterator<Item = &'a Kind>) {
    let _alone = lock(&ALONE);
    let nodes = many_nodes();
    let mut most_of_all = 0;
    for kind in kinds {
        let (held, left) = held_and_left(kind, &nodes);
        eprintln!("{}: {} KiB held, {} KiB left", kind.name, held >> 10, left >> 10);
        assert!(held <= MAX_HELD, "{}: {held} bytes held", kind.name);
        assert!(left <= MAX_LEFT, "{}: {left} bytes left", kind.name);
        most_of_all = most_of_all.max(held);
    }
    // Otherwise nothing was measured.
    assert!(most_of_all > MAX_HELD / 4, "{most_of_all}");
}

#[test]
fn the_worst_pods_take_bounded_memory_at_2000_nodes_and_leave_none() {
    assert_bounded(KINDS.iter().filter(|kind| !has_very_many_labels(kind)));
}

#[test]
fn pods_with_very_many_labels_take_bounded_memory_at_2000_nodes_and_leave_none() {
    assert_bounded(KINDS.iter().filter(has_very_many_labels));
}

/// What may stay with a scheduler that has seen a cluster come and go, beside what tables say: room that tables and lists keep to
/// be used again.
const MAX_KEPT: usize = 128 << 10;

/// The tables' own sizes say the same in each simulation; here it is the allocator that says it.
#[test]
fn schedulers_take_as_much_memory_as_at_first_once_everything_is_deleted_whatever_went_wrong() {
    let _alone = lock(&ALONE);
    let options = fault::Options::default();
    let mut n_placed = 0;
    for seed in 0..6 {
        // What is made once in a process is made the first time.
        run_and_weigh(seed, &options, &ALLOCATOR).unwrap();
        let kept = run_and_weigh(seed, &options, &ALLOCATOR).unwrap();
        println!("seed {seed}: {kept:?}");
        assert!(kept.n_schedulers > 0, "{kept:?}");
        let most = kept.n_fresh + kept.n_learned + MAX_KEPT * kept.n_schedulers;
        assert!(kept.n_held <= most, "seed {seed}: more than {most} bytes: {kept:?}");
        n_placed += kept.counts.n_placed;
    }
    // Otherwise nothing was there.
    assert!(n_placed > 0);
}
