//! The default plugins, and how a user's sets change them.
//!
//! Invariants: merging looks at each of the fifteen sets alone; it never drops a plugin the user enabled; merging
//! nothing gives the defaults; where the user names each plugin at most once per list, merging the result again changes
//! nothing. Expanding `multiPoint` into the extension points is the framework's, which knows what plugins implement.

use std::collections::BTreeSet;

use kube_scheduler_api_types::validation::FieldPath;

use crate::gates::{FeatureGates, Gate};
use crate::v1::{Configuration, PluginSet, Plugins, PluginsField, WeightedPlugin};

/// In a `disabled` list: every default plugin.
pub const ALL_PLUGINS: &str = "*";

/// Default plugins with their weights (0: none), in order, as they stand with every gate off.
const DEFAULT_PLUGINS: &[(&str, i32)] = &[
    ("SchedulingGates", 0),
    ("PrioritySort", 0),
    ("NodeUnschedulable", 0),
    ("NodeName", 0),
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodePorts", 0),
    ("NodeResourcesFit", 1),
    ("VolumeRestrictions", 0),
    ("NodeVolumeLimits", 0),
    ("VolumeBinding", 0),
    ("VolumeZone", 0),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    (PREEMPTION, 0),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
    ("DefaultBinder", 0),
];

/// DynamicResources goes right before this one: both act after a failed attempt, and claims are looked at first.
const PREEMPTION: &str = "DefaultPreemption";

/// The plugins of a profile without a `plugins` field: all in `multiPoint`.
#[must_use]
pub fn default_plugins(gates: &FeatureGates) -> Plugins {
    let mut enabled = Vec::with_capacity(DEFAULT_PLUGINS.len() + 5);
    for &(name, weight) in DEFAULT_PLUGINS {
        if name == PREEMPTION && gates.is_enabled(Gate::DynamicResourceAllocation) {
            enabled.push(WeightedPlugin::new("DynamicResources", 2));
        }
        enabled.push(WeightedPlugin::new(name, weight));
    }
    if gates.is_enabled(Gate::NodeDeclaredFeatures) {
        enabled.push(WeightedPlugin::new("NodeDeclaredFeatures", 0));
    }
    if gates.is_enabled(Gate::GangScheduling) {
        enabled.push(WeightedPlugin::new("GangScheduling", 0));
    }
    if gates.is_enabled(Gate::TopologyAwareWorkloadScheduling) {
        enabled.push(WeightedPlugin::new("TopologyPlacementGenerator", 0));
        enabled.push(WeightedPlugin::new("PodGroupPodsCount", 1));
    }
    let multi_point = PluginSet { enabled, disabled: Vec::new() };
    Plugins { multi_point, ..Plugins::default() }
}

/// The user's sets merged over the default sets, extension point by extension point.
pub(crate) fn merge_plugins(defaults: &Plugins, user: &Plugins) -> Plugins {
    let mut merged = Plugins::default();
    for point in PluginsField::ALL {
        *merged.set_mut(point) = merge_set(defaults.set(point), user.set(point));
    }
    merged
}

/// One user set merged over one default set.
///
/// A default plugin that the user enables too keeps its place and takes the user's weight; with a name given twice, the
/// last one counts and the others stay in the list, to be refused when the profile is built.
fn merge_set(defaults: &PluginSet, user: &PluginSet) -> PluginSet {
    let mut result = PluginSet::default();
    let named: BTreeSet<&str> =
        user.disabled.iter().chain(&defaults.disabled).map(|plugin| plugin.name.as_str()).collect();
    // Weights mean nothing in a list of disabled plugins.
    for plugin in user.disabled.iter().chain(&defaults.disabled) {
        result.disabled.push(WeightedPlugin::new(plugin.name.clone(), 0));
    }
    let mut used = BTreeSet::new();
    if !named.contains(ALL_PLUGINS) {
        for default in &defaults.enabled {
            if named.contains(default.name.as_str()) {
                continue;
            }
            match user.enabled.iter().rposition(|plugin| plugin.name == default.name) {
                Some(index) => {
                    used.insert(index);
                    result.enabled.push(user.enabled[index].clone());
                }
                None => result.enabled.push(default.clone()),
            }
        }
    }
    let rest = user.enabled.iter().enumerate().filter(|(index, _)| !used.contains(index));
    result.enabled.extend(rest.map(|(_, plugin)| plugin.clone()));
    result
}

/// Default plugins that `user` enables again, per extension point: worth a warning, because their weight is replaced.
#[must_use]
pub fn overridden_defaults<'a>(
    defaults: &Plugins,
    user: &'a Plugins,
) -> Vec<(PluginsField, &'a str)> {
    let mut overridden = Vec::new();
    for (point, set) in user.sets() {
        let is_disabled = |name: &str| {
            set.disabled.iter().any(|plugin| plugin.name == name || plugin.name == ALL_PLUGINS)
        };
        for default in &defaults.set(point).enabled {
            let again = set.enabled.iter().find(|plugin| plugin.name == default.name);
            if let Some(plugin) = again.filter(|_| !is_disabled(&default.name)) {
                overridden.push((point, plugin.name.as_str()));
            }
        }
    }
    overridden
}

/// A plugin that a user's configuration names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPlugin<'a> {
    /// The name of the plugin.
    pub name: &'a str,
    /// The field in which it is named.
    pub path: FieldPath,
}

/// Every plugin that `configuration` enables by name, in file order. Meaningful before defaulting only,
/// which names all default plugins itself.
#[must_use]
pub fn named_plugins(configuration: &Configuration) -> Vec<NamedPlugin<'_>> {
    let mut named = Vec::new();
    for (profile_idx, profile) in configuration.profiles.iter().enumerate() {
        let profile_path = FieldPath::new("profiles").index(profile_idx);
        for (point, set) in profile.plugins.iter().flat_map(Plugins::sets) {
            let path = profile_path.child("plugins").child(point.as_str()).child("enabled");
            for (index, plugin) in set.enabled.iter().enumerate() {
                named.push(NamedPlugin { name: &plugin.name, path: path.index(index) });
            }
        }
    }
    named
}
