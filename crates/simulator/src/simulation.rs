//! The public interface: objects in, a report out.

use std::sync::Arc;

use kube_scheduler_answers::PodName;
use kube_scheduler_api_types::{Node, Object, Pod, PodGroup, Timestamp};
use kube_scheduler_cache::PodGroupError;
use kube_scheduler_config::{
    Configuration, FeatureGates, LoadError, decode, default, ignore_managed_resources, validate,
};
use kube_scheduler_engine::{BuildError, Engine, EngineOptions, Input};
use kube_scheduler_runtime::Registry;

use crate::driver::{Driver, Recording};
use crate::import::ClusterObjects;
use crate::import::groups::lacking;
use crate::ledger::Ledger;
use crate::report::{PodExplanation, Report, compose};
use crate::timeline::Timeline;

/// Configuration, plugins and seed of a simulation, and what its report has.
#[derive(Clone, Debug)]
pub struct SimulationOptions {
    /// The scheduler's configuration, with defaults filled in. Its extenders are not called, which the report warns about.
    pub config: Configuration,
    /// The feature gates, as the flag `--feature-gates` sets them.
    pub gates: FeatureGates,
    /// All plugins that profiles can use; by default the in-tree ones.
    pub registry: Registry,
    /// The seed of all random choices.
    pub seed: u64,
    /// Whether gangs are planned as a whole, as with the scheduler's flag `--exact-gangs`.
    pub exact_gangs: bool,
    /// Whether pods without a node come at the times of their creation, and those of traces go at the times of their deletion,
    /// instead of being there from the start to the end.
    pub timeline: bool,
    /// Pods whose last decision is explained in the report.
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
            exact_gangs: false,
            timeline: false,
            explain: Vec::new(),
        }
    }
}

impl SimulationOptions {
    /// Sets the feature gates, and the default configuration with them.
    #[must_use]
    pub fn with_gates(mut self, gates: FeatureGates) -> Self {
        self.config = Configuration::default();
        default(&mut self.config, &gates);
        self.gates = gates;
        self
    }

    /// Sets the configuration from the text of a file (`KubeSchedulerConfiguration` v1, YAML or JSON).
    ///
    /// # Errors
    /// If the text is not a valid configuration.
    pub fn with_config_text(mut self, text: &str) -> Result<Self, LoadError> {
        let mut config = decode(text)?;
        default(&mut config, &self.gates);
        let errors = validate(&config, &self.gates);
        if !errors.is_empty() {
            return Err(kube_scheduler_config::ConfigurationError(errors).into());
        }
        self.config = config;
        Ok(self)
    }
}

/// Why a simulation gives no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// No scheduler can be built from the configuration.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A pod to explain is not in the input, or had ended.
    #[error("cannot explain pod {0}: there is no such pod in the input")]
    NoSuchPod(PodName),
}

/// How far a running simulation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SimulationProgress {
    /// Scheduling attempts so far, repeated ones included.
    pub n_decisions: u64,
    /// Pods that have been tried at least once.
    pub n_tried: usize,
    /// Pods that had no node in the input.
    pub n_pending: usize,
    /// Whether no further attempt will follow.
    pub is_over: bool,
}

/// A cluster and its pending pods, ready to be scheduled in virtual time.
///
/// Running does not change the input: every run starts from the same state and, with the same options, gives an equal
/// report. Load more objects between two runs to see what would change.
#[derive(Clone, Debug)]
pub struct Simulation {
    options: SimulationOptions,
    input: ClusterObjects,
}

impl Simulation {
    /// An empty cluster.
    ///
    /// # Errors
    /// If no scheduler can be built from the options.
    pub fn new(options: SimulationOptions) -> Result<Self, BuildError> {
        engine(&options)?;
        Ok(Self { options, input: ClusterObjects::default() })
    }

    /// Adds objects. An object replaces an earlier one of the same kind, namespace and name.
    pub fn load(&mut self, objects: ClusterObjects) {
        let ClusterObjects { nodes, pods, objects, ends, n_finished, warnings, .. } = objects;
        merge(&mut self.input.nodes, nodes, |node: &Node| node.name.clone());
        merge(&mut self.input.pods, pods, |pod: &Pod| (pod.namespace.clone(), pod.name.clone()));
        merge(&mut self.input.objects, objects, |object: &Object| {
            let Object { group, kind, namespace, name, .. } = object;
            [group.clone(), kind.clone(), namespace.clone(), name.clone()]
        });
        self.input.ends.extend(ends);
        self.input.n_finished += n_finished;
        self.input.warnings.extend(warnings);
    }

    /// The number of pods without a node.
    pub fn n_pending(&self) -> usize {
        self.input.pods.iter().filter(|pod| !pod.is_assigned()).count()
    }

    /// An engine that has been given everything and has decided nothing yet, and the virtual time: for questions.
    ///
    /// # Errors
    /// If no scheduler can be built from the options.
    pub fn engine(&self) -> Result<(Engine, Timestamp), BuildError> {
        let mut engine = engine(&self.options)?;
        let mut ledger = Ledger::new(&self.input.pods);
        Driver::new(&mut engine, &mut ledger, self.start(), Recording::default())
            .feed(&self.input, None);
        Ok((engine, self.start()))
    }

