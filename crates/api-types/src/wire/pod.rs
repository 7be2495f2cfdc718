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
    /// The kind, `Pod`; empty inside lists.
    pub kind: Text,
    /// Name, labels and the like.
    #[serde(deserialize_with = "or_default")]
    pub metadata: ObjectMeta,
    /// What the pod asks for.
    #[serde(deserialize_with = "or_default")]
    pub spec: PodSpec,
    /// What became of the pod.
    #[serde(deserialize_with = "or_default")]
    pub status: PodStatus,
}

/// `spec` of a pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// The node that the pod is bound to; empty if there is none.
    pub node_name: Text,
    /// The scheduler name, which says what profile schedules the pod.
    pub scheduler_name: Text,
    /// The priority; absent counts as 0.
    pub priority: Option<i32>,
    /// `Never` or `PreemptLowerPriority`.
    pub preemption_policy: Option<Text>,
    /// Labels the node must have; absent and empty differ.
    pub node_selector: Option<Labels>,
    /// Affinity to nodes and pods.
    pub affinity: Option<Box<Affinity>>,
    /// The taints that the pod tolerates.
    pub tolerations: List<Toleration>,
    /// How the pod spreads over topology domains.
    pub topology_spread_constraints: List<TopologySpreadConstraint>,
    /// The containers, init containers aside.
    pub containers: List<Container>,
    /// Init containers, restartable ones included.
    pub init_containers: List<Container>,
    /// What the pod takes besides its containers, for its runtime.
    pub overhead: ResourceList,
    /// Resources of the pod as a whole (`spec.resources`).
    pub resources: Option<WorkloadResources>,
    /// Whether the pod shares the node's network.
    pub host_network: Option<bool>,
    /// Whether the pod shares the node's user namespace.
    pub host_users: Option<bool>,
    /// Gates that keep the pod from being scheduled until they are removed.
    pub scheduling_gates: List<SchedulingGate>,
    /// The volumes of the pod.
    pub volumes: List<Volume>,
    /// The resource claims that the pod uses.
    pub resource_claims: List<PodResourceClaim>,
    /// The pod group that the pod belongs to.
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
    /// What the container requests, and its claims.
    #[serde(deserialize_with = "or_default")]
    pub resources: WorkloadResources,
    /// The ports of the container.
    pub ports: List<ContainerPort>,
    /// `Always` makes an init container restartable.
    pub restart_policy: Option<Text>,
    /// Rules for restarts by exit code.
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
    /// What is requested, by resource.
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
    /// The port on the node that is taken; 0 or absent for none.
    pub host_port: Option<i32>,
    /// The address on the node at which the port is taken.
    #[serde(rename = "hostIP")]
    pub host_ip: Text,
    /// The protocol, such as `TCP`.
    pub protocol: Text,
}

/// One restart rule of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RestartRule {
    /// What to do if the rule applies, such as `Restart`.
    pub action: Text,
}

/// One toleration of a pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Toleration {
    /// Key of the taints that it matches; empty matches every key.
    pub key: Text,
    /// The operator, such as `Equal` or `Exists`.
    pub operator: Text,
    /// The value that the operator compares with that of the taint.
    pub value: Text,
    /// Effect of the taints that it matches; empty matches every effect.
    pub effect: Text,
    /// How long a `NoExecute` taint is tolerated, in seconds.
    pub toleration_seconds: Option<i64>,
}

/// One scheduling gate.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct SchedulingGate {
    /// Name of the gate.
    pub name: Text,
}

/// One entry of `resourceClaims`: a claim, or a template for one.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodResourceClaim {
    /// Name within the pod.
    pub name: Text,
    /// Name of a claim that exists by itself.
    pub resource_claim_name: Option<Text>,
    /// Name of the template that a claim is made from.
    pub resource_claim_template_name: Option<Text>,
}

/// `schedulingGroup`: the group that a pod is scheduled with.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SchedulingGroup {
    /// Name of the pod group.
    pub pod_group_name: Option<Text>,
}
