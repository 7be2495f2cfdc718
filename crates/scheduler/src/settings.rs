//! Makes the settings of a scheduler from flags and files.
//!
//! Precedence is the reference's: with `--config` the file counts and the deprecated flags have no effect; without it, the
//! deprecated flags take its place; leader election and the address of the API server can always be given as flags.
//!
//! To add a feature, take its options from [`Settings::flags`] (typed, one struct per section) or from
//! [`Settings::config`], which contains the deprecated and the leader election flags already, and remove the feature's
//! flags from [`WITHOUT_EFFECT`].
//!
//! Invariant: nothing is contacted or written here; errors name the file or the flag, and the field.

mod from_flags;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use kube_scheduler_api_types::validation::aggregate;
use kube_scheduler_config::{
    Configuration, ConfigurationError, ConfiguredArgs, FeatureGates, Gate, GateSpec, Stage, decode,
    default, validate,
};
use kube_scheduler_daemon::RateLimit;

use crate::flags::Flags;
use crate::flags::feature_gates::Gates;
use crate::text_file;

/// Flags that are accepted but have no effect yet. A start with one of them logs a warning.
const WITHOUT_EFFECT: &[&str] = &["contention-profiling", "kube-api-content-type"];

/// Everything a scheduler is started with.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The configuration with defaults, and with the flags that override or replace a file.
    pub(crate) config: Configuration,
    pub(crate) gates: FeatureGates,
    /// All flags, for features that are not in the configuration.
    pub(crate) flags: Flags,
    /// The source of the configuration, for messages.
    pub(crate) source: String,
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The address of the API server, instead of the one in the kubeconfig.
    pub(crate) master: Option<String>,
    pub(crate) rate: Option<RateLimit>,
    pub(crate) max_in_unschedulable: Duration,
    /// What the user should know.
    pub(crate) warnings: Vec<String>,
}

impl Settings {
    /// Validates the flags, and reads the configuration file.
    ///
    /// # Errors
    /// Those of the reference, in its order: first all errors of flags at once, then those of the file.
    pub(crate) fn load(flags: Flags, gates: Gates) -> Result<Self> {
        let Gates { gates, warnings: _, without_effect, mut errors } = gates;
        errors.extend(flags.validate(&gates));
        if !errors.is_empty() {
            return Err(anyhow!(aggregate(errors)));
        }
        let mut warnings: Vec<String> = warn_of_alpha(&gates).into_iter().collect();
        warnings.extend(flags.authentication.warnings());
        if !without_effect.is_empty() {
            let names: Vec<&str> = without_effect.iter().map(|gate| gate.as_str()).collect();
            warnings.push(format!(
                "these feature gates stay off, because their features do not exist here: {}",
                names.join(", ")
            ));
        }
        let has_file = !flags.misc.config.is_empty();
        let mut config = Configuration::default();
        let source = if has_file {
            config = read(&flags.misc.config)?;
            flags.misc.config.clone()
        } else {
            "default configuration".to_owned()
        };
        // Before defaults are set, since afterwards it is unknown whether the file sets a rate.
        let mut has_rate =
            config.client_connection.qps != 0.0 || config.client_connection.burst != 0;
        default(&mut config, &gates);
        if !has_file {
            has_rate = flags.is_given("kube-api-qps") || flags.is_given("kube-api-burst");
            from_flags::apply_deprecated(&flags, &mut config);
        }
        if flags.ours.exact_gangs {
            warnings.extend(exact_gangs_in_vain(&gates, &[&config]));
        }
        warnings.extend(without_effect_in(&config));
        from_flags::apply_leader_election(&flags, &mut config);
        if has_file {
            let errors = validate(&config, &gates);
            if !errors.is_empty() {
                return Err(ConfigurationError(errors)).with_context(|| source.clone());
            }
            warn_overruled(&flags, &mut warnings);
        }
        // Without a file nothing has validated the election yet.
        config.leader_election.check()?;
        let kubeconfig = kubeconfig(&flags, &config, &mut warnings);
        warn_without_effect(&flags, &mut warnings);
        let max_in_unschedulable = flags.deprecated.pod_max_in_unschedulable_pods_duration;
        Ok(Self {
            rate: rate(&config, has_rate)?,
            // A negative duration counts as none.
            max_in_unschedulable: max_in_unschedulable.to_std().unwrap_or_default(),
            master: Some(flags.misc.master.clone()).filter(|master| !master.is_empty()),
            config,
            gates,
            source,
            kubeconfig,
            warnings,
            flags,
        })
    }
}

