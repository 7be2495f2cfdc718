//! The list of plugins.
//!
//! Invariant: every plugin of the default profile is in the registry.

use std::sync::Arc;

use kube_scheduler_framework::{Handle, Plugin, PluginArgs, PluginError};
use kube_scheduler_runtime::Registry;

use crate::{
    default_binder, dynamic_resources, image_locality, inter_pod_affinity, node_affinity,
    node_declared_features, node_name, node_ports, node_unschedulable, node_volume_limits,
    pod_groups, pod_topology_spread, preemption, priority_sort, resources, scheduling_gates,
    taint_toleration, volume_binding, volume_restrictions, volume_zone,
};

type Factory = fn(&PluginArgs, &Handle) -> Result<Arc<dyn Plugin>, PluginError>;

const FACTORIES: [(&str, Factory); 24] = [
    (scheduling_gates::NAME, scheduling_gates::new),
    (priority_sort::NAME, priority_sort::new),
    (node_unschedulable::NAME, node_unschedulable::new),
    (node_name::NAME, node_name::new),
    (taint_toleration::NAME, taint_toleration::new),
    (node_affinity::NAME, node_affinity::new),
    (node_ports::NAME, node_ports::new),
    (resources::fit::NAME, resources::fit::new),
    (volume_restrictions::NAME, volume_restrictions::new),
    (node_volume_limits::NAME, node_volume_limits::new),
    (volume_binding::NAME, volume_binding::new),
    (volume_zone::NAME, volume_zone::new),
    (pod_topology_spread::NAME, pod_topology_spread::new),
    (dynamic_resources::NAME, dynamic_resources::new),
    (preemption::NAME, preemption::new),
    (resources::balanced::NAME, resources::balanced::new),
    (image_locality::NAME, image_locality::new),
    (inter_pod_affinity::NAME, inter_pod_affinity::new),
    (default_binder::NAME, default_binder::new),
    (node_declared_features::NAME, node_declared_features::new),
    (pod_groups::gang_scheduling::NAME, pod_groups::gang_scheduling::new),
    (pod_groups::coscheduling::NAME, pod_groups::coscheduling::new),
    (pod_groups::topology_placement::NAME, pod_groups::topology_placement::new),
    (pod_groups::pods_count::NAME, pod_groups::pods_count::new),
];

/// All plugins of this crate, by name.
pub fn registry() -> Registry {
    let mut registry = Registry::new();
    for (name, factory) in FACTORIES {
        let added = registry.register(name, factory);
        debug_assert!(added.is_ok(), "{name} is registered twice");
    }
    registry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plugin_can_be_made_and_knows_its_name() {
        let registry = registry();
        assert_eq!(registry.names().count(), FACTORIES.len());
        for (name, factory) in FACTORIES {
            assert_eq!(factory(&PluginArgs::Null, &Handle::default()).unwrap().name(), name);
        }
    }

    #[test]
    fn the_default_profile_is_covered() {
        let registry = registry();
        let gates = kube_scheduler_config::FeatureGates::default();
        for plugin in kube_scheduler_config::default_plugins(&gates).multi_point.enabled {
            let name = plugin.name.as_str();
            assert!(registry.get(name).is_some(), "{name}");
        }
    }
}
