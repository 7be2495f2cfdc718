//! Pods held back by PreEnqueue plugins.

use kube_scheduler_queue::{ActionType, HintId, Place, ProfileSpec, QueueName, QueueSettings};

use crate::behaviour::{HINTS, event, node_add, profile};
use crate::toy::{DrivenQueue, Pod};

/// Two gates; the first is notified of its pod's labels, the second of claims.
fn gated_profile() -> ProfileSpec {
    profile("s")
        .with_pre_enqueue("G0")
        .with_pre_enqueue("G1")
        .with_events("G0", [(event("Pod", ActionType::UPDATE_POD_LABEL), Some(HintId(2)))])
        .with_events("G1", [(event("PersistentVolumeClaim", ActionType::ADD), None)])
}

fn driven(pop_from_backoff: bool) -> DrivenQueue {
    let settings = QueueSettings { pop_from_backoff, ..QueueSettings::default() };
    DrivenQueue::new(settings, vec![gated_profile()], &HINTS)
}

fn label_change() -> kube_scheduler_queue::ClusterEvent {
    event("UnschedulablePod", ActionType::UPDATE_POD_LABEL)
}

fn toleration_change() -> kube_scheduler_queue::ClusterEvent {
    event("UnschedulablePod", ActionType::UPDATE_POD_TOLERATION)
}

fn gate(driven: &DrivenQueue, name: &str) -> String {
    driven
        .get(name)
        .gated_by()
        .map_or(String::new(), |plugin| driven.queue.plugin_name(plugin).to_owned())
}

#[test]
fn a_gated_pod_waits_until_the_last_gate_is_gone() {
    let mut driven = driven(true);
    let both = Pod::new("a").gated_by(&["G0", "G1"]);
    assert_eq!(driven.add(&both), QueueName::Unschedulable);
    assert_eq!((driven.counts(), gate(&driven, "a")), ([0, 0, 0, 1], "G0".to_owned()));
    assert_eq!(driven.get("a").initial_attempt_timestamp(), None);
    assert_eq!(driven.incoming(), ["unschedulable UnschedulablePodAdd 1"]);

    driven.update(&both, &both, &[label_change()]);
    assert_eq!(driven.counts(), [0, 0, 0, 1]);

    let one = both.gated_by(&["G1"]);
    driven.update(&both, &one, &[label_change()]);
    assert_eq!((driven.counts(), gate(&driven, "a")), ([0, 0, 0, 1], "G1".to_owned()));
    assert_eq!(driven.incoming(), ["unschedulable UnschedulablePodAdd 1"], "it never left");

    // A change for which no rejector has registered does not ask the gates.
    let none = one.gated_by(&[]);
    driven.update(&one, &none, &[toleration_change()]);
    assert_eq!(driven.counts(), [0, 0, 0, 1]);
    driven.update(&one, &none, &[toleration_change(), label_change()]);
    assert_eq!(driven.counts(), [1, 0, 0, 0]);
    assert_eq!(driven.get("a").initial_attempt_timestamp(), Some(driven.now));
    assert_eq!(driven.rejected().len(), 2, "both gates rejected it");
    driven.pop();
    assert!(driven.rejected().is_empty());
}

#[test]
fn the_same_gate_counts_once() {
    let mut driven = driven(true);
    let a = Pod::new("a").gated_by(&["G0"]);
    driven.add(&a);
    driven.activate(&[&a]);
    driven.activate(&[&a]);
    assert_eq!(driven.rejected(), [("G0".to_owned(), "s".to_owned(), 1)]);
    driven.delete(&a);
    assert!(driven.rejected().is_empty());
    assert_eq!(driven.counts(), [0; 4]);
}

#[test]
fn only_the_gates_events_reach_a_gated_pod() {
    let mut driven = driven(true);
    let a = Pod::new("a");
    driven.park(&a, &["Fit"]);
    driven.policy.closed.insert("G1".to_owned());
    driven.activate(&[&a]);
    assert_eq!(gate(&driven, "a"), "G1");
    driven.policy.asked.clear();
    driven.event(&node_add(), None);
    assert!(driven.policy.asked.is_empty(), "a rejector's event, but not the gate's");
    driven.event(&event("PersistentVolumeClaim", ActionType::ADD), None);
    assert_eq!(driven.policy.asked, ["gate G1 a"]);
    assert_eq!(driven.counts(), [0, 0, 0, 1]);
    assert!(
        driven.incoming().contains(&"unschedulable PersistentVolumeClaimAdd 1".to_owned()),
        "it left and came back"
    );
    driven.policy.closed.clear();
    driven.event(&event("PersistentVolumeClaim", ActionType::ADD), None);
    assert_eq!(driven.place("a"), Some(Place::Backoff));
}

