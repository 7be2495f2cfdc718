//! The controller and the driver step by step: a store, and a scheduler and kubelets that do what the test says.

use std::sync::Arc;

use kube_scheduler_api_types::well_known::CLAIM_FINALIZER;
use serde_json::{Value, json};

use super::driver::{publish_classes, settle_node, settle_zone};
use super::rules::{settle_claim, settle_group, settle_pod};
use super::*;
use crate::api::delete::{DeleteOptions, delete};
use crate::api::update::Part;
use crate::kinds::{
    DEVICE_CLASSES, KindId, NODES, POD_GROUPS, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS,
    RESOURCE_SLICES,
};
use crate::object::at;
use crate::selectors::Selection;
use crate::store::Store;
use crate::testing;

struct World {
    store: Arc<Store>,
}

impl World {
    fn new() -> Self {
        Self { store: testing::store() }
    }

    fn create(&self, kind: KindId, namespace: &str, value: Value) {
        testing::add(&self.store, kind, namespace, value);
    }

    fn template(&self, name: &str) {
        self.create(
            RESOURCE_CLAIM_TEMPLATES,
            "default",
            json!({"metadata": {"name": name}, "spec": {
                "metadata": {"labels": {"team": "ml"}},
                "spec": {"devices": {"requests": [
                    {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}}}),
        );
    }

    /// A pod with a claim from the template `gpus`.
    fn pod(&self, name: &str, extra: Value) {
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
        self.create(PODS, "default", pod);
    }

    fn get(&self, kind: KindId, name: &str) -> Value {
        self.store.get(kind, "default", name).map(|object| object.value()).unwrap_or_default()
    }

    fn names(&self, kind: KindId) -> Vec<String> {
        let all = self.store.list(kind, &Selection::all()).items;
        all.iter().map(|object| object.name().to_owned()).collect()
    }

    /// The only claim.
    fn claim(&self) -> Value {
        let names = self.names(RESOURCE_CLAIMS);
        assert_eq!(names.len(), 1, "{names:?}");
        self.get(RESOURCE_CLAIMS, &names[0])
    }

    fn edit(&self, kind: KindId, name: &str, part: Part, change: impl FnOnce(&mut Value)) {
        testing::edit(&self.store, kind, name, part, change);
    }

    /// What the scheduler writes before it binds the pods.
    fn allocate(&self, claim: &str, pods: &[&str]) {
        self.edit(RESOURCE_CLAIMS, claim, Part::Main, |claim| {
            claim["metadata"]["finalizers"] = json!([CLAIM_FINALIZER]);
        });
        let reserved: Vec<Value> = pods
            .iter()
            .map(|pod| {
                let uid = self.get(PODS, pod)["metadata"]["uid"].clone();
                json!({"resource": "pods", "name": pod, "uid": uid})
            })
            .collect();
        self.edit(RESOURCE_CLAIMS, claim, Part::Status, |claim| {
            claim["status"] =
                json!({"allocation": {"devices": {"results": []}}, "reservedFor": reserved});
        });
    }

    fn end(&self, pod: &str) {
        self.edit(PODS, pod, Part::Status, |pod| pod["status"]["phase"] = "Succeeded".into());
    }

    fn remove(&self, kind: KindId, name: &str) {
        let namespace = if kind.get().namespaced { "default" } else { "" };
        let options = DeleteOptions { grace_seconds: Some(0), ..DeleteOptions::default() };
        delete(&self.store, kind, namespace, name, &options).expect("deleted");
    }

    /// Lets the controller look at everything until nothing changes any more.
    fn rest(&self) {
        for _ in 0..20 {
            let before = self.store.resource_version();
            for name in self.names(POD_GROUPS) {
                let key = format!("default/{name}");
                let _ = self.store.write(|state| Ok(settle_group(state, &key)));
            }
            for name in self.names(PODS) {
                let _ = self.store.write(|state| Ok(settle_pod(state, &format!("default/{name}"))));
            }
            for name in self.names(RESOURCE_CLAIMS) {
                let key = format!("default/{name}");
                let settled = self.store.write(|state| {
                    settle_claim(state, &key);
                    Ok(())
                });
                settled.expect("settled");
            }
            if self.store.resource_version() == before {
                return;
            }
        }
        panic!("the controller does not come to rest");
    }
}

#[test]
fn a_pod_gets_one_claim_per_template_and_its_name_in_the_status() {
    let world = World::new();
    world.pod("train", json!({}));
    world.rest();
    assert!(world.names(RESOURCE_CLAIMS).is_empty(), "without a template there is nothing to make");
    world.template("gpus");
    world.rest();
    let claim = world.claim();
    let name = text_at(&claim, &["metadata", "name"]).to_owned();
    assert!(name.starts_with("train-gpu-"), "{name}");
    let pod = world.get(PODS, "train");
    let statuses = json!([{"name": "gpu", "resourceClaimName": name}]);
    assert_eq!(pod["status"]["resourceClaimStatuses"], statuses);
    assert_eq!(owning_pod(&claim), Some(("train", text_at(&pod, &["metadata", "uid"]))));
    assert_eq!(claim["metadata"]["annotations"]["resource.kubernetes.io/pod-claim-name"], "gpu");
    assert_eq!(claim["metadata"]["labels"]["team"], "ml");
    assert_eq!(claim["spec"]["devices"]["requests"][0]["name"], "gpu");

    // Interrupted between the two writes, the controller finds the claim again.
    world.edit(PODS, "train", Part::Status, |pod| {
        pod["status"]["resourceClaimStatuses"] = Value::Null;
    });
    world.rest();
    assert_eq!(world.claim()["metadata"]["name"], json!(name));
    assert_eq!(world.get(PODS, "train")["status"]["resourceClaimStatuses"], statuses);
}

#[test]
fn pods_share_the_claim_of_their_group_and_it_goes_with_the_group() {
    let world = World::new();
    world.template("gpus");
    let group = json!({"schedulingGroup": {"podGroupName": "gang"}});
    world.pod("one", group.clone());
    world.rest();
    assert!(world.names(RESOURCE_CLAIMS).is_empty(), "whose claim it is depends on the group");
    let claims = json!([{"name": "gpu", "resourceClaimTemplateName": "gpus"}]);
    world.create(
        POD_GROUPS,
        "default",
        json!({"metadata": {"name": "gang"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "resourceClaims": claims}}),
    );
    world.pod("two", group);
    world.rest();
    let claim = world.claim();
    let name = text_at(&claim, &["metadata", "name"]).to_owned();
    let made = json!([{"name": "gpu", "resourceClaimName": name}]);
    for (kind, owner) in [(POD_GROUPS, "gang"), (PODS, "one"), (PODS, "two")] {
        assert_eq!(world.get(kind, owner)["status"]["resourceClaimStatuses"], made, "{owner}");
    }
    let gang = world.get(POD_GROUPS, "gang");
    let uid = text_at(&gang, &["metadata", "uid"]);
    assert_eq!((owning_group(&claim), owning_pod(&claim)), (Some(("gang", uid)), None));
    assert_eq!(
        claim["metadata"]["annotations"]["resource.kubernetes.io/podgroup-claim-name"],
        "gpu"
    );

    // A pod that is bound without the scheduler needs no reservation but its group's.
    world.allocate(&name, &[]);
    let bound = json!({"schedulingGroup": {"podGroupName": "gang"}, "nodeName": "n"});
    world.pod("three", bound);
    world.rest();
    let reserved = json!([{"apiGroup": "scheduling.k8s.io", "resource": "podgroups",
        "name": "gang", "uid": uid}]);
    assert_eq!(world.claim()["status"]["reservedFor"], reserved);
    // Gone, they leave the group its claim.
    world.remove(PODS, "three");
    world.remove(PODS, "one");
    world.remove(PODS, "two");
    world.rest();
    assert!(at(&world.claim(), &["status", "allocation"]).is_some());
    world.edit(POD_GROUPS, "gang", Part::Main, |gang| {
        gang["metadata"]["finalizers"] = json!([]);
    });
    world.remove(POD_GROUPS, "gang");
    world.rest();
    assert!(world.names(RESOURCE_CLAIMS).is_empty());
}

#[test]
fn a_pod_of_a_group_has_claims_of_its_own_where_the_group_has_none() {
    let world = World::new();
    world.template("gpus");
    world.create(
        POD_GROUPS,
        "default",
        json!({"metadata": {"name": "gang"}, "spec": {"schedulingPolicy": {"basic": {}}}}),
    );
    world.pod("one", json!({"schedulingGroup": {"podGroupName": "gang"}}));
    world.rest();
    assert_eq!(owning_pod(&world.claim()).map(|(name, _)| name.to_owned()), Some("one".to_owned()));
}

#[test]
fn a_claim_that_is_deleted_before_its_pod_runs_is_made_again() {
    let world = World::new();
    world.template("gpus");
    world.pod("train", json!({}));
    world.rest();
    let first = text_at(&world.claim(), &["metadata", "name"]).to_owned();
    world.remove(RESOURCE_CLAIMS, &first);
    world.rest();
    let second = text_at(&world.claim(), &["metadata", "name"]).to_owned();
    assert_ne!(first, second);
    let statuses = &world.get(PODS, "train")["status"]["resourceClaimStatuses"];
    assert_eq!(*statuses, json!([{"name": "gpu", "resourceClaimName": second}]));
}

#[test]
fn a_generated_claim_goes_when_its_pod_has_ended_or_is_gone() {
    for is_deleted in [false, true] {
        let world = World::new();
        world.template("gpus");
        world.pod("train", json!({}));
        world.rest();
        let name = text_at(&world.claim(), &["metadata", "name"]).to_owned();
        world.allocate(&name, &["train"]);
        world.rest();
        assert!(at(&world.claim(), &["status", "allocation"]).is_some(), "in use");
        if is_deleted {
            world.remove(PODS, "train");
        } else {
            world.end("train");
        }
        world.rest();
        assert!(world.names(RESOURCE_CLAIMS).is_empty());
    }
}

#[test]
fn a_shared_claim_is_released_with_its_last_pod_and_can_be_allocated_again() {
    let world = World::new();
    let shared = json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]});
    world.create(RESOURCE_CLAIMS, "default", json!({"metadata": {"name": "shared"}, "spec": {}}));
    world.pod("a", shared.clone());
    world.pod("b", shared);
    world.allocate("shared", &["a", "b"]);
    world.end("a");
    world.rest();
    let claim = world.claim();
    assert_eq!(list_at(&claim, &["status", "reservedFor"]).len(), 1);
    assert_eq!(claim["status"]["reservedFor"][0]["name"], "b");
    assert!(at(&claim, &["status", "allocation"]).is_some());
    world.remove(PODS, "b");
    world.rest();
    let claim = world.claim();
    assert!(at(&claim, &["status", "allocation"]).is_none(), "{claim}");
    assert!(list_at(&claim, &["status", "reservedFor"]).is_empty());
    assert!(list_at(&claim, &["metadata", "finalizers"]).is_empty());
}

