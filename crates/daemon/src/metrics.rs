//! The scheduler's metrics under upstream's names: a first form, what exists so far.
//!
//! The core thread brings in its numbers after each round of work; a scrape prints what was brought in last. Invariant:
//! nobody waits long here: the lock is held for the time of copying or printing some hundred numbers.

mod plugins;
mod text;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube_scheduler_engine::{BoundPod, PreemptionCounts};
use kube_scheduler_framework::PluginMetrics;

use text::Histogram;
pub(crate) use text::TextPage;

/// What the engine counts itself, as of one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CoreNumbers {
    /// By profile: scheduled, unschedulable, error.
    pub(crate) attempts: Vec<(String, [u64; 3])>,
    /// Active, backoff, unschedulable, gated.
    pub(crate) pending: [usize; 4],
    /// Nodes, pods, assumed pods.
    pub(crate) cache: [usize; 3],
    /// By event and queue.
    pub(crate) incoming: Vec<(String, &'static str, u64)>,
    /// By plugin and profile.
    pub(crate) rejected: Vec<(String, String, u64)>,
    /// By event.
    pub(crate) in_flight: Vec<(String, u64)>,
}

#[derive(Debug)]
struct Numbers {
    core: CoreNumbers,
    algorithm: Histogram,
    /// By profile and result.
    attempt: BTreeMap<(String, &'static str), Histogram>,
    /// By attempts.
    sli: BTreeMap<String, Histogram>,
    attempts: Histogram,
    preemption_attempts: u64,
    victims: Histogram,
    /// Preemptions in the background, by whether they failed.
    preemptions: BTreeMap<bool, (Histogram, u64)>,
    malformed: BTreeMap<String, u64>,
    events_dropped: u64,
    /// Whether this scheduler leads, if there is an election.
    leads: Option<bool>,
    slow_renewals: u64,
}

/// All metrics of a scheduler.
#[derive(Debug)]
pub(crate) struct Metrics {
    numbers: Mutex<Numbers>,
    plugins: PluginMetrics,
    started_at: f64,
}

const RESULTS: [&str; 3] = ["scheduled", "unschedulable", "error"];
const QUEUES: [&str; 4] = ["active", "backoff", "unschedulable", "gated"];
const CACHES: [&str; 3] = ["nodes", "pods", "assumed_pods"];

/// Buckets of times that take a network round trip or more.
fn attempt_buckets() -> Histogram {
    Histogram::exponential(0.001, 2.0, 15)
}

impl Metrics {
    /// `started_at` in seconds since the epoch.
    pub(crate) fn new(started_at: f64) -> Self {
        let numbers = Numbers {
            core: CoreNumbers::default(),
            algorithm: attempt_buckets(),
            attempt: BTreeMap::new(),
            sli: BTreeMap::new(),
            attempts: Histogram::exponential(1.0, 2.0, 5),
            preemption_attempts: 0,
            victims: Histogram::exponential(1.0, 2.0, 7),
            preemptions: BTreeMap::new(),
            malformed: BTreeMap::new(),
            events_dropped: 0,
            leads: None,
            slow_renewals: 0,
        };
        Self { numbers: Mutex::new(numbers), plugins: PluginMetrics::new(), started_at }
    }

    /// Those of the plugins.
    pub(crate) const fn plugins(&self) -> &PluginMetrics {
        &self.plugins
    }

    /// The engine's numbers as they are now.
    pub(crate) fn publish(&self, core: CoreNumbers) {
        self.lock().core = core;
    }

    /// The algorithm ran for so long; `failed` says under which profile and how the attempt failed, if it did.
    pub(crate) fn observe_cycle(&self, length: Duration, failed: Option<(&str, &'static str)>) {
        let mut numbers = self.lock();
        numbers.algorithm.observe(length.as_secs_f64());
        if let Some((profile, result)) = failed {
            numbers.attempt(profile, result).observe(length.as_secs_f64());
        }
    }

    /// Pods were bound.
    pub(crate) fn observe_bound<'a>(&self, bound: impl IntoIterator<Item = (&'a str, BoundPod)>) {
        let mut numbers = self.lock();
        for (profile, pod) in bound {
            numbers.attempt(profile, RESULTS[0]).observe(pod.attempt.as_secs_f64());
            numbers.attempts.observe(f64::from(pod.attempts));
            if let Some(since) = pod.since_first_attempt {
                let attempts =
                    if pod.attempts >= 15 { "15+".to_owned() } else { pod.attempts.to_string() };
                let sli = numbers.sli.entry(attempts);
                sli.or_insert_with(|| Histogram::exponential(0.01, 2.0, 20))
                    .observe(since.as_secs_f64());
            }
        }
    }

    /// Preemptions were tried, carried out, or ended.
    pub(crate) fn observe_preemptions(&self, counts: PreemptionCounts) {
        let mut numbers = self.lock();
        numbers.preemption_attempts = counts.n_attempts;
        for n_victims in counts.victims {
            numbers.victims.observe(n_victims as f64);
        }
        for ended in counts.ended {
            let (length, n) = numbers
                .preemptions
                .entry(ended.is_error)
                .or_insert_with(|| (Histogram::exponential(0.01, 2.0, 20), 0));
            length.observe(ended.length.as_secs_f64());
            *n += 1;
        }
    }

