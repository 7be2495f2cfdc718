//! Order, backoff, attempts and what is in flight.

use std::time::Duration;

use kube_scheduler_primitives::Timestamp;
use kube_scheduler_queue::{
    ActionType, ClusterEvent, EventResource, HintId, Place, ProfileSpec, QueueName, QueueSettings,
    QueueingHint,
};

use crate::toy::{DrivenQueue, Hint, Object, Pod, signature_of};

pub(crate) fn event(resource: &str, action: ActionType) -> ClusterEvent {
    ClusterEvent::new(EventResource::parse(resource), action)
}

pub(crate) fn node_add() -> ClusterEvent {
    event("Node", ActionType::ADD)
}

/// `Fit` wants to see nodes, `Skip` as well but never wants to try again, `Pend` waits for claims, `Self` for its own
/// labels, `None` for nothing.
pub(crate) fn profile(name: &str) -> ProfileSpec {
    ProfileSpec::new(name)
        .with_events(
            "Fit",
            [(event("Node", ActionType::ADD | ActionType::UPDATE_NODE_TAINT), Some(HintId(0)))],
        )
        .with_events(
            "Skip",
            [(event("Node", ActionType::ADD | ActionType::UPDATE_NODE_TAINT), Some(HintId(1)))],
        )
        .with_events(
            "Pend",
            [
                (event("PersistentVolumeClaim", ActionType::ADD), Some(HintId(0))),
                (event("Node", ActionType::UPDATE_NODE_TAINT), Some(HintId(0))),
            ],
        )
        .with_events("Self", [(event("Pod", ActionType::UPDATE_POD_LABEL), Some(HintId(2)))])
        .with_events("None", [])
}

pub(crate) const HINTS: [Hint; 3] = [
    |_, _, _| QueueingHint::Queue,
    |_, _, _| QueueingHint::Skip,
    |pod, _, new| match new {
        Some(Object::Pod(new)) if new.0.uid == pod.0.uid => QueueingHint::Queue,
        _ => QueueingHint::Skip,
    },
];

pub(crate) fn driven() -> DrivenQueue {
    DrivenQueue::new(QueueSettings::default(), vec![profile("s")], &HINTS)
}

pub(crate) fn exact() -> DrivenQueue {
    let settings = QueueSettings { pop_from_backoff: false, ..QueueSettings::default() };
    DrivenQueue::new(settings, vec![profile("s")], &HINTS)
}

fn pods<const N: usize>(names: [&str; N]) -> [Pod; N] {
    names.map(Pod::new)
}

#[test]
fn the_whole_order_is_said_without_popping() {
    let profile = profile("s").with_pre_enqueue("Gate");
    let mut driven = DrivenQueue::new(QueueSettings::default(), vec![profile], &HINTS);
    driven.add(&Pod::new("gated").gated_by(&["Gate"]));
    driven.park(&Pod::new("parked"), &["Self"]);
    driven.add(&Pod::new("sooner"));
    driven.add(&Pod::new("later"));
    let [sooner, later] = [driven.pop(), driven.pop()].map(Option::unwrap);
    driven.event(&node_add(), None);
    assert_eq!(driven.fail(sooner, &["Fit"]), QueueName::Backoff);
    driven.advance(2_000);
    assert_eq!(driven.fail(later, &["Fit"]), QueueName::Backoff);
    for pod in [Pod::new("low"), Pod::new("next"), Pod::new("high").priority(5)] {
        driven.add(&pod);
    }
    let order = driven.queue.pending_in_order(&driven.policy).into_iter();
    let order: Vec<(Place, String)> =
        order.map(|(place, queued)| (place, queued.entry().0.name.clone())).collect();
    let names: Vec<&str> = order.iter().map(|(_, name)| &**name).collect();
    assert_eq!(names, ["high", "low", "next", "sooner", "later", "parked", "gated"]);
    assert_eq!(order[4].0, Place::Backoff);
    let popped = [driven.pop_name(), driven.pop_name(), driven.pop_name(), driven.pop_name()];
    assert_eq!(popped[..], names[..4], "what is said is what is popped");
}

#[test]
fn priority_first_then_the_one_waiting_longest() {
    let mut driven = driven();
    let [a, b, c, d] = pods(["a", "b", "c", "d"]);
    driven.add(&a);
    driven.add(&b);
    driven.advance(1);
    driven.add(&c.priority(1));
    driven.add(&d.priority(-1));
    // Of equals the first in leaves first.
    assert_eq!([(); 5].map(|()| driven.pop_name()), ["c", "a", "b", "d", "none"]);
}

