//! Plugins that read more of pods and nodes than the scheduler does.

use std::sync::Arc;

use kube_scheduler_api_types::Pod;
use kube_scheduler_daemon::{Daemon, Endpoint};
use kube_scheduler_devcluster::DevCluster;
use kube_scheduler_framework::{
    Context, CycleState, Filter, NodeView, Plugin, Sign, SignatureWriter, Status, extension_points,
};
use kube_scheduler_plugins_intree::registry;
use serde_json::{Value, json};

use crate::cluster::{Running, cluster_of, placements, pod, until};

/// In place of NodeName: a pod goes where a finalizer, of which the scheduler knows nothing, has the pod's image.
struct ByImage;

impl Plugin for ByImage {
    fn name(&self) -> &str {
        "NodeName"
    }

    fn reads_pod_sources(&self) -> bool {
        true
    }

    fn reads_node_sources(&self) -> bool {
        true
    }

    extension_points!(Filter, Sign);
}

fn image(pod: &Pod) -> Option<String> {
    let source: Value = serde_json::from_str(pod.source.as_ref()?.json()).ok()?;
    Some(source["spec"]["containers"][0]["image"].as_str()?.to_owned())
}

impl Filter for ByImage {
    fn filter(&self, _: &Context<'_>, _: &CycleState, pod: &Pod, node: &NodeView<'_>) -> Status {
        let (Some(image), Some(source)) = (image(pod), node.source()) else {
            return Status::error("no source");
        };
        let source: Value = serde_json::from_str(source.json()).unwrap();
        if source["metadata"]["finalizers"][0] == format!("example.com/{image}") {
            Status::SUCCESS
        } else {
            Status::unschedulable("another image")
        }
    }
}

impl Sign for ByImage {
    fn sign(&self, pod: &Pod, signature: &mut SignatureWriter) -> bool {
        signature.text(&image(pod).unwrap_or_default());
        true
    }
}

fn node_of(cluster: &DevCluster, pod: &str) -> Option<String> {
    placements(cluster).remove(pod).flatten()
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_read_what_the_scheduler_does_not() {
    for protobuf in [false, true] {
        let cluster = cluster_of(DevCluster::builder().protobuf(protobuf), 0).await;
        let node = |name: &str, image: &str| {
            json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": name, "finalizers": [format!("example.com/{image}")]},
                "status": {"allocatable": {"cpu": "4", "pods": "10"}},
            })
        };
        cluster.create(node("a", "db")).unwrap();
        cluster.create(node("b", "web")).unwrap();
        let mut registry = registry();
        registry.replace("NodeName", |_, _| Ok(Arc::new(ByImage))).unwrap();
        let endpoint = Endpoint::from_url(&cluster.url()).unwrap();
        let scheduler = Running::start(Daemon::builder(endpoint, registry)).await;
        let with = |name: &str, image: &str| {
            let mut pod = pod(name);
            pod["spec"]["containers"][0]["image"] = image.into();
            pod
        };
        for (name, image, expected) in [("p", "web", "b"), ("q", "db", "a"), ("r", "web", "b")] {
            cluster.create(with(name, image)).unwrap();
            until("bound", || node_of(&cluster, name).is_some()).await;
            assert_eq!(node_of(&cluster, name).as_deref(), Some(expected), "{name}");
        }
        scheduler.stop().await;
    }
}