    /// An object of this kind could not be read.
    pub(crate) fn count_malformed(&self, kind: &str) {
        let mut numbers = self.lock();
        match numbers.malformed.get_mut(kind) {
            Some(count) => *count += 1,
            None => drop(numbers.malformed.insert(kind.to_owned(), 1)),
        }
    }

    /// An event was dropped because too many wait.
    pub(crate) fn count_dropped_event(&self) {
        self.lock().events_dropped += 1;
    }

    /// Sets back what counts upwards here. What the engine counts, and what is a state, stays.
    pub(crate) fn reset(&self) {
        let fresh = Self::new(self.started_at).numbers;
        let mut fresh = fresh.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut numbers = self.lock();
        fresh.core = std::mem::take(&mut numbers.core);
        fresh.leads = numbers.leads;
        *numbers = fresh;
    }

    /// This scheduler leads, or takes part in an election without leading.
    pub(crate) fn set_leading(&self, leads: bool) {
        self.lock().leads = Some(leads);
    }

    /// A lease had to be read before it was renewed.
    pub(crate) fn count_slow_renewal(&self) {
        self.lock().slow_renewals += 1;
    }

    /// All metrics as text.
    pub(crate) fn text(&self) -> String {
        let mut page = TextPage::default();
        self.lock().print(&mut page);
        plugins::print(&self.plugins, &mut page);
        let name = "process_start_time_seconds";
        page.metric(
            name,
            "gauge",
            "[ALPHA] Start time of the process since unix epoch in seconds.",
        );
        page.sample(name, &[], self.started_at);
        if let Some(bytes) = resident_memory_bytes() {
            let name = "process_resident_memory_bytes";
            page.metric(name, "gauge", "[ALPHA] Resident memory size in bytes.");
            page.sample(name, &[], bytes as f64);
        }
        page.into_string()
    }

