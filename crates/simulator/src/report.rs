//! The result of a simulation: the data, and its printed forms.

mod data;
mod devices;
mod explanation;
mod render;
mod summary;
mod table;
mod timeline;

pub use data::{
    NodeCounts, NodeUsage, OutcomeCounts, PendingPod, PendingReason, PlacedPod, PreemptedPod,
    Report,
};
pub use devices::{ClaimAllocation, ClassUse, DeviceCounts, DeviceReport, DriverUse, PoolUse};
pub use explanation::PodExplanation;
pub use render::{RenderOptions, render};
pub(crate) use summary::compose;
pub(crate) use timeline::WaitTimes;
pub use timeline::{ResourceUse, TimelineReport};
