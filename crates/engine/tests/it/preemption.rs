//! Pods that make room for others: in the background, step by step, answers and all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kube_scheduler_config::Gate;
use kube_scheduler_engine::{EndedPreemption, EvictionOutcome};
use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::{
    ActionType, ClusterEvent, Completion, EventRegistration, EventResource, NominatingInfo,
    PermitDecision, PostFilterOutcome, Status,
};
use kube_scheduler_queue::Place;
use serde_json::json;

use crate::toy::Toy;
use crate::toy_scheduler::{ToyScheduler, important, nominated, pod, running, seconds};

const FAILED: &str =
    "event ns/big Warning FailedScheduling Scheduling \"0/1 nodes are available: 1 full.\"";
const NOMINATED: &str = "patch ns/big uid=big-uid nominated=n1 PodScheduled=False \
                         reason=Unschedulable message=\"0/1 nodes are available: 1 full.\"";

/// Turns `big` down everywhere as long as the flag is up, and evicts `victims` for it from `n1`. The plugins wait for the
/// events that the real ones wait for.
fn evicting(victims: Vec<Arc<Pod>>) -> (Vec<Toy>, Arc<AtomicBool>) {
    let is_full = Arc::new(AtomicBool::new(true));
    let full = is_full.clone();
    let deleted = || ClusterEvent::new(EventResource::Pod, ActionType::DELETE);
    let filter = Toy::new("F")
        .filter(move |pod, _| {
            if &*pod.name == "big" && full.load(Ordering::Relaxed) {
                Status::unschedulable("full")
            } else {
                Status::SUCCESS
            }
        })
        .wants(EventRegistration::always(deleted()));
    let preempt = Toy::new("P")
        .post_filter(move |_, _| PostFilterOutcome {
            nominating: Some(NominatingInfo::Override(Some("n1".into()))),
            victims: victims.clone(),
            found_by: None,
            status: Status::SUCCESS,
        })
        .holds()
        .wants(EventRegistration::with_hint(deleted(), |_, _, _, _| false));
    (vec![filter, preempt], is_full)
}

/// `big` has just been tried, and found its victims.
fn preempting(victims: &[Arc<Pod>]) -> (ToyScheduler, Arc<AtomicBool>) {
    preempting_with(victims, Vec::new(), true)
}

fn preempting_with(
    victims: &[Arc<Pod>],
    more: Vec<Toy>,
    in_background: bool,
) -> (ToyScheduler, Arc<AtomicBool>) {
    let (mut toys, is_full) = evicting(victims.to_vec());
    toys.extend(more);
    let mut scheduler = ToyScheduler::configured(toys, |_, options| {
        options.keeps_bound = true;
        let gates = std::mem::take(&mut options.gates);
        options.gates = gates.with(Gate::SchedulerAsyncPreemption, in_background);
    });
    scheduler.node("n1");
    victims.iter().for_each(|victim| scheduler.apply(victim));
    (scheduler, is_full)
}

fn try_big(scheduler: &mut ToyScheduler) {
    assert_eq!(
        scheduler.try_pod(&important("big", 9)),
        "unschedulable 0/1 nodes are available: 1 full."
    );
}

fn evict(token: u64, name: &str) -> String {
    format!(
        "evict #{token} ns/{name} uid={name}-uid DisruptionTarget=True \
         reason=PreemptionByScheduler message=\"s: preempting to accommodate a higher priority pod\""
    )
}

fn reported(name: &str) -> String {
    format!("event ns/{name} Normal Preempted Preempting \"Preempted by pod big-uid on node n1\"")
}

fn dying(name: &str, node: &str) -> Arc<Pod> {
    pod(&format!("{name} version=3 deleted=2024-01-01T00:00:00Z node={node}"))
}

