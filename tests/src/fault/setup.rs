//! What a simulation runs: configuration, gates and registry, all a function of the seed.

use std::sync::Arc;

use anyhow::Result;
use kube_scheduler_api_types::Timestamp;
use kube_scheduler_config::{Configuration, FeatureGates, Gate, load};
use kube_scheduler_engine::{Engine, EngineOptions};
use kube_scheduler_runtime::{Extender, Registry};
use kube_scheduler_writes::{EventApi, Outbox, OutboxOptions, RateLimit};
use serde_json::{Value, json};

use super::chaos::{self, CHAOS, Dial, LATE_CHAOS, Sleepers};
use super::extender::ChaosExtender;
use crate::history::Numbers;

/// The profile with the default plugins only.
pub(super) const PLAIN: &str = "default-scheduler";
/// The profile whose pods share evaluations, and fail late.
pub(super) const LATE: &str = "late-scheduler";
/// The profile with a failing plugin everywhere, which samples nodes in some simulations.
pub(super) const CHAOTIC: &str = "chaotic-scheduler";
/// A scheduler that is not ours.
pub(super) const FOREIGN: &str = "somebody-else";

/// How the schedulers of a simulation are built.
#[derive(Debug)]
pub(super) struct Setup {
    gates: FeatureGates,
    config: Configuration,
    registry: Registry,
    /// Without failing plugins, to judge by.
    plain_config: Configuration,
    plain_registry: Registry,
    seed: u64,
    shares_evaluations: bool,
    rate: Option<RateLimit>,
    event_api: EventApi,
    dial: Arc<Dial>,
    /// Whether an extender takes part, and if so, whether attempts go on without its answers.
    extender: Option<bool>,
}

impl Setup {
    pub(super) fn new(seed: u64, shares_evaluations: bool, dial: &Arc<Dial>) -> Result<Self> {
        let mut numbers = Numbers::new(seed ^ 0x5e_7b);
        let gates = FeatureGates::default()
            .with(Gate::SchedulerAsyncPreemption, !numbers.one_in(4))
            .with(Gate::SchedulerPopFromBackoffQ, !numbers.one_in(4))
            .with(Gate::NominatedNodeNameForExpectation, !numbers.one_in(4));
        let percentage = if numbers.one_in(2) { 40 } else { 0 };
        let rate = numbers.one_in(4).then_some(RateLimit { qps: 20.0, burst: 10 });
        let event_api = if numbers.one_in(4) { EventApi::Core } else { EventApi::Modern };
        let extender = numbers.one_in(4).then(|| numbers.one_in(2));
        let gates = gates.with(Gate::DRAExtendedResource, !numbers.one_in(4));
        let mut registry = kube_scheduler_plugins_intree::registry();
        chaos::register(&mut registry, dial)?;
        Ok(Self {
            config: load(&configuration(percentage, true).to_string(), &gates)?,
            plain_config: load(&configuration(0, false).to_string(), &gates)?,
            plain_registry: kube_scheduler_plugins_intree::registry(),
            registry,
            gates,
            seed,
            shares_evaluations,
            rate,
            event_api,
            dial: dial.clone(),
            extender,
        })
    }

    /// Whether victims are evicted after the attempt has ended.
    pub(super) fn preempts_in_background(&self) -> bool {
        self.gates.is_enabled(Gate::SchedulerAsyncPreemption)
    }

    /// Whether device classes serve extended resources.
    pub(super) fn serves_extended(&self) -> bool {
        self.gates.is_enabled(Gate::DRAExtendedResource)
    }

    /// A scheduler that has seen nothing yet, and who sleeps in it.
    pub(super) fn engine(&self) -> Result<(Engine, Arc<Sleepers>)> {
        let sleepers = self.dial.new_sleepers();
        let extenders = self.extender.map(|is_ignorable| {
            let dial = self.dial.clone();
            Arc::new(ChaosExtender { dial, is_ignorable }) as Arc<dyn Extender>
        });
        let options = EngineOptions {
            seed: self.seed,
            gates: self.gates.clone(),
            uses_class_cache: self.shares_evaluations,
            keeps_bound: true,
            extenders: extenders.into_iter().collect(),
            ..EngineOptions::default()
        };
        Ok((Engine::new(&self.config, &self.registry, options)?, sleepers))
    }

    /// The writes of a scheduler in its life of this number.
    pub(super) fn outbox(&self, life: u64, now: Timestamp) -> Outbox {
        let options =
            OutboxOptions { width: 8, rate: self.rate, max_deferrals: 10, seed: self.seed ^ life };
        let mut outbox = Outbox::new(options, now);
        outbox.set_event_api(self.event_api);
        outbox
    }

    /// One that never fails, to judge others by.
    pub(super) fn judge(&self) -> Result<Engine> {
        let options = EngineOptions { gates: self.gates.clone(), ..EngineOptions::default() };
        Ok(Engine::new(&self.plain_config, &self.plain_registry, options)?)
    }
}

fn configuration(percentage: i32, with_chaos: bool) -> Value {
    let profile = |name: &str, plugin: Option<&str>| {
        let mut profile = json!({"schedulerName": name});
        if let Some(plugin) = plugin.filter(|_| with_chaos) {
            profile["plugins"] = json!({
                "multiPoint": {"enabled": [{"name": plugin}]},
                "bind": {
                    "disabled": [{"name": "*"}],
                    "enabled": [{"name": plugin}, {"name": "DefaultBinder"}],
                },
            });
        }
        profile
    };
    let mut chaotic = profile(CHAOTIC, Some(CHAOS));
    if percentage > 0 {
        chaotic["percentageOfNodesToScore"] = percentage.into();
    }
    json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile(PLAIN, None), profile(LATE, Some(LATE_CHAOS)), chaotic],
    })
}
