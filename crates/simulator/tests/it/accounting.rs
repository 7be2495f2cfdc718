//! Whatever the input: every pod is accounted for exactly once, and no node is overcommitted.

use std::collections::{BTreeMap, BTreeSet};

use kube_scheduler_simulator::{ClusterInput, Report, Simulation, SimulationOptions};
use proptest::prelude::*;
use serde_json::{Value, json};

#[derive(Clone, Debug)]
struct Node {
    milli_cpu: i64,
    gpus: i64,
    pods: i64,
}

#[derive(Clone, Debug)]
struct Pod {
    milli_cpu: i64,
    gpus: i64,
    priority: i32,
    port: Option<u16>,
    is_gated: bool,
    wants_gpu_node: bool,
    created: Option<u8>,
}

fn nodes() -> impl Strategy<Value = Vec<Node>> {
    let node = (0..4000i64, 0..3i64, 0..6i64);
    prop::collection::vec(
        node.prop_map(|(milli_cpu, gpus, pods)| Node { milli_cpu, gpus, pods }),
        0..6,
    )
}

fn pods() -> impl Strategy<Value = Vec<Pod>> {
    let pod = (
        0..1500i64,
        prop_oneof![3 => Just(0i64), 1 => 1..3i64],
        prop_oneof![3 => Just(0), 1 => 1..4],
        prop::option::weighted(0.2, 8000..8002u16),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.2),
        prop::option::of(0..60u8),
    );
    let pod =
        pod.prop_map(|(milli_cpu, gpus, priority, port, is_gated, wants_gpu_node, created)| Pod {
            milli_cpu,
            gpus,
            priority,
            port,
            is_gated,
            wants_gpu_node,
            created,
        });
    prop::collection::vec(pod, 0..25)
}

fn manifest(nodes: &[Node], pods: &[Pod]) -> String {
    let nodes = nodes.iter().enumerate().map(|(n, node)| {
        json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": format!("n{n}"), "labels": {"gpu": (node.gpus > 0).to_string()}},
            "status": {"allocatable": {"cpu": format!("{}m", node.milli_cpu), "memory": "64Gi",
                "pods": node.pods, "example.com/gpu": node.gpus}}})
    });
    let pods = pods.iter().enumerate().map(|(n, pod)| {
        let mut value = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p{n}")},
            "spec": {"priority": pod.priority, "containers": [{"name": "c",
                "resources": {"requests": {"cpu": format!("{}m", pod.milli_cpu), "example.com/gpu": pod.gpus}}}]}});
        if let Some(port) = pod.port {
            value["spec"]["containers"][0]["ports"] = json!([{"containerPort": 1, "hostPort": port}]);
        }
        if pod.is_gated {
            value["spec"]["schedulingGates"] = json!([{"name": "g"}]);
        }
        if pod.wants_gpu_node {
            value["spec"]["nodeSelector"] = json!({"gpu": "true"});
        }
        if let Some(second) = pod.created {
            value["metadata"]["creationTimestamp"] = json!(format!("2026-01-01T00:00:{second:02}Z"));
        }
        value
    });
    let items: Vec<Value> = nodes.chain(pods).collect();
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

fn simulate(nodes: &[Node], pods: &[Pod], seed: u64) -> Report {
    let mut input = ClusterInput::default();
    input.add_manifests("generated", &manifest(nodes, pods)).unwrap();
    let mut simulation = Simulation::new(SimulationOptions { seed, ..Default::default() }).unwrap();
    simulation.load(input.finish().unwrap());
    let report = simulation.run().unwrap();
    assert_eq!(report, simulation.run().unwrap(), "the same again");
    report
}

