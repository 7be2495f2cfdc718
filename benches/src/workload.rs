//! The workloads of the reference figures: same nodes, same pods, same numbers.

use std::sync::Arc;

use anyhow::{Context, Result};
use kube_scheduler_api_types::{Node, Pod};
use serde_json::{Value, json};

/// One workload: what is there before, and what is measured.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// The name, as the reference's benchmark has it.
    pub name: &'static str,
    /// The question it answers.
    pub question: &'static str,
    /// How many pods are placed first, unmeasured.
    pub n_init: usize,
    /// How many pods are measured.
    pub n_measured: usize,
    /// Whether the measured pods can be placed at all.
    pub is_schedulable: bool,
    shape: Shape,
}

#[derive(Clone, Copy, Debug)]
enum Shape {
    Plain,
    NodeAffinity,
    Unschedulable,
    EveryPodDifferent,
    Preempting,
    /// Every measured pod has one constraint over three zones, with this action.
    Spreading {
        when_unsatisfiable: &'static str,
    },
    /// Labelled with a colour, and with this list of terms about pods of that colour by this topology key.
    Coloured {
        colour: &'static str,
        affinity: &'static str,
        list: &'static str,
        key: &'static str,
    },
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// All workloads that the plugins so far allow.
pub const WORKLOADS: [Workload; 10] = [
    Workload {
        name: "SchedulingBasic",
        question: "how fast are plain pods placed?",
        n_init: 1_000,
        n_measured: 10_000,
        is_schedulable: true,
        shape: Shape::Plain,
    },
    Workload {
        name: "SchedulingNodeAffinity",
        question: "what does a required node affinity cost?",
        n_init: 5_000,
        n_measured: 5_000,
        is_schedulable: true,
        shape: Shape::NodeAffinity,
    },
    Workload {
        name: "TopologySpreading",
        question: "what does it cost to keep pods spread over zones?",
        n_init: 5_000,
        n_measured: 5_000,
        is_schedulable: true,
        shape: Shape::Spreading { when_unsatisfiable: "DoNotSchedule" },
    },
    Workload {
        name: "PreferredTopologySpreading",
        question: "what does it cost to prefer zones with fewer pods?",
        n_init: 5_000,
        n_measured: 5_000,
        is_schedulable: true,
        shape: Shape::Spreading { when_unsatisfiable: "ScheduleAnyway" },
    },
    Workload {
        name: "Unschedulable",
        question: "how fast is a pod refused that fits nowhere?",
        n_init: 1_000,
        n_measured: 1_000,
        is_schedulable: false,
        shape: Shape::Unschedulable,
    },
    Workload {
        name: "EveryPodDifferent",
        question: "how fast are pods placed that share nothing with each other?",
        n_init: 1_000,
        n_measured: 2_000,
        is_schedulable: true,
        shape: Shape::EveryPodDifferent,
    },
    Workload {
        name: "PreemptionBasic",
        question: "how long does it take to find out whom to evict for a pod?",
        n_init: 20_000,
        n_measured: 1_000,
        is_schedulable: true,
        shape: Shape::Preempting,
    },
    Workload {
        name: "SchedulingPodAntiAffinity",
        question: "what does it cost that no two pods of a kind may share a node?",
        n_init: 1_000,
        n_measured: 2_000,
        is_schedulable: true,
        shape: Shape::Coloured {
            colour: "green",
            affinity: "podAntiAffinity",
            list: REQUIRED,
            key: "kubernetes.io/hostname",
        },
    },
    Workload {
        name: "SchedulingPodAffinity",
        question: "what does it cost that all pods of a kind must share a zone?",
        n_init: 5_000,
        n_measured: 5_000,
        is_schedulable: true,
        shape: Shape::Coloured {
            colour: "blue",
            affinity: "podAffinity",
            list: REQUIRED,
            key: "topology.kubernetes.io/zone",
        },
    },
    Workload {
        name: "SchedulingPreferredPodAffinity",
        question: "what does it cost that pods of a kind would like to share a node?",
        n_init: 5_000,
        n_measured: 5_000,
        is_schedulable: true,
        shape: Shape::Coloured {
            colour: "red",
            affinity: "podAffinity",
            list: PREFERRED,
            key: "kubernetes.io/hostname",
        },
    },
];

impl Workload {
    /// The nodes: 4 CPU, 32 GiB, 110 pods each, all in one zone unless pods are spread over zones.
    pub fn nodes(&self, n: usize) -> Result<Vec<Arc<Node>>> {
        (0..n)
            .map(|at| {
                let resources = json!({"cpu": "4", "memory": "32Gi", "pods": "110"});
                let zone = match self.shape {
                    Shape::Spreading { .. } => ["moon-1", "moon-2", "moon-3"][at % 3],
                    _ => "zone1",
                };
                let node = json!({
                    "metadata": {
                        "name": format!("node-{at:06}"),
                        "uid": format!("node-uid-{at}"),
                        "labels": {
                            "kubernetes.io/hostname": format!("node-{at:06}"),
                            "topology.kubernetes.io/zone": zone,
                        },
                    },
                    "status": {"capacity": resources, "allocatable": resources},
                });
                Node::from_value(&node).map(Arc::new).context("node")
            })
            .collect()
    }

