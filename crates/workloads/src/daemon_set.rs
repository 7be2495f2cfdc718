//! DaemonSets: a pod for every node that it may run on.

use kube_scheduler_api_types::well_known::UNSCHEDULABLE_TAINT;
use kube_scheduler_api_types::{Node, Pod, required_node_affinity_matches, untolerated_taint};
use serde_json::{Value, json};

use crate::controller::{Controller, PodNaming, template_hash};
use crate::json::{child_mut, labels_mut, list_mut, map_mut};
use crate::stateful_set::REVISION;

/// Taints that pods of DaemonSets tolerate, and their effects.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    (UNSCHEDULABLE_TAINT, "NoSchedule"),
];

/// Which nodes get a pod.
#[derive(Debug)]
pub struct Eligibility {
    /// A pod of the template; `None` if the template makes no valid pod.
    pod: Option<Pod>,
}

impl Eligibility {
    /// The nodes that the template of `set` asks for and whose taints it tolerates.
    pub fn new(set: &Controller<'_>) -> Self {
        let mut pod = set.pod(PodNaming::Exactly(set.name));
        tolerate(&mut pod);
        Self { pod: Pod::from_value(&pod).ok() }
    }

    /// Whether `node` gets a pod, as far as selectors and taints decide. The room on the node is not checked.
    pub fn includes(&self, node: &Node) -> bool {
        self.pod.as_ref().is_some_and(|pod| {
            required_node_affinity_matches(pod, node).unwrap_or(false)
                && untolerated_taint(&node.taints, &pod.spec.tolerations, false).is_none()
        })
    }
}

/// The pod for the node of this name.
pub fn pod(set: &Controller<'_>, node: &str) -> Value {
    let mut pod = set.pod(PodNaming::Generated);
    labels_mut(&mut pod).insert(REVISION.into(), template_hash(set.template()).into());
    tolerate(&mut pod);
    let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    let affinity = map_mut(child_mut(&mut pod, "spec").entry("affinity").or_insert(Value::Null));
    let required = map_mut(affinity.entry("nodeAffinity").or_insert(Value::Null))
        .entry("requiredDuringSchedulingIgnoredDuringExecution")
        .or_insert(Value::Null);
    // The node has been checked against the template's own terms, so it replaces them.
    *required = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
    pod
}

fn tolerate(pod: &mut Value) {
    let tolerations = list_mut(child_mut(pod, "spec"), "tolerations");
    for (key, effect) in TOLERATED {
        let toleration = json!({"key": key, "operator": "Exists", "effect": effect});
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    }
}