#[test]
fn all_victims_but_the_last_go_first_and_each_is_reported_when_it_has_gone() {
    let victims = ["v1", "v2", "v3"].map(|name| running(name, "n1"));
    let (mut scheduler, _) = preempting(&victims);
    try_big(&mut scheduler);
    assert_eq!(
        scheduler.effects(),
        [FAILED.to_owned(), NOMINATED.to_owned(), evict(1, "v1"), evict(2, "v2")]
    );
    assert_eq!(scheduler.engine.queue().nomination("big-uid"), Some("n1"));
    scheduler.evicted(2, Ok(EvictionOutcome::Deleted));
    assert_eq!(scheduler.effects(), [reported("v2")]);
    scheduler.evicted(1, Ok(EvictionOutcome::Deleted));
    assert_eq!(scheduler.effects(), [reported("v1"), evict(3, "v3")]);
    assert_eq!(scheduler.engine.n_preempting(), 1);
    scheduler.evicted(3, Ok(EvictionOutcome::Deleted));
    assert_eq!(scheduler.effects(), [reported("v3")]);
    assert_eq!(scheduler.engine.n_preempting(), 0);
    // An answer is good for once.
    scheduler.evicted(3, Ok(EvictionOutcome::Deleted));
    assert_eq!(scheduler.effects(), Vec::<String>::new());
    let counts = scheduler.engine.drain_preemption_counts();
    assert_eq!(counts.victims, [3]);
    assert_eq!(counts.ended, [EndedPreemption { is_error: false, length: seconds(0) }]);
}

#[test]
fn the_preemptor_is_held_back_until_the_last_victim_goes() {
    let victims = ["v1", "v2"].map(|name| running(name, "n1"));
    let (mut scheduler, is_full) = preempting(&victims);
    try_big(&mut scheduler);
    scheduler.effects();
    scheduler.evicted(1, Ok(EvictionOutcome::Deleted));
    scheduler.delete(&victims[0]);
    scheduler.advance(seconds(30));
    assert_eq!(scheduler.place("big"), Some(Place::Unschedulable), "v2 is still there");
    // The deletion is seen before it is answered.
    scheduler.delete(&victims[1]);
    is_full.store(false, Ordering::Relaxed);
    assert_eq!(scheduler.attempt(), "assumed n1");
    scheduler.evicted(2, Ok(EvictionOutcome::Deleted));
    assert_eq!(scheduler.engine.n_preempting(), 0);
}

#[test]
fn a_last_victim_that_takes_its_time_does_not_hold_the_preemptor_back() {
    let victims = [running("v1", "n1")];
    let (mut scheduler, _) = preempting(&victims);
    let other = running("other", "n1");
    scheduler.apply(&other);
    try_big(&mut scheduler);
    scheduler.apply(&dying("v1", "n1"));
    scheduler.delete(&other);
    scheduler.advance(seconds(30));
    assert_eq!(scheduler.attempt(), "unschedulable 0/1 nodes are available: 1 full.");
}

#[test]
fn victims_that_go_anyway_are_left_alone() {
    let victims = [dying("v1", "n1"), running("v2", "n1")];
    let (mut scheduler, _) = preempting(&victims);
    try_big(&mut scheduler);
    assert_eq!(scheduler.effects()[2..], [evict(1, "v2")]);
    assert_eq!(scheduler.engine.drain_preemption_counts().victims, [2], "but it is counted");

    let (mut scheduler, _) = preempting(&victims[..1]);
    try_big(&mut scheduler);
    assert_eq!(scheduler.effects(), [FAILED, NOMINATED]);
    assert_eq!(scheduler.engine.n_preempting(), 0);
    assert_eq!(scheduler.engine.drain_preemption_counts().victims, [0_usize; 0]);
}

#[test]
fn a_victim_that_is_marked_already_is_not_marked_again() {
    let marked = |message: &str| {
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
            "message": message, "lastTransitionTime": "2024-01-01T00:00:00Z",
        });
        pod(&format!("v node=n1 {}", json!({"status": {"conditions": [condition]}})))
    };
    let own = marked("s: preempting to accommodate a higher priority pod");
    let (mut scheduler, _) = preempting(&[own]);
    try_big(&mut scheduler);
    assert_eq!(scheduler.effects()[2..], ["evict #1 ns/v uid=v-uid"]);
    let (mut scheduler, _) = preempting(&[marked("somebody else's")]);
    try_big(&mut scheduler);
    assert_eq!(scheduler.effects()[2..], [evict(1, "v")]);
}

#[test]
fn a_victim_that_is_gone_is_as_good_as_evicted_and_not_told() {
    let victims = ["v1", "v2"].map(|name| running(name, "n1"));
    let (mut scheduler, _) = preempting(&victims);
    try_big(&mut scheduler);
    scheduler.effects();
    scheduler.evicted(1, Ok(EvictionOutcome::AlreadyGone));
    assert_eq!(scheduler.effects(), [evict(2, "v2")]);
    scheduler.evicted(2, Ok(EvictionOutcome::AlreadyGone));
    assert_eq!(scheduler.effects(), Vec::<String>::new());
}

