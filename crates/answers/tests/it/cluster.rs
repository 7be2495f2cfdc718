//! An engine that is fed with texts, at a time that stands still.

use std::sync::Arc;

use kube_scheduler_answers::{ExplainOptions, Explanation, Refusal, Subject, explain};
use kube_scheduler_api_types::{Node, Pod, Timestamp};
use kube_scheduler_config::{Configuration, FeatureGates};
use kube_scheduler_engine::{Engine, EngineOptions, Input};
use serde_json::{Value, json};

pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_000_000);

pub(crate) struct Cluster {
    pub(crate) engine: Engine,
}

/// A pod that asks for `cpu`; `spec` is added to its own.
pub(crate) fn pod(name: &str, cpu: &str, spec: Value) -> Arc<Pod> {
    let mut pod = json!({
        "metadata": {"namespace": "default", "name": name, "uid": format!("{name}-uid")},
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
        },
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][key] = value.clone();
    }
    Arc::new(Pod::from_value(&pod).unwrap())
}

impl Cluster {
    pub(crate) fn new() -> Self {
        let mut config = Configuration::default();
        kube_scheduler_config::default(&mut config, &FeatureGates::default());
        let registry = kube_scheduler_plugins_intree::registry();
        Self { engine: Engine::new(&config, &registry, EngineOptions::default()).unwrap() }
    }

    /// Adds a node; `spec` is its own.
    pub(crate) fn node(mut self, name: &str, cpu: &str, spec: Value) -> Self {
        let node = json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "spec": spec,
            "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}},
        });
        let node = Node::from_value(&node).unwrap();
        self.engine.handle(Input::NodeApplied(Arc::new(node)), NOW);
        self
    }

    pub(crate) fn pod(mut self, pod: Arc<Pod>) -> Self {
        self.engine.handle(Input::PodApplied(pod), NOW);
        self
    }

    pub(crate) fn explain(&mut self, subject: &Subject) -> Result<Explanation, Refusal> {
        explain(&mut self.engine, subject, ExplainOptions::default(), NOW)
    }
}
