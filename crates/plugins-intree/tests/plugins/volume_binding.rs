//! VolumeBinding up to the choice of a node: what turns pods and nodes down, and scores.

use kube_scheduler_framework::api::{Object, Pod};
use kube_scheduler_framework::{
    ActionType, ClusterEvent, ClusterView, EventObject, EventResource, FeasibleNodes, Plugin,
};
use serde_json::{Value, json};
use std::sync::Arc;

use crate::support::{World, node, plugin, pod, text, try_plugin};
use crate::volume_objects::{
    bound_to, claimed_by, class, ephemeral_pod, pod_with, pv, pvc, reachable, world,
};

const NODE_CONFLICT: &str = "node(s) didn't match PersistentVolume's node affinity";
const BIND_CONFLICT: &str = "node(s) didn't find available persistent volumes to bind";
const NO_SPACE: &str = "node(s) did not have enough free storage";
const NO_VOLUME: &str = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";

fn unresolvable(reasons: &[&str]) -> String {
    format!("UnschedulableAndUnresolvable: {}", reasons.join(", "))
}

#[track_caller]
fn check_pre_filter(world: &World, pod: &Pod, expected: &str) {
    assert_eq!(world.pre_filter(&*plugin("VolumeBinding"), pod), expected);
}

/// What the nodes `a` and `b` say.
#[track_caller]
fn check_filter(world: &World, pod: &Pod, a: &str, b: &str) {
    let plugin = plugin("VolumeBinding");
    assert_eq!([world.filter(&*plugin, pod, "a"), world.filter(&*plugin, pod, "b")], [a, b]);
}

fn wffc() -> Value {
    class("wffc", "kubernetes.io/no-provisioner", json!({}))
}

#[test]
fn pods_without_claims_are_skipped() {
    check_pre_filter(&world([]), &pod("p", json!({})), "skip");
    let inline = pod("p", json!({"spec": {"volumes": [{"name": "x", "hostPath": {"path": "/"}}]}}));
    check_pre_filter(&world([]), &inline, "skip");
}

#[test]
fn claims_that_cannot_be_used_turn_the_pod_down() {
    let missing = unresolvable(&["persistentvolumeclaim \"c\" not found"]);
    check_pre_filter(&world([]), &pod_with(&["c"]), &missing);
    let good = pvc("good", "1Gi", bound_to("pv"));
    check_pre_filter(&world([good]), &pod_with(&["good", "c"]), &missing);
    let lost = pvc("c", "1Gi", json!({"spec": {"volumeName": "pv"}, "status": {"phase": "Lost"}}));
    check_pre_filter(
        &world([lost]),
        &pod_with(&["c"]),
        &unresolvable(&[
            "persistentvolumeclaim \"c\" bound to non-existent persistentvolume \"pv\"",
        ]),
    );
    let going = pvc("c", "1Gi", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    check_pre_filter(
        &world([going]),
        &pod_with(&["c"]),
        &unresolvable(&["persistentvolumeclaim \"c\" is being deleted"]),
    );
}

#[test]
fn ephemeral_claims_must_be_there_and_the_pods_own() {
    check_pre_filter(
        &world([]),
        &ephemeral_pod(),
        &unresolvable(&[
            "waiting for ephemeral volume controller to create the persistentvolumeclaim \"p-data\"",
        ]),
    );
    let foreign =
        unresolvable(&["PVC default/p-data was not created for pod default/p (pod is not owner)"]);
    check_pre_filter(&world([pvc("p-data", "1Gi", json!({}))]), &ephemeral_pod(), &foreign);
    let owned = json!({"metadata": {"ownerReferences": [{"uid": "p", "controller": true}]}});
    let world = world([pvc("p-data", "1Gi", owned), wffc()]);
    check_pre_filter(&world, &ephemeral_pod(), "ok");
}

#[test]
fn immediate_claims_must_be_bound_already() {
    let text = unresolvable(&["pod has unbound immediate PersistentVolumeClaims"]);
    let immediate = class("wffc", "x", json!({"volumeBindingMode": "Immediate"}));
    check_pre_filter(&world([pvc("c", "1Gi", json!({})), immediate]), &pod_with(&["c"]), &text);
    check_pre_filter(&world([pvc("c", "1Gi", json!({}))]), &pod_with(&["c"]), &text);
    let classless = pvc("c", "1Gi", json!({"spec": {"storageClassName": ""}}));
    check_pre_filter(&world([classless, wffc()]), &pod_with(&["c"]), &text);
    let bound_by_hand = pvc("c", "1Gi", json!({"spec": {"volumeName": "pv"}}));
    check_pre_filter(&world([bound_by_hand, wffc()]), &pod_with(&["c"]), &text);
    let silent = class("wffc", "x", json!({"volumeBindingMode": null}));
    check_pre_filter(
        &world([pvc("c", "1Gi", json!({})), silent]),
        &pod_with(&["c"]),
        "Error: VolumeBindingMode not set for StorageClass \"wffc\"",
    );
}

#[test]
fn bound_volumes_decide_where_they_are() {
    let claim = || pvc("c", "1Gi", bound_to("pv"));
    let here = pv("pv", "1Gi", reachable(&[("zone", &["za"])]));
    let conflict = unresolvable(&[NODE_CONFLICT]);
    check_filter(&world([claim(), here]), &pod_with(&["c"]), "ok", &conflict);
    let missing = unresolvable(&[NO_VOLUME]);
    check_filter(&world([claim()]), &pod_with(&["c"]), &missing, &missing);
    check_filter(&world([claim(), pv("pv", "1Gi", json!({}))]), &pod_with(&["c"]), "ok", "ok");
    // Required, but of nothing: nowhere.
    let nowhere = pv("pv", "1Gi", reachable(&[]));
    check_filter(&world([claim(), nowhere]), &pod_with(&["c"]), &conflict, &conflict);
}

#[test]
fn terms_on_fields_match_every_node() {
    let field = json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]},
    ]}}}});
    let world = world([pvc("c", "1Gi", bound_to("pv")), pv("pv", "1Gi", field)]);
    check_filter(&world, &pod_with(&["c"]), "ok", "ok");
}

