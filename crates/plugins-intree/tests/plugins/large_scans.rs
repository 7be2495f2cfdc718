//! Scans take other ways through large clusters: over chunks of columns, over sets of nodes. They say what asking every node
//! by itself says.

use std::sync::Arc;

use kube_scheduler_framework::Plugin;
use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::api::numbers::Numbers;
use kube_scheduler_framework::testing::{Fixture, check_forms, node, pod};
use proptest::prelude::{ProptestConfig, any, proptest};
use serde_json::{Value, json};

use crate::support::plugin;

/// More than a chunk of a column holds.
const N_NODES: u64 = 1_100;
const ZONE: &str = "topology.kubernetes.io/zone";
const KEYS: [&str; 4] = [ZONE, "rack", "disk", "kubernetes.io/hostname"];

fn cluster(numbers: &mut Numbers) -> Fixture {
    let mut fixture = Fixture::new();
    for at in 0..N_NODES {
        let mut node = node(&format!("node-{at}"))
            .allocatable("cpu", &numbers.pick(&[0_u64, 2, 4, 64]).to_string())
            .allocatable("memory", numbers.pick(&["0", "1Gi", "8Gi", "200Ti"]))
            .allocatable("pods", &numbers.pick(&[0_u64, 1, 110]).to_string());
        if numbers.chance(80) {
            node = node.label(ZONE, numbers.pick(&["a", "b", "c", ""]));
        }
        if numbers.chance(80) {
            node = node.label("rack", &numbers.below(90).to_string());
        }
        if numbers.chance(50) {
            node = node.label("disk", numbers.pick(&["ssd", "hdd", ""]));
        }
        if numbers.chance(20) {
            node = node.taint("slow", "", numbers.pick(&["NoSchedule", "PreferNoSchedule"]));
        }
        if numbers.chance(30) {
            node = node.allocatable("example.com/gpu", &numbers.below(3).to_string());
        }
        if numbers.chance(5) {
            node = node.cordoned();
        }
        let images: Vec<Value> = (0..numbers.below(3))
            .map(|_| numbers.below(4))
            .map(|n| json!({"names": [format!("image-{n}:1")], "sizeBytes": 300_000_000 * (n + 1)}))
            .collect();
        fixture = fixture.with_node(node.with(json!({"status": {"images": images}})));
    }
    for at in 0..N_NODES / 4 {
        let on = format!("node-{}", numbers.below(N_NODES));
        let running = random_pod(numbers, &format!("running-{at}"));
        fixture = fixture.with_pod(Arc::new(running.with_node_name(&on.into())));
    }
    fixture
}

fn term(numbers: &mut Numbers) -> Value {
    json!({
        "topologyKey": numbers.pick(&KEYS),
        "labelSelector": {"matchExpressions": [
            {"key": "app", "operator": numbers.pick(&["In", "NotIn"]), "values": [numbers.pick(&["x", "y", "rare"])]},
        ]},
    })
}

fn requirement(numbers: &mut Numbers) -> Value {
    let key = numbers.pick(&KEYS);
    let values =
        json!([numbers.pick(&["a", "b", "ssd", "7", "node-3"]), numbers.pick(&["c", "", "8"])]);
    match numbers.below(6) {
        0 => json!({"key": key, "operator": "Exists"}),
        1 => json!({"key": key, "operator": "DoesNotExist"}),
        2 => json!({"key": key, "operator": "NotIn", "values": values}),
        3 => json!({"key": "rack", "operator": numbers.pick(&["Gt", "Lt"]), "values": ["40"]}),
        _ => json!({"key": key, "operator": "In", "values": values}),
    }
}

