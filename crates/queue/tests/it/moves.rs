//! Events, flushes, updates, deletions, activations, and pods taken by name.

use kube_scheduler_queue::{
    ActionType, ClusterEvent, HintId, Place, ProfileSpec, QueueName, QueueSettings, Topics,
};

use crate::behaviour::{HINTS, event, node_add, profile, world};
use crate::toy::{HintTopics, Object, Pod, World, signature_of};

#[test]
fn an_event_asks_only_the_plugins_that_rejected() {
    let mut world = world();
    world.park(&Pod::new("fit"), &["Fit"]);
    world.park(&Pod::new("skip"), &["Skip"]);
    world.park(&Pod::new("none"), &["None"]);
    world.policy.asked.clear();
    world.event(&node_add(), None);
    assert_eq!(world.policy.asked, ["hint 0 fit", "hint 1 skip"]);
    assert_eq!(world.place("fit"), Some(Place::Backoff));
    assert_eq!(world.counts(), [0, 1, 2, 0]);
    assert!(world.incoming().contains(&"backoff NodeAdd 1".to_owned()));
}

/// Pods wait for their shape, or for everything if they have none; an event is about the number of its object.
/// A thing with a hundred topics.
const MANY: u32 = 1_000_000;

const SHAPES: HintTopics = HintTopics {
    of_pod: |_, pod| match u64::from(pod.0.shape) {
        0 => Some(Topics::All),
        many if many > 100 => Some(Topics::Only((0..many).collect())),
        shape => Some(Topics::Only(vec![shape, shape + 1])),
    },
    of_event: |_, _, new| match new {
        Some(Object::Thing(MANY)) => Topics::Only((1_000_000..1_000_100).collect()),
        Some(Object::Thing(shape)) => Topics::Only(vec![u64::from(*shape)]),
        Some(Object::Pod(_)) => Topics::Only(vec![]),
        None => Topics::All,
    },
};

#[test]
fn a_hint_is_asked_about_pods_that_share_a_topic_with_the_event() {
    let mut world = world();
    world.policy.topics = Some(SHAPES);
    let shaped = |name: &str, shape| Pod::new(name).with(|pod| pod.shape = shape);
    // Parked in another order than by topic.
    let pods = [("c", 7), ("a", 8), ("all", 0), ("b", 6), ("many", 1_000)];
    for (name, shape) in pods {
        world.park(&shaped(name, shape), &["Skip"]);
    }
    let asked = |world: &mut World, object: Option<Object>| {
        world.policy.asked.clear();
        world.event(&node_add(), object.as_ref());
        std::mem::take(&mut world.policy.asked)
    };
    let thing = |shape| Some(Object::Thing(shape));
    assert_eq!(asked(&mut world, thing(8)), ["hint 1 c", "hint 1 a", "hint 1 all", "hint 1 many"]);
    // More topics than are kept for a pod.
    assert_eq!(asked(&mut world, thing(5_000)), ["hint 1 all", "hint 1 many"]);
    let about_none = Object::Pod(Pod::new("x"));
    assert_eq!(asked(&mut world, Some(about_none)), ["hint 1 all", "hint 1 many"]);
    assert_eq!(asked(&mut world, None).len(), pods.len());
    // What a pod waits for changes with it.
    world.update(&shaped("c", 7), &shaped("c", 1), &[]);
    world.delete(&shaped("all", 0));
    assert_eq!(asked(&mut world, thing(1)), ["hint 1 c", "hint 1 many"]);
    // A report about each pod needs each to be asked.
    world.queue.keep_reports(true);
    assert_eq!(asked(&mut world, thing(1)).len(), pods.len() - 1);
}

#[test]
fn an_event_with_more_topics_than_pods_wait_is_not_searched_by_each() {
    let asked = |n: usize| {
        let mut world = world();
        world.policy.topics = Some(SHAPES);
        for at in 0..n {
            world.park(&Pod::new(&format!("p{at}")).with(|pod| pod.shape = 7), &["Skip"]);
        }
        world.policy.asked.clear();
        world.event(&node_add(), Some(&Object::Thing(MANY)));
        world.policy.asked.len()
    };
    assert_eq!(asked(99), 99);
    assert_eq!(asked(101), 0);
}

#[test]
fn after_the_backoff_an_event_makes_ready_at_once() {
    let mut world = world();
    world.park(&Pod::new("a"), &["Fit"]);
    world.advance(2000);
    world.event(&node_add(), None);
    assert_eq!(world.place("a"), Some(Place::Active));
}

