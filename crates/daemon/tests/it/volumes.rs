//! Pods with claims: from the claim to the running pod, and back again when volumes do not come.

use std::collections::BTreeSet;

use kube_scheduler_config::{Configuration, FeatureGates, load};
use kube_scheduler_devcluster::{
    DevCluster, EVENTS, FaultEffect, FaultRule, KindId, NODES, NodeTemplate,
    PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, ProvisionFault, Selection,
};
use serde_json::{Value, json};

use crate::cluster::{
    Running, cluster, cluster_of, daemon, n_bound, placements, pod, until, until_bound,
};

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

fn class(name: &str, provisioner: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer",
    })
}

fn claim(name: &str, class: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": "1Gi"}}},
    })
}

/// A volume that can be used on one node only.
fn local(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "storageClassName": "local", "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]}}},
    })
}

fn pod_with(name: &str, claim: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["volumes"] =
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
    pod
}

/// A pod that needs a whole node.
fn large(mut pod: Value) -> Value {
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("4");
    pod
}

fn value(cluster: &DevCluster, kind: KindId, name: &str) -> Value {
    let namespace = if kind.get().namespaced { "default" } else { "" };
    cluster.get(kind, namespace, name).map_or(Value::Null, |object| object.value())
}

fn node_names(cluster: &DevCluster) -> Vec<String> {
    let nodes = cluster.list(NODES, &Selection::all()).items;
    nodes.iter().map(|node| node.name().to_owned()).collect()
}

async fn until_running(cluster: &DevCluster, name: &str) {
    until(&format!("{name} runs"), || value(cluster, PODS, name)["status"]["phase"] == "Running")
        .await;
}

fn was_reported(cluster: &DevCluster, pod: &str, part: &str) -> bool {
    let events = cluster.list(EVENTS, &Selection::all()).items;
    events.iter().map(|event| event.value()).any(|event| {
        event["reason"] == "FailedScheduling"
            && event["regarding"]["name"].as_str().or(event["involvedObject"]["name"].as_str())
                == Some(pod)
            && event["message"]
                .as_str()
                .or(event["note"].as_str())
                .is_some_and(|text| text.contains(part))
    })
}