#[test]
fn all_reasons_are_told_in_their_order() {
    let mut taken = claimed_by("bound", "bound-uid");
    crate::support::merge(&mut taken, reachable(&[("zone", &["za"])]));
    let world = world([
        pvc("bound", "1Gi", bound_to("pv")),
        pv("pv", "1Gi", taken),
        pvc("free", "1Gi", json!({})),
        wffc(),
    ]);
    check_filter(
        &world,
        &pod_with(&["free", "bound"]),
        &unresolvable(&[BIND_CONFLICT]),
        &unresolvable(&[NODE_CONFLICT, BIND_CONFLICT]),
    );
}

/// Migration counts only where the node says so, and then the driver's label does.
#[test]
fn migrated_volumes_are_checked_by_the_drivers_label() {
    let zone = "topology.kubernetes.io/zone";
    let csi_zone = "topology.ebs.csi.aws.com/zone";
    let mut volume = reachable(&[(zone, &["z1"])]);
    volume["spec"]["awsElasticBlockStore"] = json!({"volumeID": "vol-1"});
    let csi_node = |name: &str, plugins: &str| {
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
            "metadata": {
                "name": name,
                "annotations": {"storage.alpha.kubernetes.io/migrated-plugins": plugins},
            },
        })
    };
    let labelled = |name: &str, key: &str| node(name, json!({"metadata": {"labels": {key: "z1"}}}));
    let world = World::new(
        ["migrated", "plain", "other"].into_iter().flat_map(|kind| {
            [labelled(&format!("{kind}-csi"), csi_zone), labelled(&format!("{kind}-zone"), zone)]
        }),
        [],
    );
    let world = [
        csi_node("migrated-csi", "kubernetes.io/aws-ebs"),
        csi_node("migrated-zone", "kubernetes.io/gce-pd,kubernetes.io/aws-ebs"),
        csi_node("other-csi", "kubernetes.io/gce-pd"),
        pvc("c", "1Gi", bound_to("pv")),
        pv("pv", "1Gi", volume),
    ]
    .into_iter()
    .fold(world, World::with_object);
    let conflict = unresolvable(&[NODE_CONFLICT]);
    for (node, expected) in [
        ("migrated-csi", "ok"),
        ("migrated-zone", &*conflict),
        ("plain-csi", &*conflict),
        ("plain-zone", "ok"),
        ("other-csi", &*conflict),
        ("other-zone", "ok"),
    ] {
        let plugin = plugin("VolumeBinding");
        assert_eq!(world.filter(&*plugin, &pod_with(&["c"]), node), expected, "{node}");
    }
}

