//! Claims and sample devices in a running cluster: what the tasks do by themselves.

use std::time::Duration;

use kube_scheduler_devcluster::{
    ChangeType, DevCluster, KindId, NODES, NodeTemplate, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES,
    SampleDevices, Selection,
};
use serde_json::{Value, json};
use tokio::time::timeout;

/// Nothing here takes as long, unless it is broken.
const DEADLINE: Duration = Duration::from_secs(60);

/// Waits until the objects of a kind, by their names, are as wanted.
async fn until(
    cluster: &DevCluster,
    kind: KindId,
    is_right: impl Fn(&[Value]) -> bool,
) -> Vec<Value> {
    let (now, mut watch) = cluster.list_and_watch(kind, Selection::all()).expect("listed");
    let mut objects: Vec<Value> = now.iter().map(|object| object.value()).collect();
    let waiting = async {
        while !is_right(&objects) {
            for event in watch.next().await.expect("watched") {
                objects.retain(|object| object["metadata"]["name"] != event.object.name());
                if event.change_type != ChangeType::Deleted {
                    objects.push(event.object.value());
                }
            }
        }
        objects
    };
    timeout(DEADLINE, waiting).await.expect("it gets there")
}

fn template() -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
        "metadata": {"name": "gpus"},
        "spec": {"spec": {"devices": {"requests": [
            {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}},
    })
}

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train"},
        "spec": {
            "containers": [{"name": "main", "image": "registry/app:1"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpus"}],
        },
    })
}

#[tokio::test]
async fn a_claim_comes_with_its_template_and_goes_with_its_pod() {
    let cluster = DevCluster::builder().start().await.expect("starts");
    cluster.create(pod()).expect("created");
    // The template comes later than the pod that wants it.
    cluster.create(template()).expect("created");
    let claims = until(&cluster, RESOURCE_CLAIMS, |claims| claims.len() == 1).await;
    let name = claims[0]["metadata"]["name"].clone();
    let has_status = |pods: &[Value]| {
        pods.iter()
            .any(|pod| pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"] == name)
    };
    until(&cluster, PODS, has_status).await;
    cluster.delete(PODS, "default", "train").expect("deleted");
    until(&cluster, RESOURCE_CLAIMS, <[Value]>::is_empty).await;
    cluster.shutdown().await.expect("ends");
}

#[tokio::test]
async fn slices_follow_the_nodes() {
    let builder = DevCluster::builder().devices(Some(SampleDevices::default()));
    let cluster = builder.start().await.expect("starts");
    let nodes = cluster.add_hollow_nodes(2, &NodeTemplate::default().zones(2)).expect("added");
    // Three for each node, and one for each zone.
    until(&cluster, RESOURCE_SLICES, |slices| slices.len() == 8).await;
    cluster.delete(NODES, "", nodes[0].name()).expect("deleted");
    let left = until(&cluster, RESOURCE_SLICES, |slices| slices.len() == 4).await;
    let of_other = |slice: &&Value| slice["spec"]["nodeName"] == nodes[1].name();
    assert_eq!(left.iter().filter(of_other).count(), 3);
    cluster.shutdown().await.expect("ends");
}
