//! Where pods go by the default plugins.

use std::collections::BTreeMap;

use serde_json::json;

use crate::cluster::Cluster;
use crate::objects::{asking, node, node_in, nodes, pod, with};
use crate::scheduler::Running;
use crate::wait::until;

pub(crate) async fn what_fits_is_bound_and_what_does_not_is_reported(cluster: &Cluster) {
    let api = cluster.api();
    api.create_all(nodes(3)).await.unwrap();
    api.create_all((0..7).map(|i| asking(&format!("p-{i}"), "2"))).await.unwrap();
    let scheduler = Running::start(cluster).await;
    cluster.until_bound(6).await;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut waiting = None;
    for (pod, node) in cluster.placements().await {
        match node {
            Some(node) => *counts.entry(node).or_default() += 1,
            None => waiting = Some(pod),
        }
    }
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [2, 2, 2]);
    let waiting = waiting.unwrap();
    let message = cluster.until_unschedulable(&waiting).await;
    assert!(message.starts_with("0/3 nodes are available: 3 Insufficient cpu."), "{message}");
    let event = cluster.until_event(&waiting, "FailedScheduling").await;
    assert_eq!((&event["type"], &event["note"]), (&json!("Warning"), &json!(message)));
    assert_eq!(event["reportingController"], "default-scheduler");

    api.create(&node("node-3")).await.unwrap();
    assert_eq!(cluster.node_of(&waiting).await, "node-3");
    let event = cluster.until_event(&waiting, "Scheduled").await;
    let note = format!("Successfully assigned default/{waiting} to node-3");
    assert_eq!(event["note"], json!(note));
    until("condition", async || cluster.condition(&waiting).await["status"] == "True").await;
    scheduler.stop().await;
}

pub(crate) async fn taints_and_node_affinity_decide(cluster: &Cluster) {
    let api = cluster.api();
    let taint = json!({"key": "dedicated", "value": "db", "effect": "NoSchedule"});
    let labelled =
        |name: &str, disk: &str| with(node(name), json!({"metadata": {"labels": {"disk": disk}}}));
    api.create_all([
        with(labelled("tainted", "ssd"), json!({"spec": {"taints": [taint]}})),
        labelled("slow", "hdd"),
        labelled("fast", "ssd"),
        with(labelled("cordoned", "ssd"), json!({"spec": {"unschedulable": true}})),
    ])
    .await
    .unwrap();
    let toleration = json!({"key": "dedicated", "operator": "Exists"});
    let wants = |disk: &str| json!({"spec": {"nodeSelector": {"disk": disk}}});
    let prefers = json!({"spec": {"affinity": {"nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference":
            {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["hdd"]}]}}]}}}});
    api.create_all([
        with(pod("on-fast"), wants("ssd")),
        with(pod("on-slow"), wants("hdd")),
        with(pod("rather-slow"), prefers),
        with(
            with(pod("on-tainted"), json!({"spec": {"tolerations": [toleration]}})),
            json!({"spec": {"nodeSelector": {"kubernetes.io/hostname": "tainted"}}}),
        ),
        with(pod("nowhere"), wants("tape")),
    ])
    .await
    .unwrap();
    let scheduler = Running::start(cluster).await;
    for (pod, node) in [
        ("on-fast", "fast"),
        ("on-slow", "slow"),
        ("rather-slow", "slow"),
        ("on-tainted", "tainted"),
    ] {
        assert_eq!(cluster.node_of(pod).await, node, "{pod}");
    }
    let message = cluster.until_unschedulable("nowhere").await;
    assert!(message.starts_with("0/4 nodes are available: "), "{message}");
    for part in ["1 node(s) had untolerated taint", "1 node(s) were unschedulable"] {
        assert!(message.contains(part), "{message}");
    }
    scheduler.stop().await;
}

pub(crate) async fn pods_spread_over_zones(cluster: &Cluster) {
    let api = cluster.api();
    let zones = ["a", "b", "c"];
    api.create_all((0..6).map(|i| node_in(&format!("node-{i}"), zones[i % 3]))).await.unwrap();
    let spread = json!({"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}});
    let web = |i: usize| {
        with(
            pod(&format!("web-{i}")),
            json!({"metadata": {"labels": {"app": "web"}},
                "spec": {"topologySpreadConstraints": [spread]}}),
        )
    };
    let scheduler = Running::start(cluster).await;
    api.create_all((0..9).map(web)).await.unwrap();
    cluster.until_bound(9).await;
    let mut counts = [0; 3];
    for node in cluster.placements().await.into_values().flatten() {
        let number: usize = node.trim_start_matches("node-").parse().unwrap();
        counts[number % 3] += 1;
    }
    assert_eq!(counts, [3, 3, 3]);
    scheduler.stop().await;
}

pub(crate) async fn pods_avoid_and_follow_each_other(cluster: &Cluster) {
    let api = cluster.api();
    api.create_all([node_in("a-0", "a"), node_in("b-0", "b"), node_in("b-1", "b")]).await.unwrap();
    let term = |app: &str, key: &str| {
        json!({"requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}]})
    };
    let db = |i: usize| {
        let apart = term("db", "topology.kubernetes.io/zone");
        with(
            pod(&format!("db-{i}")),
            json!({"metadata": {"labels": {"app": "db"}},
                "spec": {"affinity": {"podAntiAffinity": apart}}}),
        )
    };
    let scheduler = Running::start(cluster).await;
    api.create_all([db(0), db(1)]).await.unwrap();
    cluster.until_bound(2).await;
    let zone = |node: &str| node.split('-').next().unwrap_or_default().to_owned();
    let first = cluster.node_of("db-0").await;
    assert_ne!(zone(&first), zone(&cluster.node_of("db-1").await));
    api.create(&db(2)).await.unwrap();
    let message = cluster.until_unschedulable("db-2").await;
    assert!(message.contains("3 node(s) didn't match pod anti-affinity rules"), "{message}");

    // One that belongs to the first; the third finds a place when the first goes.
    let follower = json!({"spec": {"affinity": {"podAffinity": term("db", "kubernetes.io/hostname")},
        "nodeSelector": {"topology.kubernetes.io/zone": zone(&first)}}});
    api.create(&with(pod("follower"), follower)).await.unwrap();
    assert_eq!(cluster.node_of("follower").await, first);
    api.delete("Pod", "db-0", None).await.unwrap();
    assert_eq!(zone(&cluster.node_of("db-2").await), zone(&first));
    scheduler.stop().await;
}

pub(crate) async fn gated_pods_wait(cluster: &Cluster) {
    let api = cluster.api();
    api.create_all(nodes(1)).await.unwrap();
    let gates = json!({"spec": {"schedulingGates": [{"name": "example.com/a"}, {"name": "example.com/b"}]}});
    api.create(&with(pod("gated"), gates)).await.unwrap();
    let scheduler = Running::start(cluster).await;
    // Pods behind it in the queue show that it had its chance.
    let after = |name: &'static str| async move {
        api.create(&pod(name)).await.unwrap();
        cluster.node_of(name).await;
        assert_eq!(cluster.placements().await["gated"], None);
    };
    after("free-0").await;
    let open = |left: serde_json::Value| async move {
        api.patch("Pod", "gated", "", &json!({"spec": {"schedulingGates": left}})).await.unwrap();
    };
    open(json!([{"name": "example.com/b"}])).await;
    after("free-1").await;
    open(json!([])).await;
    assert_eq!(cluster.node_of("gated").await, "node-0");
    scheduler.stop().await;
}
