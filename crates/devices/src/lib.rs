//! Dynamic resource allocation: which devices a pod's resource claims get on a node.
//!
//! Drivers publish devices in ResourceSlices, administrators name kinds of them in DeviceClasses, and pods ask for them in
//! ResourceClaims. This crate holds typed forms of these objects ([`api`]), the [`Inventory`] of all devices, the
//! [`Usage`] of those that are taken, and the [`Allocator`], which finds the devices for the claims of one pod on one
//! node. The allocation it finds is the first one in the reference's search order (`docs/spec/plugins-dra.md` §8).
//!
//! The crate stands alone: no IO, no clock, no randomness, no threads. Selectors are evaluated
//! by [`CelSelectors`] or another [`SelectorCompiler`]. Nothing that API objects contain makes it panic, recurse without bound, or search longer than
//! the caller's limit.
//!
//! ```
//! use std::sync::Arc;
//!
//! use kube_scheduler_api_types::Labels;
//! use kube_scheduler_devices::api::{DeviceClass, ResourceClaim, ResourceSlice};
//! use kube_scheduler_devices::{
//!     Allocator, CelSelectors, Features, Inventory, NodeRef, PodClaims, SelectorTable, Steps, Usage,
//! };
//! use serde_json::json;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let slice = ResourceSlice::from_json(&json!({
//!     "metadata": {"name": "n1-gpus"},
//!     "spec": {"driver": "gpu.example.com", "nodeName": "n1",
//!              "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
//!              "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}]},
//! }).into())?;
//! let class = DeviceClass::from_json(&json!({
//!     "metadata": {"name": "gpu"},
//!     "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]},
//! }).into())?;
//! let claim = ResourceClaim::from_json(&json!({
//!     "metadata": {"namespace": "default", "name": "two"},
//!     "spec": {"devices": {"requests": [{"name": "gpus", "exactly":
//!         {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}}]}},
//! }).into())?;
//!
//! let features = Features::default();
//! let inventory = Arc::new(Inventory::new([Arc::new(slice)], features));
//! let selectors = SelectorTable::new(inventory.clone());
//! let classes = [(class.name.clone(), Arc::new(class))].into_iter().collect();
//! let allocator = Allocator::new(selectors, &Usage::default(), classes, Arc::new(CelSelectors::default()));
//!
//! let claims = PodClaims::new([Arc::new(claim)]);
//! let labels = Labels::default();
//! let node = NodeRef { name: "n1", labels: &labels };
//! let found = allocator.allocate(node, &claims, &Steps::new(1_000), &mut || "share".into())?;
//! let devices: Vec<_> = found.iter().flatten().flat_map(|a| &a.results).map(|r| &*r.device).collect();
//! assert_eq!(devices, ["gpu-0", "gpu-1"]);
//!
//! let elsewhere = NodeRef { name: "n2", labels: &labels };
//! assert_eq!(allocator.allocate(elsewhere, &claims, &Steps::new(1_000), &mut || "share".into())?, None);
//! # Ok(())
//! # }
//! ```

pub mod api;

mod allocator;
mod cel;
mod extended;
mod facts;
mod features;
mod inventory;
mod name;
mod node_resources;
mod priority;
mod readiness;
mod selectors;
mod state;
mod totals;
mod usage;

pub use allocator::{
    AllocationError, Allocator, Choice, Choices, Classes, Criteria, DeviceObstacle, Extent, Lack,
    Needs, PodClaims, RequestCount, Shortfall, Sorts, Steps, Supply,
};
pub use cel::CelSelectors;
pub use extended::{ContainerDemand, ExtendedClaim, ExtendedResources};
pub use facts::DeviceFacts;
pub use features::Features;
pub use inventory::{Inventory, NodeRef, View};
pub use name::DeviceName;
pub use node_resources::NodeResourceError;
pub use readiness::Readiness;
pub use selectors::{ExpressionError, Selector, SelectorCompiler, SelectorTable};
pub use state::{DeviceState, Holder};
pub use totals::ClassTotals;
pub use usage::Usage;

/// The code of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
