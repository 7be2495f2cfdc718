//! What nodes and running pods cost in memory: the growth of the live heap while they are reported to an engine.
//!
//! Bytes are those that were asked of the allocator and not given back; what it rounds up to does not count. Nothing is
//! scheduled: pods come with their node, as they do when a scheduler starts, and share equal parts before, as they do when a
//! watch reports them. Everything counts: identities, resource versions, table entries, the tables of what is shared, and
//! names and labels too, whose text is reported beside it.

use std::sync::Arc;

use anyhow::{Context, Result};
use kube_scheduler_api_types::{Labels, Node, Pod};
use kube_scheduler_engine::{Deduplicator, Input};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::measure::{Conditions, engine};
use crate::template::uid;
use crate::workload::{NewPod, Workload, node_name};

/// Bytes each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Memory {
    /// Live heap per node.
    pub bytes_per_node: f64,
    /// Live heap per running pod.
    pub bytes_per_pod: f64,
    /// Text of a node's name and labels, on average.
    pub text_per_node: f64,
    /// Text of a pod's name and labels, on average.
    pub text_per_pod: f64,
}

/// Whose objects are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// As the workload's templates have them.
    Template,
    /// As in a real cluster: with owners, tolerations, volumes, addresses, conditions and images.
    Real,
}

/// Pods to a node.
const PODS_PER_NODE: usize = 10;

/// Measures a workload's nodes and measured pods; `live` returns the bytes of the live heap.
pub fn memory(
    workload: &Workload,
    n_nodes: usize,
    detail: Detail,
    live: &dyn Fn() -> usize,
) -> Result<Memory> {
    let (mut engine, now) = engine(workload, &Conditions::new(n_nodes))?;
    for namespace in workload.namespaces()? {
        engine.handle(Input::ObjectApplied(namespace), now);
    }
    let mut sharing = Deduplicator::default();
    let before = live();
    let mut node_text = 0;
    for at in 0..n_nodes {
        let mut json = workload.nodes.node(at);
        if detail == Detail::Real {
            add_kubelet_status(&mut json, at);
        }
        let node = Node::from_value(&json).context("node")?;
        node_text += text(&node.name, &node.labels);
        let mut node = Arc::new(node);
        // As a watch does before it reports an object.
        sharing.share_node(&mut node);
        engine.handle(Input::NodeApplied(node), now);
    }
    let with_nodes = live();
    // The claims and volumes of the pods come first, so that they count for neither nodes nor pods.
    let n_pods = n_nodes * PODS_PER_NODE;
    for at in 0..n_pods {
        for object in workload.measured.pod("measured", at, n_pods)?.objects {
            engine.handle(Input::ObjectApplied(object), now);
        }
    }
    let with_objects = live();
    let mut pod_text = 0;
    for at in 0..n_pods {
        let NewPod { json: mut pod, .. } = workload.measured.pod("measured", at, n_pods)?;
        if detail == Detail::Real {
            add_real_spec(&mut pod, at);
        }
        pod["spec"]["nodeName"] = node_name(at % n_nodes).into();
        pod["status"] = running_status(detail, at);
        let pod = Pod::from_value(&pod).context("pod")?;
        pod_text += text(&pod.name, &pod.labels);
        let mut pod = Arc::new(pod);
        sharing.share_pod(&mut pod);
        engine.handle(Input::PodApplied(pod), now);
    }
    let with_pods = live();
    let each = |bytes: f64, n: usize| bytes / n as f64;
    Ok(Memory {
        bytes_per_node: each(growth(before, with_nodes), n_nodes),
        bytes_per_pod: each(growth(with_objects, with_pods), n_pods),
        text_per_node: each(node_text as f64, n_nodes),
        text_per_pod: each(pod_text as f64, n_pods),
    })
}

fn text(name: &str, labels: &Labels) -> usize {
    name.len() + labels.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>()
}

fn growth(before: usize, after: usize) -> f64 {
    after as f64 - before as f64
}

