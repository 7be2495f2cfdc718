//! Order, backoff, attempts and what is in flight.

use std::time::Duration;

use kube_scheduler_primitives::Timestamp;
use kube_scheduler_queue::{
    ActionType, ClusterEvent, EventResource, HintId, Place, ProfileSpec, QueueName, QueueSettings,
    QueueingHint,
};

use crate::toy::{Hint, Object, Pod, World, signature_of};

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

pub(crate) fn world() -> World {
    World::new(QueueSettings::default(), vec![profile("s")], &HINTS)
}

pub(crate) fn exact() -> World {
    let settings = QueueSettings { pop_from_backoff: false, ..QueueSettings::default() };
    World::new(settings, vec![profile("s")], &HINTS)
}

fn pods<const N: usize>(names: [&str; N]) -> [Pod; N] {
    names.map(Pod::new)
}

#[test]
fn the_whole_order_is_said_without_popping() {
    let profile = profile("s").with_pre_enqueue("Gate");
    let mut world = World::new(QueueSettings::default(), vec![profile], &HINTS);
    world.add(&Pod::new("gated").gated_by(&["Gate"]));
    world.park(&Pod::new("parked"), &["Self"]);
    world.add(&Pod::new("sooner"));
    world.add(&Pod::new("later"));
    let [sooner, later] = [world.pop(), world.pop()].map(Option::unwrap);
    world.event(&node_add(), None);
    assert_eq!(world.fail(sooner, &["Fit"]), QueueName::Backoff);
    world.advance(2_000);
    assert_eq!(world.fail(later, &["Fit"]), QueueName::Backoff);
    for pod in [Pod::new("low"), Pod::new("next"), Pod::new("high").priority(5)] {
        world.add(&pod);
    }
    let order = world.queue.pending_in_order(&world.policy).into_iter();
    let order: Vec<(Place, String)> =
        order.map(|(place, queued)| (place, queued.entry().0.name.clone())).collect();
    let names: Vec<&str> = order.iter().map(|(_, name)| &**name).collect();
    assert_eq!(names, ["high", "low", "next", "sooner", "later", "parked", "gated"]);
    assert_eq!(order[4].0, Place::Backoff);
    let popped = [world.pop_name(), world.pop_name(), world.pop_name(), world.pop_name()];
    assert_eq!(popped[..], names[..4], "what is said is what is popped");
}

#[test]
fn priority_first_then_the_one_waiting_longest() {
    let mut world = world();
    let [a, b, c, d] = pods(["a", "b", "c", "d"]);
    world.add(&a);
    world.add(&b);
    world.advance(1);
    world.add(&c.priority(1));
    world.add(&d.priority(-1));
    // Of equals the first in leaves first.
    assert_eq!([(); 5].map(|()| world.pop_name()), ["c", "a", "b", "d", "none"]);
}

#[test]
fn the_pod_that_failed_last_goes_behind_its_equals() {
    let mut world = world();
    let [a, b] = pods(["a", "b"]);
    world.add(&a);
    world.advance(1);
    world.add(&b);
    let first = world.pop().unwrap();
    world.advance(1);
    world.fail(first, &["None"]);
    world.activate(&[&a]);
    assert_eq!([world.pop_name(), world.pop_name()], ["b", "a"]);
}

#[test]
fn a_pod_in_backoff_does_not_block_others_and_returns_ahead_of_them() {
    let mut world = world();
    let [high, low] = pods(["high", "low"]);
    let high = high.priority(9);
    world.park(&high, &[]);
    world.add(&low);
    assert_eq!(world.pop_name(), "low");
    world.advance(2000);
    world.add(&Pod::new("low2"));
    assert_eq!(world.flush_backoff(), 1);
    assert_eq!([world.pop_name(), world.pop_name()], ["high", "low2"]);
}

#[test]
fn one_second_of_backoff_ends_with_the_second_after() {
    for (failed_at, still, over) in [(0, 1000, 2000), (990, 1999, 2000)] {
        let mut world = world();
        world.advance(failed_at);
        assert_eq!(world.park(&Pod::new("a"), &[]), QueueName::Backoff);
        assert_eq!(world.place("a"), Some(Place::ErrorBackoff));
        world.advance(still - failed_at);
        assert_eq!(world.flush_backoff(), 0);
        world.advance(over - still);
        assert_eq!(world.queue.next_deadline(), Some(world.now));
        assert_eq!(world.flush_backoff(), 1);
        assert!(world.incoming().contains(&"active BackoffComplete 1".to_owned()));
    }
}

#[test]
fn errors_back_off_longer_each_time_and_a_rejection_starts_over() {
    let mut world = world();
    let a = Pod::new("a");
    world.add(&a);
    let mut ends = vec![];
    for plugins in [&[][..], &[], &[], &["None"], &[], &[]] {
        let pod = world.pop().unwrap();
        world.fail(pod, plugins);
        let end = world.queue.backoff_end(world.get("a")).unwrap();
        ends.push(end.saturating_since(world.now).as_secs());
        world.activate(&[&a]);
    }
    assert_eq!(ends, [1, 2, 4, 1, 1, 2]);
    let pod = world.get("a");
    assert_eq!((pod.attempts(), pod.unschedulable_count(), pod.consecutive_errors()), (6, 1, 2));
}

