//! Hollow nodes: kubelets without machines.
//!
//! One task plays the kubelet of every node that it adopts. It works straight on the store and follows it by a watch,
//! as a kubelet would. Invariants: a pod is started, finished or removed only if it is still the pod (by uid) that the
//! decision was made for; without latencies, what a batch of changes asks for is done in one write.

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
use crate::object::{Object, at, key_of, text_at};
use crate::selectors::Selection;
use crate::status::ApiError;
use crate::store::Store;
use crate::watch::Watcher;
use kubelet::{Addresses, Deed};

pub use template::NodeTemplate;

/// The annotation that makes a pod end by itself: seconds of running, as a decimal number.
pub const RUN_SECONDS: &str = "devcluster/run-seconds";
/// The annotation that says in which phase such a pod ends: `Succeeded` (default) or `Failed`.
pub const END_PHASE: &str = "devcluster/end-phase";
/// The annotation that marks the nodes made by [`Hollow::add_nodes`].
pub const HOLLOW: &str = "devcluster/hollow";

/// How hollow nodes behave.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HollowOptions {
    /// Time from binding to Running; none by default.
    pub start_latency: Duration,
    /// Longest time that a deleted pod takes to go, whatever its grace period; none by default.
    pub stop_latency: Duration,
    /// How often node leases are renewed; never by default, since thousands of nodes make thousands of writes.
    pub lease_interval: Option<Duration>,
    /// Whether nodes that others created are played as well, and pods on nodes that do not exist; true by default.
    pub adopt_all: bool,
}

impl Default for HollowOptions {
    fn default() -> Self {
        Self {
            start_latency: Duration::ZERO,
            stop_latency: Duration::ZERO,
            lease_interval: None,
            adopt_all: true,
        }
    }
}

/// Makes hollow nodes.
pub struct Hollow {
    store: Arc<Store>,
}

impl Hollow {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Self { store }
    }

    /// Adds `count` nodes, numbered on from the number of nodes there are.
    pub fn add_nodes(
        &self,
        count: usize,
        template: &NodeTemplate,
    ) -> Result<Vec<Arc<Object>>, ApiError> {
        let options = WriteOptions { keep_status: true, ..WriteOptions::default() };
        self.store.write(|state| {
            let first = state.objects(NODES).count();
            let now = crate::clock::to_rfc3339(state.now);
            (first..first + count)
                .map(|index| create_in(state, NODES, "", template.node(index, &now), &options))
                .collect()
        })
    }
}

/// Something to be done at a point in time.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Instant,
    /// Keeps deeds with the same deadline in the order in which they were decided.
    order: u64,
    deed: Deed,
}

struct HollowTask {
    store: Arc<Store>,
    options: HollowOptions,
    queue: BinaryHeap<Reverse<Due>>,
    decided: u64,
    addresses: Addresses,
}

/// Plays the kubelets until `shutdown`.
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
            // Too far behind: start over from the current state.
            debug!(%error, "hollow nodes lost their watch");
        }
    }
}

impl HollowTask {
    async fn follow(&mut self, shutdown: &CancellationToken) -> Result<(), ApiError> {
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
        let mut next_renewal =
            self.options.lease_interval.map(|interval| Instant::now() + interval);
        loop {
            self.work()?;
            let wake = self.queue.peek().map(|Reverse(due)| due.at);
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(()),
                events = node_watch.next() => {
                    let nodes: Vec<Arc<Object>> = events?
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
                () = until(next_renewal) => {
                    kubelet::renew_leases(&self.store, &self.addresses)?;
                    next_renewal = self.options.lease_interval.map(|interval| Instant::now() + interval);
                }
            }
        }
    }

    fn see_nodes(&mut self, nodes: &[Arc<Object>]) {
        let mut unready = Vec::new();
        for node in nodes {
            let value = node.value();
            let is_ours = at(&value, &["metadata", "annotations", HOLLOW]).is_some();
            if !is_ours && !self.options.adopt_all {
                continue;
            }
            self.addresses.insert(node.name(), &value);
            if crate::object::list_at(&value, &["status", "conditions"]).is_empty() {
                unready.push(node.name().to_owned());
            }
        }
        kubelet::make_ready(&self.store, &unready, &mut self.addresses);
    }

    fn see_pod(&mut self, pod: &Object) {
        // Positions 0 and 1 of a pod's selectable fields are its node and its phase.
        let (node, phase) = (pod.field(0), pod.field(1));
        if node.is_empty() || !(self.options.adopt_all || self.addresses.contains(node)) {
            return;
        }
        let key = key_of(pod.namespace(), pod.name());
        let uid = pod.uid().to_owned();
        if pod.is_terminating() {
            let value = pod.value();
            let grace = crate::object::int_at(&value, &["metadata", "deletionGracePeriodSeconds"])
                .unwrap_or(0);
            let grace = Duration::from_secs(u64::try_from(grace).unwrap_or(0));
            self.decide(grace.min(self.options.stop_latency), Deed::Remove { key, uid });
        } else if phase == "Pending" {
            self.decide(self.options.start_latency, Deed::Start { key, uid });
        } else if phase == "Running" {
            let value = pod.value();
            if let Some(wait) = run_time(&value) {
                self.decide(wait, Deed::Finish { key, uid });
            }
        }
    }

    fn decide(&mut self, wait: Duration, deed: Deed) {
        self.decided += 1;
        self.queue.push(Reverse(Due { at: Instant::now() + wait, order: self.decided, deed }));
    }

    /// Does everything that is due.
    fn work(&mut self) -> Result<(), ApiError> {
        /// How many deeds share one hold of the lock.
        const BATCH: usize = 64;
        let now = Instant::now();
        loop {
            let mut batch = Vec::new();
            while batch.len() < BATCH
                && let Some(Reverse(due)) = self.queue.peek()
                && due.at <= now
            {
                batch.extend(self.queue.pop().map(|Reverse(due)| due.deed));
            }
            if batch.is_empty() {
                return Ok(());
            }
            kubelet::carry_out(&self.store, batch, &mut self.addresses)?;
        }
    }
}

/// How long a pod runs before it ends by itself.
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
