//! Volumes: disks, zones, limits, and who wakes up when they change.

use std::sync::Arc;

use kube_scheduler_framework::api::{Object, Pod};
use kube_scheduler_framework::testing::{PointReads, reads_of};
use kube_scheduler_framework::{
    ActionType, ClusterEvent, ClusterView, CycleState, EventObject, EventResource, NodeOverlay,
    NodeView, Reads,
};
use serde_json::{Value, json};

use crate::support::{World, node, plugin, pod, running, signature, text, try_plugin};

const DISK: &str = "Unschedulable: node(s) had no available disk";
const ONE_POD: &str = "Unschedulable: node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode \
     already in-use by another pod";
const ZONE: &str = "UnschedulableAndUnresolvable: node(s) had no available volume zone";
const LIMIT: &str = "Unschedulable: node(s) exceed max volume count";
const DRIVER: &str = "csi.example.com";
const EBS: &str = "ebs.csi.aws.com";

fn with_volumes(volumes: &[Value]) -> Value {
    let named = volumes.iter().enumerate().map(|(at, volume)| {
        let mut volume = volume.clone();
        volume["name"] = json!(format!("v{at}"));
        volume
    });
    json!({"spec": {"volumes": named.collect::<Vec<_>>()}})
}

fn using(volumes: &[Value]) -> Arc<Pod> {
    pod("p", with_volumes(volumes))
}

fn on_n1(name: &str, volumes: &[Value]) -> Arc<Pod> {
    running(name, "n1", with_volumes(volumes))
}

fn claimed(name: &str) -> Value {
    json!({"persistentVolumeClaim": {"claimName": name}})
}

fn ephemeral() -> Value {
    json!({"ephemeral": {"volumeClaimTemplate": {"spec": {}}}})
}

fn claim(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec,
    })
}

fn volume(name: &str, labels: Value, spec: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels}, "spec": spec,
    })
}

fn class(name: &str, provisioner: &str, mode: Value) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": provisioner, "volumeBindingMode": mode,
    })
}

fn csi_node(name: &str, drivers: Value) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name},
        "spec": {"drivers": drivers},
    })
}

fn limited(driver: &str, count: i64) -> Value {
    csi_node("n1", json!([{"name": driver, "allocatable": {"count": count}}]))
}

fn csi(driver: &str, handle: &str) -> Value {
    json!({"csi": {"driver": driver, "volumeHandle": handle}})
}

fn attachment(name: &str, attacher: &str, volume: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": name},
        "spec": {"attacher": attacher, "nodeName": "n1", "source": {"persistentVolumeName": volume}},
    })
}

fn world(pods: impl IntoIterator<Item = Arc<Pod>>, objects: &[Value]) -> World {
    let nodes = [node("n1", json!({})), node("n2", json!({}))];
    objects.iter().fold(World::new(nodes, pods), |world, object| world.with_object(object.clone()))
}

fn object(value: Value) -> Option<EventObject> {
    Some(EventObject::Other(Arc::new(Object::from_value(value).unwrap())))
}

fn hint(
    name: &str,
    resource: EventResource,
    action: ActionType,
    pod: &Pod,
    old: Option<EventObject>,
    new: Option<EventObject>,
) -> String {
    World::default().hint(&*plugin(name), ClusterEvent::new(resource, action), pod, old, new)
}

// VolumeRestrictions

fn disk_verdict(new: Value, existing: Value) -> String {
    let world = world([on_n1("other", &[existing])], &[]);
    world.filter(&*plugin("VolumeRestrictions"), &using(&[new]), "n1")
}

#[test]
fn a_disk_is_used_once_per_node_unless_all_read_it() {
    let gce = |disk: &str, read_only: bool| json!({"gcePersistentDisk": {"pdName": disk, "readOnly": read_only}});
    let ebs = |id: &str, read_only: bool| json!({"awsElasticBlockStore": {"volumeID": id, "readOnly": read_only}});
    let iscsi = |iqn: &str, portal: &str, read_only: bool| json!({"iscsi": {"iqn": iqn, "targetPortal": portal, "readOnly": read_only}});
    let rbd = |monitors: &[&str], pool: &str, image: &str, read_only: bool| json!({"rbd": {"monitors": monitors, "pool": pool, "image": image, "readOnly": read_only}});
    let cases = [
        (gce("a", false), gce("a", true), DISK),
        (gce("a", true), gce("a", true), "ok"),
        (gce("a", false), gce("b", false), "ok"),
        (gce("a", false), ebs("a", false), "ok"),
        (ebs("a", true), ebs("a", true), DISK),
        (ebs("a", true), ebs("b", true), "ok"),
        (iscsi("a", "x", false), iscsi("a", "y", false), DISK),
        (iscsi("a", "x", true), iscsi("a", "x", true), "ok"),
        (iscsi("a", "x", false), iscsi("b", "x", false), "ok"),
        (rbd(&["m", "n"], "p", "i", false), rbd(&["n", "o"], "p", "i", true), DISK),
        (rbd(&["m"], "p", "i", true), rbd(&["m"], "p", "i", true), "ok"),
        (rbd(&["m"], "p", "i", false), rbd(&["n"], "p", "i", false), "ok"),
        (rbd(&["m"], "p", "i", false), rbd(&["m"], "q", "i", false), "ok"),
        (rbd(&["m"], "p", "i", false), rbd(&["m"], "p", "j", false), "ok"),
        (rbd(&[], "p", "i", false), rbd(&[], "p", "i", false), "ok"),
        (gce("a", false), json!({"hostPath": {"path": "/"}}), "ok"),
    ];
    for (new, existing, expected) in cases {
        assert_eq!(disk_verdict(new.clone(), existing.clone()), expected, "{new} {existing}");
    }
}

