//! What a scheduler does when nothing goes wrong.

use kube_scheduler_config::{FeatureGates, Gate};
use kube_scheduler_devcluster::{EVENTS, NodeTemplate, PODS, Selection};
use kube_scheduler_engine::PendingCounts;
use serde_json::{Value, json};

use crate::cluster::{Running, cluster, daemon, n_bound, pod, pods, until, until_bound};

fn scheduled_condition(cluster: &kube_scheduler_devcluster::DevCluster, name: &str) -> Value {
    let Some(pod) = cluster.get(PODS, "default", name) else { return Value::Null };
    let pod = pod.value();
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == "PodScheduled").unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_are_there_and_pods_that_come_are_bound() {
    let cluster = cluster(5).await;
    cluster.bulk_create(pods("early", 100)).unwrap();
    let scheduler = Running::start(daemon(&cluster)).await;
    until_bound(&cluster, 100).await;
    cluster.bulk_create(pods("late", 100)).unwrap();
    until_bound(&cluster, 200).await;
    until("all counted", || scheduler.handle.progress().n_bound == 200).await;
    let events = || {
        let events = cluster.list(EVENTS, &Selection::all()).items;
        events.iter().filter(|event| event.value()["reason"] == "Scheduled").count()
    };
    until("an event per pod", || events() == 200).await;
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_fits_nowhere_is_reported_and_bound_once_it_fits() {
    let cluster = cluster(2).await;
    let mut large = pod("large");
    large["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("64");
    cluster.create(large).unwrap();
    let scheduler = Running::start(daemon(&cluster)).await;
    until("condition", || scheduled_condition(&cluster, "large")["reason"] == "Unschedulable")
        .await;
    let condition = scheduled_condition(&cluster, "large");
    assert_eq!(condition["status"], "False");
    let message = condition["message"].as_str().unwrap();
    assert!(message.starts_with("0/2 nodes are available: 2 Insufficient cpu."), "{message}");
    let reported = || {
        let events = cluster.list(EVENTS, &Selection::all()).items;
        events.iter().any(|event| {
            let event = event.value();
            event["reason"] == "FailedScheduling"
                && event["message"] == message
                && event["type"] == "Warning"
        })
    };
    until("an event", reported).await;

    cluster.add_hollow_nodes(1, &NodeTemplate::default().capacity("cpu", "128")).unwrap();
    until_bound(&cluster, 1).await;
    until("condition", || scheduled_condition(&cluster, "large")["status"] == "True").await;
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_a_whole_pod_count_only_under_their_gate() {
    let cluster = cluster(1).await;
    let mut web = pod("web");
    web["spec"]["resources"] = json!({"requests": {"cpu": "64"}});
    cluster.create(web).unwrap();
    let scheduler = Running::start(daemon(&cluster)).await;
    until("condition", || scheduled_condition(&cluster, "web")["reason"] == "Unschedulable").await;
    scheduler.stop().await;

    let gates = FeatureGates::default()
        .with(Gate::PodLevelResources, false)
        .with(Gate::InPlacePodLevelResourcesVerticalScaling, false);
    let scheduler = Running::start(daemon(&cluster).gates(gates)).await;
    until_bound(&cluster, 1).await;
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gated_pods_and_pods_of_other_schedulers_are_left_alone() {
    let cluster = cluster(1).await;
    let mut gated = pod("gated");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    let mut foreign = pod("foreign");
    foreign["spec"]["schedulerName"] = json!("somebody-else");
    cluster.bulk_create([gated, foreign, pod("mine")]).unwrap();
    let scheduler = Running::start(daemon(&cluster)).await;
    until_bound(&cluster, 1).await;
    let gated = PendingCounts { gated: 1, ..PendingCounts::default() };
    until("one gated pod", || scheduler.handle.progress().pending == gated).await;
    assert_eq!(n_bound(&cluster), 1);
    cluster
        .edit(PODS, "default", "gated", |pod| pod["spec"]["schedulingGates"] = json!([]))
        .unwrap();
    until_bound(&cluster, 2).await;
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_finishes_what_was_begun() {
    let cluster = cluster(5).await;
    cluster.bulk_create(pods("p", 300)).unwrap();
    let scheduler = Running::start(daemon(&cluster).concurrent_writes(4)).await;
    until("some pods bound", || n_bound(&cluster) > 10).await;
    let handle = scheduler.handle.clone();
    scheduler.stop().await;
    let progress = handle.progress();
    assert_eq!(
        progress.n_bound as usize,
        n_bound(&cluster),
        "every binding under way was waited for"
    );
}
