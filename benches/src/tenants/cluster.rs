//! A cluster in which a tenant's pods are measured.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube_scheduler_api_types::{Node, Object, Pod, Timestamp};
use kube_scheduler_config::{FeatureGates, load};
use kube_scheduler_engine::{Deduplicator, Effect, Engine, EngineOptions, Input, Turn};
use kube_scheduler_framework::EventObject;
use serde_json::{Value, json};

use super::core_time;

const CONFIG: &str = "\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
";

/// The engine, and what a watch keeps.
pub(super) struct TenantCluster {
    pub(super) engine: Engine,
    pub(super) sharing: Deduplicator,
    pub(super) now: Timestamp,
}

/// What the attempts that were due took.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempts {
    /// The longest one, its effects included.
    pub(super) longest: Duration,
    /// What they did.
    pub(super) turns: Vec<Turn>,
}

impl TenantCluster {
    pub(super) fn new(n_nodes: usize) -> Result<Self> {
        let node = |at: usize| {
            let name = format!("n{at}");
            let labels = json!({"kubernetes.io/hostname": name, "zone": format!("z{}", at % 3)});
            json!({
                "metadata": {"name": name, "uid": name, "labels": labels},
                "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
            })
        };
        Self::of(n_nodes, node)
    }

    pub(super) fn of(n_nodes: usize, node: impl Fn(usize) -> Value) -> Result<Self> {
        let config = load(CONFIG, &FeatureGates::default())?;
        let registry = kube_scheduler_plugins_intree::registry();
        let engine = Engine::new(&config, &registry, EngineOptions::default())?;
        let now = Timestamp::parse("2026-01-01T00:00:00Z").context("start time")?;
        let mut cluster = Self { engine, sharing: Deduplicator::default(), now };
        for at in 0..n_nodes {
            let node = Arc::new(Node::from_value(&node(at))?);
            cluster.engine.handle(Input::NodeApplied(node), now);
        }
        Ok(cluster)
    }

    /// Reports a pod; how long the engine took.
    pub(super) fn add(&mut self, namespace: &str, name: &str, mut json: Value) -> Result<Duration> {
        json["metadata"]["namespace"] = namespace.into();
        json["metadata"]["name"] = name.into();
        json["metadata"]["uid"] = name.into();
        let mut object = EventObject::Pod(Arc::new(Pod::from_value(&json)?));
        drop(json);
        self.sharing.share(&mut object);
        let EventObject::Pod(pod) = object else { bail!("{object:?}") };
        let start = core_time();
        self.engine.handle(Input::PodApplied(pod), self.now);
        Ok(core_time() - start)
    }

    pub(super) fn add_object(&mut self, json: Value) -> Result<()> {
        let object = Arc::new(Object::from_value(json)?);
        self.engine.handle(Input::ObjectApplied(object), self.now);
        Ok(())
    }

    /// Makes all attempts that are due.
    pub(super) fn attempts(&mut self) -> Attempts {
        let mut attempts = Attempts::default();
        loop {
            let start = core_time();
            let turn = self.engine.schedule_next(self.now);
            attempts.longest = attempts.longest.max(core_time() - start);
            for effect in self.engine.drain_effects().collect::<Vec<_>>() {
                if let Effect::WriteBinding { token, .. } = effect {
                    let start = core_time();
                    self.engine.handle(Input::BindingWritten { token, result: Ok(()) }, self.now);
                    attempts.longest = attempts.longest.max(core_time() - start);
                }
            }
            let Some(turn) = turn else { return attempts };
            attempts.turns.push(turn);
        }
    }

    pub(super) fn remove(&mut self, namespace: &str, name: &str) {
        let deleted = Input::PodDeleted { namespace: namespace.into(), name: name.into() };
        self.engine.handle(deleted, self.now);
        self.engine.drain_effects().for_each(drop);
    }
}
