//! The stated sizes are at least what is allocated. One test in a program of its own, because all that the process
//! allocates is counted.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use kube_scheduler_api_types::Timestamp;
use kube_scheduler_engine::{Effect, EngineOptions, Input};
use kube_scheduler_tests::fixtures::{engine, node_applied, pod_applied};
use peak_alloc::PeakAlloc;
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

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
        let name = format!("n{at}");
        let labels = json!({"kubernetes.io/hostname": name, "zone": format!("z{}", at % 3), "pool": format!("p{}", at % 3)});
        let json = json!({"metadata": {"name": name, "uid": name, "labels": labels},
            "status": {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": "500"}}});
        engine.handle(node_applied(&json), now);
    }
    let before = ALLOCATOR.current_usage();
    for class in 0..N_CLASSES {
        for at in 0..4 {
            let name = format!("p{class}-{at}");
            let json = json!({"metadata": {"namespace": "a", "name": name, "uid": name,
                "labels": {"app": format!("c{class}")}}, "spec": of_class(class)});
            engine.handle(pod_applied(&json), now);
            while engine.schedule_next(now).is_some() {
                for effect in engine.drain_effects().collect::<Vec<_>>() {
                    if let Effect::WriteBinding { token, .. } = effect {
                        engine.handle(Input::BindingWritten { token, result: Ok(()) }, now);
                    }
                }
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