/// Pods that missed an event fail at different times before a whole second, and at that second backoffs are flushed.
fn flushed(mut world: World) -> Vec<String> {
    let fails = [
        ("p5", 1, 3000),
        ("p3", 1, 2000),
        ("p4", 2, 2000),
        ("p2", 2, 1999),
        ("p1", 1, 1000),
        ("p0", 1, 0),
    ];
    let popped = fails.map(|(name, priority, _)| {
        world.add(&Pod::new(name).priority(priority));
        world.pop().unwrap()
    });
    world.event(&node_add(), None);
    let second = Timestamp::from_millis(2_000_000_000);
    for (pod, (_, _, before)) in popped.into_iter().zip(fails) {
        world.now = second - Duration::from_millis(before);
        assert_eq!(world.fail(pod, &["Fit"]), QueueName::Backoff);
    }
    // A pod that becomes ready is asked for its key.
    world.policy.keyed.take();
    world.flush_backoff();
    world.policy.keyed.take()
}

#[test]
fn pods_of_one_second_come_back_by_priority() {
    // The backoff of p1 is just at its end, that of p0 is longer.
    assert_eq!(flushed(world()), ["p5", "p4", "p2", "p3"]);
    assert_eq!(flushed(exact()), ["p5", "p3", "p4", "p2"]);
}

#[test]
fn an_idle_scheduler_takes_rejected_pods_out_of_backoff_early() {
    let mut world = world();
    let [a, b] = pods(["a", "b"]);
    world.add(&a);
    let pod = world.pop().unwrap();
    world.event(&node_add(), None);
    assert_eq!(world.fail(pod, &["Fit"]), QueueName::Backoff);
    assert!(world.queue.has_ready());
    world.add(&b);
    assert_eq!([world.pop_name(), world.pop_name()], ["b", "a"]);
    assert!(world.incoming().contains(&"active PopFromBackoffQ 1".to_owned()));
}

#[test]
fn errors_always_serve_their_backoff() {
    let mut world = world();
    world.park(&Pod::new("a"), &[]);
    assert!(!world.queue.has_ready());
    assert_eq!(world.pop_name(), "none");
}

#[test]
fn without_early_pops_backoff_is_served_and_exact() {
    let mut world = exact();
    world.add(&Pod::new("a"));
    let pod = world.pop().unwrap();
    world.event(&node_add(), None);
    world.advance(7);
    assert_eq!(world.fail(pod, &["Fit"]), QueueName::Backoff);
    assert!(!world.queue.has_ready());
    assert_eq!(world.pop_name(), "none");
    world.advance(1000);
    assert_eq!(world.flush_backoff(), 0);
    world.advance(1);
    assert_eq!(world.flush_backoff(), 1);
}

#[test]
fn no_longest_backoff_means_no_backoff() {
    let settings = QueueSettings { max_backoff: Duration::ZERO, ..QueueSettings::default() };
    let mut world = World::new(settings, vec![profile("s")], &HINTS);
    assert_eq!(world.park(&Pod::new("a"), &[]), QueueName::Active);
    assert!(world.incoming().contains(&"active ScheduleAttemptFailure 1".to_owned()));
}

#[test]
fn only_events_after_the_pop_count() {
    let mut world = world();
    let a = Pod::new("a");
    world.add(&a);
    world.event(&node_add(), None);
    assert!(world.in_flight().is_empty(), "nothing is noted while nothing is in flight");
    let pod = world.pop().unwrap();
    assert_eq!(world.fail(pod, &["Fit"]), QueueName::Unschedulable);
    world.activate(&[&a]);
    let pod = world.pop().unwrap();
    world.event(&node_add(), None);
    assert_eq!(world.in_flight(), ["NodeAdd 1", "PodPopped 1"]);
    assert_eq!(world.fail(pod, &["Fit"]), QueueName::Backoff);
    assert!(world.in_flight().is_empty());
}

#[test]
fn the_log_is_cut_up_to_the_oldest_pod_in_flight() {
    let mut world = world();
    let [a, b] = pods(["a", "b"]);
    world.add(&a);
    world.add(&b);
    let first = world.pop().unwrap();
    world.event(&node_add(), None);
    let second = world.pop().unwrap();
    world.event(&event("PersistentVolumeClaim", ActionType::ADD), None);
    assert_eq!(world.in_flight(), ["NodeAdd 1", "PersistentVolumeClaimAdd 1", "PodPopped 2"]);
    world.queue.done("a-uid");
    assert_eq!(world.in_flight(), ["PersistentVolumeClaimAdd 1", "PodPopped 1"]);
    assert_eq!(
        world.fail(second, &["Fit"]),
        QueueName::Unschedulable,
        "the node came before its pop"
    );
    world.queue.done("a-uid");
    assert!(world.in_flight().is_empty());
    drop(first);
}

