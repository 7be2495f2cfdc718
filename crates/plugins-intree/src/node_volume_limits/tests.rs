//! The verdict of a node against a walk through all of its volumes, whatever has happened before.

mod walk;

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_cache::{ClusterState, NodeOverlay};
use kube_scheduler_framework::api::{Node, Object};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

use super::*;

const N_PODS: u8 = 4;
const N_CLAIMS: u8 = 8;

fn limits(wants_drivers: bool) -> NodeVolumeLimits {
    let rejection = Status::unschedulable(REASON).from_plugin(&NAME.into());
    NodeVolumeLimits { wants_drivers, rejection }
}

/// Something that happens in the cluster: what it is about, and two numbers that choose how it looks.
#[derive(Clone, Copy, Debug)]
enum Event {
    Node(u8),
    NoNode(u8),
    Pod(u8, u8, u16),
    NoPod(u8),
    Claim(u8, u8, u8),
    NoClaim(u8),
    Volume(u8, u8),
    NoVolume(u8),
    Class(u8, u8),
    NoClass(u8),
    CsiNode(u8, u8),
    NoCsiNode(u8),
    Driver(u8, bool),
    NoDriver(u8),
    Attachment(u8, u8, u8),
    NoAttachment(u8),
    Fork,
    OtherFork,
}

fn event() -> impl Strategy<Value = Event> {
    let (two, shape) = (0_u8..2, any::<u8>());
    prop_oneof![
        1 => two.clone().prop_map(Event::Node),
        1 => two.clone().prop_map(Event::NoNode),
        8 => (0..N_PODS, two.clone(), any::<u16>()).prop_map(|(at, on, shape)| Event::Pod(at, on, shape)),
        2 => (0..N_PODS).prop_map(Event::NoPod),
        8 => (0..N_CLAIMS, shape, any::<u8>()).prop_map(|(at, shape, owner)| Event::Claim(at, shape, owner)),
        2 => (0..N_CLAIMS).prop_map(Event::NoClaim),
        5 => (0_u8..4, shape).prop_map(|(at, shape)| Event::Volume(at, shape)),
        1 => (0_u8..4).prop_map(Event::NoVolume),
        3 => (two.clone(), shape).prop_map(|(at, shape)| Event::Class(at, shape)),
        1 => two.clone().prop_map(Event::NoClass),
        5 => (two.clone(), shape).prop_map(|(at, shape)| Event::CsiNode(at, shape)),
        1 => two.clone().prop_map(Event::NoCsiNode),
        3 => (two.clone(), any::<bool>()).prop_map(|(at, is_wanted)| Event::Driver(at, is_wanted)),
        1 => two.clone().prop_map(Event::NoDriver),
        2 => (0_u8..3, two, 0_u8..4).prop_map(|(at, on, volume)| Event::Attachment(at, on, volume)),
        1 => (0_u8..3).prop_map(Event::NoAttachment),
        1 => Just(Event::Fork),
        1 => Just(Event::OtherFork),
    ]
}

fn one<'a, T: ?Sized>(of: &[&'a T], shape: u8) -> &'a T {
    of[usize::from(shape) % of.len()]
}

/// Claims 0 to 3 are named by pods, 4 to 7 are for an ephemeral volume of a pod each.
fn claim_name(at: u8) -> String {
    if at < 4 { format!("c{at}") } else { format!("p{}-e", at - 4) }
}

/// A pod with up to three volumes.
fn pod(name: &str, node: Option<u8>, shape: u16) -> Arc<Pod> {
    let volume = |at: u8| {
        let name = format!("v{at}");
        match (shape >> (4 * at)) & 15 {
            0..=7 => {
                json!({"name": name, "persistentVolumeClaim": {"claimName": claim_name((shape >> (4 * at)) as u8 & 3)}})
            }
            8 | 12 => json!({"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}),
            9 => json!({"name": name, "awsElasticBlockStore": {"volumeID": "h0"}}),
            10 if shape >> 14 == 0 => {
                json!({"name": name, "awsElasticBlockStore": {"volumeID": "aws://zone/disk"}})
            }
            11 if shape >> 14 == 1 => {
                json!({"name": name, "persistentVolumeClaim": {"claimName": ""}})
            }
            _ => json!({"name": name, "emptyDir": {}}),
        }
    };
    let node = node.map(|node| format!("n{node}"));
    let volumes: Vec<Value> = (0..3).map(volume).collect();
    let json = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"nodeName": node, "volumes": volumes},
    });
    Arc::new(Pod::from_value(&json).unwrap())
}

