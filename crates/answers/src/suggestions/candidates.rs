//! Changes that are worth a trial.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use kube_scheduler_api_types::{
    NodeAffinity, Pod, PodSpec, Taint, TaintEffect, Toleration, TolerationOperator,
    WhenUnsatisfiable,
};
use kube_scheduler_cache::{ClusterState, NodeIdx};
use kube_scheduler_engine::Engine;

use crate::amounts::{free, quantity, requested, with_request};
use crate::explanation::Explanation;
use crate::what_if::Change;

/// How many amounts of one resource, and how many nodes, are tried.
const MAX_AMOUNTS: usize = 4;
const MAX_NODES: usize = 6;
const MAX_PRIORITIES: usize = 8;

/// One change.
#[derive(Clone, Debug)]
pub(super) enum Candidate {
    LowerRequest { resource: Arc<str>, from: i64, to: i64 },
    Tolerate(Taint),
    DropNodeSelector,
    DropNodeAffinity,
    DropPodAffinity,
    DropPodAntiAffinity,
    DropSpreadConstraint { at: usize, topology_key: Arc<str> },
    DropHostPorts,
    RaisePriority { from: i32, to: i32 },
    Uncordon(Arc<str>),
    AddNodeLike(Arc<str>),
}

impl Candidate {
    pub(super) const fn code(&self) -> &'static str {
        match self {
            Self::LowerRequest { .. } => "LowerRequest",
            Self::Tolerate(_) => "Tolerate",
            Self::DropNodeSelector => "DropNodeSelector",
            Self::DropNodeAffinity => "DropNodeAffinity",
            Self::DropPodAffinity => "DropPodAffinity",
            Self::DropPodAntiAffinity => "DropPodAntiAffinity",
            Self::DropSpreadConstraint { .. } => "DropSpreadConstraint",
            Self::DropHostPorts => "DropHostPorts",
            Self::RaisePriority { .. } => "RaisePriority",
            Self::Uncordon(_) => "Uncordon",
            Self::AddNodeLike(_) => "AddNodeLike",
        }
    }

    /// How large the change is, as documented at [`Suggestion`](crate::Suggestion).
    pub(super) fn size(&self) -> u32 {
        match self {
            Self::LowerRequest { from, to, .. } => {
                let less = i128::from(*from) - i128::from(*to);
                let percent = (less * 100).div_euclid(i128::from(*from).max(1)).clamp(1, 100);
                u32::try_from(percent).unwrap_or(100)
            }
            Self::Tolerate(_) => 20,
            Self::DropSpreadConstraint { .. } => 30,
            Self::DropPodAffinity => 35,
            Self::DropPodAntiAffinity | Self::DropHostPorts => 40,
            Self::DropNodeSelector | Self::DropNodeAffinity => 45,
            Self::Uncordon(_) => 50,
            Self::RaisePriority { .. } => 60,
            Self::AddNodeLike(_) => 80,
        }
    }

    /// Whether both make sense together: not twice the same thing.
    pub(super) fn combines_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::LowerRequest { resource, .. }, Self::LowerRequest { resource: other, .. }) => {
                resource != other
            }
            (Self::Tolerate(_), Self::Tolerate(_))
            | (Self::DropSpreadConstraint { .. }, Self::DropSpreadConstraint { .. }) => false,
            _ => self.code() != other.code(),
        }
    }

    pub(super) const fn may_evict(&self) -> bool {
        matches!(self, Self::RaisePriority { .. })
    }

    /// The change, if it is one of the cluster.
    pub(super) fn of_cluster(&self) -> Option<Change> {
        match self {
            Self::Uncordon(node) => Some(Change::Uncordon(node.clone())),
            Self::AddNodeLike(node) => Some(Change::AddNodesLike { node: node.clone(), count: 1 }),
            _ => None,
        }
    }

    /// Makes the change, if it is one of the pod.
    pub(super) fn apply_to(&self, pod: &mut Pod) {
        let mut spec: PodSpec = (*pod.spec).clone();
        match self {
            Self::LowerRequest { resource, to, .. } => {
                *pod = with_request(pod, resource, *to);
            }
            Self::Tolerate(taint) => {
                let toleration = Toleration {
                    key: taint.key.clone(),
                    operator: TolerationOperator::Equal,
                    value: taint.value.clone(),
                    effect: Some(taint.effect.clone()),
                    toleration_seconds: None,
                };
                spec.tolerations = spec.tolerations.iter().cloned().chain([toleration]).collect();
            }
            Self::DropNodeSelector => spec.node_selector = None,
            Self::DropNodeAffinity => {
                spec.node_affinity = spec
                    .node_affinity
                    .as_deref()
                    .map(|affinity| Arc::new(NodeAffinity { required: None, ..affinity.clone() }));
            }
            Self::DropPodAffinity => spec.pod_affinity = None,
            Self::DropPodAntiAffinity => spec.pod_anti_affinity = None,
            Self::DropSpreadConstraint { at, .. } => {
                let all = spec.topology_spread_constraints.iter().enumerate();
                let others = all.filter(|(other, _)| other != at);
                spec.topology_spread_constraints = others.map(|(_, one)| one.clone()).collect();
            }
            Self::DropHostPorts => {
                spec.host_ports = Arc::default();
                spec.host_port_numbers = Arc::default();
            }
            Self::RaisePriority { to, .. } => {
                spec.priority = Some(*to);
                spec.never_preempts = false;
            }
            Self::Uncordon(_) | Self::AddNodeLike(_) => {}
        }
        pod.spec = Arc::new(spec);
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LowerRequest { resource, from, to } => {
                let (to, from) = (quantity(resource, *to), quantity(resource, *from));
                write!(f, "request {to} of {resource} instead of {from}")
            }
            Self::Tolerate(Taint { key, value, effect }) => {
                let sign = if value.is_empty() { "" } else { "=" };
                write!(f, "tolerate the taint {key}{sign}{value}:{}", effect.as_str())
            }
            Self::DropNodeSelector => f.write_str("drop nodeSelector"),
            Self::DropNodeAffinity => f.write_str("drop the required node affinity"),
            Self::DropPodAffinity => f.write_str("drop pod affinity"),
            Self::DropPodAntiAffinity => f.write_str("drop pod anti-affinity"),
            Self::DropSpreadConstraint { topology_key, .. } => {
                write!(f, "drop the topology spread constraint over {topology_key}")
            }
            Self::DropHostPorts => f.write_str("drop host ports"),
            Self::RaisePriority { from, to } => write!(f, "priority {to} instead of {from}"),
            Self::Uncordon(node) => write!(f, "uncordon node {node}"),
            Self::AddNodeLike(node) => write!(f, "one more node like {node}"),
        }
    }
}

