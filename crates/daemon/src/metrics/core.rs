//! What the core thread reports: totals it counts itself, lengths it measured, sizes as they are.
//!
//! Parity: an extension point is sampled when it runs. A pod that shares a kept evaluation runs neither PreFilter nor
//! PreScore, and Filter and Score for the changed nodes only; calls are counted alike.

use std::sync::{Arc, Mutex};

use kube_scheduler_api_types::lock;
use kube_scheduler_config::{FeatureGates, Gate};
use kube_scheduler_engine::{
    BoundPod, Measurements, PendingCounts, PreemptionCounts, ProfileCounts, SharedSize, TableSize,
};
use kube_scheduler_runtime::{
    ExtensionPoint, Lengths, MeasuredPlugin, MeasuredPoint, MeteredPoint, PluginCount, PluginIdx,
    Profile,
};

use super::registry::{Family, Registry};
use super::{Metrics, RESULTS, catalog as desc};

const QUEUES: [&str; 4] = ["active", "backoff", "unschedulable", "gated"];
const CACHES: [&str; 3] = ["nodes", "pods", "assumed_pods"];
/// The plugin whose errors are volume errors, and the operation that each extension point stands for.
const VOLUME_PLUGIN: &str = "VolumeBinding";
const VOLUME_STAGES: [(MeteredPoint, &str); 3] = [
    (MeteredPoint::Filter, "predicate"),
    (MeteredPoint::Reserve, "assume"),
    (MeteredPoint::PreBind, "bind"),
];

/// What the engine counts itself, as of one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CoreNumbers {
    /// By profile.
    pub(crate) attempts: Vec<(String, ProfileCounts)>,
    pub(crate) pending: PendingCounts,
    /// Nodes, pods, assumed pods.
    pub(crate) cache: [usize; 3],
    /// By event and queue.
    pub(crate) incoming: Vec<(String, &'static str, u64)>,
    /// By plugin and profile.
    pub(crate) rejected: Vec<(String, String, u64)>,
    /// By event.
    pub(crate) in_flight: Vec<(String, u64)>,
    /// Pods on their way from a chosen node to a written binding.
    pub(crate) n_binding: usize,
}

/// A profile's name, its plugins' names by number, and which of them take part where calls are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PluginNames {
    pub(crate) profile: String,
    pub(crate) plugins: Vec<String>,
    pub(crate) counted: Vec<(PluginIdx, MeteredPoint)>,
}

impl PluginNames {
    /// The names of these profiles' plugins.
    pub(crate) fn of(profiles: &[Profile]) -> Vec<Self> {
        let counted = [
            (ExtensionPoint::PreFilter, MeteredPoint::PreFilter),
            (ExtensionPoint::Filter, MeteredPoint::Filter),
            (ExtensionPoint::PreScore, MeteredPoint::PreScore),
            (ExtensionPoint::Score, MeteredPoint::Score),
        ];
        let of_profile = |profile: &Profile| Self {
            profile: profile.scheduler_name.to_string(),
            plugins: profile.plugins().iter().map(|entry| entry.name.to_string()).collect(),
            counted: counted
                .iter()
                .flat_map(|(point, metered)| {
                    profile.at(*point).iter().map(move |idx| (*idx, *metered))
                })
                .collect(),
        };
        profiles.iter().map(of_profile).collect()
    }
}

#[derive(Debug)]
pub(super) struct CoreFamilies {
    pending: Arc<Family>,
    cache: Arc<Family>,
    incoming: Arc<Family>,
    rejected: Arc<Family>,
    in_flight: Option<Arc<Family>>,
    goroutines: Arc<Family>,
    sli: Arc<Family>,
    pod_attempts: Arc<Family>,
    after_flush: Arc<Family>,
    preemption_attempts: Arc<Family>,
    victims: Arc<Family>,
    preemption_duration: Option<Arc<Family>>,
    preemption_executions: Option<Arc<Family>>,
    events: Arc<Family>,
    hints: Option<Arc<Family>>,
    points: Arc<Family>,
    plugins: Arc<Family>,
    calls: Arc<Family>,
    permit_waits: Arc<Family>,
    volume_errors: Arc<Family>,
    table_entries: Arc<Family>,
    table_bytes: Arc<Family>,
    names: Mutex<Vec<PluginNames>>,
}

