//! Every rule a defaulted configuration must keep, in upstream's words and order.
//!
//! Invariants: all errors are found, not only the first; validation changes nothing and depends on its arguments alone.
//! What only a plugin's constructor checks upstream (arguments of NodeResourcesFit, names that no plugin has) is left to
//! the code that builds the profiles; [`validate_args`] is there for that.

mod args;

use std::collections::BTreeSet;

use kube_scheduler_api_types::validation::{
    BadValue, FieldError, FieldPath, aggregate, json_text, label_key_messages, quoted,
};

pub use self::args::validate_args;
use crate::args::ConfiguredArgs;
use crate::gates::FeatureGates;
use crate::v1::{
    API_VERSION, Configuration, ExtenderConfig, KubeSchedulerProfile, LeaderElection, PluginConfig,
    PluginSet, PluginsField, WeightedPlugin,
};

/// Plugins that once existed. Named at one of the points below they are refused by name; elsewhere they are unknown.
const REMOVED_PLUGINS: [&str; 4] = ["AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"];

/// Quirk: only these points are searched for removed plugins; under `multiPoint` they fail later, as unknown.
const POINTS_WITH_REMOVED_PLUGINS: [PluginsField; 12] = [
    PluginsField::PreEnqueue,
    PluginsField::QueueSort,
    PluginsField::PreFilter,
    PluginsField::Filter,
    PluginsField::PostFilter,
    PluginsField::PreScore,
    PluginsField::Score,
    PluginsField::Reserve,
    PluginsField::Permit,
    PluginsField::PreBind,
    PluginsField::Bind,
    PluginsField::PostBind,
];

/// Field errors of a configuration, printed as one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigurationError(pub Vec<FieldError>);

impl std::fmt::Display for ConfigurationError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&aggregate(&self.0))
    }
}

impl std::error::Error for ConfigurationError {}

/// What is wrong with a defaulted configuration; nothing if it is valid.
#[must_use]
pub fn validate(config: &Configuration, gates: &FeatureGates) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let burst = config.client_connection.burst;
    if burst < 0 {
        let path = FieldPath::new("clientConnection").child("burst");
        errors.push(FieldError::invalid(path, burst, "must be non-negative"));
    }
    validate_leader_election(&config.leader_election, &mut errors);
    let parallelism = config.parallelism();
    if parallelism <= 0 {
        let detail = "should be an integer value greater than zero";
        errors.push(FieldError::invalid(FieldPath::new("parallelism"), parallelism, detail));
    }
    validate_profiles(&config.profiles, gates, &mut errors);
    errors.extend(validate_percentage(
        FieldPath::new("percentageOfNodesToScore"),
        config.percentage_of_nodes_to_score,
    ));
    let (initial, max) = (config.pod_initial_backoff_seconds(), config.pod_max_backoff_seconds());
    if initial <= 0 {
        let path = FieldPath::new("podInitialBackoffSeconds");
        errors.push(FieldError::invalid(path, initial, "must be greater than 0"));
    }
    if max < initial {
        let path = FieldPath::new("podMaxBackoffSeconds");
        let detail = "must be greater than or equal to PodInitialBackoffSeconds";
        errors.push(FieldError::invalid(path, max, detail));
    }
    validate_extenders(&config.extenders, &mut errors);
    errors
}

fn validate_leader_election(election: &LeaderElection, errors: &mut Vec<FieldError>) {
    if !election.leader_elect.unwrap_or(true) {
        return;
    }
    let root = FieldPath::new("leaderElection");
    let durations = [
        ("leaseDuration", election.lease_duration),
        ("renewDeadline", election.renew_deadline),
        ("retryPeriod", election.retry_period),
    ];
    for (name, duration) in durations {
        if duration.as_nanos() <= 0 {
            let value = BadValue::from(&duration.to_string());
            errors.push(FieldError::invalid(root.child(name), value, "must be greater than zero"));
        }
    }
    if election.lease_duration <= election.renew_deadline {
        // Quirk: the value shown is the other field's.
        let value = BadValue::from(&election.renew_deadline.to_string());
        let detail = "must be greater than `RenewDeadline`";
        errors.push(FieldError::invalid(root.child("leaseDuration"), value, detail));
    }
    let names = [
        ("resourceLock", &election.resource_lock),
        ("resourceNamespace", &election.resource_namespace),
        ("resourceName", &election.resource_name),
    ];
    for (name, value) in names {
        if value.is_empty() {
            errors.push(FieldError::required(root.child(name), ""));
        }
    }
    if election.resource_lock != "leases" {
        let detail = "resourceLock value must be \"leases\"";
        let path = root.child("resourceLock");
        errors.push(FieldError::invalid(path, &election.resource_lock, detail));
    }
}

