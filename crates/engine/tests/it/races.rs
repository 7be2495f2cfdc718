//! Answers that come when the world has moved on.

use kube_scheduler_engine::Input;
use kube_scheduler_queue::Place;

use crate::toy::Toy;
use crate::world::{World, leaving, pod, running};

/// A world in which `p` is on its way to `n1` and only the API server's answer, to token 1, is missing.
fn binding() -> World {
    let mut world = World::new(vec![Toy::new("R").unreserve(|_, _| ())]);
    assert_eq!(world.try_pod(&pod("p")), "assumed n1");
    assert_eq!(world.effects(), ["bind #1 ns/p uid=p-uid node=n1"]);
    world.calls();
    world
}

/// Another pod under the same name.
fn recreated() -> std::sync::Arc<kube_scheduler_framework::api::Pod> {
    pod("p uid=p-second version=7")
}

fn on_node(world: &World) -> Vec<String> {
    world.engine.cluster().all_pods().map(|(pod, _)| pod.uid.to_string()).collect()
}

#[test]
fn the_pod_is_seen_on_its_node_before_the_answer() {
    let mut world = binding();
    world.apply(&running("p", "n1"));
    assert!(!world.is_assumed(&pod("p")));
    world.written(1, Ok(()));
    assert_eq!(world.effects().len(), 1, "the event");
    assert_eq!(on_node(&world), ["p-uid"]);
    assert!(world.is_clean());
}

#[test]
fn an_error_after_the_pod_was_seen_on_its_node_takes_nothing_away() {
    let mut world = binding();
    world.apply(&running("p", "n1"));
    world.written(1, Err("timed out"));
    let effects = world.effects();
    assert_eq!(effects.len(), 2, "event and condition, {effects:?}");
    assert_eq!(on_node(&world), ["p-uid"]);
    assert_eq!(world.place("p"), None, "there is nothing to retry");
    let notes: Vec<String> = world.engine.drain_notes().collect();
    assert_eq!(notes, ["ForgetPod failed: pod p-uid(ns/p) wasn't assumed so cannot be forgotten"]);
    assert!(world.is_clean());
}

#[test]
fn the_pod_is_seen_on_another_node() {
    let mut world = binding();
    world.node("n2");
    world.apply(&running("p", "n2"));
    let cluster = world.engine.cluster();
    let place = |name: &str| cluster.pods_on(cluster.node_idx(name).unwrap()).count();
    assert_eq!((place("n1"), place("n2")), (0, 1));
    world.written(1, Err("already bound"));
    assert_eq!(on_node(&world), ["p-uid"]);
    assert!(world.engine.drain_notes().any(
        |note| note == "ForgetPod failed: pod p-uid(ns/p) was assumed on n1 but assigned to n2"
    ));
}

#[test]
fn a_pod_deleted_meanwhile_is_forgotten_at_once() {
    for result in [Ok(()), Err("not found")] {
        let mut world = binding();
        world.delete(&pod("p"));
        assert_eq!(on_node(&world), Vec::<String>::new());
        world.written(1, result);
        assert!(world.is_clean());
        assert_eq!((world.place("p"), world.attempt()), (None, "nobody".to_owned()));
        let n_unreserved = world.calls_at("Unreserve").len();
        assert_eq!(n_unreserved, usize::from(result.is_err()));
    }
}

#[test]
fn a_pod_asked_to_go_meanwhile_is_forgotten_and_its_failure_told() {
    let mut world = binding();
    world.apply(&leaving("p"));
    assert_eq!(on_node(&world), Vec::<String>::new());
    world.written(1, Err("being deleted"));
    assert_eq!(world.effects().len(), 2);
    assert!(world.is_clean());
    world.advance(crate::world::seconds(2));
    assert_eq!(world.attempt(), "skipped");
    assert_eq!(
        world.effects(),
        ["event ns/p Warning FailedScheduling Scheduling \"skip schedule deleting pod: ns/p\""]
    );
}

#[test]
fn a_pod_created_again_meanwhile_is_left_alone() {
    for is_deletion_seen in [true, false] {
        let mut world = binding();
        if is_deletion_seen {
            world.delete(&pod("p"));
        }
        world.apply(&recreated());
        assert_eq!(on_node(&world), Vec::<String>::new(), "the first one is gone");
        assert_eq!(world.place("p"), Some(Place::Active));
        world.written(1, Err("the UID does not match"));
        assert_eq!(world.effects(), Vec::<String>::new(), "nothing is said about the second one");
        assert_eq!(world.place("p"), Some(Place::Active));
        assert_eq!(world.attempt(), "assumed n1");
        assert_eq!(world.effects(), ["bind #2 ns/p uid=p-second node=n1"]);
    }
}

#[test]
fn the_answer_for_the_first_pod_does_not_end_the_second_ones_binding() {
    let mut world = binding();
    world.delete(&pod("p"));
    world.apply(&pod("p"));
    assert_eq!(world.attempt(), "assumed n1", "the same UID again");
    world.effects();
    world.written(1, Ok(()));
    assert_eq!(world.effects(), Vec::<String>::new());
    world.written(2, Ok(()));
    assert_eq!(world.effects().len(), 1);
}

#[test]
fn a_running_pod_replaced_by_a_pending_one_gives_its_place_back() {
    let mut world = World::new(vec![]);
    world.apply(&running("p", "n1"));
    world.apply(&recreated());
    assert_eq!(on_node(&world), Vec::<String>::new());
    assert_eq!(world.place("p"), Some(Place::Active));
}

#[test]
fn answers_nobody_waits_for_are_ignored() {
    let mut world = binding();
    world.written(77, Err("who?"));
    world.written(1, Ok(()));
    world.effects();
    world.written(1, Err("again"));
    world.finished(1, kube_scheduler_framework::Status::error("and again"));
    assert_eq!(world.effects(), Vec::<String>::new());
    assert!(world.is_assumed(&pod("p")));
}

#[test]
fn a_node_deleted_meanwhile_goes_with_its_last_pod() {
    let mut world = binding();
    world.input(Input::NodeDeleted { name: "n1".into() });
    assert_eq!(world.engine.cluster().n_nodes(), 0);
    assert!(world.is_assumed(&pod("p")));
    world.written(1, Err("no such node"));
    assert!(world.is_clean());
    assert_eq!(on_node(&world), Vec::<String>::new());
    world.advance(crate::world::seconds(2));
    assert_eq!(world.attempt(), "unschedulable no nodes available to schedule pods");
}

#[test]
fn a_pod_bound_by_somebody_else_leaves_the_queue() {
    let mut world = World::new(vec![]);
    world.apply(&pod("p"));
    world.apply(&running("p", "n1"));
    assert_eq!((world.place("p"), world.attempt()), (None, "nobody".to_owned()));
    assert_eq!(on_node(&world), ["p-uid"]);
}
