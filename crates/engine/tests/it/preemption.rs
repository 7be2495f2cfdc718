//! Pods that make room for others.

use std::sync::Arc;

use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::{NominatingInfo, PermitDecision, PostFilterOutcome, Status};
use kube_scheduler_queue::Place;
use serde_json::json;

use crate::toy::Toy;
use crate::world::{World, important, pod, pod_with, running, seconds};

/// Turns `big` down on every node, and evicts `victims` for it from `n1`.
fn evicting(victims: Vec<Arc<Pod>>) -> Vec<Toy> {
    let filter = Toy::new("F").filter(|pod, _| {
        if &*pod.name == "big" { Status::unschedulable("full") } else { Status::SUCCESS }
    });
    let evict = Toy::new("P").post_filter(move |_, _| PostFilterOutcome {
        nominating: Some(NominatingInfo::Override(Some("n1".into()))),
        victims: victims.clone(),
        found_by: None,
        status: Status::SUCCESS,
    });
    vec![filter, evict]
}

#[test]
fn victims_are_marked_deleted_and_told_once() {
    let dying = pod_with(
        "dying",
        json!({
            "metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}, "spec": {"nodeName": "n1"},
        }),
    );
    let victims = vec![running("v1", "n1"), dying.clone(), running("v2", "n1")];
    let mut world = World::new(evicting(victims.clone()));
    victims.iter().for_each(|victim| world.apply(victim));
    assert_eq!(
        world.try_pod(&important("big", 9)),
        "unschedulable 0/1 nodes are available: 1 full."
    );
    let of = |name: &str| {
        [
            format!(
                "patch ns/{name} uid={name}-uid DisruptionTarget=True reason=PreemptionByScheduler \
                 message=\"s: preempting to accommodate a higher priority pod\""
            ),
            format!("delete ns/{name} uid={name}-uid"),
            format!(
                "event ns/{name} Normal Preempted Preempting \"Preempted by pod big-uid on node n1\""
            ),
        ]
    };
    let effects = world.effects();
    assert_eq!(
        effects[..6],
        [of("v1"), of("v2")].concat(),
        "and nothing of the one that goes anyway"
    );
    assert!(effects[6].starts_with("event ns/big Warning FailedScheduling"));
    assert!(effects[7].starts_with("patch ns/big uid=big-uid nominated=n1 PodScheduled=False"));
    assert_eq!(effects.len(), 8);
    assert_eq!(world.engine.queue().nomination("big-uid"), Some("n1"));
    assert_eq!(world.attempt(), "nobody");
    assert_eq!(world.effects(), Vec::<String>::new());
}

#[test]
fn a_waiting_victim_is_sent_back_without_the_api() {
    let p = pod("p");
    let mut toys = evicting(vec![p.clone()]);
    toys.push(Toy::new("W").permit(|_, _| PermitDecision::wait(seconds(60))));
    let mut world = World::new(toys);
    world.try_pod(&p);
    world.effects();
    world.try_pod(&important("big", 9));
    let effects = world.effects();
    assert_eq!(
        effects[..3],
        [
            "event ns/p Warning FailedScheduling Scheduling \"waiting on permit for pod: preempted\"",
            "patch ns/p uid=p-uid PodScheduled=False reason=SchedulerError \
             message=\"waiting on permit for pod: preempted\"",
            "event ns/p Normal Preempted Preempting \
             \"Preempted by pod big-uid on node n1 (in kube-scheduler memory).\"",
        ]
    );
    assert!(!effects.iter().any(|effect| effect.starts_with("delete")));
    assert_eq!(world.place("p"), Some(Place::ErrorBackoff));
    assert!(world.is_clean());
}

#[test]
fn a_nomination_that_goes_lets_equal_and_less_important_pods_try() {
    use kube_scheduler_framework::{ClusterEvent, EventRegistration};
    let freed = EventRegistration::always(ClusterEvent::ASSIGNED_POD_DELETE);
    let mut world =
        World::new(vec![Toy::new("F").filter(|_, _| Status::unschedulable("no")).wants(freed)]);
    for (name, priority) in [("low", 1), ("equal", 5), ("high", 6)] {
        world.try_pod(&important(name, priority));
    }
    let mid = crate::world::nominated("mid", "n1", 5);
    world.apply(&mid);
    world.delete(&mid);
    assert_eq!(world.place("low"), Some(Place::Backoff));
    assert_eq!(world.place("equal"), Some(Place::Backoff));
    assert_eq!(world.place("high"), Some(Place::Unschedulable));
}
