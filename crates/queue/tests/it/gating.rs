//! Pods held back by PreEnqueue plugins.

use kube_scheduler_queue::{ActionType, HintId, Place, ProfileSpec, QueueName, QueueSettings};

use crate::behaviour::{HINTS, event, node_add, profile};
use crate::toy::{Pod, World};

/// Two gates; the first is notified of its pod's labels, the second of claims.
fn gated_profile() -> ProfileSpec {
    profile("s")
        .with_pre_enqueue("G0")
        .with_pre_enqueue("G1")
        .with_events("G0", [(event("Pod", ActionType::UPDATE_POD_LABEL), Some(HintId(2)))])
        .with_events("G1", [(event("PersistentVolumeClaim", ActionType::ADD), None)])
}

fn world(pop_from_backoff: bool) -> World {
    let settings = QueueSettings { pop_from_backoff, ..QueueSettings::default() };
    World::new(settings, vec![gated_profile()], &HINTS)
}

fn label_change() -> kube_scheduler_queue::ClusterEvent {
    event("UnschedulablePod", ActionType::UPDATE_POD_LABEL)
}

fn toleration_change() -> kube_scheduler_queue::ClusterEvent {
    event("UnschedulablePod", ActionType::UPDATE_POD_TOLERATION)
}

fn gate(world: &World, name: &str) -> String {
    world
        .get(name)
        .gated_by()
        .map_or(String::new(), |plugin| world.queue.plugin_name(plugin).to_owned())
}

#[test]
fn a_gated_pod_waits_until_the_last_gate_is_gone() {
    let mut world = world(true);
    let both = Pod::new("a").gated_by(&["G0", "G1"]);
    assert_eq!(world.add(&both), QueueName::Unschedulable);
    assert_eq!((world.counts(), gate(&world, "a")), ([0, 0, 0, 1], "G0".to_owned()));
    assert_eq!(world.get("a").initial_attempt_timestamp(), None);
    assert_eq!(world.incoming(), ["unschedulable UnschedulablePodAdd 1"]);

    world.update(&both, &both, &[label_change()]);
    assert_eq!(world.counts(), [0, 0, 0, 1]);

    let one = both.gated_by(&["G1"]);
    world.update(&both, &one, &[label_change()]);
    assert_eq!((world.counts(), gate(&world, "a")), ([0, 0, 0, 1], "G1".to_owned()));
    assert_eq!(world.incoming(), ["unschedulable UnschedulablePodAdd 1"], "it never left");

    // A change for which no rejector has registered does not ask the gates.
    let none = one.gated_by(&[]);
    world.update(&one, &none, &[toleration_change()]);
    assert_eq!(world.counts(), [0, 0, 0, 1]);
    world.update(&one, &none, &[toleration_change(), label_change()]);
    assert_eq!(world.counts(), [1, 0, 0, 0]);
    assert_eq!(world.get("a").initial_attempt_timestamp(), Some(world.now));
    assert_eq!(world.rejected().len(), 2, "both gates rejected it");
    world.pop();
    assert!(world.rejected().is_empty());
}

#[test]
fn the_same_gate_counts_once() {
    let mut world = world(true);
    let a = Pod::new("a").gated_by(&["G0"]);
    world.add(&a);
    world.activate(&[&a]);
    world.activate(&[&a]);
    assert_eq!(world.rejected(), [("G0".to_owned(), "s".to_owned(), 1)]);
    world.delete(&a);
    assert!(world.rejected().is_empty());
    assert_eq!(world.counts(), [0; 4]);
}

#[test]
fn only_the_gates_events_reach_a_gated_pod() {
    let mut world = world(true);
    let a = Pod::new("a");
    world.park(&a, &["Fit"]);
    world.policy.closed.insert("G1".to_owned());
    world.activate(&[&a]);
    assert_eq!(gate(&world, "a"), "G1");
    world.policy.asked.clear();
    world.event(&node_add(), None);
    assert!(world.policy.asked.is_empty(), "a rejector's event, but not the gate's");
    world.event(&event("PersistentVolumeClaim", ActionType::ADD), None);
    assert_eq!(world.policy.asked, ["gate G1 a"]);
    assert_eq!(world.counts(), [0, 0, 0, 1]);
    assert!(
        world.incoming().contains(&"unschedulable PersistentVolumeClaimAdd 1".to_owned()),
        "it left and came back"
    );
    world.policy.closed.clear();
    world.event(&event("PersistentVolumeClaim", ActionType::ADD), None);
    assert_eq!(world.place("a"), Some(Place::Backoff));
}

