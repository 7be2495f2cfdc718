//! VolumeBinding up to the choice of a node: what rejects pods and nodes, and scores.

use kube_scheduler_framework::testing::{Fixture, fixture, object};
use kube_scheduler_framework::{
    ActionType, ClusterEvent, ClusterView, EventObject, EventResource, FeasibleNodes, NodeIdx,
};
use serde_json::{Value, json};

use crate::support::{plugin, pod, pre_verdict, raw_scores, text, try_plugin, two_zones, verdict};

const NODE_CONFLICT: &str = "node(s) didn't match PersistentVolume's node affinity";
const BIND_CONFLICT: &str = "node(s) didn't find available persistent volumes to bind";
const NO_SPACE: &str = "node(s) did not have enough free storage";
const NO_VOLUME: &str = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";

fn unresolvable(reasons: &[&str]) -> String {
    format!("UnschedulableAndUnresolvable: {}", reasons.join(", "))
}

#[track_caller]
fn check_pre_filter(objects: &str, pod_text: &str, expected: &str) {
    let found = pre_verdict(&two_zones(objects), &*plugin("VolumeBinding"), &pod(pod_text));
    assert_eq!(found, expected);
}

/// What the nodes `a` and `b` say.
#[track_caller]
fn check_filter(objects: &str, pod_text: &str, a: &str, b: &str) {
    let (world, plugin) = (two_zones(objects), plugin("VolumeBinding"));
    assert_eq!(["a", "b"].map(|node| verdict(&world, &*plugin, &pod(pod_text), node)), [a, b]);
}

/// A class without provisioner.
const WFFC: &str = "; storageclass wffc";
/// A class of a provisioner.
const MAKING: &str = "; storageclass wffc provisioner=csi.example.com";

#[test]
fn pods_without_claims_are_skipped() {
    check_pre_filter("", "p", "skip");
    check_pre_filter("", r#"p volume={"hostPath": {"path": "/"}}"#, "skip");
}

#[test]
fn claims_that_cannot_be_used_turn_the_pod_down() {
    let missing = unresolvable(&["persistentvolumeclaim \"c\" not found"]);
    check_pre_filter("", "p claim=c", &missing);
    check_pre_filter("pvc good class=wffc bound=pv", "p claim=good claim=c", &missing);
    check_pre_filter(
        "pvc c class=wffc volume=pv phase=Lost",
        "p claim=c",
        &unresolvable(&[
            "persistentvolumeclaim \"c\" bound to non-existent persistentvolume \"pv\"",
        ]),
    );
    check_pre_filter(
        "pvc c class=wffc deleted=2026-01-01T00:00:00Z",
        "p claim=c",
        &unresolvable(&["persistentvolumeclaim \"c\" is being deleted"]),
    );
}

#[test]
fn ephemeral_claims_must_be_there_and_the_pods_own() {
    check_pre_filter(
        "",
        "p ephemeral=data",
        &unresolvable(&[
            "waiting for ephemeral volume controller to create the persistentvolumeclaim \"p-data\"",
        ]),
    );
    let foreign =
        unresolvable(&["PVC default/p-data was not created for pod default/p (pod is not owner)"]);
    check_pre_filter("pvc p-data class=wffc", "p ephemeral=data", &foreign);
    let owned = format!("pvc p-data class=wffc owner=p-uid{WFFC}");
    check_pre_filter(&owned, "p ephemeral=data", "ok");
}

#[test]
fn immediate_claims_must_be_bound_already() {
    let text = unresolvable(&["pod has unbound immediate PersistentVolumeClaims"]);
    for objects in [
        "pvc c class=wffc; storageclass wffc provisioner=x binding=Immediate",
        "pvc c class=wffc",
        &format!("pvc c class={WFFC}"),
        &format!("pvc c class=wffc volume=pv{WFFC}"),
    ] {
        check_pre_filter(objects, "p claim=c", &text);
    }
    check_pre_filter(
        r#"pvc c class=wffc; storageclass wffc provisioner=x {"volumeBindingMode": null}"#,
        "p claim=c",
        "Error: VolumeBindingMode not set for StorageClass \"wffc\"",
    );
}

#[test]
fn bound_volumes_decide_where_they_are() {
    let conflict = unresolvable(&[NODE_CONFLICT]);
    let here = "pvc c bound=pv; pv pv node-affinity=zone=za";
    check_filter(here, "p claim=c", "ok", &conflict);
    let missing = unresolvable(&[NO_VOLUME]);
    check_filter("pvc c bound=pv", "p claim=c", &missing, &missing);
    check_filter("pvc c bound=pv; pv pv", "p claim=c", "ok", "ok");
    // Required, but of nothing: nowhere.
    let nowhere = r#"pvc c bound=pv; pv pv {"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": []}}}}"#;
    check_filter(nowhere, "p claim=c", &conflict, &conflict);
}

#[test]
fn terms_on_fields_match_every_node() {
    let term =
        json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]});
    let objects = format!("pvc c bound=pv; pv pv node-affinity={term}");
    check_filter(&objects, "p claim=c", "ok", "ok");
}

