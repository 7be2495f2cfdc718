//! Claims and volumes: who is bound to what, what is made for whom, and what is left behind.

use std::time::Duration;

use kube_scheduler_devcluster::{
    CSI_NODES, ChangeType, DevCluster, KindId, NODES, NodeTemplate, PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES, PODS, ProvisionFault, Selection, VolumeOptions,
};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

/// Nothing here takes as long, unless it is broken.
const DEADLINE: Duration = Duration::from_secs(60);
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

async fn cluster() -> DevCluster {
    DevCluster::builder().start().await.expect("starts")
}

/// Waits until the object (null when there is none) is as wanted.
async fn until(
    cluster: &DevCluster,
    kind: KindId,
    name: &str,
    is_right: impl Fn(&Value) -> bool,
) -> Value {
    let (now, mut watch) = cluster.list_and_watch(kind, Selection::all()).expect("listed");
    let found = now.iter().find(|object| object.name() == name);
    let mut value = found.map_or(Value::Null, |object| object.value());
    let waiting = async {
        while !is_right(&value) {
            for event in watch.next().await.expect("watched") {
                if event.object.name() == name {
                    let is_gone = event.change_type == ChangeType::Deleted;
                    value = if is_gone { Value::Null } else { event.object.value() };
                    if is_right(&value) {
                        break;
                    }
                }
            }
        }
        value
    };
    timeout(DEADLINE, waiting).await.unwrap_or_else(|_| panic!("{name} did not get there"))
}

async fn bound_claim(cluster: &DevCluster, name: &str) -> Value {
    until(cluster, PERSISTENT_VOLUME_CLAIMS, name, |claim| claim["status"]["phase"] == "Bound")
        .await
}

async fn volume_in(cluster: &DevCluster, name: &str, phase: &str) -> Value {
    until(cluster, PERSISTENT_VOLUMES, name, |volume| volume["status"]["phase"] == phase).await
}

/// Waits until everything before this call has been looked at: a pair that is created now is bound.
async fn caught_up(cluster: &DevCluster, marker: &str) {
    cluster.create(volume(marker, "1Gi", json!({"storageClassName": marker}))).expect("created");
    cluster.create(claim(marker, "1Gi", marker)).expect("created");
    bound_claim(cluster, marker).await;
}

fn class(name: &str, provisioner: &str, mode: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": provisioner, "volumeBindingMode": mode,
    })
}

fn claim(name: &str, size: &str, class: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": size}}},
    })
}

fn volume(name: &str, size: &str, extra: Value) -> Value {
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size},
            "hostPath": {"path": "/data"}},
    });
    for (field, value) in extra.as_object().expect("a map") {
        volume["spec"][field] = value.clone();
    }
    volume
}

fn select_node(cluster: &DevCluster, claim: &str, node: &str) {
    let write = |claim: &mut Value| claim["metadata"]["annotations"][SELECTED_NODE] = json!(node);
    cluster.edit(PERSISTENT_VOLUME_CLAIMS, "default", claim, write).expect("written");
}

#[tokio::test]
async fn an_immediate_claim_gets_the_smallest_volume_that_fits() {
    let cluster = cluster().await;
    let of_class = |class: &str| json!({"storageClassName": class});
    cluster
        .bulk_create([
            class("manual", "kubernetes.io/no-provisioner", "Immediate"),
            volume("small", "1Gi", of_class("manual")),
            volume("large", "10Gi", of_class("manual")),
            volume("right", "5Gi", of_class("manual")),
            volume("other-class", "4Gi", of_class("other")),
            volume("block", "4Gi", json!({"storageClassName": "manual", "volumeMode": "Block"})),
            volume(
                "read-only",
                "4Gi",
                json!({"storageClassName": "manual", "accessModes": ["ReadOnlyMany"]}),
            ),
            claim("data", "3Gi", "manual"),
        ])
        .expect("created");
    let claim = bound_claim(&cluster, "data").await;
    assert_eq!(claim["spec"]["volumeName"], "right");
    assert_eq!(claim["status"]["capacity"], json!({"storage": "5Gi"}));
    assert_eq!(claim["status"]["accessModes"], json!(["ReadWriteOnce"]));
    let annotations = &claim["metadata"]["annotations"];
    assert_eq!(annotations["pv.kubernetes.io/bind-completed"], "yes");
    assert_eq!(annotations["pv.kubernetes.io/bound-by-controller"], "yes");
    let volume = volume_in(&cluster, "right", "Bound").await;
    assert_eq!(volume["spec"]["claimRef"]["uid"], claim["metadata"]["uid"]);
    assert_eq!(volume["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"], "yes");
    assert_eq!(volume_in(&cluster, "large", "Available").await["spec"]["claimRef"], Value::Null);
}