fn read(path: &str) -> Result<Configuration> {
    let text = text_file::read(path.as_ref(), text_file::MAX_CONFIG);
    let text = text.map_err(|error| anyhow!("{}", text_file::unread(path, &error)))?;
    decode(&text).with_context(|| path.to_owned())
}

/// The rate limit, if one is set.
fn rate(config: &Configuration, has_rate: bool) -> Result<Option<RateLimit>> {
    let connection = &config.client_connection;
    if !has_rate || connection.qps <= 0.0 {
        return Ok(None);
    }
    match u32::try_from(connection.burst) {
        Ok(burst) if burst > 0 => Ok(Some(RateLimit { qps: f64::from(connection.qps), burst })),
        _ => Err(anyhow!(
            "burst is required to be greater than 0 when RateLimiter is not set and QPS is set to greater than 0"
        )),
    }
}

/// Warns about flags that a file overrides. The reference ignores them without a warning.
fn warn_overruled(flags: &Flags, warnings: &mut Vec<String>) {
    let overruled: Vec<_> =
        from_flags::overruled(flags).into_iter().filter(|name| *name != "kubeconfig").collect();
    if !overruled.is_empty() {
        warnings.push(format!(
            "these flags have no effect because --config is given: {}",
            listed(&overruled)
        ));
    }
}

fn warn_without_effect(flags: &Flags, warnings: &mut Vec<String>) {
    let given: Vec<_> = flags.given().filter(|name| WITHOUT_EFFECT.contains(name)).collect();
    if !given.is_empty() {
        warnings
            .push(format!("these flags have no effect in this version yet: {}", listed(&given)));
    }
}

/// The warning about `--exact-gangs` where none of the configurations knows gangs, for the scheduler and for the commands.
pub(crate) fn exact_gangs_in_vain(
    gates: &FeatureGates,
    configs: &[&Configuration],
) -> Option<String> {
    let has_gangs = gates.is_enabled(Gate::GangScheduling)
        || configs.iter().any(|config| enables(config, COSCHEDULING));
    let text = "--exact-gangs has no effect without the feature gate GangScheduling or the plugin Coscheduling";
    (!has_gangs).then(|| text.to_owned())
}

/// The plugin for gangs of scheduler-plugins.
const COSCHEDULING: &str = "Coscheduling";

/// Whether a profile has a plugin.
fn enables(config: &Configuration, plugin: &str) -> bool {
    let sets = config.profiles.iter().filter_map(|profile| profile.plugins.as_ref());
    let mut enabled = sets.flat_map(|plugins| plugins.sets()).flat_map(|(_, set)| &set.enabled);
    enabled.any(|enabled| enabled.name == plugin)
}

/// What a configuration asks for that is accepted and does nothing.
fn without_effect_in(config: &Configuration) -> Option<String> {
    let args = config.profiles.iter().flat_map(|profile| &profile.plugin_config);
    let mut names = Vec::new();
    for args in args {
        let ConfiguredArgs::Coscheduling(args) = &args.args else { continue };
        names.extend(
            args.pod_group_backoff_seconds.filter(|n| *n != 0).map(|_| "podGroupBackoffSeconds"),
        );
        // Its default is 10.
        let share = args.pod_group_reject_percentage.filter(|n| *n != 10);
        names.extend(share.map(|_| "podGroupRejectPercentage"));
    }
    (!names.is_empty()).then(|| {
        let names = names.join(", ");
        format!("arguments of Coscheduling that have no effect, because gangs are decided about as a whole: {names}")
    })
}

fn listed(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("--{name}")).collect();
    names.join(", ")
}

