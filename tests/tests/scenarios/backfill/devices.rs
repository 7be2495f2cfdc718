//! A gang that waits for devices holds those that it is planned to get, as it holds room on nodes: smaller pods may take others.

use kube_scheduler_engine::Input;
use kube_scheduler_tests::fixtures::{object_applied, pod_applied};
use serde_json::{Value, json};

use super::{Ask, HOUR, World, ask, member, wait_in_stream};

const API_VERSION: &str = "resource.k8s.io/v1";

/// Nodes with so many devices each, and with more of all else than anybody needs.
fn world(longest_hold: u64, n_devices: &[usize]) -> World {
    let mut world = World::new(longest_hold, &vec![(40, 0); n_devices.len()]);
    let class = json!({"apiVersion": API_VERSION, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}});
    world.handle(object_applied(class));
    for (at, n_devices) in n_devices.iter().enumerate() {
        let node = format!("n{at}");
        let devices: Vec<Value> =
            (0..*n_devices).map(|n| json!({"name": format!("d{n}")})).collect();
        world.handle(object_applied(json!({
            "apiVersion": API_VERSION, "kind": "ResourceSlice", "metadata": {"name": node, "uid": node},
            "spec": {
                "driver": "gpu.example.com", "nodeName": node, "devices": devices,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            },
        })));
    }
    world
}

/// The watch shows the claim of a pod, for so many devices.
fn claim(world: &mut World, pod: &str, n_devices: usize, status: &Value) {
    let revision = world.next_revision();
    let exactly =
        json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": n_devices});
    world.handle(object_applied(json!({
        "apiVersion": API_VERSION, "kind": "ResourceClaim",
        "metadata": {
            "namespace": "x", "name": pod, "uid": pod, "resourceVersion": revision,
            "finalizers": ["resource.kubernetes.io/delete-protection"],
        },
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
        "status": status,
    })));
}

fn with_claim(mut pod: Value) -> Value {
    let name = pod["metadata"]["name"].clone();
    pod["spec"]["resourceClaims"] = json!([{"name": "own", "resourceClaimName": name}]);
    pod
}

/// A pod that needs so many devices.
fn add(world: &mut World, ask: &Ask, n_devices: usize) {
    claim(world, &ask.name, n_devices, &json!({}));
    world.handle(pod_applied(&with_claim(ask.json(None, None))));
}

/// A pod that runs on a node, with the first devices there.
fn run(world: &mut World, ask: &Ask, node: usize, n_devices: usize) {
    let node = format!("n{node}");
    let results: Vec<Value> = (0..n_devices)
        .map(|n| json!({"request": "r", "driver": "gpu.example.com", "pool": node, "device": format!("d{n}")}))
        .collect();
    let status = json!({
        "allocation": {"devices": {"results": results}},
        "reservedFor": [{"resource": "pods", "name": ask.name, "uid": ask.name}],
    });
    claim(world, &ask.name, n_devices, &status);
    let started = world.now;
    world.handle(pod_applied(&with_claim(ask.json(Some(&node), Some(started)))));
}

/// A pod ends, and its devices are taken from its claim.
fn end(world: &mut World, pod: &str, n_devices: usize) {
    world.end(pod);
    claim(world, pod, n_devices, &json!({}));
}

fn n_pending(world: &World) -> usize {
    world.engine.cluster().objects().n_pending()
}

/// The wait of a gang for all devices of two nodes of four among pods that have one device each for 30 to 50 seconds.
fn wait_of_gang(longest_hold: u64) -> (Option<u64>, usize) {
    let come = |world: &mut World, name: &str| {
        if name.starts_with('g') {
            add(world, &member(name, 1, "g"), 4);
        } else {
            add(world, &ask(name, 1), 1);
        }
    };
    let number = |name: &str| name.strip_prefix('s').unwrap().parse::<u64>().unwrap();
    let runs_for = |name: &str| 30 + number(name) * 7 % 21;
    let go = |world: &mut World, name: &str| end(world, name, 1);
    wait_in_stream(world(longest_hold, &[4; 4]), 600, come, runs_for, go)
}

#[test]
fn a_stream_of_pods_with_a_device_each_does_not_keep_a_gang_waiting() {
    let (waited, n_beside) = wait_of_gang(HOUR);
    // No small pod runs for longer than 50 seconds, and after the last one the gang comes back within its backoff.
    assert!(waited.is_some_and(|waited| waited <= 65), "{waited:?}");
    assert!(n_beside > 4, "{n_beside} small pods were placed meanwhile");
    assert_eq!(wait_of_gang(0).0, None, "without the rule the gang never gets its turn");
}