#[test]
fn disks_conflict_across_namespaces_and_on_their_node_only() {
    let disk = json!({"gcePersistentDisk": {"pdName": "a"}});
    let mut other = with_volumes(std::slice::from_ref(&disk));
    other["metadata"]["namespace"] = json!("elsewhere");
    let world = world([running("other", "n1", other)], &[]);
    let plugin = plugin("VolumeRestrictions");
    assert_eq!(world.filter(&*plugin, &using(std::slice::from_ref(&disk)), "n1"), DISK);
    assert_eq!(world.filter(&*plugin, &using(&[disk]), "n2"), "ok");
}

fn one_pod_claim(name: &str) -> Value {
    claim(name, json!({"accessModes": ["ReadWriteOncePod"]}))
}

#[test]
fn a_claim_for_one_pod_has_one_user_in_the_cluster() {
    let objects =
        [one_pod_claim("own"), claim("shared", json!({"accessModes": ["ReadWriteMany"]}))];
    let restrictions = plugin("VolumeRestrictions");
    let unused = world([], &objects);
    assert_eq!(unused.pre_filter(&*restrictions, &using(&[claimed("own")])), "skip");
    assert_eq!(unused.pre_filter(&*restrictions, &using(&[])), "skip");
    assert_eq!(
        unused.pre_filter(&*restrictions, &using(&[claimed("own"), claimed("gone")])),
        "UnschedulableAndUnresolvable: persistentvolumeclaim \"gone\" not found"
    );
    assert_eq!(unused.pre_filter(&*restrictions, &using(&[ephemeral()])), "skip");
    let used = world([on_n1("other", &[claimed("own"), claimed("shared")])], &objects);
    assert_eq!(used.pre_filter(&*restrictions, &using(&[claimed("shared")])), "skip");
    for name in ["n1", "n2"] {
        assert_eq!(used.filter(&*restrictions, &using(&[claimed("own")]), name), ONE_POD);
    }
    let mut elsewhere = with_volumes(&[claimed("own")]);
    elsewhere["metadata"]["namespace"] = json!("elsewhere");
    let foreign = world([running("other", "n1", elsewhere)], &objects);
    assert_eq!(foreign.pre_filter(&*restrictions, &using(&[claimed("own")])), "skip");
}

/// The verdict after pods came (`true`) and went, starting with `n_users` pods that use the claim.
fn after(n_users: usize, steps: &[(bool, &Arc<Pod>)]) -> String {
    let users = (0..n_users).map(|at| on_n1(&format!("user-{at}"), &[claimed("own")]));
    let world = world(users, &[one_pod_claim("own")]);
    let plugin = plugin("VolumeRestrictions");
    let waiting = using(&[claimed("own")]);
    let (cx, mut state) = (world.cx(), CycleState::new());
    let pre_filter = plugin.as_pre_filter().unwrap();
    assert!(pre_filter.pre_filter(&cx, &mut state, &waiting).status.is_success());
    let overlay = NodeOverlay::new(world.idx("n1"));
    let view = NodeView::hypothetical(&world.cluster, &overlay).unwrap();
    let extensions = pre_filter.extensions().unwrap();
    for (comes, other) in steps {
        let status = if *comes {
            extensions.add_pod(&cx, &mut state, &waiting, other, &view)
        } else {
            extensions.remove_pod(&cx, &mut state, &waiting, other, &view)
        };
        assert!(status.is_success());
    }
    let view = ClusterView::unrecorded(&world.cluster).node(world.idx("n1")).unwrap();
    text(&plugin.as_filter().unwrap().filter(&cx, &state, &waiting, &view))
}

