//! Finds settings that are valid for kube-scheduler but probably not what their author meant.
//!
//! Invariants: an error keeps the scheduler from starting; a warning is a setting that has no effect, or surely not the
//! intended one; a note is worth knowing but may be intended; each has its path in the file.

use std::collections::BTreeSet;

use kube_scheduler_api_types::named_enum;
use kube_scheduler_config::{
    ALL_PLUGINS, Configuration, DEFAULT_SCHEDULER_NAME, ExtenderConfig, FeatureGates,
    KubeSchedulerProfile, PluginsField, RetiredKind, default_plugins, named_plugins,
    overridden_defaults, retired,
};
use kube_scheduler_runtime::{ExtensionPoint, Profile, Registry};
use serde::Serialize;

use crate::similar::most_like;

named_enum! {
    /// The severity of a finding.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub(super) enum Severity {
        Note = "note",
        Warning = "warning",
        Error = "error",
    }
}

/// A remark about a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) severity: Severity,
    /// The path in the file; empty if the message contains it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) path: String,
    pub(super) message: String,
}

impl Finding {
    pub(super) fn error(path: &str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, path: path.to_owned(), message: message.into() }
    }

    fn warning(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, path: path.into(), message: message.into() }
    }

    fn note(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Note, path: path.into(), message: message.into() }
    }
}

/// Plugins that do not exist, with the most similar name that does.
pub(super) fn unknown_plugins(read: &Configuration, registry: &Registry) -> Vec<Finding> {
    let unknown =
        named_plugins(read).into_iter().filter(|named| registry.get(named.name).is_none());
    unknown
        .map(|named| {
            let hint = instead_of(named.name, registry);
            Finding::error(
                &named.path.to_string(),
                format!("no plugin is called {:?}{hint}", named.name),
            )
        })
        .collect()
}

/// Entries that are given twice where only one is allowed.
pub(super) fn repeated(read: &Configuration) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for (index, profile) in read.profiles.iter().enumerate() {
        let path = format!("profiles[{index}]");
        let name = profile.scheduler_name.as_deref().unwrap_or(DEFAULT_SCHEDULER_NAME);
        if let Some(first) = names.iter().position(|other| *other == name) {
            let message = format!("{name:?} is the name of profiles[{first}] too");
            findings.push(Finding::error(&format!("{path}.schedulerName"), message));
        }
        names.push(name);
        for (point, set) in profile.plugins.iter().flat_map(|plugins| plugins.sets()) {
            for (number, plugin) in set.enabled.iter().enumerate() {
                let first = set.enabled.iter().position(|other| other.name == plugin.name);
                if let Some(first) = first.filter(|first| *first < number) {
                    findings.push(Finding::error(
                        &format!("{path}.plugins.{}.enabled[{number}]", point.as_str()),
                        format!("{} is enabled[{first}] too", plugin.name),
                    ));
                }
            }
        }
        for (number, config) in profile.plugin_config.iter().enumerate() {
            let first = profile.plugin_config.iter().position(|other| other.name == config.name);
            if let Some(first) = first.filter(|first| *first < number) {
                findings.push(Finding::error(
                    &format!("{path}.pluginConfig[{number}]"),
                    format!("{} is configured by pluginConfig[{first}] too", config.name),
                ));
            }
        }
    }
    findings
}

/// What to use instead of a plugin that does not exist, as the end of a message.
fn instead_of(name: &str, registry: &Registry) -> String {
    if let Some(gone) = retired(RetiredKind::Plugin, name) {
        return format!("; it is {gone}");
    }
    most_like(name, registry.names().map(|name| &**name))
        .map_or_else(String::new, |name| format!("; do you mean {name}?"))
}

/// Arguments for plugins that do not exist. The scheduler starts with them, as the reference does.
pub(super) fn args_of_nobody(read: &Configuration, registry: &Registry) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, profile) in read.profiles.iter().enumerate() {
        for (number, config) in profile.plugin_config.iter().enumerate() {
            if registry.get(&config.name).is_some() {
                continue;
            }
            let hint = instead_of(&config.name, registry);
            findings.push(Finding::warning(
                format!("profiles[{index}].pluginConfig[{number}]"),
                format!("no plugin is called {:?}: its args have no effect{hint}", config.name),
            ));
        }
    }
    findings
}

