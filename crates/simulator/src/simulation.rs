//! What others use: objects in, a report out, as often as one likes.

use std::sync::Arc;

use kube_scheduler_api_types::{Node, Object, Pod, Timestamp};
use kube_scheduler_config::{
    Configuration, FeatureGates, LoadError, decode, default, ignore_managed_resources, validate,
};
use kube_scheduler_engine::{BuildError, Engine, EngineOptions, Pool};
use kube_scheduler_framework::Registry;

use crate::driver::{Driver, Recording};
use crate::explanation::PodExplanation;
use crate::import::ClusterObjects;
use crate::ledger::Ledger;
use crate::pod_name::PodName;
use crate::report::{Report, compose};

/// How to simulate.
#[derive(Clone, Debug)]
pub struct SimulationOptions {
    /// The scheduler's configuration, with defaults filled in. Extenders in it are not asked, and the report says so.
    pub config: Configuration,
    /// Feature gates.
    pub gates: FeatureGates,
    /// All plugins that profiles can use. The default is the in-tree ones.
    pub registry: Registry,
    /// Decides everything that is random.
    pub seed: u64,
    /// Threads for scans; the outcome does not depend on them.
    pub pool: Pool,
    /// Pods whose decisions are to be explained.
    pub explain: Vec<PodName>,
}

impl Default for SimulationOptions {
    fn default() -> Self {
        let gates = FeatureGates::default();
        let mut config = Configuration::default();
        default(&mut config, &gates);
        Self {
            config,
            gates,
            registry: kube_scheduler_plugins_intree::registry(),
            seed: 0,
            pool: Pool::none(),
            explain: Vec::new(),
        }
    }
}

impl SimulationOptions {
    /// Takes over a configuration file (`KubeSchedulerConfiguration` v1, YAML or JSON).
    ///
    /// # Errors
    /// If the text is no valid configuration.
    pub fn with_config_text(mut self, text: &str) -> Result<Self, LoadError> {
        let mut config = decode(text)?;
        default(&mut config, &self.gates);
        let errors = validate(&config, &self.gates);
        if !errors.is_empty() {
            return Err(kube_scheduler_config::Invalid(errors).into());
        }
        self.config = config;
        Ok(self)
    }
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// The configuration makes no scheduler.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A pod to explain is not in the input, or has ended.
    #[error("cannot explain pod {0}: there is no such pod in the input")]
    NoSuchPod(PodName),
}

/// How far a simulation has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Attempts so far, repeated ones included.
    pub n_decisions: u64,
    /// Pods that have been tried at least once.
    pub n_tried: usize,
    /// Pods that came without a node.
    pub n_pending: usize,
    /// Whether no attempt will follow.
    pub is_over: bool,
}

/// A cluster and its pending pods, ready to be scheduled in virtual time.
///
/// Running does not use the input up: every run starts from the same state and, with the same options, gives an equal
/// report. Loading more objects between two runs answers what-if questions.
#[derive(Clone, Debug)]
pub struct Simulation {
    options: SimulationOptions,
    input: ClusterObjects,
}

impl Simulation {
    /// An empty cluster.
    ///
    /// # Errors
    /// If no scheduler can be made from the options.
    pub fn new(options: SimulationOptions) -> Result<Self, BuildError> {
        engine(&options)?;
        Ok(Self { options, input: ClusterObjects::default() })
    }

    /// Adds objects. One of the same kind and name takes the place of an earlier one.
    pub fn load(&mut self, objects: ClusterObjects) {
        let ClusterObjects { nodes, pods, objects, n_finished, warnings } = objects;
        merge(&mut self.input.nodes, nodes, |node: &Node| node.name.clone());
        merge(&mut self.input.pods, pods, |pod: &Pod| (pod.namespace.clone(), pod.name.clone()));
        merge(&mut self.input.objects, objects, |object: &Object| {
            let Object { group, kind, namespace, name, .. } = object;
            [group.clone(), kind.clone(), namespace.clone(), name.clone()]
        });
        self.input.n_finished += n_finished;
        self.input.warnings.extend(warnings);
    }

    /// How many pods have no node yet.
    pub fn n_pending(&self) -> usize {
        self.input.pods.iter().filter(|pod| !pod.is_assigned()).count()
    }