fn kubeconfig(
    flags: &Flags,
    config: &Configuration,
    warnings: &mut Vec<String>,
) -> Option<PathBuf> {
    let has_file = !flags.misc.config.is_empty();
    let flag = &flags.deprecated.kubeconfig;
    let from_config = &config.client_connection.kubeconfig;
    if !from_config.is_empty() {
        if has_file && !flag.is_empty() {
            warnings.push(
                "--kubeconfig is not used: clientConnection.kubeconfig of --config is".to_owned(),
            );
        }
        return Some(from_config.into());
    }
    if flag.is_empty() {
        return None;
    }
    // Parity: with --config the reference ignores --kubeconfig and expects to run in a cluster. Outside of a cluster it
    // would fail, so the flag is used there.
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        warnings.push(
            "--kubeconfig is not used because --config is given: set clientConnection.kubeconfig"
                .to_owned(),
        );
        return None;
    }
    Some(flag.into())
}

/// The reference's warning about features that were alpha in the emulated version.
fn warn_of_alpha(gates: &FeatureGates) -> Option<String> {
    let is_alpha = |spec: GateSpec, is_on: bool| is_on && spec.stage == Stage::Alpha;
    let enabled = gates.iter().filter(|&(_, spec, is_on)| is_alpha(spec, is_on));
    let enabled: Vec<&str> = enabled.map(|(name, ..)| name).collect();
    let is_older = gates.minor() < FeatureGates::default().minor();
    (is_older && !enabled.is_empty()).then(|| {
        let names = enabled.join(" ");
        format!("component has alpha features enabled in emulated version, this is unsupported: features=[{names}]")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::CommandLine;

    /// The warnings for these flags and this configuration.
    fn warnings(flags: &[&str], config: &str) -> Vec<String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.yaml");
        let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
        std::fs::write(&path, format!("{head}{config}")).unwrap();
        let file = format!("--config={}", path.display());
        let args = flags.iter().copied().chain([file.as_str()]).map(str::to_owned);
        let parsed = Flags::parse(&args.collect::<Vec<_>>());
        let Ok(CommandLine::Flags(flags)) = parsed else { panic!("{parsed:?}") };
        let gates = flags.feature_gates.apply().unwrap();
        Settings::load(*flags, gates).unwrap().warnings
    }

    #[test]
    fn alpha_features_of_older_versions_are_named() {
        let gates = "--feature-gates=GenericWorkload=true";
        let about = |flags: &[&str]| {
            let all = warnings(flags, "").into_iter();
            all.filter(|text| text.contains("alpha features")).collect::<Vec<_>>()
        };
        let expected = "component has alpha features enabled in emulated version, this is unsupported: \
                        features=[GenericWorkload]";
        assert_eq!(about(&["--emulated-version=1.35", gates]), [expected]);
        assert_eq!(about(&["--emulated-version=1.35"]), [""; 0]);
        assert_eq!(about(&[gates]), [""; 0]);
    }

    fn coscheduling(args: &str) -> String {
        format!(
            "profiles:\n- plugins: {{permit: {{enabled: [{{name: Coscheduling}}]}}}}\n  pluginConfig:\n  - name: Coscheduling\n    args: {{{args}}}\n"
        )
    }

    #[test]
    fn arguments_without_effect_are_named_unless_they_have_their_defaults() {
        let about = |args: &str| -> Vec<String> {
            let all = warnings(&[], &coscheduling(args));
            all.into_iter().filter(|text| text.contains("arguments of Coscheduling")).collect()
        };
        assert_eq!(about(""), [""; 0]);
        let [text] = &about("podGroupBackoffSeconds: 1, podGroupRejectPercentage: 11")[..] else {
            panic!("no warning, or several")
        };
        assert!(text.ends_with(": podGroupBackoffSeconds, podGroupRejectPercentage"), "{text}");
    }

    #[test]
    fn gangs_are_planned_exactly_where_there_are_gangs() {
        let has_warning = |config: &str| {
            let all = warnings(&["--exact-gangs"], config);
            all.iter().any(|text| text.starts_with("--exact-gangs has no effect"))
        };
        assert!(has_warning(""));
        assert!(!has_warning(&coscheduling("")));
    }
}
