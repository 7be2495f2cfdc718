//! Changes that may make a pod fit: how large each is, how it is made, and how it is called.

use std::fmt;
use std::sync::Arc;

use kube_scheduler_api_types::{
    HostPort, Labels, NodeAffinity, Object, Pod, PodAffinity, PodSpec, Taint, Toleration,
    TolerationOperator, TopologySpreadConstraint, WhenUnsatisfiable,
};
use kube_scheduler_framework::ObjectStore;

use super::devices::{DeviceChange, of_devices};
use super::min_count::with_min_count;
use super::volumes::{VolumeChange, of_volumes};
use crate::amounts::{beside_overhead, quantity, with_request, written_overhead};
use crate::format::count;
use crate::pod_name::PodName;
use crate::what_if::Change;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Candidate {
    /// `from` is what containers ask for together, to which overhead is added. `less` is exact if it is what a node lacks;
    /// otherwise it is the most that may be tried.
    LowerRequest {
        resource: Arc<str>,
        less: i64,
        from: i64,
        overhead: i64,
        is_exact: bool,
    },
    Tolerate(Taint),
    RaiseMaxSkew {
        topology_key: Arc<str>,
        from: i32,
        by: i64,
    },
    SoftenSpreadConstraint {
        topology_key: Arc<str>,
    },
    DropSpreadConstraint {
        topology_key: Arc<str>,
    },
    DropPodAffinityTerm {
        at: usize,
        topology_key: Arc<str>,
    },
    DropPodAffinity,
    DropPodAntiAffinityTerm {
        at: usize,
        topology_key: Arc<str>,
    },
    DropPodAntiAffinity,
    DropHostPort(HostPort),
    DropHostPorts,
    DropNodeSelectorLabel(Arc<str>),
    DropNodeSelector,
    DropNodeAffinity,
    OfDevices(DeviceChange),
    OfVolumes(VolumeChange),
    Uncordon(Arc<str>),
    ScaleDown {
        workload: Arc<str>,
        pods: Arc<[PodName]>,
    },
    RaisePriority {
        from: i32,
        to: i32,
    },
    AddNodesLike {
        node: Arc<str>,
        count: usize,
    },
    LowerMinCount {
        namespace: Arc<str>,
        group: Arc<str>,
        from: i64,
        by: i64,
    },
}

