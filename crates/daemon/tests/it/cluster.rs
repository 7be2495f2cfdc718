//! A cluster, a scheduler, and ways to wait for what should happen.

use std::collections::BTreeMap;
use std::time::Duration;

use kube_scheduler_daemon::{Daemon, DaemonBuilder, DaemonHandle, Endpoint};
use kube_scheduler_devcluster::{
    ChangeType, DevCluster, DevClusterBuilder, NodeTemplate, PODS, Selection,
};
use kube_scheduler_plugins_intree::{NOT_YET, registry};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Nothing here takes as long, unless it is broken.
const DEADLINE: Duration = Duration::from_secs(60);

/// A cluster with `n_nodes` nodes of 4 CPUs.
pub async fn cluster(n_nodes: usize) -> DevCluster {
    cluster_of(DevCluster::builder(), n_nodes).await
}

/// The same with other options.
pub async fn cluster_of(builder: DevClusterBuilder, n_nodes: usize) -> DevCluster {
    let cluster = builder.start().await.unwrap();
    cluster.add_hollow_nodes(n_nodes, &NodeTemplate::default()).unwrap();
    cluster
}

pub fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "web:1", "resources": {"requests": {"cpu": "10m"}}}]},
    })
}

pub fn pods(prefix: &str, n: usize) -> impl Iterator<Item = Value> {
    (0..n).map(move |i| pod(&format!("{prefix}-{i}")))
}

/// Options of a scheduler with the in-tree plugins.
pub fn daemon(cluster: &DevCluster) -> DaemonBuilder {
    let missing = NOT_YET.iter().map(|name| (*name).to_owned()).collect();
    Daemon::builder(Endpoint::from_url(&cluster.url()).unwrap(), registry())
        .missing_plugins(missing, Default::default())
}

/// A scheduler that runs in the background.
pub struct Running {
    pub handle: DaemonHandle,
    task: JoinHandle<()>,
    stop: Option<oneshot::Sender<()>>,
}

impl Running {
    pub async fn start(builder: DaemonBuilder) -> Self {
        let daemon = builder.start().await.unwrap();
        let handle = daemon.handle();
        let (stop, stopped) = oneshot::channel();
        let task =
            tokio::spawn(async move { daemon.run(async { drop(stopped.await) }).await.unwrap() });
        Self { handle, task, stop: Some(stop) }
    }

    /// Stops it in order.
    pub async fn stop(mut self) {
        drop(self.stop.take());
        self.task.await.unwrap();
    }

    /// Ends it as a crash would: nothing is finished.
    pub async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

/// Waits for something to become true.
pub async fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !is_true() {
        assert!(Instant::now() < deadline, "{what}: not within {DEADLINE:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Where each pod runs.
pub fn placements(cluster: &DevCluster) -> BTreeMap<String, Option<String>> {
    let pods = cluster.list(PODS, &Selection::all()).items;
    pods.iter()
        .map(|pod| {
            let node = pod.value()["spec"]["nodeName"].as_str().map(str::to_owned);
            (pod.name().to_owned(), node)
        })
        .collect()
}

pub fn n_bound(cluster: &DevCluster) -> usize {
    placements(cluster).values().flatten().count()
}

pub async fn until_bound(cluster: &DevCluster, n: usize) {
    until(&format!("{n} pods bound"), || n_bound(cluster) >= n).await;
}

/// Notes every node a pod was ever seen on.
pub struct BindingLog {
    task: JoinHandle<()>,
    seen: std::sync::Arc<std::sync::Mutex<BTreeMap<String, Vec<String>>>>,
}

impl BindingLog {
    pub fn start(cluster: &DevCluster) -> Self {
        let (_, mut watch) = cluster.list_and_watch(PODS, Selection::all()).unwrap();
        let seen =
            std::sync::Arc::new(std::sync::Mutex::new(BTreeMap::<String, Vec<String>>::new()));
        let log = seen.clone();
        let task = tokio::spawn(async move {
            while let Ok(events) = watch.next().await {
                for event in
                    events.into_iter().filter(|event| event.change_type != ChangeType::Deleted)
                {
                    let value = event.object.value();
                    let Some(node) = value["spec"]["nodeName"].as_str() else { continue };
                    let mut log = log.lock().unwrap();
                    let nodes = log.entry(event.object.name().to_owned()).or_default();
                    if nodes.last().is_none_or(|last| last != node) {
                        nodes.push(node.to_owned());
                    }
                }
            }
        });
        Self { task, seen }
    }

    /// Every pod was seen on one node, and `n` pods were.
    pub async fn check(self, n: usize) {
        until("all bindings seen", || self.seen.lock().unwrap().len() >= n).await;
        self.task.abort();
        for (pod, nodes) in self.seen.lock().unwrap().iter() {
            assert_eq!(nodes.len(), 1, "{pod} was bound to {nodes:?}");
        }
    }
}
