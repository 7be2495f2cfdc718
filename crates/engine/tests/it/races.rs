//! Answers that come when the scheduler has moved on.

use kube_scheduler_engine::Input;
use kube_scheduler_queue::Place;

use crate::toy::Toy;
use crate::toy_scheduler::{ToyScheduler, leaving, pod, running};

/// A scheduler in which `p` is on its way to `n1` and only the API server's answer, to token 1, is missing.
fn binding() -> ToyScheduler {
    let mut scheduler = ToyScheduler::new(vec![Toy::new("R").unreserve(|_, _| ())]);
    assert_eq!(scheduler.try_pod(&pod("p")), "assumed n1");
    assert_eq!(scheduler.effects(), ["bind #1 ns/p uid=p-uid node=n1"]);
    scheduler.calls();
    scheduler
}

/// Another pod under the same name.
fn recreated() -> std::sync::Arc<kube_scheduler_framework::api::Pod> {
    pod("p uid=p-second version=7")
}

fn on_node(scheduler: &ToyScheduler) -> Vec<String> {
    scheduler.engine.cluster().all_pods().map(|(pod, _)| pod.uid.to_string()).collect()
}

#[test]
fn the_pod_is_seen_on_its_node_before_the_answer() {
    let mut scheduler = binding();
    scheduler.apply(&running("p", "n1"));
    assert!(!scheduler.is_assumed(&pod("p")));
    scheduler.written(1, Ok(()));
    assert_eq!(scheduler.effects().len(), 1, "the event");
    assert_eq!(on_node(&scheduler), ["p-uid"]);
    assert!(scheduler.is_clean());
}

#[test]
fn an_error_after_the_pod_was_seen_on_its_node_takes_nothing_away() {
    let mut scheduler = binding();
    scheduler.apply(&running("p", "n1"));
    scheduler.written(1, Err("timed out"));
    let effects = scheduler.effects();
    assert_eq!(effects.len(), 2, "event and condition, {effects:?}");
    assert_eq!(on_node(&scheduler), ["p-uid"]);
    assert_eq!(scheduler.place("p"), None, "there is nothing to retry");
    let notes: Vec<String> = scheduler.engine.drain_notes().collect();
    assert_eq!(notes, ["ForgetPod failed: pod p-uid(ns/p) wasn't assumed so cannot be forgotten"]);
    assert!(scheduler.is_clean());
}

#[test]
fn the_pod_is_seen_on_another_node() {
    let mut scheduler = binding();
    scheduler.node("n2");
    scheduler.apply(&running("p", "n2"));
    let cluster = scheduler.engine.cluster();
    let place = |name: &str| cluster.pods_on(cluster.node_idx(name).unwrap()).count();
    assert_eq!((place("n1"), place("n2")), (0, 1));
    scheduler.written(1, Err("already bound"));
    assert_eq!(on_node(&scheduler), ["p-uid"]);
    assert!(scheduler.engine.drain_notes().any(
        |note| note == "ForgetPod failed: pod p-uid(ns/p) was assumed on n1 but assigned to n2"
    ));
}

#[test]
fn a_pod_deleted_meanwhile_is_forgotten_at_once() {
    for result in [Ok(()), Err("not found")] {
        let mut scheduler = binding();
        scheduler.delete(&pod("p"));
        assert_eq!(on_node(&scheduler), Vec::<String>::new());
        scheduler.written(1, result);
        assert!(scheduler.is_clean());
        assert_eq!((scheduler.place("p"), scheduler.attempt()), (None, "nobody".to_owned()));
        let n_unreserved = scheduler.calls_at("Unreserve").len();
        assert_eq!(n_unreserved, usize::from(result.is_err()));
    }
}