impl Candidate {
    pub(super) const fn code(&self) -> &'static str {
        match self {
            Self::LowerRequest { .. } => "LowerRequest",
            Self::Tolerate(_) => "Tolerate",
            Self::RaiseMaxSkew { .. } => "RaiseMaxSkew",
            Self::SoftenSpreadConstraint { .. } => "SoftenSpreadConstraint",
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
            Self::OfDevices(change) => change.code(),
            Self::OfVolumes(change) => change.code(),
            Self::Uncordon(_) => "Uncordon",
            Self::ScaleDown { .. } => "ScaleDown",
            Self::RaisePriority { .. } => "RaisePriority",
            Self::AddNodesLike { .. } => "AddNodeLike",
            Self::LowerMinCount { .. } => "LowerMinCount",
        }
    }

    /// How large the change is, as documented at [`Suggestion`](crate::Suggestion).
    pub(super) fn size(&self) -> u32 {
        match self {
            Self::LowerRequest { from, less, .. } => percent(*less, *from),
            Self::Tolerate(_) => 20,
            Self::RaiseMaxSkew { by, .. } => 20 + u32::try_from(*by).unwrap_or(9).min(9),
            Self::SoftenSpreadConstraint { .. } | Self::DropSpreadConstraint { .. } => 30,
            Self::OfDevices(change) => change.size(),
            Self::OfVolumes(change) => change.size(),
            Self::DropPodAffinityTerm { .. } => 32,
            Self::DropPodAffinity => 35,
            Self::DropPodAntiAffinityTerm { .. } | Self::DropHostPort(_) => 38,
            Self::DropPodAntiAffinity | Self::DropHostPorts | Self::DropNodeSelectorLabel(_) => 40,
            Self::DropNodeSelector | Self::DropNodeAffinity => 45,
            Self::Uncordon(_) => 50,
            Self::ScaleDown { pods, .. } => {
                u32::try_from(pods.len()).unwrap_or(u32::MAX).saturating_mul(5).saturating_add(55)
            }
            Self::LowerMinCount { by, .. } => {
                u32::try_from(*by).unwrap_or(u32::MAX).saturating_mul(5).saturating_add(55)
            }
            Self::RaisePriority { .. } => 60,
            Self::AddNodesLike { count, .. } => {
                let further = count.saturating_sub(1);
                u32::try_from(further).unwrap_or(u32::MAX).saturating_mul(10).saturating_add(80)
            }
        }
    }

    /// The change without amounts and nodes: of those with the same kind, the smallest that helps is enough.
    pub(super) fn kind(&self) -> Self {
        match self {
            Self::LowerRequest { resource, .. } => Self::LowerRequest {
                resource: resource.clone(),
                less: 0,
                from: 0,
                overhead: 0,
                is_exact: true,
            },
            Self::OfVolumes(change) => Self::OfVolumes(change.kind()),
            Self::Uncordon(_) => Self::Uncordon("".into()),
            Self::ScaleDown { workload, .. } => {
                Self::ScaleDown { workload: workload.clone(), pods: Arc::default() }
            }
            Self::RaisePriority { .. } => Self::RaisePriority { from: 0, to: 0 },
            Self::AddNodesLike { .. } => Self::AddNodesLike { node: "".into(), count: 0 },
            other => other.clone(),
        }
    }

    pub(super) const fn may_evict(&self) -> bool {
        matches!(self, Self::RaisePriority { .. })
    }

    /// The greatest amount that may be worth a trial, if it takes trials to know how much helps; each smaller one, down to 1, is a
    /// smaller change.
    pub(super) fn most(&self) -> Option<i64> {
        match self {
            Self::RaiseMaxSkew { by, .. } | Self::LowerMinCount { by, .. } => Some(*by),
            Self::LowerRequest { less, is_exact: false, .. } => Some(*less),
            Self::AddNodesLike { count, .. } => {
                i64::try_from(*count).ok().filter(|count| *count > 1)
            }
            Self::OfDevices(change) => change.most(),
            _ => None,
        }
    }

    /// The change by another amount, if it is one by an amount that has to be tried.
    pub(super) fn by(&self, amount: i64) -> Self {
        match self {
            Self::RaiseMaxSkew { topology_key, from, .. } => {
                Self::RaiseMaxSkew { topology_key: topology_key.clone(), from: *from, by: amount }
            }
            Self::OfDevices(change) => Self::OfDevices(change.by(amount)),
            Self::LowerRequest { resource, from, overhead, is_exact: false, .. } => {
                Self::LowerRequest {
                    resource: resource.clone(),
                    less: amount,
                    from: *from,
                    overhead: *overhead,
                    is_exact: false,
                }
            }
            Self::AddNodesLike { node, .. } => Self::AddNodesLike {
                node: node.clone(),
                count: usize::try_from(amount).unwrap_or(1),
            },
            Self::LowerMinCount { namespace, group, from, .. } => Self::LowerMinCount {
                namespace: namespace.clone(),
                group: group.clone(),
                from: *from,
                by: amount,
            },
            other => other.clone(),
        }
    }

    /// Whether it changes objects that the pod uses, or its group.
    pub(super) const fn is_of_objects(&self) -> bool {
        matches!(self, Self::OfDevices(_) | Self::OfVolumes(_) | Self::LowerMinCount { .. })
    }

    /// Whether it changes the pod itself.
    pub(super) const fn is_of_pod(&self) -> bool {
        !self.is_of_objects()
            && !matches!(
                self,
                Self::Uncordon(_) | Self::ScaleDown { .. } | Self::AddNodesLike { .. }
            )
    }

    /// The object that the pod uses, or its group, as it is after the change; `None` for other changes.
    pub(super) fn object(&self, objects: &ObjectStore) -> Option<Object> {
        match self {
            Self::OfDevices(change) => of_devices(change, objects),
            Self::OfVolumes(change) => of_volumes(change, objects),
            Self::LowerMinCount { namespace, group, from, by } => {
                with_min_count(objects, namespace, group, from.saturating_sub(*by))
            }
            _ => None,
        }
    }

    /// The changes, if they are of the cluster.
    pub(super) fn of_cluster(&self) -> Vec<Change> {
        match self {
            Self::Uncordon(node) => vec![Change::Uncordon(node.clone())],
            Self::AddNodesLike { node, count } => {
                vec![Change::AddNodesLike { node: node.clone(), count: *count }]
            }
            Self::ScaleDown { pods, .. } => pods.iter().cloned().map(Change::DeletePod).collect(),
            _ => Vec::new(),
        }
    }

    /// Makes the change, if it is one of the pod.
    pub(super) fn apply_to(&self, pod: &mut Pod) {
        let mut spec: PodSpec = (*pod.spec).clone();
        match self {
            Self::LowerRequest { resource, from, less, overhead, .. } => {
                let total = from.saturating_sub(*less).saturating_add(*overhead);
                *pod = with_request(pod, resource, total);
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
            Self::RaiseMaxSkew { .. }
            | Self::SoftenSpreadConstraint { .. }
            | Self::DropSpreadConstraint { .. } => self.apply_to_spreading(&mut spec),
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
            }
            Self::OfDevices(_)
            | Self::OfVolumes(_)
            | Self::Uncordon(_)
            | Self::ScaleDown { .. }
            | Self::LowerMinCount { .. }
            | Self::AddNodesLike { .. } => {}
        }
        pod.spec = Arc::new(spec);
    }

    /// Makes the change, if it is one of a spread constraint.
    fn apply_to_spreading(&self, spec: &mut PodSpec) {
        let all = spec.topology_spread_constraints.iter();
        let is_meant = |one: &TopologySpreadConstraint, key: &Arc<str>| {
            is_hard(one) && one.topology_key == *key
        };
        let changed = all.filter_map(|one| {
            let mut one = one.clone();
            match self {
                Self::RaiseMaxSkew { topology_key, from, by } if is_meant(&one, topology_key) => {
                    let to = i64::from(*from).saturating_add(*by);
                    one.max_skew = i32::try_from(to).unwrap_or(i32::MAX);
                }
                Self::SoftenSpreadConstraint { topology_key } if is_meant(&one, topology_key) => {
                    one.when_unsatisfiable = WhenUnsatisfiable::ScheduleAnyway;
                }
                Self::DropSpreadConstraint { topology_key } if is_meant(&one, topology_key) => {
                    return None;
                }
                _ => {}
            }
            Some(one)
        });
        spec.topology_spread_constraints = changed.collect();
    }
}

