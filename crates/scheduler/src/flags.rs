//! The flags of the scheduler itself: upstream's names, meanings and defaults.
//!
//! Invariant: every flag of kube-scheduler v1.36 is accepted. Those without an effect so far stand in one table, so that
//! a start can name the ones it was given.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args};

use crate::logging::Format;

const SERVING: &str = "Serving";
const DEPRECATED: &str = "Deprecated in favour of the configuration file";
const LOGS: &str = "Logs";
const IGNORED: &str = "Accepted, without effect yet";

/// Flags of the scheduler.
#[derive(Debug, Clone, Args)]
pub(crate) struct Flags {
    /// The configuration file: a KubeSchedulerConfiguration of kubescheduler.config.k8s.io/v1, in YAML or JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// The address of the API server; overrides the one in a kubeconfig
    #[arg(long, value_name = "URL")]
    pub(crate) master: Option<String>,

    /// Write the configuration with all defaults to this file, and exit
    #[arg(long, value_name = "FILE")]
    pub(crate) write_config_to: Option<PathBuf>,

    /// Feature gates, as Name=true,Name=false; may be repeated
    #[arg(long, value_name = "GATES")]
    pub(crate) feature_gates: Vec<String>,

    /// The Kubernetes version whose feature gate defaults apply
    #[arg(long, value_name = "VERSION")]
    pub(crate) emulated_version: Option<String>,

    /// Whether to wait for a lease before scheduling. Not there yet: every instance schedules, so run one
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub(crate) leader_elect: Option<bool>,

    /// How long a pod may stay unschedulable before it is tried again without any reason
    #[arg(long, value_name = "DURATION", default_value = "5m0s")]
    pub(crate) pod_max_in_unschedulable_pods_duration: String,

    /// Decides what is random, such as the choice among equally good nodes
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,

    /// Print the version of Kubernetes this replaces, and exit
    #[arg(long)]
    pub(crate) version: bool,

    /// The address to serve health, metrics and configuration on
    #[arg(long, value_name = "IP", default_value = "0.0.0.0", help_heading = SERVING)]
    pub(crate) bind_address: IpAddr,

    /// The port to serve health, metrics and configuration on; 0 serves nothing. This version serves plain HTTP to
    /// whoever reaches the port: no TLS, no authentication yet
    #[arg(long, value_name = "PORT", default_value_t = 10259, help_heading = SERVING)]
    pub(crate) secure_port: u16,

    /// The kubeconfig file that says where the API server is and who we are
    #[arg(long, value_name = "FILE", help_heading = DEPRECATED)]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Requests to the API server per second; not limited unless given here or in the configuration file
    #[arg(long, value_name = "N", help_heading = DEPRECATED)]
    pub(crate) kube_api_qps: Option<f32>,

    /// Requests to the API server at once after a pause
    #[arg(long, value_name = "N", help_heading = DEPRECATED)]
    pub(crate) kube_api_burst: Option<i32>,

    /// How much to log: 2 tells of every decision, 5 of everything
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 0, help_heading = LOGS)]
    pub(crate) verbosity: u8,

    /// How to write the log
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::Text, help_heading = LOGS)]
    pub(crate) logging_format: Format,
}

/// Flags that are understood and do nothing yet, and whether they go without a value.
const IGNORED_FLAGS: [(&str, bool); 46] = [
    ("allow-metric-labels", false),
    ("allow-metric-labels-manifest", false),
    ("authentication-kubeconfig", false),
    ("authentication-skip-lookup", true),
    ("authentication-token-webhook-cache-ttl", false),
    ("authentication-tolerate-lookup-failure", true),
    ("authorization-always-allow-paths", false),
    ("authorization-kubeconfig", false),
    ("authorization-webhook-cache-authorized-ttl", false),
    ("authorization-webhook-cache-unauthorized-ttl", false),
    ("cert-dir", false),
    ("client-ca-file", false),
    ("contention-profiling", true),
    ("disable-http2-serving", true),
    ("disabled-metrics", false),
    ("http2-max-streams-per-connection", false),
    ("kube-api-content-type", false),
    ("leader-elect-lease-duration", false),
    ("leader-elect-renew-deadline", false),
    ("leader-elect-resource-lock", false),
    ("leader-elect-resource-name", false),
    ("leader-elect-resource-namespace", false),
    ("leader-elect-retry-period", false),
    ("log-flush-frequency", false),
    ("log-json-info-buffer-size", false),
    ("log-json-split-stream", true),
    ("log-text-info-buffer-size", false),
    ("log-text-split-stream", true),
    ("min-compatibility-version", false),
    ("permit-address-sharing", true),
    ("permit-port-sharing", true),
    ("profiling", true),
    ("requestheader-allowed-names", false),
    ("requestheader-client-ca-file", false),
    ("requestheader-extra-headers-prefix", false),
    ("requestheader-group-headers", false),
    ("requestheader-uid-headers", false),
    ("requestheader-username-headers", false),
    ("show-hidden-metrics-for-version", false),
    ("tls-cert-file", false),
    ("tls-cipher-suites", false),
    ("tls-curve-preferences", false),
    ("tls-min-version", false),
    ("tls-private-key-file", false),
    ("tls-sni-cert-key", false),
    ("vmodule", false),
];

/// The flags without effect, for clap.
pub(crate) fn ignored_args() -> impl Iterator<Item = Arg> {
    IGNORED_FLAGS.iter().map(|&(name, is_switch)| {
        let arg = Arg::new(name)
            .long(name)
            .help_heading(IGNORED)
            .action(ArgAction::Append)
            .value_name("VALUE");
        // Only in the long help: there are many of them.
        let arg = arg.hide_short_help(true);
        if is_switch {
            arg.num_args(0..=1).require_equals(true).default_missing_value("true")
        } else {
            arg
        }
    })
}

/// The names of those that were given.
pub(crate) fn ignored_given(matches: &ArgMatches) -> Vec<&'static str> {
    let given = |name: &&'static str| {
        matches.value_source(name) == Some(clap::parser::ValueSource::CommandLine)
    };
    IGNORED_FLAGS.iter().map(|(name, _)| *name).filter(given).collect()
}
