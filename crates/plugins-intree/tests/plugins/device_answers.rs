//! What DynamicResources remembers from attempt to attempt is what a plugin without memories finds out.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_framework::api::{Node, Object, Pod};
use kube_scheduler_framework::following::FollowOutcome;
use kube_scheduler_framework::testing::{Fixture, check_contract, fixture};
use kube_scheduler_framework::{CycleState, Plugin};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{node, plugin, pod, put_device_object, scan, scan_with, text, verdict};

const API_VERSION: &str = "resource.k8s.io/v1";
/// The last two have no devices of their own, and see the same while their labels are the same.
const NODES: [&str; 4] = ["a", "b", "c", "d"];
const POOLS: [&str; 4] = ["a", "b", "parts", "net"];

/// The slices of a pool in one of three versions: of node `a`, of `b`, of `b` with counters that parts share, and of
/// whatever has the label `net`.
fn put_pool(world: &mut Fixture, pool: usize, version: usize) {
    let n_devices = 1 + version % 3;
    let device = |at: usize| {
        let mut device =
            json!({"name": at.to_string(), "attributes": {"v": {"int": at + version}}});
        if POOLS[pool] == "parts" {
            let counters = json!({"memory": {"value": "1"}});
            device["consumesCounters"] = json!([{"counterSet": "card", "counters": counters}]);
        }
        device
    };
    let devices: Vec<Value> = (0..n_devices).map(device).collect();
    let has_counters = POOLS[pool] == "parts";
    let slice = |content: Value| {
        let n_slices = 1 + usize::from(has_counters);
        let mut spec = json!({
            "driver": "d", "pool": {"name": POOLS[pool], "generation": 1, "resourceSliceCount": n_slices},
        });
        match POOLS[pool] {
            "net" => {
                let terms = json!([{"matchExpressions": [{"key": "net", "operator": "Exists"}]}]);
                spec["nodeSelector"] = json!({"nodeSelectorTerms": terms});
            }
            "parts" => spec["nodeName"] = "b".into(),
            node => spec["nodeName"] = node.into(),
        }
        spec.as_object_mut().unwrap().extend(content.as_object().unwrap().clone());
        json!({"spec": spec})
    };
    put_device_object(world, "ResourceSlice", POOLS[pool], slice(json!({"devices": devices})));
    if has_counters {
        // Sometimes the counters do not cover what devices take, so that the pool is invalid from everywhere.
        let counter = if version == 3 { "other" } else { "memory" };
        let sets = json!([{"name": "card", "counters": {counter: {"value": "2"}}}]);
        put_device_object(
            world,
            "ResourceSlice",
            "counters",
            slice(json!({"sharedCounters": sets})),
        );
    }
}

fn world() -> Fixture {
    let mut world = fixture("node a; node b; node c label:net=x; node d label:net=x");
    put_device_object(
        &mut world,
        "DeviceClass",
        "gpu",
        json!({"spec": {"extendedResourceName": "example.com/gpu"}}),
    );
    (0..POOLS.len()).for_each(|pool| put_pool(&mut world, pool, 1));
    // What nodes see is remembered only where there are many devices. No node sees these.
    let devices: Vec<Value> = (0..100).map(|at| json!({"name": format!("d{at}")})).collect();
    let terms = json!([{"matchExpressions": [{"key": "nowhere", "operator": "Exists"}]}]);
    let many = json!({"driver": "many", "pool": {"name": "many", "generation": 1, "resourceSliceCount": 1},
        "nodeSelector": {"nodeSelectorTerms": terms}, "devices": devices});
    put_device_object(&mut world, "ResourceSlice", "many", json!({"spec": many}));
    for count in 1..4 {
        put_device_object(&mut world, "ResourceClaim", &format!("wants-{count}"), wants(count));
        put_device_object(&mut world, "ResourceClaim", &format!("wants-{count}-too"), wants(count));
    }
    world
}

