//! Faults on demand, by the program and by the control endpoint.

use std::time::Duration;

use kube::api::{PostParams, WatchParams};
use kube_scheduler_devcluster::{FaultEffect, FaultRule, PODS};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::served_cluster::{client, next, pod, refusal, still, watch};

#[tokio::test]
async fn errors_come_as_often_as_they_are_asked_for() {
    let served = still().await;
    served.create_pod("a").await;
    let rule = FaultRule::new(FaultEffect::Error { code: 409, retry_after_seconds: None })
        .resource("pods/binding")
        .count(2);
    served.cluster.faults().add(rule).expect("valid");
    assert_eq!(refusal(served.bind("a", "n").await).0, 409);
    assert_eq!(refusal(served.bind("a", "n").await).0, 409);
    served.bind("a", "n").await.expect("bound");
    assert_eq!(served.cluster.faults().injected(), 2);
}

#[tokio::test]
async fn a_request_can_succeed_unheard() {
    let served = still().await;
    served
        .cluster
        .faults()
        .add(FaultRule::new(FaultEffect::ResetAfter).verb("create").count(1))
        .expect("valid");
    let result = served.pods().create(&PostParams::default(), &pod("a")).await;
    assert!(
        matches!(result, Err(ref error) if !matches!(error, kube::Error::Api(_))),
        "{result:?}"
    );
    assert!(served.cluster.get(PODS, "default", "a").is_some());
}

#[tokio::test]
async fn a_reset_request_does_nothing() {
    let served = still().await;
    served
        .cluster
        .faults()
        .add(FaultRule::new(FaultEffect::Reset).verb("create").count(1))
        .expect("valid");
    assert!(served.pods().create(&PostParams::default(), &pod("a")).await.is_err());
    assert!(served.cluster.get(PODS, "default", "a").is_none());
}

#[tokio::test]
async fn the_control_endpoint_sets_tells_and_clears() {
    let served = still().await;
    let answer = served
        .faults(json!({"seed": 3, "rules": [
            {"verbs": ["get"], "resources": ["pods"], "effect": {"type": "error", "code": 429, "retryAfterSeconds": 7}},
            {"effect": {"type": "latency", "millis": 1, "jitterMillis": 1}},
        ]}))
        .await;
    assert_eq!(answer["rules"].as_array().map(Vec::len), Some(2));
    let result = served.pods().get("a").await;
    let Err(kube::Error::Api(status)) = result else {
        panic!("expected a refusal, got {result:?}")
    };
    assert_eq!(status.code, 429);
    assert_eq!(status.details.map(|details| details.retry_after_seconds), Some(7));
    served.raw("DELETE", "/devcluster/faults", "", &Value::Null).await.expect("cleared");
    assert_eq!(refusal(served.pods().get("a").await).0, 404);
    for wrong in [
        json!({"rules": [{"effect": {"type": "explode"}}]}),
        json!({"rules": [{"verbs": ["push"], "effect": {"type": "reset"}}]}),
        json!({"compactHistory": "sheep"}),
        json!({"unknown": 1}),
    ] {
        assert_eq!(
            refusal(served.raw("PUT", "/devcluster/faults", "", &wrong).await).0,
            400,
            "{wrong}"
        );
    }
}

#[tokio::test]
async fn watches_can_be_dropped_cleanly_or_not() {
    let served = still().await;
    served.create_pod("a").await;
    let mut events = watch(&served.pods(), &WatchParams::default(), "0").await;
    let mut of_nodes = watch(&served.nodes(), &WatchParams::default(), "").await;
    assert_eq!(next(&mut events).await, "ADDED a");
    served.faults(json!({"dropWatches": {"resource": "pods"}})).await;
    assert_eq!(next(&mut events).await, "END");

    let mut events = watch(&served.pods(), &WatchParams::default(), "0").await;
    assert_eq!(next(&mut events).await, "ADDED a");
    served.faults(json!({"dropWatches": {"abrupt": true}})).await;
    // The client shows a stream that breaks off as one that ends; a plain connection sees the missing last chunk.
    assert_eq!(next(&mut events).await, "END");
    assert_eq!(next(&mut of_nodes).await, "END");
}

#[tokio::test]
async fn an_abrupt_drop_leaves_the_stream_unfinished() {
    for (abrupt, finished) in [(false, true), (true, false)] {
        let served = still().await;
        served.create_pod("a").await;
        let mut stream = TcpStream::connect(served.cluster.url().trim_start_matches("http://"))
            .await
            .expect("connects");
        let request = "GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut received = Vec::new();
        while !received.windows(5).any(|window| window == b"ADDED") {
            assert!(stream.read_buf(&mut received).await.expect("read") > 0);
        }
        served.cluster.faults().drop_watches(Some(PODS), abrupt);
        stream.read_to_end(&mut received).await.expect("closed");
        assert_eq!(received.ends_with(b"\r\n0\r\n\r\n"), finished);
    }
}

#[tokio::test]
async fn a_watch_can_be_cut_after_some_events() {
    let served = still().await;
    served
        .cluster
        .faults()
        .add(FaultRule::new(FaultEffect::CloseWatch { after_events: 1 }).count(1))
        .expect("valid");
    let version = served.cluster.store().resource_version().to_string();
    let mut events = watch(&served.pods(), &WatchParams::default(), &version).await;
    served.create_pod("a").await;
    served.create_pod("b").await;
    assert_eq!(next(&mut events).await, "ADDED a");
    assert_eq!(next(&mut events).await, "END");
}

#[tokio::test]
async fn a_restart_cuts_connections_and_keeps_the_state() {
    let served = still().await;
    served.create_pod("a").await;
    let mut events = watch(&served.pods(), &WatchParams::default(), "0").await;
    assert_eq!(next(&mut events).await, "ADDED a");
    let url = served.cluster.url();
    served.cluster.restart(Duration::ZERO);
    let end = next(&mut events).await;
    assert!(end == "END" || end.starts_with("BROKEN"), "{end}");
    assert_eq!(served.cluster.url(), url);
    // The port may take a moment to come back; each attempt is a new connection.
    let found = loop {
        let pods: kube::Api<k8s_openapi::api::core::v1::Pod> =
            kube::Api::namespaced(client(&served.cluster), "default");
        match pods.get("a").await {
            Ok(found) => break found,
            Err(kube::Error::Api(status)) => panic!("lost the pod: {status:?}"),
            Err(_) => tokio::task::yield_now().await,
        }
    };
    assert_eq!(found.metadata.name.as_deref(), Some("a"));
}
