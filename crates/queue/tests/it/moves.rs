//! Events, flushes, updates, deletions, activations, and pods taken by name.

use kube_scheduler_queue::{
    ActionType, ClusterEvent, HintId, Place, ProfileSpec, QueueName, QueueSettings, Topics,
};

use crate::behaviour::{HINTS, driven, event, node_add, profile};
use crate::toy::{DrivenQueue, HintTopics, Object, Pod, signature_of};

#[test]
fn an_event_asks_only_the_plugins_that_rejected() {
    let mut driven = driven();
    driven.park(&Pod::new("fit"), &["Fit"]);
    driven.park(&Pod::new("skip"), &["Skip"]);
    driven.park(&Pod::new("none"), &["None"]);
    driven.policy.asked.clear();
    driven.event(&node_add(), None);
    assert_eq!(driven.policy.asked, ["hint 0 fit", "hint 1 skip"]);
    assert_eq!(driven.place("fit"), Some(Place::Backoff));
    assert_eq!(driven.counts(), [0, 1, 2, 0]);
    assert!(driven.incoming().contains(&"backoff NodeAdd 1".to_owned()));
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
    let mut driven = driven();
    driven.policy.topics = Some(SHAPES);
    let shaped = |name: &str, shape| Pod::new(name).with(|pod| pod.shape = shape);
    // Parked in another order than by topic.
    let pods = [("c", 7), ("a", 8), ("all", 0), ("b", 6), ("many", 1_000)];
    for (name, shape) in pods {
        driven.park(&shaped(name, shape), &["Skip"]);
    }
    let asked = |driven: &mut DrivenQueue, object: Option<Object>| {
        driven.policy.asked.clear();
        driven.event(&node_add(), object.as_ref());
        std::mem::take(&mut driven.policy.asked)
    };
    let thing = |shape| Some(Object::Thing(shape));
    assert_eq!(asked(&mut driven, thing(8)), ["hint 1 c", "hint 1 a", "hint 1 all", "hint 1 many"]);
    // More topics than are kept for a pod.
    assert_eq!(asked(&mut driven, thing(5_000)), ["hint 1 all", "hint 1 many"]);
    let about_none = Object::Pod(Pod::new("x"));
    assert_eq!(asked(&mut driven, Some(about_none)), ["hint 1 all", "hint 1 many"]);
    assert_eq!(asked(&mut driven, None).len(), pods.len());
    // What a pod waits for changes with it.
    driven.update(&shaped("c", 7), &shaped("c", 1), &[]);
    driven.delete(&shaped("all", 0));
    assert_eq!(asked(&mut driven, thing(1)), ["hint 1 c", "hint 1 many"]);
    // A report about each pod needs each to be asked.
    driven.queue.keep_reports(true);
    assert_eq!(asked(&mut driven, thing(1)).len(), pods.len() - 1);
}

#[test]
fn an_event_with_more_topics_than_pods_wait_is_not_searched_by_each() {
    let asked = |n: usize| {
        let mut driven = driven();
        driven.policy.topics = Some(SHAPES);
        for at in 0..n {
            driven.park(&Pod::new(&format!("p{at}")).with(|pod| pod.shape = 7), &["Skip"]);
        }
        driven.policy.asked.clear();
        driven.event(&node_add(), Some(&Object::Thing(MANY)));
        driven.policy.asked.len()
    };
    assert_eq!(asked(99), 99);
    assert_eq!(asked(101), 0);
}

#[test]
fn after_the_backoff_an_event_makes_ready_at_once() {
    let mut driven = driven();
    driven.park(&Pod::new("a"), &["Fit"]);
    driven.advance(2000);
    driven.event(&node_add(), None);
    assert_eq!(driven.place("a"), Some(Place::Active));
}

#[test]
fn pending_pods_skip_the_backoff() {
    let mut driven = driven();
    driven.park(&Pod::new("a"), &["Fit", "?Pend"]);
    driven.event(&event("Node", ActionType::UPDATE_NODE_TAINT), None);
    assert_eq!(driven.place("a"), Some(Place::Active));
}