#[test]
fn the_pod_that_failed_last_goes_behind_its_equals() {
    let mut driven = driven();
    let [a, b] = pods(["a", "b"]);
    driven.add(&a);
    driven.advance(1);
    driven.add(&b);
    let first = driven.pop().unwrap();
    driven.advance(1);
    driven.fail(first, &["None"]);
    driven.activate(&[&a]);
    assert_eq!([driven.pop_name(), driven.pop_name()], ["b", "a"]);
}

#[test]
fn a_pod_in_backoff_does_not_block_others_and_returns_ahead_of_them() {
    let mut driven = driven();
    let [high, low] = pods(["high", "low"]);
    let high = high.priority(9);
    driven.park(&high, &[]);
    driven.add(&low);
    assert_eq!(driven.pop_name(), "low");
    driven.advance(2000);
    driven.add(&Pod::new("low2"));
    assert_eq!(driven.flush_backoff(), 1);
    assert_eq!([driven.pop_name(), driven.pop_name()], ["high", "low2"]);
}

#[test]
fn one_second_of_backoff_ends_with_the_second_after() {
    for (failed_at, still, over) in [(0, 1000, 2000), (990, 1999, 2000)] {
        let mut driven = driven();
        driven.advance(failed_at);
        assert_eq!(driven.park(&Pod::new("a"), &[]), QueueName::Backoff);
        assert_eq!(driven.place("a"), Some(Place::ErrorBackoff));
        driven.advance(still - failed_at);
        assert_eq!(driven.flush_backoff(), 0);
        driven.advance(over - still);
        assert_eq!(driven.queue.next_deadline(), Some(driven.now));
        assert_eq!(driven.flush_backoff(), 1);
        assert!(driven.incoming().contains(&"active BackoffComplete 1".to_owned()));
    }
}

#[test]
fn errors_back_off_longer_each_time_and_a_rejection_starts_over() {
    let mut driven = driven();
    let a = Pod::new("a");
    driven.add(&a);
    let mut ends = vec![];
    for plugins in [&[][..], &[], &[], &["None"], &[], &[]] {
        let pod = driven.pop().unwrap();
        driven.fail(pod, plugins);
        let end = driven.queue.backoff_end(driven.get("a")).unwrap();
        ends.push(end.saturating_since(driven.now).as_secs());
        driven.activate(&[&a]);
    }
    assert_eq!(ends, [1, 2, 4, 1, 1, 2]);
    let pod = driven.get("a");
    assert_eq!((pod.attempts(), pod.unschedulable_count(), pod.consecutive_errors()), (6, 1, 2));
}

/// Pods that missed an event fail at different times before a whole second, and at that second backoffs are flushed.
fn flushed(mut driven: DrivenQueue) -> Vec<String> {
    let fails = [
        ("p5", 1, 3000),
        ("p3", 1, 2000),
        ("p4", 2, 2000),
        ("p2", 2, 1999),
        ("p1", 1, 1000),
        ("p0", 1, 0),
    ];
    let popped = fails.map(|(name, priority, _)| {
        driven.add(&Pod::new(name).priority(priority));
        driven.pop().unwrap()
    });
    driven.event(&node_add(), None);
    let second = Timestamp::from_millis(2_000_000_000);
    for (pod, (_, _, before)) in popped.into_iter().zip(fails) {
        driven.now = second - Duration::from_millis(before);
        assert_eq!(driven.fail(pod, &["Fit"]), QueueName::Backoff);
    }
    // A pod that becomes ready is asked for its key.
    driven.policy.keyed.take();
    driven.flush_backoff();
    driven.policy.keyed.take()
}

#[test]
fn pods_of_one_second_come_back_by_priority() {
    // The backoff of p1 is just at its end, that of p0 is longer.
    assert_eq!(flushed(driven()), ["p5", "p4", "p2", "p3"]);
    assert_eq!(flushed(exact()), ["p5", "p3", "p4", "p2"]);
}

#[test]
fn an_idle_scheduler_takes_rejected_pods_out_of_backoff_early() {
    let mut driven = driven();
    let [a, b] = pods(["a", "b"]);
    driven.add(&a);
    let pod = driven.pop().unwrap();
    driven.event(&node_add(), None);
    assert_eq!(driven.fail(pod, &["Fit"]), QueueName::Backoff);
    assert!(driven.queue.has_ready());
    driven.add(&b);
    assert_eq!([driven.pop_name(), driven.pop_name()], ["b", "a"]);
    assert!(driven.incoming().contains(&"active PopFromBackoffQ 1".to_owned()));
}

