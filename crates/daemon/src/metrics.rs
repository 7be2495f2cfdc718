//! The metrics under the reference's names: what they are fed from, and when.
//!
//! The core thread brings in its numbers after each round of work; what happens elsewhere is recorded where it happens; a
//! scrape prints what is there. Invariant: no caller waits long here: locks are held for the time of adding a number, or of
//! printing one family.

mod catalog;
mod core;
mod options;
mod process;
mod registry;
mod serving;
mod text;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use kube_scheduler_api_types::lock;
use kube_scheduler_config::{FeatureGates, Gate, Stage};
use kube_scheduler_framework::PluginMetrics;

pub(crate) use self::core::{CoreNumbers, PluginNames};
pub use self::options::MetricsOptions;
pub use self::process::resident_memory_bytes;

use self::catalog as desc;
use self::process::Process;
use self::registry::{Family, Registry};
pub(crate) use self::serving::{DelegatedReview, ServingMetrics};
pub(crate) use self::text::TextPage;
use crate::version::{KUBERNETES_VERSION, KubernetesVersion, architecture};

/// The name of the lease in metrics: the reference's constant, whatever the lease is called.
const LEASE: &str = "kube-scheduler";
const RESULTS: [&str; 3] = ["scheduled", "unschedulable", "error"];

/// All metrics of a scheduler.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    plugins: PluginMetrics,
    started_at: f64,
    process: Process,
    attempts: Arc<Family>,
    attempt_duration: Arc<Family>,
    algorithm_duration: Arc<Family>,
    /// Those of pod groups, if they are on.
    pod_groups: Option<PodGroupFamilies>,
    core: core::CoreFamilies,
    leads: Arc<Family>,
    slow_renewals: Arc<Family>,
    malformed: Arc<Family>,
    events_dropped: Arc<Family>,
    spans_dropped: Arc<Family>,
    /// Those of the dispatcher of asynchronous calls, if that feature is on.
    async_calls: Option<AsyncCalls>,
    writes: WriteFamilies,
    rest: RestMetrics,
    serving: ServingMetrics,
    /// Counters of the core as of the last time, by what they count: the core reports totals.
    last: Mutex<BTreeMap<(&'static str, String, String), u64>>,
}

#[derive(Debug)]
struct AsyncCalls {
    executions: Arc<Family>,
    duration: Arc<Family>,
    pending: Arc<Family>,
}

#[derive(Debug)]
struct PodGroupFamilies {
    attempts: Arc<Family>,
    attempt_duration: Arc<Family>,
    algorithm_duration: Arc<Family>,
}

#[derive(Debug)]
struct WriteFamilies {
    waiting: Arc<Family>,
    under_way: Arc<Family>,
    width: Arc<Family>,
}

#[derive(Debug)]
struct RestMetrics {
    duration: Arc<Family>,
    request_size: Arc<Family>,
    response_size: Arc<Family>,
    limiter: Arc<Family>,
    requests: Arc<Family>,
    retries: Arc<Family>,
}

/// One request to an API server, answered or not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RestCall<'a> {
    /// The HTTP method.
    pub(crate) method: &'a str,
    /// Host and port.
    pub(crate) host: &'a str,
    /// The HTTP status, if there was an answer.
    pub(crate) code: Option<u16>,
    /// From sending it to the beginning of the answer.
    pub(crate) length: Duration,
    pub(crate) request_bytes: usize,
}

