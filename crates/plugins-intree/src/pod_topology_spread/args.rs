//! The plugin's arguments: the default constraints for pods that have none of their own.

use std::sync::Arc;

use kube_scheduler_framework::PluginArgs;
use kube_scheduler_framework::api::well_known::{HOSTNAME, ZONE};
use kube_scheduler_framework::api::{
    CompileOptions, Labels, NodeInclusionPolicy, Pod, TopologySpreadConstraint, WhenUnsatisfiable,
};

use crate::plugin_args::checked_args;

/// The constraints for pods that have none of their own, and where they come from.
#[derive(Clone, Debug)]
pub(super) struct Defaults {
    pub(super) constraints: Arc<[TopologySpreadConstraint]>,
    /// Whether they are the built-in ones, which tolerate nodes that lack a topology key.
    is_system: bool,
}

impl Defaults {
    pub(super) fn from_args(args: &PluginArgs) -> Result<Self, String> {
        let args = checked_args!(PodTopologySpread, args)?;
        if args.defaulting_type == "System" {
            let constraints = [built_in(HOSTNAME, 3), built_in(ZONE, 5)];
            return Ok(Self { constraints: constraints.into(), is_system: true });
        }
        let (nobody, options) = (Labels::default(), CompileOptions::default());
        let constraints = args.default_constraints.iter().map(|constraint| {
            TopologySpreadConstraint::from_wire(&constraint.to_wire(), &nobody, &options)
        });
        Ok(Self { constraints: constraints.collect(), is_system: false })
    }

    /// Whether nodes without one of the topology keys are left out of a pod's scores.
    pub(super) fn requires_all_keys(&self, pod: &Pod) -> bool {
        !pod.spec.topology_spread_constraints.is_empty() || !self.is_system
    }
}

fn built_in(topology_key: &str, max_skew: i32) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        max_skew,
        topology_key: topology_key.into(),
        when_unsatisfiable: WhenUnsatisfiable::ScheduleAnyway,
        selector: None,
        selector_error: None,
        min_domains: None,
        node_affinity_policy: NodeInclusionPolicy::Honor,
        node_taints_policy: NodeInclusionPolicy::Ignore,
        match_label_keys: Arc::from([]),
    }
}
