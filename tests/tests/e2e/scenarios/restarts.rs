//! Schedulers and API servers that go away half-way: no pod is lost, none is moved.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::cluster::Cluster;
use crate::objects::{nodes, pods};
use crate::scheduler::{Program, Running};
use crate::wait::until;

const PODS: usize = 300;

/// Slow enough to be half-way for a while.
const SLOW: [&str; 5] =
    ["--kube-api-qps=20", "--kube-api-burst=1", "--secure-port=0", "--leader-elect=false", "-v=2"];

/// Every bound pod of `before` is still where it was.
fn check_unmoved(
    before: &BTreeMap<String, Option<String>>,
    after: &BTreeMap<String, Option<String>>,
) {
    for (pod, node) in before.iter().filter(|(_, node)| node.is_some()) {
        assert_eq!(after.get(pod), Some(node), "{pod} moved");
    }
}

pub(crate) async fn a_killed_scheduler_is_taken_over_from(cluster: &Cluster) {
    let api = cluster.api();
    api.create_all(nodes(10)).await.unwrap();
    let mut before = BTreeMap::new();
    for round in 0..3 {
        let scheduler = Running::start(cluster).await;
        api.create_all(pods(&format!("round-{round}"), PODS / 3)).await.unwrap();
        let goal = round * (PODS / 3) + 20;
        until("some pods bound", async || cluster.n_bound().await >= goal).await;
        scheduler.kill().await;
        let now = cluster.placements().await;
        check_unmoved(&before, &now);
        before = now;
    }
    let scheduler = Running::start(cluster).await;
    cluster.until_bound(PODS).await;
    let after = cluster.placements().await;
    assert_eq!(after.len(), PODS);
    check_unmoved(&before, &after);
    scheduler.stop().await;
}

pub(crate) async fn a_killed_process_is_taken_over_from(cluster: &Cluster) {
    let api = cluster.api();
    api.create_all(nodes(10)).await.unwrap();
    api.create_all(pods("p", PODS)).await.unwrap();
    let first = Program::start(cluster, "first", &SLOW).unwrap();
    until("some pods bound", async || cluster.n_bound().await >= 20).await;
    first.kill();
    let half = cluster.placements().await;
    assert!(half.values().flatten().count() < PODS, "it was too fast to be killed half-way");

    let second = Program::start(cluster, "second", &SLOW).unwrap();
    let goal = half.values().flatten().count() + 20;
    until("more pods bound", async || cluster.n_bound().await >= goal).await;
    // Which code it is, is another matter: it ends by itself, not by the signal.
    assert!(second.terminate().await.unwrap().is_some());
    let more = cluster.placements().await;
    check_unmoved(&half, &more);

    let third =
        Program::start(cluster, "third", &["--secure-port=0", "--leader-elect=false"]).unwrap();
    cluster.until_bound(PODS).await;
    let all = cluster.placements().await;
    assert_eq!(all.len(), PODS);
    check_unmoved(&more, &all);
    third.kill();
}

pub(crate) async fn the_api_server_may_go_away(cluster: &Cluster) {
    let api = cluster.api();
    api.create_all(nodes(10)).await.unwrap();
    let scheduler = Running::start(cluster).await;
    let mut before = BTreeMap::new();
    for round in 0..2 {
        api.create_all(pods(&format!("round-{round}"), PODS / 2)).await.unwrap();
        let goal = round * (PODS / 2) + 1;
        until("some pods bound", async || cluster.n_bound().await >= goal).await;
        cluster.restart_api_server(Duration::from_millis(300)).await.unwrap();
        let now = cluster.placements().await;
        check_unmoved(&before, &now);
        before = now;
    }
    cluster.until_bound(PODS).await;
    let after = cluster.placements().await;
    assert_eq!(after.len(), PODS);
    check_unmoved(&before, &after);
    scheduler.stop().await;
}
