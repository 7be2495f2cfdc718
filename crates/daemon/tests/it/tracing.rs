//! Spans for OpenTelemetry, as a collector receives them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Request, Response};
use kube_scheduler_daemon::TracingOptions;
use serde_json::Value;

use crate::cluster::{ClosedPort, Running, cluster, daemon, pods, until, until_bound};
use crate::https::serve;

type Collected = Arc<Mutex<Vec<Value>>>;

async fn collector() -> (String, Collected) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let collected = Collected::default();
    let log = collected.clone();
    serve(listener, move |request| take(request, log.clone()));
    (endpoint, collected)
}

async fn take(request: Request<Incoming>, log: Collected) -> Response<Full<Bytes>> {
    assert_eq!((request.method().as_str(), request.uri().path()), ("POST", "/v1/traces"));
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let spans = &body["resourceSpans"][0]["scopeSpans"][0]["spans"];
    log.lock().unwrap().extend(spans.as_array().cloned().unwrap_or_default());
    Response::new(Full::new(Bytes::from_static(b"{}")))
}

fn tracing(endpoint: String) -> Option<TracingOptions> {
    Some(TracingOptions { endpoint, sampling_rate_per_million: 1_000_000 })
}

#[tokio::test(flavor = "multi_thread")]
async fn every_bound_pod_is_a_trace() {
    let (endpoint, collected) = collector().await;
    let cluster = cluster(2).await;
    cluster.bulk_create(pods("p", 3)).unwrap();
    let scheduler = Running::start(daemon(&cluster).tracing(tracing(endpoint))).await;
    until_bound(&cluster, 3).await;
    until("all spans", || collected.lock().unwrap().len() >= 9).await;
    let mut by_trace: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for span in collected.lock().unwrap().iter() {
        let text = |key: &str| span[key].as_str().unwrap().to_owned();
        by_trace.entry(text("traceId")).or_default().push(text("name"));
        assert!(span.get("status").is_none(), "{span}");
    }
    assert_eq!(by_trace.len(), 3);
    for names in by_trace.values_mut() {
        names.sort();
        assert_eq!(*names, ["Binding cycle", "Scheduling attempt", "Scheduling cycle"]);
    }
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_disturbs_nothing() {
    let port = ClosedPort::new();
    let absent = port.address();
    let cluster = cluster(2).await;
    cluster.bulk_create(pods("p", 50)).unwrap();
    let scheduler =
        Running::start(daemon(&cluster).tracing(tracing(format!("http://{absent}")))).await;
    until_bound(&cluster, 50).await;
    until("all counted", || scheduler.handle.progress().n_bound == 50).await;
    until("drops counted", || {
        let page = scheduler.handle.metrics();
        !page.contains("kube_scheduler_rs_spans_dropped_total 0\n")
    })
    .await;
    scheduler.stop().await;
}

#[tokio::test]
async fn an_address_that_is_none_is_refused_at_the_start() {
    let cluster = cluster(1).await;
    let error = daemon(&cluster).tracing(tracing("ftp://x".to_owned())).start().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "tracing endpoint \"ftp://x\" is not the URL of a collector; expected is http(s)://HOST[:PORT]"
    );
}