fn with_bind_timeout(seconds: u32) -> Configuration {
    let text = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", "pluginConfig": [
            {"name": "VolumeBinding", "args": {"bindTimeoutSeconds": seconds}}]}],
    });
    load(&text.to_string(), &FeatureGates::default()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_goes_where_a_volume_for_its_claim_is() {
    let cluster = cluster(5).await;
    let nodes = node_names(&cluster);
    cluster
        .bulk_create([
            class("local", "kubernetes.io/no-provisioner"),
            local("here", &nodes[3]),
            claim("data", "local"),
            pod_with("web", "data"),
        ])
        .unwrap();
    let scheduler = Running::start(daemon(&cluster)).await;
    until_running(&cluster, "web").await;
    assert_eq!(placements(&cluster)["web"].as_ref(), Some(&nodes[3]));
    let (claim, volume) = (
        value(&cluster, PERSISTENT_VOLUME_CLAIMS, "data"),
        value(&cluster, PERSISTENT_VOLUMES, "here"),
    );
    assert_eq!(claim["spec"]["volumeName"], "here");
    assert_eq!(claim["status"]["phase"], "Bound");
    assert_eq!(volume["spec"]["claimRef"]["uid"], claim["metadata"]["uid"]);
    assert_eq!(volume["spec"]["local"]["path"], "/data", "what the scheduler does not read stays");
    assert_eq!(volume["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"], "yes");
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_is_made_where_the_pod_goes() {
    let cluster = cluster_of(DevCluster::builder(), 0).await;
    cluster.add_hollow_nodes(4, &NodeTemplate::default().zones(2)).unwrap();
    cluster
        .bulk_create([
            class("csi", "csi.example.com"),
            claim("data", "csi"),
            pod_with("web", "data"),
        ])
        .unwrap();
    let scheduler = Running::start(daemon(&cluster)).await;
    until_running(&cluster, "web").await;
    let node = placements(&cluster)["web"].clone().unwrap();
    let claim = value(&cluster, PERSISTENT_VOLUME_CLAIMS, "data");
    assert_eq!(claim["metadata"]["annotations"][SELECTED_NODE], json!(node));
    assert_eq!(claim["status"]["phase"], "Bound");
    // The next pod of the claim has to stay in the zone of its volume.
    cluster.create(pod_with("next", "data")).unwrap();
    until_running(&cluster, "next").await;
    let zone = |node: &str| {
        value(&cluster, NODES, node)["metadata"]["labels"]["topology.kubernetes.io/zone"].clone()
    };
    assert_eq!(zone(&node), zone(placements(&cluster)["next"].as_ref().unwrap()));
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_claim_gets_a_volume_of_its_own() {
    let cluster = cluster(4).await;
    let nodes = node_names(&cluster);
    cluster
        .bulk_create([
            class("local", "kubernetes.io/no-provisioner"),
            class("csi", "csi.example.com"),
        ])
        .unwrap();
    // Local volumes for a half of the claims, new ones for the others; all at once.
    for i in 0..20 {
        let class = if i % 2 == 0 { "local" } else { "csi" };
        if class == "local" {
            cluster.create(local(&format!("v{i}"), &nodes[i % 4])).unwrap();
        }
        cluster
            .bulk_create([
                claim(&format!("c{i}"), class),
                pod_with(&format!("p{i}"), &format!("c{i}")),
            ])
            .unwrap();
    }
    let scheduler = Running::start(daemon(&cluster)).await;
    until_bound(&cluster, 20).await;
    let claims = cluster.list(PERSISTENT_VOLUME_CLAIMS, &Selection::all()).items;
    let volumes: BTreeSet<String> = claims
        .iter()
        .map(|claim| claim.value()["spec"]["volumeName"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(volumes.len(), 20);
    assert_eq!(scheduler.handle.progress().n_error_attempts, 0);
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_whose_volume_does_not_come_gives_everything_back() {
    let cluster = cluster(1).await;
    let controllers = cluster.volumes().unwrap();
    controllers.set_fault(ProvisionFault::Stall);
    cluster
        .bulk_create([
            class("csi", "csi.example.com"),
            claim("data", "csi"),
            large(pod_with("waits", "data")),
        ])
        .unwrap();
    let scheduler = Running::start(daemon(&cluster).config(with_bind_timeout(2))).await;
    until("the claim waits for its volume", || {
        !value(&cluster, PERSISTENT_VOLUME_CLAIMS, "data")["metadata"]["annotations"][SELECTED_NODE]
            .is_null()
    })
    .await;
    // The node is taken until the binding times out; then it is free at once.
    cluster.create(large(pod("other"))).unwrap();
    until("reported", || {
        was_reported(&cluster, "waits", "binding volumes: context deadline exceeded")
    })
    .await;
    until_running(&cluster, "other").await;
    assert_eq!(placements(&cluster)["waits"], None);
    assert_eq!(value(&cluster, PERSISTENT_VOLUME_CLAIMS, "data")["status"]["phase"], "Pending");

    controllers.set_fault(ProvisionFault::None);
    cluster.delete(PODS, "default", "other").unwrap();
    until_running(&cluster, "waits").await;
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_nobody_binds_is_not_lost_to_its_pod() {
    // The test plays the volume controller, and lets the first attempt time out.
    let cluster = cluster_of(DevCluster::builder().volumes(None), 2).await;
    let nodes = node_names(&cluster);
    cluster
        .bulk_create([
            class("local", "kubernetes.io/no-provisioner"),
            local("only", &nodes[1]),
            claim("data", "local"),
            pod_with("web", "data"),
        ])
        .unwrap();
    let scheduler = Running::start(daemon(&cluster).config(with_bind_timeout(2))).await;
    until("reported", || {
        was_reported(&cluster, "web", "binding volumes: context deadline exceeded")
    })
    .await;
    assert_eq!(n_bound(&cluster), 0);
    // Only the written reference is left, and the next attempt takes the same volume again.
    let volume = value(&cluster, PERSISTENT_VOLUMES, "only");
    assert_eq!(volume["spec"]["claimRef"]["name"], "data");
    cluster
        .edit(PERSISTENT_VOLUME_CLAIMS, "default", "data", |claim| {
            claim["spec"]["volumeName"] = json!("only");
            claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = json!("yes");
            claim["status"]["phase"] = json!("Bound");
        })
        .unwrap();
    until_running(&cluster, "web").await;
    assert_eq!(placements(&cluster)["web"].as_ref(), Some(&nodes[1]));
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_writes_of_volumes_and_claims_are_tried_again() {
    let cluster = cluster(2).await;
    let nodes = node_names(&cluster);
    let refused = |verb: &str, resource: &str| {
        FaultRule::new(FaultEffect::Error { code: 409, retry_after_seconds: None })
            .verb(verb)
            .resource(resource)
            .count(1)
    };
    for resource in ["persistentvolumes", "persistentvolumeclaims"] {
        cluster.faults().add(refused("update", resource)).unwrap();
    }
    cluster
        .bulk_create([
            class("local", "kubernetes.io/no-provisioner"),
            class("csi", "csi.example.com"),
            local("only", &nodes[0]),
            claim("old", "local"),
            claim("new", "csi"),
            pod_with("static", "old"),
            pod_with("dynamic", "new"),
        ])
        .unwrap();
    let scheduler = Running::start(daemon(&cluster)).await;
    until_running(&cluster, "static").await;
    until_running(&cluster, "dynamic").await;
    assert_eq!(cluster.faults().injected(), 2);
    assert_eq!(scheduler.handle.progress().n_error_attempts, 2);
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_provisioning_is_tried_again() {
    let cluster = cluster(2).await;
    cluster.volumes().unwrap().set_fault(ProvisionFault::Fail { times: 1 });
    cluster
        .bulk_create([
            class("csi", "csi.example.com"),
            claim("data", "csi"),
            pod_with("web", "data"),
        ])
        .unwrap();
    let scheduler = Running::start(daemon(&cluster)).await;
    until_running(&cluster, "web").await;
    assert_eq!(cluster.volumes().unwrap().fault(), ProvisionFault::None);
    assert!(was_reported(&cluster, "web", "binding volumes: "));
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ephemeral_volume_comes_with_its_pod() {
    let cluster = cluster(2).await;
    let mut web = pod("web");
    web["spec"]["volumes"] = json!([{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {
        "spec": claim("unused", "csi")["spec"]}}}]);
    cluster.bulk_create([class("csi", "csi.example.com"), web]).unwrap();
    let scheduler = Running::start(daemon(&cluster)).await;
    until_running(&cluster, "web").await;
    assert_eq!(
        value(&cluster, PERSISTENT_VOLUME_CLAIMS, "web-scratch")["status"]["phase"],
        "Bound"
    );
    scheduler.stop().await;
}