fn object(version: &str, kind: &str, name: &str, more: &[(&str, Value)]) -> Arc<Object> {
    let mut json = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}});
    let is_of_namespace = kind == "PersistentVolumeClaim";
    for (key, value) in more {
        match *key {
            "owner" => {
                json["metadata"]["ownerReferences"] = json!([{"uid": value, "controller": true}])
            }
            key => json[key] = value.clone(),
        }
    }
    if is_of_namespace {
        json["metadata"]["namespace"] = "default".into();
    }
    Arc::new(Object::from_value(json).unwrap())
}

fn claim(at: u8, shape: u8, owner: u8) -> Arc<Object> {
    let volume = one(&["", "pv0", "pv1", "pv2", "pv3"], shape);
    let class = one(&["", "s0", "s1"], shape / 8);
    let owner = if owner.is_multiple_of(3) {
        "another".to_owned()
    } else {
        format!("p{}", at.saturating_sub(4))
    };
    let spec = json!({"volumeName": volume, "storageClassName": class});
    let more = [("spec", spec), ("owner", owner.into())];
    object("v1", "PersistentVolumeClaim", &claim_name(at), &more)
}

fn volume(at: u8, shape: u8) -> Arc<Object> {
    let csi =
        |driver: &str, handle: &str| json!({"csi": {"driver": driver, "volumeHandle": handle}});
    let spec = match shape % 8 {
        0 => csi("d0", "h0"),
        1 => csi("d0", &format!("h{at}")),
        2 => csi("d0", ""),
        3 | 4 => csi("ebs.csi.aws.com", &format!("h{at}")),
        5 | 6 => json!({"awsElasticBlockStore": {"volumeID": format!("h{}", shape / 8 % 3)}}),
        _ => json!({"azureFile": {"shareName": "s"}}),
    };
    object("v1", "PersistentVolume", &format!("pv{at}"), &[("spec", spec)])
}

const STORAGE: &str = "storage.k8s.io/v1";
const PROVISIONERS: [&str; 4] = ["d0", "ebs.csi.aws.com", "kubernetes.io/aws-ebs", ""];
const DRIVERS: [&str; 2] = ["d0", "ebs.csi.aws.com"];

fn csi_node(at: u8, shape: u8) -> Arc<Object> {
    let limit = |driver: &str, shape: u8| match shape % 6 {
        5 => json!({"name": driver}),
        count => json!({"name": driver, "allocatable": {"count": count}}),
    };
    let drivers = [limit(DRIVERS[0], shape), limit(DRIVERS[1], shape / 6)];
    let n = [2, 1, 0][usize::from(shape > 200) + usize::from(shape > 240)];
    object(STORAGE, "CSINode", &format!("n{at}"), &[("spec", json!({"drivers": drivers[..n]}))])
}

fn apply(cluster: &mut ClusterState, event: Event) {
    let mut remove = |kind: &str, name: &str| {
        let (group, namespace) = match kind {
            "PersistentVolumeClaim" => ("", "default"),
            "PersistentVolume" => ("", ""),
            _ => ("storage.k8s.io", ""),
        };
        cluster.remove_object(group, kind, namespace, name);
    };
    let node = |at: u8| json!({"metadata": {"name": format!("n{at}"), "uid": format!("n{at}")}});
    let upserted = match event {
        Event::Node(at) => {
            cluster.add_node(Arc::new(Node::from_value(&node(at)).unwrap()));
            return;
        }
        Event::NoNode(at) => return drop(cluster.remove_node(&format!("n{at}"))),
        Event::Pod(at, on, shape) => {
            let pod = pod(&format!("p{at}"), Some(on), shape);
            if cluster.pod(&pod.uid).is_some() {
                cluster.update_pod(pod).unwrap();
            } else {
                cluster.add_pod(pod).unwrap();
            }
            return;
        }
        Event::NoPod(at) => return drop(cluster.remove_pod(&format!("p{at}"))),
        Event::NoClaim(at) => return remove("PersistentVolumeClaim", &claim_name(at)),
        Event::NoVolume(at) => return remove("PersistentVolume", &format!("pv{at}")),
        Event::NoClass(at) => return remove("StorageClass", &format!("s{at}")),
        Event::NoCsiNode(at) => return remove("CSINode", &format!("n{at}")),
        Event::NoDriver(at) => return remove("CSIDriver", DRIVERS[usize::from(at)]),
        Event::NoAttachment(at) => return remove("VolumeAttachment", &format!("a{at}")),
        Event::Fork | Event::OtherFork => return,
        Event::Claim(at, shape, owner) => claim(at, shape, owner),
        Event::Volume(at, shape) => volume(at, shape),
        Event::Class(at, shape) => {
            let provisioner = json!(one(&PROVISIONERS, shape));
            object(STORAGE, "StorageClass", &format!("s{at}"), &[("provisioner", provisioner)])
        }
        Event::CsiNode(at, shape) => csi_node(at, shape),
        Event::Driver(at, is_wanted) => {
            let spec = json!({"preventPodSchedulingIfMissing": is_wanted});
            object(STORAGE, "CSIDriver", DRIVERS[usize::from(at)], &[("spec", spec)])
        }
        Event::Attachment(at, on, volume) => {
            let source = json!({"persistentVolumeName": format!("pv{volume}")});
            let attacher = DRIVERS[usize::from(volume % 2)];
            let spec =
                json!({"attacher": attacher, "nodeName": format!("n{on}"), "source": source});
            object(STORAGE, "VolumeAttachment", &format!("a{at}"), &[("spec", spec)])
        }
    };
    cluster.upsert_object(upserted);
}