/// What may help, by what is in the way.
pub(super) fn candidates(engine: &Engine, pod: &Pod, explanation: &Explanation) -> Vec<Candidate> {
    let cluster = engine.cluster();
    let rejecting: BTreeSet<&str> = explanation.rejecting_plugins().collect();
    let rejects = |plugin: &str| rejecting.contains(plugin);
    let spec = &pod.spec;
    let mut found = Vec::new();
    if rejects("NodeResourcesFit") {
        found.extend(lower_requests(cluster, pod, explanation));
    }
    if rejects("TaintToleration") {
        found.extend(tolerations(cluster, pod));
    }
    if rejects("PodTopologySpread") {
        let constraints = spec.topology_spread_constraints.iter().enumerate();
        let hard = constraints
            .filter(|(_, one)| one.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule);
        found.extend(hard.map(|(at, one)| {
            let topology_key = one.topology_key.clone();
            Candidate::DropSpreadConstraint { at, topology_key }
        }));
    }
    let affects = |affinity: &Option<_>| affinity.is_some() && rejects("InterPodAffinity");
    let of_node = spec.node_affinity.as_deref().is_some_and(|affinity| affinity.required.is_some());
    let simple = [
        (affects(&spec.pod_affinity), Candidate::DropPodAffinity),
        (affects(&spec.pod_anti_affinity), Candidate::DropPodAntiAffinity),
        (rejects("NodePorts"), Candidate::DropHostPorts),
        (rejects("NodeAffinity") && spec.node_selector.is_some(), Candidate::DropNodeSelector),
        (rejects("NodeAffinity") && of_node, Candidate::DropNodeAffinity),
    ];
    found.extend(simple.into_iter().filter(|(applies, _)| *applies).map(|(_, change)| change));
    if rejects("NodeUnschedulable") {
        let cordoned = nodes(cluster).filter(|(_, node)| node.unschedulable);
        found.extend(
            cordoned.take(MAX_NODES).map(|(_, node)| Candidate::Uncordon(node.name.clone())),
        );
    }
    found.extend(priorities(cluster, pod));
    found.extend(models(cluster));
    found
}