#[tokio::test]
async fn a_claim_that_nothing_fits_waits_for_a_volume() {
    let cluster = cluster().await;
    cluster.create(claim("data", "3Gi", "manual")).expect("created");
    caught_up(&cluster, "marker").await;
    let waiting = cluster.get(PERSISTENT_VOLUME_CLAIMS, "default", "data").expect("there").value();
    assert_eq!(waiting["status"]["phase"], "Pending");
    cluster.create(volume("late", "3Gi", json!({"storageClassName": "manual"}))).expect("created");
    assert_eq!(bound_claim(&cluster, "data").await["spec"]["volumeName"], "late");
}

#[tokio::test]
async fn a_binding_that_a_scheduler_began_is_completed() {
    let cluster = cluster().await;
    cluster
        .bulk_create([
            class("late", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
            volume("a", "1Gi", json!({"storageClassName": "late"})),
            volume("b", "1Gi", json!({"storageClassName": "late"})),
            claim("data", "1Gi", "late"),
        ])
        .expect("created");
    caught_up(&cluster, "marker").await;
    let pending = cluster.get(PERSISTENT_VOLUME_CLAIMS, "default", "data").expect("there").value();
    assert_eq!(pending["status"]["phase"], "Pending", "no volume was chosen yet");
    let reference = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "data",
        "uid": pending["metadata"]["uid"],
    });
    cluster
        .edit(PERSISTENT_VOLUMES, "", "b", |volume| volume["spec"]["claimRef"] = reference)
        .expect("written");
    assert_eq!(bound_claim(&cluster, "data").await["spec"]["volumeName"], "b");
    volume_in(&cluster, "b", "Bound").await;
    volume_in(&cluster, "a", "Available").await;
}

#[tokio::test]
async fn names_given_by_users_count() {
    let cluster = cluster().await;
    let reserved = json!({"claimRef": {"namespace": "default", "name": "wanted"}});
    let mut choosy = claim("choosy", "1Gi", "");
    choosy["spec"]["volumeName"] = json!("chosen");
    cluster
        .bulk_create([
            volume("tight", "1Gi", json!({})),
            volume("reserved", "9Gi", reserved),
            volume("chosen", "9Gi", json!({})),
            choosy,
        ])
        .expect("created");
    assert_eq!(bound_claim(&cluster, "choosy").await["spec"]["volumeName"], "chosen");
    cluster.create(claim("wanted", "1Gi", "")).expect("created");
    let wanted = bound_claim(&cluster, "wanted").await;
    assert_eq!(wanted["spec"]["volumeName"], "reserved");
    let reserved = volume_in(&cluster, "reserved", "Bound").await;
    assert_eq!(reserved["spec"]["claimRef"]["uid"], wanted["metadata"]["uid"]);
    assert_eq!(reserved["metadata"]["annotations"], Value::Null, "bound by its author");
}

