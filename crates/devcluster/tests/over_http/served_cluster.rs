//! A cluster and a client for it.

use std::pin::Pin;

use futures::{Stream, StreamExt};
use http::Request;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, PostParams, WatchEvent, WatchParams};
use kube::{Client, Config};
use kube_scheduler_devcluster::{DevCluster, DevClusterBuilder};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub(crate) struct ServedCluster {
    pub(crate) cluster: DevCluster,
    pub(crate) client: Client,
}

/// A cluster without hollow nodes and controllers, where nothing happens but what the test does.
pub(crate) async fn still() -> ServedCluster {
    with(DevCluster::builder().hollow(None).disruption_controller(false).volumes(None)).await
}

pub(crate) async fn with(builder: DevClusterBuilder) -> ServedCluster {
    let cluster = builder.start().await.expect("starts");
    let client = client(&cluster);
    ServedCluster { cluster, client }
}

pub(crate) fn client(cluster: &DevCluster) -> Client {
    let mut config = Config::new(cluster.url().parse().expect("a url"));
    // The client would repeat refused requests by itself, without end.
    config.default_retry = false;
    Client::try_from(config).expect("a client")
}

impl ServedCluster {
    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    pub(crate) async fn create_pod(&self, name: &str) -> Pod {
        self.pods().create(&PostParams::default(), &pod(name)).await.expect("created")
    }

    pub(crate) async fn bind(
        &self,
        name: &str,
        node: &str,
    ) -> Result<kube::core::Status, kube::Error> {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "namespace": "default"},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        self.pods().create_subresource("binding", name, &PostParams::default(), &binding).await
    }

    /// A request outside the typed API; the answer as JSON.
    pub(crate) async fn raw(
        &self,
        method: &str,
        path: &str,
        accept: &str,
        body: &Value,
    ) -> Result<Value, kube::Error> {
        let body =
            if body.is_null() { Vec::new() } else { serde_json::to_vec(body).expect("json") };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("Accept", accept)
            .header("Content-Type", "application/json")
            .body(body)
            .expect("a request");
        let text = self.client.request_text(request).await?;
        Ok(serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.raw("GET", path, "application/json", &Value::Null).await.expect("answered")
    }

    pub(crate) async fn faults(&self, orders: Value) -> Value {
        self.raw("PUT", "/devcluster/faults", "application/json", &orders).await.expect("accepted")
    }
}

pub(crate) type Events<K> = Pin<Box<dyn Stream<Item = Result<WatchEvent<K>, kube::Error>> + Send>>;

pub(crate) async fn watch<K>(api: &Api<K>, params: &WatchParams, version: &str) -> Events<K>
where
    K: Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    api.watch(params, version).await.expect("watch opens").boxed()
}

/// The next event as `VERB name`, `BOOKMARK`, `BOOKMARK end`, `ERROR code`, or `END`.
pub(crate) async fn next<K: kube::ResourceExt>(events: &mut Events<K>) -> String {
    match events.next().await {
        Some(Ok(WatchEvent::Added(object))) => format!("ADDED {}", object.name_any()),
        Some(Ok(WatchEvent::Modified(object))) => format!("MODIFIED {}", object.name_any()),
        Some(Ok(WatchEvent::Deleted(object))) => format!("DELETED {}", object.name_any()),
        Some(Ok(WatchEvent::Bookmark(bookmark))) => {
            let end = bookmark.metadata.annotations.contains_key("k8s.io/initial-events-end");
            if end { "BOOKMARK end".into() } else { "BOOKMARK".into() }
        }
        Some(Ok(WatchEvent::Error(status))) => format!("ERROR {}", status.code),
        Some(Err(error)) => format!("BROKEN {error}"),
        None => "END".into(),
    }
}

pub(crate) fn pod(name: &str) -> Pod {
    serde_json::from_value(pod_value(name)).expect("a pod")
}

pub(crate) fn pod_value(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "registry/app:1", "resources": {"requests": {"cpu": "100m"}}}]},
    })
}

/// Code and reason of a refusal.
pub(crate) fn refusal<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> (u16, String, String) {
    match result {
        Err(kube::Error::Api(status)) => {
            (status.code, status.reason.clone(), status.message.clone())
        }
        other => panic!("expected a refusal, got {other:?}"),
    }
}