#[test]
fn the_wildcard_asks_no_hint_and_means_everyone_or_one() {
    let mut driven = driven();
    let [a, b] = ["a", "b"].map(Pod::new);
    driven.park(&a, &["Skip"]);
    driven.park(&b, &["None"]);
    driven.policy.asked.clear();
    driven.event(&ClusterEvent::FORCE_ACTIVATE, Some(&Object::Pod(a.clone())));
    assert_eq!(
        (driven.place("a"), driven.place("b")),
        (Some(Place::Backoff), Some(Place::Unschedulable))
    );
    driven.event(&ClusterEvent::UNSCHEDULABLE_TIMEOUT, None);
    assert_eq!(driven.place("b"), Some(Place::Backoff));
    assert!(driven.policy.asked.is_empty());
}

#[test]
fn a_node_taint_wakes_those_who_asked_for_new_nodes_only() {
    let spec = ProfileSpec::new("s").with_events("Name", [(node_add(), Some(HintId(1)))]);
    let mut driven = DrivenQueue::new(QueueSettings::default(), vec![spec], &HINTS);
    driven.park(&Pod::new("a"), &["Name"]);
    driven.event(&event("Node", ActionType::UPDATE_NODE_TAINT), None);
    assert_eq!(driven.place("a"), Some(Place::Backoff));
}

#[test]
fn the_pre_check_chooses_among_parked_pods_only() {
    let mut driven = driven();
    driven.park(&Pod::new("high").priority(2), &["Fit"]);
    driven.park(&Pod::new("low"), &["Fit"]);
    driven.add(&Pod::new("flying").priority(2));
    let flying = driven.pop().unwrap();
    let mut asked = 0;
    let mut check = |pod: &Pod| {
        asked += 1;
        pod.0.priority <= 1
    };
    let (now, policy) = (driven.now, &mut driven.policy);
    let nothing = event("PersistentVolume", ActionType::ADD);
    driven.queue.move_all_if(&nothing, None, None, &mut check, now, policy);
    driven.queue.move_all_if(&node_add(), None, None, &mut check, now, policy);
    assert_eq!(asked, 2);
    assert_eq!(
        (driven.place("high"), driven.place("low")),
        (Some(Place::Unschedulable), Some(Place::Backoff))
    );
    assert_eq!(driven.fail(flying, &["Fit"]), QueueName::Backoff, "it saw the event");
}

#[test]
fn hints_are_those_of_the_pods_own_profile() {
    let other =
        ProfileSpec::new("t").with_events("Fit", [(event("Node", ActionType::DELETE), None)]);
    let mut driven = DrivenQueue::new(QueueSettings::default(), vec![profile("s"), other], &HINTS);
    driven.park(&Pod::new("s"), &["Fit"]);
    driven.park(&Pod::new("t").with(|pod| pod.scheduler = "t".to_owned()), &["Fit"]);
    driven.event(&node_add(), None);
    assert_eq!(
        (driven.place("s"), driven.place("t")),
        (Some(Place::Backoff), Some(Place::Unschedulable))
    );
    driven.event(&event("Node", ActionType::DELETE), None);
    assert_eq!(driven.place("t"), Some(Place::Backoff));
}

#[test]
fn a_pod_without_profile_is_moved_by_any_event_of_interest() {
    let mut driven = driven();
    let lost = Pod::new("a").with(|pod| pod.scheduler = "nobody".to_owned());
    driven.park(&lost, &["None"]);
    driven.event(&event("PersistentVolume", ActionType::ADD), None);
    assert_eq!(driven.place("a"), Some(Place::Unschedulable));
    driven.event(&node_add(), None);
    assert_eq!(driven.place("a"), Some(Place::Backoff));
}

#[test]
fn moves_are_in_order_of_parking() {
    let mut driven = driven();
    for name in ["c", "a", "b"] {
        driven.park(&Pod::new(name), &["Fit"]);
    }
    driven.advance(2000);
    // Pods that compare equal leave in the order in which they came in.
    driven.event(&node_add(), None);
    assert_eq!([(); 3].map(|()| driven.pop_name()), ["c", "a", "b"]);
}