fn validate_percentage(path: FieldPath, percentage: Option<i32>) -> Option<FieldError> {
    percentage
        .filter(|percentage| !(0..=100).contains(percentage))
        .map(|percentage| FieldError::invalid(path, percentage, "not in valid range [0-100]"))
}

fn validate_profiles(
    profiles: &[KubeSchedulerProfile],
    gates: &FeatureGates,
    errors: &mut Vec<FieldError>,
) {
    let root = FieldPath::new("profiles");
    if profiles.is_empty() {
        errors.push(FieldError::required(root, ""));
        return;
    }
    let mut names = BTreeSet::new();
    for (index, profile) in profiles.iter().enumerate() {
        let path = root.index(index);
        let name = profile.scheduler_name.as_deref().unwrap_or_default();
        validate_profile(profile, &path, gates, errors);
        if !names.insert(name) {
            // Quirk: upstream shows an opaque object here, not the name.
            let value = BadValue::verbatim("{}");
            errors.push(FieldError::duplicate(path.child("schedulerName"), value));
        }
    }
    validate_queue_sort(profiles, &root, errors);
}

fn validate_profile(
    profile: &KubeSchedulerProfile,
    path: &FieldPath,
    gates: &FeatureGates,
    errors: &mut Vec<FieldError>,
) {
    if profile.scheduler_name.as_deref().unwrap_or_default().is_empty() {
        errors.push(FieldError::required(path.child("schedulerName"), ""));
    }
    let percentage_path = path.child("percentageOfNodesToScore");
    errors.extend(validate_percentage(percentage_path, profile.percentage_of_nodes_to_score));
    if let Some(plugins) = &profile.plugins {
        for point in POINTS_WITH_REMOVED_PLUGINS {
            let path = path.child("plugins").child(point.as_str()).child("enabled");
            for (index, plugin) in plugins.set(point).enabled.iter().enumerate() {
                errors.extend(removed_plugin(&plugin.name, path.index(index)));
            }
        }
    }
    let mut seen = BTreeSet::new();
    for (index, entry) in profile.plugin_config.iter().enumerate() {
        let path = path.child("pluginConfig").index(index);
        if !seen.insert(entry.name.as_str()) {
            errors.push(FieldError::duplicate(path.clone(), &entry.name));
        }
        errors.extend(removed_plugin(&entry.name, path.clone()));
        validate_config_entry(entry, &path.child("args"), gates, errors);
    }
}

fn validate_config_entry(
    entry: &PluginConfig,
    path: &FieldPath,
    gates: &FeatureGates,
    errors: &mut Vec<FieldError>,
) {
    match ConfiguredArgs::empty_for(&entry.name) {
        None => {}
        // Only reachable when a configuration was put together by hand.
        Some(expected) if expected.kind() != entry.args.kind() => {
            let value = BadValue::json(&entry.args);
            errors.push(FieldError::invalid(path.clone(), value, "has to match plugin args"));
        }
        // Quirk: upstream looks these up under a wrong name and so leaves them to the plugin's constructor.
        Some(ConfiguredArgs::NodeResourcesFit(_)) => {}
        Some(_) => errors.extend(validate_args(&entry.args, path, gates)),
    }
}

fn removed_plugin(name: &str, path: FieldPath) -> Option<FieldError> {
    REMOVED_PLUGINS.contains(&name).then(|| {
        let detail = format!(
            "was invalid in version \"v1\" (KubeSchedulerConfiguration is version \"{API_VERSION}\")"
        );
        FieldError::invalid(path, name, detail)
    })
}

