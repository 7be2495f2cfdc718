//! What a scheduler tells about itself.

use std::net::SocketAddr;

use kube_scheduler_devcluster::{Effect, FaultRule};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::cluster::{Running, cluster, daemon, pods, until, until_bound};

async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn health_metrics_and_configuration_are_served() {
    let cluster = cluster(2).await;
    // Without nodes nothing is synced, so nothing is ready.
    let no_nodes =
        FaultRule::new(Effect::Error { code: 500, retry_after_seconds: None }).resource("nodes");
    cluster.faults().add(no_nodes).unwrap();
    cluster.bulk_create(pods("p", 3)).unwrap();
    let scheduler =
        Running::start(daemon(&cluster).serve_on(Some(([127, 0, 0, 1], 0).into()))).await;
    let address = scheduler.handle.address().unwrap();
    assert_eq!(get(address, "/healthz").await, (200, "ok".to_owned()));
    let (code, body) = get(address, "/readyz").await;
    assert_eq!(code, 500);
    assert!(body.contains("[-]sched-handler-sync failed: reason withheld"), "{body}");
    assert_eq!(get(address, "/readyz/sched-handler-sync").await.0, 500);

    cluster.faults().clear();
    until_bound(&cluster, 3).await;
    until("all counted", || scheduler.handle.progress().n_bound == 3).await;
    assert_eq!(get(address, "/readyz").await, (200, "ok".to_owned()));
    let (_, metrics) = get(address, "/metrics").await;
    for line in [
        "scheduler_schedule_attempts_total{profile=\"default-scheduler\",result=\"scheduled\"} 3",
        "scheduler_pod_scheduling_attempts_count 3",
        "scheduler_cache_size{type=\"nodes\"} 2",
    ] {
        assert!(metrics.lines().any(|told| told == line), "{line} is missing in\n{metrics}");
    }
    let (_, config) = get(address, "/configz").await;
    assert!(config.starts_with("{\"componentconfig\":{\"apiVersion\":"), "{config}");
    assert_eq!(get(address, "/nothing").await, (404, "404 page not found\n".to_owned()));
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_in_use_is_an_error_at_start() {
    let cluster = cluster(1).await;
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let error = daemon(&cluster).serve_on(Some(address)).start().await.unwrap_err();
    assert_eq!(error.to_string(), format!("cannot listen on {address}"));
}