#[test]
fn other_pods_are_counted_by_volume_in_any_namespace() {
    let user = on_n1("user", &[claimed("own")]);
    let stranger = on_n1("stranger", &[claimed("shared")]);
    let greedy = on_n1("greedy", &[claimed("own"), claimed("own")]);
    let mut elsewhere = with_volumes(&[claimed("own")]);
    elsewhere["metadata"]["namespace"] = json!("elsewhere");
    let elsewhere = running("elsewhere", "n1", elsewhere);
    assert_eq!(after(1, &[]), ONE_POD);
    assert_eq!(after(1, &[(false, &user)]), "ok");
    assert_eq!(after(1, &[(false, &stranger)]), ONE_POD);
    assert_eq!(after(1, &[(false, &elsewhere)]), "ok", "a namespace is not looked at");
    assert_eq!(after(2, &[(false, &user)]), "ok", "two users count once at first");
    assert_eq!(after(1, &[(false, &greedy), (true, &user)]), "ok", "the count may be negative");
    assert_eq!(after(1, &[(false, &user), (true, &user)]), ONE_POD);
}

#[test]
fn restrictions_without_state_are_an_error() {
    let world = world([], &[]);
    let plugin = plugin("VolumeRestrictions");
    let (pod, mut state) = (using(&[claimed("own")]), CycleState::new());
    let view = ClusterView::unrecorded(&world.cluster).node(world.idx("n1")).unwrap();
    let expected = "Error: cannot read \"PreFilterVolumeRestrictions\" from cycleState";
    let cx = world.cx();
    assert_eq!(text(&plugin.as_filter().unwrap().filter(&cx, &state, &pod, &view)), expected);
    let extensions = plugin.as_pre_filter().unwrap().extensions().unwrap();
    assert_eq!(text(&extensions.add_pod(&cx, &mut state, &pod, &pod, &view)), expected);
    assert_eq!(text(&extensions.remove_pod(&cx, &mut state, &pod, &pod, &view)), expected);
}

#[test]
fn disks_and_claims_that_become_free_wake_pods_of_their_namespace() {
    let disk = json!({"awsElasticBlockStore": {"volumeID": "a"}});
    let waiting = using(&[disk.clone(), claimed("own")]);
    let deleted = |namespace: &str, volumes: &[Value]| {
        let mut extra = with_volumes(volumes);
        extra["metadata"]["namespace"] = json!(namespace);
        let pod = EventObject::Pod(running("gone", "n1", extra));
        hint(
            "VolumeRestrictions",
            EventResource::AssignedPod,
            ActionType::DELETE,
            &waiting,
            Some(pod),
            None,
        )
    };
    assert_eq!(deleted("default", std::slice::from_ref(&disk)), "queue");
    assert_eq!(deleted("default", &[claimed("own")]), "queue");
    assert_eq!(deleted("default", &[claimed("other"), ephemeral()]), "skip");
    assert_eq!(deleted("elsewhere", &[disk]), "skip");
    let added = |namespace: &str, name: &str| {
        let mut claim = claim(name, json!({}));
        claim["metadata"]["namespace"] = json!(namespace);
        hint(
            "VolumeRestrictions",
            EventResource::PersistentVolumeClaim,
            ActionType::ADD,
            &waiting,
            None,
            object(claim),
        )
    };
    assert_eq!(
        [added("default", "own"), added("elsewhere", "own"), added("default", "p-v1")],
        ["queue", "skip", "skip"]
    );
    let on = |action| hint("VolumeRestrictions", EventResource::Node, action, &waiting, None, None);
    assert_eq!(
        [on(ActionType::ADD), on(ActionType::UPDATE_NODE_LABEL)],
        ["always", "not registered"]
    );
    let wrong = hint(
        "VolumeRestrictions",
        EventResource::AssignedPod,
        ActionType::DELETE,
        &waiting,
        object(claim("own", json!({}))),
        None,
    );
    assert!(wrong.starts_with("error: "), "{wrong}");
}

// VolumeZone

const GA: &str = "topology.kubernetes.io/zone";
const GA_REGION: &str = "topology.kubernetes.io/region";
const BETA: &str = "failure-domain.beta.kubernetes.io/zone";

fn zone_verdict(volume_labels: Value, node_labels: Value) -> String {
    let bound = claim("c", json!({"volumeName": "pv"}));
    let placed = World::new([node("n1", json!({"metadata": {"labels": node_labels}}))], [])
        .with_object(bound)
        .with_object(volume("pv", volume_labels, json!({})));
    placed.filter(&*plugin("VolumeZone"), &using(&[claimed("c")]), "n1")
}