#[test]
fn all_reasons_are_reported_in_their_order() {
    let objects = "pvc bound bound=pv; pv pv class=wffc claim=bound node-affinity=zone=za
                   pvc free class=wffc";
    check_filter(
        &format!("{objects}{WFFC}"),
        "p claim=free claim=bound",
        &unresolvable(&[BIND_CONFLICT]),
        &unresolvable(&[NODE_CONFLICT, BIND_CONFLICT]),
    );
}

/// Migration counts only where the node says so, and then the driver's label does.
#[test]
fn migrated_volumes_are_checked_by_the_drivers_label() {
    let mut world = fixture(
        r#"pvc c bound=pv
           pv pv node-affinity=topology.kubernetes.io/zone=z1 {"spec": {"awsElasticBlockStore": {"volumeID": "vol-1"}}}"#,
    );
    for kind in ["migrated", "plain", "other"] {
        world = world.with(&format!(
            "node {kind}-csi label:topology.ebs.csi.aws.com/zone=z1; node {kind}-zone zone=z1"
        ));
    }
    for (node, plugins) in [
        ("migrated-csi", "kubernetes.io/aws-ebs"),
        ("migrated-zone", "kubernetes.io/gce-pd,kubernetes.io/aws-ebs"),
        ("other-csi", "kubernetes.io/gce-pd"),
    ] {
        world = world.with(&format!(
            "csinode {node} annotation:storage.alpha.kubernetes.io/migrated-plugins={plugins}"
        ));
    }
    let conflict = unresolvable(&[NODE_CONFLICT]);
    for (node, expected) in [
        ("migrated-csi", "ok"),
        ("migrated-zone", &*conflict),
        ("plain-csi", &*conflict),
        ("plain-zone", "ok"),
        ("other-csi", &*conflict),
        ("other-zone", "ok"),
    ] {
        let found = verdict(&world, &*plugin("VolumeBinding"), &pod("p claim=c"), node);
        assert_eq!(found, expected, "{node}");
    }
}

