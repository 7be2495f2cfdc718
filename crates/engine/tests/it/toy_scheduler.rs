//! An engine with toy plugins, a clock that stands still unless a test moves it, and one-line inputs.

use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_config::{Configuration, KubeSchedulerProfile, Plugins, WeightedPlugin};
use kube_scheduler_engine::{
    AttemptResult, BuildError, Effect, Engine, EngineOptions, EvictionOutcome, Input, StatusPatch,
    Token, Turn,
};
use kube_scheduler_framework::api::{Node, Pod, Timestamp};
use kube_scheduler_framework::{ApiError, Plugin, Status, testing};
use kube_scheduler_queue::Place;
use kube_scheduler_runtime::Registry;

use crate::toy::{Log, Toy};

/// When every test begins: a whole second, as backoffs are aligned to those.
pub(crate) const START: Timestamp = Timestamp::from_millis(1_000_000);

pub(crate) struct ToyScheduler {
    pub(crate) engine: Engine,
    pub(crate) now: Timestamp,
    log: Log,
}

/// An answer of the API server that says no, without a machine-readable reason.
fn refused(message: &str) -> ApiError {
    ApiError::new("", message)
}

/// A profile `name` with `plugins` at every point they implement.
pub(crate) fn profile(name: &str, plugins: &[&str]) -> KubeSchedulerProfile {
    let mut all = Plugins::default();
    all.multi_point.enabled = plugins.iter().map(|name| WeightedPlugin::new(*name, 0)).collect();
    KubeSchedulerProfile {
        scheduler_name: Some(name.into()),
        plugins: Some(all),
        ..KubeSchedulerProfile::default()
    }
}

impl ToyScheduler {
    /// One profile `s` with `toys` in their order, and one node `n1`.
    pub(crate) fn new(toys: Vec<Toy>) -> Self {
        let mut scheduler = Self::without_nodes(toys);
        scheduler.node("n1");
        scheduler
    }

    pub(crate) fn without_nodes(toys: Vec<Toy>) -> Self {
        Self::configured(toys, |_, _| {})
    }

    /// As [`without_nodes`](Self::without_nodes), with a change to the configuration.
    pub(crate) fn configured(
        toys: Vec<Toy>,
        change: impl FnOnce(&mut Configuration, &mut EngineOptions),
    ) -> Self {
        Self::build(toys, change).unwrap()
    }

    pub(crate) fn build(
        toys: Vec<Toy>,
        change: impl FnOnce(&mut Configuration, &mut EngineOptions),
    ) -> Result<Self, BuildError> {
        let log = Log::default();
        let mut names = Vec::new();
        let mut registry = Registry::new();
        for mut toy in toys.into_iter().chain([Toy::base()]) {
            toy.log = log.clone();
            names.push(toy.name);
            let name = toy.name;
            let toy: Arc<dyn Plugin> = Arc::new(toy);
            registry.register(name, move |_, _| Ok(toy.clone())).unwrap();
        }
        let mut config =
            Configuration { profiles: vec![profile("s", &names)], ..Configuration::default() };
        let mut options = EngineOptions::default();
        change(&mut config, &mut options);
        Ok(Self { engine: Engine::new(&config, &registry, options)?, now: START, log })
    }

    pub(crate) fn input(&mut self, input: Input) {
        self.engine.handle(input, self.now);
    }

    pub(crate) fn node(&mut self, name: &str) {
        self.input(Input::NodeApplied(node(name)));
    }

    pub(crate) fn nodes(&mut self, n: usize) {
        (0..n).for_each(|n| self.node(&format!("n{n}")));
    }

    pub(crate) fn apply(&mut self, pod: &Arc<Pod>) {
        self.input(Input::PodApplied(pod.clone()));
    }

    pub(crate) fn delete(&mut self, pod: &Pod) {
        let (namespace, name) = (pod.namespace.clone(), pod.name.clone());
        self.input(Input::PodDeleted { namespace, name });
    }

    pub(crate) fn advance(&mut self, length: Duration) {
        self.now = self.now + length;
        self.input(Input::TimePassed);
    }

