//! Questions end to end: from files, and from a cluster that is read.

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::{Files, run, stderr, stdout};

const CLUSTER: &str = "\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: '2', memory: 4Gi, pods: '10'}}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
spec: {taints: [{key: gpu, effect: NoSchedule}]}
status: {allocatable: {cpu: '4', memory: 4Gi, pods: '10'}}
---
apiVersion: v1
kind: Pod
metadata: {name: too-large}
spec: {containers: [{name: c, image: x, resources: {requests: {cpu: '8'}}}]}
";

const SMALL: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: small}
spec: {containers: [{name: c, image: x, resources: {requests: {cpu: 500m}}}]}
";

/// Runs a command; its exit code and its answer.
fn asked(args: &[&str]) -> (Option<i32>, Value) {
    let output = run(&[args, &["-o", "json"]].concat());
    let answer = serde_json::from_str(&stdout(&output)).unwrap_or(Value::Null);
    (output.status.code(), answer)
}

#[test]
fn a_pod_of_a_dump_and_one_of_a_manifest_are_explained() {
    let files = Files::new();
    let (cluster, small) = (files.write("cluster.yaml", CLUSTER), files.write("small.yaml", SMALL));
    let (code, answer) = asked(&["explain", "default/too-large", "-f", &cluster]);
    assert_eq!((code, &answer["verdict"]), (Some(1), &json!("DoesNotFit")));
    assert_eq!(answer["rejected"][1]["rejections"][1]["plugin"], "NodeResourcesFit", "{answer}");
    let (code, answer) = asked(&["explain", "-p", &small, "-f", &cluster]);
    assert_eq!((code, &answer["decision"]["node"]), (Some(0), &json!("n1")));
    let output = run(&["explain", "nobody", "-f", &cluster]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("error: there is no pod default/nobody"));
}

#[test]
fn changes_are_tried_and_pods_counted() {
    let files = Files::new();
    let (cluster, small) = (files.write("cluster.yaml", CLUSTER), files.write("small.yaml", SMALL));
    let (code, answer) = asked(&["what-if", "--add", &small, "--cordon", "n1", "-f", &cluster]);
    assert_eq!((code, &answer["fits"]), (Some(1), &json!(false)));
    let more = ["what-if", "--add", &small, "--cordon", "n1", "--nodes-like", "n1=1"];
    let (code, answer) = asked(&[&more[..], &["-f", &cluster]].concat());
    assert_eq!((code, &answer["placements"][0]["node"]), (Some(0), &json!("n1-like-1")));
    let (code, answer) = asked(&["capacity", "-p", &small, "-f", &cluster]);
    assert_eq!((code, &answer["count"]), (Some(0), &json!(4)));
    let (code, _) = asked(&["capacity", "-p", &small, "--at-least", "5", "-f", &cluster]);
    assert_eq!(code, Some(1));
    let output = run(&["drain", "n9", "-f", &cluster]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("error: there is no node \"n9\""), "{}", stderr(&output));
}

#[test]
fn a_cluster_is_read_and_not_changed() {
    let files = Files::new();
    let cluster = Cluster::start(&files, &["--nodes", "3"]);
    cluster.create_pods(2);
    let small = files.write("small.yaml", SMALL);
    let before = cluster.call("GET", "/api/v1/pods", &Value::Null);
    let source = ["--kubeconfig", &cluster.kubeconfig];
    let (code, answer) = asked(&[&["what-if", "--add", &small], &source[..]].concat());
    assert_eq!((code, &answer["kind"]), (Some(0), &json!("WhatIf")), "{answer}");
    let name = before["items"][0]["metadata"]["name"].as_str().unwrap();
    let namespace = before["items"][0]["metadata"]["namespace"].as_str().unwrap();
    let pod = format!("{namespace}/{name}");
    let (code, answer) = asked(&[&["explain", &pod], &source[..]].concat());
    assert_eq!((code, &answer["nodes"]), (Some(0), &json!(3)), "{answer}");
    let after = cluster.call("GET", "/api/v1/pods", &Value::Null);
    assert_eq!(before["items"], after["items"]);
    let output = run(&[&["explain", &pod], &source[..], &["--context", "nowhere"]].concat());
    assert_eq!(output.status.code(), Some(2));
}

/// The tour in `docs/answers.md` shows what the commands really print.
#[test]
fn the_tour_is_what_is_printed() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let tour = std::fs::read_to_string(format!("{root}/docs/answers.md")).unwrap();
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/answers");
    let mut n_shown = 0;
    for block in tour.split("```console\n$ kube-scheduler-rs ").skip(1) {
        let (shown, _) = block.split_once("\n```").unwrap();
        let (command, expected) = shown.split_once('\n').unwrap();
        let args: Vec<String> = command
            .split(' ')
            .map(|arg| match arg.ends_with(".yaml") {
                true => format!("{data}/{arg}"),
                false => arg.to_owned(),
            })
            .collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let output = run(&args);
        assert_eq!(stdout(&output).trim_end(), expected, "{command}: {}", stderr(&output));
        n_shown += 1;
    }
    assert_eq!(n_shown, 5);
}
