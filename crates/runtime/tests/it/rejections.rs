//! All that is in a pod's way.

use std::sync::Arc;

use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::testing::fixture;
use kube_scheduler_framework::{PreFilterOutcome, Status};
use kube_scheduler_runtime::Rejections;

use crate::toy::{Log, Toy, calls, pod, profile, runner, text};

/// What all of `toys` say of the pod, and of node `n1` where `nominated` pods are expected.
fn rejections(toys: Vec<Toy>, nominated: &[Arc<Pod>]) -> (Vec<String>, Vec<String>) {
    let profile = profile(toys);
    let mut world = fixture("node n1");
    for pod in nominated {
        world = world.with_nominated_pod(pod.clone(), "n1");
    }
    let asking = pod("p");
    let all = Rejections::new(runner(&world, &profile), &asking);
    let of_node = all.of_node(world.view("n1").idx());
    (all.of_pod().iter().map(text).collect(), of_node.statuses.iter().map(text).collect())
}

fn rejecting(name: &'static str, log: &Log) -> Toy {
    Toy::new(name, log).filter(|_| Status::unschedulable("full"))
}

#[test]
fn filters_after_the_first_rejection_are_asked_too() {
    let log = Log::default();
    let error = Toy::new("D", &log).filter(|_| Status::error("broken"));
    let toys = vec![
        rejecting("A", &log),
        Toy::new("B", &log).filter(|_| Status::SUCCESS),
        rejecting("C", &log),
        error,
    ];
    let (of_pod, of_node) = rejections(toys, &[]);
    assert!(of_pod.is_empty());
    let broken = "Error D: running \"D\" filter plugin: broken";
    assert_eq!(of_node, ["Unschedulable A: full", "Unschedulable C: full", broken]);
}

#[test]
fn a_plugin_that_rejects_the_whole_pod_is_not_asked_about_nodes_and_the_others_are() {
    let log = Log::default();
    let refusing =
        |name| rejecting(name, &log).pre_filter(PreFilterOutcome::from(Status::unresolvable("no")));
    let toys = vec![refusing("A"), rejecting("B", &log), refusing("C")];
    let (of_pod, of_node) = rejections(toys, &[]);
    let no = |name: &str| format!("UnschedulableAndUnresolvable {name}: no");
    assert_eq!(of_pod, [no("A"), no("C")]);
    assert_eq!(of_node, ["Unschedulable B: full"]);
    assert!(!calls(&log).iter().any(|call| call.starts_with("A.Filter")));
}

#[test]
fn what_a_plugin_says_with_and_without_nominated_pods_is_said_once() {
    let log = Log::default();
    let crowded = Toy::new("B", &log).filter(|node| match node.n_pods() {
        0 => Status::SUCCESS,
        _ => Status::unschedulable("taken"),
    });
    let (_, of_node) = rejections(vec![rejecting("A", &log), crowded], &[pod("other priority=10")]);
    assert_eq!(of_node, ["Unschedulable A: full", "Unschedulable B: taken"]);
}
