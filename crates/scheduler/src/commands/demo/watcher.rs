//! Records what happens to the demo's pods: when each was created, when it was bound, and to which node.
//!
//! Invariant: everything comes from a watch of the API server, so the times are those that a user sees.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use kube_scheduler_api_types::lock;
use kube_scheduler_devcluster::{
    ChangeType, DevCluster, PODS, Selection, StatusError, StoredObject,
};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::workload::{GATE, SHAPE};

/// What the watch has reported about one pod.
#[derive(Clone, Debug)]
pub(super) struct PodRecord {
    pub(super) shape: String,
    pub(super) node: Option<String>,
    /// When it was created or its gate was removed, whichever is later.
    ready: Option<Instant>,
    bound: Option<Instant>,
    /// Why it is not bound, from its condition.
    pub(super) message: String,
}

impl PodRecord {
    /// The time from the moment it could be bound to its binding.
    pub(super) fn time_to_bind(&self) -> Option<Duration> {
        Some(self.bound?.saturating_duration_since(self.ready?))
    }

    /// Whether it has a gate.
    pub(super) const fn is_gated(&self) -> bool {
        self.ready.is_none()
    }

    pub(super) const fn bound_at(&self) -> Option<Instant> {
        self.bound
    }
}

/// The records of all pods, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct PodRecords(Arc<Mutex<BTreeMap<String, PodRecord>>>);

impl PodRecords {
    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeMap<String, PodRecord>> {
        lock(&self.0)
    }
}

/// Watches pods in the background.
pub(super) struct PodWatcher {
    pub(super) pods: PodRecords,
    /// The number of bound pods.
    pub(super) n_bound: watch::Receiver<usize>,
    task: JoinHandle<()>,
}

impl PodWatcher {
    pub(super) fn start(cluster: &DevCluster) -> Result<Self, StatusError> {
        let (_, mut events) = cluster.list_and_watch(PODS, Selection::all())?;
        let pods = PodRecords::default();
        let (publish, n_bound) = watch::channel(0);
        let records = pods.clone();
        let task = tokio::spawn(async move {
            let mut n_bound = 0;
            // Ends when the watch is further behind than the cluster's history, which is made long enough.
            while let Ok(batch) = events.next().await {
                let now = Instant::now();
                let mut records = records.lock();
                for event in batch.iter().filter(|event| event.change_type != ChangeType::Deleted) {
                    n_bound += usize::from(record(&mut records, &event.object, now));
                }
                publish.send_if_modified(|last| std::mem::replace(last, n_bound) != n_bound);
            }
        });
        Ok(Self { pods, n_bound, task })
    }
}

impl Drop for PodWatcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Records a pod's state. Returns whether it is newly bound.
fn record(records: &mut BTreeMap<String, PodRecord>, pod: &StoredObject, now: Instant) -> bool {
    let value = pod.value();
    let entry = records.entry(pod.name().to_owned()).or_insert_with(|| PodRecord {
        shape: pod.label(SHAPE).unwrap_or_default().to_owned(),
        node: None,
        ready: None,
        bound: None,
        message: String::new(),
    });
    let gates = value["spec"]["schedulingGates"].as_array();
    if entry.ready.is_none()
        && !gates.is_some_and(|gates| gates.iter().any(|gate| gate["name"] == GATE))
    {
        entry.ready = Some(now);
    }
    if entry.bound.is_some() {
        return false;
    }
    let node = value["spec"]["nodeName"].as_str().filter(|node| !node.is_empty());
    let Some(node) = node else {
        entry.message = scheduled_message(&value);
        return false;
    };
    entry.node = Some(node.to_owned());
    entry.bound = Some(now);
    true
}

fn scheduled_message(pod: &Value) -> String {
    let conditions = pod["status"]["conditions"].as_array();
    let condition =
        conditions.into_iter().flatten().find(|condition| condition["type"] == "PodScheduled");
    condition.and_then(|condition| condition["message"].as_str()).unwrap_or_default().to_owned()
}
