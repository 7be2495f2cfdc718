//! Names of devices.

use std::fmt;
use std::sync::Arc;

/// What a device is called in a cluster: names of driver, pool and device.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceName {
    /// Name of the driver.
    pub driver: Arc<str>,
    /// Name of the pool.
    pub pool: Arc<str>,
    /// Name of the device within the pool.
    pub device: Arc<str>,
}

impl DeviceName {
    /// The name made of these parts.
    pub fn new(driver: &Arc<str>, pool: &Arc<str>, device: &Arc<str>) -> Self {
        Self { driver: driver.clone(), pool: pool.clone(), device: device.clone() }
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.driver, self.pool, self.device)
    }
}