#[test]
fn volumes_must_suit_the_claim() {
    let none = unresolvable(&[BIND_CONFLICT]);
    let suits = |volume: Value, claim: Value| {
        let world = world([pv("pv", "2Gi", volume), pvc("c", "2Gi", claim), wffc()]);
        let answer = world.filter(&*plugin("VolumeBinding"), &pod_with(&["c"]), "a");
        assert!(answer == "ok" || answer == none, "{answer}");
        answer == "ok"
    };
    let volume = |spec: Value| json!({"spec": spec});
    assert!(suits(json!({}), json!({})));
    assert!(!suits(volume(json!({"capacity": {"storage": "1Gi"}})), json!({})));
    assert!(suits(volume(json!({"capacity": {"storage": "2147483648"}})), json!({})));
    assert!(!suits(volume(json!({"volumeMode": "Block"})), json!({})));
    assert!(suits(volume(json!({"volumeMode": "Filesystem"})), json!({})));
    assert!(!suits(volume(json!({"accessModes": ["ReadOnlyMany"]})), json!({})));
    assert!(!suits(volume(json!({"storageClassName": "other"})), json!({})));
    assert!(!suits(json!({"status": {"phase": "Released"}}), json!({})));
    assert!(!suits(json!({"status": {"phase": null}}), json!({})));
    let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    assert!(!suits(going, json!({})));
    let gold = || json!({"spec": {"volumeAttributesClassName": "gold"}});
    assert!(suits(gold(), gold()));
    assert!(!suits(gold(), json!({})));
    assert!(!suits(json!({}), gold()));
    let wants = || json!({"spec": {"selector": {"matchLabels": {"disk": "ssd"}}}});
    assert!(!suits(json!({}), wants()));
    assert!(suits(json!({"metadata": {"labels": {"disk": "ssd"}}}), wants()));
    assert!(!suits(claimed_by("other", "other-uid"), json!({})));
    // A volume that is reserved for the claim need not be like it in all respects.
    let reserved = |uid: &str| {
        let mut volume = claimed_by("c", uid);
        volume["spec"]["accessModes"] = json!(["ReadOnlyMany"]);
        volume["status"]["phase"] = "Bound".into();
        volume
    };
    assert!(suits(reserved(""), wants()));
    assert!(suits(reserved("c-uid"), wants()));
    assert!(!suits(reserved("another-uid"), json!({})));
}

#[test]
fn a_selector_that_makes_no_sense_is_an_error() {
    let odd =
        json!({"spec": {"selector": {"matchExpressions": [{"key": "x", "operator": "Near"}]}}});
    let error = "Error: error creating internal label selector for claim: default/c: \
                 \"Near\" is not a valid label selector operator";
    check_filter(&world([pvc("c", "1Gi", odd), wffc()]), &pod_with(&["c"]), error, error);
}

#[test]
fn a_reserved_volume_is_the_only_choice() {
    let mut elsewhere = claimed_by("c", "c-uid");
    crate::support::merge(&mut elsewhere, reachable(&[("zone", &["zb"])]));
    let objects = || {
        [
            pv("big", "9Gi", elsewhere.clone()),
            pv("small", "1Gi", json!({})),
            pvc("c", "1Gi", json!({})),
        ]
    };
    let none = unresolvable(&[BIND_CONFLICT]);
    check_filter(&world(objects().into_iter().chain([wffc()])), &pod_with(&["c"]), &none, "ok");
    // Quirk: where it cannot be reached, a new one may be made.
    let making = class("wffc", "example.com/p", json!({}));
    check_filter(&world(objects().into_iter().chain([making])), &pod_with(&["c"]), "ok", "ok");
}