#[test]
fn a_pod_of_the_same_name_keeps_no_reservation_of_another() {
    let world = World::new();
    let shared = json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]});
    world.create(RESOURCE_CLAIMS, "default", json!({"metadata": {"name": "shared"}, "spec": {}}));
    world.pod("a", shared.clone());
    world.allocate("shared", &["a"]);
    world.remove(PODS, "a");
    world.pod("a", shared);
    world.rest();
    assert!(list_at(&world.claim(), &["status", "reservedFor"]).is_empty());
}

#[test]
fn what_a_scheduler_left_half_done_does_not_hold_a_claim_that_is_deleted() {
    let world = World::new();
    world.create(RESOURCE_CLAIMS, "default", json!({"metadata": {"name": "own"}, "spec": {}}));
    // The finalizer was written, but the allocation was not, or no pod is in `reservedFor`.
    for has_allocation in [false, true] {
        world.allocate("own", &[]);
        if !has_allocation {
            world.edit(RESOURCE_CLAIMS, "own", Part::Status, |claim| {
                claim["status"] = json!({});
            });
        }
        world.rest();
        let claim = world.claim();
        assert_eq!(claim["metadata"]["finalizers"], json!([CLAIM_FINALIZER]), "it may still come");
        assert_eq!(at(&claim, &["status", "allocation"]).is_some(), has_allocation);
    }
    world.remove(RESOURCE_CLAIMS, "own");
    world.rest();
    assert!(world.names(RESOURCE_CLAIMS).is_empty());
}

