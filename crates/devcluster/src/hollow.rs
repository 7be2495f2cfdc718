//! Hollow nodes: kubelets without machines.
//!
//! One task is the kubelet of every node, also of those that were not made from a template, and of nodes that do not exist. Like a kubelet it watches pods, but it writes to the store
//! directly. Invariants: a pod is started, finished or removed only if it is still the pod (by uid) that the decision was
//! made for; without latencies, all steps that follow from one batch of watch events are taken in one write.

mod kubelet;
mod template;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::api::WriteOptions;
use crate::api::create::create_in;
use crate::history::ChangeType;
use crate::kinds::{NODES, PODS};
use crate::object::{StoredObject, key_of, text_at};
use crate::selectors::Selection;
use crate::status::StatusError;
use crate::store::Store;
use crate::watch::Watcher;
use kubelet::{Addresses, PodStep};

pub use kubelet::END_PHASE;
pub use template::NodeTemplate;

/// The annotation that makes a pod end by itself after running for this many seconds, a decimal number.
pub const RUN_SECONDS: &str = "devcluster/run-seconds";

/// How hollow nodes behave.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct HollowOptions {
    /// The longest time until a deleted pod is removed, whatever its grace period; none by default.
    pub stop_latency: Duration,
}

/// Adds `count` nodes, whose numbers continue after the number of existing nodes.
pub(crate) fn add_nodes(
    store: &Store,
    count: usize,
    template: &NodeTemplate,
) -> Result<Vec<Arc<StoredObject>>, StatusError> {
    let options = WriteOptions { keep_status: true, ..WriteOptions::default() };
    store.write(|state| {
        let first = state.objects(NODES).count();
        let now = crate::clock::to_rfc3339(state.now);
        (first..first + count)
            .map(|index| create_in(state, NODES, "", template.node(index, &now), &options))
            .collect()
    })
}

/// A step and when it is due.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Deadline {
    at: Instant,
    /// Keeps steps with the same deadline in the order in which they were decided.
    order: u64,
    step: PodStep,
}

struct HollowTask {
    store: Arc<Store>,
    options: HollowOptions,
    queue: BinaryHeap<Reverse<Deadline>>,
    decided: u64,
    addresses: Addresses,
}

/// Runs the kubelets until `shutdown`.
pub(crate) async fn run(store: Arc<Store>, options: HollowOptions, shutdown: CancellationToken) {
    let mut task = HollowTask {
        store,
        options,
        queue: BinaryHeap::new(),
        decided: 0,
        addresses: Addresses::default(),
    };
    while !shutdown.is_cancelled() {
        if let Err(error) = task.follow(&shutdown).await {
            // Too far behind its watches: start over from the current state.
            debug!(%error, "hollow nodes lost their watch");
        }
    }
}

impl HollowTask {
    async fn follow(&mut self, shutdown: &CancellationToken) -> Result<(), StatusError> {
        let (nodes, mut node_watch) =
            Watcher::list_and_watch(self.store.clone(), NODES, Selection::all())?;
        self.queue.clear();
        self.addresses.clear();
        self.see_nodes(&nodes);
        let (pods, mut pod_watch) =
            Watcher::list_and_watch(self.store.clone(), PODS, Selection::all())?;
        for pod in &pods {
            self.see_pod(pod);
        }
        loop {
            self.work()?;
            let wake = self.queue.peek().map(|Reverse(due)| due.at);
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(()),
                events = node_watch.next() => {
                    let nodes: Vec<Arc<StoredObject>> = events?
                        .into_iter()
                        .filter(|event| event.change_type == ChangeType::Added)
                        .map(|event| event.object)
                        .collect();
                    self.see_nodes(&nodes);
                }
                events = pod_watch.next() => {
                    for event in events? {
                        if event.change_type != ChangeType::Deleted {
                            self.see_pod(&event.object);
                        }
                    }
                }
                () = until(wake) => {}
            }
        }
    }

    fn see_nodes(&mut self, nodes: &[Arc<StoredObject>]) {
        let mut unready = Vec::new();
        for node in nodes {
            let value = node.value();
            self.addresses.insert(node.name(), &value);
            if crate::object::list_at(&value, &["status", "conditions"]).is_empty() {
                unready.push(node.name().to_owned());
            }
        }
        kubelet::make_ready(&self.store, &unready, &mut self.addresses);
    }

    fn see_pod(&mut self, pod: &StoredObject) {
        // Positions 0 and 1 of a pod's selectable fields are its node and its phase.
        let (node, phase) = (pod.field(0), pod.field(1));
        if node.is_empty() {
            return;
        }
        let key = key_of(pod.namespace(), pod.name());
        let uid = pod.uid().to_owned();
        if pod.is_terminating() {
            let value = pod.value();
            let grace = crate::object::int_at(&value, &["metadata", "deletionGracePeriodSeconds"])
                .unwrap_or(0);
            let grace = Duration::from_secs(u64::try_from(grace).unwrap_or(0));
            self.decide(grace.min(self.options.stop_latency), PodStep::Remove { key, uid });
        } else if phase == "Pending" {
            self.decide(Duration::ZERO, PodStep::Start { key, uid });
        } else if phase == "Running" {
            let value = pod.value();
            if let Some(wait) = run_time(&value) {
                self.decide(wait, PodStep::Finish { key, uid });
            }
        }
    }

    fn decide(&mut self, wait: Duration, step: PodStep) {
        self.decided += 1;
        self.queue.push(Reverse(Deadline { at: Instant::now() + wait, order: self.decided, step }));
    }

    /// Takes all steps that are due.
    fn work(&mut self) -> Result<(), StatusError> {
        /// How many steps are taken in one write.
        const BATCH: usize = 64;
        let now = Instant::now();
        loop {
            let mut batch = Vec::new();
            while batch.len() < BATCH
                && let Some(Reverse(due)) = self.queue.peek()
                && due.at <= now
            {
                batch.extend(self.queue.pop().map(|Reverse(due)| due.step));
            }
            if batch.is_empty() {
                return Ok(());
            }
            kubelet::carry_out(&self.store, batch, &mut self.addresses)?;
        }
    }
}

/// How long a pod runs before it ends by itself; `None` if it does not.
fn run_time(pod: &Value) -> Option<Duration> {
    let text = text_at(pod, &["metadata", "annotations", RUN_SECONDS]);
    let seconds: f64 = text.trim_end_matches('s').parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