#[test]
fn a_chosen_node_is_kept_whatever_volumes_there_are() {
    let chosen = |node: &str| {
        let annotations = json!({"volume.kubernetes.io/selected-node": node});
        pvc("c", "1Gi", json!({"metadata": {"annotations": annotations}}))
    };
    let none = unresolvable(&[BIND_CONFLICT]);
    let making = || class("wffc", "example.com/p", json!({}));
    check_filter(&world([chosen("a"), making()]), &pod_with(&["c"]), "ok", &none);
    check_filter(&world([chosen(""), making()]), &pod_with(&["c"]), &none, &none);
    let volume = pv("pv", "1Gi", json!({}));
    check_filter(&world([chosen("a"), volume, wffc()]), &pod_with(&["c"]), &none, &none);
}

#[test]
fn small_claims_come_first() {
    let world = world([
        pv("big", "10Gi", json!({})),
        pv("small", "1Gi", json!({})),
        pvc("wants-big", "5Gi", json!({})),
        pvc("wants-small", "1Gi", json!({})),
        wffc(),
    ]);
    check_filter(&world, &pod_with(&["wants-big", "wants-small"]), "ok", "ok");
    check_filter(&world, &pod_with(&["wants-small", "wants-big"]), "ok", "ok");
}

/// Quirk: each mention of a claim takes a volume.
#[test]
fn a_claim_that_is_mounted_twice_takes_two_volumes() {
    let twice = pod_with(&["c", "c"]);
    let none = unresolvable(&[BIND_CONFLICT]);
    let one = [pv("x", "1Gi", json!({})), pvc("c", "1Gi", json!({})), wffc()];
    check_filter(&world(one.clone()), &twice, &none, &none);
    check_filter(&world(one.into_iter().chain([pv("y", "1Gi", json!({}))])), &twice, "ok", "ok");
}

#[test]
fn new_volumes_are_made_where_the_class_allows() {
    let claim = || pvc("c", "1Gi", json!({}));
    let none = unresolvable(&[BIND_CONFLICT]);
    check_filter(&world([claim(), wffc()]), &pod_with(&["c"]), &none, &none);
    let topologies =
        |terms: Value| class("wffc", "example.com/p", json!({"allowedTopologies": terms}));
    let of = |key: &str, values: &[&str]| json!({"matchLabelExpressions": [{"key": key, "values": values}]});
    check_filter(&world([claim(), topologies(json!([]))]), &pod_with(&["c"]), "ok", "ok");
    let in_a = topologies(json!([of("zone", &["za", "zc"]), of("zone", &[])]));
    check_filter(&world([claim(), in_a]), &pod_with(&["c"]), "ok", &none);
    let nowhere = topologies(json!([{"matchLabelExpressions": []}]));
    check_filter(&world([claim(), nowhere]), &pod_with(&["c"]), &none, &none);
}

fn driver(publishes: bool) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
        "metadata": {"name": "example.com/p"}, "spec": {"storageCapacity": publishes},
    })
}

fn capacity(name: &str, extra: Value) -> Value {
    let mut capacity = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
        "metadata": {"name": name, "namespace": "kube-system"},
        "storageClassName": "wffc", "capacity": "10Gi",
        "nodeTopology": {"matchLabels": {"zone": "za"}},
    });
    crate::support::merge(&mut capacity, extra);
    capacity
}

#[test]
fn published_capacity_must_suffice_for_each_claim() {
    let making = || class("wffc", "example.com/p", json!({}));
    let claim = || pvc("c", "5Gi", json!({}));
    let full = unresolvable(&[NO_SPACE]);
    let has_room_on_a = |published: Value| {
        let world = world([claim(), making(), driver(true), capacity("x", published)]);
        let [a, b] =
            ["a", "b"].map(|node| world.filter(&*plugin("VolumeBinding"), &pod_with(&["c"]), node));
        assert_eq!(b, full);
        assert!(a == "ok" || a == full, "{a}");
        a == "ok"
    };
    check_filter(&world([claim(), making()]), &pod_with(&["c"]), "ok", "ok");
    check_filter(&world([claim(), making(), driver(false)]), &pod_with(&["c"]), "ok", "ok");
    check_filter(&world([claim(), making(), driver(true)]), &pod_with(&["c"]), &full, &full);
    assert!(has_room_on_a(json!({})));
    assert!(!has_room_on_a(json!({"capacity": "4Gi"})));
    assert!(!has_room_on_a(json!({"capacity": null})));
    assert!(!has_room_on_a(json!({"storageClassName": "other"})));
    assert!(!has_room_on_a(json!({"maximumVolumeSize": "4Gi"})));
    assert!(!has_room_on_a(json!({"maximumVolumeSize": "0"})));
    assert!(has_room_on_a(json!({"maximumVolumeSize": "5Gi", "capacity": "1Gi"})));
    assert!(!has_room_on_a(json!({"nodeTopology": null})));
    let everywhere = capacity("x", json!({"nodeTopology": {"matchLabels": null}}));
    let world_of = |claims: Vec<Value>, request: Value| {
        let mut claim = pvc("d", "6Gi", json!({}));
        claim["spec"]["resources"]["requests"] = request;
        world(claims.into_iter().chain([claim, making(), driver(true), everywhere.clone()]))
    };
    // Claims are not added up.
    let both = world_of(vec![claim()], json!({"storage": "6Gi"}));
    check_filter(&both, &pod_with(&["c", "d"]), "ok", "ok");
    let silent = world_of(vec![], json!({}));
    check_filter(&silent, &pod_with(&["d"]), "ok", "ok");
}

