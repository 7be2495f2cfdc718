//! A scheduler that dies half-way, and the one that comes after it.

use kube_scheduler_devcluster::{FaultEffect, FaultRule};

use crate::cluster::{BindingLog, Running, cluster, daemon, n_bound, pods, until, until_bound};

#[tokio::test(flavor = "multi_thread")]
async fn killing_it_half_way_loses_and_doubles_nothing() {
    let cluster = cluster(10).await;
    cluster.bulk_create(pods("p", 500)).unwrap();
    // Some answers never arrive, so that pods are bound without the dying scheduler's knowledge.
    let slow = FaultRule::new(FaultEffect::Latency { millis: 200, jitter_millis: 50 })
        .resource("pods/binding");
    cluster.faults().add(slow).unwrap();
    let log = BindingLog::start(&cluster);

    let first = Running::start(daemon(&cluster).concurrent_writes(16)).await;
    until("a third bound", || n_bound(&cluster) > 150).await;
    first.kill().await;
    assert!(n_bound(&cluster) < 500);

    let second = Running::start(daemon(&cluster).seed(1)).await;
    until("a half bound", || n_bound(&cluster) > 250).await;
    second.kill().await;

    let third = Running::start(daemon(&cluster).seed(2)).await;
    until_bound(&cluster, 500).await;
    third.stop().await;
    log.check(500).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_at_once_get_in_each_others_way_but_do_no_harm() {
    let cluster = cluster(10).await;
    let log = BindingLog::start(&cluster);
    let (one, other) =
        tokio::join!(Running::start(daemon(&cluster)), Running::start(daemon(&cluster).seed(1)));
    cluster.bulk_create(pods("p", 200)).unwrap();
    until_bound(&cluster, 200).await;
    let n_idle = |scheduler: &Running| scheduler.handle.progress().pending.total() == 0;
    until("nothing left to do", || n_idle(&one) && n_idle(&other)).await;
    one.stop().await;
    other.stop().await;
    log.check(200).await;
}