    /// Schedules until no pending pod can get any further.
    ///
    /// # Errors
    /// If a pod to explain does not exist.
    pub fn run(&self) -> Result<Report, SimulationError> {
        self.run_observed(&mut |_| ())
    }

    /// The same; `observe` is called before the first attempt, after every one, and when there will be no more.
    ///
    /// # Errors
    /// If a pod to explain does not exist.
    pub fn run_observed(
        &self,
        observe: &mut dyn FnMut(Progress),
    ) -> Result<Report, SimulationError> {
        let known = |name: &PodName| self.input.pods.iter().any(|pod| is_named(pod, name));
        if let Some(name) = self.options.explain.iter().find(|name| !known(name)) {
            return Err(SimulationError::NoSuchPod(name.clone()));
        }
        let mut engine = engine(&self.options)?;
        let mut ledger = Ledger::new(&self.input.pods);
        let mut driver = Driver::new(&mut engine, &mut ledger, self.start(), Recording::default());
        driver.feed(&self.input);
        driver.run(observe);
        let driven = driver.finish();
        let mut report = compose(&engine, &ledger, driven.n_decisions);
        report.pods.finished = self.input.n_finished;
        report.warnings.extend(extenders_not_asked(&self.options.config));
        report.warnings.extend(self.input.warnings.iter().cloned());
        report.warnings.extend(driven.warnings);
        report.explanations = self.explain(&ledger, &report)?;
        Ok(report)
    }

    /// Explains decisions by running again and stopping right before them: the same input gives the same decisions, and
    /// the first run knows when they were taken.
    fn explain(
        &self,
        ledger: &Ledger,
        report: &Report,
    ) -> Result<Vec<PodExplanation>, SimulationError> {
        if self.options.explain.is_empty() {
            return Ok(Vec::new());
        }
        let mut engine = engine(&self.options)?;
        let mut second = Ledger::new(&self.input.pods);
        let recording = Recording::of(ledger, &self.options.explain);
        let mut driver = Driver::new(&mut engine, &mut second, self.start(), recording);
        driver.feed(&self.input);
        driver.run(&mut |_| ());
        let mut found = driver.finish().explanations;
        let explained = |name: &PodName| {
            let explanation = found.remove(name);
            PodExplanation::new(name, explanation.as_ref(), ledger, report)
        };
        Ok(self.options.explain.iter().map(explained).collect())
    }

    /// The virtual time at which everything happens at first: nothing in the input is newer.
    fn start(&self) -> Timestamp {
        let pods = self
            .input
            .pods
            .iter()
            .flat_map(|pod| [pod.created, pod.status.started, pod.deletion_requested]);
        let nodes = self.input.nodes.iter().map(|node| node.created);
        pods.chain(nodes).flatten().max().unwrap_or_default().max(Timestamp::EPOCH)
    }
}

fn is_named(pod: &Pod, name: &PodName) -> bool {
    pod.namespace == name.namespace && pod.name == name.name
}

fn engine(options: &SimulationOptions) -> Result<Engine, BuildError> {
    let engine_options = EngineOptions {
        seed: options.seed,
        pool: options.pool.clone(),
        gates: options.gates.clone(),
        ..EngineOptions::default()
    };
    let mut config = options.config.clone();
    // What extenders count is not counted here either; they themselves are left out.
    ignore_managed_resources(&mut config)?;
    config.extenders.clear();
    Engine::new(&config, &options.registry, engine_options)
}

/// Nothing outside is asked in a simulation, and users must know.
fn extenders_not_asked(config: &Configuration) -> Option<String> {
    let urls: Vec<&str> =
        config.extenders.iter().map(|extender| extender.url_prefix.as_str()).collect();
    (!urls.is_empty()).then(|| {
        let urls = urls.join(", ");
        format!("extenders are not asked in a simulation, whatever they would say about pods and nodes: {urls}")
    })
}

/// Adds `new` to `known`, the newer of two with the same key in the place of the older.
fn merge<T, K: Ord>(known: &mut Vec<Arc<T>>, new: Vec<Arc<T>>, key: impl Fn(&T) -> K) {
    let mut places: std::collections::BTreeMap<K, usize> =
        known.iter().enumerate().map(|(at, value)| (key(value), at)).collect();
    for value in new {
        match places.get(&key(&value)) {
            Some(&at) => known[at] = value,
            None => {
                places.insert(key(&value), known.len());
                known.push(value);
            }
        }
    }
}
