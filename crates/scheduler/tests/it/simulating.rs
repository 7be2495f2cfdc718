//! `simulate` end to end: what goes in is accounted for in what comes out.

use serde_json::Value;

use crate::{Files, run, stderr, stdout};

const CLUSTER: &str = "\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: '2', memory: 4Gi, pods: '10'}}
---
apiVersion: v1
kind: Pod
metadata: {name: fits}
spec: {containers: [{name: c, image: x, resources: {requests: {cpu: '1'}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: too-large}
spec: {containers: [{name: c, image: x, resources: {requests: {cpu: '8'}}}]}
";

#[test]
fn every_pod_is_placed_or_explained() {
    let files = Files::new();
    let path = files.write("cluster.yaml", CLUSTER);
    let output = run(&["simulate", "-f", &path, "-o", "json", "--explain", "default/too-large"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(report["pods"]["total"], 2);
    assert_eq!(report["pods"]["scheduled"], 1);
    assert_eq!(report["placements"][0]["node"], "n1");
    let message = report["pending"][0]["message"].as_str().unwrap();
    assert!(message.starts_with("0/1 nodes are available: 1 Insufficient cpu."), "{message}");
}

#[test]
fn feature_gates_say_which_fields_of_a_pod_count() {
    let files = Files::new();
    let cluster = "\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: '2', memory: 4Gi, pods: '10'}}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  resources: {requests: {cpu: '8'}}
  containers: [{name: c, image: x, resources: {requests: {cpu: '1'}}}]
";
    let path = files.write("cluster.yaml", cluster);
    let n_scheduled = |gates: &[&str]| {
        let mut args = vec!["simulate", "-f", &path, "-o", "json"];
        args.extend(gates);
        let output = run(&args);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
        report["pods"]["scheduled"].as_u64().unwrap()
    };
    assert_eq!(n_scheduled(&[]), 0);
    let off = "PodLevelResources=false,InPlacePodLevelResourcesVerticalScaling=false";
    assert_eq!(n_scheduled(&["--feature-gates", off]), 1);
}

#[test]
fn completions_and_help_are_there() {
    for args in [&["--help"][..], &["simulate", "--help"], &["completions", "bash"], &["version"]] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(!output.stdout.is_empty(), "{args:?} prints nothing");
    }
}
