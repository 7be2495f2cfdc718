//! Pods that make room for more important ones: marked, reported, deleted, waited for.

use std::time::Duration;

use kube_scheduler_devcluster::{
    DISRUPTION_BUDGETS, DevCluster, EVENTS, FaultEffect, FaultRule, HollowOptions, PODS, Selection,
};
use serde_json::{Value, json};

use crate::cluster::{
    Running, cluster, cluster_of, daemon, n_bound, placements, pod, until, until_bound,
};

/// The priorities in use; a pod gets one through its class.
const PRIORITIES: [i32; 3] = [1, 5, 100];

/// A cluster whose pods take `length` to go.
async fn reluctant(n_nodes: usize, length: Duration) -> DevCluster {
    let mut hollow = HollowOptions::default();
    hollow.stop_latency = length;
    let cluster = cluster_of(DevCluster::builder().hollow(Some(hollow)), n_nodes).await;
    with_classes(cluster)
}

async fn prompt(n_nodes: usize) -> DevCluster {
    with_classes(cluster(n_nodes).await)
}

fn with_classes(cluster: DevCluster) -> DevCluster {
    for priority in PRIORITIES {
        cluster
            .create(json!({
                "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                "metadata": {"name": class_of(priority)}, "value": priority,
            }))
            .unwrap();
    }
    cluster
}

fn class_of(priority: i32) -> String {
    format!("priority-{priority}")
}

fn sized(name: &str, cpu: &str, priority: i32) -> Value {
    let mut pod = pod(name);
    pod["metadata"]["labels"] = json!({"app": name});
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!(cpu);
    if priority != 0 {
        pod["spec"]["priorityClassName"] = json!(class_of(priority));
    }
    pod
}

fn value(cluster: &DevCluster, name: &str) -> Value {
    cluster.get(PODS, "default", name).map_or(Value::Null, |pod| pod.value().clone())
}

fn node_of(cluster: &DevCluster, name: &str) -> Option<String> {
    placements(cluster).get(name).cloned().flatten()
}

fn is_gone(cluster: &DevCluster, name: &str) -> bool {
    cluster.get(PODS, "default", name).is_none()
}

fn is_going(cluster: &DevCluster, name: &str) -> bool {
    !value(cluster, name)["metadata"]["deletionTimestamp"].is_null()
}

/// Notes of all `Preempted` events by pod.
fn reported(cluster: &DevCluster) -> Vec<(String, Value)> {
    let events = cluster.list(EVENTS, &Selection::all()).items;
    let mut reported: Vec<_> = events
        .iter()
        .filter(|event| event.value()["reason"] == "Preempted")
        .map(|event| {
            let event = event.value().clone();
            let name = event["involvedObject"]["name"].as_str().unwrap_or_default().to_owned();
            (name, event)
        })
        .collect();
    reported.sort_by(|(a, _), (b, _)| a.cmp(b));
    reported
}