/// Lists of plugins at single points beside which the default plugins run too. Up to v1beta1 a list could be meant to be all
/// there is.
pub(super) fn beside_the_defaults(read: &Configuration, gates: &FeatureGates) -> Vec<Finding> {
    let defaults = default_plugins(gates);
    let by_default: BTreeSet<&str> = defaults
        .set(PluginsField::MultiPoint)
        .enabled
        .iter()
        .map(|plugin| plugin.name.as_str())
        .collect();
    let mut findings = Vec::new();
    for (index, profile) in read.profiles.iter().enumerate() {
        for (point, set) in profile.plugins.iter().flat_map(|plugins| plugins.sets()) {
            let names_defaults = set
                .enabled
                .iter()
                .filter(|plugin| by_default.contains(plugin.name.as_str()))
                .count();
            let is_open = !matches!(point, PluginsField::MultiPoint | PluginsField::QueueSort);
            // A list of one or two plugins is usually meant to set a weight or the order.
            if is_open && names_defaults > 2 && set.disabled.is_empty() {
                findings.push(Finding::note(
                    format!("profiles[{index}].plugins.{}.enabled", point.as_str()),
                    "the other default plugins of this point run as well; where only those listed are meant, add name: '*' \
                     to disabled",
                ));
            }
        }
    }
    findings
}

/// Settings of plugins that have no effect. `read` is the file, `config` the same with defaults, `built` its profiles.
pub(super) fn without_effect(
    read: &Configuration,
    config: &Configuration,
    gates: &FeatureGates,
    built: &[Profile],
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, profile) in read.profiles.iter().enumerate() {
        let path = format!("profiles[{index}]");
        // Profiles are built by name, which the file may leave to the default.
        let name = config.profiles.get(index).and_then(|profile| profile.scheduler_name.as_deref());
        let name = name.unwrap_or(DEFAULT_SCHEDULER_NAME);
        let Some(built) = built.iter().find(|built| &*built.scheduler_name == name) else {
            continue;
        };
        weights(&path, profile, built, &mut findings);
        disabled(&path, profile, gates, &mut findings);
        for (number, plugin_config) in profile.plugin_config.iter().enumerate() {
            if !runs(built, &plugin_config.name) {
                findings.push(Finding::warning(
                    format!("{path}.pluginConfig[{number}]"),
                    format!("{} is not enabled at any extension point of this profile: its args have no effect", plugin_config.name),
                ));
            }
        }
        if let Some(plugins) = &profile.plugins {
            for (point, plugin) in overridden_defaults(&default_plugins(gates), plugins) {
                findings.push(Finding::note(
                    format!("{path}.plugins.{}.enabled", point.as_str()),
                    format!("{plugin} is enabled by default: it keeps its place, and its weight is the one given here"),
                ));
            }
        }
        if built.at(ExtensionPoint::Score).is_empty() {
            findings.push(Finding::note(
                format!("{path}.plugins"),
                "no plugin scores: every node that fits is as good as any other",
            ));
        }
    }
    same_profiles(config, &mut findings);
    findings
}

fn runs(built: &Profile, name: &str) -> bool {
    ExtensionPoint::ALL.iter().any(|point| runs_at(built, *point, name))
}

fn runs_at(built: &Profile, point: ExtensionPoint, name: &str) -> bool {
    built.position(name).is_some_and(|idx| built.at(point).contains(&idx))
}

/// Weights that are not used.
fn weights(
    path: &str,
    profile: &KubeSchedulerProfile,
    built: &Profile,
    findings: &mut Vec<Finding>,
) {
    let scores = |name: &str| runs_at(built, ExtensionPoint::Score, name);
    for (point, set) in profile.plugins.iter().flat_map(|plugins| plugins.sets()) {
        let point_path = format!("{path}.plugins.{}", point.as_str());
        for (number, plugin) in
            set.enabled.iter().enumerate().filter(|(_, plugin)| plugin.weight != 0)
        {
            let place = format!("{point_path}.enabled[{number}].weight");
            // The most general reason is given alone, since the others follow from it.
            if !matches!(point, PluginsField::Score | PluginsField::MultiPoint) {
                let message = format!(
                    "weights count at score and multiPoint only, not at {}",
                    point.as_str()
                );
                findings.push(Finding::warning(place, message));
            } else if !scores(&plugin.name) {
                let message = format!(
                    "{} does not score in this profile: its weight has no effect",
                    plugin.name
                );
                findings.push(Finding::warning(place, message));
            } else if point == PluginsField::MultiPoint
                && profile.plugins.as_ref().is_some_and(|plugins| {
                    plugins
                        .set(PluginsField::Score)
                        .enabled
                        .iter()
                        .any(|other| other.name == plugin.name)
                })
            {
                let message = format!(
                    "the weight of {} at score takes precedence over this one",
                    plugin.name
                );
                findings.push(Finding::warning(place, message));
            }
        }
        for (number, plugin) in
            set.disabled.iter().enumerate().filter(|(_, plugin)| plugin.weight != 0)
        {
            findings.push(Finding::warning(
                format!("{point_path}.disabled[{number}].weight"),
                format!("a disabled plugin has no weight ({})", plugin.name),
            ));
        }
    }
}

