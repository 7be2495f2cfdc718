//! Changes that may make a pod fit: how large each is, how it is made, and how it is called.

use std::fmt;
use std::sync::Arc;

use kube_scheduler_api_types::{
    HostPort, Labels, NodeAffinity, Pod, PodAffinity, PodSpec, Taint, Toleration,
    TolerationOperator,
};

use crate::amounts::{quantity, with_request};
use crate::format::count;
use crate::pod_name::PodName;
use crate::what_if::Change;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Candidate {
    LowerRequest { resource: Arc<str>, less: i64, from: i64 },
    Tolerate(Taint),
    DropSpreadConstraint { topology_key: Arc<str> },
    DropPodAffinityTerm { at: usize, topology_key: Arc<str> },
    DropPodAffinity,
    DropPodAntiAffinityTerm { at: usize, topology_key: Arc<str> },
    DropPodAntiAffinity,
    DropHostPort(HostPort),
    DropHostPorts,
    DropNodeSelectorLabel(Arc<str>),
    DropNodeSelector,
    DropNodeAffinity,
    Uncordon(Arc<str>),
    ScaleDown { workload: Arc<str>, pods: Arc<[PodName]> },
    RaisePriority { from: i32, to: i32 },
    AddNodeLike(Arc<str>),
}

impl Candidate {
    pub(super) const fn code(&self) -> &'static str {
        match self {
            Self::LowerRequest { .. } => "LowerRequest",
            Self::Tolerate(_) => "Tolerate",
            Self::DropSpreadConstraint { .. } => "DropSpreadConstraint",
            Self::DropPodAffinityTerm { .. } => "DropPodAffinityTerm",
            Self::DropPodAffinity => "DropPodAffinity",
            Self::DropPodAntiAffinityTerm { .. } => "DropPodAntiAffinityTerm",
            Self::DropPodAntiAffinity => "DropPodAntiAffinity",
            Self::DropHostPort(_) => "DropHostPort",
            Self::DropHostPorts => "DropHostPorts",
            Self::DropNodeSelectorLabel(_) => "DropNodeSelectorLabel",
            Self::DropNodeSelector => "DropNodeSelector",
            Self::DropNodeAffinity => "DropNodeAffinity",
            Self::Uncordon(_) => "Uncordon",
            Self::ScaleDown { .. } => "ScaleDown",
            Self::RaisePriority { .. } => "RaisePriority",
            Self::AddNodeLike(_) => "AddNodeLike",
        }
    }

    /// How large the change is, as documented at [`Suggestion`](crate::Suggestion).
    pub(super) fn size(&self) -> u32 {
        match self {
            Self::LowerRequest { from, less, .. } => {
                let less = i128::from(*less);
                let percent = (less * 100).div_euclid(i128::from(*from).max(1)).clamp(1, 100);
                u32::try_from(percent).unwrap_or(100)
            }
            Self::Tolerate(_) => 20,
            Self::DropSpreadConstraint { .. } => 30,
            Self::DropPodAffinityTerm { .. } => 32,
            Self::DropPodAffinity => 35,
            Self::DropPodAntiAffinityTerm { .. } | Self::DropHostPort(_) => 38,
            Self::DropPodAntiAffinity | Self::DropHostPorts | Self::DropNodeSelectorLabel(_) => 40,
            Self::DropNodeSelector | Self::DropNodeAffinity => 45,
            Self::Uncordon(_) => 50,
            Self::ScaleDown { pods, .. } => {
                u32::try_from(pods.len()).unwrap_or(u32::MAX).saturating_mul(5).saturating_add(55)
            }
            Self::RaisePriority { .. } => 60,
            Self::AddNodeLike(_) => 80,
        }
    }

    /// The same without amounts and nodes: of those with the same kind, the smallest that helps is enough.
    pub(super) fn kind(&self) -> Self {
        match self {
            Self::LowerRequest { resource, .. } => {
                Self::LowerRequest { resource: resource.clone(), less: 0, from: 0 }
            }
            Self::Uncordon(_) => Self::Uncordon("".into()),
            Self::ScaleDown { workload, .. } => {
                Self::ScaleDown { workload: workload.clone(), pods: Arc::default() }
            }
            Self::RaisePriority { .. } => Self::RaisePriority { from: 0, to: 0 },
            Self::AddNodeLike(_) => Self::AddNodeLike("".into()),
            other => other.clone(),
        }
    }

    pub(super) const fn may_evict(&self) -> bool {
        matches!(self, Self::RaisePriority { .. })
    }

    /// The changes, if they are of the cluster.
    pub(super) fn of_cluster(&self) -> Vec<Change> {
        match self {
            Self::Uncordon(node) => vec![Change::Uncordon(node.clone())],
            Self::AddNodeLike(node) => vec![Change::AddNodesLike { node: node.clone(), count: 1 }],
            Self::ScaleDown { pods, .. } => pods.iter().cloned().map(Change::DeletePod).collect(),
            _ => Vec::new(),
        }
    }

    /// Makes the change, if it is one of the pod.
    pub(super) fn apply_to(&self, pod: &mut Pod) {
        let mut spec: PodSpec = (*pod.spec).clone();
        match self {
            Self::LowerRequest { resource, from, less } => {
                *pod = with_request(pod, resource, from.saturating_sub(*less));
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
            Self::DropSpreadConstraint { topology_key } => {
                let all = spec.topology_spread_constraints.iter();
                let others = all.filter(|one| !is_hard(one) || one.topology_key != *topology_key);
                spec.topology_spread_constraints = others.cloned().collect();
            }
            Self::DropPodAffinityTerm { at, .. } => {
                spec.pod_affinity = without_term(spec.pod_affinity.as_deref(), *at);
            }
            Self::DropPodAffinity => spec.pod_affinity = None,
            Self::DropPodAntiAffinityTerm { at, .. } => {
                spec.pod_anti_affinity = without_term(spec.pod_anti_affinity.as_deref(), *at);
            }
            Self::DropPodAntiAffinity => spec.pod_anti_affinity = None,
            Self::DropHostPort(port) => {
                let others = spec.host_ports.iter().filter(|other| *other != port);
                spec.host_ports = others.cloned().collect();
                let is_left = |number: &&i32| {
                    **number != port.port
                        || spec.host_ports.iter().any(|left| left.port == **number)
                };
                spec.host_port_numbers =
                    spec.host_port_numbers.iter().filter(is_left).copied().collect();
            }
            Self::DropHostPorts => {
                spec.host_ports = Arc::default();
                spec.host_port_numbers = Arc::default();
            }
            Self::DropNodeSelectorLabel(key) => {
                spec.node_selector = spec.node_selector.map(|labels| without_key(&labels, key));
            }
            Self::DropNodeSelector => spec.node_selector = None,
            Self::DropNodeAffinity => {
                spec.node_affinity = spec
                    .node_affinity
                    .as_deref()
                    .map(|affinity| Arc::new(NodeAffinity { required: None, ..affinity.clone() }));
            }
            Self::RaisePriority { to, .. } => {
                spec.priority = Some(*to);
                spec.never_preempts = false;
            }
            Self::Uncordon(_) | Self::ScaleDown { .. } | Self::AddNodeLike(_) => {}
        }
        pod.spec = Arc::new(spec);
    }
}