fn index(name: &str, prefix: &str) -> usize {
    name.strip_prefix(prefix).unwrap().parse().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, rng_seed: proptest::test_runner::RngSeed::Fixed(7), ..Default::default() })]

    #[test]
    fn every_pod_is_accounted_for_once_and_no_node_is_overcommitted(nodes in nodes(), pods in pods(), seed in 0..4u64) {
        let report = simulate(&nodes, &pods, seed);
        let placed = report.placements.iter().map(|placement| &placement.pod);
        let pending = report.pending.iter().map(|pending| &pending.pod);
        let preempted = report.preempted.iter().map(|preempted| &preempted.pod);
        let all: Vec<&String> = placed.chain(pending).chain(preempted).collect();
        let expected: BTreeSet<String> = (0..pods.len()).map(|n| format!("default/p{n}")).collect();
        prop_assert_eq!(all.len(), pods.len());
        prop_assert_eq!(all.into_iter().cloned().collect::<BTreeSet<_>>(), expected);
        let counts = report.pods;
        prop_assert_eq!(counts.total, pods.len());
        prop_assert_eq!(
            counts.total,
            counts.scheduled + counts.unschedulable + counts.gated + counts.already_running + counts.preempted + counts.skipped
        );
        prop_assert_eq!(counts.gated, pods.iter().filter(|pod| pod.is_gated).count());

        let mut on_node: BTreeMap<usize, Vec<&Pod>> = BTreeMap::new();
        for placement in &report.placements {
            on_node.entry(index(&placement.node, "n")).or_default().push(&pods[index(&placement.pod, "default/p")]);
        }
        for (n, held) in &on_node {
            let node = &nodes[*n];
            prop_assert!(held.len() as i64 <= node.pods);
            prop_assert!(held.iter().map(|pod| pod.milli_cpu).sum::<i64>() <= node.milli_cpu);
            prop_assert!(held.iter().map(|pod| pod.gpus).sum::<i64>() <= node.gpus);
            let ports: Vec<u16> = held.iter().filter_map(|pod| pod.port).collect();
            prop_assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), ports.len());
            prop_assert!(held.iter().all(|pod| !pod.wants_gpu_node || node.gpus > 0));
        }
        prop_assert_eq!(report.nodes.used, on_node.len());

        // Nothing that would fit is left behind.
        for pending in report.pending.iter().map(|pending| &pods[index(&pending.pod, "default/p")]).filter(|pod| !pod.is_gated) {
            for (n, node) in nodes.iter().enumerate() {
                let held = on_node.get(&n).map(Vec::as_slice).unwrap_or_default();
                let fits = (held.len() as i64) < node.pods
                    && (pending.milli_cpu == 0 || held.iter().map(|pod| pod.milli_cpu).sum::<i64>() + pending.milli_cpu <= node.milli_cpu)
                    && (pending.gpus == 0 || held.iter().map(|pod| pod.gpus).sum::<i64>() + pending.gpus <= node.gpus)
                    && (pending.port.is_none() || held.iter().all(|pod| pod.port != pending.port))
                    && (!pending.wants_gpu_node || node.gpus > 0);
                prop_assert!(!fits, "{pending:?} fits on n{n}");
            }
        }
    }
}

#[test]
fn extenders_are_not_asked_and_the_report_says_so() {
    let config = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
- urlPrefix: http://nobody.example
  filterVerb: filter
  managedResources: [{name: x.io/card, ignoredByScheduler: true}]
";
    let options = SimulationOptions::default().with_config_text(config).unwrap();
    let mut simulation = Simulation::new(options).unwrap();
    let manifest = json!({"kind": "List", "apiVersion": "v1", "items": [
        {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"},
         "status": {"allocatable": {"cpu": "1", "pods": "9"}}},
        {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "namespace": "ns"},
         "spec": {"containers": [{"name": "c", "resources": {"requests": {"x.io/card": "1"}}}]}},
    ]});
    let mut input = ClusterInput::default();
    input.add_manifests("here", &manifest.to_string()).unwrap();
    simulation.load(input.finish().unwrap());
    let report = simulation.run().unwrap();
    assert_eq!(report.pods.scheduled, 1, "the resource is the extender's business");
    assert_eq!(
        report.warnings,
        ["extenders are not called in a simulation, so their filters and scores are missing: \
          http://nobody.example"]
    );
}