#[test]
fn pending_pods_skip_the_backoff() {
    let mut world = world();
    world.park(&Pod::new("a"), &["Fit", "?Pend"]);
    world.event(&event("Node", ActionType::UPDATE_NODE_TAINT), None);
    assert_eq!(world.place("a"), Some(Place::Active));
}

#[test]
fn the_wildcard_asks_no_hint_and_means_everyone_or_one() {
    let mut world = world();
    let [a, b] = ["a", "b"].map(Pod::new);
    world.park(&a, &["Skip"]);
    world.park(&b, &["None"]);
    world.policy.asked.clear();
    world.event(&ClusterEvent::FORCE_ACTIVATE, Some(&Object::Pod(a.clone())));
    assert_eq!(
        (world.place("a"), world.place("b")),
        (Some(Place::Backoff), Some(Place::Unschedulable))
    );
    world.event(&ClusterEvent::UNSCHEDULABLE_TIMEOUT, None);
    assert_eq!(world.place("b"), Some(Place::Backoff));
    assert!(world.policy.asked.is_empty());
}

#[test]
fn a_node_taint_wakes_those_who_asked_for_new_nodes_only() {
    let spec = ProfileSpec::new("s").with_events("Name", [(node_add(), Some(HintId(1)))]);
    let mut world = World::new(QueueSettings::default(), vec![spec], &HINTS);
    world.park(&Pod::new("a"), &["Name"]);
    world.event(&event("Node", ActionType::UPDATE_NODE_TAINT), None);
    assert_eq!(world.place("a"), Some(Place::Backoff));
}

#[test]
fn the_pre_check_chooses_among_parked_pods_only() {
    let mut world = world();
    world.park(&Pod::new("high").priority(2), &["Fit"]);
    world.park(&Pod::new("low"), &["Fit"]);
    world.add(&Pod::new("flying").priority(2));
    let flying = world.pop().unwrap();
    let mut asked = 0;
    let mut check = |pod: &Pod| {
        asked += 1;
        pod.0.priority <= 1
    };
    let (now, policy) = (world.now, &mut world.policy);
    let nothing = event("PersistentVolume", ActionType::ADD);
    world.queue.move_all_if(&nothing, None, None, &mut check, now, policy);
    world.queue.move_all_if(&node_add(), None, None, &mut check, now, policy);
    assert_eq!(asked, 2);
    assert_eq!(
        (world.place("high"), world.place("low")),
        (Some(Place::Unschedulable), Some(Place::Backoff))
    );
    assert_eq!(world.fail(flying, &["Fit"]), QueueName::Backoff, "it saw the event");
}

#[test]
fn hints_are_those_of_the_pods_own_profile() {
    let other =
        ProfileSpec::new("t").with_events("Fit", [(event("Node", ActionType::DELETE), None)]);
    let mut world = World::new(QueueSettings::default(), vec![profile("s"), other], &HINTS);
    world.park(&Pod::new("s"), &["Fit"]);
    world.park(&Pod::new("t").with(|pod| pod.scheduler = "t".to_owned()), &["Fit"]);
    world.event(&node_add(), None);
    assert_eq!(
        (world.place("s"), world.place("t")),
        (Some(Place::Backoff), Some(Place::Unschedulable))
    );
    world.event(&event("Node", ActionType::DELETE), None);
    assert_eq!(world.place("t"), Some(Place::Backoff));
}

#[test]
fn a_pod_without_profile_is_moved_by_any_event_of_interest() {
    let mut world = world();
    let lost = Pod::new("a").with(|pod| pod.scheduler = "nobody".to_owned());
    world.park(&lost, &["None"]);
    world.event(&event("PersistentVolume", ActionType::ADD), None);
    assert_eq!(world.place("a"), Some(Place::Unschedulable));
    world.event(&node_add(), None);
    assert_eq!(world.place("a"), Some(Place::Backoff));
}

#[test]
fn moves_are_in_order_of_parking() {
    let mut world = world();
    for name in ["c", "a", "b"] {
        world.park(&Pod::new(name), &["Fit"]);
    }
    world.advance(2000);
    // Pods that compare equal leave in the order in which they came in.
    world.event(&node_add(), None);
    assert_eq!([(); 3].map(|()| world.pop_name()), ["c", "a", "b"]);
}