#[test]
fn a_failed_eviction_spares_the_last_victim_and_lets_the_preemptor_try_again() {
    let victims = ["v1", "v2", "v3"].map(|name| running(name, "n1"));
    let (mut scheduler, _) = preempting(&victims);
    try_big(&mut scheduler);
    scheduler.effects();
    scheduler.evicted(1, Err("boom"));
    scheduler.evicted(2, Ok(EvictionOutcome::Deleted));
    assert_eq!(scheduler.effects(), [reported("v2")], "and v3 stays");
    assert_eq!(scheduler.place("big"), Some(Place::Active), "without backoff");
    assert!(scheduler.engine.drain_preemption_counts().ended[0].is_error);
    // It tries again, and again.
    assert_eq!(scheduler.attempt(), "unschedulable 0/1 nodes are available: 1 full.");
    assert_eq!(scheduler.engine.n_preempting(), 1);
}

#[test]
fn a_failed_eviction_of_the_last_victim_lets_the_preemptor_try_again() {
    let (mut scheduler, _) = preempting(&[running("v", "n1")]);
    try_big(&mut scheduler);
    assert_eq!(scheduler.place("big"), Some(Place::Unschedulable));
    scheduler.evicted(1, Err("boom"));
    assert_eq!(scheduler.place("big"), Some(Place::Active));
    let notes: Vec<String> = scheduler.engine.drain_notes().collect();
    assert_eq!(notes, ["error occurred during async preemption for pod ns/big: boom"]);
}

#[test]
fn evictions_that_fail_again_and_again_are_tried_after_a_backoff_that_grows() {
    let victim = running("v", "n1");
    let (mut scheduler, _) = preempting(std::slice::from_ref(&victim));
    try_big(&mut scheduler);
    scheduler.evicted(1, Err("boom"));
    let failures = |scheduler: &ToyScheduler| {
        let sizes = scheduler.engine.table_sizes();
        let found = sizes.iter().find(|it| it.table == "preemptors whose last preemption failed");
        found.map(|it| it.n_entries)
    };
    for (token, waits) in [(2, 1), (3, 2), (4, 4), (5, 8), (6, 10), (7, 10)] {
        assert_eq!(scheduler.place("big"), Some(Place::Active), "before eviction {token}");
        scheduler.attempt();
        scheduler.evicted(token, Err("boom"));
        assert_eq!(scheduler.place("big"), Some(Place::ErrorBackoff), "after eviction {token}");
        assert!(!scheduler.engine.has_ready());
        scheduler.advance(seconds(waits));
        assert_eq!(scheduler.place("big"), Some(Place::ErrorBackoff), "after eviction {token}");
        scheduler.advance(seconds(1));
    }
    scheduler.attempt();
    scheduler.evicted(8, Ok(EvictionOutcome::Deleted));
    assert_eq!(failures(&scheduler), Some(0));
}

#[test]
fn victims_that_went_before_their_turn_leave_nobody_waiting() {
    let victims = ["v1", "v2"].map(|name| running(name, "n1"));
    let (mut scheduler, _) = preempting(&victims);
    try_big(&mut scheduler);
    scheduler.effects();
    victims.iter().for_each(|victim| scheduler.delete(victim));
    assert_eq!(scheduler.place("big"), Some(Place::Unschedulable), "v2 has not had its turn");
    scheduler.evicted(1, Ok(EvictionOutcome::Deleted));
    assert_eq!(scheduler.place("big"), Some(Place::Unschedulable));
    scheduler.evicted(2, Ok(EvictionOutcome::AlreadyGone));
    assert_eq!(scheduler.place("big"), Some(Place::Active));
}

