//! A whole scheduler in virtual time, for tests of custom schedulers: minutes of a cluster take milliseconds.
//!
//! Its API server accepts every write and evicts at once, and answers no other request. For tests with a real connection,
//! run a [`Daemon`](kube_scheduler_daemon::Daemon) against a `DevCluster`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::{Node, Object, Pod, PodStatus, Timestamp};
use kube_scheduler_config::FeatureGates;
use kube_scheduler_engine::{Effect, Engine, EngineOptions, EvictionOutcome, Input, PodRef};
use kube_scheduler_framework::{ApiError, Handle, ObjectWrite, PluginMetrics};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use crate::SchedulerBuilder;
use crate::builder::{BuilderError, config_of};

/// Why a scheduler cannot be built, or an object not be added.
pub type TestError = Box<dyn std::error::Error + Send + Sync>;

/// A scheduler, its cluster, and their time.
///
/// ```
/// use kube_scheduler_framework::testing::{node, pod};
/// use kube_scheduler_rs::{SchedulerBuilder, testing::TestScheduler};
///
/// let mut scheduler = TestScheduler::new(SchedulerBuilder::new(), "")?;
/// scheduler.add_node(node("n").allocatable("cpu", "1"));
/// scheduler.add_pod(pod("small").request("cpu", "1"));
/// scheduler.add_pod(pod("late").request("cpu", "1"));
/// scheduler.run();
/// assert_eq!(scheduler.node_of("default/small").as_deref(), Some("n"));
/// assert_eq!(scheduler.node_of("default/late"), None);
/// assert!(scheduler.events("default/late")[0].starts_with("FailedScheduling: 0/1 nodes are available: 1 Insufficient cpu."));
/// # Ok::<(), kube_scheduler_rs::testing::TestError>(())
/// ```
#[derive(Debug)]
pub struct TestScheduler {
    engine: Engine,
    now: Timestamp,
    pods: BTreeMap<String, Arc<Pod>>,
    events: BTreeMap<String, Vec<String>>,
    metrics: PluginMetrics,
    runtime: Runtime,
    revision: u64,
}

impl TestScheduler {
    /// A scheduler with a `KubeSchedulerConfiguration` in YAML or JSON; the default one for an empty text.
    ///
    /// # Errors
    /// If a plugin could not be added, or no scheduler can be built from the configuration.
    pub fn new(builder: SchedulerBuilder, config: &str) -> Result<Self, TestError> {
        let gates = FeatureGates::default();
        let registry = builder.registry().map_err(|error: BuilderError| error.to_string())?;
        let metrics = PluginMetrics::new();
        let mut options = EngineOptions { gates: gates.clone(), ..EngineOptions::default() };
        options.handle = Handle::default().with_metrics(metrics.clone());
        Ok(Self {
            engine: Engine::new(&config_of(config, &gates)?, &registry, options)?,
            now: Timestamp::from_millis(1_000_000),
            pods: BTreeMap::new(),
            events: BTreeMap::new(),
            metrics,
            runtime: Builder::new_current_thread().enable_all().build()?,
            revision: 0,
        })
    }

    /// Adds or changes a node.
    pub fn add_node(&mut self, node: impl Into<Arc<Node>>) {
        self.engine.handle(Input::NodeApplied(node.into()), self.now);
    }

    /// Deletes a node.
    pub fn delete_node(&mut self, name: &str) {
        self.engine.handle(Input::NodeDeleted { name: name.into() }, self.now);
    }

    /// Adds or changes a pod.
    pub fn add_pod(&mut self, pod: impl Into<Arc<Pod>>) {
        let pod: Arc<Pod> = pod.into();
        self.apply((*pod).clone());
    }

    /// Deletes a pod by its key, such as `default/web`.
    pub fn delete_pod(&mut self, key: &str) {
        if let Some(pod) = self.pods.remove(key) {
            let (namespace, name) = (pod.namespace.clone(), pod.name.clone());
            self.engine.handle(Input::PodDeleted { namespace, name }, self.now);
        }
    }

    /// Adds or changes an object of any other kind.
    ///
    /// # Errors
    /// If the value is not a Kubernetes object.
    pub fn add_object(&mut self, object: Value) -> Result<(), TestError> {
        let object = Arc::new(Object::from_value(object)?);
        self.engine.handle(Input::ObjectApplied(object), self.now);
        Ok(())
    }

    /// Schedules until nothing more happens at the current time.
    pub fn run(&mut self) {
        loop {
            let has_decided = self.engine.schedule_next(self.now).is_some();
            let effects: Vec<Effect> = self.engine.drain_effects().collect();
            if !has_decided && effects.is_empty() {
                return;
            }
            for effect in effects {
                self.carry_out(effect);
            }
        }
    }

