//! The controller and the driver step by step: a store, and a scheduler and kubelets that do what the test says.

use kube_scheduler_api_types::well_known::CLAIM_FINALIZER;
use serde_json::{Value, json};

use super::driver::{publish_classes, settle_node, settle_zone};
use super::rules::{settle_claim, settle_group, settle_pod};
use super::*;
use crate::api::update::Part;
use crate::kinds::{
    DEVICE_CLASSES, NODES, POD_GROUPS, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS,
    RESOURCE_SLICES,
};
use crate::object::at;
use crate::store::Store;
use crate::testing;

fn add_template(store: &Store, name: &str) {
    let template = json!({"metadata": {"name": name}, "spec": {
        "metadata": {"labels": {"team": "ml"}},
        "spec": {"devices": {"requests": [
            {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}}});
    store.add(RESOURCE_CLAIM_TEMPLATES, "default", template);
}

/// A pod with a claim from the template `gpus`.
fn add_pod(store: &Store, name: &str, extra: Value) {
    let mut pod = json!({
        "metadata": {"name": name},
        "spec": {
            "containers": [{"name": "main", "image": "registry/app:1"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpus"}],
        },
    });
    for (field, value) in extra.as_object().expect("a map") {
        pod["spec"][field] = value.clone();
    }
    store.add(PODS, "default", pod);
}

/// The only claim.
fn only_claim(store: &Store) -> Value {
    let names = store.names(RESOURCE_CLAIMS);
    assert_eq!(names.len(), 1, "{names:?}");
    store.value(RESOURCE_CLAIMS, &names[0])
}

/// What the scheduler writes before it binds the pods.
fn allocate(store: &Store, claim: &str, pods: &[&str]) {
    store.edit(RESOURCE_CLAIMS, claim, Part::Main, |claim| {
        claim["metadata"]["finalizers"] = json!([CLAIM_FINALIZER]);
    });
    let reserved: Vec<Value> = pods
        .iter()
        .map(|pod| {
            let uid = store.value(PODS, pod)["metadata"]["uid"].clone();
            json!({"resource": "pods", "name": pod, "uid": uid})
        })
        .collect();
    store.edit(RESOURCE_CLAIMS, claim, Part::Status, |claim| {
        claim["status"] =
            json!({"allocation": {"devices": {"results": []}}, "reservedFor": reserved});
    });
}

/// Lets the controller look at everything until nothing changes any more.
fn rest(store: &Store) {
    for _ in 0..20 {
        let before = store.resource_version();
        for name in store.names(POD_GROUPS) {
            let key = format!("default/{name}");
            let _ = store.write(|state| Ok(settle_group(state, &key)));
        }
        for name in store.names(PODS) {
            let _ = store.write(|state| Ok(settle_pod(state, &format!("default/{name}"))));
        }
        for name in store.names(RESOURCE_CLAIMS) {
            let key = format!("default/{name}");
            let settled = store.write(|state| {
                settle_claim(state, &key);
                Ok(())
            });
            settled.expect("settled");
        }
        if store.resource_version() == before {
            return;
        }
    }
    panic!("the controller does not come to rest");
}

#[test]
fn a_pod_gets_one_claim_per_template_and_its_name_in_the_status() {
    let store = testing::store();
    add_pod(&store, "train", json!({}));
    rest(&store);
    assert!(store.names(RESOURCE_CLAIMS).is_empty(), "without a template there is nothing to make");
    add_template(&store, "gpus");
    rest(&store);
    let claim = only_claim(&store);
    let name = text_at(&claim, &["metadata", "name"]).to_owned();
    assert!(name.starts_with("train-gpu-"), "{name}");
    let pod = store.value(PODS, "train");
    let statuses = json!([{"name": "gpu", "resourceClaimName": name}]);
    assert_eq!(pod["status"]["resourceClaimStatuses"], statuses);
    assert_eq!(owning_pod(&claim), Some(("train", text_at(&pod, &["metadata", "uid"]))));
    assert_eq!(claim["metadata"]["annotations"]["resource.kubernetes.io/pod-claim-name"], "gpu");
    assert_eq!(claim["metadata"]["labels"]["team"], "ml");
    assert_eq!(claim["spec"]["devices"]["requests"][0]["name"], "gpu");

    // Interrupted between the two writes, the controller finds the claim again.
    store.edit(PODS, "train", Part::Status, |pod| {
        pod["status"]["resourceClaimStatuses"] = Value::Null;
    });
    rest(&store);
    assert_eq!(only_claim(&store)["metadata"]["name"], json!(name));
    assert_eq!(store.value(PODS, "train")["status"]["resourceClaimStatuses"], statuses);
}

#[test]
fn pods_share_the_claim_of_their_group_and_it_goes_with_the_group() {
    let store = testing::store();
    add_template(&store, "gpus");
    let group = json!({"schedulingGroup": {"podGroupName": "gang"}});
    add_pod(&store, "one", group.clone());
    rest(&store);
    assert!(store.names(RESOURCE_CLAIMS).is_empty(), "whose claim it is depends on the group");
    let claims = json!([{"name": "gpu", "resourceClaimTemplateName": "gpus"}]);
    store.add(
        POD_GROUPS,
        "default",
        json!({"metadata": {"name": "gang"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "resourceClaims": claims}}),
    );
    add_pod(&store, "two", group);
    rest(&store);
    let claim = only_claim(&store);
    let name = text_at(&claim, &["metadata", "name"]).to_owned();
    let made = json!([{"name": "gpu", "resourceClaimName": name}]);
    for (kind, owner) in [(POD_GROUPS, "gang"), (PODS, "one"), (PODS, "two")] {
        assert_eq!(store.value(kind, owner)["status"]["resourceClaimStatuses"], made, "{owner}");
    }
    let gang = store.value(POD_GROUPS, "gang");
    let uid = text_at(&gang, &["metadata", "uid"]);
    assert_eq!((owning_group(&claim), owning_pod(&claim)), (Some(("gang", uid)), None));
    assert_eq!(
        claim["metadata"]["annotations"]["resource.kubernetes.io/podgroup-claim-name"],
        "gpu"
    );

    // A pod that is bound without the scheduler needs no reservation but its group's.
    allocate(&store, &name, &[]);
    let bound = json!({"schedulingGroup": {"podGroupName": "gang"}, "nodeName": "n"});
    add_pod(&store, "three", bound);
    rest(&store);
    let reserved = json!([{"apiGroup": "scheduling.k8s.io", "resource": "podgroups",
        "name": "gang", "uid": uid}]);
    assert_eq!(only_claim(&store)["status"]["reservedFor"], reserved);
    // Gone, they leave the group its claim.
    store.delete(PODS, "three");
    store.delete(PODS, "one");
    store.delete(PODS, "two");
    rest(&store);
    assert!(at(&only_claim(&store), &["status", "allocation"]).is_some());
    store.edit(POD_GROUPS, "gang", Part::Main, |gang| {
        gang["metadata"]["finalizers"] = json!([]);
    });
    store.delete(POD_GROUPS, "gang");
    rest(&store);
    assert!(store.names(RESOURCE_CLAIMS).is_empty());
}

#[test]
fn a_pod_of_a_group_has_claims_of_its_own_where_the_group_has_none() {
    let store = testing::store();
    add_template(&store, "gpus");
    store.add(
        POD_GROUPS,
        "default",
        json!({"metadata": {"name": "gang"}, "spec": {"schedulingPolicy": {"basic": {}}}}),
    );
    add_pod(&store, "one", json!({"schedulingGroup": {"podGroupName": "gang"}}));
    rest(&store);
    assert_eq!(
        owning_pod(&only_claim(&store)).map(|(name, _)| name.to_owned()),
        Some("one".to_owned())
    );
}

#[test]
fn a_claim_that_is_deleted_before_its_pod_runs_is_made_again() {
    let store = testing::store();
    add_template(&store, "gpus");
    add_pod(&store, "train", json!({}));
    rest(&store);
    let first = text_at(&only_claim(&store), &["metadata", "name"]).to_owned();
    store.delete(RESOURCE_CLAIMS, &first);
    rest(&store);
    let second = text_at(&only_claim(&store), &["metadata", "name"]).to_owned();
    assert_ne!(first, second);
    let statuses = &store.value(PODS, "train")["status"]["resourceClaimStatuses"];
    assert_eq!(*statuses, json!([{"name": "gpu", "resourceClaimName": second}]));
}

#[test]
fn a_generated_claim_goes_when_its_pod_has_ended_or_is_gone() {
    for is_deleted in [false, true] {
        let store = testing::store();
        add_template(&store, "gpus");
        add_pod(&store, "train", json!({}));
        rest(&store);
        let name = text_at(&only_claim(&store), &["metadata", "name"]).to_owned();
        allocate(&store, &name, &["train"]);
        rest(&store);
        assert!(at(&only_claim(&store), &["status", "allocation"]).is_some(), "in use");
        if is_deleted {
            store.delete(PODS, "train");
        } else {
            store.end_pod("train", "Succeeded");
        }
        rest(&store);
        assert!(store.names(RESOURCE_CLAIMS).is_empty());
    }
}

#[test]
fn a_shared_claim_is_released_with_its_last_pod_and_can_be_allocated_again() {
    let store = testing::store();
    let shared = json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]});
    store.add(RESOURCE_CLAIMS, "default", json!({"metadata": {"name": "shared"}, "spec": {}}));
    add_pod(&store, "a", shared.clone());
    add_pod(&store, "b", shared);
    allocate(&store, "shared", &["a", "b"]);
    store.end_pod("a", "Succeeded");
    rest(&store);
    let claim = only_claim(&store);
    assert_eq!(list_at(&claim, &["status", "reservedFor"]).len(), 1);
    assert_eq!(claim["status"]["reservedFor"][0]["name"], "b");
    assert!(at(&claim, &["status", "allocation"]).is_some());
    store.delete(PODS, "b");
    rest(&store);
    let claim = only_claim(&store);
    assert!(at(&claim, &["status", "allocation"]).is_none(), "{claim}");
    assert!(list_at(&claim, &["status", "reservedFor"]).is_empty());
    assert!(list_at(&claim, &["metadata", "finalizers"]).is_empty());
}

#[test]
fn a_pod_of_the_same_name_keeps_no_reservation_of_another() {
    let store = testing::store();
    let shared = json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]});
    store.add(RESOURCE_CLAIMS, "default", json!({"metadata": {"name": "shared"}, "spec": {}}));
    add_pod(&store, "a", shared.clone());
    allocate(&store, "shared", &["a"]);
    store.delete(PODS, "a");
    add_pod(&store, "a", shared);
    rest(&store);
    assert!(list_at(&only_claim(&store), &["status", "reservedFor"]).is_empty());
}