#[test]
fn a_pod_that_names_its_node_gets_allocated_claims_reserved() {
    let world = World::new();
    let shared = json!({"nodeName": "node-1",
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]});
    world.create(RESOURCE_CLAIMS, "default", json!({"metadata": {"name": "shared"}, "spec": {}}));
    world.pod("a", shared);
    world.rest();
    assert!(list_at(&world.claim(), &["status", "reservedFor"]).is_empty(), "not allocated");
    world.allocate("shared", &[]);
    world.rest();
    assert_eq!(world.claim()["status"]["reservedFor"][0]["name"], "a");
}

#[test]
fn long_names_leave_room_for_what_is_generated() {
    let world = World::new();
    let (pod, entry) = ("p".repeat(200), "e".repeat(63));
    world.template("gpus");
    world.pod(
        &pod,
        json!({"resourceClaims": [{"name": entry, "resourceClaimTemplateName": "gpus"}]}),
    );
    world.rest();
    let name = text_at(&world.claim(), &["metadata", "name"]).to_owned();
    assert!(name.len() <= 63 && name.starts_with('p') && name.contains("-e"), "{name}");
}

fn node(world: &World, name: &str, zone: &str) {
    let labels = json!({"topology.kubernetes.io/zone": zone});
    world.create(NODES, "", json!({"metadata": {"name": name, "labels": labels}}));
}