#[test]
fn volumes_must_suit_the_claim() {
    let none = unresolvable(&[BIND_CONFLICT]);
    let suits = |volume: &str, claim: &str| {
        let world = two_zones(&format!(
            "pv pv storage=2Gi class=wffc {volume}; pvc c storage=2Gi class=wffc {claim}{WFFC}"
        ));
        let answer = verdict(&world, &*plugin("VolumeBinding"), &pod("p claim=c"), "a");
        assert!(answer == "ok" || answer == none, "{answer}");
        answer == "ok"
    };
    assert!(suits("", ""));
    assert!(!suits("storage=1Gi", ""));
    assert!(suits("storage=2147483648", ""));
    assert!(!suits("mode=Block", ""));
    assert!(suits("mode=Filesystem", ""));
    assert!(!suits("access=ReadOnlyMany", ""));
    assert!(!suits("class=other", ""));
    assert!(!suits("phase=Released", ""));
    assert!(!suits(r#"{"status": {"phase": null}}"#, ""));
    assert!(!suits("deleted=2026-01-01T00:00:00Z", ""));
    let gold = r#"{"spec": {"volumeAttributesClassName": "gold"}}"#;
    assert!(suits(gold, gold));
    assert!(!suits(gold, ""));
    assert!(!suits("", gold));
    assert!(!suits("", "selector=disk=ssd"));
    assert!(suits("label:disk=ssd", "selector=disk=ssd"));
    assert!(!suits("claim=other", ""));
    // A volume that is reserved for the claim need not be like it in all respects.
    let reserved = |uid: &str| format!("claim=c:{uid} access=ReadOnlyMany phase=Bound");
    assert!(suits(&reserved(""), "selector=disk=ssd"));
    assert!(suits(&reserved("c-uid"), "selector=disk=ssd"));
    assert!(!suits(&reserved("another-uid"), ""));
}

#[test]
fn a_selector_that_makes_no_sense_is_an_error() {
    let odd = json!({"matchExpressions": [{"key": "x", "operator": "Near"}]});
    let error = "Error: error creating internal label selector for claim: default/c: \
                 \"Near\" is not a valid label selector operator";
    check_filter(&format!("pvc c class=wffc selector={odd}{WFFC}"), "p claim=c", error, error);
}

#[test]
fn a_reserved_volume_is_the_only_choice() {
    let objects = "pv big storage=9Gi class=wffc claim=c node-affinity=zone=zb
                   pv small class=wffc; pvc c class=wffc";
    let none = unresolvable(&[BIND_CONFLICT]);
    check_filter(&format!("{objects}{WFFC}"), "p claim=c", &none, "ok");
    // Quirk: where it cannot be reached, a new one may be made.
    check_filter(&format!("{objects}{MAKING}"), "p claim=c", "ok", "ok");
}

#[test]
fn a_chosen_node_is_kept_whatever_volumes_there_are() {
    let chosen = "pvc c class=wffc annotation:volume.kubernetes.io/selected-node";
    let none = unresolvable(&[BIND_CONFLICT]);
    check_filter(&format!("{chosen}=a{MAKING}"), "p claim=c", "ok", &none);
    check_filter(&format!("{chosen}={MAKING}"), "p claim=c", &none, &none);
    check_filter(&format!("{chosen}=a; pv pv class=wffc{WFFC}"), "p claim=c", &none, &none);
}

#[test]
fn small_claims_come_first() {
    let objects = format!(
        "pv big storage=10Gi class=wffc; pv small class=wffc
         pvc wants-big storage=5Gi class=wffc; pvc wants-small class=wffc{WFFC}"
    );
    check_filter(&objects, "p claim=wants-big claim=wants-small", "ok", "ok");
    check_filter(&objects, "p claim=wants-small claim=wants-big", "ok", "ok");
}

/// Quirk: each mention of a claim takes a volume.
#[test]
fn a_claim_that_is_mounted_twice_takes_two_volumes() {
    let none = unresolvable(&[BIND_CONFLICT]);
    let one = format!("pv x class=wffc; pvc c class=wffc{WFFC}");
    check_filter(&one, "p claim=c claim=c", &none, &none);
    check_filter(&format!("{one}; pv y class=wffc"), "p claim=c claim=c", "ok", "ok");
}

#[test]
fn new_volumes_are_made_where_the_class_allows() {
    let none = unresolvable(&[BIND_CONFLICT]);
    check_filter(&format!("pvc c class=wffc{WFFC}"), "p claim=c", &none, &none);
    let check = |terms: Value, a: &str, b: &str| {
        let topologies = json!({"allowedTopologies": terms});
        check_filter(&format!("pvc c class=wffc{MAKING} {topologies}"), "p claim=c", a, b);
    };
    let of = |key: &str, values: &[&str]| json!({"matchLabelExpressions": [{"key": key, "values": values}]});
    check(json!([]), "ok", "ok");
    check(json!([of("zone", &["za", "zc"]), of("zone", &[])]), "ok", &none);
    check(json!([{"matchLabelExpressions": []}]), &none, &none);
}

fn driver(publishes: bool) -> String {
    format!("\ncsidriver csi.example.com {}", json!({"spec": {"storageCapacity": publishes}}))
}

/// 10 GiB in the zone of node `a`, with these words besides.
fn capacity(words: &str) -> String {
    format!("capacity kube-system/x class=wffc free=10Gi topology=zone=za {words}")
}

#[test]
fn published_capacity_must_suffice_for_each_claim() {
    let full = unresolvable(&[NO_SPACE]);
    let making = format!("pvc c storage=5Gi class=wffc{MAKING}");
    let published = format!("{making}{}", driver(true));
    let has_room_on_a = |words: &str| {
        let world = two_zones(&published).with(&capacity(words));
        let [a, b] = ["a", "b"]
            .map(|node| verdict(&world, &*plugin("VolumeBinding"), &pod("p claim=c"), node));
        assert_eq!(b, full);
        assert!(a == "ok" || a == full, "{a}");
        a == "ok"
    };
    check_filter(&making, "p claim=c", "ok", "ok");
    check_filter(&format!("{making}{}", driver(false)), "p claim=c", "ok", "ok");
    check_filter(&published, "p claim=c", &full, &full);
    assert!(has_room_on_a(""));
    assert!(!has_room_on_a("free=4Gi"));
    assert!(!has_room_on_a(r#"{"capacity": null}"#));
    assert!(!has_room_on_a("class=other"));
    assert!(!has_room_on_a(r#"{"maximumVolumeSize": "4Gi"}"#));
    assert!(!has_room_on_a(r#"{"maximumVolumeSize": "0"}"#));
    assert!(has_room_on_a(r#"free=1Gi {"maximumVolumeSize": "5Gi"}"#));
    assert!(!has_room_on_a(r#"{"nodeTopology": null}"#));
    let everywhere = capacity(r#"{"nodeTopology": {"matchLabels": null}}"#);
    // Claims are not added up.
    let both = format!("{published}\n{everywhere}; pvc d storage=6Gi class=wffc");
    check_filter(&both, "p claim=c claim=d", "ok", "ok");
    let silent = format!("{published}\n{everywhere}; pvc d storage=- class=wffc");
    check_filter(&silent, "p claim=d", "ok", "ok");
}

#[test]
fn what_is_expected_of_objects_counts() {
    let mut world = two_zones(&format!("pv pv class=wffc version=5; pvc c class=wffc{WFFC}"));
    let ask = |world: &Fixture| {
        ["a", "b"].map(|node| verdict(world, &*plugin("VolumeBinding"), &pod("p claim=c"), node))
    };
    assert_eq!(ask(&world), ["ok", "ok"]);
    let taken = object("pv pv class=wffc version=5 claim=other").build();
    world.cluster_mut().objects_mut().assume(taken).unwrap();
    let none = unresolvable(&[BIND_CONFLICT]);
    assert_eq!(ask(&world), [&*none, &*none]);
}

/// The raw scores of all nodes with the gate on.
fn scores(world: &Fixture, args: Value, claims: &str) -> Vec<i64> {
    let pod = &pod(&format!("p {claims}"));
    let plugin = try_plugin("VolumeBinding", args, &[("StorageCapacityScoring", true)]).unwrap();
    let (outcome, mut state) = world.pre_filter(&*plugin, pod);
    assert_eq!(text(&outcome.status), "ok");
    let nodes = world.cluster().order();
    let status = plugin.as_pre_score().unwrap().pre_score(
        &world.cx(),
        &mut state,
        pod,
        &FeasibleNodes::unrecorded(nodes),
    );
    assert_eq!(text(&status), "ok");
    let score = |idx: &NodeIdx| {
        let view = ClusterView::unrecorded(world.cluster()).node(*idx).unwrap();
        plugin.as_score().unwrap().score(&world.cx(), &state, pod, &view).unwrap()
    };
    nodes.iter().map(score).collect()
}

fn rising() -> Value {
    json!({"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]})
}

/// One node for each size, in a zone of its own, where just that much is free.
fn sized(sizes: &[&str], is_provisioned: bool) -> Fixture {
    let mut world = Fixture::new();
    for (at, size) in sizes.iter().enumerate() {
        let node = format!("node n{at} label:zone=n{at}");
        let free = if is_provisioned {
            format!("capacity kube-system/n{at} class=wffc free={size} topology=zone=n{at}")
        } else {
            format!("pv n{at} storage={size} class=wffc node-affinity=zone=n{at}")
        };
        world = world.with(&node).with(&free);
    }
    world.with(MAKING).with(&driver(true))
}

#[test]
fn without_the_gate_nothing_is_scored() {
    let world = sized(&["10Gi"], true);
    assert_eq!(raw_scores(&world, &*plugin("VolumeBinding"), &pod("p")), None);
}

#[test]
fn the_emptiest_node_is_best_by_default_and_the_fullest_with_a_rising_curve() {
    for is_provisioned in [true, false] {
        let world =
            sized(&["100Gi", "50Gi", "10Gi"], is_provisioned).with("pvc c storage=10Gi class=wffc");
        assert_eq!(scores(&world, Value::Null, "claim=c"), [90, 80, 0]);
        assert_eq!(scores(&world, rising(), "claim=c"), [10, 20, 100]);
    }
}

/// Another class, with as much room on `n0`.
fn other_class(free: &str) -> String {
    format!(
        "storageclass other provisioner=csi.example.com
         capacity kube-system/other class=other free={free} topology=zone=n0"
    )
}

#[test]
fn claims_of_a_class_are_added_up_and_classes_averaged() {
    let world = sized(&["100Gi"], true)
        .with("pvc c storage=50Gi class=wffc; pvc d storage=50Gi class=wffc");
    assert_eq!(scores(&world, rising(), "claim=c claim=d"), [100]);
    let world = world.with(&other_class("10Gi")).with("pvc e storage=0 class=other");
    assert_eq!(scores(&world, rising(), "claim=c claim=e"), [25]);
    let thirty = world.with("pvc f storage=30Gi class=wffc");
    assert_eq!(scores(&thirty, rising(), "claim=e claim=f"), [15]);
}

#[test]
fn existing_volumes_are_scored_before_new_ones() {
    let world = sized(&["60Gi"], true).with(&other_class("60Gi")).with(
        "pv pv storage=100Gi class=wffc
         pvc static storage=50Gi class=wffc; pvc new storage=60Gi class=other",
    );
    assert_eq!(scores(&world, rising(), "claim=static claim=new"), [50]);
}

#[test]
fn odd_curves_and_capacities() {
    let shape = json!({"shape": [
        {"utilization": 50, "score": 0}, {"utilization": 80, "score": 3}, {"utilization": 100, "score": 5},
    ]});
    let world = sized(&["100Gi"], true)
        .with(&other_class("100Gi"))
        .with("pvc c storage=30Gi class=wffc; pvc d storage=60Gi class=other");
    assert_eq!(scores(&world, shape, "claim=c claim=d"), [5]);
    // The capacity object states only its largest volume: the node counts as full.
    let silent =
        r#"capacity kube-system/n0 class=wffc topology=zone=n0 {"maximumVolumeSize": "100Gi"}"#;
    assert_eq!(scores(&world.with(silent), rising(), "claim=c"), [100]);
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

fn hint(resource: EventResource, pod_text: &str, old: Option<&str>, new: &str) -> String {
    let action = if old.is_some() { ActionType::UPDATE } else { ActionType::ADD };
    let event_object = |text: &str| EventObject::Other(object(text).build());
    let (old, new) = (old.map(event_object), Some(event_object(new)));
    let event = ClusterEvent::new(resource, action);
    crate::support::hint(&*plugin("VolumeBinding"), event, &pod(pod_text), old, new)
}

#[test]
fn classes_help_when_they_come_or_allow_other_topologies() {
    let hint =
        |old: Option<&str>, new: &str| hint(EventResource::StorageClass, "p claim=c", old, new);
    let of = |topologies: Value| {
        format!("storageclass x provisioner=p {}", json!({"allowedTopologies": topologies}))
    };
    let term = of(json!([{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}]));
    let (empty, none) = (of(json!([])), of(Value::Null));
    assert_eq!(hint(None, &empty), "queue");
    assert_eq!(hint(Some(&empty), &none), "skip");
    assert_eq!(hint(Some(&empty), &term), "queue");
    assert_eq!(hint(Some(&term), &term), "skip");
}

#[test]
fn only_its_own_claims_help_a_pod() {
    let hint = |pod, claim| hint(EventResource::PersistentVolumeClaim, pod, None, claim);
    assert_eq!(hint("p claim=c", "pvc c"), "queue");
    assert_eq!(hint("p claim=c", "pvc d"), "skip");
    assert_eq!(hint("p claim=c", "pvc other/c"), "skip");
    assert_eq!(hint("p ephemeral=data", "pvc p-data"), "queue");
}

#[test]
fn csi_nodes_help_when_they_come_or_their_migration_changes() {
    let hint = |old: Option<&str>, new: &str| hint(EventResource::CsiNode, "p claim=c", old, new);
    let migrated = |plugins: &str| {
        format!("csinode a annotation:storage.alpha.kubernetes.io/migrated-plugins={plugins}")
    };
    assert_eq!(hint(None, "csinode a"), "queue");
    assert_eq!(hint(Some("csinode a"), &migrated("")), "skip");
    assert_eq!(hint(Some("csinode a"), &migrated("x")), "queue");
    assert_eq!(hint(Some(&migrated("x")), &migrated("x")), "skip");
}

#[test]
fn a_driver_that_stops_to_publish_capacity_helps_inline_volumes_alone() {
    let inline = r#"p volume={"csi": {"driver": "csi.example.com"}}"#;
    let hint =
        |pod, old, new| hint(EventResource::CsiDriver, pod, Some(&driver(old)), &driver(new));
    assert_eq!(hint(inline, true, false), "queue");
    assert_eq!(hint(inline, true, true), "skip");
    assert_eq!(hint(inline, false, false), "skip");
    assert_eq!(hint("p claim=c", true, false), "skip");
}

#[test]
fn capacity_helps_when_there_is_more_of_it() {
    let hint = |old: Option<&str>, new: &str| {
        let (old, new) = (old.map(capacity), capacity(new));
        hint(EventResource::CsiStorageCapacity, "p claim=c", old.as_deref(), &new)
    };
    let none = r#"{"capacity": null}"#;
    assert_eq!(hint(None, none), "queue");
    assert_eq!(hint(Some(none), ""), "queue");
    assert_eq!(hint(Some(""), ""), "skip");
    assert_eq!(hint(Some(""), "free=11Gi"), "queue");
    assert_eq!(hint(Some(""), none), "skip");
    assert_eq!(hint(Some(r#"{"maximumVolumeSize": "1Gi"}"#), ""), "queue");
}