#[test]
fn a_volume_keeps_its_pod_in_its_zone() {
    let cases = [
        (json!({GA: "a"}), json!({}), "ok"),
        (json!({GA: "a"}), json!({"other": "x"}), "ok"),
        (json!({}), json!({GA: "b"}), "ok"),
        (json!({GA: "a"}), json!({GA: "a"}), "ok"),
        (json!({GA: "a"}), json!({GA: "b"}), ZONE),
        (json!({GA: "a"}), json!({GA: ""}), ZONE),
        (json!({GA: "a__ b "}), json!({GA: "b"}), "ok"),
        (json!({GA: "a__"}), json!({GA: "b"}), "ok"),
        (json!({GA: "a", GA_REGION: "r"}), json!({GA: "a"}), ZONE),
        (json!({GA: "a"}), json!({BETA: "a"}), ZONE),
        (json!({BETA: "a"}), json!({GA: "a"}), "ok"),
        (json!({BETA: "a"}), json!({BETA: "b", GA: "a"}), ZONE),
        (json!({BETA: "a", GA: "b"}), json!({BETA: "a", GA: "a"}), ZONE),
        (json!({GA: "a"}), json!({GA_REGION: "r"}), ZONE),
    ];
    for (volume, node, expected) in cases {
        assert_eq!(zone_verdict(volume.clone(), node.clone()), expected, "{volume} {node}");
    }
}

#[test]
fn zones_need_volumes_that_are_known() {
    let objects = [
        claim("bound", json!({"volumeName": "gone"})),
        claim("plain", json!({})),
        claim("lost-class", json!({"storageClassName": "gone"})),
        claim("late", json!({"storageClassName": "late"})),
        claim("modeless", json!({"storageClassName": "modeless"})),
        claim("now", json!({"storageClassName": "now"})),
        class("late", "x", json!("WaitForFirstConsumer")),
        class("now", "x", json!("Immediate")),
        class("modeless", "x", Value::Null),
    ];
    let world = world([], &objects);
    let plugin = plugin("VolumeZone");
    let cases = [
        ("", "PersistentVolumeClaim had no name"),
        ("gone", "persistentvolumeclaim \"gone\" not found"),
        ("bound", "persistentvolume \"gone\" not found"),
        ("plain", "PersistentVolumeClaim had no pv name and storageClass name"),
        ("lost-class", "storageclass.storage.k8s.io \"gone\" not found"),
        ("modeless", "VolumeBindingMode not set for StorageClass \"modeless\""),
        ("now", "PersistentVolume had no name"),
    ];
    for (name, expected) in cases {
        assert_eq!(
            world.pre_filter(&*plugin, &using(&[claimed(name)])),
            format!("UnschedulableAndUnresolvable: {expected}")
        );
    }
    assert_eq!(world.pre_filter(&*plugin, &using(&[claimed("late"), ephemeral()])), "skip");
    assert_eq!(world.pre_filter(&*plugin, &using(&[])), "skip");
    // Without what PreFilter found out, Filter finds it out itself.
    let view = ClusterView::unrecorded(&world.cluster).node(world.idx("n1")).unwrap();
    let ask = |name: &str| {
        let filter = plugin.as_filter().unwrap();
        text(&filter.filter(&world.cx(), &CycleState::new(), &using(&[claimed(name)]), &view))
    };
    assert_eq!(ask("now"), "UnschedulableAndUnresolvable: PersistentVolume had no name");
    assert_eq!(ask("late"), "ok");
}

#[test]
fn classes_claims_and_volumes_that_may_move_a_pod_wake_it() {
    let waiting = using(&[claimed("c")]);
    let on_class = |mode: Value| {
        let new = object(class("s", "x", mode));
        hint("VolumeZone", EventResource::StorageClass, ActionType::ADD, &waiting, None, new)
    };
    assert_eq!(on_class(json!("WaitForFirstConsumer")), "queue");
    assert_eq!([on_class(json!("Immediate")), on_class(Value::Null)], ["skip", "skip"]);
    let on_claim = |name: &str, action| {
        let new = object(claim(name, json!({})));
        hint("VolumeZone", EventResource::PersistentVolumeClaim, action, &waiting, None, new)
    };
    assert_eq!(on_claim("c", ActionType::ADD), "queue");
    assert_eq!(on_claim("c", ActionType::UPDATE), "queue");
    assert_eq!(on_claim("d", ActionType::UPDATE), "skip");
    let on_volume = |old: Value, new: Value| {
        let at = |labels| object(volume("any", labels, json!({})));
        hint(
            "VolumeZone",
            EventResource::PersistentVolume,
            ActionType::UPDATE,
            &waiting,
            at(old),
            at(new),
        )
    };
    assert_eq!(on_volume(json!({GA: "a"}), json!({GA: "a__b"})), "queue");
    assert_eq!(on_volume(json!({GA: "a__b"}), json!({GA: "b__a", "x": "y"})), "skip");
    assert_eq!(on_volume(json!({}), json!({GA: "a__"})), "skip");
    assert_eq!(on_volume(json!({GA: "a"}), json!({BETA: "a"})), "queue");
    let added = object(volume("any", json!({}), json!({})));
    assert_eq!(
        hint("VolumeZone", EventResource::PersistentVolume, ActionType::ADD, &waiting, None, added),
        "queue"
    );
    let on_node = hint(
        "VolumeZone",
        EventResource::Node,
        ActionType::UPDATE_NODE_LABEL,
        &waiting,
        None,
        None,
    );
    assert_eq!(on_node, "always");
}