fn nodes(
    cluster: &ClusterState,
) -> impl Iterator<Item = (NodeIdx, &Arc<kube_scheduler_api_types::Node>)> {
    cluster.order().iter().filter_map(|idx| Some((*idx, cluster.node(*idx)?)))
}

/// Each resource down to what is free on some node: the largest free amounts below the request, first on nodes where
/// nothing else is in the way.
fn lower_requests(cluster: &ClusterState, pod: &Pod, explanation: &Explanation) -> Vec<Candidate> {
    let only = explanation.rejected_only_by("NodeResourcesFit");
    let only: Vec<NodeIdx> = only.filter_map(|name| cluster.node_idx(name)).collect();
    let all: Vec<NodeIdx> = nodes(cluster).map(|(idx, _)| idx).collect();
    let mut found = Vec::new();
    for (resource, from) in requested(pod).into_iter().filter(|(_, amount)| *amount > 0) {
        let mut amounts: Vec<i64> = Vec::new();
        for nodes in [&only, &all] {
            let free = nodes.iter().map(|idx| free(cluster, &resource, *idx));
            let lower: BTreeSet<i64> = free.filter(|free| (1..from).contains(free)).collect();
            let new = lower.into_iter().rev().filter(|to| !amounts.contains(to));
            let new: Vec<i64> = new.take(MAX_AMOUNTS).collect();
            amounts.extend(new);
        }
        found.extend(amounts.into_iter().map(|to| {
            let resource = resource.clone();
            Candidate::LowerRequest { resource, from, to }
        }));
    }
    found
}

/// The taints of nodes that keep pods away, each once, in the order of nodes.
fn tolerations(cluster: &ClusterState, pod: &Pod) -> Vec<Candidate> {
    let mut taints: Vec<&Taint> = Vec::new();
    for taint in nodes(cluster).flat_map(|(_, node)| node.taints.iter()) {
        let is_hard = matches!(taint.effect, TaintEffect::NoSchedule | TaintEffect::NoExecute);
        if is_hard && !taints.contains(&taint) && taints.len() < MAX_NODES {
            taints.push(taint);
        }
    }
    let known = |taint: &Taint| {
        pod.spec.tolerations.iter().any(|one| {
            one.key == taint.key
                && one.value == taint.value
                && one.effect.as_ref() == Some(&taint.effect)
        })
    };
    taints.into_iter().filter(|taint| !known(taint)).cloned().map(Candidate::Tolerate).collect()
}

/// Priorities just above those of running pods.
fn priorities(cluster: &ClusterState, pod: &Pod) -> Vec<Candidate> {
    let from = pod.priority();
    let higher = cluster.all_pods().map(|(other, _)| other.priority().saturating_add(1));
    let higher: BTreeSet<i32> = higher.filter(|priority| *priority > from).collect();
    let raise = |to| Candidate::RaisePriority { from, to };
    higher.into_iter().take(MAX_PRIORITIES).map(raise).collect()
}

/// Nodes that differ in what they have.
fn models(cluster: &ClusterState) -> Vec<Candidate> {
    let mut seen = Vec::new();
    let mut found = Vec::new();
    for (_, node) in nodes(cluster) {
        let kind = (&node.allocatable, &node.taints, node.allowed_pods);
        if found.len() < MAX_NODES && !seen.contains(&kind) {
            seen.push(kind);
            found.push(Candidate::AddNodeLike(node.name.clone()));
        }
    }
    found
}