#[test]
fn what_a_scheduler_left_half_done_does_not_hold_a_claim_that_is_deleted() {
    let store = testing::store();
    store.add(RESOURCE_CLAIMS, "default", json!({"metadata": {"name": "own"}, "spec": {}}));
    // The finalizer was written, but the allocation was not, or no pod is in `reservedFor`.
    for has_allocation in [false, true] {
        allocate(&store, "own", &[]);
        if !has_allocation {
            store.edit(RESOURCE_CLAIMS, "own", Part::Status, |claim| {
                claim["status"] = json!({});
            });
        }
        rest(&store);
        let claim = only_claim(&store);
        assert_eq!(claim["metadata"]["finalizers"], json!([CLAIM_FINALIZER]), "it may still come");
        assert_eq!(at(&claim, &["status", "allocation"]).is_some(), has_allocation);
    }
    store.delete(RESOURCE_CLAIMS, "own");
    rest(&store);
    assert!(store.names(RESOURCE_CLAIMS).is_empty());
}

#[test]
fn a_pod_that_names_its_node_gets_allocated_claims_reserved() {
    let store = testing::store();
    let shared = json!({"nodeName": "node-1",
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]});
    store.add(RESOURCE_CLAIMS, "default", json!({"metadata": {"name": "shared"}, "spec": {}}));
    add_pod(&store, "a", shared);
    rest(&store);
    assert!(list_at(&only_claim(&store), &["status", "reservedFor"]).is_empty(), "not allocated");
    allocate(&store, "shared", &[]);
    rest(&store);
    assert_eq!(only_claim(&store)["status"]["reservedFor"][0]["name"], "a");
}

