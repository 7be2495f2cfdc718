//! Pod status as written.

use serde::Deserialize;

use super::de::{Date, List, ResourceList, Text};
use super::pod::WorkloadResources;

/// `status` of a pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// The phase, such as `Running`.
    pub phase: Text,
    /// When the kubelet acknowledged the pod.
    pub start_time: Date,
    /// The node that the pod is nominated to; empty if there is none.
    pub nominated_node_name: Text,
    /// The conditions of the pod.
    pub conditions: List<PodCondition>,
    /// The claims that were made from templates.
    pub resource_claim_statuses: List<ResourceClaimStatus>,
    /// The claim made for extended resources.
    pub extended_resource_claim_status: Option<ExtendedResourceClaimStatus>,
    /// What claims take of the node's resources.
    pub node_allocatable_resource_claim_statuses: List<NodeAllocatableResourceClaimStatus>,
    /// The state of each container.
    pub container_statuses: List<ContainerStatus>,
    /// The state of each init container.
    pub init_container_statuses: List<ContainerStatus>,
    /// The resources of the pod as a whole that are in effect.
    pub resources: Option<WorkloadResources>,
    /// What the node has set aside for the pod as a whole.
    pub allocated_resources: ResourceList,
}

/// One condition of a pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodCondition {
    /// Type of the condition, such as `PodScheduled`.
    #[serde(rename = "type")]
    pub kind: Text,
    /// `True`, `False` or `Unknown`.
    pub status: Text,
    /// Reason for the status, in one word.
    pub reason: Text,
    /// Reason for the status, for people.
    pub message: Text,
    /// When the condition was last checked.
    pub last_probe_time: Date,
    /// When its status changed last.
    pub last_transition_time: Date,
    /// The generation of the pod that it is about.
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
    /// What the node has set aside for the container.
    pub allocated_resources: ResourceList,
}

/// A claim that was made from a template, for one entry of `resourceClaims`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceClaimStatus {
    /// Name of the entry in the pod.
    pub name: Text,
    /// Name of the claim; absent if none was needed.
    pub resource_claim_name: Option<Text>,
}

/// `extendedResourceClaimStatus`: the claim that was made for extended resources.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtendedResourceClaimStatus {
    /// Which request of the claim serves which container.
    pub request_mappings: List<ContainerExtendedResourceRequest>,
    /// Name of the claim.
    pub resource_claim_name: Text,
}

/// Which request of the claim serves which resource of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerExtendedResourceRequest {
    /// Name of the container.
    pub container_name: Text,
    /// Name of the extended resource.
    pub resource_name: Text,
    /// Name of the request in the claim.
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
