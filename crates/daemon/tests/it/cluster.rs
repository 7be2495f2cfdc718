//! A cluster, a scheduler, and ways to wait for what should happen.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube_scheduler_daemon::{Daemon, DaemonBuilder, DaemonHandle, Endpoint};
use kube_scheduler_devcluster::{
    ChangeType, DevCluster, DevClusterBuilder, NodeTemplate, PODS, Selection, StoredObject, Watcher,
};
use kube_scheduler_plugins_intree::registry;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

#[path = "../../src/transport/closed_port.rs"]
mod closed_port;

pub(crate) use closed_port::ClosedPort;

/// Nothing here takes as long, unless it is broken.
const DEADLINE: Duration = Duration::from_secs(60);

/// A cluster with `n_nodes` nodes of 4 CPUs, which serves protobuf as a real one does.
pub(crate) async fn cluster(n_nodes: usize) -> DevCluster {
    cluster_of(DevCluster::builder().protobuf(true), n_nodes).await
}

/// The same with other options, and in JSON unless they say otherwise.
pub(crate) async fn cluster_of(builder: DevClusterBuilder, n_nodes: usize) -> DevCluster {
    let cluster = builder.start().await.unwrap();
    cluster.add_hollow_nodes(n_nodes, &NodeTemplate::default()).unwrap();
    cluster
}

pub(crate) fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "web:1", "resources": {"requests": {"cpu": "10m"}}}]},
    })
}

pub(crate) fn pods(prefix: &str, n: usize) -> impl Iterator<Item = Value> {
    (0..n).map(move |i| pod(&format!("{prefix}-{i}")))
}

/// Options of a scheduler with the in-tree plugins.
pub(crate) fn daemon(cluster: &DevCluster) -> DaemonBuilder {
    Daemon::builder(Endpoint::from_url(&cluster.url()).unwrap(), registry())
}

/// A scheduler that runs in the background.
pub(crate) struct Running {
    pub(crate) handle: DaemonHandle,
    task: JoinHandle<()>,
    stop: Option<oneshot::Sender<()>>,
}

impl Running {
    pub(crate) async fn start(builder: DaemonBuilder) -> Self {
        let daemon = builder.start().await.unwrap();
        let handle = daemon.handle();
        let (stop, stopped) = oneshot::channel();
        let task =
            tokio::spawn(async move { daemon.run(async { drop(stopped.await) }).await.unwrap() });
        Self { handle, task, stop: Some(stop) }
    }

    /// Stops it in order.
    pub(crate) async fn stop(mut self) {
        drop(self.stop.take());
        self.task.await.unwrap();
    }

    /// Ends it as a crash would: nothing is finished.
    pub(crate) async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

/// Waits for something to become true.
pub(crate) async fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !is_true() {
        assert!(Instant::now() < deadline, "{what}: not within {DEADLINE:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Where each pod runs.
pub(crate) fn placements(cluster: &DevCluster) -> BTreeMap<String, Option<String>> {
    let pods = cluster.list(PODS, &Selection::all()).items;
    pods.iter()
        .map(|pod| {
            let node = pod.value()["spec"]["nodeName"].as_str().map(str::to_owned);
            (pod.name().to_owned(), node)
        })
        .collect()
}

pub(crate) fn n_bound(cluster: &DevCluster) -> usize {
    placements(cluster).values().flatten().count()
}

pub(crate) async fn until_bound(cluster: &DevCluster, n: usize) {
    until(&format!("{n} pods bound"), || n_bound(cluster) >= n).await;
}

/// Notes every node a pod was ever seen on.
pub(crate) struct BindingLog {
    task: JoinHandle<()>,
    seen: Nodes,
}

type Nodes = Arc<Mutex<BTreeMap<String, Vec<String>>>>;

impl BindingLog {
    pub(crate) fn start(cluster: &DevCluster) -> Self {
        let seen = Nodes::default();
        let (log, store) = (seen.clone(), cluster.store().clone());
        let task = tokio::spawn(async move {
            loop {
                let (pods, mut watch) =
                    Watcher::list_and_watch(store.clone(), PODS, Selection::all()).unwrap();
                pods.iter().for_each(|pod| note(&log, pod));
                // Ends when the history is lost; a node a pod was moved to would still be seen in the next list.
                while let Ok(events) = watch.next().await {
                    events
                        .iter()
                        .filter(|event| event.change_type != ChangeType::Deleted)
                        .for_each(|event| note(&log, &event.object));
                }
            }
        });
        Self { task, seen }
    }

    /// Every pod was seen on one node, and `n` pods were.
    pub(crate) async fn check(self, n: usize) {
        until("all bindings seen", || self.seen.lock().unwrap().len() >= n).await;
        self.task.abort();
        for (pod, nodes) in self.seen.lock().unwrap().iter() {
            assert_eq!(nodes.len(), 1, "{pod} was bound to {nodes:?}");
        }
    }
}

fn note(log: &Nodes, pod: &StoredObject) {
    let value = pod.value();
    let Some(node) = value["spec"]["nodeName"].as_str() else { return };
    let mut log = log.lock().unwrap();
    let nodes = log.entry(pod.name().to_owned()).or_default();
    if nodes.last().is_none_or(|last| last != node) {
        nodes.push(node.to_owned());
    }
}
