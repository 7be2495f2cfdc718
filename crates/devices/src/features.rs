//! What of the API is turned on.

/// Feature gates that allocation depends on (`docs/spec/plugins-dra.md` §1). The default is that of version 1.36.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// `DRAAdminAccess`: claims may get devices even if other claims use them.
    pub admin_access: bool,
    /// `DRAPrioritizedList`: requests may have alternatives.
    pub prioritized_list: bool,
    /// `DRAPartitionableDevices`: devices share counters and say themselves where they can be used.
    pub partitionable_devices: bool,
    /// `DRADeviceTaints`: taints keep requests away.
    pub device_taints: bool,
    /// `DRAConsumableCapacity`: devices may be shared, by capacity.
    pub consumable_capacity: bool,
    /// `DRADeviceBindingConditions` and `DRAResourceClaimDeviceStatus`: devices may have to be made ready first.
    pub binding_conditions: bool,
}

impl Default for Features {
    fn default() -> Self {
        Self {
            admin_access: true,
            prioritized_list: true,
            partitionable_devices: true,
            device_taints: true,
            consumable_capacity: true,
            binding_conditions: true,
        }
    }
}

impl Features {
    /// Whether the reference uses its stable allocator, the first one that knows all features that are on. It knows neither
    /// amounts nor binding conditions, even where the API server stores them (`docs/spec/plugins-dra.md` §8.12).
    pub(crate) fn is_stable(self) -> bool {
        !self.consumable_capacity && !self.binding_conditions
    }
}
