//! Important pods that take the place of others.

use serde_json::json;

use crate::cluster::Cluster;
use crate::objects::{asking, nodes, priority_class, with};
use crate::scheduler::Running;
use crate::wait::until;

pub(crate) async fn more_important_pods_take_the_place_of_others(cluster: &Cluster) {
    let api = cluster.api();
    api.create_all([priority_class("low", 10), priority_class("high", 1000)]).await.unwrap();
    api.create_all(nodes(2)).await.unwrap();
    let of = |name: &str, class: &str, cpu: &str| {
        with(asking(name, cpu), json!({"spec": {"priorityClassName": class}}))
    };
    api.create_all((0..4).map(|i| of(&format!("low-{i}"), "low", "2"))).await.unwrap();
    let scheduler = Running::start(cluster).await;
    cluster.until_bound(4).await;
    api.create(&of("high", "high", "3500m")).await.unwrap();
    let node = cluster.node_of("high").await;
    // Both that were there had to go, and no other pod.
    until("two left", async || cluster.placements().await.len() == 3).await;
    for (pod, other) in cluster.placements().await {
        assert!(pod == "high" || other.as_ref() != Some(&node), "{pod} is still on {node}");
    }
    let victims: Vec<String> = {
        let left = cluster.placements().await;
        (0..4).map(|i| format!("low-{i}")).filter(|name| !left.contains_key(name)).collect()
    };
    assert_eq!(victims.len(), 2);
    for victim in &victims {
        let event = cluster.until_event(victim, "Preempted").await;
        assert_eq!(event["action"], "Preempting");
        assert!(event["note"].as_str().unwrap().ends_with(&format!("on node {node}")), "{event}");
    }
    scheduler.stop().await;
}

pub(crate) async fn budgets_are_respected(cluster: &Cluster) {
    let api = cluster.api();
    api.create_all([priority_class("low", 10), priority_class("high", 1000)]).await.unwrap();
    api.create_all(nodes(2)).await.unwrap();
    let of = |name: &str, class: &str, app: &str| {
        let labels =
            json!({"metadata": {"labels": {"app": app}}, "spec": {"priorityClassName": class}});
        with(asking(name, "3"), labels)
    };
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "guard"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}});
    api.create(&budget).await.unwrap();
    // What the controller of budgets would find.
    let status = json!({"status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1,
        "expectedPods": 1, "observedGeneration": 1}});
    api.patch("PodDisruptionBudget", "guard", "status", &status).await.unwrap();
    let scheduler = Running::start(cluster).await;
    api.create_all([of("guarded", "low", "guarded"), of("free", "low", "free")]).await.unwrap();
    cluster.until_bound(2).await;
    let freed = cluster.node_of("free").await;
    api.create(&of("high", "high", "high")).await.unwrap();
    assert_eq!(cluster.node_of("high").await, freed);
    assert!(cluster.placements().await.contains_key("guarded"));
    scheduler.stop().await;
}