#[test]
fn the_flush_moves_pods_past_the_limit_and_marks_them() {
    let mut world = world();
    let a = Pod::new("a");
    world.park(&a, &["None"]);
    world.add(&Pod::new("flying"));
    let flying = world.pop().unwrap();
    world.advance(300_000);
    world.flush_leftover();
    assert_eq!(world.place("a"), Some(Place::Unschedulable));
    world.advance(1);
    let (now, policy) = (world.now, &mut world.policy);
    world.queue.flush_due(now, policy);
    assert_eq!(world.place("a"), Some(Place::Active));
    assert!(world.get("a").was_flushed_from_unschedulable());
    assert!(world.incoming().contains(&"active UnschedulableTimeout 1".to_owned()));
    let pod = world.pop().unwrap();
    assert!(pod.clone().was_flushed_from_unschedulable(), "a copy keeps the mark");
    world.fail(pod, &["None"]);
    assert!(!world.get("a").was_flushed_from_unschedulable());
    assert_eq!(
        world.fail(flying, &["None"]),
        QueueName::Backoff,
        "a flush counts as a change of everything"
    );
}

#[test]
fn an_update_of_an_unknown_pod_adds_it() {
    let mut world = world();
    let a = Pod::new("a");
    world.update(&a, &a, &[]);
    assert_eq!(world.incoming(), ["active UnschedulablePodUpdate 1"]);
}

#[test]
fn an_update_stays_in_the_active_or_backoff_queue_and_resorts() {
    for has_sort_keys in [false, true] {
        let mut world = world();
        world.policy.has_sort_keys = has_sort_keys;
        let [a, b, c] = ["a", "b", "c"].map(Pod::new);
        world.park(&c, &[]);
        world.add(&a);
        world.add(&b);
        let change = |pod: &Pod| pod.with(|pod| (pod.priority, pod.shape) = (5, 3));
        world.update(&b, &change(&b), &[ClusterEvent::UNSCHEDULABLE_POD_UPDATE]);
        world.update(&c, &change(&c), &[ClusterEvent::UNSCHEDULABLE_POD_UPDATE]);
        assert_eq!(world.place("c"), Some(Place::ErrorBackoff));
        assert_eq!(
            (world.get("b").signature(), world.get("c").signature()),
            (Some(signature_of(3, 0)), Some(signature_of(3, 0)))
        );
        assert_eq!(world.incoming().len(), 2, "nothing came in by an update");
        assert_eq!(world.pop_name(), "b");
    }
}

#[test]
fn an_update_of_an_unschedulable_pod_asks_its_rejectors() {
    let label = event("UnschedulablePod", ActionType::UPDATE_POD_LABEL);
    let other = event("UnschedulablePod", ActionType::UPDATE_POD_TOLERATION);
    for (waited, events, place) in [
        (0, vec![other.clone()], Place::Unschedulable),
        (0, vec![other.clone(), label.clone()], Place::Backoff),
        (2000, vec![label], Place::Active),
    ] {
        let mut world = world();
        let a = Pod::new("a");
        world.park(&a, &["Self"]);
        world.advance(waited);
        world.update(&a, &a.with(|pod| pod.shape = 1), &events);
        assert_eq!(world.place("a"), Some(place));
        assert_eq!(world.get("a").signature(), Some(signature_of(1, 0)));
    }
}

#[test]
fn deleting_takes_all_counts_back() {
    let mut world = world();
    let [a, b, c] = ["a", "b", "c"].map(Pod::new);
    world.park(&b, &["None", "Fit"]);
    world.park(&c, &["None"]);
    world.park(&a, &["None", "Fit"]);
    world.activate(&[&a]);
    world.event(&node_add(), None);
    assert_eq!(world.counts(), [1, 1, 1, 0]);
    for pod in [&a, &b, &c] {
        world.delete(pod);
    }
    assert_eq!((world.counts(), world.rejected(), world.queue.is_empty()), ([0; 4], vec![], true));
    assert_eq!(world.queue.next_deadline(), None);
    assert_eq!(world.queue.summary(), "activeQ:0; backoffQ:0; unschedulablePods:0");
}

#[test]
fn activation_makes_ready_whatever_the_backoff() {
    let mut world = world();
    let [a, b, c, d] = ["a", "b", "c", "d"].map(Pod::new);
    world.park(&a, &["None"]);
    world.park(&b, &[]);
    world.add(&c);
    assert_eq!(world.activate(&[&a, &b, &c, &d]), 2, "active and unknown pods are left alone");
    assert_eq!(world.counts(), [3, 0, 0, 0]);
    assert!(world.incoming().contains(&"active ForceActivate 2".to_owned()));
}

