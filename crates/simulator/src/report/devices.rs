//! The part of a report about devices.
//!
//! Invariant: `devices` is the sum of `used`, `blocked` and `free`, of each pool and of each driver.

use serde::Serialize;

/// Devices, and the claims that have them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DeviceReport {
    /// The devices of each driver, sorted by driver.
    pub drivers: Vec<DriverUse>,
    /// The device classes by which devices are allocated, sorted by name.
    pub classes: Vec<ClassUse>,
    /// The devices of each pool, sorted by driver, node and pool.
    pub pools: Vec<PoolUse>,
    /// Allocated claims, by namespace and name.
    pub claims: Vec<ClaimAllocation>,
}

/// The number of devices, by whether they are allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DeviceCounts {
    /// All of them, in the newest generation of their pools.
    pub devices: usize,
    /// Allocated to claims, those with admin access aside.
    pub used: usize,
    /// Not allocated, and what others use of shared counters leaves too little for them.
    pub(crate) blocked: usize,
    /// Devices that are neither used nor blocked.
    pub free: usize,
}

/// The devices of a driver.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DriverUse {
    /// The name of the driver.
    pub driver: String,
    /// The numbers of devices in all of its pools.
    #[serde(flatten)]
    pub counts: DeviceCounts,
    /// The most free devices in one place: on a node, or in a pool without a node.
    pub(crate) most_free_together: usize,
    /// The share of free devices that are somewhere else than that: 0 to 1; 0 without free devices.
    pub(crate) fragmentation: f64,
}

/// The devices that claims got by a class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ClassUse {
    /// The name of the device class.
    pub class: String,
    /// How many devices claims have got by it.
    pub allocated: usize,
}

/// The devices of a pool on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PoolUse {
    /// The name of the driver.
    pub driver: String,
    /// The node; `None` for devices that several nodes can use.
    pub node: Option<String>,
    /// The name of the pool.
    pub pool: String,
    /// The numbers of devices in the pool.
    #[serde(flatten)]
    pub counts: DeviceCounts,
}

/// A claim that has devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ClaimAllocation {
    /// The claim, `namespace/name`.
    pub claim: String,
    /// Its devices, `driver/pool/device`.
    pub devices: Vec<String>,
    /// The pods that have reserved it.
    pub pods: Vec<String>,
}
