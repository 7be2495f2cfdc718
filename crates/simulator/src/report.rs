//! The result of a simulation: the data, and its printed forms.

mod data;
mod devices;
mod render;
mod summary;
mod table;
mod timeline;

pub use data::{
    NodeCounts, NodeUsage, NodeVerdict, PendingPod, PendingReason, Placement, PodCounts,
    PodExplanation, PreemptedPod, Report,
};
pub use devices::{ClaimAllocation, ClassUse, DeviceCounts, DeviceReport, DriverUse, PoolUse};
pub use render::{Format, FormatError, RenderError, RenderOptions, render};
pub(crate) use summary::compose;
pub(crate) use timeline::WaitTimes;
pub use timeline::{ResourceUse, TimelineReport};