// NodeVolumeLimits

/// Claims `c0`, `c1`, … bound to volumes `pv0`, `pv1`, … of one driver.
fn bound_claims(driver: &str, n: usize) -> Vec<Value> {
    (0..n)
        .flat_map(|at| {
            [
                claim(&format!("c{at}"), json!({"volumeName": format!("pv{at}")})),
                volume(&format!("pv{at}"), json!({}), csi(driver, &format!("h{at}"))),
            ]
        })
        .collect()
}

fn limit_verdict(
    pods: impl IntoIterator<Item = Arc<Pod>>,
    objects: &[Value],
    new: &[Value],
) -> String {
    world(pods, objects).filter(&*plugin("NodeVolumeLimits"), &using(new), "n1")
}

#[test]
fn a_node_attaches_as_many_volumes_as_its_driver_says() {
    let verdict = |limit: Value| {
        let mut objects = bound_claims(DRIVER, 3);
        objects.push(csi_node("n1", limit));
        let others = [on_n1("a", &[claimed("c0")]), on_n1("b", &[claimed("c1"), claimed("c0")])];
        limit_verdict(others, &objects, &[claimed("c2"), claimed("c1")])
    };
    let count = |count: Value| json!([{"name": DRIVER, "allocatable": {"count": count}}]);
    assert_eq!(verdict(count(json!(3))), "ok", "c1 is there already");
    assert_eq!(verdict(count(json!(2))), LIMIT);
    assert_eq!(verdict(count(json!(0))), LIMIT);
    assert_eq!(verdict(count(Value::Null)), "ok");
    assert_eq!(verdict(json!([{"name": DRIVER}])), "ok");
    assert_eq!(verdict(json!([{"name": "other", "allocatable": {"count": 0}}])), "ok");
    assert_eq!(limit_verdict([], &bound_claims(DRIVER, 1), &[claimed("c0")]), "ok", "no CSINode");
}

#[test]
fn volumes_that_do_not_exist_yet_count_by_their_class() {
    let mut objects = vec![
        limited(DRIVER, 1),
        class("s", DRIVER, json!("WaitForFirstConsumer")),
        class("in-tree", "kubernetes.io/aws-ebs", json!("Immediate")),
        claim("pending", json!({"storageClassName": "s"})),
        claim("other", json!({"storageClassName": "s"})),
        claim("dangling", json!({"storageClassName": "s", "volumeName": "gone"})),
        claim("classless", json!({})),
        claim("lost", json!({"storageClassName": "gone"})),
        claim("migrated", json!({"storageClassName": "in-tree"})),
    ];
    let verdict = |objects: &[Value], existing: &str, new: &str| {
        limit_verdict([on_n1("a", &[claimed(existing)])], objects, &[claimed(new)])
    };
    assert_eq!(verdict(&objects, "pending", "other"), LIMIT);
    assert_eq!(verdict(&objects, "pending", "pending"), "ok", "the same claim");
    assert_eq!(verdict(&objects, "pending", "dangling"), LIMIT);
    assert_eq!(verdict(&objects, "pending", "classless"), "ok");
    assert_eq!(verdict(&objects, "pending", "lost"), "ok");
    assert_eq!(verdict(&objects, "missing", "other"), "ok");
    assert_eq!(verdict(&objects, "pending", "migrated"), "ok");
    objects[0] = limited(EBS, 0);
    assert_eq!(verdict(&objects, "pending", "migrated"), LIMIT);
    assert_eq!(
        verdict(&objects, "pending", "missing"),
        "UnschedulableAndUnresolvable: looking up PVC default/missing: persistentvolumeclaim \"missing\" not found"
    );
    assert_eq!(verdict(&objects, "pending", ""), "Error: PersistentVolumeClaim had no name");
}