#[test]
fn the_flush_moves_pods_past_the_limit_and_marks_them() {
    let mut driven = driven();
    let a = Pod::new("a");
    driven.park(&a, &["None"]);
    driven.add(&Pod::new("flying"));
    let flying = driven.pop().unwrap();
    driven.advance(300_000);
    driven.flush_leftover();
    assert_eq!(driven.place("a"), Some(Place::Unschedulable));
    driven.advance(1);
    let (now, policy) = (driven.now, &mut driven.policy);
    driven.queue.flush_due(now, policy);
    assert_eq!(driven.place("a"), Some(Place::Active));
    assert!(driven.get("a").was_flushed_from_unschedulable());
    assert!(driven.incoming().contains(&"active UnschedulableTimeout 1".to_owned()));
    let pod = driven.pop().unwrap();
    assert!(pod.clone().was_flushed_from_unschedulable(), "a copy keeps the mark");
    driven.fail(pod, &["None"]);
    assert!(!driven.get("a").was_flushed_from_unschedulable());
    assert_eq!(
        driven.fail(flying, &["None"]),
        QueueName::Backoff,
        "a flush counts as a change of everything"
    );
}

#[test]
fn an_update_of_an_unknown_pod_adds_it() {
    let mut driven = driven();
    let a = Pod::new("a");
    driven.update(&a, &a, &[]);
    assert_eq!(driven.incoming(), ["active UnschedulablePodUpdate 1"]);
}

#[test]
fn an_update_stays_in_the_active_or_backoff_queue_and_resorts() {
    for has_sort_keys in [false, true] {
        let mut driven = driven();
        driven.policy.has_sort_keys = has_sort_keys;
        let [a, b, c] = ["a", "b", "c"].map(Pod::new);
        driven.park(&c, &[]);
        driven.add(&a);
        driven.add(&b);
        let change = |pod: &Pod| pod.with(|pod| (pod.priority, pod.shape) = (5, 3));
        driven.update(&b, &change(&b), &[ClusterEvent::UNSCHEDULABLE_POD_UPDATE]);
        driven.update(&c, &change(&c), &[ClusterEvent::UNSCHEDULABLE_POD_UPDATE]);
        assert_eq!(driven.place("c"), Some(Place::ErrorBackoff));
        assert_eq!(
            (driven.get("b").signature(), driven.get("c").signature()),
            (Some(signature_of(3, 0)), Some(signature_of(3, 0)))
        );
        assert_eq!(driven.incoming().len(), 2, "nothing came in by an update");
        assert_eq!(driven.pop_name(), "b");
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
        let mut driven = driven();
        let a = Pod::new("a");
        driven.park(&a, &["Self"]);
        driven.advance(waited);
        driven.update(&a, &a.with(|pod| pod.shape = 1), &events);
        assert_eq!(driven.place("a"), Some(place));
        assert_eq!(driven.get("a").signature(), Some(signature_of(1, 0)));
    }
}

#[test]
fn deleting_takes_all_counts_back() {
    let mut driven = driven();
    let [a, b, c] = ["a", "b", "c"].map(Pod::new);
    driven.park(&b, &["None", "Fit"]);
    driven.park(&c, &["None"]);
    driven.park(&a, &["None", "Fit"]);
    driven.activate(&[&a]);
    driven.event(&node_add(), None);
    assert_eq!(driven.counts(), [1, 1, 1, 0]);
    for pod in [&a, &b, &c] {
        driven.delete(pod);
    }
    assert_eq!(
        (driven.counts(), driven.rejected(), driven.queue.is_empty()),
        ([0; 4], vec![], true)
    );
    assert_eq!(driven.queue.next_deadline(), None);
    assert_eq!(driven.queue.summary(), "activeQ:0; backoffQ:0; unschedulablePods:0");
}

#[test]
fn activation_makes_ready_whatever_the_backoff() {
    let mut driven = driven();
    let [a, b, c, d] = ["a", "b", "c", "d"].map(Pod::new);
    driven.park(&a, &["None"]);
    driven.park(&b, &[]);
    driven.add(&c);
    assert_eq!(driven.activate(&[&a, &b, &c, &d]), 2, "active and unknown pods are left alone");
    assert_eq!(driven.counts(), [3, 0, 0, 0]);
    assert!(driven.incoming().contains(&"active ForceActivate 2".to_owned()));
}

