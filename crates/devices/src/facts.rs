//! Devices as selectors see them.

use crate::api::{Attribute, DeviceCapacity, Map};

/// What a selector may read of a device.
#[derive(Clone, Copy, Debug)]
pub struct DeviceFacts<'a> {
    /// Name of the driver.
    pub driver: &'a str,
    /// Whether several requests may have the device at once.
    pub allow_multiple_allocations: bool,
    /// Attributes by name, with or without domain.
    pub attributes: &'a Map<Attribute>,
    /// Capacities by name, with or without domain.
    pub capacity: &'a Map<DeviceCapacity>,
}