/// What a verdict says: its code and its text.
fn shown(verdict: Result<(), Status>) -> String {
    verdict.map_or_else(
        |status| format!("{:?} {:?}", status.code(), status.message()),
        |()| "fits".to_owned(),
    )
}

/// Compares what the plugin says of all nodes with what a walk says; counts the verdicts.
fn compare(
    cluster: &ClusterState,
    wants_drivers: bool,
    shape: u16,
    seen: &mut BTreeMap<String, usize>,
) {
    let (plugin, view) = (limits(wants_drivers), ClusterView::unrecorded(cluster));
    let new = pod("p3", None, shape);
    let mut scan = Scan::new(&plugin, view, &new);
    for idx in cluster.live_nodes().iter() {
        let node = view.node(idx).unwrap();
        let expected = shown(walk::verdict(view, &node, &new, wants_drivers));
        *seen.entry(expected.clone()).or_default() += 1;
        if scan.surely_passes(idx) {
            assert_eq!(expected, "fits");
        }
        let scanned = scan.filter(&node);
        let scanned = if scanned.is_success() { Ok(()) } else { Err(scanned) };
        assert_eq!(shown(scanned), expected);
        // As it would be without one of the pods, and with another one.
        let mut overlay = NodeOverlay::new(idx);
        for other in cluster.pods_on(idx).take(usize::from(shape >> 13)) {
            overlay.remove_pod(cluster, &other.uid).unwrap();
        }
        overlay.add_pod(cluster, &pod("p9", None, shape.rotate_left(5)));
        let node = NodeView::hypothetical(cluster, &overlay).unwrap();
        let new_here = NewVolumes::of(view, &new, view.csi_limits(idx).is_some());
        let expected = shown(walk::verdict(view, &node, &new, wants_drivers));
        assert_eq!(shown(plugin.check(view, &node, &new_here)), expected);
    }
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(7),
        ..ProptestConfig::default()
    }
}

/// Histories, after each event of which some pod is asked about.
fn histories() -> impl Strategy<Value = (bool, Vec<(Event, u16)>)> {
    (any::<bool>(), prop::collection::vec((event(), any::<u16>()), 1..120))
}

fn run(wants_drivers: bool, events: Vec<(Event, u16)>, seen: &mut BTreeMap<String, usize>) {
    let mut cluster = ClusterState::new();
    (0..2).for_each(|at| apply(&mut cluster, Event::Node(at)));
    let mut other = cluster.clone();
    for (event, shape) in events {
        match event {
            Event::Fork => other = cluster.clone(),
            Event::OtherFork => std::mem::swap(&mut cluster, &mut other),
            event => apply(&mut cluster, event),
        }
        compare(&cluster, wants_drivers, shape, seen);
        compare(&other, wants_drivers, shape, seen);
    }
    assert_eq!(kube_scheduler_cache::check(&cluster), []);
    // Nothing is left once the pods are gone.
    (0..N_PODS).for_each(|at| apply(&mut cluster, Event::NoPod(at)));
    assert_eq!(cluster.n_volumes_in_use(), 0);
}

proptest! {
    #![proptest_config(config(512))]

    #[test]
    fn a_node_passes_unless_a_new_volume_exceeds_a_limit((wants_drivers, events) in histories()) {
        run(wants_drivers, events, &mut BTreeMap::new());
    }
}

/// The histories above are about something: every kind of verdict comes up.
#[test]
fn random_histories_lead_to_all_verdicts() {
    let mut runner = proptest::test_runner::TestRunner::new(config(64));
    let seen = std::cell::RefCell::new(BTreeMap::new());
    let ran = runner.run(&histories(), |(wants_drivers, events)| {
        run(wants_drivers, events, &mut seen.borrow_mut());
        Ok(())
    });
    assert!(ran.is_ok());
    let texts = [
        "fits",
        REASON,
        "CSI driver is not installed",
        "converting volume",
        "had no name",
        "is not owner",
        "not found",
    ];
    for text in texts {
        let n: usize =
            seen.borrow().iter().filter(|(shown, _)| shown.contains(text)).map(|(_, n)| n).sum();
        assert!(n > 20, "{text}: {n}");
    }
}
