//! Nominations of pods to nodes.

use kube_scheduler_queue::{ClusterEvent, Nomination, ProfileSpec, QueueSettings};

use crate::behaviour::{HINTS, profile, world};
use crate::toy::{Pod, World};

fn nominate(world: &mut World, pod: &Pod, nomination: Nomination<'_>) {
    world.queue.nominate(pod, nomination, &world.policy);
}

#[test]
fn an_override_beats_the_status_and_moves_the_nomination() {
    let mut world = world();
    let [a, b] = ["a", "b"].map(|name| Pod::new(name).nominated("n1"));
    nominate(&mut world, &a, Nomination::Noop);
    nominate(&mut world, &b, Nomination::Override("n2"));
    assert_eq!(
        (world.nominated("n1"), world.nominated("n2")),
        (vec!["a".to_owned()], vec!["b".to_owned()])
    );
    nominate(&mut world, &a, Nomination::Override("n2"));
    assert_eq!(
        (world.nominated("n1").len(), world.nominated("n2")),
        (0, vec!["b".to_owned(), "a".to_owned()])
    );
    assert_eq!(world.queue.nominated_nodes().collect::<Vec<_>>(), ["n2"]);
    world.queue.withdraw_nomination("b-uid");
    assert_eq!(world.nominated("n2"), ["a"]);
}

#[test]
fn only_existing_pods_without_node_are_nominated() {
    let mut world = world();
    world.policy.unknown.insert("a".to_owned());
    world.policy.assigned.insert("b".to_owned());
    for name in ["a", "b"] {
        nominate(&mut world, &Pod::new(name), Nomination::Override("n"));
    }
    nominate(&mut world, &Pod::new("c"), Nomination::Noop);
    assert!(world.nominated("n").is_empty());
    // What was nominated before is not any more.
    let d = Pod::new("d");
    nominate(&mut world, &d, Nomination::Override("n"));
    world.policy.unknown.insert("d".to_owned());
    nominate(&mut world, &d, Nomination::Override("m"));
    assert_eq!(world.queue.nomination("d-uid"), None);
}

#[test]
fn a_new_pod_brings_its_nomination_unless_it_is_gated() {
    let spec: ProfileSpec = profile("s").with_pre_enqueue("Gate");
    let mut world = World::new(QueueSettings::default(), vec![spec], &HINTS);
    let a = Pod::new("a");
    world.add(&a.nominated("n"));
    world.add(&Pod::new("b").nominated("n").gated_by(&["Gate"]));
    world.update(&Pod::new("c"), &Pod::new("c").nominated("n"), &[]);
    assert_eq!(world.nominated("n"), ["a", "c"]);
    world.delete(&a);
    assert_eq!(world.nominated("n"), ["c"]);
}

#[test]
fn an_update_without_any_name_keeps_what_is_remembered() {
    let mut world = world();
    let a = Pod::new("a");
    let update = |world: &mut World, old: &Pod, new: &Pod| {
        world.update(old, new, &[ClusterEvent::UNSCHEDULABLE_POD_UPDATE]);
    };
    world.add(&a);
    nominate(&mut world, &a, Nomination::Override("n1"));
    update(&mut world, &a, &a);
    assert_eq!(world.queue.nomination("a-uid"), Some("n1"));
    update(&mut world, &a, &a.nominated("n2"));
    assert_eq!(world.queue.nomination("a-uid"), Some("n2"));
    update(&mut world, &a.nominated("n2"), &a);
    assert_eq!(world.queue.nomination("a-uid"), None);
    nominate(&mut world, &a, Nomination::Override(""));
    update(&mut world, &a, &a);
    assert_eq!(world.queue.nomination("a-uid"), Some(""), "cleared on purpose, and stays so");
    assert_eq!(world.queue.nominated_nodes().count(), 0);
    assert!(world.nominated("").is_empty());
}

#[test]
fn a_pod_in_flight_stays_nominated_without_its_spec() {
    let mut world = world();
    let a = Pod::new("a").nominated("n");
    world.add(&a);
    let is_known = |world: &World| {
        world
            .queue
            .nominated_pods_for_node("n")
            .map(|nominee| nominee.pod.is_some())
            .collect::<Vec<_>>()
    };
    assert_eq!(is_known(&world), [true]);
    let pod = world.pop().unwrap();
    assert_eq!(is_known(&world), [false]);
    world.fail(pod, &["None"]);
    assert_eq!(is_known(&world), [true]);
}

#[test]
fn nominations_do_not_follow_updates_of_pods_in_flight() {
    let mut world = world();
    let a = Pod::new("a");
    world.add(&a);
    world.pop();
    world.update(&a, &a.nominated("n"), &[ClusterEvent::UNSCHEDULABLE_POD_UPDATE]);
    assert_eq!(world.queue.nomination("a-uid"), None);
}
