//! What the pods of the workloads look like: the templates of the reference's benchmark definitions as JSON.

use serde_json::{Value, json};

use crate::devices::Wish;
use crate::different;

/// The label of namespaces that namespace selectors of the templates select.
pub(crate) const TEAM: (&str, &str) = ("team", "devops");

/// A kind of pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Template {
    /// Asks for 100m CPU and 500Mi; so do all below that say nothing else.
    Plain,
    /// Must run in `zone1` or `zone2`.
    NodeAffinity,
    /// Asks for 50m CPU.
    Small,
    /// Has the labels that a StatefulSet gives each of its pods, other ones for every pod.
    Numbered,
    /// Asks for 9 CPU, at priority 10: fits nowhere.
    LargeCpu,
    /// Asks for 900m CPU, at no priority.
    Low,
    /// Asks for 900m CPU, at one of five priorities below 10.
    FivePriorities,
    /// Asks for 3 CPU, at priority 10.
    High,
    /// One constraint over zones, `maxSkew` 5, with this action.
    Spreading(&'static str),
    /// One term about pods of its own colour.
    Coloured(Term),
    /// Of one of fifty groups in turn; no two pods of a group may share a node.
    FiftyGroups,
    /// Unlike every other pod, made from a seed and its number.
    Different,
    /// Wants devices.
    Claiming(Wish),
}

/// One affinity term, and the colour of those that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// The label `color`.
    pub colour: &'static str,
    /// `podAffinity` or `podAntiAffinity`.
    pub affinity: &'static str,
    /// Required, or preferred with weight 1.
    pub is_required: bool,
    /// The topology key.
    pub key: &'static str,
    /// Which namespaces it looks at.
    pub scope: Scope,
}

/// The namespaces that a term looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// `sched-1` and `sched-0`, by name.
    Named,
    /// All that have the label `team: devops`.
    Labelled,
}

impl Template {
    /// Whether no two such pods fit on one node.
    pub(crate) fn is_exclusive(self) -> bool {
        matches!(
            self,
            Self::Coloured(Term {
                affinity: "podAntiAffinity",
                is_required: true,
                key: "kubernetes.io/hostname",
                ..
            })
        )
    }

    /// Pod number `at`, pending.
    pub(crate) fn pod(self, namespace: &str, name: &str, at: usize) -> Value {
        let mut pod = match self {
            Self::Different => different::pod(at),
            Self::Small => pause("50m", "500Mi"),
            Self::LargeCpu => pause("9", "500Mi"),
            Self::Low | Self::FivePriorities => pause("900m", "500Mi"),
            Self::High => pause("3", "500Mi"),
            _ => pause("100m", "500Mi"),
        };
        match self {
            Self::LargeCpu | Self::High => pod["spec"]["priority"] = 10.into(),
            // Every node has pods of several priorities, and not the same ones as its neighbour.
            Self::FivePriorities => pod["spec"]["priority"] = (at * 7 % 5).into(),
            Self::Numbered => {
                pod["metadata"]["labels"] = json!({
                    "apps.kubernetes.io/pod-index": at.to_string(),
                    "statefulset.kubernetes.io/pod-name": name,
                });
            }
            Self::NodeAffinity => {
                pod["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{
                        "key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone1", "zone2"],
                    }]}],
                }}});
            }
            Self::Spreading(when_unsatisfiable) => {
                pod["metadata"]["labels"] = json!({"color": "blue"});
                pod["spec"]["topologySpreadConstraints"] = json!([{
                    "maxSkew": 5,
                    "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": when_unsatisfiable,
                    "labelSelector": {"matchLabels": {"color": "blue"}},
                }]);
            }
            Self::Coloured(term) => {
                pod["metadata"]["labels"] = json!({"color": term.colour});
                pod["spec"]["affinity"] = term.json();
            }
            Self::FiftyGroups => {
                let group = format!("g{}", at % 50);
                pod["metadata"]["labels"] = json!({"group": group});
                pod["spec"]["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
                    "labelSelector": {"matchLabels": {"group": group}},
                    "topologyKey": "kubernetes.io/hostname",
                }]}});
            }
            Self::Plain | Self::Small | Self::Low | Self::Different | Self::Claiming(_) => {}
        }
        let metadata = &mut pod["metadata"];
        metadata["name"] = name.into();
        metadata["namespace"] = namespace.into();
        metadata["uid"] = uid(name).into();
        metadata["resourceVersion"] = "1".into();
        pod["spec"]["schedulerName"] = "default-scheduler".into();
        pod["status"] = json!({"phase": "Pending"});
        pod
    }
}

impl Term {
    fn json(self) -> Value {
        let mut term = json!({
            "labelSelector": {"matchLabels": {"color": self.colour}},
            "topologyKey": self.key,
        });
        match self.scope {
            Scope::Named => term["namespaces"] = json!(["sched-1", "sched-0"]),
            Scope::Labelled => {
                term["namespaceSelector"] = json!({"matchLabels": {TEAM.0: TEAM.1}});
            }
        }
        let (list, term) = if self.is_required {
            ("requiredDuringSchedulingIgnoredDuringExecution", term)
        } else {
            (
                "preferredDuringSchedulingIgnoredDuringExecution",
                json!({"weight": 1, "podAffinityTerm": term}),
            )
        };
        json!({self.affinity: {list: [term]}})
    }
}

/// As long as a uid of the API server, and the same for the same name.
pub(crate) fn uid(name: &str) -> String {
    let tail = name.rsplit_once('-').map_or(name, |(_, tail)| tail);
    let head =
        name.bytes().fold(0_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte)));
    format!("{head:08x}-0000-4000-8000-{tail:0>12}")
}

/// One container that asks for this.
fn pause(cpu: &str, memory: &str) -> Value {
    let resources = json!({"cpu": cpu, "memory": memory});
    json!({
        "metadata": {},
        "spec": {
            "containers": [{
                "name": "pause",
                "image": "registry.k8s.io/pause:3.10.2",
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "resources": {"limits": resources, "requests": resources},
            }],
        },
    })
}
