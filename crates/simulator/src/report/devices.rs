//! The part of a report about devices.
//!
//! Invariant: `devices` is the sum of `used`, `blocked` and `free`, of each pool and of each driver.

use serde::Serialize;

/// Devices, and the claims that have them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DeviceReport {
    /// By driver.
    pub drivers: Vec<DriverUse>,
    /// By device class, those with allocated devices.
    pub classes: Vec<ClassUse>,
    /// By driver, node and pool.
    pub pools: Vec<PoolUse>,
    /// Allocated claims, by namespace and name.
    pub claims: Vec<ClaimAllocation>,
}

/// Numbers of devices.
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
    /// The rest.
    pub free: usize,
}

/// The devices of a driver.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DriverUse {
    /// The driver.
    pub driver: String,
    /// Sums over its pools.
    #[serde(flatten)]
    pub counts: DeviceCounts,
    /// The most free devices in one place: on a node, or in a pool without a node.
    pub(crate) most_free_together: usize,
    /// The share of free devices that are somewhere else than that: 0 to 1; 0 without free devices.
    pub(crate) fragmentation: f64,
}

/// The devices of a class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ClassUse {
    /// The class.
    pub class: String,
    /// How many devices claims have got by it.
    pub allocated: usize,
}

/// The devices of a pool on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PoolUse {
    /// The driver.
    pub driver: String,
    /// The node; `None` for devices that several nodes can use.
    pub node: Option<String>,
    /// The pool.
    pub pool: String,
    /// Its devices.
    #[serde(flatten)]
    pub counts: DeviceCounts,
}

/// An allocated claim.
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