#[tokio::test]
async fn volumes_are_made_at_once_or_where_a_scheduler_wants_them() {
    let cluster = cluster().await;
    cluster.add_hollow_nodes(2, &NodeTemplate::default().zones(2)).expect("added");
    let nodes = cluster.list(NODES, &Selection::all()).items;
    let (first, second) = (nodes[0].name(), nodes[1].name());
    let mut immediate = class("fast", "csi.example.com", "Immediate");
    immediate["allowedTopologies"] =
        json!([{"matchLabelExpressions": [{"key": "k", "values": ["v"]}]}]);
    cluster
        .bulk_create([
            immediate,
            class("late", "csi.example.com", "WaitForFirstConsumer"),
            claim("now", "2Gi", "fast"),
            claim("zonal", "1Gi", "late"),
            claim("local", "1Gi", "late"),
        ])
        .expect("created");
    let now = bound_claim(&cluster, "now").await;
    let name = format!("pvc-{}", now["metadata"]["uid"].as_str().expect("a uid"));
    assert_eq!(now["spec"]["volumeName"], name);
    let volume = volume_in(&cluster, &name, "Bound").await;
    assert_eq!(volume["spec"]["csi"], json!({"driver": "csi.example.com", "volumeHandle": name}));
    assert_eq!(volume["spec"]["persistentVolumeReclaimPolicy"], "Delete");
    assert_eq!(volume["spec"]["capacity"], json!({"storage": "2Gi"}));
    let terms =
        |volume: &Value| volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"].clone();
    assert_eq!(
        terms(&volume)[0]["matchExpressions"][0],
        json!({"key": "k", "operator": "In", "values": ["v"]})
    );

    let zonal = cluster.get(PERSISTENT_VOLUME_CLAIMS, "default", "zonal").expect("there").value();
    assert_eq!(zonal["status"]["phase"], "Pending", "waits for its first consumer");
    select_node(&cluster, "zonal", first);
    let zonal = bound_claim(&cluster, "zonal").await;
    let zone = nodes[0].label("topology.kubernetes.io/zone").expect("a zone");
    let volume =
        volume_in(&cluster, zonal["spec"]["volumeName"].as_str().expect("a name"), "Bound").await;
    assert_eq!(
        terms(&volume)[0]["matchExpressions"],
        json!([{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}])
    );

    cluster
        .create(json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": second},
            "spec": {"drivers": [{"name": "csi.example.com", "nodeID": second, "topologyKeys": ["kubernetes.io/hostname"]}]},
        }))
        .expect("created");
    assert!(cluster.get(CSI_NODES, "", second).is_some());
    select_node(&cluster, "local", second);
    let local = bound_claim(&cluster, "local").await;
    let volume =
        volume_in(&cluster, local["spec"]["volumeName"].as_str().expect("a name"), "Bound").await;
    assert_eq!(
        terms(&volume)[0]["matchExpressions"],
        json!([{"key": "kubernetes.io/hostname", "operator": "In", "values": [second]}])
    );
}

#[tokio::test]
async fn provisioning_stalls_and_fails_on_demand() {
    let cluster = cluster().await;
    cluster.add_hollow_nodes(1, &NodeTemplate::default()).expect("added");
    let node = cluster.list(NODES, &Selection::all()).items[0].name().to_owned();
    cluster
        .bulk_create([
            class("late", "csi.example.com", "WaitForFirstConsumer"),
            class("fast", "csi.example.com", "Immediate"),
            claim("data", "1Gi", "late"),
        ])
        .expect("created");
    let volumes = cluster.volumes().expect("controllers run");
    volumes.set_fault(ProvisionFault::Fail { times: 2 });
    for _ in 0..2 {
        select_node(&cluster, "data", &node);
        until(&cluster, PERSISTENT_VOLUME_CLAIMS, "data", |claim| {
            claim["metadata"]["annotations"][SELECTED_NODE].is_null()
        })
        .await;
    }
    assert_eq!(volumes.fault(), ProvisionFault::None);
    // Where no node was chosen, the provisioner just tries again.
    volumes.set_fault(ProvisionFault::Fail { times: 2 });
    cluster.create(claim("sturdy", "1Gi", "fast")).expect("created");
    bound_claim(&cluster, "sturdy").await;
    assert_eq!(volumes.fault(), ProvisionFault::None);

    volumes.set_fault(ProvisionFault::Stall);
    select_node(&cluster, "data", &node);
    cluster.create(claim("now", "1Gi", "fast")).expect("created");
    caught_up(&cluster, "marker").await;
    for name in ["data", "now"] {
        let claim = cluster.get(PERSISTENT_VOLUME_CLAIMS, "default", name).expect("there").value();
        assert_eq!(claim["status"]["phase"], "Pending", "{name}");
    }
    volumes.set_fault(ProvisionFault::None);
    bound_claim(&cluster, "now").await;
    let claim = bound_claim(&cluster, "data").await;
    assert_eq!(claim["metadata"]["annotations"][SELECTED_NODE], json!(node));
}

