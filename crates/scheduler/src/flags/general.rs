//! Small sections: locations, requests instead of scheduling, and flags that the reference does not have.

use kube_scheduler_config::Duration;
use kube_scheduler_daemon::TracingOptions;
use kube_scheduler_engine::WorkLimits;

use super::section::section;
use super::value::VersionRequest;

section! {
    /// Where the configuration and the API server are.
    Misc {
        /// The configuration file; empty for none.
        config: String = String::new(), "config",
            "The path to the configuration file.";
        /// Where to write the completed configuration instead of running; empty to run.
        write_config_to: String = String::new(), "write-config-to",
            "If set, write the configuration values to this file and exit.";
        /// The address of the API server; empty for the one of the kubeconfig.
        master: String = String::new(), "master",
            "The address of the Kubernetes API server (overrides any value in kubeconfig)";
    }
}

section! {
    /// Flags that kube-scheduler does not have.
    Ours {
        /// What an attempt may cost.
        attempt_work_limit: u64 = WorkLimits::default().base, "attempt-work-limit",
            "How many units of work (comparisons, table entries, column slots) one attempt may cost; a pod that may cost more \
             is not tried. Nothing is cached for pods that cost more than a tenth, or in clusters with many pods up to a \
             quarter. Zero means that there is no limit.";
        /// What each node adds to that.
        attempt_work_limit_per_node: u64 = WorkLimits::default().per_node, "attempt-work-limit-per-node",
            "How many units each node adds to --attempt-work-limit.";
        /// How fast namespaces regain what costly attempts used up.
        namespace_work_per_second: u64 = WorkLimits::default().refill_per_second, "namespace-work-per-second",
            "How many units of work a namespace regains in a second of what its attempts have used up for which nothing is \
             cached (--attempt-work-limit). While they have used up ten times the limit, such attempts are not made for the \
             namespace.";
        /// How long the core may work on one thing.
        core_hang_timeout: Duration = Duration::from_secs(30), "core-hang-timeout",
            "How long the scheduling core may work on one thing, such as one attempt, before it counts as hanging: /livez \
             fails then, and the lease is given up. Zero means never.";
        /// Whether gangs are planned as a whole.
        exact_gangs: bool = false, "exact-gangs",
            "Plan gangs as a whole: a gang is placed if its pods fit in any order and in any domain that its PodGroup allows, \
             and otherwise refused with a reason for each level of topology. Needs the feature gate GangScheduling \
             or the plugin Coscheduling. Without this flag, pods are tried one after the other, as kube-scheduler does.";
        /// How long a gang may hold room.
        exact_gangs_hold: Duration = Duration::from_secs(60 * 60), "exact-gangs-hold",
            "How long one gang that does not fit may keep smaller work of the same priority or less off the places that it gets \
             once certain pods have ended, with --exact-gangs. Zero means that nothing is kept for any gang.";
        /// The seed of random choices.
        seed: u64 = 0, "seed",
            "The seed of random choices. With 0, the first in order of several equally good nodes is always taken; any other \
             number draws one of them.";
        /// Where spans go.
        tracing_endpoint: String = "http://localhost:4318".to_owned(), "tracing-endpoint",
            "The OpenTelemetry collector that spans are sent to, by OTLP over HTTP.";
        /// How many attempts of a million are traced.
        tracing_sampling_rate_per_million: u64 = 0, "tracing-sampling-rate-per-million",
            "How many of a million scheduling attempts are traced; 0 traces none.";
    }
}

impl Ours {
    /// How much work attempts may cost.
    pub(crate) const fn work_limits(&self) -> WorkLimits {
        WorkLimits {
            base: self.attempt_work_limit,
            per_node: self.attempt_work_limit_per_node,
            refill_per_second: self.namespace_work_per_second,
        }
    }

    /// The options of tracing; `None` if nothing is traced.
    pub(crate) fn tracing(&self) -> Option<TracingOptions> {
        // Rates above a million trace everything.
        let rate = u32::try_from(self.tracing_sampling_rate_per_million).unwrap_or(u32::MAX);
        (rate > 0).then(|| TracingOptions {
            endpoint: self.tracing_endpoint.clone(),
            sampling_rate_per_million: rate,
        })
    }
}

section! {
    /// Requests instead of scheduling.
    Global {
        /// Whether to print the help.
        help: bool = false, "help" or 'h', "help for kube-scheduler-rs";
        /// Whether to print the version, or which one to report.
        version: VersionRequest = VersionRequest::No, "version",
            "--version, --version=raw prints version information and quits; --version=vX.Y.Z... sets the reported version";
    }
}