fn wants(count: usize) -> Value {
    let exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count});
    json!({"spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}})
}

fn askers() -> Vec<Arc<Pod>> {
    let user = |claims: &[&str]| {
        let entry = |claim: &&str| json!({"name": claim, "resourceClaimName": claim});
        let claims: Vec<Value> = claims.iter().map(entry).collect();
        pod(&format!("p {}", json!({"spec": {"resourceClaims": claims}})))
    };
    vec![
        user(&["wants-1"]),
        user(&["wants-2-too"]),
        user(&["wants-3"]),
        user(&["wants-1", "wants-1-too"]),
        user(&["wants-2", "wants-1"]),
        pod("p example.com/gpu=1"),
        pod("p example.com/gpu=2"),
    ]
}

/// A claim takes the device of a pool, for good or in flight, or gives it back.
fn claim_turn(
    world: &mut Fixture,
    held: &mut BTreeMap<usize, (usize, usize)>,
    turn: (u8, usize, usize, usize),
) {
    let (what, name, pool, device) = turn;
    let uid = format!("holder-{name}");
    let allocated = |(pool, device): (usize, usize)| {
        let result = json!({"request": "r", "driver": "d", "pool": POOLS[pool], "device": device.to_string()});
        json!({"spec": {}, "status": {"allocation": {"devices": {"results": [result]}}}})
    };
    match (what, held.contains_key(&name)) {
        (_, true) => {
            held.remove(&name);
            let objects = world.cluster_mut().objects_mut();
            objects.remove_pending("resource.k8s.io", "ResourceClaim", &uid, true);
            world.cluster_mut().remove_object("resource.k8s.io", "ResourceClaim", "default", &uid);
        }
        (_, false) if held.values().any(|taken| *taken == (pool, device)) => {}
        (0, false) => {
            held.insert(name, (pool, device));
            put_device_object(world, "ResourceClaim", &uid, allocated((pool, device)));
        }
        (_, false) => {
            held.insert(name, (pool, device));
            let mut json = allocated((pool, device));
            json["metadata"] = json!({"namespace": "default", "name": uid, "uid": uid});
            json["kind"] = "ResourceClaim".into();
            json["apiVersion"] = API_VERSION.into();
            let object = Arc::new(Object::from_value(json).unwrap());
            world.cluster_mut().objects_mut().add_pending(object);
        }
    }
}

/// Claims, devices, nodes or the class change; `meanwhile` is called while a node is gone.
fn world_turn(
    world: &mut Fixture,
    held: &mut BTreeMap<usize, (usize, usize)>,
    turn: (u8, usize, usize, usize),
    meanwhile: impl Fn(&Fixture),
) {
    let (what, name, pool, number) = turn;
    match what {
        0..3 => claim_turn(world, held, turn),
        3 => put_pool(world, pool, number),
        4 => {
            let label = if number % 2 == 0 { "label:net=x" } else { "" };
            let node = node(&format!("{} {label}", NODES[name % NODES.len()]));
            world.cluster_mut().update_node(node);
        }
        5 => {
            // A device plugin serves the resource there, if there is any of it.
            let node =
                node(&format!("{} example.com/gpu={}", NODES[name % NODES.len()], number / 2));
            world.cluster_mut().update_node(node);
        }
        6 => {
            // A node goes, its devices change hands, and it comes back.
            world.cluster_mut().remove_node(NODES[name % NODES.len()]).unwrap();
            claim_turn(world, held, (0, name, pool, number));
            if pool % 2 == 0 {
                meanwhile(world);
            }
            world.cluster_mut().add_node(node(NODES[name % NODES.len()]));
        }
        _ => {
            let expression = ["device.driver == 'e'", "device.attributes['d'].v < 4"][number % 2];
            let spec = json!({
                "extendedResourceName": "example.com/gpu",
                "selectors": [{"cel": {"expression": expression}}],
            });
            put_device_object(world, "DeviceClass", "gpu", json!({"spec": spec}));
        }
    }
}

/// The answer about each of the [`NODES`], with the object that it is about; `None` for those that are not there.
type NodeAnswers = Vec<Option<(Arc<Node>, String)>>;

/// The answers about nodes that pods of one template share, as an engine keeps them.
#[derive(Default)]
struct Shared {
    kept: Option<(CycleState, NodeAnswers)>,
    n_followed: usize,
}

impl Shared {
    /// The answers for the next pod, compared with those computed from scratch.
    fn next(&mut self, world: &Fixture, plugin: &dyn Plugin, pod: &Arc<Pod>) {
        let follower = plugin.as_pre_filter().unwrap().follower().unwrap();
        let anew = |node: &str| {
            let forgetful = crate::support::plugin("DynamicResources");
            verdict(world, &*forgetful, pod, node)
        };
        let node = |name: &str| {
            let idx = world.cluster().node_idx(name)?;
            Some((idx, world.cluster().node(idx)?.clone()))
        };
        if let Some((mut state, known)) = self.kept.take() {
            follower.rest(&mut state);
            match follower.follow(&world.cx(), &mut state, pod) {
                FollowOutcome::Except(changed) => {
                    self.n_followed += 1;
                    let all = scan_with(world, plugin, pod, &state).unwrap();
                    for (name, known) in NODES.iter().zip(&known) {
                        let Some((idx, object)) = node(name) else { continue };
                        let expected = anew(name);
                        let scanned = all.rejection(idx).map_or_else(|| "ok".to_owned(), text);
                        assert_eq!(scanned, expected, "{name}");
                        let known = known.as_ref().filter(|(of, _)| Arc::ptr_eq(of, &object));
                        if let Some((_, known)) = known.filter(|_| !changed.contains(&idx)) {
                            assert_eq!(*known, expected, "{name} was not named");
                        }
                    }
                }
                FollowOutcome::Apart => return self.kept = Some((state, known)),
                FollowOutcome::Outdated => return,
            }
            self.kept = Some((state, Vec::new()));
        } else {
            let (outcome, state) = world.pre_filter(plugin, pod);
            if outcome.status.is_success() && follower.can_follow(&world.cx(), &state) {
                self.kept = Some((state, Vec::new()));
            }
        }
        if let Some((_, known)) = &mut self.kept {
            let answer = |name: &&str| node(name).map(|(_, object)| (object, anew(name)));
            *known = NODES.iter().map(answer).collect();
        }
    }
}

#[test]
fn promises_about_devices_are_kept() {
    let plugin = plugin("DynamicResources");
    let claiming = |name: &str, claim: &str| {
        let claims = json!([{"name": "c", "resourceClaimName": claim}]);
        pod(&format!("{name} {}", json!({"spec": {"resourceClaims": claims}})))
    };
    let pods = [
        claiming("p", "wants-1"),
        claiming("q", "wants-1-too"),
        pod("r example.com/gpu=1"),
        pod("s example.com/gpu=1"),
        pod("plain"),
    ];
    assert_eq!(check_contract(&*plugin, &world(), &pods), []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn answers_that_are_followed_are_those_found_out_anew(
        turns in prop::collection::vec((0..8_u8, 0..4_usize, 0..POOLS.len(), 0..4_usize), 1..16),
    ) {
        let mut world = world();
        let following = plugin("DynamicResources");
        let of_claim = ["wants-1", "wants-1-too"].map(|claim| {
            let claims = json!([{"name": "c", "resourceClaimName": claim}]);
            pod(&format!("p {}", json!({"spec": {"resourceClaims": claims}})))
        });
        let special = [pod("p example.com/gpu=1"), pod("q example.com/gpu=1")];
        let (mut of_claims, mut of_resources) = (Shared::default(), Shared::default());
        let mut held = BTreeMap::new();
        for (at, turn) in turns.into_iter().enumerate() {
            world_turn(&mut world, &mut held, turn, |_| {});
            if at % 3 == 2 {
                continue;
            }
            for (of_claim, special) in of_claim.iter().zip(&special) {
                of_claims.next(&world, &*following, of_claim);
                of_resources.next(&world, &*following, special);
            }
        }
        // The second pod of each round finds everything as it was, unless answers cannot be shared at all.
        prop_assert!(of_claims.n_followed > 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn memories_are_what_is_found_out_anew(
        turns in prop::collection::vec((0..8_u8, 0..4_usize, 0..POOLS.len(), 0..4_usize), 1..16),
    ) {
        let mut world = world();
        let remembering = plugin("DynamicResources");
        let askers = askers();
        let mut held = BTreeMap::new();
        for (at, turn) in turns.into_iter().enumerate() {
            let number = turn.3;
            world_turn(&mut world, &mut held, turn, |world| {
                askers.iter().for_each(|asker| drop(scan(world, &*remembering, asker)));
            });
            if at % 3 == 2 {
                continue;
            }
            let forgetful = plugin("DynamicResources");
            for asker in &askers {
                let anew = NODES.map(|node| verdict(&world, &*forgetful, asker, node));
                // Sometimes all nodes are asked first, sometimes each.
                let of_all = || match scan(&world, &*remembering, asker) {
                    Some(Ok(verdicts)) => Some(NODES.map(|node| {
                        let idx = world.cluster().node_idx(node).unwrap();
                        verdicts.rejection(idx).map_or_else(|| "ok".to_owned(), text)
                    })),
                    _ => None,
                };
                let before = if number % 2 == 0 { of_all() } else { None };
                let of_each = NODES.map(|node| verdict(&world, &*remembering, asker, node));
                prop_assert_eq!(&of_each, &anew);
                for all in before.into_iter().chain(of_all()) {
                    prop_assert_eq!(&all, &anew);
                }
            }
        }
    }
}