#[test]
fn in_tree_volumes_count_as_what_they_have_become() {
    let inline = json!({"awsElasticBlockStore": {"volumeID": "aws:///vol-1"}});
    let mut objects = vec![
        limited(EBS, 1),
        claim("c", json!({"volumeName": "pv"})),
        claim("d", json!({"volumeName": "local"})),
        volume("pv", json!({}), json!({"awsElasticBlockStore": {"volumeID": "vol-1"}})),
        volume("local", json!({}), json!({"hostPath": {"path": "/"}})),
        claim("native", json!({"volumeName": "csi"})),
        volume("csi", json!({}), csi(EBS, "vol-1")),
        claim("next", json!({"volumeName": "csi-2"})),
        volume("csi-2", json!({}), csi(EBS, "vol-2")),
    ];
    let same =
        [on_n1("a", std::slice::from_ref(&inline)), on_n1("b", &[claimed("native"), claimed("d")])];
    assert_eq!(
        limit_verdict(same.clone(), &objects, &[claimed("c")]),
        "ok",
        "one volume under three names"
    );
    assert_eq!(limit_verdict(same, &objects, &[claimed("next")]), LIMIT);
    // The driver is not migrated without a CSINode, however many limits others have.
    objects[0] = csi_node("n2", json!([{"name": EBS, "allocatable": {"count": 0}}]));
    assert_eq!(limit_verdict([], &objects, std::slice::from_ref(&inline)), "ok");
    objects[0] = limited(EBS, 0);
    assert_eq!(limit_verdict([], &objects, &[inline]), LIMIT);
    let broken = json!({"awsElasticBlockStore": {"volumeID": "aws:///disk"}});
    assert_eq!(
        limit_verdict([], &objects, &[broken]),
        "Error: converting volume(v0) from inline to csi: failed to translate Kubernetes ID to EBS Volume ID \
         Invalid format for AWS volume (aws:///disk)"
    );
    let file = json!({"azureFile": {"shareName": "s"}});
    assert_eq!(limit_verdict([], &objects, &[file]), "ok", "never counted");
}

#[test]
fn ephemeral_volumes_count_when_they_are_the_pods_own() {
    let owned = |owner: &str| {
        let mut owned = claim(&format!("{owner}-v0"), json!({"volumeName": format!("pv-{owner}")}));
        owned["metadata"]["ownerReferences"] =
            json!([{"uid": "someone"}, {"uid": owner, "controller": true}]);
        [owned, volume(&format!("pv-{owner}"), json!({}), csi(DRIVER, owner))]
    };
    let mut objects = vec![limited(DRIVER, 1)];
    objects.extend(owned("p"));
    assert_eq!(limit_verdict([], &objects, &[ephemeral()]), "ok");
    objects.extend(owned("q"));
    assert_eq!(limit_verdict([on_n1("q", &[ephemeral()])], &objects, &[ephemeral()]), LIMIT);
    assert_eq!(
        limit_verdict([], &objects[..1], &[ephemeral()]),
        "UnschedulableAndUnresolvable: looking up PVC default/p-v0: persistentvolumeclaim \"p-v0\" not found"
    );
    let mut stolen = objects.clone();
    stolen[1]["metadata"]["ownerReferences"][1]["uid"] = json!("thief");
    let text = "PVC default/p-v0 was not created for pod default/p (pod is not owner)";
    assert_eq!(limit_verdict([], &stolen, &[ephemeral()]), format!("Error: {text}"));
    stolen = objects;
    stolen[3]["metadata"]["ownerReferences"][1]["uid"] = json!("thief");
    let text = "PVC default/q-v0 was not created for pod default/q (pod is not owner)";
    assert_eq!(
        limit_verdict([on_n1("q", &[ephemeral()])], &stolen, &[ephemeral()]),
        format!("Error: {text}")
    );
}

#[test]
fn an_own_volume_that_is_still_attached_counts_twice() {
    let mut objects = bound_claims(DRIVER, 3);
    objects.push(limited(DRIVER, 2));
    objects.push(attachment("a", DRIVER, "pv0"));
    assert_eq!(limit_verdict([], &objects, &[claimed("c1")]), "ok");
    assert_eq!(limit_verdict([], &objects, &[claimed("c0")]), "ok");
    assert_eq!(limit_verdict([on_n1("a", &[claimed("c0")])], &objects, &[claimed("c1")]), "ok");
    objects.push(attachment("b", DRIVER, "pv1"));
    assert_eq!(limit_verdict([], &objects, &[claimed("c0")]), LIMIT);
    assert_eq!(limit_verdict([on_n1("a", &[claimed("c0")])], &objects, &[claimed("c0")]), "ok");
    assert_eq!(limit_verdict([], &objects, &[claimed("c2")]), LIMIT);
    let uncounted = |other: Value| {
        let last = objects.len() - 1;
        let mut objects = objects.clone();
        objects[last] = other;
        limit_verdict([], &objects, &[claimed("c2")])
    };
    assert_eq!(uncounted(attachment("b", "", "pv1")), "ok");
    assert_eq!(uncounted(attachment("b", DRIVER, "gone")), "ok");
    assert_eq!(uncounted(attachment("b", "other", "pv1")), "ok");
    assert_eq!(uncounted(attachment("b", DRIVER, "pv0")), "ok", "attached twice is attached once");
    let mut inline = attachment("b", DRIVER, "pv1");
    inline["spec"]["source"] = json!({"inlineVolumeSpec": {}});
    assert_eq!(uncounted(inline), "ok");
}