#[test]
fn long_names_leave_room_for_what_is_generated() {
    let store = testing::store();
    let (pod, entry) = ("p".repeat(200), "e".repeat(63));
    add_template(&store, "gpus");
    add_pod(
        &store,
        &pod,
        json!({"resourceClaims": [{"name": entry, "resourceClaimTemplateName": "gpus"}]}),
    );
    rest(&store);
    let name = text_at(&only_claim(&store), &["metadata", "name"]).to_owned();
    assert!(name.len() <= 63 && name.starts_with('p') && name.contains("-e"), "{name}");
}

fn node(store: &Store, name: &str, zone: &str) {
    let labels = json!({"topology.kubernetes.io/zone": zone});
    store.add(NODES, "", json!({"metadata": {"name": name, "labels": labels}}));
}

#[test]
fn slices_come_and_go_with_their_nodes_and_zones() {
    let store = testing::store();
    let devices = SampleDevices::default().gpus_per_node(2).fabric_per_zone(3);
    let settle = || {
        let write = store.write(|state| {
            publish_classes(state);
            for name in ["node-1", "node-2"] {
                settle_node(state, &devices, name);
            }
            settle_zone(state, &devices, "a");
            Ok(())
        });
        write.expect("settled");
    };
    node(&store, "node-1", "a");
    node(&store, "node-2", "a");
    settle();
    let classes = ["fabric.example.com", "gpu.example.com", "partition.example.com"];
    assert_eq!(store.names(DEVICE_CLASSES), classes);
    let all = [
        "a-fabric",
        "node-1-counters",
        "node-1-gpu",
        "node-1-partitions",
        "node-2-counters",
        "node-2-gpu",
        "node-2-partitions",
    ];
    assert_eq!(store.names(RESOURCE_SLICES), all);
    let gpus = store.get(RESOURCE_SLICES, "", "node-2-gpu").expect("there").value();
    assert_eq!(list_at(&gpus, &["spec", "devices"]).len(), 2);
    assert_eq!(gpus["spec"]["nodeName"], "node-2");

    // One that is deleted is published again; the others are left alone.
    let before = store.resource_version();
    settle();
    assert_eq!(store.resource_version(), before);
    store.delete(RESOURCE_SLICES, "node-1-gpu");
    settle();
    assert_eq!(store.names(RESOURCE_SLICES), all);

    // A node that is made again has slices of its own.
    store.delete(NODES, "node-2");
    node(&store, "node-2", "a");
    settle();
    let uid = store.get(NODES, "", "node-2").expect("there").uid().to_owned();
    let gpus = store.get(RESOURCE_SLICES, "", "node-2-gpu").expect("there");
    assert_eq!(*gpus.owners()[0], *uid);

    store.delete(NODES, "node-1");
    settle();
    assert_eq!(
        store.names(RESOURCE_SLICES),
        ["a-fabric", "node-2-counters", "node-2-gpu", "node-2-partitions"]
    );
    store.delete(NODES, "node-2");
    settle();
    assert!(store.names(RESOURCE_SLICES).is_empty());
}
