//! How many combinations of changes there are, however long the lists of a pod.

use kube_scheduler_api_types::Timestamp;
use kube_scheduler_config::{Configuration, FeatureGates};
use kube_scheduler_engine::{EngineOptions, Input};
use serde_json::{Value, json};

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_000);
const N: usize = 100;

/// Three nodes that differ, and on each a pod that holds all of the host ports.
fn engine() -> Engine {
    let mut config = Configuration::default();
    kube_scheduler_config::default(&mut config, &FeatureGates::default());
    let registry = kube_scheduler_plugins_intree::registry();
    let mut engine = Engine::new(&config, &registry, EngineOptions::default()).unwrap();
    for at in 0..3 {
        let name = format!("n-{at}");
        let node = json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"allocatable": {"cpu": (8 + at).to_string(), "memory": "8Gi", "pods": "110"}},
        });
        engine.handle(Input::NodeApplied(Arc::new(Node::from_value(&node).unwrap())), NOW);
        let spec = json!({"nodeName": name, "containers": [{"name": "c", "ports": ports()}]});
        engine.handle(Input::PodApplied(pod(&format!("on-{name}"), &spec)), NOW);
    }
    engine
}

fn pod(name: &str, spec: &Value) -> Arc<Pod> {
    let mut pod = json!({
        "metadata": {"namespace": "default", "name": name, "uid": name, "labels": {"app": "x"}},
        "spec": {"schedulerName": "default-scheduler", "containers": [{"name": "c"}]},
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][key] = value.clone();
    }
    Arc::new(Pod::from_value(&pod).unwrap())
}

fn ports() -> Value {
    (0..N).map(|at| json!({"containerPort": 80, "hostPort": 1_000 + at})).collect()
}

/// Terms over each host for pods of an app.
fn terms(app: &str) -> Value {
    let term = |at| {
        json!({"topologyKey": "kubernetes.io/hostname", "namespaces": [format!("ns-{at}"), "default"],
               "labelSelector": {"matchLabels": {"app": app}}})
    };
    json!({"requiredDuringSchedulingIgnoredDuringExecution": (0..N).map(term).collect::<Value>()})
}

/// How many changes, and how many pairs of them, may help a pod on its way.
fn numbers(spec: &Value, interrupt: &Interrupt) -> (usize, usize) {
    let (engine, pod) = (&mut engine(), pod("asked", spec));
    let random = engine.next_random();
    let found = engine.explain(&pod, random, NOW).unwrap();
    assert!(found.nodes.iter().all(|node| !node.status.is_success()));
    let (singles, pairs) = combinations(engine, &pod, &found, interrupt);
    (singles.len(), pairs.len())
}

#[test]
fn long_lists_make_no_more_combinations_than_short_ones() {
    let affinity =
        json!({"affinity": {"podAffinity": terms("none"), "podAntiAffinity": terms("x")}});
    let constraint = |at| {
        json!({"topologyKey": format!("key-{at}"), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
               "labelSelector": {"matchLabels": {"app": "x"}}})
    };
    let spread = json!({"topologySpreadConstraints": (0..N).map(constraint).collect::<Value>()});
    let host_ports = json!({"containers": [{"name": "c", "ports": ports()}]});
    for spec in [affinity, spread, host_ports] {
        let (singles, pairs) = numbers(&spec, &Interrupt::default());
        assert!((1..=64).contains(&singles), "{singles} changes of {spec}");
        assert!(pairs <= 768, "{pairs} pairs of {spec}");
    }
}

#[test]
fn no_node_is_looked_at_after_an_interrupt() {
    let spec = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "100"}}}]});
    let interrupt = Interrupt::default();
    assert!(numbers(&spec, &interrupt).0 > 0);
    interrupt.set();
    assert_eq!(numbers(&spec, &interrupt), (0, 0));
}