#[test]
fn limits_concern_pods_whose_volumes_can_count() {
    let world = world([], &[]);
    let plugin = plugin("NodeVolumeLimits");
    let ask = |volumes: &[Value]| world.pre_filter(&*plugin, &using(volumes));
    assert_eq!(ask(&[]), "skip");
    let others = [
        json!({"configMap": {"name": "x"}}),
        json!({"hostPath": {"path": "/"}}),
        json!({"csi": {"driver": DRIVER}}),
    ];
    assert_eq!(ask(&others), "skip");
    assert_eq!(ask(&[claimed("c")]), "ok");
    assert_eq!(ask(&[ephemeral()]), "ok");
    for kind in [
        "awsElasticBlockStore",
        "gcePersistentDisk",
        "azureDisk",
        "azureFile",
        "cinder",
        "portworxVolume",
        "vsphereVolume",
    ] {
        assert_eq!(ask(&[json!({kind: {}})]), "ok", "{kind}");
    }
}

#[test]
fn a_driver_can_ask_to_be_on_the_node() {
    let driver = |required: Value| {
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": DRIVER},
            "spec": {"preventPodSchedulingIfMissing": required},
        })
    };
    let verdict = |is_on: bool, extra: &[Value]| {
        let mut objects = bound_claims(DRIVER, 1);
        objects.extend(extra.iter().cloned());
        let plugin =
            try_plugin("NodeVolumeLimits", Value::Null, &[("VolumeLimitScaling", is_on)]).unwrap();
        world([], &objects).filter(&*plugin, &using(&[claimed("c0")]), "n1")
    };
    let missing = format!("Unschedulable: {DRIVER} CSI driver is not installed on the node");
    assert_eq!(verdict(true, &[driver(json!(true))]), missing);
    assert_eq!(
        verdict(true, &[driver(json!(true)), csi_node("n1", json!([{"name": "other"}]))]),
        missing
    );
    assert_eq!(
        verdict(true, &[driver(json!(true)), csi_node("n1", json!([{"name": DRIVER}]))]),
        "ok"
    );
    assert_eq!(verdict(true, &[driver(json!(false))]), "ok");
    assert_eq!(verdict(true, &[driver(Value::Null)]), "ok");
    assert_eq!(verdict(true, &[]), "ok");
    assert_eq!(verdict(false, &[driver(json!(true))]), "ok");
}

#[test]
fn room_for_volumes_wakes_pods() {
    let waiting = using(&[claimed("c"), ephemeral()]);
    let on = |resource, action, pod: &Pod, old, new| {
        hint("NodeVolumeLimits", resource, action, pod, old, new)
    };
    let node_update = |old: Value, new: Value| {
        let (old, new) = (object(csi_node("n1", old)), object(csi_node("n1", new)));
        on(EventResource::CsiNode, ActionType::UPDATE, &waiting, old, new)
    };
    let counted = |count: Value| json!([{"name": DRIVER, "allocatable": {"count": count}}]);
    assert_eq!(node_update(counted(json!(1)), counted(json!(2))), "queue");
    assert_eq!(node_update(counted(json!(2)), counted(json!(2))), "skip");
    assert_eq!(node_update(counted(json!(2)), counted(Value::Null)), "skip");
    assert_eq!(node_update(json!([]), counted(json!(1))), "queue");
    assert_eq!(node_update(json!([]), json!([{"name": DRIVER}])), "skip");
    assert_eq!(on(EventResource::CsiNode, ActionType::ADD, &waiting, None, None), "always");

    let deleted = |pod: Arc<Pod>| {
        on(
            EventResource::AssignedPod,
            ActionType::DELETE,
            &waiting,
            Some(EventObject::Pod(pod)),
            None,
        )
    };
    assert_eq!(deleted(on_n1("a", &[claimed("x")])), "queue");
    assert_eq!(deleted(on_n1("a", &[ephemeral()])), "queue");
    assert_eq!(deleted(on_n1("a", &[json!({"vsphereVolume": {}})])), "queue");
    assert_eq!(deleted(on_n1("a", &[json!({"hostPath": {}})])), "skip");
    assert_eq!(deleted(on_n1("a", &[])), "skip");
    assert_eq!(deleted(using(&[claimed("x")])), "skip");
    let mut nominated = with_volumes(&[claimed("x")]);
    nominated["status"] = json!({"nominatedNodeName": "n1"});
    assert_eq!(deleted(pod("a", nominated)), "queue");

    let claim_added = |namespace: &str, name: &str| {
        let mut claim = claim(name, json!({}));
        claim["metadata"]["namespace"] = json!(namespace);
        on(EventResource::PersistentVolumeClaim, ActionType::ADD, &waiting, None, object(claim))
    };
    assert_eq!(claim_added("default", "c"), "queue");
    assert_eq!(claim_added("default", "p-v1"), "queue");
    assert_eq!(claim_added("elsewhere", "c"), "skip");
    assert_eq!(claim_added("default", "d"), "skip");

    let detached = |pod: &Pod| {
        let old = object(attachment("a", EBS, "pv"));
        on(EventResource::VolumeAttachment, ActionType::DELETE, pod, old, None)
    };
    assert_eq!(detached(&waiting), "queue");
    assert_eq!(detached(&using(&[ephemeral()])), "skip");
    assert_eq!(detached(&using(&[json!({"awsElasticBlockStore": {"volumeID": "v"}})])), "queue");
    assert_eq!(detached(&using(&[json!({"cinder": {"volumeID": "v"}})])), "skip");
    let broken = using(&[json!({"azureDisk": {"kind": "Shared"}})]);
    assert_eq!(detached(&broken), "error: kind(Shared) is not supported in csi migration");
}

