//! Volumes: disks, zones, limits, and which events wake pods up.

use std::sync::Arc;

use kube_scheduler_cache::NodeOverlay;
use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::testing::{Fixture, PointReads, Reads, fixture, object, reads_of};
use kube_scheduler_framework::{
    ActionType, ClusterEvent, CycleState, EventObject, EventResource, NodeView,
};
use serde_json::{Value, json};

use crate::support::{plugin, pod, pre_verdict, signature, text, try_plugin, verdict};

const DISK: &str = "Unschedulable: node(s) had no available disk";
const ONE_POD: &str = "Unschedulable: node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode \
     already in-use by another pod";
const ZONE: &str = "UnschedulableAndUnresolvable: node(s) had no available volume zone";
const LIMIT: &str = "Unschedulable: node(s) exceed max volume count";
const DRIVER: &str = "csi.example.com";

/// Two nodes, and what is there beside.
fn world(more: &str) -> Fixture {
    fixture("node n1; node n2").with(more)
}

fn event_object(text: &str) -> Option<EventObject> {
    Some(EventObject::Other(object(text).build()))
}

fn hint(
    name: &str,
    resource: EventResource,
    action: ActionType,
    pod: &Pod,
    old: Option<EventObject>,
    new: Option<EventObject>,
) -> String {
    crate::support::hint(&*plugin(name), ClusterEvent::new(resource, action), pod, old, new)
}

// VolumeRestrictions

fn disk_verdict(new: &Value, existing: &Value) -> String {
    let world = world(&format!("pod other node=n1 volume={existing}"));
    verdict(&world, &*plugin("VolumeRestrictions"), &pod(&format!("p volume={new}")), "n1")
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
        assert_eq!(disk_verdict(&new, &existing), expected, "{new} {existing}");
    }
}

#[test]
fn disks_conflict_across_namespaces_and_on_their_node_only() {
    let disk = r#"volume={"gcePersistentDisk": {"pdName": "a"}}"#;
    let world = world(&format!("pod elsewhere/other node=n1 {disk}"));
    let ask =
        |node| verdict(&world, &*plugin("VolumeRestrictions"), &pod(&format!("p {disk}")), node);
    assert_eq!([ask("n1"), ask("n2")], [DISK, "ok"]);
}

const OWN: &str = "pvc own access=ReadWriteOncePod; pvc shared access=ReadWriteMany\n";

#[test]
fn a_claim_for_one_pod_has_one_user_in_the_cluster() {
    let restrictions = plugin("VolumeRestrictions");
    let ask = |more: &str, text| pre_verdict(&world(OWN).with(more), &*restrictions, &pod(text));
    assert_eq!(ask("", "p claim=own"), "skip");
    assert_eq!(ask("", "p"), "skip");
    assert_eq!(
        ask("", "p claim=own claim=gone"),
        "UnschedulableAndUnresolvable: persistentvolumeclaim \"gone\" not found"
    );
    assert_eq!(ask("", "p ephemeral=v0"), "skip");
    let user = "pod other node=n1 claim=own claim=shared";
    assert_eq!(ask(user, "p claim=shared"), "skip");
    for name in ["n1", "n2"] {
        let used = world(OWN).with(user);
        assert_eq!(verdict(&used, &*restrictions, &pod("p claim=own"), name), ONE_POD);
    }
    assert_eq!(ask("pod elsewhere/other node=n1 claim=own", "p claim=own"), "skip");
}

/// The verdict after pods came (`true`) and went, starting with `n_users` pods that use the claim.
fn after(n_users: usize, steps: &[(bool, &Arc<Pod>)]) -> String {
    let users = (0..n_users).map(|at| format!("pod user-{at} node=n1 claim=own\n"));
    let world = world(OWN).with(&users.collect::<String>());
    let plugin = plugin("VolumeRestrictions");
    let waiting = pod("p claim=own");
    let (cx, mut state) = (world.cx(), CycleState::new());
    let pre_filter = plugin.as_pre_filter().unwrap();
    assert!(pre_filter.pre_filter(&cx, &mut state, &waiting).status.is_success());
    let overlay = NodeOverlay::new(world.view("n1").idx());
    let view = NodeView::hypothetical(world.cluster(), &overlay).unwrap();
    let extensions = pre_filter.extensions().unwrap();
    for (comes, other) in steps {
        let status = if *comes {
            extensions.add_pod(&cx, &mut state, &waiting, other, &view)
        } else {
            extensions.remove_pod(&cx, &mut state, &waiting, other, &view)
        };
        assert!(status.is_success());
    }
    text(&plugin.as_filter().unwrap().filter(&cx, &state, &waiting, &world.view("n1")))
}

