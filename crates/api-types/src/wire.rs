//! The JSON form of pods and nodes: only the fields scheduling reads, everything else skipped unread.
//!
//! These types exist between decoding and compiling; the scheduler keeps none of them. Invariants: unknown fields are
//! ignored; `null` counts as absent wherever it stands; a list or map that is absent and one that is empty differ
//! only where the type is an `Option`.

mod affinity;
mod de;
mod meta;
mod node;
mod pod;
mod status;
#[cfg(test)]
mod tests;
mod volume;

pub use affinity::{
    Affinity, LabelSelector, NodeAffinity, NodeSelector, NodeSelectorTerm, PodAffinity,
    PodAffinityTerm, PreferredSchedulingTerm, SelectorRequirement, TopologySpreadConstraint,
    WeightedPodAffinityTerm,
};
pub(crate) use de::or_default;
pub use de::{Date, List, ResourceList, Text};
pub use meta::{ObjectMeta, OwnerReference};
pub use node::{ContainerImage, Node, NodeCondition, NodeSpec, NodeStatus, Taint};
pub use pod::{
    Container, ContainerPort, Pod, PodResourceClaim, PodSpec, RestartRule, SchedulingGate,
    SchedulingGroup, Toleration, UsedClaim, WorkloadResources,
};
pub use status::{
    ContainerExtendedResourceRequest, ContainerStatus, ExtendedResourceClaimStatus,
    NodeAllocatableResourceClaimStatus, PodCondition, PodStatus, ResourceClaimStatus,
};
pub use volume::Volume;