impl CoreFamilies {
    pub(super) fn new(registry: &Registry, gates: &FeatureGates) -> Self {
        let with = |gate, desc| gates.is_enabled(gate).then(|| registry.register(desc));
        let families = Self {
            pending: registry.register(desc::PENDING_PODS),
            cache: registry.register(desc::CACHE_SIZE),
            incoming: registry.register(desc::QUEUE_INCOMING),
            rejected: registry.register(desc::UNSCHEDULABLE_PODS),
            in_flight: with(Gate::SchedulerQueueingHints, desc::INFLIGHT_EVENTS),
            goroutines: registry.register(desc::GOROUTINES),
            sli: registry.register(desc::SLI_DURATION),
            pod_attempts: registry.register(desc::POD_ATTEMPTS),
            after_flush: registry.register(desc::AFTER_FLUSH),
            preemption_attempts: registry.register(desc::PREEMPTION_ATTEMPTS),
            victims: registry.register(desc::PREEMPTION_VICTIMS),
            preemption_duration: with(Gate::SchedulerAsyncPreemption, desc::PREEMPTION_DURATION),
            preemption_executions: with(
                Gate::SchedulerAsyncPreemption,
                desc::PREEMPTION_EXECUTIONS,
            ),
            events: registry.register(desc::EVENT_HANDLING),
            hints: with(Gate::SchedulerQueueingHints, desc::HINT_DURATION),
            points: registry.register(desc::EXTENSION_POINT_DURATION),
            plugins: registry.register(desc::PLUGIN_DURATION),
            calls: registry.register(desc::PLUGIN_EVALUATIONS),
            permit_waits: registry.register(desc::PERMIT_WAIT),
            volume_errors: registry.register(desc::VOLUME_STAGE_ERRORS),
            table_entries: registry.register(desc::TABLE_ENTRIES),
            table_bytes: registry.register(desc::TABLE_BYTES),
            names: Mutex::default(),
        };
        QUEUES.iter().for_each(|queue| families.pending.set(&[queue], 0.0));
        families
    }

    /// Makes the series that are there from the start.
    pub(super) fn prepare(&self) {
        for names in lock(&self.names).iter() {
            for (plugin, point) in &names.counted {
                if let Some(plugin) = names.plugins.get(plugin.index()) {
                    self.calls.add(&[point.as_str(), plugin, &names.profile], 0.0);
                }
            }
        }
    }
}

fn absorb(family: &Family, labels: &[&str], lengths: &Lengths) {
    family.absorb(labels, &lengths.counts, lengths.sum_nanos as f64 / 1e9);
}

impl Metrics {
    /// Which profiles and plugins there are, once.
    pub(crate) fn prepare(&self, profiles: Vec<PluginNames>) {
        *lock(&self.core.names) = profiles;
        self.core.prepare();
    }

    /// The engine's numbers as they are now.
    pub(crate) fn publish(&self, numbers: &CoreNumbers) {
        for (profile, counts) in &numbers.attempts {
            let counts = [counts.scheduled, counts.unschedulable, counts.error];
            for (result, total) in RESULTS.iter().zip(counts).filter(|(_, total)| *total > 0) {
                let grown = self.grown("attempts", profile, result, total);
                self.attempts.add(&[profile, result], grown);
            }
        }
        let PendingCounts { active, backoff, unschedulable, gated } = numbers.pending;
        for (queue, n) in QUEUES.iter().zip([active, backoff, unschedulable, gated]) {
            self.core.pending.set(&[queue], n as f64);
        }
        for (kind, n) in CACHES.iter().zip(numbers.cache) {
            self.core.cache.set(&[kind], n as f64);
        }
        for (event, queue, total) in &numbers.incoming {
            let grown = self.grown("incoming", event, queue, *total);
            self.core.incoming.add(&[event, queue], grown);
        }
        for (plugin, profile, n) in &numbers.rejected {
            self.core.rejected.set(&[plugin, profile], *n as f64);
        }
        if let Some(in_flight) = &self.core.in_flight {
            // What is no longer in the log has gone to zero.
            in_flight
                .set_all(numbers.in_flight.iter().map(|(event, n)| (event.as_str(), *n as f64)));
        }
        self.core.goroutines.set(&["binding"], numbers.n_binding as f64);
    }

    /// How large the engine's tables are.
    pub(crate) fn publish_tables(&self, tables: &[TableSize]) {
        for TableSize { table, n_entries, n_bytes, .. } in tables {
            self.publish_table(table, *n_entries, *n_bytes);
        }
    }