#[test]
fn errors_always_serve_their_backoff() {
    let mut driven = driven();
    driven.park(&Pod::new("a"), &[]);
    assert!(!driven.queue.has_ready());
    assert_eq!(driven.pop_name(), "none");
}

#[test]
fn without_early_pops_backoff_is_served_and_exact() {
    let mut driven = exact();
    driven.add(&Pod::new("a"));
    let pod = driven.pop().unwrap();
    driven.event(&node_add(), None);
    driven.advance(7);
    assert_eq!(driven.fail(pod, &["Fit"]), QueueName::Backoff);
    assert!(!driven.queue.has_ready());
    assert_eq!(driven.pop_name(), "none");
    driven.advance(1000);
    assert_eq!(driven.flush_backoff(), 0);
    driven.advance(1);
    assert_eq!(driven.flush_backoff(), 1);
}

#[test]
fn no_longest_backoff_means_no_backoff() {
    let settings = QueueSettings { max_backoff: Duration::ZERO, ..QueueSettings::default() };
    let mut driven = DrivenQueue::new(settings, vec![profile("s")], &HINTS);
    assert_eq!(driven.park(&Pod::new("a"), &[]), QueueName::Active);
    assert!(driven.incoming().contains(&"active ScheduleAttemptFailure 1".to_owned()));
}

#[test]
fn only_events_after_the_pop_count() {
    let mut driven = driven();
    let a = Pod::new("a");
    driven.add(&a);
    driven.event(&node_add(), None);
    assert!(driven.in_flight().is_empty(), "nothing is noted while nothing is in flight");
    let pod = driven.pop().unwrap();
    assert_eq!(driven.fail(pod, &["Fit"]), QueueName::Unschedulable);
    driven.activate(&[&a]);
    let pod = driven.pop().unwrap();
    driven.event(&node_add(), None);
    assert_eq!(driven.in_flight(), ["NodeAdd 1", "PodPopped 1"]);
    assert_eq!(driven.fail(pod, &["Fit"]), QueueName::Backoff);
    assert!(driven.in_flight().is_empty());
}

#[test]
fn the_log_is_cut_up_to_the_oldest_pod_in_flight() {
    let mut driven = driven();
    let [a, b] = pods(["a", "b"]);
    driven.add(&a);
    driven.add(&b);
    let first = driven.pop().unwrap();
    driven.event(&node_add(), None);
    let second = driven.pop().unwrap();
    driven.event(&event("PersistentVolumeClaim", ActionType::ADD), None);
    assert_eq!(driven.in_flight(), ["NodeAdd 1", "PersistentVolumeClaimAdd 1", "PodPopped 2"]);
    driven.queue.done("a-uid");
    assert_eq!(driven.in_flight(), ["PersistentVolumeClaimAdd 1", "PodPopped 1"]);
    assert_eq!(
        driven.fail(second, &["Fit"]),
        QueueName::Unschedulable,
        "the node came before its pop"
    );
    driven.queue.done("a-uid");
    assert!(driven.in_flight().is_empty());
    drop(first);
}

#[test]
fn events_of_no_interest_are_not_noted_but_own_updates_are() {
    let mut driven = driven();
    let a = Pod::new("a");
    driven.add(&a);
    let pod = driven.pop().unwrap();
    driven.event(&event("PersistentVolume", ActionType::ADD), None);
    assert_eq!(driven.in_flight(), ["PodPopped 1"]);
    driven.update(&a, &a, &[event("UnschedulablePod", ActionType::UPDATE_POD_TOLERATION)]);
    driven.update(&a, &a, &[event("UnschedulablePod", ActionType::UPDATE_POD_LABEL)]);
    assert_eq!(driven.in_flight().len(), 3);
    assert_eq!(driven.place("a"), None, "an update of a pod in flight queues nothing");
    assert_eq!(driven.fail(pod, &["Self"]), QueueName::Backoff);
}

#[test]
fn where_a_failed_pod_goes_depends_on_rejectors_and_events() {
    for (plugins, queue) in [
        (&[][..], QueueName::Backoff),
        (&["Fit"], QueueName::Backoff),
        (&["Skip"], QueueName::Unschedulable),
        (&["None"], QueueName::Unschedulable),
        (&["Skip", "Fit"], QueueName::Backoff),
        (&["?Pend"], QueueName::Active),
        // A plugin's yes does not end the search while a pending one may say yes as well.
        (&["Fit", "?Pend"], QueueName::Active),
        (&["Fit", "?None"], QueueName::Backoff),
        (&["never heard of"], QueueName::Unschedulable),
    ] {
        let mut driven = driven();
        driven.add(&Pod::new("a"));
        let pod = driven.pop().unwrap();
        driven.event(&event("Node", ActionType::UPDATE_NODE_TAINT), None);
        assert_eq!(driven.fail(pod, plugins), queue, "{plugins:?}");
    }
}

