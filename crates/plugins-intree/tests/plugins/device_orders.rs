//! Whatever comes first: drivers publish, pods are tried, claims are written and given back, and nothing is taken twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_framework::api::{Json, Object};
use kube_scheduler_framework::testing::{Fixture, fixture};
use kube_scheduler_framework::{Commands, CycleState, Plugin};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{carry_out_for_devices, plugin, pod, put_device_object};

const GROUP: &str = "resource.k8s.io";
const CLAIM: &str = "ResourceClaim";
const NODES: [&str; 2] = ["a", "b"];
/// Cards, parts of a card that share its memory, and a card that many may share.
const KINDS: [&str; 3] = ["card", "part", "shared"];

/// The pool of a node and a kind as it is published now: how much memory there is, and what each device takes or has.
#[derive(Clone, Default)]
struct Published {
    total: i64,
    devices: BTreeMap<String, i64>,
}

#[derive(Default)]
struct Orders {
    world: Fixture,
    published: BTreeMap<String, Published>,
    n_pods: usize,
    n_reserved: usize,
}

fn pool(kind: usize, node: usize) -> String {
    format!("{}-{}", KINDS[kind], NODES[node])
}

/// What a claim has of a pool.
fn devices_of<'a>(claim: &'a Object, pool: &'a str) -> impl Iterator<Item = &'a Json> {
    let results = claim.json["status"]["allocation"]["devices"]["results"].as_array();
    results.into_iter().flatten().filter(move |result| result["pool"] == *pool)
}

fn amount(json: &Json) -> i64 {
    json.as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
}

impl Orders {
    fn new() -> Self {
        let mut orders = Self { world: fixture("node a; node b"), ..Self::default() };
        for kind in KINDS {
            let expression = format!("device.attributes['d'].kind == '{kind}'");
            let spec = json!({"selectors": [{"cel": {"expression": expression}}]});
            put_device_object(&mut orders.world, "DeviceClass", kind, json!({ "spec": spec }));
        }
        orders
    }

    /// A driver publishes a pool, or a part of its slices: then nothing is to be had of it.
    fn publish(&mut self, plugin: &dyn Plugin, kind: usize, node: usize, version: usize) {
        let name = pool(kind, node);
        let (n_devices, total) = (1 + version % 3, 2 + (version / 3) as i64);
        let device = |at: usize| {
            let mut device =
                json!({"name": at.to_string(), "attributes": {"kind": {"string": KINDS[kind]}}});
            let size = 1 + ((at + version) % 2) as i64;
            match KINDS[kind] {
                "part" => {
                    let counters = json!({"memory": {"value": size.to_string()}});
                    device["consumesCounters"] =
                        json!([{"counterSet": "card", "counters": counters}]);
                }
                "shared" => {
                    device["allowMultipleAllocations"] = true.into();
                    device["capacity"] = json!({"memory": {"value": total.to_string()}});
                }
                _ => {}
            }
            (device, (at.to_string(), if KINDS[kind] == "shared" { total } else { size }))
        };
        let (devices, known): (Vec<Value>, Vec<_>) = (0..n_devices).map(device).unzip();
        let has_counters = KINDS[kind] == "part";
        let sets = json!([{"name": "card", "counters": {"memory": {"value": total.to_string()}}}]);
        let contents = [json!({"devices": devices}), json!({"sharedCounters": sets})];
        let is_whole = version < 8;
        let n_slices = 1 + usize::from(has_counters) + usize::from(!is_whole);
        for (at, content) in contents.into_iter().take(1 + usize::from(has_counters)).enumerate() {
            let mut spec = json!({"driver": "d", "nodeName": NODES[node],
                "pool": {"name": name, "generation": 1, "resourceSliceCount": n_slices}});
            spec.as_object_mut().unwrap().extend(content.as_object().unwrap().clone());
            let name = format!("{name}-{at}");
            let before =
                self.world.cluster().objects().get(GROUP, "ResourceSlice", "", &name).cloned();
            put_device_object(&mut self.world, "ResourceSlice", &name, json!({ "spec": spec }));
            // Not every change is reported to it.
            if version.is_multiple_of(2) {
                let now = self.world.cluster().objects().get(GROUP, "ResourceSlice", "", &name);
                plugin.as_object_reader().unwrap().changed(before.as_ref(), now);
            }
        }
        let devices = if is_whole { known.into_iter().collect() } else { BTreeMap::new() };
        self.published.insert(name, Published { total, devices });
    }