impl Metrics {
    /// `started_at` in seconds since the epoch.
    pub(crate) fn new(started_at: f64, options: MetricsOptions, gates: &FeatureGates) -> Self {
        let registry = Registry::new(options);
        let register = |desc| registry.register(desc);
        let info = register(desc::BUILD_INFO);
        let KubernetesVersion { major, minor, git_version } = KUBERNETES_VERSION;
        let platform = format!("{}/{}", std::env::consts::OS, architecture());
        info.set(
            // Alphabetical: build date, compiler, commit, tree state, version, Go version, major, minor, platform. What stands
            // for Go says which program answers.
            &[
                "",
                "rustc",
                "",
                "",
                git_version,
                "",
                &major.to_string(),
                &minor.to_string(),
                &platform,
            ],
            1.0,
        );
        let [emulation, min_compat] =
            [gates.minor(), gates.compatibility_minor()].map(|minor| format!("{major}.{minor}"));
        let binary = git_version.trim_start_matches('v');
        register(desc::VERSION_INFO).set(&[binary, "kube", &emulation, &min_compat], 1.0);
        let features = register(desc::FEATURE_ENABLED);
        for (name, spec, is_on) in gates.iter().filter(|(_, spec, _)| spec.stage != Stage::PreAlpha)
        {
            features.set(&[name, spec.stage.as_str()], f64::from(u8::from(is_on)));
        }
        let async_calls = gates.is_enabled(Gate::SchedulerAsyncAPICalls).then(|| AsyncCalls {
            executions: register(desc::ASYNC_CALLS),
            duration: register(desc::ASYNC_CALL_DURATION),
            pending: register(desc::ASYNC_PENDING),
        });
        let pod_groups = gates.is_enabled(Gate::GenericWorkload).then(|| PodGroupFamilies {
            attempts: register(desc::POD_GROUP_ATTEMPTS),
            attempt_duration: register(desc::POD_GROUP_ATTEMPT_DURATION),
            algorithm_duration: register(desc::POD_GROUP_ALGORITHM_DURATION),
        });
        // Registered, never incremented, as in the reference.
        register(desc::VOLUME_CACHE_REQUESTS);
        Self {
            process: Process::new(&registry),
            attempts: register(desc::ATTEMPTS),
            attempt_duration: register(desc::ATTEMPT_DURATION),
            algorithm_duration: register(desc::ALGORITHM_DURATION),
            pod_groups,
            core: core::CoreFamilies::new(&registry, gates),
            leads: register(desc::LEADS),
            slow_renewals: register(desc::SLOW_RENEWALS),
            malformed: register(desc::MALFORMED),
            events_dropped: register(desc::EVENTS_DROPPED),
            spans_dropped: register(desc::SPANS_DROPPED),
            async_calls,
            writes: WriteFamilies {
                waiting: register(desc::WRITES_WAITING),
                under_way: register(desc::WRITES_UNDER_WAY),
                width: register(desc::WRITES_WIDTH),
            },
            rest: RestMetrics {
                duration: register(desc::REST_DURATION),
                request_size: register(desc::REST_REQUEST_SIZE),
                response_size: register(desc::REST_RESPONSE_SIZE),
                limiter: register(desc::REST_LIMITER),
                requests: register(desc::REST_REQUESTS),
                retries: register(desc::REST_RETRIES),
            },
            serving: ServingMetrics::new(&registry),
            last: Mutex::default(),
            plugins: PluginMetrics::new(),
            registry,
            started_at,
        }
    }

