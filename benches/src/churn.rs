//! Changes of the cluster while pods are placed.
//!
//! The reference's benchmark changes something once a second, whatever the speed. Here it happens by count, so that every
//! run sees the same: once every hundred pods, which is three times as often as the reference meets it at its best.

use std::sync::Arc;

use anyhow::Result;
use kube_scheduler_api_types::{Node, Object, Pod};
use kube_scheduler_engine::{Input, PodRef};
use serde_json::json;

use crate::devices::Devices;
use crate::template::{Template, uid};
use crate::workload::{ChurnKind, NodeShape, Workload, object};

/// Pods between two changes.
const INTERVAL: usize = 100;

const POD: &str = "pod-churn";

/// The changes of one run.
#[derive(Debug)]
pub(crate) struct Churn {
    what: ChurnTarget,
    /// How many changes there were.
    n: usize,
}

#[derive(Debug)]
enum ChurnTarget {
    Nothing,
    Cluster(Box<Passengers>),
    /// The devices of this many nodes.
    Slices(Devices, usize),
}

/// One node without room, one pod that fits nowhere, one service.
#[derive(Debug)]
struct Passengers {
    node: Arc<Node>,
    pod: Arc<Pod>,
    service: Arc<Object>,
}

impl Churn {
    /// No change yet.
    pub(crate) fn new(workload: &Workload, n_nodes: usize) -> Result<Self> {
        let what = match (workload.churn, workload.nodes) {
            (ChurnKind::Cluster, _) => ChurnTarget::Cluster(Box::new(Passengers::new()?)),
            (ChurnKind::Slices, NodeShape::WithDevices(devices)) => {
                ChurnTarget::Slices(devices, n_nodes)
            }
            _ => ChurnTarget::Nothing,
        };
        Ok(Self { what, n: 0 })
    }

    /// Whether a pod is the one that comes and goes.
    pub(crate) fn owns(pod: &PodRef) -> bool {
        &*pod.name == POD
    }

    /// What happens after this many pods.
    pub(crate) fn inputs(&mut self, n_pods: usize) -> Result<Vec<Input>> {
        if n_pods / INTERVAL == self.n {
            return Ok(Vec::new());
        }
        self.n = n_pods / INTERVAL;
        Ok(match &self.what {
            ChurnTarget::Nothing => Vec::new(),
            ChurnTarget::Cluster(passengers) if self.n % 2 == 1 => passengers.come(),
            ChurnTarget::Cluster(passengers) => passengers.go(),
            ChurnTarget::Slices(devices, n_nodes) => {
                let slices = devices.slices(self.n % n_nodes, 1 + self.n)?;
                slices.into_iter().map(Input::ObjectApplied).collect()
            }
        })
    }
}

impl Passengers {
    fn new() -> Result<Self> {
        let node = json!({
            "metadata": {
                "name": "node-churn", "uid": uid("node-churn"), "resourceVersion": "1",
                "labels": {"kubernetes.io/hostname": "node-churn"},
            },
            "status": {
                "capacity": {"pods": "0"}, "allocatable": {"pods": "0"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        });
        let service = object(json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {
                "name": "service-churn", "namespace": "default", "uid": uid("service-churn"), "resourceVersion": "1",
            },
            "spec": {
                "selector": {"app": "foo"},
                "ports": [{"protocol": "TCP", "port": 8080, "targetPort": 8080}],
            },
        }))?;
        Ok(Self {
            node: Arc::new(Node::from_value(&node)?),
            pod: Arc::new(Pod::from_value(&Template::LargeCpu.pod("default", POD, 0))?),
            service,
        })
    }

    fn come(&self) -> Vec<Input> {
        vec![
            Input::NodeApplied(self.node.clone()),
            Input::PodApplied(self.pod.clone()),
            Input::ObjectApplied(self.service.clone()),
        ]
    }

    fn go(&self) -> Vec<Input> {
        vec![
            Input::NodeDeleted { name: self.node.name.clone() },
            Input::PodDeleted {
                namespace: self.pod.namespace.clone(),
                name: self.pod.name.clone(),
            },
            Input::ObjectDeleted(self.service.clone()),
        ]
    }
}