    /// What the user should know about the input and the configuration.
    pub fn warnings(&self) -> Vec<String> {
        let extenders = extenders_not_asked(&self.options.config);
        let own = extenders.into_iter().chain(self.missing_groups());
        own.chain(self.input.warnings.iter().cloned()).collect()
    }

    /// A warning about groups of other kinds than PodGroup that pods belong to by what plugins say, and that are not in the input.
    fn missing_groups(&self) -> Option<String> {
        let mut engine = engine(&self.options).ok()?;
        let waiting = self.input.pods.iter().filter(|pod| !pod.is_assigned());
        let foreign = waiting.filter_map(|pod| {
            let group = engine.group_of(pod)?;
            PodGroup::foreign_parts(&group)?;
            Some((pod.namespace.clone(), group))
        });
        let groups: Vec<(Arc<str>, Arc<str>)> = foreign.collect();
        if groups.is_empty() {
            return None;
        }
        for object in &self.input.objects {
            engine.handle(Input::ObjectApplied(object.clone()), Timestamp::EPOCH);
        }
        let is_missing = |(namespace, name): &&(Arc<str>, Arc<str>)| {
            let found = engine.cluster().pod_group_object(namespace, name);
            matches!(found, Err(PodGroupError::NotFound))
        };
        lacking(
            groups.iter().filter(is_missing).map(|(namespace, name)| format!("{namespace}/{name}")),
        )
    }

    /// Schedules until no pending pod can make progress.
    ///
    /// # Errors
    /// If a pod to explain does not exist.
    pub fn run(&self) -> Result<Report, SimulationError> {
        self.run_observed(&mut |_| ())
    }

    /// As [`Simulation::run`]; `observe` is called before the first attempt, after every attempt, and at the end.
    ///
    /// # Errors
    /// If a pod to explain does not exist.
    pub fn run_observed(
        &self,
        observe: &mut dyn FnMut(SimulationProgress),
    ) -> Result<Report, SimulationError> {
        let known = |name: &PodName| self.input.pods.iter().any(|pod| is_named(pod, name));
        if let Some(name) = self.options.explain.iter().find(|name| !known(name)) {
            return Err(SimulationError::NoSuchPod(name.clone()));
        }
        let mut engine = engine(&self.options)?;
        let mut ledger = Ledger::new(&self.input.pods);
        let mut driver = self.driver(&mut engine, &mut ledger, Recording::default());
        driver.run(observe);
        let driven = driver.finish();
        let mut report = compose(&engine, &ledger, driven.n_decisions);
        report.pods.finished = self.input.n_finished;
        report.warnings.extend(self.warnings());
        report.warnings.extend(driven.warnings);
        report.timeline = driven.timeline;
        report.explanations = self.explain(&ledger, &report)?;
        Ok(report)
    }

    /// Explains decisions by running again and stopping right before them: the same input gives the same decisions, and
    /// the ledger of the first run says which attempts they were.
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
        let mut driver = self.driver(&mut engine, &mut second, recording);
        driver.run(&mut |_| ());
        let mut found = driver.finish().explanations;
        let explained = |name: &PodName| {
            let explanation = found.remove(name);
            PodExplanation::new(name, explanation, ledger, report)
        };
        Ok(self.options.explain.iter().map(explained).collect())
    }

    /// A run that has been given all objects, with a timeline all but the pods that come by it.
    fn driver<'a>(
        &self,
        engine: &'a mut Engine,
        ledger: &'a mut Ledger,
        recording: Recording,
    ) -> Driver<'a> {
        let timeline = self.options.timeline.then(|| Timeline::new(&self.input));
        let start = timeline.as_ref().map_or_else(|| self.start(), Timeline::start);
        let mut driver = Driver::new(engine, ledger, start, recording);
        driver.feed(&self.input, timeline);
        driver
    }

    /// The virtual time at which a run without a timeline starts: the newest timestamp in the input.
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
        plans_gangs_exactly: options.exact_gangs,
        gates: options.gates.clone(),
        ..EngineOptions::default()
    };
    let mut config = options.config.clone();
    // Resources that only extenders account for are not accounted for here either; the extenders are left out.
    ignore_managed_resources(&mut config)?;
    config.extenders.clear();
    Engine::new(&config, &options.registry, engine_options)
}

/// The warning that extenders are not called, if there are any.
fn extenders_not_asked(config: &Configuration) -> Option<String> {
    let urls: Vec<&str> =
        config.extenders.iter().map(|extender| extender.url_prefix.as_str()).collect();
    (!urls.is_empty()).then(|| {
        let urls = urls.join(", ");
        format!("extenders are not called in a simulation, so their filters and scores are missing: {urls}")
    })
}

/// Adds `new` to `known`; a value replaces an earlier one with the same key.
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