/// Whether a constraint can reject a node.
pub(super) fn is_hard(constraint: &kube_scheduler_api_types::TopologySpreadConstraint) -> bool {
    constraint.when_unsatisfiable == kube_scheduler_api_types::WhenUnsatisfiable::DoNotSchedule
}

fn without_key(labels: &Labels, key: &str) -> Labels {
    let others = labels.iter_shared().filter(|(known, _)| ***known != *key);
    others.map(|(key, value)| (key.into_owned(), value.into_owned())).collect()
}

/// The affinity without one of its required terms.
fn without_term(affinity: Option<&PodAffinity>, dropped: usize) -> Option<Arc<PodAffinity>> {
    let affinity = affinity?;
    let others = affinity.required.iter().enumerate().filter(|(at, _)| *at != dropped);
    let required: Arc<[_]> = others.map(|(_, term)| term.clone()).collect();
    let n_required_given = required.len();
    Some(Arc::new(PodAffinity { required, n_required_given, ..affinity.clone() }))
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LowerRequest { resource, from, less } => {
                let to = from.saturating_sub(*less);
                let (to, from) = (quantity(resource, to), quantity(resource, *from));
                write!(f, "request {to} of {resource} instead of {from}")
            }
            Self::Tolerate(Taint { key, value, effect }) => {
                let sign = if value.is_empty() { "" } else { "=" };
                write!(f, "tolerate the taint {key}{sign}{value}:{}", effect.as_str())
            }
            Self::DropSpreadConstraint { topology_key } => {
                write!(f, "drop the topology spread constraint over {topology_key}")
            }
            Self::DropPodAffinityTerm { at, topology_key } => {
                write!(f, "drop pod affinity term {} over {topology_key}", at + 1)
            }
            Self::DropPodAffinity => f.write_str("drop pod affinity"),
            Self::DropPodAntiAffinityTerm { at, topology_key } => {
                write!(f, "drop pod anti-affinity term {} over {topology_key}", at + 1)
            }
            Self::DropPodAntiAffinity => f.write_str("drop pod anti-affinity"),
            Self::DropHostPort(HostPort { protocol, port, .. }) => {
                write!(f, "drop host port {port}/{protocol}")
            }
            Self::DropHostPorts => f.write_str("drop host ports"),
            Self::DropNodeSelectorLabel(key) => write!(f, "drop {key} from nodeSelector"),
            Self::DropNodeSelector => f.write_str("drop nodeSelector"),
            Self::DropNodeAffinity => f.write_str("drop the required node affinity"),
            Self::Uncordon(node) => write!(f, "uncordon node {node}"),
            Self::ScaleDown { workload, pods } => {
                write!(f, "{} fewer of {workload}", count(pods.len(), "pod"))
            }
            Self::RaisePriority { from, to } => write!(f, "priority {to} instead of {from}"),
            Self::AddNodeLike(node) => write!(f, "one more node like {node}"),
        }
    }
}