#[test]
fn members_of_groups_wait_for_their_backoff_whatever_happened() {
    let mut driven = driven();
    assert_eq!(
        driven.park(&Pod::new("a").with(|pod| pod.is_group_member = true), &["None"]),
        QueueName::Backoff
    );
}

#[test]
fn members_of_groups_are_tried_early_only_if_asked_for() {
    for hurries_groups in [false, true] {
        let settings = QueueSettings { hurries_groups, ..QueueSettings::default() };
        let mut driven = DrivenQueue::new(settings, vec![profile("s")], &HINTS);
        driven.park(&Pod::new("a").with(|pod| pod.is_group_member = true), &["None"]);
        assert_eq!(driven.pop().is_some(), hurries_groups);
    }
}

#[test]
fn a_duplicate_of_a_pod_in_flight_is_thrown_away() {
    let mut driven = driven();
    let [a, b] = pods(["a", "b"]);
    driven.add(&a);
    let pod = driven.pop().unwrap();
    driven.add(&a.gated_by(&[]));
    driven.advance(1);
    driven.add(&b);
    assert_eq!(driven.pop_name(), "b");
    assert!(driven.queue.is_empty(), "the duplicate is gone");
    driven.queue.done("a-uid");
    driven.queue.done("b-uid");
    assert!(driven.in_flight().is_empty());
    drop(pod);
}

#[test]
fn a_pod_that_is_queued_again_cannot_come_back() {
    let mut driven = driven();
    let a = Pod::new("a");
    for (place, text) in [
        ("active", "Pod ns/a is already present in the active queue"),
        ("backoff", "Pod ns/a is already present in the backoff queue"),
        ("unschedulable", "Pod ns/a is already present in unschedulable queue"),
    ] {
        driven.delete(&a);
        driven.add(&a);
        let pod = driven.pop().unwrap();
        let double = a.with(|pod| pod.uid = "other".to_owned());
        driven.add(&double);
        if place != "active" {
            let popped = driven.pop().unwrap();
            driven.fail(popped, if place == "backoff" { &[] } else { &["None"] });
        }
        let error = driven
            .queue
            .add_unschedulable_if_not_present(pod, driven.now, &mut driven.policy)
            .unwrap_err();
        assert_eq!(error.to_string(), text);
        assert!(!driven.queue.is_in_flight("a-uid"), "it is done nevertheless");
    }
}

#[test]
fn a_pod_that_was_not_in_flight_waits_for_its_backoff() {
    let mut driven = driven();
    driven.add(&Pod::new("a"));
    let pod = driven.pop().unwrap();
    driven.queue.done("a-uid");
    assert_eq!(driven.fail(pod, &["None"]), QueueName::Backoff);
}

#[test]
fn rejectors_survive_the_pop() {
    let mut driven = driven();
    let a = Pod::new("a");
    driven.park(&a, &["None", "?Pend"]);
    assert_eq!(driven.rejected().len(), 2);
    driven.activate(&[&a]);
    let mut pod = driven.pop().unwrap();
    let mut names = driven.rejectors(&pod);
    names.sort();
    assert_eq!(names, ["None", "Pend"]);
    assert!(driven.rejected().is_empty());
    pod.clear_rejectors();
    assert!(pod.rejectors().is_empty());
}

#[test]
fn the_first_attempt_is_stamped_once() {
    let mut driven = driven();
    let a = Pod::new("a");
    let first = driven.now;
    driven.park(&a, &["None"]);
    driven.advance(5000);
    assert_eq!(driven.get("a").waited(driven.now), Duration::from_secs(5));
    driven.activate(&[&a]);
    assert_eq!(driven.get("a").initial_attempt_timestamp(), Some(first));
}

#[test]
fn a_replaced_pod_gets_its_signature_when_it_is_back() {
    let mut driven = driven();
    driven.add(&Pod::new("a"));
    let mut pod = driven.pop().unwrap();
    assert_eq!(pod.signature(), Some(signature_of(0, 0)));
    pod.replace_entry(Pod::new("a").with(|pod| pod.shape = 7));
    assert_eq!(pod.signature(), None);
    driven.fail(pod, &["None"]);
    assert_eq!(driven.get("a").signature(), Some(signature_of(7, 0)));
}