    /// How much a watch keeps to find equal parts of objects of this kind.
    pub(crate) fn publish_parts(&self, kind: &str, size: SharedSize) {
        self.publish_table(&format!("equal parts of {kind}"), size.n_parts, Some(size.n_bytes));
    }

    /// How large a table is that is not the engine's.
    pub(crate) fn publish_table(&self, table: &str, n_entries: usize, n_bytes: Option<usize>) {
        self.core.table_entries.set(&[table], n_entries as f64);
        if let Some(n_bytes) = n_bytes {
            self.core.table_bytes.set(&[table], n_bytes as f64);
        }
    }

    /// Pods were bound.
    pub(crate) fn observe_bound<'a>(&self, bound: impl IntoIterator<Item = (&'a str, BoundPod)>) {
        for (profile, pod) in bound {
            self.attempt_duration.observe(&[profile, RESULTS[0]], pod.attempt.as_secs_f64());
            self.core.pod_attempts.observe(&[], f64::from(pod.attempts));
            if pod.was_flushed {
                self.core.after_flush.inc(&[]);
            }
            if let Some(since) = pod.since_first_attempt {
                let attempts =
                    if pod.attempts >= 15 { "15+".to_owned() } else { pod.attempts.to_string() };
                self.core.sli.observe(&[&attempts], since.as_secs_f64());
            }
        }
    }

    /// Preemptions were tried, carried out, or ended.
    pub(crate) fn observe_preemptions(&self, counts: PreemptionCounts) {
        let grown = self.grown("preemptions", "", "", counts.n_attempts);
        self.core.preemption_attempts.add(&[], grown);
        for n_victims in counts.victims {
            self.core.victims.observe(&[], n_victims as f64);
        }
        // Parity: the reference fixes result and length of these two when the work starts, so that they always show
        // success within no time. Ours show what happened.
        for ended in counts.ended {
            let result = [if ended.is_error { "error" } else { "success" }];
            if let Some(duration) = &self.core.preemption_duration {
                duration.observe(&result, ended.length.as_secs_f64());
            }
            if let Some(executions) = &self.core.preemption_executions {
                executions.inc(&result);
            }
        }
    }

    /// Plugins, hints, events and waits were measured.
    pub(crate) fn observe_measurements(&self, measured: &Measurements, profiles: &[PluginNames]) {
        for (event, lengths) in &measured.events {
            absorb(&self.core.events, &[&event.to_string()], lengths);
        }
        if let Some(hints) = &self.core.hints {
            for hint in &measured.hints {
                let labels = [&*hint.event.to_string(), hint.answer, &hint.plugin];
                absorb(hints, &labels, &hint.lengths);
            }
        }
        for (code, length) in &measured.permit_waits {
            self.core.permit_waits.observe(&[code.as_str()], length.as_secs_f64());
        }
        for (names, readings) in profiles.iter().zip(&measured.profiles) {
            let name_of =
                |plugin: PluginIdx| names.plugins.get(plugin.index()).map_or("", String::as_str);
            for MeasuredPoint { point, code, lengths } in &readings.points {
                let labels = [point.as_str(), &names.profile, code.as_str()];
                absorb(&self.core.points, &labels, lengths);
            }
            for MeasuredPlugin { plugin, point, code, lengths } in &readings.plugins {
                let labels = [point.as_str(), name_of(*plugin), code.as_str()];
                absorb(&self.core.plugins, &labels, lengths);
            }
            for PluginCount { plugin, point, n } in &readings.calls {
                let labels = [point.as_str(), name_of(*plugin), &names.profile];
                self.core.calls.add(&labels, *n as f64);
            }
            for PluginCount { plugin, point, n } in &readings.errors {
                let stage = VOLUME_STAGES.iter().find(|(of, _)| of == point);
                if let (VOLUME_PLUGIN, Some((_, stage))) = (name_of(*plugin), stage) {
                    self.core.volume_errors.add(&[stage], *n as f64);
                }
            }
        }
        for failed in &measured.failed_bindings {
            let names = profiles.get(failed.profile.index());
            let profile = names.map_or("", |names| &names.profile);
            let result = if failed.is_rejected { RESULTS[1] } else { RESULTS[2] };
            self.attempt_duration.observe(&[profile, result], failed.length.as_secs_f64());
        }
    }
}