// What all of them promise.

const ALL: [&str; 3] = ["VolumeRestrictions", "VolumeZone", "NodeVolumeLimits"];

#[test]
fn pods_without_volumes_that_matter_are_like_any_other() {
    let world = World::new([node("n", json!({}))], []);
    let plain = using(&[]);
    let configured =
        pod("q", with_volumes(&[json!({"configMap": {"name": "x"}}), json!({"emptyDir": {}})]));
    for name in ALL {
        let plugin = plugin(name);
        assert!(signature(&*plugin, &plain).is_some());
        assert_eq!(signature(&*plugin, &plain), signature(&*plugin, &configured), "{name}");
        assert_eq!(
            reads_of(&*plugin, world.sources(), &configured),
            PointReads::default(),
            "{name}"
        );
        let claiming = reads_of(&*plugin, world.sources(), &using(&[claimed("c")])).phases();
        assert!(claiming.union().intersects(Reads::OBJECTS), "{name}");
    }
}

#[test]
fn everything_that_is_read_is_watched_whatever_other_plugins_there_are() {
    use EventResource::{
        CsiDriver, CsiNode, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment,
    };
    let cases: [(&str, &[EventResource]); 3] = [
        ("VolumeRestrictions", &[PersistentVolumeClaim]),
        ("VolumeZone", &[PersistentVolumeClaim, PersistentVolume, StorageClass]),
        (
            "NodeVolumeLimits",
            &[
                PersistentVolumeClaim,
                PersistentVolume,
                StorageClass,
                CsiNode,
                CsiDriver,
                VolumeAttachment,
            ],
        ),
    ];
    for (name, read) in cases {
        let plugin = plugin(name);
        let mut watched = plugin.reads_objects();
        let registered = plugin.as_enqueue_extensions().unwrap().events_to_register();
        watched.extend(registered.iter().map(|registration| registration.event.resource().clone()));
        for resource in read {
            assert!(watched.contains(resource), "{name} reads {}", resource.as_str());
        }
    }
}

#[test]
fn signatures_tell_volumes_apart() {
    let sources = [
        claimed("a"),
        claimed("b"),
        json!({"csi": {"driver": "a"}}),
        json!({"gcePersistentDisk": {"pdName": "a"}}),
        json!({"gcePersistentDisk": {"pdName": "a", "readOnly": true}}),
        json!({"awsElasticBlockStore": {"volumeID": "a"}}),
        json!({"iscsi": {"iqn": "a"}}),
        json!({"rbd": {"image": "a"}}),
        json!({"rbd": {"image": "a", "pool": "p"}}),
        json!({"rbd": {"image": "a", "monitors": ["m"]}}),
        json!({"cinder": {"volumeID": "a"}}),
        json!({"hostPath": {"path": "a"}}),
    ];
    let mut seen = std::collections::BTreeSet::new();
    for source in &sources {
        let signed =
            signature(&*plugin("VolumeZone"), &using(std::slice::from_ref(source))).unwrap();
        assert!(seen.insert(signed), "{source}");
    }
    let mut elsewhere = with_volumes(&[claimed("a")]);
    elsewhere["metadata"]["namespace"] = json!("elsewhere");
    assert!(seen.insert(signature(&*plugin("VolumeZone"), &pod("p", elsewhere)).unwrap()));
    assert_eq!(signature(&*plugin("VolumeZone"), &using(&[ephemeral()])), None);
}