    /// Whether the measured pods have to evict others first. The time measured is that of the attempts that find their
    /// victims.
    pub const fn preempts(&self) -> bool {
        matches!(self.shape, Shape::Preempting)
    }

    /// The pods that are placed first, or run already on `n_nodes` nodes.
    pub fn init_pods(&self, n_nodes: usize) -> Result<Vec<Arc<Pod>>> {
        if self.preempts() {
            let running = |at: usize| {
                let mut spec = spec("900m", "500Mi");
                spec["nodeName"] = format!("node-{:06}", at % n_nodes).into();
                // Every node has pods of several priorities, and not the same ones as its neighbour.
                spec["priority"] = (at * 7 % 5).into();
                pod("init", at, spec)
            };
            // Four to a node: a fifth one does not fit.
            return (0..self.n_init.min(n_nodes * 4)).map(running).collect();
        }
        if let Shape::Coloured { .. } = self.shape {
            return (0..self.n_init).map(|at| self.coloured_pod("init", "sched-0", at)).collect();
        }
        (0..self.n_init).map(|at| pod("init", at, spec("100m", "500Mi"))).collect()
    }

    /// The pods that are measured.
    pub fn measured_pods(&self) -> Result<Vec<Arc<Pod>>> {
        (0..self.n_measured)
            .map(|at| {
                let mut spec = match self.shape {
                    Shape::Coloured { .. } => return self.coloured_pod("measured", "sched-1", at),
                    Shape::Plain | Shape::NodeAffinity | Shape::Spreading { .. } => {
                        spec("100m", "500Mi")
                    }
                    Shape::Unschedulable => spec("9", "500Mi"),
                    Shape::Preempting => spec("3", "500Mi"),
                    // Odd multipliers keep neighbours apart without a random generator.
                    Shape::EveryPodDifferent => {
                        spec(&format!("{}m", 50 + at * 7 % 100), &format!("{}Ki", 100_000 + at * 37 % 400_000))
                    }
                };
                if self.preempts() {
                    spec["priority"] = 10.into();
                }
                if matches!(self.shape, Shape::NodeAffinity) {
                    spec["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{
                            "key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone1", "zone2"],
                        }]}],
                    }}});
                }
                let mut pod = pod_json("measured", at, spec);
                if let Shape::Spreading { when_unsatisfiable } = self.shape {
                    let labels = json!({"color": "blue"});
                    pod["spec"]["topologySpreadConstraints"] = json!([{
                        "maxSkew": 5,
                        "topologyKey": "topology.kubernetes.io/zone",
                        "whenUnsatisfiable": when_unsatisfiable,
                        "labelSelector": {"matchLabels": labels},
                    }]);
                    pod["metadata"]["labels"] = labels;
                }
                Pod::from_value(&pod).map(Arc::new).context("pod")
            })
            .collect()
    }
}

impl Workload {
    /// A pod with the terms of its colour; the two namespaces of the workload see each other.
    fn coloured_pod(&self, group: &str, namespace: &str, at: usize) -> Result<Arc<Pod>> {
        let Shape::Coloured { colour, affinity, list, key } = self.shape else {
            return pod(group, at, spec("100m", "500Mi"));
        };
        let mut term = json!({
            "labelSelector": {"matchLabels": {"color": colour}},
            "topologyKey": key,
            "namespaces": ["sched-1", "sched-0"],
        });
        if list == PREFERRED {
            term = json!({"weight": 1, "podAffinityTerm": term});
        }
        let mut spec = spec("100m", "500Mi");
        spec["affinity"] = json!({affinity: {list: [term]}});
        let mut pod = pod_json(group, at, spec);
        pod["metadata"]["namespace"] = namespace.into();
        pod["metadata"]["labels"] = json!({"color": colour});
        Pod::from_value(&pod).map(Arc::new).context("pod")
    }
}

fn spec(cpu: &str, memory: &str) -> Value {
    json!({
        "schedulerName": "default-scheduler",
        "containers": [{
            "name": "pause",
            "image": "registry.k8s.io/pause:3.10",
            "resources": {"requests": {"cpu": cpu, "memory": memory}},
        }],
    })
}

fn pod(group: &str, at: usize, spec: Value) -> Result<Arc<Pod>> {
    Pod::from_value(&pod_json(group, at, spec)).map(Arc::new).context("pod")
}

fn pod_json(group: &str, at: usize, spec: Value) -> Value {
    json!({
        "metadata": {
            "name": format!("{group}-{at}"),
            "namespace": "default",
            "uid": format!("{group}-uid-{at}"),
            "resourceVersion": "1",
        },
        "spec": spec,
        "status": {"phase": "Pending"},
    })
}
