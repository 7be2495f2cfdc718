//! Defaults of fields that a file leaves out.
//!
//! Invariants: only absent values are filled in (where upstream cannot tell zero from absent, neither can this); after
//! defaulting every `Option` of [`Configuration`] that has a default is set; defaulting twice changes nothing, as long
//! as no plugin list names a plugin twice.

use std::collections::BTreeSet;

use crate::args::{
    ConfiguredArgs, InterPodAffinityArgs, NodeResourcesFitArgs, ResourceSpec, ScoringStrategy,
    UtilizationShapePoint,
};
use crate::duration::Duration;
use crate::gates::{FeatureGates, Gate};
use crate::merge::{default_plugins, merge_plugins};
use crate::v1::{
    ClientConnection, Configuration, KubeSchedulerProfile, LeaderElection, PARALLELISM,
    POD_INITIAL_BACKOFF_SECONDS, POD_MAX_BACKOFF_SECONDS, PluginConfig, Plugins,
};

/// The scheduler name of a single profile that gives none.
pub const DEFAULT_SCHEDULER_NAME: &str = "default-scheduler";

const BIND_TIMEOUT_SECONDS: i64 = 600;
const REJECT_PERCENTAGE: i32 = 10;

/// Fills in every absent value.
pub fn default(configuration: &mut Configuration, gates: &FeatureGates) {
    let config = configuration;
    config.parallelism.get_or_insert(PARALLELISM);
    default_leader_election(&mut config.leader_election);
    default_client_connection(&mut config.client_connection);
    let is_profiling = *config.enable_profiling.get_or_insert(true);
    config.enable_contention_profiling.get_or_insert(is_profiling);
    config.percentage_of_nodes_to_score.get_or_insert(0);
    config.pod_initial_backoff_seconds.get_or_insert(POD_INITIAL_BACKOFF_SECONDS);
    config.pod_max_backoff_seconds.get_or_insert(POD_MAX_BACKOFF_SECONDS);
    if config.profiles.is_empty() {
        config.profiles.push(KubeSchedulerProfile::default());
    }
    if let [profile] = config.profiles.as_mut_slice() {
        profile.scheduler_name.get_or_insert_with(|| DEFAULT_SCHEDULER_NAME.to_owned());
    }
    for profile in &mut config.profiles {
        // With several profiles a missing name is an error, found by validation as an empty one.
        profile.scheduler_name.get_or_insert_default();
        default_profile(profile, gates);
    }
}

fn default_leader_election(election: &mut LeaderElection) {
    election.leader_elect.get_or_insert(true);
    default_duration(&mut election.lease_duration, 15);
    default_duration(&mut election.renew_deadline, 10);
    default_duration(&mut election.retry_period, 2);
    default_text(&mut election.resource_lock, "leases");
    default_text(&mut election.resource_name, "kube-scheduler");
    default_text(&mut election.resource_namespace, "kube-system");
}

fn default_client_connection(connection: &mut ClientConnection) {
    default_text(&mut connection.content_type, "application/vnd.kubernetes.protobuf");
    if connection.qps == 0.0 {
        connection.qps = 50.0;
    }
    if connection.burst == 0 {
        connection.burst = 100;
    }
}

fn default_duration(duration: &mut Duration, seconds: i64) {
    if duration.is_zero() {
        *duration = Duration::from_secs(seconds);
    }
}

fn default_text(text: &mut String, value: &str) {
    if text.is_empty() {
        value.clone_into(text);
    }
}

fn default_profile(profile: &mut KubeSchedulerProfile, gates: &FeatureGates) {
    let defaults = default_plugins(gates);
    let plugins = match &profile.plugins {
        Some(user) => merge_plugins(&defaults, user),
        None => defaults,
    };
    for entry in &mut profile.plugin_config {
        default_args(&mut entry.args, gates);
    }
    for name in unconfigured_plugins(&plugins, &profile.plugin_config) {
        if let Some(mut args) = ConfiguredArgs::empty_for(&name) {
            default_args(&mut args, gates);
            profile.plugin_config.push(PluginConfig { name, args });
        }
    }
    profile.plugins = Some(plugins);
}

/// Enabled plugins without an entry in `pluginConfig`, by name.
fn unconfigured_plugins(plugins: &Plugins, config: &[PluginConfig]) -> BTreeSet<String> {
    let configured: BTreeSet<&str> = config.iter().map(|entry| entry.name.as_str()).collect();
    let enabled = plugins.sets().flat_map(|(_, set)| &set.enabled).map(|plugin| &plugin.name);
    enabled.filter(|name| !configured.contains(name.as_str())).cloned().collect()
}

/// Fills in every absent value of a plugin's arguments. Raw arguments stay as they are.
pub fn default_args(args: &mut ConfiguredArgs, gates: &FeatureGates) {
    match args {
        ConfiguredArgs::Coscheduling(args) => {
            args.permit_waiting_time_seconds.get_or_insert(60);
            args.pod_group_backoff_seconds.get_or_insert(0);
            args.pod_group_reject_percentage.get_or_insert(REJECT_PERCENTAGE);
        }
        ConfiguredArgs::DefaultPreemption(args) => {
            args.min_candidate_nodes_percentage.get_or_insert(10);
            args.min_candidate_nodes_absolute.get_or_insert(100);
        }
        ConfiguredArgs::DynamicResources(args) => {
            if gates.is_enabled(Gate::DRASchedulerFilterTimeout) {
                args.filter_timeout.get_or_insert(Duration::from_secs(10));
            }
            if gates.is_enabled(Gate::DRADeviceBindingConditions)
                && gates.is_enabled(Gate::DRAResourceClaimDeviceStatus)
            {
                args.binding_timeout.get_or_insert(Duration::from_secs(600));
            }
        }
        ConfiguredArgs::InterPodAffinity(InterPodAffinityArgs {
            hard_pod_affinity_weight, ..
        }) => {
            hard_pod_affinity_weight.get_or_insert(1);
        }
        ConfiguredArgs::NodeResourcesBalancedAllocation(args) => {
            default_resources(&mut args.resources);
        }
        ConfiguredArgs::NodeResourcesFit(NodeResourcesFitArgs { scoring_strategy, .. }) => {
            // A strategy without a type is left alone: the plugin refuses it.
            let strategy = scoring_strategy.get_or_insert_with(|| ScoringStrategy {
                kind: "LeastAllocated".to_owned(),
                ..ScoringStrategy::default()
            });
            default_resources(&mut strategy.resources);
        }
        ConfiguredArgs::PodTopologySpread(args) => {
            default_text(&mut args.defaulting_type, "System")
        }
        ConfiguredArgs::VolumeBinding(args) => {
            args.bind_timeout_seconds.get_or_insert(BIND_TIMEOUT_SECONDS);
            let is_unset = args.shape.as_ref().is_none_or(Vec::is_empty);
            if is_unset && gates.is_enabled(Gate::StorageCapacityScoring) {
                args.shape = Some(vec![
                    UtilizationShapePoint { utilization: 0, score: 10 },
                    UtilizationShapePoint { utilization: 100, score: 0 },
                ]);
            }
        }
        ConfiguredArgs::NodeAffinity(_) | ConfiguredArgs::Raw(_) => {}
    }
}

fn default_resources(resources: &mut Vec<ResourceSpec>) {
    if resources.is_empty() {
        resources.extend(
            ["cpu", "memory"].map(|name| ResourceSpec { name: name.to_owned(), weight: 1 }),
        );
    }
    for resource in resources {
        if resource.weight == 0 {
            resource.weight = 1;
        }
    }
}