#[test]
fn the_gate_that_holds_is_asked_first() {
    let mut driven = driven(true);
    driven.policy.closed.insert("G1".to_owned());
    let a = Pod::new("a");
    driven.add(&a);
    assert_eq!(driven.policy.asked, ["gate G0 a", "gate G1 a"]);
    driven.policy.asked.clear();
    driven.activate(&[&a]);
    assert_eq!(driven.policy.asked, ["gate G1 a"]);
}

#[test]
fn gates_are_asked_on_the_way_into_backoff_and_not_again() {
    let mut driven = driven(true);
    let [a, b] = ["a", "b"].map(Pod::new);
    driven.park(&a, &[]);
    driven.park(&b, &[]);
    driven.policy.closed.insert("G0".to_owned());
    driven.policy.asked.clear();
    assert_eq!(driven.activate(&[&a]), 1);
    driven.advance(2000);
    assert_eq!(driven.flush_backoff(), 1);
    assert!(driven.policy.asked.is_empty());
    let pod = driven.pop().unwrap();
    assert_eq!(driven.fail(pod, &[]), QueueName::Unschedulable);
    assert_eq!(driven.counts(), [1, 0, 0, 1]);
}

#[test]
fn without_early_pops_gates_are_asked_on_the_way_out() {
    let mut driven = driven(false);
    let a = Pod::new("a");
    driven.add(&a);
    let pod = driven.pop().unwrap();
    driven.policy.closed.insert("G0".to_owned());
    assert_eq!(driven.fail(pod, &[]), QueueName::Backoff);
    driven.advance(2000);
    assert_eq!(driven.flush_backoff(), 0);
    assert_eq!(driven.counts(), [0, 0, 0, 1]);
    assert!(driven.incoming().contains(&"unschedulable BackoffComplete 1".to_owned()));
    // The pod met an error, was gated, and is rejected by its gate from now on.
    driven.policy.closed.clear();
    assert_eq!(driven.activate(&[&a]), 1);
    assert_eq!(driven.counts(), [1, 0, 0, 0]);
}

#[test]
fn a_gated_pod_is_flagged_but_not_moved_by_the_flush() {
    let mut driven = driven(true);
    driven.add(&Pod::new("a").gated_by(&["G0"]));
    driven.advance(300_000);
    driven.flush_leftover();
    assert!(!driven.get("a").was_flushed_from_unschedulable(), "the limit itself is not yet over");
    driven.advance(1);
    assert!(driven.queue.next_deadline().unwrap() <= driven.now);
    driven.flush_leftover();
    assert!(driven.get("a").was_flushed_from_unschedulable());
    assert_eq!(driven.counts(), [0, 0, 0, 1]);
    assert_eq!(driven.queue.next_deadline(), None, "seen once is enough");
}

#[test]
fn adding_a_gated_pod_again_does_not_take_it_out_of_the_queue() {
    let mut driven = driven(true);
    let a = Pod::new("a");
    driven.add(&a);
    assert_eq!(driven.add(&a.gated_by(&["G0"])), QueueName::Active);
    assert_eq!((driven.counts(), driven.rejected().len()), ([1, 0, 0, 0], 0));
    driven.delete(&a);
    driven.park(&a, &["None"]);
    assert_eq!(driven.counts(), [0, 0, 1, 0]);
    assert_eq!(driven.add(&a.gated_by(&["G0"])), QueueName::Unschedulable);
    assert_eq!(driven.counts(), [0, 0, 0, 1]);
    assert_eq!(driven.rejected(), [("G0".to_owned(), "s".to_owned(), 1)]);
    assert_eq!(driven.add(&a), QueueName::Active);
    assert_eq!((driven.counts(), driven.rejected().len()), ([1, 0, 0, 0], 0));
}