    /// The algorithm ran for so long; `failed` says under which profile and how the attempt failed, if it did.
    pub(crate) fn observe_cycle(&self, length: Duration, failed: Option<(&str, &'static str)>) {
        self.algorithm_duration.observe(&[], length.as_secs_f64());
        if let Some((profile, result)) = failed {
            self.attempt_duration.observe(&[profile, result], length.as_secs_f64());
        }
    }

    /// A group of pods was tried under a profile; deciding took `algorithm` of the attempt's `length`.
    pub(crate) fn observe_group_cycle(
        &self,
        profile: &str,
        result: &'static str,
        algorithm: Duration,
        length: Duration,
    ) {
        let Some(families) = &self.pod_groups else { return };
        families.algorithm_duration.observe(&[], algorithm.as_secs_f64());
        families.attempts.inc(&[profile, result]);
        families.attempt_duration.observe(&[profile, result], length.as_secs_f64());
    }

    /// Those of the secure port.
    pub(crate) const fn serving(&self) -> &ServingMetrics {
        &self.serving
    }

    /// Those of the plugins.
    pub(crate) const fn plugins(&self) -> &PluginMetrics {
        &self.plugins
    }

    /// This scheduler leads, or takes part in an election without leading.
    pub(crate) fn set_leading(&self, leads: bool) {
        self.leads.set(&[LEASE], f64::from(u8::from(leads)));
    }

    /// A lease had to be read before it was renewed.
    pub(crate) fn count_slow_renewal(&self) {
        self.slow_renewals.inc(&[LEASE]);
    }

    /// An object of this kind could not be read.
    pub(crate) fn count_malformed(&self, kind: &str) {
        self.malformed.inc(&[kind]);
    }

    /// This many events were dropped.
    pub(crate) fn count_dropped_events(&self, n: u64) {
        if n > 0 {
            self.events_dropped.add(&[], n as f64);
        }
    }

    /// This many spans were dropped.
    pub(crate) fn count_dropped_spans(&self, n: u64) {
        if n > 0 {
            self.spans_dropped.add(&[], n as f64);
        }
    }

    /// A call of the kind that the reference may dispatch asynchronously has ended.
    pub(crate) fn observe_async_call(&self, call_type: &str, is_ok: bool, length: Duration) {
        if let Some(calls) = &self.async_calls {
            let labels = [call_type, if is_ok { "success" } else { "error" }];
            calls.executions.inc(&labels);
            calls.duration.observe(&labels, length.as_secs_f64());
        }
    }

    /// How many writes wait and are under way, by class, and how many may be.
    pub(crate) fn set_writes(&self, classes: &[(&str, usize, usize)], width: usize) {
        for (class, waiting, under_way) in classes {
            self.writes.waiting.set(&[class], *waiting as f64);
            self.writes.under_way.set(&[class], *under_way as f64);
        }
        self.writes.width.set(&[], width as f64);
    }

    /// How many calls of a type wait for the dispatcher.
    pub(crate) fn set_pending_async_calls(&self, call_type: &str, n: usize) {
        if let Some(calls) = &self.async_calls {
            calls.pending.set(&[call_type], n as f64);
        }
    }

    /// A request to an API server was answered, or was not.
    pub(crate) fn observe_rest_call(&self, call: RestCall<'_>) {
        let RestCall { method, host, code, length, request_bytes } = call;
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        self.rest.requests.inc(&[&code, host, method]);
        self.rest.duration.observe(&[host, method], length.as_secs_f64());
        self.rest.request_size.observe(&[host, method], request_bytes as f64);
    }

    /// An answer was read to its end.
    pub(crate) fn observe_rest_answer(&self, method: &str, host: &str, bytes: usize) {
        self.rest.response_size.observe(&[host, method], bytes as f64);
    }

    /// A request is sent again because the server asked for patience.
    pub(crate) fn count_rest_retry(&self, method: &str, host: &str, code: Option<u16>) {
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        self.rest.retries.inc(&[&code, host, method]);
    }

    /// A request waited so long for its turn under a fixed rate.
    pub(crate) fn observe_limiter(&self, method: &str, host: &str, length: Duration) {
        self.rest.limiter.observe(&[host, method], length.as_secs_f64());
    }

    /// All metrics as text.
    pub(crate) fn text(&self) -> String {
        self.process.refresh(self.started_at);
        let mut page = TextPage::default();
        self.registry.print(&mut page);
        self.plugins.families().iter().for_each(|family| page.family(family));
        page.into_string()
    }

    /// Counters and histograms start over, as `DELETE /metrics` asks for.
    pub(crate) fn reset(&self) {
        self.registry.reset();
        self.core.prepare();
    }

    /// How much a total has grown since the last time.
    fn grown(&self, family: &'static str, a: &str, b: &str, total: u64) -> f64 {
        let mut last = self.last();
        let before = last.entry((family, a.to_owned(), b.to_owned())).or_default();
        let grown = total.saturating_sub(*before);
        *before = total;
        grown as f64
    }

    fn last(&self) -> MutexGuard<'_, BTreeMap<(&'static str, String, String), u64>> {
        lock(&self.last)
    }
}

#[cfg(test)]
mod tests;