#[test]
fn a_pod_that_backs_off_waits_longer_each_time_and_is_not_hurried() {
    let mut world = world();
    let [a, b] = ["a", "b"].map(Pod::new);
    world.park(&a, &["None"]);
    world.park(&b, &["None"]);
    for (n_errors, waits) in [(1, 1_000), (3, 4_000), (9, 10_000)] {
        world.back_off(&a, n_errors);
        assert_eq!(world.place("a"), Some(Place::ErrorBackoff));
        world.event(&node_add(), None);
        assert_eq!(world.place("a"), Some(Place::ErrorBackoff));
        world.advance(waits - 1);
        world.flush_backoff();
        assert_eq!(world.place("a"), Some(Place::ErrorBackoff), "{n_errors}");
        world.advance(2_000);
        world.flush_backoff();
        assert_eq!(world.place("a"), Some(Place::Active), "{n_errors}");
        // One that is ready is left alone.
        world.back_off(&a, n_errors);
        assert_eq!(world.place("a"), Some(Place::Active), "{n_errors}");
        world.delete(&a);
        world.park(&a, &["None"]);
    }
}

#[test]
fn activating_a_pod_in_flight_is_remembered_for_it_alone() {
    let mut world = world();
    let [a, b] = ["a", "b"].map(Pod::new);
    world.add(&a);
    world.add(&b);
    let [first, second] = [(); 2].map(|()| world.pop().unwrap());
    world.activate(&[&b, &Pod::new("c")]);
    assert_eq!(world.in_flight(), ["ForceActivate 1", "PodPopped 2"]);
    assert_eq!(world.fail(first, &["None"]), QueueName::Unschedulable);
    assert_eq!(world.fail(second, &["None"]), QueueName::Backoff);
}

#[test]
fn a_pod_can_be_taken_by_name_from_any_queue() {
    let mut world =
        World::new(QueueSettings::default(), vec![profile("s").with_pre_enqueue("Gate")], &HINTS);
    let [active, parked, backoff, unknown] =
        ["active", "parked", "backoff", "unknown"].map(Pod::new);
    let gated = Pod::new("gated").gated_by(&["Gate"]);
    world.park(&parked, &["None"]);
    world.park(&backoff, &[]);
    world.add(&active);
    world.add(&gated);
    let take = |world: &mut World, pod: &Pod| {
        world.queue.pop_specific(pod, world.now, &mut world.policy).is_some()
    };
    assert_eq!(
        [&active, &parked, &backoff, &unknown, &gated].map(|pod| take(&mut world, pod)),
        [true, true, true, false, false]
    );
    assert_eq!(world.counts(), [0, 0, 0, 1]);
    assert!(!take(&mut world, &active), "it is in flight");
    let open = gated.gated_by(&[]);
    world.update(&gated, &open, &[]);
    assert!(take(&mut world, &open));
    assert_eq!(world.queue.in_flight_pods().count(), 4);
}

#[test]
fn a_pod_made_anew_under_the_same_name_keeps_the_record() {
    let mut world = world();
    let old = Pod::new("a");
    world.park(&old, &["None"]);
    let new = old.with(|pod| pod.uid = "second".to_owned());
    world.update(&old, &new, &[ClusterEvent::UNSCHEDULABLE_POD_UPDATE]);
    assert_eq!((world.get("a").entry(), world.get("a").attempts()), (&new, 1));
}

fn without_hints() -> World {
    let settings = QueueSettings { uses_hints: false, ..QueueSettings::default() };
    let label = event("UnschedulablePod", ActionType::UPDATE_POD_LABEL);
    let spec = ProfileSpec::new("s")
        .with_events("Fit", [(node_add(), None)])
        .with_events("Other", [(label, None)]);
    World::new(settings, vec![spec], &HINTS)
}

#[test]
fn without_hints_any_event_during_the_attempt_is_worth_another() {
    let mut world = without_hints();
    let a = Pod::new("a");
    world.add(&a);
    let pod = world.pop().unwrap();
    world.event(&node_add(), None);
    assert_eq!(world.fail(pod, &["Other"]), QueueName::Backoff, "though Other does not care");
    world.advance(2000);
    world.flush_backoff();
    let pod = world.pop().unwrap();
    assert_eq!(world.fail(pod, &["Other"]), QueueName::Unschedulable, "nothing happened");
    world.event(&node_add(), None);
    assert_eq!(
        world.place("a"),
        Some(Place::Unschedulable),
        "an event helps those who wait for it"
    );
}

#[test]
fn without_hints_any_update_of_the_pod_that_may_matter_is_worth_another() {
    for (action, place) in [
        (ActionType::UPDATE_POD_LABEL, Place::Backoff),
        (ActionType::UPDATE_POD_TOLERATION, Place::Backoff),
        (ActionType::UPDATE, Place::Unschedulable),
    ] {
        let mut world = without_hints();
        let a = Pod::new("a");
        world.park(&a, &["Fit"]);
        world.update(&a, &a, &[event("UnschedulablePod", action)]);
        assert_eq!(world.place("a"), Some(place), "{action:?}");
    }
}