/// Plugins that are disabled although they are not enabled by default.
fn disabled(
    path: &str,
    profile: &KubeSchedulerProfile,
    gates: &FeatureGates,
    findings: &mut Vec<Finding>,
) {
    let Some(plugins) = &profile.plugins else { return };
    let defaults = default_plugins(gates);
    let by_default: BTreeSet<&str> = defaults
        .sets()
        .flat_map(|(_, set)| &set.enabled)
        .map(|plugin| plugin.name.as_str())
        .collect();
    let in_multi_point: BTreeSet<&str> = plugins
        .set(PluginsField::MultiPoint)
        .enabled
        .iter()
        .map(|plugin| plugin.name.as_str())
        .collect();
    for (point, set) in plugins.sets() {
        for (number, plugin) in set.disabled.iter().enumerate() {
            let name = plugin.name.as_str();
            if name == ALL_PLUGINS || by_default.contains(name) || in_multi_point.contains(name) {
                continue;
            }
            findings.push(Finding::warning(
                format!("{path}.plugins.{}.disabled[{number}]", point.as_str()),
                format!("{name} is not enabled by default: disabling it has no effect"),
            ));
        }
    }
}

/// Profiles that are equal except for their names.
fn same_profiles(config: &Configuration, findings: &mut Vec<Finding>) {
    let name = |profile: &KubeSchedulerProfile| profile.scheduler_name.clone().unwrap_or_default();
    for (index, profile) in config.profiles.iter().enumerate() {
        let same = |other: &&KubeSchedulerProfile| {
            KubeSchedulerProfile { scheduler_name: None, ..(*other).clone() }
                == KubeSchedulerProfile { scheduler_name: None, ..profile.clone() }
        };
        if let Some(other) = config.profiles.iter().take(index).find(same) {
            findings.push(Finding::note(
                format!("profiles[{index}]"),
                format!("{} is the same as {} but for its name", name(profile), name(other)),
            ));
        }
    }
}

/// Findings that do not depend on whether the profiles can be built.
pub(super) fn worth_knowing(read: &Configuration, config: &Configuration) -> Vec<Finding> {
    let mut findings = Vec::new();
    let names: Vec<&str> =
        config.profiles.iter().filter_map(|profile| profile.scheduler_name.as_deref()).collect();
    if !names.contains(&DEFAULT_SCHEDULER_NAME) {
        findings.push(Finding::note(
            "profiles",
            format!(
                "no profile is called {DEFAULT_SCHEDULER_NAME}: pods that do not set spec.schedulerName to one of {} are \
                 left to other schedulers",
                names.join(", ")
            ),
        ));
    }
    for (index, name) in names.iter().enumerate().filter(|(_, name)| name.trim() != **name) {
        findings.push(Finding::warning(
            format!("profiles[{index}].schedulerName"),
            format!("{name:?} has blanks around it, which no spec.schedulerName may have: the profile is unreachable"),
        ));
    }
    // Of the file itself, since defaults would count as settings that have no effect.
    let election = &read.leader_election;
    if config.leader_election.leader_elect == Some(false) {
        let is_set = !election.lease_duration.is_zero()
            || !election.renew_deadline.is_zero()
            || !election.retry_period.is_zero()
            || !election.resource_name.is_empty()
            || !election.resource_namespace.is_empty();
        if is_set {
            let message = "leaderElect is false: nothing else here has an effect";
            findings.push(Finding::warning("leaderElection", message));
        }
        if read.delay_cache_until_active {
            let message = "has no effect without leader election";
            findings.push(Finding::warning("delayCacheUntilActive", message));
        }
    }
    if config.enable_contention_profiling == Some(true) && config.enable_profiling == Some(false) {
        let message = "has no effect while enableProfiling is false";
        findings.push(Finding::warning("enableContentionProfiling", message));
    }
    let kubeconfig = &read.client_connection.kubeconfig;
    if !kubeconfig.is_empty() && !std::path::Path::new(kubeconfig).exists() {
        let message = format!("{kubeconfig} does not exist on this machine");
        findings.push(Finding::note("clientConnection.kubeconfig", message));
    }
    if read.parallelism.is_some() {
        findings
            .push(Finding::note("parallelism", "has no effect: one thread goes through the nodes"));
    }
    percentages(read, &mut findings);
    for (index, extender) in config.extenders.iter().enumerate() {
        check_extender(&format!("extenders[{index}]"), extender, &mut findings);
    }
    findings
}

