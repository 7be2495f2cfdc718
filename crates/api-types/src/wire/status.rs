//! Pod status as written.

use serde::Deserialize;

use super::de::{Date, List, ResourceList, Text};
use super::pod::WorkloadResources;

/// `status` of a pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// Phase.
    pub phase: Text,
    /// When the kubelet acknowledged the pod.
    pub start_time: Date,
    /// Nominated node.
    pub nominated_node_name: Text,
    /// Conditions.
    pub conditions: List<PodCondition>,
    /// Generated claims.
    pub resource_claim_statuses: List<ResourceClaimStatus>,
    /// The claim made for extended resources.
    pub extended_resource_claim_status: Option<ExtendedResourceClaimStatus>,
    /// What claims take of the node's resources.
    pub node_allocatable_resource_claim_statuses: List<NodeAllocatableResourceClaimStatus>,
    /// States of containers.
    pub container_statuses: List<ContainerStatus>,
    /// States of init containers.
    pub init_container_statuses: List<ContainerStatus>,
    /// Pod-level resources in effect.
    pub resources: Option<WorkloadResources>,
    /// Pod-level resources set aside.
    pub allocated_resources: ResourceList,
}

/// One condition.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodCondition {
    /// Type.
    #[serde(rename = "type")]
    pub kind: Text,
    /// Status.
    pub status: Text,
    /// Reason.
    pub reason: Text,
    /// Message.
    pub message: Text,
    /// Last probe.
    pub last_probe_time: Date,
    /// Last transition.
    pub last_transition_time: Date,
    /// Generation it refers to.
    pub observed_generation: Option<i64>,
}

/// State of one container, as far as its resources go.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// Name of the container.
    pub name: Text,
    /// Resources in effect; only if present does the status count.
    pub resources: Option<WorkloadResources>,
    /// Resources set aside.
    pub allocated_resources: ResourceList,
}

/// One generated claim.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceClaimStatus {
    /// Name within the pod.
    pub name: Text,
    /// Name of the claim.
    pub resource_claim_name: Option<Text>,
}

/// `extendedResourceClaimStatus`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtendedResourceClaimStatus {
    /// Which request of the claim serves which container.
    pub request_mappings: List<ContainerExtendedResourceRequest>,
    /// Name of the claim.
    pub resource_claim_name: Text,
}

/// One request mapping.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerExtendedResourceRequest {
    /// Container.
    pub container_name: Text,
    /// Extended resource.
    pub resource_name: Text,
    /// Request in the claim.
    pub request_name: Text,
}

/// One entry of `nodeAllocatableResourceClaimStatuses`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeAllocatableResourceClaimStatus {
    /// Name of the claim.
    pub resource_claim_name: Text,
    /// Containers that use it.
    pub containers: List<Text>,
    /// What its devices take of the node.
    pub resources: ResourceList,
}
