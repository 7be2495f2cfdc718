//! What comes and goes while pods are placed: one node without room, one pod that fits nowhere, one service.
//!
//! The reference's benchmark adds or removes them once a second, whatever the speed. Here it happens by count, so that every
//! run sees the same: once every hundred pods, which is three times as often as the reference meets it at its best.

use std::sync::Arc;

use anyhow::Result;
use kube_scheduler_api_types::{Node, Object, Pod};
use kube_scheduler_engine::{Input, PodRef};
use serde_json::json;

use crate::template::{Template, uid};
use crate::workload::object;

/// Pods between two changes.
const INTERVAL: usize = 100;

const POD: &str = "pod-churn";

/// What comes and goes.
#[derive(Debug)]
pub(crate) struct Churn {
    node: Arc<Node>,
    pod: Arc<Pod>,
    service: Arc<Object>,
    is_there: bool,
    last: usize,
}

impl Churn {
    pub(crate) fn new() -> Result<Self> {
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
            is_there: false,
            last: 0,
        })
    }

    /// Whether a pod is the one that comes and goes.
    pub(crate) fn owns(pod: &PodRef) -> bool {
        &*pod.name == POD
    }

    /// What happens after so many pods.
    pub(crate) fn inputs(&mut self, n_pods: usize) -> Vec<Input> {
        if n_pods / INTERVAL == self.last {
            return Vec::new();
        }
        self.last = n_pods / INTERVAL;
        self.is_there = !self.is_there;
        if self.is_there {
            vec![
                Input::NodeApplied(self.node.clone()),
                Input::PodApplied(self.pod.clone()),
                Input::ObjectApplied(self.service.clone()),
            ]
        } else {
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
}