#[test]
fn what_is_expected_of_objects_counts() {
    let mut world = world([pv("pv", "1Gi", json!({})), pvc("c", "1Gi", json!({})), wffc()]);
    check_filter(&world, &pod_with(&["c"]), "ok", "ok");
    let taken = pv("pv", "1Gi", claimed_by("other", "other-uid"));
    let taken = Arc::new(Object::from_value(taken).unwrap());
    world.cluster.objects_mut().assume(taken).unwrap();
    let none = unresolvable(&[BIND_CONFLICT]);
    check_filter(&world, &pod_with(&["c"]), &none, &none);
}

/// The raw scores of all nodes with the gate on.
fn scores(world: &World, args: Value, pod: &Pod) -> Vec<i64> {
    let plugin = try_plugin("VolumeBinding", args, &[("StorageCapacityScoring", true)]).unwrap();
    let mut state = kube_scheduler_framework::CycleState::new();
    let outcome = plugin.as_pre_filter().unwrap().pre_filter(&world.cx(), &mut state, pod);
    assert_eq!(text(&outcome.status), "ok");
    let nodes = world.cluster.order();
    let status = plugin.as_pre_score().unwrap().pre_score(
        &world.cx(),
        &mut state,
        pod,
        &FeasibleNodes::unrecorded(nodes),
    );
    assert_eq!(text(&status), "ok");
    let score = |idx: &kube_scheduler_framework::NodeIdx| {
        let view = ClusterView::unrecorded(&world.cluster).node(*idx).unwrap();
        plugin.as_score().unwrap().score(&world.cx(), &state, pod, &view).unwrap()
    };
    nodes.iter().map(score).collect()
}