#[test]
fn other_pods_are_counted_by_volume_in_any_namespace() {
    let user = pod("user node=n1 claim=own");
    let stranger = pod("stranger node=n1 claim=shared");
    let greedy = pod("greedy node=n1 claim=own claim=own");
    let elsewhere = pod("elsewhere/elsewhere node=n1 claim=own");
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
    let world = world("");
    let plugin = plugin("VolumeRestrictions");
    let (pod, mut state) = (pod("p claim=own"), CycleState::new());
    let view = world.view("n1");
    let expected = "Error: cannot read \"PreFilterVolumeRestrictions\" from cycleState";
    let cx = world.cx();
    assert_eq!(text(&plugin.as_filter().unwrap().filter(&cx, &state, &pod, &view)), expected);
    let extensions = plugin.as_pre_filter().unwrap().extensions().unwrap();
    assert_eq!(text(&extensions.add_pod(&cx, &mut state, &pod, &pod, &view)), expected);
    assert_eq!(text(&extensions.remove_pod(&cx, &mut state, &pod, &pod, &view)), expected);
}

#[test]
fn a_disk_in_use_is_noticed_without_state() {
    let disk = r#"volume={"gcePersistentDisk": {"pdName": "a"}}"#;
    let world = world(&format!("pod other node=n1 {disk}"));
    let plugin = plugin("VolumeRestrictions");
    let ask = |node| {
        let (pod, state) = (pod(&format!("p {disk}")), CycleState::new());
        let view = world.view(node);
        text(&plugin.as_filter().unwrap().filter(&world.cx(), &state, &pod, &view))
    };
    let no_state = "Error: cannot read \"PreFilterVolumeRestrictions\" from cycleState";
    assert_eq!([ask("n1"), ask("n2")], [DISK, no_state]);
}

#[test]
fn disks_and_claims_that_become_free_wake_pods_of_their_namespace() {
    let disk = r#"volume={"awsElasticBlockStore": {"volumeID": "a"}}"#;
    let waiting = pod(&format!("p {disk} claim=own"));
    let ask = |resource, action, old, new| {
        hint("VolumeRestrictions", resource, action, &waiting, old, new)
    };
    let deleted = |name: &str, volumes: &str| {
        let gone = Some(EventObject::Pod(pod(&format!("{name} node=n1 {volumes}"))));
        ask(EventResource::AssignedPod, ActionType::DELETE, gone, None)
    };
    assert_eq!(deleted("gone", disk), "queue");
    assert_eq!(deleted("gone", "claim=own"), "queue");
    assert_eq!(deleted("gone", "claim=other ephemeral=v1"), "skip");
    assert_eq!(deleted("elsewhere/gone", disk), "skip");
    let added = |claim| {
        ask(EventResource::PersistentVolumeClaim, ActionType::ADD, None, event_object(claim))
    };
    assert_eq!(
        [added("pvc own"), added("pvc elsewhere/own"), added("pvc p-v1")],
        ["queue", "skip", "skip"]
    );
    let on = |action| ask(EventResource::Node, action, None, None);
    assert_eq!(
        [on(ActionType::ADD), on(ActionType::UPDATE_NODE_LABEL)],
        ["always", "not registered"]
    );
    let claim = event_object("pvc own");
    let wrong = ask(EventResource::AssignedPod, ActionType::DELETE, claim, None);
    assert!(wrong.starts_with("error: "), "{wrong}");
}

// VolumeZone

