//! From flags and files to what a scheduler is started with.
//!
//! Precedence is upstream's: with `--config` the file decides and the deprecated flags do nothing; without, they fill in
//! for it; leader election and the address of the API server can always be given as flags.
//!
//! Invariant: nothing is contacted or written here; a mistake is reported with the file, or the flag, and the field.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use kube_scheduler_config::{
    Configuration, FeatureGates, Invalid, decode, default, parse_feature_gates, validate,
};
use kube_scheduler_daemon::RateLimit;

use crate::failure::UsageError;
use crate::flags::Flags;

/// Everything a scheduler is started with.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Defaults filled in.
    pub(crate) config: Configuration,
    pub(crate) gates: FeatureGates,
    /// Where the configuration comes from, for messages.
    pub(crate) source: String,
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) serve_on: Option<SocketAddr>,
    pub(crate) rate: Option<RateLimit>,
    pub(crate) max_in_unschedulable: Duration,
    /// What the user should know.
    pub(crate) warnings: Vec<String>,
}

impl Settings {
    /// Reads what the flags name.
    pub(crate) fn load(flags: &Flags, ignored: &[&str]) -> Result<Self> {
        let mut warnings = Vec::new();
        let gates = gates(flags, &mut warnings)?;
        let mut config = match &flags.config {
            Some(path) => read(path)?,
            None => from_flags(flags),
        };
        let source = match &flags.config {
            Some(path) => path.display().to_string(),
            None => "default configuration".to_owned(),
        };
        // Defaults hide whether a rate was asked for.
        let has_rate = config.client_connection.qps != 0.0 || config.client_connection.burst != 0;
        if let Some(elects) = flags.leader_elect {
            config.leader_election.leader_elect = Some(elects);
        }
        default(&mut config, &gates);
        let errors = validate(&config, &gates);
        if !errors.is_empty() {
            return Err(Invalid(errors)).with_context(|| source.clone());
        }
        let connection = &config.client_connection;
        let rate = (has_rate && connection.qps > 0.0).then(|| RateLimit {
            qps: f64::from(connection.qps),
            burst: u32::try_from(connection.burst).unwrap_or(1),
        });
        let kubeconfig = kubeconfig(flags, &config, &mut warnings);
        if config.leader_election.leader_elect == Some(true) {
            warnings.push(
                "leader election is not in this version yet: run a single instance, or set --leader-elect=false to \
                 say that you do"
                    .to_owned(),
            );
        }
        if !ignored.is_empty() {
            let names: Vec<String> = ignored.iter().map(|name| format!("--{name}")).collect();
            warnings.push(format!(
                "these flags have no effect in this version yet: {}",
                names.join(", ")
            ));
        }
        Ok(Self {
            serve_on: (flags.secure_port != 0)
                .then(|| SocketAddr::new(flags.bind_address, flags.secure_port)),
            max_in_unschedulable: duration(&flags.pod_max_in_unschedulable_pods_duration)?,
            config,
            gates,
            source,
            kubeconfig,
            rate,
            warnings,
        })
    }
}

fn read(path: &Path) -> Result<Configuration> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    decode(&text).with_context(|| path.display().to_string())
}

/// The deprecated flags stand in for a file.
fn from_flags(flags: &Flags) -> Configuration {
    let mut config = Configuration::default();
    let connection = &mut config.client_connection;
    if let Some(path) = &flags.kubeconfig {
        connection.kubeconfig = path.display().to_string();
    }
    connection.qps = flags.kube_api_qps.unwrap_or_default();
    connection.burst = flags.kube_api_burst.unwrap_or_default();
    config
}

fn kubeconfig(
    flags: &Flags,
    config: &Configuration,
    warnings: &mut Vec<String>,
) -> Option<PathBuf> {
    let from_config = &config.client_connection.kubeconfig;
    if !from_config.is_empty() {
        if flags.config.is_some() && flags.kubeconfig.is_some() {
            warnings.push(
                "--kubeconfig is not used: clientConnection.kubeconfig of --config is".to_owned(),
            );
        }
        return Some(from_config.into());
    }
    // Parity: with --config upstream passes over --kubeconfig in silence and then looks for the surrounding cluster. Where
    // there is none it would fail, so the flag is taken for what was meant.
    let flag = flags.kubeconfig.clone()?;
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        warnings.push(
            "--kubeconfig is not used because --config is given: set clientConnection.kubeconfig"
                .to_owned(),
        );
        return None;
    }
    Some(flag)
}

fn gates(flags: &Flags, warnings: &mut Vec<String>) -> Result<FeatureGates> {
    let wrong =
        |flag: &str, error: &dyn std::fmt::Display| UsageError(format!("--{flag}: {error}"));
    let mut gates = match &flags.emulated_version {
        Some(version) => {
            FeatureGates::emulating(version).map_err(|error| wrong("emulated-version", &error))?
        }
        None => FeatureGates::default(),
    };
    let wanted = parse_feature_gates(flags.feature_gates.iter().map(String::as_str))
        .map_err(|error| wrong("feature-gates", &error))?;
    let told = gates.set(&wanted).map_err(|error| wrong("feature-gates", &error))?;
    warnings.extend(told.iter().map(|warning| warning.message()));
    match gates.validate().into_iter().next() {
        Some(error) => Err(wrong("feature-gates", &error).into()),
        None => Ok(gates),
    }
}

fn duration(text: &str) -> Result<Duration> {
    let flag = "--pod-max-in-unschedulable-pods-duration";
    let wrong = |reason: String| UsageError(format!("{flag}: {reason}"));
    let parsed =
        kube_scheduler_config::Duration::parse(text).map_err(|error| wrong(error.to_string()))?;
    parsed.to_std().ok_or_else(|| wrong(format!("{text:?} is negative")).into())
}
