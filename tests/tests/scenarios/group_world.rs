//! An engine alone, and the API server's side of it, where everything succeeds at once.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_cache::check;
use kube_scheduler_config::FeatureGates;
use kube_scheduler_engine::{Effect, Engine, EngineOptions, Input, Token};
use kube_scheduler_tests::fixtures::engine_with;
use serde_json::{Value, json};

pub(crate) struct GroupWorld {
    pub(crate) engine: Engine,
    pub(crate) now: Timestamp,
    /// As the API server has them, by name.
    pub(crate) pods: BTreeMap<String, Arc<Pod>>,
    /// Every effect.
    pub(crate) log: Vec<String>,
    /// The pod whose binding is not answered, and the binding, once it is asked for.
    pub(crate) held: Option<(&'static str, Option<Token>)>,
}

impl GroupWorld {
    /// Without nodes.
    pub(crate) fn new(profiles: &Value, gates: FeatureGates, plans_gangs_exactly: bool) -> Self {
        // Whatever is not woken in time is not woken: what time alone brings back would hide that.
        let max_in_unschedulable = Duration::from_secs(1_000_000);
        let options = EngineOptions {
            gates,
            plans_gangs_exactly,
            max_in_unschedulable,
            ..EngineOptions::default()
        };
        let registry = kube_scheduler_plugins_intree::registry();
        let engine = engine_with(profiles, &registry, options);
        let now = Timestamp::from_millis(1_000_000);
        Self { engine, now, pods: BTreeMap::new(), log: Vec::new(), held: None }
    }

    pub(crate) fn handle(&mut self, input: Input) {
        self.engine.handle(input, self.now);
        self.carry_out();
    }

    fn carry_out(&mut self) {
        loop {
            let effects: Vec<Effect> = self.engine.drain_effects().collect();
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                self.log.push(effect.to_string());
                match effect {
                    Effect::WriteBinding { token, pod, .. }
                        if self.held.as_ref().is_some_and(|(held, _)| **held == *pod.name) =>
                    {
                        self.held = self.held.map(|(held, _)| (held, Some(token)));
                    }
                    Effect::WriteBinding { token, pod, node } => {
                        let result = Ok(());
                        self.engine.handle(Input::BindingWritten { token, result }, self.now);
                        self.watch(self.pods[&*pod.name].with_node_name(&node));
                    }
                    Effect::PatchStatus { pod, patch, .. } => {
                        let mut pod = Pod::clone(&self.pods[&*pod.name]);
                        let conditions = patch.condition.into_iter().collect();
                        Arc::make_mut(&mut pod.status).conditions = conditions;
                        self.watch(pod);
                    }
                    _ => {}
                }
            }
        }
    }

    /// The watch shows a pod.
    fn watch(&mut self, pod: Pod) {
        let pod = Arc::new(pod);
        self.pods.insert(pod.name.to_string(), pod.clone());
        self.engine.handle(Input::PodApplied(pod), self.now);
    }

    /// Some minutes in which the scheduler does what it can.
    pub(crate) fn run(&mut self) {
        for _ in 0..4 {
            self.now = self.now + Duration::from_secs(100);
            self.handle(Input::TimePassed);
            for _ in 0..10 {
                if self.engine.schedule_next(self.now).is_none() {
                    break;
                }
                self.carry_out();
            }
            let differences = check(self.engine.cluster());
            assert!(differences.is_empty(), "{differences:?}");
            assert_eq!(self.engine.cluster().n_assumed(), 0, "{:#?}", self.log);
        }
    }

    /// A pod that asks for one CPU, with more fields or others.
    pub(crate) fn pod(&mut self, name: &str, more: &Value) {
        let mut pod = json!({
            "metadata": {"namespace": "x", "name": name, "uid": name},
            "spec": {
                "schedulerName": "default-scheduler",
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
            },
        });
        for part in ["metadata", "spec"] {
            for (field, value) in more[part].as_object().into_iter().flatten() {
                pod[part][field] = value.clone();
            }
        }
        let pod = Arc::new(Pod::from_value(&pod).unwrap());
        self.pods.insert(name.to_owned(), pod.clone());
        self.handle(Input::PodApplied(pod));
    }

    pub(crate) fn bound(&self) -> Vec<&str> {
        let assigned = self.pods.values().filter(|pod| pod.is_assigned());
        assigned.map(|pod| &*pod.name).collect()
    }

    /// Whether an event of the pod and its condition have this text.
    pub(crate) fn says(&self, pod: &str, text: &str) -> bool {
        ["event", "patch"].iter().all(|what| {
            let start = format!("{what} x/{pod} ");
            self.log.iter().any(|line| line.starts_with(&start) && line.contains(text))
        })
    }
}