    pub(crate) fn written(&mut self, token: u64, result: Result<(), &str>) {
        let result = result.map_err(refused);
        self.input(Input::BindingWritten { token: Token(token), result });
    }

    pub(crate) fn evicted(&mut self, token: u64, result: Result<EvictionOutcome, &str>) {
        let result = result.map_err(refused);
        self.input(Input::PodEvicted { token: Token(token), result });
    }

    pub(crate) fn cleared(&mut self, token: u64, result: Result<(), &str>) {
        let result = result.map_err(refused);
        self.input(Input::NominationCleared { token: Token(token), result });
    }

    pub(crate) fn finished(&mut self, token: u64, status: Status) {
        self.input(Input::WorkFinished { token: Token(token), status });
    }

    pub(crate) fn turn(&mut self) -> Option<Turn> {
        self.engine.schedule_next(self.now)
    }

    /// The outcome of the next attempt, as text.
    pub(crate) fn attempt(&mut self) -> String {
        match self.turn().map(|turn| turn.result) {
            None => "nobody".into(),
            Some(AttemptResult::Assumed(node)) => format!("assumed {node}"),
            Some(AttemptResult::Unschedulable(text)) => format!("unschedulable {text}"),
            Some(AttemptResult::Error(text)) => format!("error {text}"),
            Some(AttemptResult::Skipped) => "skipped".into(),
        }
    }

    /// Brings in a pod and tries it.
    pub(crate) fn try_pod(&mut self, pod: &Arc<Pod>) -> String {
        self.apply(pod);
        self.attempt()
    }

    pub(crate) fn raw_effects(&mut self) -> Vec<Effect> {
        self.engine.drain_effects().collect()
    }

    pub(crate) fn effects(&mut self) -> Vec<String> {
        self.raw_effects().iter().map(ToString::to_string).collect()
    }

    /// The status patches among the effects.
    pub(crate) fn patches(&mut self) -> Vec<StatusPatch> {
        let patch = |effect| match effect {
            Effect::PatchStatus { patch, .. } => Some(patch),
            _ => None,
        };
        self.raw_effects().into_iter().filter_map(patch).collect()
    }

    /// Who was called since the last time.
    pub(crate) fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().unwrap())
    }

    /// As [`calls`](Self::calls), only those of one extension point.
    pub(crate) fn calls_at(&self, point: &str) -> Vec<String> {
        let wanted = format!(".{point}(");
        self.calls().into_iter().filter(|call| call.contains(&wanted)).collect()
    }

    pub(crate) fn place(&self, name: &str) -> Option<Place> {
        self.engine.queue().place("ns", name)
    }

    pub(crate) fn is_assumed(&self, pod: &Pod) -> bool {
        self.engine.cluster().is_assumed(&pod.uid)
    }

    /// Whether nothing is left of any pod that was on its way.
    pub(crate) fn is_clean(&self) -> bool {
        let cluster = self.engine.cluster();
        let n_assumed = cluster.all_pods().filter(|(pod, _)| cluster.is_assumed(&pod.uid)).count();
        n_assumed == 0 && self.engine.n_binding() == 0
    }
}

pub(crate) fn node(text: &str) -> Arc<Node> {
    testing::node(text).build()
}

/// A pod of profile `s` in the namespace `ns`, from a statement of the fixtures' grammar.
pub(crate) fn pod(text: &str) -> Arc<Pod> {
    let (name, words) = text.split_once(' ').unwrap_or((text, ""));
    testing::pod(&format!("ns/{name} version=1 scheduler=s {words}")).build()
}

pub(crate) fn important(name: &str, priority: i32) -> Arc<Pod> {
    pod(&format!("{name} priority={priority}"))
}

pub(crate) fn running(name: &str, node: &str) -> Arc<Pod> {
    pod(&format!("{name} version=2 node={node}"))
}

pub(crate) fn nominated(name: &str, node: &str, priority: i32) -> Arc<Pod> {
    pod(&format!("{name} priority={priority} nominated={node}"))
}

pub(crate) fn leaving(name: &str) -> Arc<Pod> {
    pod(&format!("{name} version=3 deleted=2024-01-01T00:00:00Z"))
}

pub(crate) const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}