/// Whether a constraint can reject a node.
pub(super) fn is_hard(constraint: &TopologySpreadConstraint) -> bool {
    constraint.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule
}

/// How much smaller an amount becomes, in percent of what it was, at least 1.
pub(super) fn percent(less: i64, from: i64) -> u32 {
    let percent = (i128::from(less) * 100).div_euclid(i128::from(from).max(1)).clamp(1, 100);
    u32::try_from(percent).unwrap_or(100)
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
            Self::LowerRequest { resource, from, less, overhead, .. } => {
                let to = from.saturating_sub(*less);
                let (to, from) = (quantity(resource, to), quantity(resource, *from));
                let beside = beside_overhead(written_overhead(resource, *overhead).as_deref());
                write!(f, "request {to} of {resource} instead of {from}{beside}")
            }
            Self::Tolerate(Taint { key, value, effect }) => {
                let sign = if value.is_empty() { "" } else { "=" };
                write!(f, "tolerate the taint {key}{sign}{value}:{}", effect.as_str())
            }
            Self::RaiseMaxSkew { topology_key, from, by } => {
                let to = i64::from(*from).saturating_add(*by);
                let constraint = "topology spread constraint";
                write!(f, "maxSkew {to} instead of {from} in the {constraint} over {topology_key}")
            }
            Self::SoftenSpreadConstraint { topology_key } => write!(
                f,
                "ScheduleAnyway instead of DoNotSchedule in the topology spread constraint over {topology_key}"
            ),
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
            Self::OfDevices(change) => change.fmt(f),
            Self::OfVolumes(change) => change.fmt(f),
            Self::Uncordon(node) => write!(f, "uncordon node {node}"),
            Self::ScaleDown { workload, pods } => {
                write!(f, "{} fewer of {workload}", count(pods.len(), "pod"))
            }
            Self::RaisePriority { from, to } => write!(f, "priority {to} instead of {from}"),
            Self::AddNodesLike { node, count: 1 } => write!(f, "one more node like {node}"),
            Self::AddNodesLike { node, count } => write!(f, "{count} more nodes like {node}"),
            Self::LowerMinCount { from, by, .. } => {
                write!(f, "minCount {} instead of {from} of its group", from.saturating_sub(*by))
            }
        }
    }
}