#[test]
fn events_of_no_interest_are_not_noted_but_own_updates_are() {
    let mut world = world();
    let a = Pod::new("a");
    world.add(&a);
    let pod = world.pop().unwrap();
    world.event(&event("PersistentVolume", ActionType::ADD), None);
    assert_eq!(world.in_flight(), ["PodPopped 1"]);
    world.update(&a, &a, &[event("UnschedulablePod", ActionType::UPDATE_POD_TOLERATION)]);
    world.update(&a, &a, &[event("UnschedulablePod", ActionType::UPDATE_POD_LABEL)]);
    assert_eq!(world.in_flight().len(), 3);
    assert_eq!(world.place("a"), None, "an update of a pod in flight queues nothing");
    assert_eq!(world.fail(pod, &["Self"]), QueueName::Backoff);
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
        let mut world = world();
        world.add(&Pod::new("a"));
        let pod = world.pop().unwrap();
        world.event(&event("Node", ActionType::UPDATE_NODE_TAINT), None);
        assert_eq!(world.fail(pod, plugins), queue, "{plugins:?}");
    }
}

#[test]
fn members_of_groups_wait_for_their_backoff_whatever_happened() {
    let mut world = world();
    assert_eq!(
        world.park(&Pod::new("a").with(|pod| pod.is_group_member = true), &["None"]),
        QueueName::Backoff
    );
}

#[test]
fn members_of_groups_are_tried_early_only_if_asked_for() {
    for hurries_groups in [false, true] {
        let settings = QueueSettings { hurries_groups, ..QueueSettings::default() };
        let mut world = World::new(settings, vec![profile("s")], &HINTS);
        world.park(&Pod::new("a").with(|pod| pod.is_group_member = true), &["None"]);
        assert_eq!(world.pop().is_some(), hurries_groups);
    }
}

#[test]
fn a_duplicate_of_a_pod_in_flight_is_thrown_away() {
    let mut world = world();
    let [a, b] = pods(["a", "b"]);
    world.add(&a);
    let pod = world.pop().unwrap();
    world.add(&a.gated_by(&[]));
    world.advance(1);
    world.add(&b);
    assert_eq!(world.pop_name(), "b");
    assert!(world.queue.is_empty(), "the duplicate is gone");
    world.queue.done("a-uid");
    world.queue.done("b-uid");
    assert!(world.in_flight().is_empty());
    drop(pod);
}

#[test]
fn a_pod_that_is_queued_again_cannot_come_back() {
    let mut world = world();
    let a = Pod::new("a");
    for (place, text) in [
        ("active", "Pod ns/a is already present in the active queue"),
        ("backoff", "Pod ns/a is already present in the backoff queue"),
        ("unschedulable", "Pod ns/a is already present in unschedulable queue"),
    ] {
        world.delete(&a);
        world.add(&a);
        let pod = world.pop().unwrap();
        let double = a.with(|pod| pod.uid = "other".to_owned());
        world.add(&double);
        if place != "active" {
            let popped = world.pop().unwrap();
            world.fail(popped, if place == "backoff" { &[] } else { &["None"] });
        }
        let error = world
            .queue
            .add_unschedulable_if_not_present(pod, world.now, &mut world.policy)
            .unwrap_err();
        assert_eq!(error.to_string(), text);
        assert!(!world.queue.is_in_flight("a-uid"), "it is done nevertheless");
    }
}

#[test]
fn a_pod_that_was_not_in_flight_waits_for_its_backoff() {
    let mut world = world();
    world.add(&Pod::new("a"));
    let pod = world.pop().unwrap();
    world.queue.done("a-uid");
    assert_eq!(world.fail(pod, &["None"]), QueueName::Backoff);
}

#[test]
fn rejectors_survive_the_pop() {
    let mut world = world();
    let a = Pod::new("a");
    world.park(&a, &["None", "?Pend"]);
    assert_eq!(world.rejected().len(), 2);
    world.activate(&[&a]);
    let mut pod = world.pop().unwrap();
    let mut names = world.rejectors(&pod);
    names.sort();
    assert_eq!(names, ["None", "Pend"]);
    assert!(world.rejected().is_empty());
    pod.clear_rejectors();
    assert!(pod.rejectors().is_empty());
}

#[test]
fn the_first_attempt_is_stamped_once() {
    let mut world = world();
    let a = Pod::new("a");
    let first = world.now;
    world.park(&a, &["None"]);
    world.advance(5000);
    assert_eq!(world.get("a").waited(world.now), Duration::from_secs(5));
    world.activate(&[&a]);
    assert_eq!(world.get("a").initial_attempt_timestamp(), Some(first));
}

#[test]
fn a_replaced_pod_gets_its_signature_when_it_is_back() {
    let mut world = world();
    world.add(&Pod::new("a"));
    let mut pod = world.pop().unwrap();
    assert_eq!(pod.signature(), Some(signature_of(0, 0)));
    pod.replace_entry(Pod::new("a").with(|pod| pod.shape = 7));
    assert_eq!(pod.signature(), None);
    world.fail(pod, &["None"]);
    assert_eq!(world.get("a").signature(), Some(signature_of(7, 0)));
}