#[test]
fn slices_come_and_go_with_their_nodes_and_zones() {
    let world = World::new();
    let devices = SampleDevices::default().gpus_per_node(2).fabric_per_zone(3);
    let settle = || {
        let write = world.store.write(|state| {
            publish_classes(state);
            for name in ["node-1", "node-2"] {
                settle_node(state, &devices, name);
            }
            settle_zone(state, &devices, "a");
            Ok(())
        });
        write.expect("settled");
    };
    node(&world, "node-1", "a");
    node(&world, "node-2", "a");
    settle();
    let classes = ["fabric.example.com", "gpu.example.com", "partition.example.com"];
    assert_eq!(world.names(DEVICE_CLASSES), classes);
    let all = [
        "a-fabric",
        "node-1-counters",
        "node-1-gpu",
        "node-1-partitions",
        "node-2-counters",
        "node-2-gpu",
        "node-2-partitions",
    ];
    assert_eq!(world.names(RESOURCE_SLICES), all);
    let gpus = world.store.get(RESOURCE_SLICES, "", "node-2-gpu").expect("there").value();
    assert_eq!(list_at(&gpus, &["spec", "devices"]).len(), 2);
    assert_eq!(gpus["spec"]["nodeName"], "node-2");

    // One that is deleted is published again; the others are left alone.
    let before = world.store.resource_version();
    settle();
    assert_eq!(world.store.resource_version(), before);
    world.remove(RESOURCE_SLICES, "node-1-gpu");
    settle();
    assert_eq!(world.names(RESOURCE_SLICES), all);

    // A node that is made again has slices of its own.
    world.remove(NODES, "node-2");
    node(&world, "node-2", "a");
    settle();
    let uid = world.store.get(NODES, "", "node-2").expect("there").uid().to_owned();
    let gpus = world.store.get(RESOURCE_SLICES, "", "node-2-gpu").expect("there");
    assert_eq!(*gpus.owners()[0], *uid);

    world.remove(NODES, "node-1");
    settle();
    assert_eq!(
        world.names(RESOURCE_SLICES),
        ["a-fabric", "node-2-counters", "node-2-gpu", "node-2-partitions"]
    );
    world.remove(NODES, "node-2");
    settle();
    assert!(world.names(RESOURCE_SLICES).is_empty());
}