fn node_affinity(numbers: &mut Numbers) -> Value {
    let mut term = json!({"matchExpressions": [requirement(numbers), requirement(numbers)]});
    if numbers.chance(10) {
        term["matchFields"] =
            json!([{"key": "metadata.name", "operator": "NotIn", "values": ["node-5"]}]);
    }
    let preferred: Vec<Value> = (0..numbers.below(3))
        .map(|_| json!({"weight": 1 + numbers.below(100), "preference": {"matchExpressions": [requirement(numbers)]}}))
        .collect();
    let mut affinity = json!({"preferredDuringSchedulingIgnoredDuringExecution": preferred});
    if numbers.chance(60) {
        let other = json!({"matchExpressions": [requirement(numbers)]});
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!({"nodeSelectorTerms": [term, other]});
    }
    affinity
}

fn pod_affinity(numbers: &mut Numbers) -> Value {
    let mut affinity = json!({});
    if numbers.chance(50) {
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = json!([term(numbers)]);
    }
    if numbers.chance(60) {
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = json!([
            {"weight": 1 + numbers.below(100), "podAffinityTerm": term(numbers)},
            {"weight": 1 + numbers.below(100), "podAffinityTerm": term(numbers)},
        ]);
    }
    affinity
}

fn random_pod(numbers: &mut Numbers, name: &str) -> Arc<Pod> {
    let app = if numbers.chance(5) { "rare" } else { numbers.pick(&["x", "y", "z"]) };
    let mut pod = pod(name)
        .label("app", app)
        .request("cpu", numbers.pick(&["0", "100m", "3", "5"]))
        .request("memory", numbers.pick(&["0", "500Mi", "7Gi"]));
    if numbers.chance(10) {
        pod = pod.request("example.com/gpu", "1");
    }
    if numbers.chance(50) {
        pod = pod.toleration("slow");
    }
    if numbers.chance(20) {
        pod = pod.node_selector("disk", numbers.pick(&["ssd", "hdd", "none"]));
    }
    let mut spec = json!({"affinity": {}});
    if numbers.chance(50) {
        spec["affinity"]["nodeAffinity"] = node_affinity(numbers);
    }
    if numbers.chance(40) {
        spec["affinity"]["podAffinity"] = pod_affinity(numbers);
    }
    if numbers.chance(40) {
        spec["affinity"]["podAntiAffinity"] = pod_affinity(numbers);
    }
    if numbers.chance(50) {
        spec["topologySpreadConstraints"] = json!([{
            "maxSkew": 1 + numbers.below(3), "topologyKey": numbers.pick(&KEYS),
            "whenUnsatisfiable": numbers.pick(&["DoNotSchedule", "ScheduleAnyway"]),
            "labelSelector": {"matchLabels": {"app": numbers.pick(&["x", "y"])}},
        }]);
    }
    pod.with(json!({"spec": spec})).build()
}

/// The cluster with everything followed that the plugin reads.
fn followed(fixture: &Fixture, plugin: &dyn Plugin, pod: &Arc<Pod>) -> Fixture {
    let mut followed = fixture.clone();
    // What is easily derived is followed from the second time on.
    for _ in 0..2 {
        check_forms(plugin, &followed, std::slice::from_ref(pod));
        followed.cluster_mut().follow_requested();
    }
    followed
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn large_scans_say_what_nodes_say_one_by_one(seed in any::<u64>()) {
        let mut numbers = Numbers::new(seed);
        let fixture = cluster(&mut numbers);
        let pods: Vec<Arc<Pod>> =
            (0..8).map(|at| random_pod(&mut numbers, &format!("pending-{at}"))).collect();
        for name in kube_scheduler_plugins_intree::registry().names() {
            let plugin = plugin(name);
            let mut violations = check_forms(&*plugin, &fixture, &pods);
            for pod in &pods {
                let followed = followed(&fixture, &*plugin, pod);
                violations.extend(check_forms(&*plugin, &followed, std::slice::from_ref(pod)));
            }
            let texts: Vec<String> = violations.iter().take(5).map(ToString::to_string).collect();
            assert!(texts.is_empty(), "{name}:\n{}", texts.join("\n"));
        }
    }
}
