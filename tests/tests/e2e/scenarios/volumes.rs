//! Pods with claims.

use serde_json::json;

use crate::cluster::Cluster;
use crate::inhabitants::PROVISIONER;
use crate::objects::{claim, local_volume, nodes, pod_with, storage_class, with};
use crate::scheduler::Running;

pub(crate) async fn a_pod_goes_where_its_volume_is(cluster: &Cluster) {
    let api = cluster.api();
    api.create_all(nodes(4)).await.unwrap();
    api.create_all([
        storage_class("local", "kubernetes.io/no-provisioner"),
        local_volume("disk", "local", "node-2"),
        claim("data", "local"),
        pod_with("web", "data"),
    ])
    .await
    .unwrap();
    let scheduler = Running::start(cluster).await;
    assert_eq!(cluster.node_of("web").await, "node-2");
    let volume = api.get("PersistentVolume", "disk").await.unwrap().unwrap();
    let claim = api.get("PersistentVolumeClaim", "data").await.unwrap().unwrap();
    assert_eq!(volume["spec"]["claimRef"]["uid"], claim["metadata"]["uid"]);
    assert_eq!(claim["spec"]["volumeName"], "disk");
    scheduler.stop().await;
}

pub(crate) async fn a_pod_follows_a_bound_claim(cluster: &Cluster) {
    let api = cluster.api();
    api.create_all(nodes(4)).await.unwrap();
    let reference = json!({"spec": {"claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "namespace": "default", "name": "data"}}});
    // Bound beforehand, as an administrator does it: each names the other.
    api.create_all([
        storage_class("local", "kubernetes.io/no-provisioner"),
        with(local_volume("disk", "local", "node-1"), reference),
        with(
            claim("data", "local"),
            json!({"spec": {"volumeName": "disk"},
            "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}}),
        ),
    ])
    .await
    .unwrap();
    let uid =
        api.get("PersistentVolumeClaim", "data").await.unwrap().unwrap()["metadata"]["uid"].clone();
    api.patch("PersistentVolume", "disk", "", &json!({"spec": {"claimRef": {"uid": uid}}}))
        .await
        .unwrap();
    for (kind, name) in [("PersistentVolume", "disk"), ("PersistentVolumeClaim", "data")] {
        api.patch(kind, name, "status", &json!({"status": {"phase": "Bound"}})).await.unwrap();
    }
    let scheduler = Running::start(cluster).await;
    api.create(&pod_with("web", "data")).await.unwrap();
    assert_eq!(cluster.node_of("web").await, "node-1");
    scheduler.stop().await;
}

pub(crate) async fn a_volume_is_made_where_the_pod_goes(cluster: &Cluster) {
    let api = cluster.api();
    api.create_all(nodes(3)).await.unwrap();
    api.create(&storage_class("dynamic", PROVISIONER)).await.unwrap();
    let scheduler = Running::start(cluster).await;
    for i in 0..4 {
        let name = format!("data-{i}");
        api.create(&claim(&name, "dynamic")).await.unwrap();
        api.create(&pod_with(&format!("web-{i}"), &name)).await.unwrap();
    }
    for i in 0..4 {
        let node = cluster.node_of(&format!("web-{i}")).await;
        let claim = api.get("PersistentVolumeClaim", &format!("data-{i}")).await.unwrap().unwrap();
        let selected = &claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"];
        assert_eq!(selected, &json!(node));
        assert_eq!(claim["status"]["phase"], "Bound");
    }
    // The next pod has to go where the volume is.
    api.create(&pod_with("next", "data-0")).await.unwrap();
    assert_eq!(cluster.node_of("next").await, cluster.node_of("web-0").await);
    scheduler.stop().await;
}
