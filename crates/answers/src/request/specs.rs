//! What is asked, as it stands in the `spec` of a question over HTTP.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// About one pod: either `podName` or `pod`.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PodQuestionSpec {
    /// A pod that exists.
    pub(super) pod_name: Option<String>,
    /// A pod as an API server would store it, which need not exist.
    pub(super) pod: Option<Value>,
    /// Whether to look for small changes that make it fit: of an explanation only.
    #[serde(default)]
    pub(super) suggest: bool,
    /// What comes with the pods.
    #[serde(default)]
    pub(super) objects: ObjectsSpec,
}

/// What comes with the pods: PersistentVolumeClaims, ResourceClaims, Services, ReplicationControllers, ReplicaSets and StatefulSets, as
/// an API server would store them; at most 1,000. They are of the question's namespace unless they name another one, which is for
/// readers who may list pods there. They are part of the cluster for the answer, before any change. If the cluster already has an
/// object of that name, the cluster's version is used. Of services and controllers only `spec.selector` matters: pods without
/// spread constraints are spread by it. Claims that have their volume or devices are for readers who may list nodes.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(super) struct ObjectsSpec(pub(super) Vec<Value>);

/// What would happen after changes.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct WhatIfSpec {
    /// The changes, in the order in which they happen.
    pub(super) changes: Vec<ChangeSpec>,
    /// What comes with the pods.
    #[serde(default)]
    pub(super) objects: ObjectsSpec,
}

/// One change. Changes of nodes are for readers who may list nodes; pods of other namespaces, for those who may list these.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) enum ChangeSpec {
    /// Pods are created.
    AddPods(AddPodsSpec),
    /// A pod group is created: to be had before its pods, which name it.
    AddPodGroup(AddPodGroupSpec),
    /// A workload is created, with the objects and pods that its controller makes.
    AddWorkload(AddWorkloadSpec),
    /// A pod is deleted.
    DeletePod(PodReferenceSpec),
    /// A pod is evicted, after all other changes, in rounds as disruption budgets allow; one of a controller comes again.
    EvictPod(PodReferenceSpec),
    /// A node joins.
    AddNode(AddNodeSpec),
    /// Copies of an existing node join: empty, and with new names.
    AddNodesLike(AddNodesLikeSpec),
    /// A node leaves; pods of controllers come again.
    RemoveNode(NodeReferenceSpec),
    /// A node takes no new pods.
    Cordon(NodeReferenceSpec),
    /// A node takes new pods again.
    Uncordon(NodeReferenceSpec),
    /// A node is cordoned, and the pods of controllers on it come again elsewhere, after all other changes.
    Drain(DrainNodeSpec),
    /// A node gets a taint.
    Taint(TaintNodeSpec),
    /// A node gets a label.
    Label(LabelNodeSpec),
}

/// Pods that are alike.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct AddPodsSpec {
    /// One of them, as an API server would store it. With `count` it may have a `generateName` instead of a name.
    pub(super) pod: Value,
    /// How many; each has its number behind the name, as `web-1`, or behind the `generateName`, as `web-00001`.
    pub(super) count: Option<usize>,
    /// The number of the first of them; 1 if it is not given.
    pub(super) first: Option<usize>,
}

/// A pod group that does not exist yet.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct AddPodGroupSpec {
    /// The PodGroup of `scheduling.k8s.io`, as an API server would store it.
    pub(super) pod_group: Value,
}

/// A workload that does not exist yet.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct AddWorkloadSpec {
    /// A Deployment, ReplicaSet, StatefulSet or DaemonSet of `apps`, a Job or CronJob of `batch`, a JobSet, a Workload of
    /// `scheduling.k8s.io`, or a ReplicationController. Its template has to have the priority of its pods, if they have a class of
    /// priority. Claims for devices are not made from templates.
    pub(super) workload: Value,
}

/// A pod that exists.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PodReferenceSpec {
    /// Its name.
    pub(super) name: String,
    /// Its namespace; that of the question if it is not given.
    pub(super) namespace: Option<String>,
}

/// A node that does not exist yet.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct AddNodeSpec {
    /// The node, as an API server would store it.
    pub(super) node: Value,
}

/// Nodes like one that exists.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct AddNodesLikeSpec {
    /// The one that exists.
    pub(super) name: String,
    /// How many join.
    pub(super) count: usize,
}

/// A node that exists.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NodeReferenceSpec {
    /// Its name.
    pub(super) name: String,
}

/// A node that is drained.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct DrainNodeSpec {
    /// Its name.
    pub(super) name: String,
    /// Whether its pods are deleted at once, whatever disruption budgets say.
    #[serde(default)]
    pub(super) disable_eviction: bool,
}

/// A node that gets a taint.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct TaintNodeSpec {
    /// Its name.
    pub(super) name: String,
    /// The taint's key.
    pub(super) key: String,
    /// The taint's value.
    #[serde(default)]
    pub(super) value: String,
    /// What the taint does.
    pub(super) effect: EffectSpec,
}

/// What a taint does.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
pub(super) enum EffectSpec {
    /// New pods must tolerate it.
    NoSchedule,
    /// Pods go elsewhere if they can.
    PreferNoSchedule,
    /// New pods must tolerate it. Running ones are not evicted in an answer.
    NoExecute,
}

/// A node that gets a label.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct LabelNodeSpec {
    /// Its name.
    pub(super) name: String,
    /// The label's key.
    pub(super) key: String,
    /// The label's value.
    #[serde(default)]
    pub(super) value: String,
}

/// Where the pods of nodes would go.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct DrainSpec {
    /// The nodes, which are drained together.
    pub(super) nodes: Vec<String>,
    /// Whether pods are deleted at once, whatever disruption budgets say.
    #[serde(default)]
    pub(super) disable_eviction: bool,
}

/// How many more pods fit.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CapacitySpec {
    /// One of them, as an API server would store it.
    pub(super) pod: Value,
    /// Where to stop counting; 10,000 if it is not given.
    pub(super) max: Option<usize>,
    /// Whether to say how the limits change as pods are added.
    #[serde(default)]
    pub(super) steps: bool,
    /// What comes with the pods.
    #[serde(default)]
    pub(super) objects: ObjectsSpec,
}

/// What waits, and for what.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct QueueSpec {
    /// How many pods are listed, and how many groups of pods that wait for the same; 100 if it is not given.
    pub(super) limit: Option<usize>,
}

/// How much of what is free no pod could use.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct FragmentationSpec {
    /// The label of nodes by whose values they are distinguished.
    pub(super) by: Option<String>,
    /// How many shapes are tried, the most frequent first; 50 if it is not given, and 200 at most.
    pub(super) max_shapes: Option<usize>,
}