/// A node of four devices with a pod on it that has two, a gang that wants all, and a small pod that comes later.
fn blocked(longest_hold: u64) -> World {
    let mut world = world(longest_hold, &[4]);
    run(&mut world, &ask("r", 1), 0, 2);
    world.group("g", 1, false);
    add(&mut world, &member("g0", 1, "g"), 4);
    world.wait(1);
    add(&mut world, &ask("s", 1), 1);
    world.wait(30);
    world
}

#[test]
fn devices_are_held_until_the_gang_has_them() {
    let mut world = blocked(HOUR);
    assert!(!world.is_placed("s"), "it would delay the gang");
    assert!(blocked(0).is_placed("s"), "nothing is held");
    // Who needs no device is not concerned.
    world.add(&ask("c", 2));
    world.wait(1);
    assert!(world.is_placed("c"));
    end(&mut world, "r", 2);
    world.wait(15);
    assert!(world.is_placed("g0") && !world.is_placed("s"));
    assert_eq!(n_pending(&world), 0, "nothing is held any more");
    end(&mut world, "g0", 4);
    world.wait(15);
    assert!(world.is_placed("s"));
}

#[test]
fn devices_are_held_for_a_while_only() {
    let mut world = blocked(100);
    world.wait(60);
    assert!(!world.is_placed("s"));
    world.wait(30);
    assert!(world.is_placed("s"), "the gang has had its time");
    assert_eq!(n_pending(&world), 0);

    let mut world = blocked(HOUR);
    world.end("g0");
    world.wait(15);
    assert!(world.is_placed("s"), "the gang's pods are gone");
    assert_eq!(n_pending(&world), 0);
}

#[test]
fn devices_are_not_held_from_more_important_pods() {
    let mut world = blocked(HOUR);
    add(&mut world, &Ask { priority: 1, ..ask("t", 1) }, 1);
    world.wait(1);
    assert!(world.is_placed("t"));
    world.wait(30);
    assert!(!world.is_placed("s"), "what is left is held all the same");
    end(&mut world, "r", 2);
    world.wait(15);
    assert!(!world.is_placed("g0") && !world.is_placed("s"));
    end(&mut world, "t", 1);
    world.wait(15);
    assert!(world.is_placed("g0") && !world.is_placed("s"));
}

/// Devices come free some time after the pod that had them is gone.
#[test]
fn devices_that_are_about_to_come_free_are_held() {
    let mut world = blocked(HOUR);
    world.end("r");
    world.wait(100);
    add(&mut world, &ask("u", 1), 1);
    world.wait(15);
    assert!(!world.is_placed("g0") && !world.is_placed("s") && !world.is_placed("u"));
    claim(&mut world, "r", 2, &json!({}));
    world.wait(15);
    assert!(world.is_placed("g0") && !world.is_placed("s") && !world.is_placed("u"));
}

#[test]
fn a_claim_that_members_share_is_held_as_long_as_one_of_them_waits() {
    let mut world = world(HOUR, &[4]);
    run(&mut world, &ask("r", 1), 0, 2);
    world.group("g", 1, false);
    claim(&mut world, "shared", 4, &json!({}));
    for name in ["g0", "g1"] {
        let mut pod = member(name, 1, "g").json(None, None);
        pod["spec"]["resourceClaims"] = json!([{"name": "all", "resourceClaimName": "shared"}]);
        world.handle(pod_applied(&pod));
    }
    world.wait(1);
    add(&mut world, &ask("s", 1), 1);
    world.wait(30);
    assert!(!world.is_placed("s"), "it would delay the gang");
    world.end("g0");
    world.wait(30);
    assert!(!world.is_placed("s"), "the other one still waits for the claim");
    end(&mut world, "r", 2);
    world.wait(15);
    assert!(world.is_placed("g1") && !world.is_placed("s"));
    assert_eq!(n_pending(&world), 0, "nothing is held any more");
}

/// What a copy holds, it holds by itself.
#[test]
fn a_copy_holds_devices_of_its_own() {
    let mut world = blocked(HOUR);
    let later = world.now + std::time::Duration::from_secs(15);
    let mut fork = world.engine.fork(world.now);
    fork.handle(Input::PodDeleted { namespace: "x".into(), name: "g0".into() }, later);
    let placed = super::tried(&mut fork, later + std::time::Duration::from_secs(15));
    assert_eq!(placed.get("s"), Some(&true), "the gang is gone in the copy: {placed:?}");
    world.wait(30);
    assert!(!world.is_placed("s"), "nothing of it has happened");
    end(&mut world, "r", 2);
    world.wait(15);
    assert!(world.is_placed("g0") && !world.is_placed("s"));
}