    fn lock(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Numbers {
    fn attempt(&mut self, profile: &str, result: &'static str) -> &mut Histogram {
        self.attempt.entry((profile.to_owned(), result)).or_insert_with(attempt_buckets)
    }

    fn print_preemption(&self, page: &mut TextPage) {
        let name = "scheduler_preemption_attempts_total";
        let help = "[STABLE] Total preemption attempts in the cluster till now";
        page.metric(name, "counter", help);
        page.sample(name, &[], self.preemption_attempts as f64);
        // Parity: the reference fixes result and length of these two when the work begins, so that they always tell
        // of success within no time. Ours tell the truth.
        let name = "scheduler_preemption_goroutines_duration_seconds";
        let help = "[ALPHA] Duration in seconds for running goroutines for the preemption.";
        page.metric(name, "histogram", help);
        let result = |is_error: bool| [("result", if is_error { "error" } else { "success" })];
        for (is_error, (length, _)) in &self.preemptions {
            page.histogram(name, &result(*is_error), length);
        }
        let name = "scheduler_preemption_goroutines_execution_total";
        let help = "[ALPHA] Number of preemption goroutines executed.";
        page.metric(name, "counter", help);
        for (is_error, (_, n)) in &self.preemptions {
            page.sample(name, &result(*is_error), *n as f64);
        }
        let name = "scheduler_preemption_victims";
        page.metric(name, "histogram", "[STABLE] Number of selected preemption victims");
        page.histogram(name, &[], &self.victims);
    }

    fn print_leader_election(&self, page: &mut TextPage) {
        let Some(leads) = self.leads else { return };
        // The name is the reference's constant, whatever the lease is called.
        let lease = [("name", "kube-scheduler")];
        let name = "leader_election_master_status";
        let help = "[ALPHA] Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 \
                    indicates master. 'name' is the string used to identify the lease. Please make sure to group by name.";
        page.metric(name, "gauge", help);
        page.sample(name, &lease, f64::from(u8::from(leads)));
        let name = "leader_election_slowpath_total";
        let help = "[ALPHA] Total number of slow path exercised in renewing leader leases. 'name' is the string used to \
                    identify the lease. Please make sure to group by name.";
        page.metric(name, "counter", help);
        if self.slow_renewals > 0 {
            page.sample(name, &lease, self.slow_renewals as f64);
        }
    }

    fn print(&self, page: &mut TextPage) {
        self.print_leader_election(page);
        let name = "scheduler_cache_size";
        page.metric(
            name,
            "gauge",
            "[ALPHA] Number of nodes, pods, and assumed (bound) pods in the scheduler cache.",
        );
        for (kind, size) in CACHES.iter().zip(self.core.cache) {
            page.sample(name, &[("type", kind)], size as f64);
        }
        let name = "scheduler_inflight_events";
        page.metric(
            name,
            "gauge",
            "[ALPHA] Number of events currently tracked in the scheduling queue.",
        );
        for (event, count) in &self.core.in_flight {
            page.sample(name, &[("event", event)], *count as f64);
        }
        let name = "scheduler_pending_pods";
        let help = "[STABLE] Number of pending pods, by the queue type. 'active' means number of pods in activeQ; \
                    'backoff' means number of pods in backoffQ; 'unschedulable' means number of pods in \
                    unschedulablePods that the scheduler attempted to schedule and failed; 'gated' is the number of \
                    unschedulable pods that the scheduler never attempted to schedule because they are gated.";
        page.metric(name, "gauge", help);
        for (queue, count) in QUEUES.iter().zip(self.core.pending) {
            page.sample(name, &[("queue", queue)], count as f64);
        }
        let name = "scheduler_pod_scheduling_attempts";
        page.metric(
            name,
            "histogram",
            "[STABLE] Number of attempts to successfully schedule a pod.",
        );
        page.histogram(name, &[], &self.attempts);
        let name = "scheduler_pod_scheduling_sli_duration_seconds";
        let help =
            "[BETA] Time from a pod's first way into the active queue to its binding, by attempts.";
        page.metric(name, "histogram", help);
        for (attempts, histogram) in &self.sli {
            page.histogram(name, &[("attempts", attempts)], histogram);
        }
        self.print_preemption(page);
        let name = "scheduler_queue_incoming_pods_total";
        let help = "[STABLE] Number of pods added to scheduling queues by event and queue type.";
        page.metric(name, "counter", help);
        for (event, queue, count) in &self.core.incoming {
            page.sample(name, &[("event", event), ("queue", queue)], *count as f64);
        }
        let name = "scheduler_schedule_attempts_total";
        let help = "[STABLE] Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not \
                    be scheduled, while 'error' means an internal scheduler problem.";
        page.metric(name, "counter", help);
        for (profile, counts) in &self.core.attempts {
            for (result, count) in RESULTS.iter().zip(counts).filter(|(_, count)| **count > 0) {
                page.sample(name, &[("profile", profile), ("result", result)], *count as f64);
            }
        }
        let name = "scheduler_scheduling_algorithm_duration_seconds";
        page.metric(name, "histogram", "[ALPHA] Scheduling algorithm latency in seconds");
        page.histogram(name, &[], &self.algorithm);
        let name = "scheduler_scheduling_attempt_duration_seconds";
        let help =
            "[STABLE] Scheduling attempt latency in seconds (scheduling algorithm + binding)";
        page.metric(name, "histogram", help);
        for ((profile, result), histogram) in &self.attempt {
            page.histogram(name, &[("profile", profile), ("result", result)], histogram);
        }
        let name = "scheduler_unschedulable_pods";
        page.metric(
            name,
            "gauge",
            "[BETA] The number of unschedulable pods broken down by plugin name.",
        );
        for (plugin, profile, count) in &self.core.rejected {
            page.sample(name, &[("plugin", plugin), ("profile", profile)], *count as f64);
        }
        // Ours; upstream has no counterpart.
        let name = "kube_scheduler_rs_malformed_objects_total";
        page.metric(
            name,
            "counter",
            "Objects of the API that could not be read and were skipped, by kind.",
        );
        for (kind, count) in &self.malformed {
            page.sample(name, &[("kind", kind)], *count as f64);
        }
        let name = "kube_scheduler_rs_events_dropped_total";
        page.metric(name, "counter", "Events that were not written because too many waited.");
        page.sample(name, &[], self.events_dropped as f64);
    }
}

/// The memory this process holds, where the system tells.
pub fn resident_memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim_end().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_brought_in_is_printed() {
        let metrics = Metrics::new(1.0);
        metrics.publish(CoreNumbers {
            attempts: vec![("default-scheduler".to_owned(), [3, 0, 1])],
            pending: [1, 2, 3, 4],
            incoming: vec![("NodeAdd".to_owned(), "active", 5)],
            ..CoreNumbers::default()
        });
        metrics.observe_cycle(Duration::from_millis(3), Some(("default-scheduler", "error")));
        let bound = BoundPod {
            profile: 0,
            attempts: 16,
            attempt: Duration::from_millis(20),
            since_first_attempt: Some(Duration::from_secs(1)),
        };
        metrics.observe_bound([("default-scheduler", bound)]);
        let text = metrics.text();
        for line in [
            "scheduler_schedule_attempts_total{profile=\"default-scheduler\",result=\"scheduled\"} 3",
            "scheduler_schedule_attempts_total{profile=\"default-scheduler\",result=\"error\"} 1",
            "scheduler_pending_pods{queue=\"gated\"} 4",
            "scheduler_queue_incoming_pods_total{event=\"NodeAdd\",queue=\"active\"} 5",
            "scheduler_scheduling_attempt_duration_seconds_bucket{profile=\"default-scheduler\",result=\"error\",le=\"0.004\"} 1",
            "scheduler_pod_scheduling_sli_duration_seconds_count{attempts=\"15+\"} 1",
            "scheduler_pod_scheduling_attempts_bucket{le=\"16\"} 1",
        ] {
            assert!(text.lines().any(|printed| printed == line), "{line} is missing in\n{text}");
        }
        assert!(!text.contains("result=\"unschedulable\"}"));
    }
}