fn rising() -> Value {
    json!({"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]})
}

/// One node for each size, in a zone of its own, where just that much is free.
fn sized(sizes: &[&str], is_provisioned: bool) -> World {
    let name = |at: usize| format!("n{at}");
    let nodes = (0..sizes.len())
        .map(|at| node(&name(at), json!({"metadata": {"labels": {"zone": name(at)}}})));
    let mut world = World::new(nodes, []);
    for (at, size) in sizes.iter().enumerate() {
        let topology = json!({"matchLabels": {"zone": name(at)}});
        world = world.with_object(if is_provisioned {
            capacity(&name(at), json!({"capacity": size, "nodeTopology": topology}))
        } else {
            pv(&name(at), size, reachable(&[("zone", &[&name(at)])]))
        });
    }
    world.with_object(class("wffc", "example.com/p", json!({}))).with_object(driver(true))
}

#[test]
fn without_the_gate_nothing_is_scored() {
    let plugin = plugin("VolumeBinding");
    let world = sized(&["10Gi"], true);
    assert_eq!(world.raw_scores(&*plugin, &pod("p", json!({}))), None);
}

#[test]
fn the_emptiest_node_is_best_by_default_and_the_fullest_with_a_rising_curve() {
    for is_provisioned in [true, false] {
        let world = sized(&["100Gi", "50Gi", "10Gi"], is_provisioned);
        let world = world.with_object(pvc("c", "10Gi", json!({})));
        assert_eq!(scores(&world, Value::Null, &pod_with(&["c"])), [90, 80, 0]);
        assert_eq!(scores(&world, rising(), &pod_with(&["c"])), [10, 20, 100]);
    }
}

#[test]
fn claims_of_a_class_are_added_up_and_classes_averaged() {
    let world = sized(&["100Gi"], true).with_object(pvc("c", "50Gi", json!({}))).with_object(pvc(
        "d",
        "50Gi",
        json!({}),
    ));
    assert_eq!(scores(&world, rising(), &pod_with(&["c", "d"])), [100]);
    let other = json!({"spec": {"storageClassName": "other"}});
    let world = world
        .with_object(class("other", "example.com/p", json!({})))
        .with_object(capacity(
            "other",
            json!({
                "storageClassName": "other", "nodeTopology": {"matchLabels": {"zone": "n0"}},
            }),
        ))
        .with_object(pvc("e", "0", other));
    assert_eq!(scores(&world, rising(), &pod_with(&["c", "e"])), [25]);
    let thirty = world.with_object(pvc("f", "30Gi", json!({})));
    assert_eq!(scores(&thirty, rising(), &pod_with(&["e", "f"])), [15]);
}

#[test]
fn existing_volumes_are_scored_before_new_ones() {
    let world = sized(&["60Gi"], true)
        .with_object(pv("pv", "100Gi", json!({})))
        .with_object(pvc("static", "50Gi", json!({})))
        .with_object(class("other", "example.com/p", json!({})))
        .with_object(pvc("new", "60Gi", json!({"spec": {"storageClassName": "other"}})));
    let world = world.with_object(capacity(
        "other",
        json!({
            "storageClassName": "other", "capacity": "60Gi",
            "nodeTopology": {"matchLabels": {"zone": "n0"}},
        }),
    ));
    assert_eq!(scores(&world, rising(), &pod_with(&["static", "new"])), [50]);
}

#[test]
fn odd_curves_and_capacities() {
    let shape = json!({"shape": [
        {"utilization": 50, "score": 0}, {"utilization": 80, "score": 3}, {"utilization": 100, "score": 5},
    ]});
    let world = sized(&["100Gi"], true)
        .with_object(pvc("c", "30Gi", json!({})))
        .with_object(class("other", "example.com/p", json!({})))
        .with_object(pvc("d", "60Gi", json!({"spec": {"storageClassName": "other"}})))
        .with_object(capacity(
            "other",
            json!({
                "storageClassName": "other", "capacity": "100Gi",
                "nodeTopology": {"matchLabels": {"zone": "n0"}},
            }),
        ));
    assert_eq!(scores(&world, shape, &pod_with(&["c", "d"])), [5]);
    // Only the largest volume is said: as good as full.
    let silent = capacity(
        "n0",
        json!({
            "capacity": null, "maximumVolumeSize": "100Gi",
            "nodeTopology": {"matchLabels": {"zone": "n0"}},
        }),
    );
    assert_eq!(scores(&world.with_object(silent), rising(), &pod_with(&["c"])), [100]);
}

#[test]
fn arguments_are_checked_by_gate() {
    let made = |args: Value, is_on: bool| {
        try_plugin("VolumeBinding", args, &[("StorageCapacityScoring", is_on)]).map(drop)
    };
    assert_eq!(made(json!({"bindTimeoutSeconds": 0}), false), Ok(()));
    assert_eq!(
        made(json!({"bindTimeoutSeconds": -10}), false),
        Err("bindTimeoutSeconds: Invalid value: -10: invalid BindTimeoutSeconds, should not be a negative value".into())
    );
    assert!(made(json!({"shape": []}), false).unwrap_err().starts_with("shape: Invalid value"));
    assert!(made(rising(), false).unwrap_err().contains("unexpected field `shape`"));
    assert_eq!(made(rising(), true), Ok(()));
    assert!(made(json!({"shape": [{"utilization": 101, "score": 1}]}), true).is_err());
}

fn hint(
    resource: EventResource,
    action: ActionType,
    pod: &Pod,
    old: Option<Value>,
    new: Value,
) -> String {
    let object = |json: Value| EventObject::Other(Arc::new(Object::from_value(json).unwrap()));
    let plugin: Arc<dyn Plugin> = plugin("VolumeBinding");
    let event = ClusterEvent::new(resource, action);
    World::default().hint(&*plugin, event, pod, old.map(object), Some(object(new)))
}

#[test]
fn classes_help_when_they_come_or_allow_other_topologies() {
    let hint = |old: Option<Value>, new: Value| {
        let action = if old.is_some() { ActionType::UPDATE } else { ActionType::ADD };
        hint(EventResource::StorageClass, action, &pod_with(&["c"]), old, new)
    };
    let of = |topologies: Value| class("x", "p", json!({"allowedTopologies": topologies}));
    let term = json!([{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}]);
    assert_eq!(hint(None, of(json!([]))), "queue");
    assert_eq!(hint(Some(of(json!([]))), of(Value::Null)), "skip");
    assert_eq!(hint(Some(of(json!([]))), of(term.clone())), "queue");
    assert_eq!(hint(Some(of(term.clone())), of(term)), "skip");
}

#[test]
fn only_its_own_claims_help_a_pod() {
    let hint = |pod: &Pod, claim: Value| {
        hint(EventResource::PersistentVolumeClaim, ActionType::ADD, pod, None, claim)
    };
    assert_eq!(hint(&pod_with(&["c"]), pvc("c", "1", json!({}))), "queue");
    assert_eq!(hint(&pod_with(&["c"]), pvc("d", "1", json!({}))), "skip");
    let elsewhere = pvc("c", "1", json!({"metadata": {"namespace": "other"}}));
    assert_eq!(hint(&pod_with(&["c"]), elsewhere), "skip");
    assert_eq!(hint(&ephemeral_pod(), pvc("p-data", "1", json!({}))), "queue");
}

#[test]
fn csi_nodes_help_when_they_come_or_their_migration_changes() {
    let csi_node = |annotations: Value| {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
            "metadata": {"name": "a", "annotations": annotations}})
    };
    let hint = |old: Option<Value>, new: Value| {
        let action = if old.is_some() { ActionType::UPDATE } else { ActionType::ADD };
        hint(EventResource::CsiNode, action, &pod_with(&["c"]), old, new)
    };
    let migrated =
        |plugins: &str| csi_node(json!({"storage.alpha.kubernetes.io/migrated-plugins": plugins}));
    assert_eq!(hint(None, csi_node(json!({}))), "queue");
    assert_eq!(hint(Some(csi_node(json!({}))), migrated("")), "skip");
    assert_eq!(hint(Some(csi_node(json!({}))), migrated("x")), "queue");
    assert_eq!(hint(Some(migrated("x")), migrated("x")), "skip");
}