#[test]
fn nominations_of_less_important_pods_go_first() {
    let victims = [running("v", "n1")];
    let (mut scheduler, _) = preempting(&victims);
    for (name, priority) in [("low", 1), ("equal", 9)] {
        scheduler.apply(&nominated(name, "n1", priority));
    }
    let elsewhere = nominated("elsewhere", "n2", 1);
    scheduler.apply(&elsewhere);
    assert_eq!(scheduler.attempt(), "assumed n1", "equal");
    scheduler.apply(&nominated("equal2", "n1", 9));
    scheduler.apply(&important("big", 99));
    assert_eq!(scheduler.attempt(), "unschedulable 0/1 nodes are available: 1 full.");
    let effects = scheduler.effects();
    let cleared: Vec<&String> =
        effects.iter().filter(|effect| effect.starts_with("clear-nomination")).collect();
    assert_eq!(
        cleared,
        ["clear-nomination #1 ns/low uid=low-uid", "clear-nomination #2 ns/equal2 uid=equal2-uid"]
    );
    assert!(!effects.iter().any(|effect| effect.starts_with("evict")));
    scheduler.cleared(1, Err("boom"));
    assert_eq!(scheduler.effects(), Vec::<String>::new());
    scheduler.cleared(2, Ok(()));
    assert_eq!(scheduler.effects(), [evict(3, "v")], "the error does not keep the victim");
    assert_eq!(scheduler.place("big"), Some(Place::Unschedulable));
    scheduler.evicted(3, Ok(EvictionOutcome::Deleted));
    assert_eq!(scheduler.place("big"), Some(Place::Active), "but the preemptor tries again");
}

#[test]
fn a_waiting_victim_is_sent_back_without_the_api() {
    let p = pod("p");
    let waits = Toy::new("W").permit(|_, _| PermitDecision::wait(seconds(60)));
    let (mut scheduler, _) = preempting_with(std::slice::from_ref(&p), vec![waits], true);
    scheduler.attempt();
    scheduler.effects();
    try_big(&mut scheduler);
    assert_eq!(
        scheduler.effects(),
        [
            FAILED,
            NOMINATED,
            "event ns/p Warning FailedScheduling Scheduling \"waiting on permit for pod: preempted\"",
            "patch ns/p uid=p-uid PodScheduled=False reason=SchedulerError \
             message=\"waiting on permit for pod: preempted\"",
            "event ns/p Normal Preempted Preempting \
             \"Preempted by pod big-uid on node n1 (in kube-scheduler memory).\"",
        ]
    );
    assert_eq!(scheduler.place("p"), Some(Place::ErrorBackoff));
    assert_eq!(scheduler.place("big"), Some(Place::Backoff), "what it gives back is heard of");
    assert!(scheduler.is_clean());
}

fn slow_pre_bind() -> Toy {
    Toy::new("B").pre_bind(|_, _| Completion::Pending(Box::pin(std::future::pending())))
}

#[test]
fn a_victim_in_pre_bind_is_stopped_without_the_api() {
    let p = pod("p");
    for answer in [Status::error("context canceled"), Status::SUCCESS] {
        let message = "running PreBind plugin \\\"B\\\": preempted by P";
        let (mut scheduler, _) =
            preempting_with(std::slice::from_ref(&p), vec![slow_pre_bind()], true);
        scheduler.attempt();
        scheduler.effects();
        try_big(&mut scheduler);
        assert_eq!(
            scheduler.effects()[2..],
            [
                "cancel #1",
                "event ns/p Normal Preempted Preempting \
                 \"Preempted by pod big-uid on node n1 (in kube-scheduler memory).\"",
            ]
        );
        assert!(scheduler.is_assumed(&p), "its work has not ended yet");
        assert_eq!(scheduler.place("big"), Some(Place::Unschedulable));
        scheduler.finished(1, answer);
        assert_eq!(
            scheduler.effects()[..2],
            [
                format!("event ns/p Warning FailedScheduling Scheduling \"{message}\""),
                format!(
                    "patch ns/p uid=p-uid PodScheduled=False reason=SchedulerError message=\"{message}\""
                ),
            ]
        );
        assert_eq!(scheduler.place("p"), Some(Place::ErrorBackoff));
        assert_eq!(scheduler.place("big"), Some(Place::Backoff));
        assert!(scheduler.is_clean());
    }
}

#[test]
fn a_victim_whose_binding_is_being_written_is_deleted() {
    let p = pod("p");
    let (mut scheduler, _) = preempting_with(std::slice::from_ref(&p), Vec::new(), true);
    scheduler.attempt();
    scheduler.effects();
    try_big(&mut scheduler);
    assert_eq!(scheduler.effects()[2..], [evict(1, "p")]);
}