#[test]
fn a_pod_that_backs_off_waits_longer_each_time_and_is_not_hurried() {
    let mut driven = driven();
    let [a, b] = ["a", "b"].map(Pod::new);
    driven.park(&a, &["None"]);
    driven.park(&b, &["None"]);
    for (n_errors, waits) in [(1, 1_000), (3, 4_000), (9, 10_000)] {
        driven.back_off(&a, n_errors);
        assert_eq!(driven.place("a"), Some(Place::ErrorBackoff));
        driven.event(&node_add(), None);
        assert_eq!(driven.place("a"), Some(Place::ErrorBackoff));
        driven.advance(waits - 1);
        driven.flush_backoff();
        assert_eq!(driven.place("a"), Some(Place::ErrorBackoff), "{n_errors}");
        driven.advance(2_000);
        driven.flush_backoff();
        assert_eq!(driven.place("a"), Some(Place::Active), "{n_errors}");
        // One that is ready is left alone.
        driven.back_off(&a, n_errors);
        assert_eq!(driven.place("a"), Some(Place::Active), "{n_errors}");
        driven.delete(&a);
        driven.park(&a, &["None"]);
    }
}

#[test]
fn activating_a_pod_in_flight_is_remembered_for_it_alone() {
    let mut driven = driven();
    let [a, b] = ["a", "b"].map(Pod::new);
    driven.add(&a);
    driven.add(&b);
    let [first, second] = [(); 2].map(|()| driven.pop().unwrap());
    driven.activate(&[&b, &Pod::new("c")]);
    assert_eq!(driven.in_flight(), ["ForceActivate 1", "PodPopped 2"]);
    assert_eq!(driven.fail(first, &["None"]), QueueName::Unschedulable);
    assert_eq!(driven.fail(second, &["None"]), QueueName::Backoff);
}

#[test]
fn a_pod_can_be_taken_by_name_from_any_queue() {
    let mut driven = DrivenQueue::new(
        QueueSettings::default(),
        vec![profile("s").with_pre_enqueue("Gate")],
        &HINTS,
    );
    let [active, parked, backoff, unknown] =
        ["active", "parked", "backoff", "unknown"].map(Pod::new);
    let gated = Pod::new("gated").gated_by(&["Gate"]);
    driven.park(&parked, &["None"]);
    driven.park(&backoff, &[]);
    driven.add(&active);
    driven.add(&gated);
    let take = |driven: &mut DrivenQueue, pod: &Pod| {
        driven.queue.pop_specific(pod, driven.now, &mut driven.policy).is_some()
    };
    assert_eq!(
        [&active, &parked, &backoff, &unknown, &gated].map(|pod| take(&mut driven, pod)),
        [true, true, true, false, false]
    );
    assert_eq!(driven.counts(), [0, 0, 0, 1]);
    assert!(!take(&mut driven, &active), "it is in flight");
    let open = gated.gated_by(&[]);
    driven.update(&gated, &open, &[]);
    assert!(take(&mut driven, &open));
    assert_eq!(driven.queue.in_flight_pods().count(), 4);
}

#[test]
fn a_pod_made_anew_under_the_same_name_keeps_the_record() {
    let mut driven = driven();
    let old = Pod::new("a");
    driven.park(&old, &["None"]);
    let new = old.with(|pod| pod.uid = "second".to_owned());
    driven.update(&old, &new, &[ClusterEvent::UNSCHEDULABLE_POD_UPDATE]);
    assert_eq!((driven.get("a").entry(), driven.get("a").attempts()), (&new, 1));
}

fn without_hints() -> DrivenQueue {
    let settings = QueueSettings { uses_hints: false, ..QueueSettings::default() };
    let label = event("UnschedulablePod", ActionType::UPDATE_POD_LABEL);
    let spec = ProfileSpec::new("s")
        .with_events("Fit", [(node_add(), None)])
        .with_events("Other", [(label, None)]);
    DrivenQueue::new(settings, vec![spec], &HINTS)
}

#[test]
fn without_hints_any_event_during_the_attempt_is_worth_another() {
    let mut driven = without_hints();
    let a = Pod::new("a");
    driven.add(&a);
    let pod = driven.pop().unwrap();
    driven.event(&node_add(), None);
    assert_eq!(driven.fail(pod, &["Other"]), QueueName::Backoff, "though Other does not care");
    driven.advance(2000);
    driven.flush_backoff();
    let pod = driven.pop().unwrap();
    assert_eq!(driven.fail(pod, &["Other"]), QueueName::Unschedulable, "nothing happened");
    driven.event(&node_add(), None);
    assert_eq!(
        driven.place("a"),
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
        let mut driven = without_hints();
        let a = Pod::new("a");
        driven.park(&a, &["Fit"]);
        driven.update(&a, &a, &[event("UnschedulablePod", action)]);
        assert_eq!(driven.place("a"), Some(place), "{action:?}");
    }
}