    /// Advances time, and schedules whenever something is due.
    pub fn advance(&mut self, length: Duration) {
        let end = self.now + length;
        self.run();
        while let Some(due) = self.engine.next_deadline().filter(|due| *due <= end) {
            // Time advances even for a deadline that has passed already, so that the loop ends.
            self.now = due.max(self.now + Duration::from_nanos(1)).min(end);
            self.engine.handle(Input::TimePassed, self.now);
            self.run();
            if self.now == end {
                return;
            }
        }
        self.now = end;
        self.engine.handle(Input::TimePassed, self.now);
        self.run();
    }

    /// The node that a pod such as `default/web` is bound to.
    pub fn node_of(&self, key: &str) -> Option<String> {
        self.pods.get(key)?.node_name.as_ref().map(ToString::to_string)
    }

    /// The events about a pod, as `Reason: note`, in order.
    pub fn events(&self, key: &str) -> &[String] {
        self.events.get(key).map_or(&[], Vec::as_slice)
    }

    /// The metrics of the plugins.
    pub fn metrics(&self) -> &PluginMetrics {
        &self.metrics
    }

    /// The engine, read-only.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Stores a pod, and gives the engine its new state.
    fn apply(&mut self, mut pod: Pod) {
        self.revision += 1;
        pod.resource_version = self.revision.to_string().into();
        let pod = Arc::new(pod);
        self.pods.insert(pod.key(), pod.clone());
        self.engine.handle(Input::PodApplied(pod), self.now);
    }

    fn change(&mut self, pod: &PodRef, change: impl FnOnce(&mut Pod)) {
        let known = self.pods.get(&pod.to_string()).filter(|known| known.uid == pod.uid);
        let Some(mut changed) = known.map(|known| (**known).clone()) else { return };
        change(&mut changed);
        self.apply(changed);
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::WriteBinding { token, pod, node } => {
                self.change(&pod, |pod| pod.node_name = Some(node));
                self.engine.handle(Input::BindingWritten { token, result: Ok(()) }, self.now);
            }
            Effect::PatchStatus { pod, patch, .. } => self.change(&pod, |pod| {
                let mut status = PodStatus::clone(&pod.status);
                if let Some(nominated) = patch.nominated_node_name {
                    status.nominated_node_name = nominated;
                }
                if let Some(condition) = patch.condition {
                    let others =
                        status.conditions.iter().filter(|other| other.kind != condition.kind);
                    status.conditions = others.cloned().chain([condition.clone()]).collect();
                }
                pod.status = Arc::new(status);
            }),
            Effect::RecordEvent { pod, reason, note, .. } => {
                self.events.entry(pod.to_string()).or_default().push(format!("{reason}: {note}"));
            }
            Effect::EvictPod { token, pod, .. } => {
                let was_there = self.pods.contains_key(&pod.to_string());
                self.delete_pod(&pod.to_string());
                let result = Ok(if was_there {
                    EvictionOutcome::Deleted
                } else {
                    EvictionOutcome::AlreadyGone
                });
                self.engine.handle(Input::PodEvicted { token, result }, self.now);
            }
            Effect::ClearNomination { token, pod } => {
                self.change(&pod, |pod| {
                    let status = PodStatus::clone(&pod.status);
                    pod.status = Arc::new(PodStatus { nominated_node_name: None, ..status });
                });
                self.engine.handle(Input::NominationCleared { token, result: Ok(()) }, self.now);
            }
            Effect::WriteObject { write, awaited_by, .. } => {
                let object = match write {
                    ObjectWrite::Delete { object, .. } => {
                        self.engine.handle(Input::ObjectDeleted(object.clone()), self.now);
                        Some(object)
                    }
                    ObjectWrite::Replace(object)
                    | ObjectWrite::ReplaceStatus(object)
                    | ObjectWrite::Create(object) => {
                        self.engine.handle(Input::ObjectApplied(object.clone()), self.now);
                        Some(object)
                    }
                    _ => None,
                };
                let refusal = || ApiError::new("MethodNotAllowed", "not served by this harness");
                if let Some((token, _)) = awaited_by {
                    let result = object.ok_or_else(refusal);
                    self.engine.handle(Input::ObjectWritten { token, result }, self.now);
                }
            }
            Effect::Await { token, work, .. } => {
                let status = self.runtime.block_on(work);
                self.engine.handle(Input::WorkFinished { token, status }, self.now);
            }
            // Work ends as soon as it starts here, so there is nothing to cancel.
            _ => {}
        }
    }
}
