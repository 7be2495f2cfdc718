//! Gangs: all of their pods, or as many as they want at least, or none.
//!
//! A real API server serves pod groups only with their gate on; where it does not, nothing is played.

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::objects::{asking, nodes, pod, with};
use crate::scheduler::Running;
use crate::wait::until;

/// A group whose pods wait until so many of them can be scheduled.
fn gang(name: &str, min_count: usize) -> Value {
    json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}}})
}

/// A pod that belongs to a group.
fn member(pod: Value, group: &str) -> Value {
    with(pod, json!({"spec": {"schedulingGroup": {"podGroupName": group}}}))
}

/// Whether the server has pod groups.
async fn has_groups(cluster: &Cluster) -> bool {
    cluster.api().list("PodGroup").await.is_ok()
}

/// Waits until the condition of a group has this status, and tells its reason.
async fn until_condition(cluster: &Cluster, group: &str, status: &str) -> String {
    let mut reason = String::new();
    until(&format!("group {group} is {status}"), async || {
        let group = cluster.api().get("PodGroup", group).await.unwrap().unwrap_or_default();
        let condition = &group["status"]["conditions"][0];
        reason = condition["reason"].as_str().unwrap_or_default().to_owned();
        condition["status"] == status && condition["type"] == "PodGroupScheduled"
    })
    .await;
    reason
}

pub(crate) async fn a_gang_waits_for_its_last_pod(cluster: &Cluster) {
    if !has_groups(cluster).await {
        return;
    }
    let api = cluster.api();
    api.create_all(nodes(2)).await.unwrap();
    let scheduler = Running::start_with_groups(cluster).await;
    api.create(&gang("train", 3)).await.unwrap();
    for name in ["train-0", "train-1"] {
        api.create(&member(pod(name), "train")).await.unwrap();
    }
    // What comes later and waits for nobody goes first.
    api.create(&pod("single")).await.unwrap();
    cluster.node_of("single").await;
    assert_eq!(cluster.n_bound().await, 1, "two of three do not start");
    api.create(&member(pod("train-2"), "train")).await.unwrap();
    cluster.until_bound(4).await;
    assert_eq!(until_condition(cluster, "train", "True").await, "Scheduled");
    scheduler.stop().await;
}

pub(crate) async fn a_gang_that_does_not_fit_takes_no_room(cluster: &Cluster) {
    if !has_groups(cluster).await {
        return;
    }
    let api = cluster.api();
    // Two nodes of 4 CPUs: room for two of the three.
    api.create_all(nodes(2)).await.unwrap();
    let scheduler = Running::start_with_groups(cluster).await;
    api.create(&gang("large", 3)).await.unwrap();
    for i in 0..3 {
        let large = asking(&format!("large-{i}"), "3");
        api.create(&member(large, "large")).await.unwrap();
    }
    assert_eq!(until_condition(cluster, "large", "False").await, "Unschedulable");
    assert_eq!(cluster.n_bound().await, 0);
    // The room is still there.
    for name in ["other-0", "other-1"] {
        api.create(&asking(name, "3")).await.unwrap();
        cluster.node_of(name).await;
    }
    assert_eq!(cluster.n_bound().await, 2);
    scheduler.stop().await;
}
