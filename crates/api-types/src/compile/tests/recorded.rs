//! Recorded decisions of the reference, as far as one pod and one node decide them: every pod and node must decode,
//! and selectors, taints, host ports on an otherwise empty node and resource sums must give the recorded verdict.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};

use serde_json::Value;

use crate::affinity::node_satisfies_required_affinity;
use crate::node::Node;
use crate::pod::Pod;
use crate::resources::Resources;
use crate::selector::NodeNames;
use crate::taint::{Taint, TaintEffect, untolerated_taint};

#[expect(clippy::disallowed_methods, reason = "recorded cases are read from a file")]
fn cases(family: &str) -> Vec<Value> {
    let path =
        format!("{}/../../tests/data/conformance/{family}.jsonl.gz", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let lines = BufReader::new(flate2::read::GzDecoder::new(file)).lines();
    lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect()
}

/// Text and tree must compile to the same thing.
fn read_pod(json: &Value) -> Pod {
    let pod = Pod::from_value(json).unwrap();
    assert_eq!(Pod::from_json(json.to_string()).unwrap(), pod);
    pod
}

#[derive(Default)]
struct Place {
    requested: Resources,
    n_pods: i64,
}

impl Place {
    fn take(&mut self, pod: &Pod) {
        self.requested.add(&pod.requests.accounted);
        self.n_pods += 1;
    }
}

/// The shortages NodeResourcesFit would report, sorted.
fn shortages(pod: &Pod, node: &Node, place: &Place) -> Vec<String> {
    let (wanted, has, taken) = (&pod.requests.fit, &node.allocatable, &place.requested);
    let mut reasons = Vec::new();
    if place.n_pods + 1 > node.allowed_pods {
        reasons.push("Too many pods".to_owned());
    }
    for (name, wanted, free) in [
        ("cpu", wanted.milli_cpu, has.milli_cpu - taken.milli_cpu),
        ("memory", wanted.memory, has.memory - taken.memory),
        (
            "ephemeral-storage",
            wanted.ephemeral_storage,
            has.ephemeral_storage - taken.ephemeral_storage,
        ),
    ] {
        if wanted > 0 && wanted > free {
            reasons.push(format!("Insufficient {name}"));
        }
    }
    for (name, wanted) in &wanted.scalars {
        if *wanted > 0 && *wanted > has.scalar(name).unwrap_or(0) - taken.scalar(name).unwrap_or(0)
        {
            reasons.push(format!("Insufficient {name}"));
        }
    }
    reasons.sort();
    reasons
}

fn first_verdict(pod: &Pod, node: &Node) -> Option<&'static str> {
    let cordon = Taint {
        key: "node.kubernetes.io/unschedulable".into(),
        value: "".into(),
        effect: TaintEffect::NoSchedule,
    };
    if node.unschedulable
        && !pod.spec.tolerations.iter().any(|toleration| toleration.tolerates(&cordon, false))
    {
        return Some("NodeUnschedulable");
    }
    if pod.node_name.as_ref().is_some_and(|name| *name != node.name) {
        return Some("NodeName");
    }
    if untolerated_taint(&node.taints, &pod.spec.tolerations, false).is_some() {
        return Some("TaintToleration");
    }
    (!node_satisfies_required_affinity(pod, node)).then_some("NodeAffinity")
}

/// How many verdicts were compared, by plugin (`-`: none of the early ones).
fn check(family: &str) -> BTreeMap<String, usize> {
    const EARLY: [&str; 4] = ["NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity"];
    let mut compared = BTreeMap::new();
    for case in cases(family) {
        let list = |kind: &str| case["cluster"][kind].as_array().cloned().unwrap_or_default();
        let nodes: Vec<Node> =
            list("nodes").iter().map(|json| Node::from_value(json).unwrap()).collect();
        let mut places: BTreeMap<String, Place> = BTreeMap::new();
        for pod in list("pods").iter().map(read_pod) {
            places
                .entry(pod.node_name.as_deref().unwrap_or_default().to_owned())
                .or_default()
                .take(&pod);
        }
        for step in case["steps"].as_array().unwrap() {
            let (pod, expect) = (read_pod(&step["pod"]), &step["expect"]);
            let label = || format!("{} {} {}", case["name"], pod.key(), expect["message"]);
            // Profiles of their own and gated pods are for the plugins' tests.
            if case.get("config").is_some_and(|config| !config.is_null())
                || expect["outcome"] == "Gated"
            {
                continue;
            }
            if let Some(NodeNames::Names(names)) = pod
                .spec
                .node_affinity
                .as_ref()
                .and_then(|a| a.required.as_ref())
                .map(|r| r.node_names())
            {
                let names: Vec<Value> = names.iter().map(|name| Value::from(&**name)).collect();
                let recorded =
                    expect["preFilter"]["nodeNames"].as_array().cloned().unwrap_or_default();
                assert_eq!(names, recorded, "{}", label());
                *compared.entry("narrowed".to_owned()).or_default() += 1;
            }
            let mut preempted = false;
            for node in &nodes {
                let rejection = &expect["filter"][&*node.name];
                let is_feasible = expect["feasible"]
                    .as_array()
                    .is_some_and(|names| names.iter().any(|name| *name == *node.name));
                let Some(plugin) = rejection["plugin"].as_str().or(is_feasible.then_some("-"))
                else {
                    continue;
                };
                let recorded = EARLY.contains(&plugin).then_some(plugin);
                // Narrowed searches name the plugin for nodes that no plugin filtered.
                if rejection["reasons"][0]
                    .as_str()
                    .is_some_and(|reason| reason.starts_with("node(s) didn't satisfy plugin"))
                {
                    continue;
                }
                assert_eq!(first_verdict(&pod, node), recorded, "{} on {}", label(), node.name);
                *compared.entry(plugin.to_owned()).or_default() += 1;
                let expected: Vec<String> = match plugin {
                    "NodeResourcesFit" => {
                        serde_json::from_value(rejection["reasons"].clone()).unwrap()
                    }
                    "-" => Vec::new(),
                    _ => continue,
                };
                let mut expected = expected;
                expected.sort();
                let empty = Place::default();
                let place = places.get(&*node.name).unwrap_or(&empty);
                assert_eq!(shortages(&pod, node, place), expected, "{} on {}", label(), node.name);
            }
            if let Some(results) = expect["postFilter"].as_array() {
                preempted = results.iter().any(|result| {
                    result["nominatedNode"].as_str().is_some_and(|name| !name.is_empty())
                });
            }
            if preempted {
                break;
            }
            if let Some(node) = expect["node"].as_str() {
                places.entry(node.to_owned()).or_default().take(&pod);
            }
        }
    }
    compared
}

#[test]
fn node_affinity_cases_agree() {
    let compared = check("nodeaffinity");
    assert!(compared["NodeAffinity"] > 1000 && compared["narrowed"] > 10, "{compared:?}");
}

#[test]
fn resource_cases_agree() {
    let compared = check("resources");
    assert!(compared["NodeResourcesFit"] > 500 && compared["-"] > 500, "{compared:?}");
}

#[test]
fn mixed_cases_agree() {
    let compared = check("mixed");
    assert!(
        compared["TaintToleration"] > 100 && compared["NodeResourcesFit"] > 100,
        "{compared:?}"
    );
}