#[tokio::test(flavor = "multi_thread")]
async fn victims_are_marked_told_and_waited_for() {
    let cluster = reluctant(1, Duration::from_secs(10)).await;
    cluster.bulk_create([sized("v1", "2", 0), sized("v2", "2", 1)]).unwrap();
    let scheduler = Running::start(daemon(&cluster)).await;
    until_bound(&cluster, 2).await;
    let node = node_of(&cluster, "v1").unwrap();
    let big = cluster.create(sized("big", "4", 100)).unwrap();
    let uid = big.value()["metadata"]["uid"].as_str().unwrap().to_owned();
    until("both are going", || is_going(&cluster, "v1") && is_going(&cluster, "v2")).await;
    for victim in ["v1", "v2"] {
        let victim = value(&cluster, victim);
        let conditions = victim["status"]["conditions"].as_array().unwrap();
        let condition = conditions.iter().find(|one| one["type"] == "DisruptionTarget").unwrap();
        assert_eq!(condition["status"], "True");
        assert_eq!(condition["reason"], "PreemptionByScheduler");
        assert_eq!(
            condition["message"],
            "default-scheduler: preempting to accommodate a higher priority pod"
        );
    }
    until("nominated", || value(&cluster, "big")["status"]["nominatedNodeName"] == node).await;
    assert_eq!(node_of(&cluster, "big"), None, "its victims still hold the room");
    until("bound", || node_of(&cluster, "big").as_ref() == Some(&node)).await;
    assert!(is_gone(&cluster, "v1") && is_gone(&cluster, "v2"));
    until("both are reported", || reported(&cluster).len() == 2).await;
    for (name, event) in reported(&cluster) {
        assert!(name == "v1" || name == "v2");
        assert_eq!(event["type"], "Normal");
        assert_eq!(event["action"], "Preempting");
        assert_eq!(event["message"], format!("Preempted by pod {uid} on node {node}"));
        assert!(event["related"].is_null());
    }
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_is_violated_only_when_there_is_no_other_way() {
    let cluster = prompt(2).await;
    cluster.bulk_create([sized("kept", "4", 0), sized("free", "4", 5)]).unwrap();
    cluster
        .create(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "keep", "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}},
        }))
        .unwrap();
    let scheduler = Running::start(daemon(&cluster)).await;
    until_bound(&cluster, 2).await;
    let allowed = || {
        let budget = cluster.get(DISRUPTION_BUDGETS, "default", "keep").unwrap();
        budget.value()["status"]["currentHealthy"] == 1
    };
    until("the budget is counted", allowed).await;
    let (kept, free) = (node_of(&cluster, "kept").unwrap(), node_of(&cluster, "free").unwrap());
    cluster.create(sized("first", "4", 100)).unwrap();
    until("first bound", || node_of(&cluster, "first").as_ref() == Some(&free)).await;
    assert!(is_gone(&cluster, "free") && !is_gone(&cluster, "kept"));
    cluster.create(sized("second", "4", 100)).unwrap();
    until("second bound", || node_of(&cluster, "second").as_ref() == Some(&kept)).await;
    assert!(is_gone(&cluster, "kept"));
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn preemptors_do_not_count_on_the_same_room() {
    let cluster = reluctant(3, Duration::from_millis(300)).await;
    cluster.bulk_create(["a", "b", "c"].map(|name| sized(name, "4", 0))).unwrap();
    let scheduler = Running::start(daemon(&cluster)).await;
    until_bound(&cluster, 3).await;
    cluster.bulk_create(["x", "y"].map(|name| sized(name, "4", 100))).unwrap();
    until("both bound", || node_of(&cluster, "x").is_some() && node_of(&cluster, "y").is_some())
        .await;
    assert_ne!(node_of(&cluster, "x"), node_of(&cluster, "y"));
    until("two are reported", || reported(&cluster).len() == 2).await;
    assert_eq!(n_bound(&cluster), 3, "one stays");
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_eviction_that_fails_is_tried_again() {
    let cluster = prompt(1).await;
    cluster.create(sized("victim", "4", 0)).unwrap();
    let refused = FaultRule::new(FaultEffect::Error { code: 403, retry_after_seconds: None })
        .verb("delete")
        .resource("pods")
        .count(2);
    cluster.faults().add(refused).unwrap();
    let scheduler = Running::start(daemon(&cluster)).await;
    until_bound(&cluster, 1).await;
    cluster.create(sized("big", "4", 100)).unwrap();
    until("bound", || node_of(&cluster, "big").is_some()).await;
    assert_eq!(cluster.faults().injected(), 2);
    until("the victim is reported once", || reported(&cluster).len() == 1).await;
    scheduler.stop().await;
}

/// The condition of victims makes a pod larger, which may be as large as a pod can be already.
#[tokio::test(flavor = "multi_thread")]
async fn a_victim_that_is_too_large_for_its_condition_is_evicted_without() {
    let cluster = prompt(1).await;
    cluster.create(sized("victim", "4", 0)).unwrap();
    let scheduler = Running::start(daemon(&cluster)).await;
    until_bound(&cluster, 1).await;
    let mut too_large = FaultRule::new(FaultEffect::Error { code: 413, retry_after_seconds: None })
        .verb("patch")
        .resource("pods/status");
    too_large.name = Some("victim".to_owned());
    cluster.faults().add(too_large).unwrap();
    cluster.create(sized("big", "4", 100)).unwrap();
    until("bound", || node_of(&cluster, "big").is_some()).await;
    assert_eq!(cluster.faults().injected(), 1);
    until("the victim is reported", || reported(&cluster).len() == 1).await;
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_in_the_middle_evicts_nobody_else() {
    let cluster = reluctant(2, Duration::from_secs(10)).await;
    cluster.bulk_create([sized("a", "4", 0), sized("b", "4", 0)]).unwrap();
    let first = Running::start(daemon(&cluster)).await;
    until_bound(&cluster, 2).await;
    cluster.create(sized("big", "4", 100)).unwrap();
    let nomination = || value(&cluster, "big")["status"]["nominatedNodeName"].clone();
    until("one is going", || is_going(&cluster, "a") || is_going(&cluster, "b")).await;
    until("nominated", || nomination().is_string()).await;
    let nominated = nomination();
    first.kill().await;
    let second = Running::start(daemon(&cluster).seed(1)).await;
    until("bound", || node_of(&cluster, "big").is_some()).await;
    assert_eq!(node_of(&cluster, "big").map(Value::from), Some(nominated));
    assert_eq!(n_bound(&cluster), 2, "the other one stays");
    second.stop().await;
}
