//! DynamicResources and objects that make no sense: the pod has a reason, and the search for devices comes to an end.

use std::sync::Arc;

use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::testing::{Fixture, fixture};
use serde_json::{Value, json};

use crate::support::{plugin, pod, pre_verdict, put_device_object, scan, text, verdict};

const NONE: &str = "UnschedulableAndUnresolvable: cannot allocate all claims";

fn put(world: &mut Fixture, kind: &str, name: &str, spec: Value) {
    put_device_object(world, kind, name, json!({ "spec": spec }));
}

/// One slice of the pool of node `a`.
fn put_slice(world: &mut Fixture, name: &str, generation: i64, n_slices: usize, content: Value) {
    let mut spec = json!({
        "driver": "d", "nodeName": "a",
        "pool": {"name": "a", "generation": generation, "resourceSliceCount": n_slices},
    });
    spec.as_object_mut().unwrap().extend(content.as_object().unwrap().clone());
    put(world, "ResourceSlice", name, spec);
}

/// A pool with as many devices as wanted, all different, in slices of 128.
fn put_devices(world: &mut Fixture, n_devices: usize) {
    let places: Vec<usize> = (0..n_devices).collect();
    let slices = places.chunks(128);
    let n_slices = slices.len();
    for (at, places) in slices.enumerate() {
        let device =
            |at: &usize| json!({"name": at.to_string(), "attributes": {"id": {"int": at}}});
        let devices: Vec<Value> = places.iter().map(device).collect();
        put_slice(world, &format!("s{at}"), 1, n_slices, json!({"devices": devices}));
    }
}

fn put_claim(world: &mut Fixture, count: usize, selector: Option<&str>, constraints: Value) {
    let mut exactly =
        json!({"deviceClassName": "any", "allocationMode": "ExactCount", "count": count});
    if let Some(expression) = selector {
        exactly["selectors"] = json!([{"cel": {"expression": expression}}]);
    }
    let requests = json!([{"name": "r", "exactly": exactly}]);
    let devices = json!({"requests": requests, "constraints": constraints});
    put(world, "ResourceClaim", "c", json!({ "devices": devices }));
}

fn world(n_devices: usize) -> Fixture {
    let mut world = fixture("node a; node b");
    put(&mut world, "DeviceClass", "any", json!({}));
    put_devices(&mut world, n_devices);
    world
}

fn asker() -> Arc<Pod> {
    let claims = json!([{"name": "c", "resourceClaimName": "c"}]);
    pod(&format!("p {}", json!({"spec": {"resourceClaims": claims}})))
}

fn on_a(world: &Fixture) -> String {
    verdict(world, &*plugin("DynamicResources"), &asker(), "a")
}

#[test]
fn expressions_that_do_not_compile_or_do_not_end_fail_the_attempt() {
    let mut world = world(2);
    put_claim(&mut world, 1, Some("device.driver =="), json!([]));
    let refused = on_a(&world);
    let start = "Error: claim default/c: selector #0: CEL compile error: compilation failed:";
    assert!(refused.starts_with(start), "{refused}");

    let numbers: Vec<String> = (0..60).map(|at| at.to_string()).collect();
    let list = format!("[{}]", numbers.join(","));
    let endless = ["p", "q", "r", "s"]
        .iter()
        .fold("true".to_owned(), |inner, name| format!("{list}.all({name}, {inner})"));
    put_claim(&mut world, 1, Some(&endless), json!([]));
    let cancelled = "Error: claim default/c: selector #0: CEL runtime error: operation cancelled: actual cost limit exceeded";
    assert_eq!(on_a(&world), cancelled);
    let all = scan(&world, &*plugin("DynamicResources"), &asker()).unwrap();
    assert_eq!(text(&all.unwrap_err()), cancelled);
}

#[test]
fn pools_that_contradict_themselves_are_left_out() {
    let mut world = world(1);
    put_claim(&mut world, 1, None, json!([]));
    let takes = |set: &str, counter: &str| {
        let counters = json!({counter: {"value": "1"}});
        json!({"devices": [{"name": "0", "consumesCounters": [{"counterSet": set, "counters": counters}]}]})
    };
    let invalid = "UnschedulableAndUnresolvable: invalid resource pools were encountered";
    put_slice(&mut world, "s0", 1, 1, takes("none", "x"));
    assert_eq!(on_a(&world), invalid);
    let sets = json!({"sharedCounters": [{"name": "card", "counters": {"x": {"value": "1"}}}]});
    put_slice(&mut world, "sets", 1, 2, sets.clone());
    put_slice(&mut world, "s0", 1, 2, takes("card", "y"));
    assert_eq!(on_a(&world), invalid);
    put_slice(&mut world, "s0", 1, 2, takes("card", "x"));
    assert_eq!(on_a(&world), "ok");
    // The same set again.
    put_slice(&mut world, "s0", 1, 3, takes("card", "x"));
    put_slice(&mut world, "sets", 1, 3, sets.clone());
    put_slice(&mut world, "again", 1, 3, sets);
    assert_eq!(on_a(&world), invalid);
}

#[test]
fn ten_thousand_devices_are_searched_within_the_limit() {
    let mut world = world(10_000);
    put_claim(&mut world, 1, Some("device.attributes['d'].id == 9999"), json!([]));
    assert_eq!(on_a(&world), "ok");
    put_claim(&mut world, 1, Some("device.attributes['d'].id == 10000"), json!([]));
    assert_eq!(on_a(&world), NONE);
    // No two devices are alike in this.
    put_claim(&mut world, 2, None, json!([{"matchAttribute": "d/id"}]));
    assert_eq!(on_a(&world), NONE);
    assert_eq!(verdict(&world, &*plugin("DynamicResources"), &asker(), "b"), NONE);
}

#[test]
fn a_class_that_vanishes_is_named() {
    let mut world = world(1);
    put_claim(&mut world, 1, None, json!([]));
    let dra = plugin("DynamicResources");
    assert_eq!(verdict(&world, &*dra, &asker(), "a"), "ok");
    world.cluster_mut().remove_object("resource.k8s.io", "DeviceClass", "", "any");
    let gone = "UnschedulableAndUnresolvable: request r: device class any does not exist";
    assert_eq!(pre_verdict(&world, &*dra, &asker()), gone);
    put(&mut world, "DeviceClass", "any", json!({}));
    assert_eq!(verdict(&world, &*dra, &asker(), "a"), "ok");
}

#[test]
fn a_driver_may_publish_again_and_again_while_a_pod_waits() {
    let mut world = world(1);
    put_claim(&mut world, 2, None, json!([]));
    let dra = plugin("DynamicResources");
    for generation in 2..40 {
        // Half of the new generation is there: the old one is no longer complete.
        let part = |from: i64| json!({"devices": [{"name": from.to_string()}]});
        put_slice(&mut world, "s0", generation, 2, part(2 * generation));
        assert_eq!(verdict(&world, &*dra, &asker(), "a"), NONE);
        put_slice(&mut world, "s1", generation, 2, part(2 * generation + 1));
        assert_eq!(verdict(&world, &*dra, &asker(), "a"), "ok");
    }
}
