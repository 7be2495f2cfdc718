//! Arguments and feature gates.

use std::time::Duration;

use kube_scheduler_config::{Duration as ConfigDuration, DynamicResourcesArgs};
use kube_scheduler_devices::{Allocator, Features};
use kube_scheduler_framework::{Handle, PluginArgs};

use crate::plugin_args;

/// How many steps a search may take per second of `filterTimeout`: about as many devices as the reference tries in that
/// time. There is no clock here, and a search that ends within its steps ends the same way on every machine.
const STEPS_PER_SECOND: u128 = 100_000;

/// The limit where `filterTimeout` sets none: no claim may occupy the scheduler for ever.
const MOST_STEPS: u64 = 100_000_000;

/// An attempt may take as many steps as this many nodes whose searches all end at their limit.
const NODES_PER_ATTEMPT: u64 = 10;

/// The limit of an attempt is not lower than this: it bounds what odd objects cost, and is no time-out.
const LEAST_STEPS_OF_ATTEMPT: u64 = 10_000_000;

/// What binding waits for if nothing is configured.
const BINDING_TIMEOUT: Duration = Duration::from_secs(600);

/// What the plugin does, and within which limits (`docs/spec/plugins-dra.md` §1 and §4).
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// What the inventory of devices is made from.
    pub(super) inventory: InventorySettings,
    /// Whether device classes may serve extended resources.
    pub(super) serves_extended: bool,
    /// Whether devices may take resources of their node.
    pub(super) node_resources: bool,
    /// Whether pods may use claims of their pod groups.
    pub(super) group_claims: bool,
    /// How long searches may take.
    pub(super) steps: StepLimits,
    /// How long to wait for binding conditions; `None` if there are none.
    pub(super) binding_timeout: Option<Duration>,
}

/// How many steps searches may take (`kube_scheduler_devices::Steps`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StepLimits {
    /// On one node.
    pub(super) of_node: u64,
    /// On all nodes of an attempt together.
    pub(super) of_attempt: u64,
}

impl StepLimits {
    /// The limits for a time limit per node; none means the most there are.
    fn new(timeout: Duration) -> Self {
        let of_node = steps(timeout);
        let of_attempt = of_node.saturating_mul(NODES_PER_ATTEMPT);
        Self { of_node, of_attempt: of_attempt.clamp(LEAST_STEPS_OF_ATTEMPT, MOST_STEPS) }
    }
}

/// What the inventory of devices is made from.
#[derive(Clone, Copy, Debug)]
pub(super) struct InventorySettings {
    /// What allocation takes into account.
    pub(super) features: Features,
    /// Whether attributes of devices may be lists.
    pub(super) list_attributes: bool,
    /// Whether rules taint devices.
    pub(super) taint_rules: bool,
}

impl InventorySettings {
    pub(super) fn new(handle: &Handle) -> Self {
        let has = |gate| handle.is_enabled(gate);
        let features = Features {
            admin_access: has("DRAAdminAccess"),
            prioritized_list: has("DRAPrioritizedList"),
            partitionable_devices: has("DRAPartitionableDevices"),
            device_taints: has("DRADeviceTaints"),
            consumable_capacity: has("DRAConsumableCapacity"),
            binding_conditions: has("DRADeviceBindingConditions")
                && has("DRAResourceClaimDeviceStatus"),
        };
        Self {
            features,
            list_attributes: has("DRAListTypeAttributes"),
            taint_rules: has("DRADeviceTaintRules") && features.device_taints,
        }
    }
}

impl Settings {
    pub(super) fn new(args: &PluginArgs, handle: &Handle) -> Result<Self, String> {
        let args: DynamicResourcesArgs = plugin_args::read(args)?;
        let has = |gate| handle.is_enabled(gate);
        let inventory = InventorySettings::new(handle);
        let filter_timeout =
            args.filter_timeout.filter(|_| has("DRASchedulerFilterTimeout")).map(positive);
        Ok(Self {
            inventory,
            serves_extended: has("DRAExtendedResource"),
            node_resources: has("DRANodeAllocatableResources"),
            group_claims: has("DRAWorkloadResourceClaims"),
            steps: StepLimits::new(filter_timeout.unwrap_or_default()),
            binding_timeout: inventory
                .features
                .binding_conditions
                .then(|| args.binding_timeout.map_or(BINDING_TIMEOUT, positive)),
        })
    }

    /// Whether devices may take resources of nodes.
    pub(super) fn weighs_nodes(&self, allocator: &Allocator) -> bool {
        self.node_resources && allocator.inventory().takes_node_resources()
    }
}

fn positive(duration: ConfigDuration) -> Duration {
    Duration::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or_default())
}

/// The steps for a time limit; none means the most there are.
fn steps(timeout: Duration) -> u64 {
    if timeout.is_zero() {
        return MOST_STEPS;
    }
    let steps = timeout.as_nanos() * STEPS_PER_SECOND / 1_000_000_000;
    u64::try_from(steps).unwrap_or(MOST_STEPS).clamp(1, MOST_STEPS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_time_limit_is_a_million_steps() {
        assert_eq!(steps(Duration::from_secs(10)), 1_000_000);
        assert_eq!(steps(Duration::ZERO), MOST_STEPS);
        assert_eq!(steps(Duration::from_nanos(1)), 1);
        assert_eq!(steps(Duration::MAX), MOST_STEPS);
        let limits = |seconds| StepLimits::new(Duration::from_secs(seconds)).of_attempt;
        assert_eq!([limits(0), limits(1), limits(20)], [MOST_STEPS, 10_000_000, 20_000_000]);
    }
}