#[test]
fn in_the_foreground_the_attempt_waits_for_its_victims_and_so_does_everybody() {
    let victims = ["v1", "v2"].map(|name| running(name, "n1"));
    let (mut scheduler, _) = preempting_with(&victims, Vec::new(), false);
    scheduler.apply(&nominated("low", "n1", 1));
    scheduler.apply(&important("big", 9));
    assert_eq!(scheduler.attempt(), "unschedulable 0/1 nodes are available: 1 full.");
    assert_eq!(scheduler.effects(), [evict(1, "v1"), evict(2, "v2")]);
    assert!(!scheduler.engine.has_ready());
    assert_eq!(scheduler.attempt(), "nobody");
    scheduler.evicted(1, Ok(EvictionOutcome::Deleted));
    scheduler.evicted(2, Ok(EvictionOutcome::Deleted));
    let clear = "clear-nomination #3 ns/low uid=low-uid".to_owned();
    assert_eq!(scheduler.effects(), [reported("v1"), reported("v2"), clear]);
    assert_eq!(scheduler.engine.queue().nomination("big-uid"), None);
    scheduler.cleared(3, Err("which is not that bad"));
    assert_eq!(scheduler.effects(), [FAILED, NOMINATED]);
    assert_eq!(scheduler.engine.queue().nomination("big-uid"), Some("n1"));
    assert_eq!(scheduler.attempt(), "assumed n1", "low");
    assert_eq!(scheduler.engine.drain_preemption_counts().ended, []);
}

#[test]
fn in_the_foreground_a_failed_eviction_fails_the_preemption() {
    let victims = ["v1", "v2"].map(|name| running(name, "n1"));
    let (mut scheduler, _) = preempting_with(&victims, Vec::new(), false);
    scheduler.apply(&important("big", 9));
    scheduler.attempt();
    scheduler.effects();
    scheduler.evicted(2, Err("boom"));
    scheduler.evicted(1, Ok(EvictionOutcome::Deleted));
    let message = "0/1 nodes are available: 1 full. preemption: boom";
    assert_eq!(
        scheduler.effects(),
        [
            reported("v1"),
            format!("event ns/big Warning FailedScheduling Scheduling \"{message}\""),
            format!(
                "patch ns/big uid=big-uid PodScheduled=False reason=Unschedulable message=\"{message}\""
            ),
        ]
    );
    assert_eq!(scheduler.engine.queue().nomination("big-uid"), None);
}

#[test]
fn plugins_after_score_see_nominations_too() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let sees = seen.clone();
    let looks = Toy::new("L").permit(|_, _| PermitDecision::allow()).asks(move |cx, _, _| {
        let names = cx.nominated().nominated_pods("n1").into_iter().map(|pod| pod.name.to_string());
        sees.lock().unwrap().extend(names.collect::<Vec<_>>());
    });
    let mut scheduler = ToyScheduler::new(vec![looks]);
    scheduler.apply(&nominated("later", "n1", 1));
    scheduler.try_pod(&important("now", 9));
    assert_eq!(*seen.lock().unwrap(), ["later"]);
}

#[test]
fn a_pod_that_comes_with_a_nomination_keeps_it() {
    let mut scheduler = ToyScheduler::new(vec![Toy::new("F").filter(|pod, node| {
        if &*pod.name == "mid" && node != "n2" {
            Status::unschedulable("no")
        } else {
            Status::SUCCESS
        }
    })]);
    scheduler.node("n2");
    // As after a restart: what was nominated is reported by the pods themselves.
    scheduler.apply(&nominated("mid", "n2", 5));
    assert_eq!(scheduler.engine.queue().nomination("mid-uid"), Some("n2"));
    assert_eq!(scheduler.attempt(), "assumed n2");
    assert_eq!(scheduler.engine.queue().nomination("mid-uid"), None);
}

#[test]
fn a_nomination_that_goes_lets_equal_and_less_important_pods_try() {
    let freed = EventRegistration::always(ClusterEvent::ASSIGNED_POD_DELETE);
    let mut scheduler = ToyScheduler::new(vec![
        Toy::new("F").filter(|_, _| Status::unschedulable("no")).wants(freed),
    ]);
    for (name, priority) in [("low", 1), ("equal", 5), ("high", 6)] {
        scheduler.try_pod(&important(name, priority));
    }
    let mid = nominated("mid", "n1", 5);
    scheduler.apply(&mid);
    scheduler.delete(&mid);
    assert_eq!(scheduler.place("low"), Some(Place::Backoff));
    assert_eq!(scheduler.place("equal"), Some(Place::Backoff));
    assert_eq!(scheduler.place("high"), Some(Place::Unschedulable));
}
