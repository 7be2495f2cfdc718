//! A gang that waits for devices holds those that it is planned to get, as it holds room on nodes: smaller pods may take others.

use kube_scheduler_engine::Input;
use kube_scheduler_tests::fixtures::{devices_applied, object_applied};
use kube_scheduler_tests::live_cluster::LiveCluster;
use serde_json::{Value, json};

use super::{HOUR, wait, wait_in_stream};

const API_VERSION: &str = "resource.k8s.io/v1";

/// Nodes with so many devices each, and with more of all else than anybody needs.
fn cluster_with(longest_hold: u64, n_devices: &[usize]) -> LiveCluster {
    let mut cluster = super::cluster_with(longest_hold, &vec![(40, 0); n_devices.len()]);
    cluster.apply("deviceclass gpu");
    for (at, n_devices) in n_devices.iter().enumerate() {
        let devices: Vec<Value> =
            (0..*n_devices).map(|n| json!({"name": format!("d{n}")})).collect();
        cluster.handle(devices_applied(&format!("n{at}"), &devices));
    }
    cluster
}

/// The watch shows the claim of a pod, for so many devices. What the server has written since the last time has earlier revisions.
fn claim(cluster: &mut LiveCluster, pod: &str, n_devices: usize, status: &Value) {
    let known =
        cluster.engine.cluster().objects().get("resource.k8s.io", "ResourceClaim", "default", pod);
    let revision = known.map_or(0, |claim| claim.resource_version.parse::<u64>().unwrap()) + 1;
    let exactly =
        json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": n_devices});
    cluster.handle(object_applied(json!({
        "apiVersion": API_VERSION, "kind": "ResourceClaim",
        "metadata": {
            "namespace": "default", "name": pod, "uid": pod, "resourceVersion": revision.to_string(),
            "finalizers": ["resource.kubernetes.io/delete-protection"],
        },
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
        "status": status,
    })));
}

fn name(pod: &str) -> &str {
    pod.split(' ').next().unwrap()
}

fn with_claim(pod: &str, claim: &str) -> String {
    let claims = json!([{"name": "own", "resourceClaimName": claim}]);
    format!("{pod} {}", json!({"spec": {"resourceClaims": claims}}))
}

/// A pod that needs so many devices.
fn add(cluster: &mut LiveCluster, pod: &str, n_devices: usize) {
    claim(cluster, name(pod), n_devices, &json!({}));
    cluster.apply(&format!("pod {}", with_claim(pod, name(pod))));
}

/// A pod that runs on a node, with the first devices there.
fn run(cluster: &mut LiveCluster, pod: &str, node: usize, n_devices: usize) {
    let results: Vec<Value> = (0..n_devices)
        .map(|n| json!({"request": "r", "driver": "gpu.example.com", "pool": format!("n{node}"), "device": format!("d{n}")}))
        .collect();
    let status = json!({
        "allocation": {"devices": {"results": results}},
        "reservedFor": [{"resource": "pods", "name": name(pod), "uid": format!("{}-uid", name(pod))}],
    });
    claim(cluster, name(pod), n_devices, &status);
    super::run(cluster, &with_claim(pod, name(pod)), node, 0);
}

/// A pod ends, and its devices are taken from its claim.
fn end(cluster: &mut LiveCluster, pod: &str, n_devices: usize) {
    cluster.delete(pod);
    claim(cluster, pod, n_devices, &json!({}));
}

fn n_pending(cluster: &LiveCluster) -> usize {
    cluster.engine.cluster().objects().n_pending()
}