#[tokio::test]
async fn provisioning_takes_its_time() {
    let latency = Duration::from_millis(200);
    let mut options = VolumeOptions::default();
    options.provision_latency = latency;
    let cluster = DevCluster::builder().volumes(Some(options)).start().await.expect("starts");
    let start = Instant::now();
    cluster
        .bulk_create([class("fast", "csi.example.com", "Immediate"), claim("data", "1Gi", "fast")])
        .expect("created");
    bound_claim(&cluster, "data").await;
    assert!(start.elapsed() >= latency);
}

#[tokio::test]
async fn volumes_go_or_stay_when_their_claim_goes() {
    let cluster = cluster().await;
    let mut keep = class("keep", "csi.example.com", "Immediate");
    keep["reclaimPolicy"] = json!("Retain");
    cluster
        .bulk_create([
            class("drop", "csi.example.com", "Immediate"),
            keep,
            claim("dropped", "1Gi", "drop"),
            claim("kept", "1Gi", "keep"),
        ])
        .expect("created");
    let name = |claim: &Value| claim["spec"]["volumeName"].as_str().expect("a name").to_owned();
    let dropped = name(&bound_claim(&cluster, "dropped").await);
    let kept = name(&bound_claim(&cluster, "kept").await);
    for claim in ["dropped", "kept"] {
        cluster.delete(PERSISTENT_VOLUME_CLAIMS, "default", claim).expect("deleted");
    }
    until(&cluster, PERSISTENT_VOLUMES, &dropped, Value::is_null).await;
    volume_in(&cluster, &kept, "Released").await;
    // A later claim of the same name gets another volume.
    cluster.create(claim("kept", "1Gi", "keep")).expect("created");
    assert_ne!(name(&bound_claim(&cluster, "kept").await), kept);
    volume_in(&cluster, &kept, "Released").await;
}

#[tokio::test]
async fn a_claim_without_a_class_gets_the_default_one() {
    let cluster = cluster().await;
    let marked = |name: &str| {
        let mut class = class(name, "csi.example.com", "Immediate");
        class["metadata"]["annotations"] =
            json!({"storageclass.kubernetes.io/is-default-class": "true"});
        class
    };
    let mut open = claim("open", "1Gi", "");
    open["spec"].as_object_mut().expect("a map").remove("storageClassName");
    let class_of = |name: &str| {
        let claim = cluster.get(PERSISTENT_VOLUME_CLAIMS, "default", name).expect("there");
        claim.value()["spec"]["storageClassName"].clone()
    };
    cluster
        .bulk_create([class("plain", "csi.example.com", "Immediate"), open.clone()])
        .expect("created");
    assert_eq!(class_of("open"), Value::Null);
    open["metadata"]["name"] = json!("later");
    cluster
        .bulk_create([marked("b"), marked("a"), open, claim("closed", "1Gi", "")])
        .expect("created");
    assert_eq!(class_of("later"), "a");
    assert_eq!(class_of("closed"), "");
}

#[tokio::test]
async fn a_claim_whose_volume_is_deleted_is_lost() {
    let cluster = cluster().await;
    cluster
        .bulk_create([volume("v", "1Gi", json!({})), claim("data", "1Gi", "")])
        .expect("created");
    bound_claim(&cluster, "data").await;
    cluster.delete(PERSISTENT_VOLUMES, "", "v").expect("deleted");
    until(&cluster, PERSISTENT_VOLUME_CLAIMS, "data", |claim| claim["status"]["phase"] == "Lost")
        .await;
}

#[tokio::test]
async fn ephemeral_volumes_come_and_go_with_their_pod() {
    let cluster = cluster().await;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
        "spec": {
            "containers": [{"name": "main", "image": "registry/web:1"}],
            "volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
                    "resources": {"requests": {"storage": "1Gi"}}}}}}],
        },
    });
    cluster.create(class("fast", "csi.example.com", "Immediate")).expect("created");
    let pod = cluster.create(pod).expect("created");
    let claim = bound_claim(&cluster, "web-scratch").await;
    assert_eq!(claim["metadata"]["labels"], json!({"app": "web"}));
    let owner = &claim["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["uid"], &owner["controller"]), (&json!(pod.uid()), &json!(true)));
    cluster.delete(PODS, "default", "web").expect("deleted");
    until(&cluster, PERSISTENT_VOLUME_CLAIMS, "web-scratch", Value::is_null).await;
}