fn percentages(read: &Configuration, findings: &mut Vec<Finding>) {
    let is_sampling = |percentage: Option<i32>| {
        percentage.is_some_and(|percentage| (1..100).contains(&percentage))
    };
    if is_sampling(read.percentage_of_nodes_to_score) {
        findings.push(Finding::note(
            "percentageOfNodesToScore",
            "only this share of nodes is scored, exactly as in kube-scheduler; without it this scheduler scores all nodes, \
             which gives better placements and takes less time here",
        ));
    }
    let is_unset = |percentage: Option<i32>| percentage.is_none_or(|percentage| percentage == 0);
    let is_own = |profile: &KubeSchedulerProfile| profile.percentage_of_nodes_to_score.is_some();
    let has_own = !read.profiles.is_empty() && read.profiles.iter().all(is_own);
    if is_unset(read.percentage_of_nodes_to_score) && !has_own {
        findings.push(Finding::note(
            "percentageOfNodesToScore",
            "all nodes are scored, where kube-scheduler looks at a share that depends on their number: 0 in a profile gives that \
             share",
        ));
    }
    for (index, profile) in read.profiles.iter().enumerate() {
        if profile.percentage_of_nodes_to_score == Some(0) {
            findings.push(Finding::note(
                format!("profiles[{index}].percentageOfNodesToScore"),
                "a share of the nodes that depends on their number is scored, as in kube-scheduler",
            ));
        }
        if profile.percentage_of_nodes_to_score.is_some()
            && read.percentage_of_nodes_to_score.is_some()
        {
            findings.push(Finding::note(
                format!("profiles[{index}].percentageOfNodesToScore"),
                "takes precedence over the one for all profiles",
            ));
        }
    }
}

fn check_extender(path: &str, extender: &ExtenderConfig, findings: &mut Vec<Finding>) {
    let verbs = [
        &extender.filter_verb,
        &extender.preempt_verb,
        &extender.prioritize_verb,
        &extender.bind_verb,
    ];
    if verbs.iter().all(|verb| verb.is_empty()) {
        let message = if extender
            .managed_resources
            .iter()
            .any(|resource| resource.ignored_by_scheduler)
        {
            "has no verb: it is never called, and only keeps its managed resources from being counted"
        } else {
            "manages nothing: it has none of filterVerb, preemptVerb, prioritizeVerb and bindVerb, and is never called"
        };
        findings.push(Finding::warning(path, message));
    }
    // 1 is what an extender without a weight gets.
    if extender.prioritize_verb.is_empty() && extender.weight > 1 {
        let message = "has no effect without prioritizeVerb";
        findings.push(Finding::warning(format!("{path}.weight"), message));
    }
    if extender.ignorable
        && extender.filter_verb.is_empty()
        && extender.preempt_verb.is_empty()
        && extender.bind_verb.is_empty()
    {
        let message = "has no effect: errors of prioritizing are always ignored";
        findings.push(Finding::warning(format!("{path}.ignorable"), message));
    }
    let is_https = extender.url_prefix.starts_with("https://");
    if !is_https && !extender.url_prefix.starts_with("http://") {
        let message = format!("{:?} is no http:// or https:// address", extender.url_prefix);
        findings.push(Finding::warning(format!("{path}.urlPrefix"), message));
    } else if !is_https && extender.enable_https {
        let message = "does not turn on TLS: the scheme of urlPrefix decides, and that is http";
        findings.push(Finding::warning(format!("{path}.enableHTTPS"), message));
    } else if !is_https && extender.tls_config.is_some() {
        let message = "has no effect: urlPrefix is http";
        findings.push(Finding::warning(format!("{path}.tlsConfig"), message));
    }
    if !extender.bind_verb.is_empty() && extender.managed_resources.is_empty() {
        let message = "binds every pod, because managedResources is empty";
        findings.push(Finding::note(format!("{path}.bindVerb"), message));
    }
}
