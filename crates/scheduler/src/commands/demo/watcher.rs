//! Sees from outside what becomes of the demo's pods: when each appeared, when it was bound, and where.
//!
//! Invariant: only what the API server has said counts, so the numbers are those of a user, not of the scheduler.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kube_scheduler_devcluster::{ApiError, ChangeType, DevCluster, Object, PODS, Selection};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::workload::{GATE, SHAPE};

/// What was seen of one pod.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) shape: String,
    pub(super) node: Option<String>,
    /// From when on it could have been bound.
    ready: Option<Instant>,
    bound: Option<Instant>,
    /// Why it is not bound, as its condition tells.
    pub(super) message: String,
}

impl Seen {
    /// How long it waited, once it could be bound.
    pub(super) fn time_to_bind(&self) -> Option<Duration> {
        Some(self.bound?.saturating_duration_since(self.ready?))
    }

    /// Whether it may not be bound yet.
    pub(super) const fn is_gated(&self) -> bool {
        self.ready.is_none()
    }

    pub(super) const fn bound_at(&self) -> Option<Instant> {
        self.bound
    }
}

/// What was seen of all pods, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Sightings(Arc<Mutex<BTreeMap<String, Seen>>>);

impl Sightings {
    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Watches pods in the background.
pub(super) struct PodWatcher {
    pub(super) sightings: Sightings,
    /// How many are bound.
    pub(super) n_bound: watch::Receiver<usize>,
    task: JoinHandle<()>,
}

impl PodWatcher {
    pub(super) fn start(cluster: &DevCluster) -> Result<Self, ApiError> {
        let (_, mut events) = cluster.list_and_watch(PODS, Selection::all())?;
        let sightings = Sightings::default();
        let (tell, n_bound) = watch::channel(0);
        let seen = sightings.clone();
        let task = tokio::spawn(async move {
            let mut n_bound = 0;
            // Ends when the watch falls behind further than the cluster's history, which is made long enough.
            while let Ok(batch) = events.next().await {
                let now = Instant::now();
                let mut seen = seen.lock();
                for event in batch.iter().filter(|event| event.change_type != ChangeType::Deleted) {
                    n_bound += usize::from(note(&mut seen, &event.object, now));
                }
                tell.send_if_modified(|told| std::mem::replace(told, n_bound) != n_bound);
            }
        });
        Ok(Self { sightings, n_bound, task })
    }
}

impl Drop for PodWatcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Takes in a pod's state. Returns whether it is newly bound.
fn note(seen: &mut BTreeMap<String, Seen>, pod: &Object, now: Instant) -> bool {
    let value = pod.value();
    let entry = seen.entry(pod.name().to_owned()).or_insert_with(|| Seen {
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
