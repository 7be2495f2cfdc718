//! Two schedulers, one of which leads.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cluster::Cluster;
use crate::objects::{nodes, pods};
use crate::scheduler::Program;
use crate::wait::until;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler";

/// Slow enough for the leader to die half-way.
const SLOW: [&str; 3] = ["--kube-api-qps=20", "--kube-api-burst=1", "--secure-port=0"];

pub(crate) async fn a_dead_leader_is_replaced(cluster: &Cluster) {
    let api = cluster.api();
    api.create_all(nodes(10)).await.unwrap();
    api.create_all(pods("p", 300)).await.unwrap();
    let lease = [
        "--leader-elect=true",
        "--leader-elect-lease-duration=8s",
        "--leader-elect-renew-deadline=6s",
        "--leader-elect-retry-period=500ms",
    ];
    let args = [SLOW.as_slice(), &lease].concat();
    let first = Program::start(cluster, "dies", &args).unwrap();
    until("a leader", async || !holder(cluster).await.is_empty()).await;
    let leader = holder(cluster).await;
    let second = Program::start(cluster, "takes-over", &args).unwrap();
    until("some pods bound", async || cluster.n_bound().await >= 20).await;
    first.kill();
    let half = cluster.placements().await;
    assert!(half.values().flatten().count() < 300, "it was too fast to be killed half-way");
    cluster.until_bound(300).await;
    assert_ne!(holder(cluster).await, leader);
    let all = cluster.placements().await;
    for (pod, node) in half.iter().filter(|(_, node)| node.is_some()) {
        assert_eq!(all.get(pod), Some(node), "{pod} moved");
    }
    assert_eq!(second.terminate().await.unwrap(), Some(0));
    api.send("DELETE", LEASE, None, "").await.unwrap();
}

pub(crate) async fn a_leader_that_is_asked_to_end_hands_over(cluster: &Cluster) {
    let api = cluster.api();
    api.create_all(nodes(2)).await.unwrap();
    // So long that a take-over can only come from the lease being given back.
    let args = [
        "--leader-elect=true",
        "--leader-elect-lease-duration=170s",
        "--leader-elect-renew-deadline=160s",
        "--leader-elect-retry-period=500ms",
        "--secure-port=0",
    ];
    let first = Program::start(cluster, "ends", &args).unwrap();
    until("a leader", async || !holder(cluster).await.is_empty()).await;
    let leader = holder(cluster).await;
    let second = Program::start(cluster, "follows", &args).unwrap();
    api.create_all(pods("early", 5)).await.unwrap();
    cluster.until_bound(5).await;
    let begin = Instant::now();
    assert_eq!(first.terminate().await.unwrap(), Some(0));
    until("another leader", async || {
        let holder = holder(cluster).await;
        !holder.is_empty() && holder != leader
    })
    .await;
    assert!(begin.elapsed() < Duration::from_secs(150), "the lease ran out instead");
    api.create_all(pods("late", 5)).await.unwrap();
    cluster.until_bound(10).await;
    assert_eq!(second.terminate().await.unwrap(), Some(0));
    api.send("DELETE", LEASE, None, "").await.unwrap();
}

/// The holder of the lease; empty when there is none.
async fn holder(cluster: &Cluster) -> String {
    let lease: Value = cluster.api().send("GET", LEASE, None, "").await.unwrap_or_default();
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
}
