//! Pods as written.

use serde::Deserialize;

use super::affinity::{Affinity, TopologySpreadConstraint};
use super::de::{List, ResourceList, Text, or_default};
use super::meta::ObjectMeta;
use super::status::PodStatus;
use super::volume::Volume;
use crate::labels::Labels;

/// `v1.Pod`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pod {
    /// Kind, empty inside lists.
    pub kind: Text,
    /// Metadata.
    #[serde(deserialize_with = "or_default")]
    pub metadata: ObjectMeta,
    /// Specification.
    #[serde(deserialize_with = "or_default")]
    pub spec: PodSpec,
    /// Status.
    #[serde(deserialize_with = "or_default")]
    pub status: PodStatus,
}

/// `spec` of a pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// Where the pod runs.
    pub node_name: Text,
    /// Which profile schedules it.
    pub scheduler_name: Text,
    /// Priority.
    pub priority: Option<i32>,
    /// `Never` or `PreemptLowerPriority`.
    pub preemption_policy: Option<Text>,
    /// Labels the node must have; absent and empty differ.
    pub node_selector: Option<Labels>,
    /// Affinities.
    pub affinity: Option<Box<Affinity>>,
    /// Tolerations.
    pub tolerations: List<Toleration>,
    /// Spread constraints.
    pub topology_spread_constraints: List<TopologySpreadConstraint>,
    /// Containers.
    pub containers: List<Container>,
    /// Init containers, restartable ones included.
    pub init_containers: List<Container>,
    /// What the runtime itself takes.
    pub overhead: ResourceList,
    /// Pod-level resources.
    pub resources: Option<WorkloadResources>,
    /// Whether the pod shares the node's network.
    pub host_network: Option<bool>,
    /// Whether the pod shares the node's user namespace.
    pub host_users: Option<bool>,
    /// Scheduling gates.
    pub scheduling_gates: List<SchedulingGate>,
    /// Volumes.
    pub volumes: List<Volume>,
    /// Resource claims.
    pub resource_claims: List<PodResourceClaim>,
    /// The pod's group.
    pub scheduling_group: Option<SchedulingGroup>,
}

/// A container or an init container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Name within the pod.
    pub name: Text,
    /// Image as written.
    pub image: Text,
    /// Resources.
    #[serde(deserialize_with = "or_default")]
    pub resources: WorkloadResources,
    /// Ports.
    pub ports: List<ContainerPort>,
    /// `Always` makes an init container restartable.
    pub restart_policy: Option<Text>,
    /// Rules by exit code.
    pub restart_policy_rules: List<RestartRule>,
}

impl Container {
    /// Whether this init container keeps running beside the containers ("sidecar").
    pub(crate) fn is_restartable(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

/// `resources` of a container or a pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadResources {
    /// Requests.
    pub requests: ResourceList,
    /// Limits. They are reported in metrics; no decision reads them.
    pub limits: ResourceList,
    /// Resource claims of the pod that a container uses.
    pub claims: List<UsedClaim>,
}

/// One entry of a container's `resources.claims`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UsedClaim {
    /// Name of the claim within the pod.
    pub name: Text,
}

/// One port of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    /// Port on the node.
    pub host_port: Option<i32>,
    /// Address on the node.
    #[serde(rename = "hostIP")]
    pub host_ip: Text,
    /// Protocol.
    pub protocol: Text,
}

/// One restart rule of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RestartRule {
    /// What to do.
    pub action: Text,
}

/// One toleration.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Toleration {
    /// Key.
    pub key: Text,
    /// Operator.
    pub operator: Text,
    /// Value.
    pub value: Text,
    /// Effect.
    pub effect: Text,
    /// Seconds.
    pub toleration_seconds: Option<i64>,
}

/// One scheduling gate.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct SchedulingGate {
    /// Name.
    pub name: Text,
}

/// One entry of `resourceClaims`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodResourceClaim {
    /// Name within the pod.
    pub name: Text,
    /// An existing claim.
    pub resource_claim_name: Option<Text>,
    /// A template to make a claim from.
    pub resource_claim_template_name: Option<Text>,
}

/// `schedulingGroup`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SchedulingGroup {
    /// Name of the pod group.
    pub pod_group_name: Option<Text>,
}