/// The wait of a gang for all devices of two nodes of four among pods that have one device each for 30 to 50 seconds.
fn wait_of_gang(longest_hold: u64) -> (Option<u64>, usize) {
    let come = |cluster: &mut LiveCluster, name: &str| {
        if name.starts_with('g') {
            add(cluster, &format!("{name} cpu=1 group=g"), 4);
        } else {
            add(cluster, &format!("{name} cpu=1"), 1);
        }
    };
    let number = |name: &str| name.strip_prefix('s').unwrap().parse::<u64>().unwrap();
    let runs_for = |name: &str| 30 + number(name) * 7 % 21;
    let go = |cluster: &mut LiveCluster, name: &str| end(cluster, name, 1);
    wait_in_stream(cluster_with(longest_hold, &[4; 4]), 600, come, runs_for, go)
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
fn blocked(longest_hold: u64) -> LiveCluster {
    let mut cluster = cluster_with(longest_hold, &[4]);
    run(&mut cluster, "r cpu=1", 0, 2);
    cluster.apply("podgroup g min=1");
    add(&mut cluster, "g0 cpu=1 group=g", 4);
    wait(&mut cluster, 1);
    add(&mut cluster, "s cpu=1", 1);
    wait(&mut cluster, 30);
    cluster
}

#[test]
fn devices_are_held_until_the_gang_has_them() {
    let mut cluster = blocked(HOUR);
    assert!(!cluster.is_placed("s"), "it would delay the gang");
    assert!(blocked(0).is_placed("s"), "nothing is held");
    // Who needs no device is not concerned.
    cluster.apply("pod c cpu=2");
    wait(&mut cluster, 1);
    assert!(cluster.is_placed("c"));
    end(&mut cluster, "r", 2);
    wait(&mut cluster, 15);
    assert!(cluster.is_placed("g0") && !cluster.is_placed("s"));
    assert_eq!(n_pending(&cluster), 0, "nothing is held any more");
    end(&mut cluster, "g0", 4);
    wait(&mut cluster, 15);
    assert!(cluster.is_placed("s"));
}

#[test]
fn devices_are_held_for_a_while_only() {
    let mut cluster = blocked(100);
    wait(&mut cluster, 60);
    assert!(!cluster.is_placed("s"));
    wait(&mut cluster, 30);
    assert!(cluster.is_placed("s"), "the gang has had its time");
    assert_eq!(n_pending(&cluster), 0);

    let mut cluster = blocked(HOUR);
    cluster.delete("g0");
    wait(&mut cluster, 15);
    assert!(cluster.is_placed("s"), "the gang's pods are gone");
    assert_eq!(n_pending(&cluster), 0);
}

#[test]
fn devices_are_not_held_from_more_important_pods() {
    let mut cluster = blocked(HOUR);
    add(&mut cluster, "t cpu=1 priority=1", 1);
    wait(&mut cluster, 1);
    assert!(cluster.is_placed("t"));
    wait(&mut cluster, 30);
    assert!(!cluster.is_placed("s"), "what is left is held all the same");
    end(&mut cluster, "r", 2);
    wait(&mut cluster, 15);
    assert!(!cluster.is_placed("g0") && !cluster.is_placed("s"));
    end(&mut cluster, "t", 1);
    wait(&mut cluster, 15);
    assert!(cluster.is_placed("g0") && !cluster.is_placed("s"));
}

/// Devices come free some time after the pod that had them is gone.
#[test]
fn devices_that_are_about_to_come_free_are_held() {
    let mut cluster = blocked(HOUR);
    cluster.delete("r");
    wait(&mut cluster, 100);
    add(&mut cluster, "u cpu=1", 1);
    wait(&mut cluster, 15);
    assert!(!cluster.is_placed("g0") && !cluster.is_placed("s") && !cluster.is_placed("u"));
    claim(&mut cluster, "r", 2, &json!({}));
    wait(&mut cluster, 15);
    assert!(cluster.is_placed("g0") && !cluster.is_placed("s") && !cluster.is_placed("u"));
}

#[test]
fn a_claim_that_members_share_is_held_as_long_as_one_of_them_waits() {
    let mut cluster = cluster_with(HOUR, &[4]);
    run(&mut cluster, "r cpu=1", 0, 2);
    cluster.apply("podgroup g min=1");
    claim(&mut cluster, "shared", 4, &json!({}));
    for name in ["g0", "g1"] {
        cluster.apply(&format!("pod {}", with_claim(&format!("{name} cpu=1 group=g"), "shared")));
    }
    wait(&mut cluster, 1);
    add(&mut cluster, "s cpu=1", 1);
    wait(&mut cluster, 30);
    assert!(!cluster.is_placed("s"), "it would delay the gang");
    cluster.delete("g0");
    wait(&mut cluster, 30);
    assert!(!cluster.is_placed("s"), "the other one still waits for the claim");
    end(&mut cluster, "r", 2);
    wait(&mut cluster, 15);
    assert!(cluster.is_placed("g1") && !cluster.is_placed("s"));
    assert_eq!(n_pending(&cluster), 0, "nothing is held any more");
}

/// What a copy holds, it holds by itself.
#[test]
fn a_copy_holds_devices_of_its_own() {
    let mut cluster = blocked(HOUR);
    let later = cluster.now + std::time::Duration::from_secs(15);
    let mut fork = cluster.engine.fork(cluster.now);
    fork.handle(Input::PodDeleted { namespace: "default".into(), name: "g0".into() }, later);
    let placed = super::tried(&mut fork, later + std::time::Duration::from_secs(15));
    assert_eq!(placed.get("s"), Some(&true), "the gang is gone in the copy: {placed:?}");
    wait(&mut cluster, 30);
    assert!(!cluster.is_placed("s"), "nothing of it has happened");
    end(&mut cluster, "r", 2);
    wait(&mut cluster, 15);
    assert!(cluster.is_placed("g0") && !cluster.is_placed("s"));
}
