//! What clients send over HTTP.

use std::sync::LazyLock;
use std::time::Duration;

use kube_scheduler_daemon::fuzzing;
use kube_scheduler_devcluster::DevCluster;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().enable_all().build().unwrap());

/// The longest that one connection may take. Watches end sooner.
const PATIENCE: Duration = Duration::from_secs(60);

/// Requests on one connection to an embedded cluster with a node and a pod.
pub(super) fn devcluster(bytes: &[u8]) {
    RUNTIME.block_on(async {
        let builder = DevCluster::builder().seed(1).watch_timeout(Duration::from_millis(5));
        let cluster = builder.start().await.unwrap();
        cluster.create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})).unwrap();
        cluster
            .create(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": "p"},
                "spec": {"containers": [{"name": "c", "image": "i"}]}}))
            .unwrap();
        let (server, client) = tokio::io::duplex(64 << 10);
        let (mut answers, mut requests) = tokio::io::split(client);
        let mut received = Vec::new();
        let ask = async {
            // The server closes a connection on which something else than HTTP came.
            if requests.write_all(bytes).await.is_ok() {
                let _ = requests.shutdown().await;
            }
        };
        let exchange = async { tokio::join!(cluster.serve(server), ask, answers.read_to_end(&mut received)) };
        let ended = tokio::time::timeout(PATIENCE, exchange).await;
        assert!(ended.is_ok(), "the connection does not end");
    });
}

/// Requests on one connection to the secure port; the first byte chooses the version of HTTP.
pub(super) fn secure_port(bytes: &[u8]) {
    let Some((how, requests)) = bytes.split_first() else { return };
    RUNTIME.block_on(async {
        let answered = fuzzing::secure_port(how % 2 == 1, requests);
        let ended = tokio::time::timeout(PATIENCE, answered).await;
        assert!(ended.is_ok_and(|answered| answered.is_ok()), "the connection does not end");
    });
}