#[test]
fn a_volume_keeps_its_pod_in_its_zone() {
    const BETA: &str = "label:failure-domain.beta.kubernetes.io/zone";
    let cases = [
        ("GA=a", "", "ok"),
        ("GA=a", "label:other=x", "ok"),
        ("", "GA=b", "ok"),
        ("GA=a", "GA=a", "ok"),
        ("GA=a", "GA=b", ZONE),
        ("GA=a", "GA=", ZONE),
        ("'GA=a__ b '", "GA=b", "ok"),
        ("GA=a__", "GA=b", "ok"),
        ("GA=a REGION=r", "GA=a", ZONE),
        ("GA=a", "BETA=a", ZONE),
        ("BETA=a", "GA=a", "ok"),
        ("BETA=a", "BETA=b GA=a", ZONE),
        ("BETA=a GA=b", "BETA=a GA=a", ZONE),
        ("GA=a", "REGION=r", ZONE),
    ];
    for (volume, node, expected) in cases {
        let world = format!("node n1 {node}; pvc c volume=pv; pv pv {volume}")
            .replace("GA", "label:topology.kubernetes.io/zone")
            .replace("BETA", BETA)
            .replace("REGION", "label:topology.kubernetes.io/region");
        let found = verdict(&fixture(&world), &*plugin("VolumeZone"), &pod("p claim=c"), "n1");
        assert_eq!(found, expected, "{volume} {node}");
    }
}

#[test]
fn zones_need_volumes_that_are_known() {
    let world = world(
        "pvc bound volume=gone; pvc plain; pvc lost-class class=gone; pvc late class=late
         pvc modeless class=modeless; pvc now class=now
         storageclass late; storageclass now binding=Immediate; storageclass modeless binding=-",
    );
    let plugin = plugin("VolumeZone");
    let ask = |text: &str| pre_verdict(&world, &*plugin, &pod(text));
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
        let found = ask(&format!("p claim={name}"));
        assert_eq!(found, format!("UnschedulableAndUnresolvable: {expected}"));
    }
    assert_eq!(ask("p claim=late ephemeral=v1"), "skip");
    assert_eq!(ask("p"), "skip");
    // Without what PreFilter found out, Filter finds it out itself.
    let view = world.view("n1");
    let ask = |waiting: &str| {
        let filter = plugin.as_filter().unwrap();
        text(&filter.filter(&world.cx(), &CycleState::new(), &pod(waiting), &view))
    };
    let expected = "UnschedulableAndUnresolvable: PersistentVolume had no name";
    assert_eq!([ask("p claim=now"), ask("p claim=late")], [expected, "ok"]);
}

#[test]
fn classes_claims_and_volumes_that_may_move_a_pod_wake_it() {
    let waiting = pod("p claim=c");
    let ask = |resource, action, old: Option<&str>, new: Option<&str>| {
        let (old, new) = (old.and_then(event_object), new.and_then(event_object));
        hint("VolumeZone", resource, action, &waiting, old, new)
    };
    let on_class = |class| ask(EventResource::StorageClass, ActionType::ADD, None, Some(class));
    assert_eq!(on_class("storageclass s"), "queue");
    assert_eq!(
        [on_class("storageclass s binding=Immediate"), on_class("storageclass s binding=-")],
        ["skip", "skip"]
    );
    let on_claim =
        |claim, action| ask(EventResource::PersistentVolumeClaim, action, None, Some(claim));
    assert_eq!(on_claim("pvc c", ActionType::ADD), "queue");
    assert_eq!(on_claim("pvc c", ActionType::UPDATE), "queue");
    assert_eq!(on_claim("pvc d", ActionType::UPDATE), "skip");
    let on_volume = |old: &str, new: &str| {
        let (old, new) = (format!("pv any {old}"), format!("pv any {new}"));
        ask(EventResource::PersistentVolume, ActionType::UPDATE, Some(&old), Some(&new))
    };
    const GA: &str = "label:topology.kubernetes.io/zone";
    assert_eq!(on_volume(&format!("{GA}=a"), &format!("{GA}=a__b")), "queue");
    assert_eq!(on_volume(&format!("{GA}=a__b"), &format!("{GA}=b__a label:x=y")), "skip");
    assert_eq!(on_volume("", &format!("{GA}=a__")), "skip");
    let beta = "label:failure-domain.beta.kubernetes.io/zone=a";
    assert_eq!(on_volume(&format!("{GA}=a"), beta), "queue");
    let added = ask(EventResource::PersistentVolume, ActionType::ADD, None, Some("pv any"));
    assert_eq!(added, "queue");
    let on_node = ask(EventResource::Node, ActionType::UPDATE_NODE_LABEL, None, None);
    assert_eq!(on_node, "always");
}