#[test]
fn the_gate_that_holds_is_asked_first() {
    let mut world = world(true);
    world.policy.closed.insert("G1".to_owned());
    let a = Pod::new("a");
    world.add(&a);
    assert_eq!(world.policy.asked, ["gate G0 a", "gate G1 a"]);
    world.policy.asked.clear();
    world.activate(&[&a]);
    assert_eq!(world.policy.asked, ["gate G1 a"]);
}

#[test]
fn gates_are_asked_on_the_way_into_backoff_and_not_again() {
    let mut world = world(true);
    let [a, b] = ["a", "b"].map(Pod::new);
    world.park(&a, &[]);
    world.park(&b, &[]);
    world.policy.closed.insert("G0".to_owned());
    world.policy.asked.clear();
    assert_eq!(world.activate(&[&a]), 1);
    world.advance(2000);
    assert_eq!(world.flush_backoff(), 1);
    assert!(world.policy.asked.is_empty());
    let pod = world.pop().unwrap();
    assert_eq!(world.fail(pod, &[]), QueueName::Unschedulable);
    assert_eq!(world.counts(), [1, 0, 0, 1]);
}

#[test]
fn without_early_pops_gates_are_asked_on_the_way_out() {
    let mut world = world(false);
    let a = Pod::new("a");
    world.add(&a);
    let pod = world.pop().unwrap();
    world.policy.closed.insert("G0".to_owned());
    assert_eq!(world.fail(pod, &[]), QueueName::Backoff);
    world.advance(2000);
    assert_eq!(world.flush_backoff(), 0);
    assert_eq!(world.counts(), [0, 0, 0, 1]);
    assert!(world.incoming().contains(&"unschedulable BackoffComplete 1".to_owned()));
    // The pod met an error, was gated, and is rejected by its gate from now on.
    world.policy.closed.clear();
    assert_eq!(world.activate(&[&a]), 1);
    assert_eq!(world.counts(), [1, 0, 0, 0]);
}

#[test]
fn a_gated_pod_is_flagged_but_not_moved_by_the_flush() {
    let mut world = world(true);
    world.add(&Pod::new("a").gated_by(&["G0"]));
    world.advance(300_000);
    world.flush_leftover();
    assert!(!world.get("a").was_flushed_from_unschedulable(), "the limit itself is not yet over");
    world.advance(1);
    assert!(world.queue.next_deadline().unwrap() <= world.now);
    world.flush_leftover();
    assert!(world.get("a").was_flushed_from_unschedulable());
    assert_eq!(world.counts(), [0, 0, 0, 1]);
    assert_eq!(world.queue.next_deadline(), None, "seen once is enough");
}

#[test]
fn adding_a_gated_pod_again_does_not_take_it_out_of_the_queue() {
    let mut world = world(true);
    let a = Pod::new("a");
    world.add(&a);
    assert_eq!(world.add(&a.gated_by(&["G0"])), QueueName::Active);
    assert_eq!((world.counts(), world.rejected().len()), ([1, 0, 0, 0], 0));
    world.delete(&a);
    world.park(&a, &["None"]);
    assert_eq!(world.counts(), [0, 0, 1, 0]);
    assert_eq!(world.add(&a.gated_by(&["G0"])), QueueName::Unschedulable);
    assert_eq!(world.counts(), [0, 0, 0, 1]);
    assert_eq!(world.rejected(), [("G0".to_owned(), "s".to_owned(), 1)]);
    assert_eq!(world.add(&a), QueueName::Active);
    assert_eq!((world.counts(), world.rejected().len()), ([1, 0, 0, 0], 0));
}
