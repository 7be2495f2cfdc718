//! What a scheduler does when the API server misbehaves.

use std::time::Duration;

use kube_scheduler_daemon::{Daemon, Endpoint};
use kube_scheduler_devcluster::{DevCluster, FaultEffect, FaultRule, PODS};
use kube_scheduler_plugins_intree::registry;
use serde_json::json;

use crate::cluster::{
    BindingLog, ClosedPort, Running, cluster, cluster_of, daemon, n_bound, pod, pods, until,
    until_bound,
};

#[tokio::test(flavor = "multi_thread")]
async fn dropped_watches_lost_history_and_a_restart_lose_no_pod() {
    // No other process gets the port while the server is away.
    let port = ClosedPort::new();
    let builder = DevCluster::builder().port(port.address().port());
    let cluster = cluster_of(builder.bookmark_interval(Duration::from_millis(50)), 5).await;
    let log = BindingLog::start(&cluster);
    let scheduler = Running::start(daemon(&cluster)).await;
    assert!(scheduler.handle.synced().await);

    cluster.bulk_create(pods("a", 50)).unwrap();
    cluster.faults().drop_watches(None, true);
    cluster.bulk_create(pods("b", 50)).unwrap();
    until_bound(&cluster, 100).await;

    // While the watch is away, pods come and go, and the server forgets how it was.
    cluster.faults().drop_watches(None, false);
    cluster.bulk_create(pods("c", 50)).unwrap();
    cluster.delete(PODS, "default", "a-0").unwrap();
    cluster.store().compact_history(None);
    until_bound(&cluster, 149).await;

    cluster.restart(Duration::from_millis(200));
    cluster.bulk_create(pods("d", 50)).unwrap();
    until_bound(&cluster, 199).await;
    scheduler.stop().await;
    log.check(199).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_gone_keeps_no_scheduler_from_stopping() {
    let port = ClosedPort::new();
    let absent = port.address();
    let endpoint = Endpoint::from_url(&format!("http://{absent}")).unwrap();
    // It has nothing to write, so it needs none of its grace.
    let daemon = Daemon::builder(endpoint, registry()).grace(Duration::from_secs(24 * 3600));
    let scheduler = Running::start(daemon).await;
    tokio::time::timeout(Duration::from_secs(60), scheduler.stop()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_missed_while_the_history_was_lost_is_noticed() {
    let cluster = cluster(1).await;
    let mut first = pod("first");
    first["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("4");
    let mut second = first.clone();
    second["metadata"]["name"] = json!("second");
    cluster.create(first).unwrap();
    let scheduler = Running::start(daemon(&cluster)).await;
    until_bound(&cluster, 1).await;
    cluster.create(second).unwrap();
    until("second waits", || scheduler.handle.progress().pending.unschedulable == 1).await;

    // The watch cannot come back before the deletion is forgotten.
    cluster
        .faults()
        .add(
            FaultRule::new(FaultEffect::Error { code: 503, retry_after_seconds: None })
                .verb("watch"),
        )
        .unwrap();
    cluster.faults().drop_watches(None, true);
    cluster.delete(PODS, "default", "first").unwrap();
    until("first gone", || cluster.get(PODS, "default", "first").is_none()).await;
    cluster.store().compact_history(None);
    cluster.faults().clear();
    until("second bound", || n_bound(&cluster) == 1).await;
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_binding_whose_answer_is_lost_counts() {
    let cluster = cluster(5).await;
    let lost = FaultRule::new(FaultEffect::ResetAfter)
        .verb("create")
        .resource("pods/binding")
        .probability(0.5);
    cluster.faults().add(lost).unwrap();
    cluster.bulk_create(pods("p", 60)).unwrap();
    let log = BindingLog::start(&cluster);
    let scheduler = Running::start(daemon(&cluster)).await;
    until_bound(&cluster, 60).await;
    until("all counted", || scheduler.handle.progress().n_bound == 60).await;
    assert!(cluster.faults().injected() > 10);
    assert_eq!(scheduler.handle.progress().n_error_attempts, 0, "no answer is no failure");
    scheduler.stop().await;
    log.check(60).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_bindings_are_tried_again() {
    let cluster = cluster(5).await;
    let refused = |code| {
        FaultRule::new(FaultEffect::Error { code, retry_after_seconds: None })
            .verb("create")
            .resource("pods/binding")
            .count(5)
    };
    cluster.faults().add(refused(409)).unwrap();
    cluster.faults().add(refused(500)).unwrap();
    cluster
        .faults()
        .add(FaultRule::new(FaultEffect::Reset).verb("create").resource("pods/binding").count(5))
        .unwrap();
    cluster.bulk_create(pods("p", 40)).unwrap();
    let scheduler = Running::start(daemon(&cluster)).await;
    until_bound(&cluster, 40).await;
    until("all counted", || scheduler.handle.progress().n_bound == 40).await;
    // Those whose connection broke are sent again as they are.
    assert_eq!(scheduler.handle.progress().n_error_attempts, 10);
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_asks_for_patience_gets_it() {
    let cluster = cluster(5).await;
    let busy = FaultRule::new(FaultEffect::Error { code: 429, retry_after_seconds: Some(1) })
        .verb("create")
        .resource("pods/binding")
        .count(20);
    cluster.faults().add(busy).unwrap();
    cluster.bulk_create(pods("p", 40)).unwrap();
    let scheduler = Running::start(daemon(&cluster)).await;
    until_bound(&cluster, 40).await;
    until("all counted", || scheduler.handle.progress().n_bound == 40).await;
    assert_eq!(scheduler.handle.progress().n_error_attempts, 0);
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn status_patches_are_tried_again() {
    let cluster = cluster(1).await;
    let refused = FaultRule::new(FaultEffect::Error { code: 503, retry_after_seconds: None })
        .verb("patch")
        .resource("pods/status")
        .count(3);
    cluster.faults().add(refused).unwrap();
    let mut large = pod("large");
    large["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("64");
    cluster.create(large).unwrap();
    let scheduler = Running::start(daemon(&cluster)).await;
    let is_reported = || {
        let Some(pod) = cluster.get(PODS, "default", "large") else { return false };
        pod.value()["status"]["conditions"]
            .as_array()
            .is_some_and(|all| all.iter().any(|condition| condition["reason"] == "Unschedulable"))
    };
    until("condition", is_reported).await;
    assert_eq!(cluster.faults().injected(), 3);
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_streaming_lists_is_listed_in_pages() {
    let cluster = cluster(3).await;
    // More than a page.
    cluster.bulk_create(pods("p", 1_100)).unwrap();
    let refused = FaultRule::new(FaultEffect::Error { code: 422, retry_after_seconds: None })
        .verb("watch")
        .count(3);
    cluster.faults().add(refused).unwrap();
    let scheduler = Running::start(daemon(&cluster)).await;
    // 330 pods fit by number, 1,200 by CPU.
    until_bound(&cluster, 330).await;
    let progress = || scheduler.handle.progress();
    until("all seen", || progress().n_bound + progress().pending.total() as u64 == 1_100).await;
    assert_eq!(cluster.faults().injected(), 3);
    scheduler.stop().await;
}