#[test]
fn a_driver_that_stops_to_publish_capacity_helps_inline_volumes_alone() {
    let inline =
        pod("p", json!({"spec": {"volumes": [{"name": "x", "csi": {"driver": "example.com/p"}}]}}));
    let hint = |pod: &Pod, old: bool, new: bool| {
        hint(EventResource::CsiDriver, ActionType::UPDATE, pod, Some(driver(old)), driver(new))
    };
    assert_eq!(hint(&inline, true, false), "queue");
    assert_eq!(hint(&inline, true, true), "skip");
    assert_eq!(hint(&inline, false, false), "skip");
    assert_eq!(hint(&pod_with(&["c"]), true, false), "skip");
}

#[test]
fn capacity_helps_when_there_is_more_of_it() {
    let hint = |old: Option<Value>, new: Value| {
        let action = if old.is_some() { ActionType::UPDATE } else { ActionType::ADD };
        let new = capacity("x", new);
        let old = old.map(|old| capacity("x", old));
        hint(EventResource::CsiStorageCapacity, action, &pod_with(&["c"]), old, new)
    };
    assert_eq!(hint(None, json!({"capacity": null})), "queue");
    assert_eq!(hint(Some(json!({"capacity": null})), json!({})), "queue");
    assert_eq!(hint(Some(json!({})), json!({})), "skip");
    assert_eq!(hint(Some(json!({})), json!({"capacity": "11Gi"})), "queue");
    assert_eq!(hint(Some(json!({})), json!({"capacity": null})), "skip");
    assert_eq!(hint(Some(json!({"maximumVolumeSize": "1Gi"})), json!({})), "queue");
}