/// There is one queue for all profiles, so all must sort it alike.
fn validate_queue_sort(
    profiles: &[KubeSchedulerProfile],
    root: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let empty = PluginSet::default();
    let set_of = |profile: &'_ KubeSchedulerProfile| -> PluginSet {
        profile.plugins.as_ref().map_or(&empty, |plugins| &plugins.queue_sort).clone()
    };
    let Some((first, others)) = profiles.split_first() else { return };
    let canon = set_of(first);
    if canon.enabled.len() > 1 {
        let path = root.index(0).child("plugins").child("queueSort").child("Enabled");
        let detail = "only one queue sort plugin can be enabled";
        errors.push(FieldError::invalid(path, canon.enabled.len(), detail));
    }
    let name = canon.enabled.first().map_or("", |plugin| plugin.name.as_str());
    let args_of = |profile: &KubeSchedulerProfile| {
        let mut entries = profile.plugin_config.iter().rev();
        entries.find(|entry| !name.is_empty() && entry.name == name).map(|entry| entry.args.clone())
    };
    let canon_args = args_of(first);
    for (index, profile) in others.iter().enumerate() {
        let path = root.index(index + 1);
        let set = set_of(profile);
        if set != canon {
            let value = BadValue::verbatim(internal_set(&set));
            let path = path.child("plugins").child("queueSort");
            errors.push(FieldError::invalid(path, value, "must be the same for all profiles"));
        }
        if let Some(args) = args_of(profile).filter(|args| Some(args) != canon_args.as_ref()) {
            let value = BadValue::json(&args);
            let path = path.child("pluginConfig").child("args");
            let detail = "queueSort must be the same for all profiles";
            errors.push(FieldError::invalid(path, value, detail));
        }
    }
}

/// A plugin set as upstream shows it inside an error: with its internal field names.
fn internal_set(set: &PluginSet) -> String {
    let list = |plugins: &[WeightedPlugin]| {
        if plugins.is_empty() {
            return "null".to_owned();
        }
        let shown: Vec<String> = plugins
            .iter()
            .map(|plugin| {
                format!("{{\"Name\":{},\"Weight\":{}}}", json_text(&plugin.name), plugin.weight)
            })
            .collect();
        format!("[{}]", shown.join(","))
    };
    format!("{{\"Enabled\":{},\"Disabled\":{}}}", list(&set.enabled), list(&set.disabled))
}

fn validate_extenders(extenders: &[ExtenderConfig], errors: &mut Vec<FieldError>) {
    let root = FieldPath::new("extenders");
    let mut n_binders = 0;
    let mut managed = BTreeSet::new();
    for (index, extender) in extenders.iter().enumerate() {
        let path = root.index(index);
        if !extender.prioritize_verb.is_empty() && extender.weight <= 0 {
            let detail = "must have a positive weight applied to it";
            errors.push(FieldError::invalid(path.child("weight"), extender.weight, detail));
        }
        if !extender.bind_verb.is_empty() {
            n_binders += 1;
        }
        for (index, resource) in extender.managed_resources.iter().enumerate() {
            let path = path.child("managedResources").index(index).child("name");
            validate_extended_resource(&resource.name, &path, errors);
            if !managed.insert(resource.name.as_str()) {
                let detail = "duplicate extender managed resource name";
                errors.push(FieldError::invalid(path, &resource.name, detail));
            }
        }
    }
    if n_binders > 1 {
        let value =
            BadValue::verbatim(quoted(&format!("found {n_binders} extenders implementing bind")));
        let detail = "only one extender can implement bind";
        errors.push(FieldError::invalid(root, value, detail));
    }
}

fn validate_extended_resource(name: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let messages = label_key_messages(name);
    if messages.is_empty() && !is_extended_resource(name) {
        let detail = "is an invalid extended resource name";
        errors.push(FieldError::invalid(path.clone(), name, detail));
    }
    for message in messages {
        errors.push(FieldError::invalid(path.clone(), name, message));
    }
}

/// Whether a resource is one that only nodes advertise: in a domain of its own, and usable in a quota.
fn is_extended_resource(name: &str) -> bool {
    name.contains('/')
        && !name.contains("kubernetes.io/")
        && !name.starts_with("requests.")
        && label_key_messages(&format!("requests.{name}")).is_empty()
}

#[cfg(test)]
mod tests;