/// What a kubelet and cloud controllers write about a node.
fn add_kubelet_status(node: &mut Value, at: usize) {
    let metadata = &mut node["metadata"];
    metadata["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
    metadata["resourceVersion"] = (1_000_000 + at).to_string().into();
    metadata["annotations"] = json!({
        "csi.volume.kubernetes.io/nodeid": format!("{{\"ebs.csi.aws.com\":\"i-{at:017x}\"}}"),
        "node.alpha.kubernetes.io/ttl": "0",
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
    });
    for (key, value) in [
        ("beta.kubernetes.io/arch", "amd64"),
        ("beta.kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
        ("kubernetes.io/os", "linux"),
        ("node.kubernetes.io/instance-type", "m5.xlarge"),
        ("topology.kubernetes.io/region", "moon"),
    ] {
        metadata["labels"][key] = value.into();
    }
    for resource in ["ephemeral-storage", "hugepages-1Gi", "hugepages-2Mi"] {
        node["status"]["allocatable"][resource] = "0".into();
    }
    node["status"]["conditions"] = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"]
        .into_iter()
        .map(|kind| {
            json!({
                "type": kind,
                "status": if kind == "Ready" { "True" } else { "False" },
                "reason": format!("Kubelet{kind}"),
                "message": "kubelet says so",
                "lastHeartbeatTime": "2026-01-01T00:00:00Z",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        })
        .collect();
    // A kubelet reports up to fifty images; most nodes have most of a cluster's images.
    node["status"]["images"] = (0..30)
        .map(|image| {
            json!({
                "names": [
                    format!("registry.example.com/team/image-{image}@sha256:{image:064x}"),
                    format!("registry.example.com/team/image-{image}:v1.{image}"),
                ],
                "sizeBytes": 50_000_000 + image,
            })
        })
        .collect();
}

/// What controllers and admission add to a pod's specification.
fn add_real_spec(pod: &mut Value, at: usize) {
    let owner = format!("replicaset-{}", at / 50);
    let metadata = &mut pod["metadata"];
    metadata["resourceVersion"] = (2_000_000 + at).to_string().into();
    metadata["creationTimestamp"] = time_of(at).into();
    metadata["generateName"] = "measured-".into();
    metadata["ownerReferences"] = json!([{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": uid(&owner),
        "controller": true, "blockOwnerDeletion": true,
    }]);
    metadata["generation"] = 1.into();
    let spec = &mut pod["spec"];
    let not_ready = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    let mut tolerations = spec["tolerations"].as_array().cloned().unwrap_or_default();
    tolerations.push(not_ready("node.kubernetes.io/not-ready"));
    tolerations.push(not_ready("node.kubernetes.io/unreachable"));
    spec["tolerations"] = tolerations.into();
    let mut volumes = spec["volumes"].as_array().cloned().unwrap_or_default();
    volumes.push(json!({"name": "kube-api-access", "projected": {"sources": []}}));
    spec["volumes"] = volumes.into();
    spec["priority"] = 0.into();
    spec["preemptionPolicy"] = "PreemptLowerPriority".into();
    spec["serviceAccountName"] = "default".into();
    spec["restartPolicy"] = "Always".into();
    spec["enableServiceLinks"] = true.into();
}

/// No two pods start at the same time.
fn time_of(at: usize) -> String {
    format!(
        "2026-01-{:02}T{:02}:{:02}:{:02}Z",
        1 + at / 86_400 % 28,
        at / 3_600 % 24,
        at / 60 % 60,
        at % 60
    )
}

/// The status of a pod that runs; in a real cluster with all conditions.
fn running_status(detail: Detail, at: usize) -> Value {
    if detail == Detail::Template {
        return json!({"phase": "Running"});
    }
    let conditions: Vec<Value> =
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
            .into_iter()
            .map(|kind| {
                json!({
                    "type": kind, "status": "True", "observedGeneration": 1,
                    "lastProbeTime": null, "lastTransitionTime": time_of(at),
                })
            })
            .collect();
    json!({
        "phase": "Running",
        "startTime": time_of(at),
        "podIP": format!("10.{}.{}.{}", at >> 16 & 255, at >> 8 & 255, at & 255),
        "conditions": conditions,
    })
}