    /// A pod with a claim of its own is tried, and gets its devices if there are any on the node.
    fn attempt(&mut self, plugin: &dyn Plugin, kind: usize, node: usize, count: usize) {
        self.n_pods += 1;
        let name = format!("c{}", self.n_pods);
        let mut exactly =
            json!({"deviceClassName": KINDS[kind], "allocationMode": "ExactCount", "count": count});
        if KINDS[kind] == "shared" {
            exactly["count"] = 1.into();
            exactly["capacity"] = json!({"requests": {"memory": count.to_string()}});
        }
        let requests = json!([{"name": "r", "exactly": exactly}]);
        put_device_object(
            &mut self.world,
            CLAIM,
            &name,
            json!({"spec": {"devices": {"requests": requests}}}),
        );
        let claims = json!([{"name": "c", "resourceClaimName": name}]);
        let user = json!({"metadata": {"uid": name}, "spec": {"resourceClaims": claims}});
        let pod = pod(&format!("p{} {user}", self.n_pods));
        let mut state = CycleState::new();
        let mut commands = Commands::default();
        {
            let cx = self.world.cx();
            let outcome = plugin.as_pre_filter().unwrap().pre_filter(&cx, &mut state, &pod);
            let idx = cx.cluster().node_idx(NODES[node]).unwrap();
            let view = cx.cluster().node(idx).unwrap();
            if !outcome.status.is_success()
                || !plugin.as_filter().unwrap().filter(&cx, &state, &pod, &view).is_success()
            {
                return;
            }
            let reserve = plugin.as_reserve().unwrap();
            let status = reserve.reserve(&cx, &mut state, &pod, NODES[node], &mut commands);
            assert!(status.is_success(), "{status:?}");
        }
        carry_out_for_devices(&mut self.world, commands);
        self.n_reserved += 1;
        let in_flight = self.world.cluster().objects().pending(GROUP, CLAIM, &name);
        let given: Vec<String> = devices_of(in_flight.unwrap(), &pool(kind, node))
            .map(|result| result["device"].as_str().unwrap().to_owned())
            .collect();
        assert!(!given.is_empty());
        self.check(&pool(kind, node), &given);
    }

    /// Whatever is in flight of a claim is written, or given up.
    fn end_flight(&mut self, which: usize, is_written: bool) {
        let objects = self.world.cluster().objects();
        let in_flight: Vec<Arc<Object>> = objects.list_pending(GROUP, CLAIM).cloned().collect();
        let Some(claim) = in_flight.get(which % in_flight.len().max(1)) else { return };
        if is_written {
            self.world.cluster_mut().upsert_object(claim.clone());
        }
        self.world.cluster_mut().objects_mut().remove_pending(GROUP, CLAIM, &claim.uid, true);
    }

    fn delete_claim(&mut self, which: usize) {
        let objects = self.world.cluster().objects();
        let all: Vec<Arc<Object>> = objects.list(GROUP, CLAIM).cloned().collect();
        if let Some(claim) = all.get(which % all.len().max(1)) {
            self.world.cluster_mut().remove_object(GROUP, CLAIM, "default", &claim.name);
        }
    }

    /// What claims hold of a pool, written or in flight: each with the device, and the share of it if it is shared.
    fn held(&self, pool: &str) -> Vec<(String, Option<i64>)> {
        let objects = self.world.cluster().objects();
        let mut claims: BTreeMap<&str, &Arc<Object>> = BTreeMap::new();
        claims.extend(objects.list(GROUP, CLAIM).map(|claim| (&*claim.uid, claim)));
        claims.extend(objects.list_pending(GROUP, CLAIM).map(|claim| (&*claim.uid, claim)));
        let results = claims.into_values().flat_map(|claim| devices_of(claim, pool));
        let held = results.map(|result| {
            let is_share = !result["shareID"].is_null();
            let share = is_share.then(|| amount(&result["consumedCapacity"]["memory"]));
            (result["device"].as_str().unwrap().to_owned(), share)
        });
        held.collect()
    }

    /// After `given` were given out of a pool: none has two owners, and there is as much as was given. What is published
    /// now may be less than what was given before.
    fn check(&self, pool: &str, given: &[String]) {
        let Published { total, devices } = &self.published[pool];
        let held = self.held(pool);
        let mut memory = 0;
        for (device, size) in devices {
            let holders = || held.iter().filter(|(name, _)| name == device);
            memory += if holders().count() > 0 { *size } else { 0 };
            if !given.contains(device) {
                continue;
            }
            let n_owners = holders().filter(|(_, share)| share.is_none()).count();
            assert!(n_owners == 0 || holders().count() == 1, "{pool}/{device}: {held:?}");
            let shares: i64 = holders().filter_map(|(_, share)| *share).sum();
            assert!(shares <= *size, "{pool}/{device}: {shares} of {size}");
        }
        assert!(given.iter().all(|device| devices.contains_key(device)), "{given:?}");
        if pool.starts_with("part") {
            assert!(memory <= *total, "{pool}: {memory} of {total}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn nothing_is_given_out_twice_or_beyond_what_there_is(
        turns in prop::collection::vec((0..9_u8, 0..KINDS.len(), 0..NODES.len(), 0..10_usize), 20..80),
    ) {
        let dra = plugin("DynamicResources");
        let mut orders = Orders::new();
        for kind in 0..KINDS.len() {
            orders.publish(&*dra, kind, 0, 5);
            orders.publish(&*dra, kind, 1, 5);
        }
        for (what, kind, node, number) in turns {
            match what {
                0 => orders.publish(&*dra, kind, node, number),
                1 => orders.end_flight(number, false),
                2 | 3 => orders.end_flight(number, true),
                4 => orders.delete_claim(number),
                _ => orders.attempt(&*dra, kind, node, 1 + number % 2),
            }
        }
    }
}

/// Otherwise looking at what is given out would prove little.
#[test]
fn devices_of_each_kind_are_given_out_until_there_are_none() {
    let dra = plugin("DynamicResources");
    let mut orders = Orders::new();
    for (kind, n_given) in [3, 2, 8].into_iter().enumerate() {
        orders.publish(&*dra, kind, 0, 5);
        let before = orders.n_reserved;
        (0..8).for_each(|_| orders.attempt(&*dra, kind, 0, 1));
        assert_eq!(orders.n_reserved - before, n_given, "{}", KINDS[kind]);
    }
}