// NodeVolumeLimits

/// What node `n1` says about a pod with these volumes.
fn limit_verdict(more: &str, volumes: &str) -> String {
    verdict(&world(more), &*plugin("NodeVolumeLimits"), &pod(&format!("p {volumes}")), "n1")
}

/// Claims `c0`, `c1`, … bound to volumes `pv0`, `pv1`, … of one driver.
const BOUND: &str = "pvc c0 volume=pv0; pv pv0 csi=csi.example.com:h0
                     pvc c1 volume=pv1; pv pv1 csi=csi.example.com:h1
                     pvc c2 volume=pv2; pv pv2 csi=csi.example.com:h2\n";

#[test]
fn a_node_attaches_as_many_volumes_as_its_driver_says() {
    let others = "pod a node=n1 claim=c0; pod b node=n1 claim=c1 claim=c0";
    let verdict = |limit: &str| {
        let more = format!("{BOUND}{others}; csinode n1 driver={limit}");
        limit_verdict(&more, "claim=c2 claim=c1")
    };
    assert_eq!(verdict("csi.example.com:3"), "ok", "c1 is there already");
    assert_eq!(verdict("csi.example.com:2"), LIMIT);
    assert_eq!(verdict("csi.example.com:0"), LIMIT);
    assert_eq!(verdict(r#"{"name": "csi.example.com", "allocatable": {"count": null}}"#), "ok");
    assert_eq!(verdict("csi.example.com"), "ok");
    assert_eq!(verdict("other:0"), "ok");
    assert_eq!(limit_verdict(BOUND, "claim=c0"), "ok", "no CSINode");
}

#[test]
fn volumes_that_do_not_exist_yet_count_by_their_class() {
    let objects = "storageclass s provisioner=csi.example.com
        storageclass in-tree provisioner=kubernetes.io/aws-ebs binding=Immediate
        pvc pending class=s; pvc other class=s; pvc dangling class=s volume=gone; pvc classless
        pvc lost class=gone; pvc migrated class=in-tree";
    let verdict = |limit: &str, existing: &str, new: &str| {
        let more = format!("{objects}\ncsinode n1 driver={limit}; pod a node=n1 claim={existing}");
        limit_verdict(&more, &format!("claim={new}"))
    };
    let own = |existing, new| verdict("csi.example.com:1", existing, new);
    assert_eq!(own("pending", "other"), LIMIT);
    assert_eq!(own("pending", "pending"), "ok", "the same claim");
    assert_eq!(own("pending", "dangling"), LIMIT);
    assert_eq!(own("pending", "classless"), "ok");
    assert_eq!(own("pending", "lost"), "ok");
    assert_eq!(own("missing", "other"), "ok");
    assert_eq!(own("pending", "migrated"), "ok");
    let ebs = |existing, new| verdict("ebs.csi.aws.com:0", existing, new);
    assert_eq!(ebs("pending", "migrated"), LIMIT);
    assert_eq!(
        ebs("pending", "missing"),
        "UnschedulableAndUnresolvable: looking up PVC default/missing: persistentvolumeclaim \"missing\" not found"
    );
    assert_eq!(ebs("pending", ""), "Error: PersistentVolumeClaim had no name");
}

#[test]
fn in_tree_volumes_count_as_what_they_have_become() {
    let inline = r#"volume={"awsElasticBlockStore": {"volumeID": "aws:///vol-1"}}"#;
    let objects = r#"
        pvc c volume=pv; pv pv {"spec": {"awsElasticBlockStore": {"volumeID": "vol-1"}}}
        pvc d volume=local; pv local {"spec": {"hostPath": {"path": "/"}}}
        pvc native volume=csi; pv csi csi=ebs.csi.aws.com:vol-1
        pvc next volume=csi-2; pv csi-2 csi=ebs.csi.aws.com:vol-2
    "#;
    let alone = |csi_node: &str, volumes: &str| {
        limit_verdict(&format!("{objects}\ncsinode {csi_node}"), volumes)
    };
    let beside = |volumes| {
        let others = format!("pod a node=n1 {inline}; pod b node=n1 claim=native claim=d");
        alone(&format!("n1 driver=ebs.csi.aws.com:1; {others}"), volumes)
    };
    assert_eq!(beside("claim=c"), "ok", "one volume under three names");
    assert_eq!(beside("claim=next"), LIMIT);
    // The driver is not migrated without a CSINode, however many limits others have.
    assert_eq!(alone("n2 driver=ebs.csi.aws.com:0", inline), "ok");
    let full = "n1 driver=ebs.csi.aws.com:0";
    assert_eq!(alone(full, inline), LIMIT);
    assert_eq!(
        alone(full, r#"volume={"awsElasticBlockStore": {"volumeID": "aws:///disk"}}"#),
        "Error: converting volume(v0) from inline to csi: failed to translate Kubernetes ID to EBS Volume ID \
         Invalid format for AWS volume (aws:///disk)"
    );
    let file = r#"volume={"azureFile": {"shareName": "s"}}"#;
    assert_eq!(alone(full, file), "ok", "never counted");
}

#[test]
fn ephemeral_volumes_count_when_they_are_the_pods_own() {
    let owned = |pod: &str, owner: &str| {
        format!(
            "pvc {pod}-v0 volume=pv-{pod} owner={{\"uid\": \"someone\"}} owner={owner}
             pv pv-{pod} csi=csi.example.com:{pod}\n"
        )
    };
    let limit = "csinode n1 driver=csi.example.com:1\n";
    let ask = |more: &[&str]| limit_verdict(&[&[limit], more].concat().concat(), "ephemeral=v0");
    let (of_p, of_q) = (owned("p", "p-uid"), owned("q", "q-uid"));
    let user = "pod q node=n1 ephemeral=v0";
    assert_eq!(ask(&[&of_p]), "ok");
    assert_eq!(ask(&[&of_p, &of_q, user]), LIMIT);
    assert_eq!(
        ask(&[]),
        "UnschedulableAndUnresolvable: looking up PVC default/p-v0: persistentvolumeclaim \"p-v0\" not found"
    );
    let text = "PVC default/p-v0 was not created for pod default/p (pod is not owner)";
    assert_eq!(ask(&[&owned("p", "thief"), &of_q]), format!("Error: {text}"));
    let text = "PVC default/q-v0 was not created for pod default/q (pod is not owner)";
    assert_eq!(ask(&[&of_p, &owned("q", "thief"), user]), format!("Error: {text}"));
}

#[test]
fn an_own_volume_that_is_still_attached_counts_twice() {
    let first = "csinode n1 driver=csi.example.com:2; attachment a driver=csi.example.com node=n1 volume=pv0";
    let ask = |second: &str, volumes| limit_verdict(&format!("{BOUND}{first}\n{second}"), volumes);
    let user = "pod a node=n1 claim=c0";
    assert_eq!(ask("", "claim=c1"), "ok");
    assert_eq!(ask("", "claim=c0"), "ok");
    assert_eq!(ask(user, "claim=c1"), "ok");
    let second = "attachment b driver=csi.example.com node=n1 volume=pv1";
    assert_eq!(ask(second, "claim=c0"), LIMIT);
    assert_eq!(ask(&format!("{second}; {user}"), "claim=c0"), "ok");
    assert_eq!(ask(second, "claim=c2"), LIMIT);
    let uncounted = |second: &str| ask(second, "claim=c2");
    assert_eq!(uncounted("attachment b driver= node=n1 volume=pv1"), "ok");
    assert_eq!(uncounted("attachment b driver=csi.example.com node=n1 volume=gone"), "ok");
    assert_eq!(uncounted("attachment b driver=other node=n1 volume=pv1"), "ok");
    let same = "attachment b driver=csi.example.com node=n1 volume=pv0";
    assert_eq!(uncounted(same), "ok", "attached twice is attached once");
    let inline = r#"attachment b driver=csi.example.com node=n1 {"spec": {"source": {"inlineVolumeSpec": {}}}}"#;
    assert_eq!(uncounted(inline), "ok");
}

#[test]
fn limits_concern_pods_whose_volumes_can_count() {
    let world = world("");
    let ask = |volumes: &str| {
        pre_verdict(&world, &*plugin("NodeVolumeLimits"), &pod(&format!("p {volumes}")))
    };
    assert_eq!(ask(""), "skip");
    let others = r#"volume={"configMap": {"name": "x"}} volume={"hostPath": {"path": "/"}}
                    volume={"csi": {"driver": "csi.example.com"}}"#;
    assert_eq!(ask(&others.replace('\n', " ")), "skip");
    assert_eq!(ask("claim=c"), "ok");
    assert_eq!(ask("ephemeral=v0"), "ok");
    for kind in [
        "awsElasticBlockStore",
        "gcePersistentDisk",
        "azureDisk",
        "azureFile",
        "cinder",
        "portworxVolume",
        "vsphereVolume",
    ] {
        assert_eq!(ask(&format!("volume={}", json!({kind: {}}))), "ok", "{kind}");
    }
}

#[test]
fn a_driver_can_ask_to_be_on_the_node() {
    let verdict = |is_on: bool, more: &str| {
        let gates = [("VolumeLimitScaling", is_on)];
        let plugin = try_plugin("NodeVolumeLimits", Value::Null, &gates).unwrap();
        verdict(&world(BOUND).with(more), &*plugin, &pod("p claim=c0"), "n1")
    };
    let driver = |required: Value| {
        let spec = json!({"spec": {"preventPodSchedulingIfMissing": required}});
        format!("csidriver csi.example.com {spec}\n")
    };
    let asks = driver(json!(true));
    let missing = format!("Unschedulable: {DRIVER} CSI driver is not installed on the node");
    assert_eq!(verdict(true, &asks), missing);
    assert_eq!(verdict(true, &format!("{asks}csinode n1 driver=other")), missing);
    assert_eq!(verdict(true, &format!("{asks}csinode n1 driver=csi.example.com")), "ok");
    assert_eq!(verdict(true, &driver(json!(false))), "ok");
    assert_eq!(verdict(true, &driver(Value::Null)), "ok");
    assert_eq!(verdict(true, ""), "ok");
    assert_eq!(verdict(false, &asks), "ok");
}

#[test]
fn room_for_volumes_wakes_pods() {
    let waiting = pod("p claim=c ephemeral=v1");
    let on = |resource, action, pod: &Pod, old, new| {
        hint("NodeVolumeLimits", resource, action, pod, old, new)
    };
    let node_update = |old: &str, new: &str| {
        let csi_node = |drivers: &str| event_object(&format!("csinode n1 {drivers}"));
        let (old, new) = (csi_node(old), csi_node(new));
        on(EventResource::CsiNode, ActionType::UPDATE, &waiting, old, new)
    };
    let (one, two) = ("driver=csi.example.com:1", "driver=csi.example.com:2");
    let uncounted = r#"driver={"name": "csi.example.com", "allocatable": {"count": null}}"#;
    assert_eq!(node_update(one, two), "queue");
    assert_eq!(node_update(two, two), "skip");
    assert_eq!(node_update(two, uncounted), "skip");
    let none = r#"{"spec": {"drivers": []}}"#;
    assert_eq!(node_update(none, one), "queue");
    assert_eq!(node_update(none, "driver=csi.example.com"), "skip");
    // Listed twice, the last entry is what was there, even one without a count; of the new ones each is compared.
    assert_eq!(node_update(&format!("{two} {uncounted}"), one), "queue");
    assert_eq!(node_update(&format!("{one} {two}"), two), "skip");
    assert_eq!(node_update(one, &format!("{two} {uncounted}")), "queue");
    assert_eq!(on(EventResource::CsiNode, ActionType::ADD, &waiting, None, None), "always");

    let deleted = |text: &str| {
        let gone = Some(EventObject::Pod(pod(text)));
        on(EventResource::AssignedPod, ActionType::DELETE, &waiting, gone, None)
    };
    assert_eq!(deleted("a node=n1 claim=x"), "queue");
    assert_eq!(deleted("a node=n1 ephemeral=v0"), "queue");
    assert_eq!(deleted(r#"a node=n1 volume={"vsphereVolume": {}}"#), "queue");
    assert_eq!(deleted(r#"a node=n1 volume={"hostPath": {}}"#), "skip");
    assert_eq!(deleted("a node=n1"), "skip");
    assert_eq!(deleted("p claim=x"), "skip");
    assert_eq!(deleted("a claim=x nominated=n1"), "queue");

    let claim_added = |text: &str| {
        let resource = EventResource::PersistentVolumeClaim;
        on(resource, ActionType::ADD, &waiting, None, event_object(&format!("pvc {text}")))
    };
    assert_eq!(claim_added("c"), "queue");
    assert_eq!(claim_added("p-v1"), "queue");
    assert_eq!(claim_added("elsewhere/c"), "skip");
    assert_eq!(claim_added("d"), "skip");

    let detached = |text: &str| {
        let old = event_object("attachment a driver=ebs.csi.aws.com node=n1 volume=pv");
        on(EventResource::VolumeAttachment, ActionType::DELETE, &pod(text), old, None)
    };
    assert_eq!(detached("p claim=c ephemeral=v1"), "queue");
    assert_eq!(detached("p ephemeral=v0"), "skip");
    assert_eq!(detached(r#"p volume={"awsElasticBlockStore": {"volumeID": "v"}}"#), "queue");
    assert_eq!(detached(r#"p volume={"cinder": {"volumeID": "v"}}"#), "skip");
    let broken = r#"p volume={"azureDisk": {"kind": "Shared"}}"#;
    assert_eq!(detached(broken), "error: kind(Shared) is not supported in csi migration");
}

// What all of them promise.

const ALL: [&str; 3] = ["VolumeRestrictions", "VolumeZone", "NodeVolumeLimits"];

#[test]
fn pods_without_volumes_that_matter_are_like_any_other() {
    let world = world("");
    let plain = pod("p");
    let configured = pod(r#"q volume={"configMap": {"name": "x"}} volume={"emptyDir": {}}"#);
    for name in ALL {
        let plugin = plugin(name);
        assert!(signature(&*plugin, &plain).is_some());
        assert_eq!(signature(&*plugin, &plain), signature(&*plugin, &configured), "{name}");
        let configured = reads_of(&*plugin, world.sources(), &configured);
        assert_eq!(configured, PointReads::default(), "{name}");
        let claiming = reads_of(&*plugin, world.sources(), &pod("p claim=c")).phases();
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
    let pods = [
        "p claim=a",
        "p claim=b",
        r#"p volume={"csi": {"driver": "a"}}"#,
        r#"p volume={"gcePersistentDisk": {"pdName": "a"}}"#,
        r#"p volume={"gcePersistentDisk": {"pdName": "a", "readOnly": true}}"#,
        r#"p volume={"awsElasticBlockStore": {"volumeID": "a"}}"#,
        r#"p volume={"iscsi": {"iqn": "a"}}"#,
        r#"p volume={"rbd": {"image": "a"}}"#,
        r#"p volume={"rbd": {"image": "a", "pool": "p"}}"#,
        r#"p volume={"rbd": {"image": "a", "monitors": ["m"]}}"#,
        r#"p volume={"cinder": {"volumeID": "a"}}"#,
        r#"p volume={"hostPath": {"path": "a"}}"#,
        "elsewhere/p claim=a",
    ];
    let plugin = plugin("VolumeZone");
    let signatures: std::collections::BTreeSet<_> =
        pods.iter().map(|text| signature(&*plugin, &pod(text)).unwrap()).collect();
    assert_eq!(signatures.len(), pods.len());
    assert_eq!(signature(&*plugin, &pod("p ephemeral=v0")), None);
}
