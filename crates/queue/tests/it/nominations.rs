//! Nominations of pods to nodes.

use kube_scheduler_queue::{ClusterEvent, Nomination, ProfileSpec, QueueSettings};

use crate::behaviour::{HINTS, driven, profile};
use crate::toy::{DrivenQueue, Pod};

fn nominate(driven: &mut DrivenQueue, pod: &Pod, nomination: Nomination<'_>) {
    driven.queue.nominate(pod, nomination, &driven.policy);
}

#[test]
fn an_override_beats_the_status_and_moves_the_nomination() {
    let mut driven = driven();
    let [a, b] = ["a", "b"].map(|name| Pod::new(name).nominated("n1"));
    nominate(&mut driven, &a, Nomination::Noop);
    nominate(&mut driven, &b, Nomination::Override("n2"));
    assert_eq!(
        (driven.nominated("n1"), driven.nominated("n2")),
        (vec!["a".to_owned()], vec!["b".to_owned()])
    );
    nominate(&mut driven, &a, Nomination::Override("n2"));
    assert_eq!(
        (driven.nominated("n1").len(), driven.nominated("n2")),
        (0, vec!["b".to_owned(), "a".to_owned()])
    );
    assert_eq!(driven.queue.nominated_nodes().collect::<Vec<_>>(), ["n2"]);
    driven.queue.withdraw_nomination("b-uid");
    assert_eq!(driven.nominated("n2"), ["a"]);
}

#[test]
fn only_existing_pods_without_node_are_nominated() {
    let mut driven = driven();
    driven.policy.unknown.insert("a".to_owned());
    driven.policy.assigned.insert("b".to_owned());
    for name in ["a", "b"] {
        nominate(&mut driven, &Pod::new(name), Nomination::Override("n"));
    }
    nominate(&mut driven, &Pod::new("c"), Nomination::Noop);
    assert!(driven.nominated("n").is_empty());
    // What was nominated before is not any more.
    let d = Pod::new("d");
    nominate(&mut driven, &d, Nomination::Override("n"));
    driven.policy.unknown.insert("d".to_owned());
    nominate(&mut driven, &d, Nomination::Override("m"));
    assert_eq!(driven.queue.nomination("d-uid"), None);
}

#[test]
fn a_new_pod_brings_its_nomination_unless_it_is_gated() {
    let spec: ProfileSpec = profile("s").with_pre_enqueue("Gate");
    let mut driven = DrivenQueue::new(QueueSettings::default(), vec![spec], &HINTS);
    let a = Pod::new("a");
    driven.add(&a.nominated("n"));
    driven.add(&Pod::new("b").nominated("n").gated_by(&["Gate"]));
    driven.update(&Pod::new("c"), &Pod::new("c").nominated("n"), &[]);
    assert_eq!(driven.nominated("n"), ["a", "c"]);
    driven.delete(&a);
    assert_eq!(driven.nominated("n"), ["c"]);
}

#[test]
fn an_update_without_any_name_keeps_what_is_remembered() {
    let mut driven = driven();
    let a = Pod::new("a");
    let update = |driven: &mut DrivenQueue, old: &Pod, new: &Pod| {
        driven.update(old, new, &[ClusterEvent::UNSCHEDULABLE_POD_UPDATE]);
    };
    driven.add(&a);
    nominate(&mut driven, &a, Nomination::Override("n1"));
    update(&mut driven, &a, &a);
    assert_eq!(driven.queue.nomination("a-uid"), Some("n1"));
    update(&mut driven, &a, &a.nominated("n2"));
    assert_eq!(driven.queue.nomination("a-uid"), Some("n2"));
    update(&mut driven, &a.nominated("n2"), &a);
    assert_eq!(driven.queue.nomination("a-uid"), None);
    nominate(&mut driven, &a, Nomination::Override(""));
    update(&mut driven, &a, &a);
    assert_eq!(driven.queue.nomination("a-uid"), Some(""), "cleared on purpose, and stays so");
    assert_eq!(driven.queue.nominated_nodes().count(), 0);
    assert!(driven.nominated("").is_empty());
}

#[test]
fn a_pod_in_flight_stays_nominated_without_its_spec() {
    let mut driven = driven();
    let a = Pod::new("a").nominated("n");
    driven.add(&a);
    let is_known = |driven: &DrivenQueue| {
        driven
            .queue
            .nominated_pods_for_node("n")
            .map(|nominee| nominee.pod.is_some())
            .collect::<Vec<_>>()
    };
    assert_eq!(is_known(&driven), [true]);
    let pod = driven.pop().unwrap();
    assert_eq!(is_known(&driven), [false]);
    driven.fail(pod, &["None"]);
    assert_eq!(is_known(&driven), [true]);
}

#[test]
fn nominations_do_not_follow_updates_of_pods_in_flight() {
    let mut driven = driven();
    let a = Pod::new("a");
    driven.add(&a);
    driven.pop();
    driven.update(&a, &a.nominated("n"), &[ClusterEvent::UNSCHEDULABLE_POD_UPDATE]);
    assert_eq!(driven.queue.nomination("a-uid"), None);
}