#[test]
fn a_pod_asked_to_go_meanwhile_is_forgotten_and_its_failure_told() {
    let mut scheduler = binding();
    scheduler.apply(&leaving("p"));
    assert_eq!(on_node(&scheduler), Vec::<String>::new());
    scheduler.written(1, Err("being deleted"));
    assert_eq!(scheduler.effects().len(), 2);
    assert!(scheduler.is_clean());
    scheduler.advance(crate::toy_scheduler::seconds(2));
    assert_eq!(scheduler.attempt(), "skipped");
    assert_eq!(
        scheduler.effects(),
        ["event ns/p Warning FailedScheduling Scheduling \"skip schedule deleting pod: ns/p\""]
    );
}

#[test]
fn a_pod_created_again_meanwhile_is_left_alone() {
    for is_deletion_seen in [true, false] {
        let mut scheduler = binding();
        if is_deletion_seen {
            scheduler.delete(&pod("p"));
        }
        scheduler.apply(&recreated());
        assert_eq!(on_node(&scheduler), Vec::<String>::new(), "the first one is gone");
        assert_eq!(scheduler.place("p"), Some(Place::Active));
        scheduler.written(1, Err("the UID does not match"));
        assert_eq!(
            scheduler.effects(),
            Vec::<String>::new(),
            "nothing is said about the second one"
        );
        assert_eq!(scheduler.place("p"), Some(Place::Active));
        assert_eq!(scheduler.attempt(), "assumed n1");
        assert_eq!(scheduler.effects(), ["bind #2 ns/p uid=p-second node=n1"]);
    }
}

#[test]
fn the_answer_for_the_first_pod_does_not_end_the_second_ones_binding() {
    let mut scheduler = binding();
    scheduler.delete(&pod("p"));
    scheduler.apply(&pod("p"));
    assert_eq!(scheduler.attempt(), "assumed n1", "the same UID again");
    scheduler.effects();
    scheduler.written(1, Ok(()));
    assert_eq!(scheduler.effects(), Vec::<String>::new());
    scheduler.written(2, Ok(()));
    assert_eq!(scheduler.effects().len(), 1);
}

#[test]
fn a_running_pod_replaced_by_a_pending_one_gives_its_place_back() {
    let mut scheduler = ToyScheduler::new(vec![]);
    scheduler.apply(&running("p", "n1"));
    scheduler.apply(&recreated());
    assert_eq!(on_node(&scheduler), Vec::<String>::new());
    assert_eq!(scheduler.place("p"), Some(Place::Active));
}

#[test]
fn answers_nobody_waits_for_are_ignored() {
    let mut scheduler = binding();
    scheduler.written(77, Err("who?"));
    scheduler.written(1, Ok(()));
    scheduler.effects();
    scheduler.written(1, Err("again"));
    scheduler.finished(1, kube_scheduler_framework::Status::error("and again"));
    assert_eq!(scheduler.effects(), Vec::<String>::new());
    assert!(scheduler.is_assumed(&pod("p")));
}

#[test]
fn a_node_deleted_meanwhile_goes_with_its_last_pod() {
    let mut scheduler = binding();
    scheduler.input(Input::NodeDeleted { name: "n1".into() });
    assert_eq!(scheduler.engine.cluster().n_nodes(), 0);
    assert!(scheduler.is_assumed(&pod("p")));
    scheduler.written(1, Err("no such node"));
    assert!(scheduler.is_clean());
    assert_eq!(on_node(&scheduler), Vec::<String>::new());
    scheduler.advance(crate::toy_scheduler::seconds(2));
    assert_eq!(scheduler.attempt(), "unschedulable no nodes available to schedule pods");
}

#[test]
fn a_pod_bound_by_somebody_else_leaves_the_queue() {
    let mut scheduler = ToyScheduler::new(vec![]);
    scheduler.apply(&pod("p"));
    scheduler.apply(&running("p", "n1"));
    assert_eq!((scheduler.place("p"), scheduler.attempt()), (None, "nobody".to_owned()));
    assert_eq!(on_node(&scheduler), ["p-uid"]);
}
