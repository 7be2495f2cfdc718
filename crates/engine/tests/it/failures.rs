//! What is reported to users about an attempt that failed, and what happens to the pod's nomination.

use std::sync::Arc;

use kube_scheduler_engine::Effect;
use kube_scheduler_framework::api::{Pod, Timestamp};
use kube_scheduler_framework::{NominatingInfo, PostFilterOutcome, Status};
use kube_scheduler_queue::Place;
use serde_json::json;

use crate::toy::Toy;
use crate::toy_scheduler::{START, ToyScheduler, leaving, nominated, pod, seconds};

fn rejecting(reason: &'static str) -> Toy {
    Toy::new("F").filter(move |_, _| Status::unschedulable(reason))
}

fn failing() -> Toy {
    Toy::new("F").filter(|_, _| Status::error("boom"))
}

fn nominating(nominating: Option<NominatingInfo>) -> Toy {
    Toy::new("P").post_filter(move |_, _| PostFilterOutcome {
        nominating: nominating.clone(),
        victims: Vec::new(),
        found_by: None,
        status: Status::unschedulable("tried."),
    })
}

/// A pod that failed with `message` an hour ago, and may be nominated.
fn failed_with(message: &str, node: Option<&str>) -> Arc<Pod> {
    let condition = json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": message, "lastTransitionTime": "1970-01-01T00:00:07Z",
    });
    let node = node.map_or_else(String::new, |node| format!("nominated={node}"));
    let status = json!({"metadata": {"generation": 4}, "status": {"conditions": [condition]}});
    pod(&format!("p {node} {status}"))
}

const FULL: &str = "0/1 nodes are available: 1 full.";

#[test]
fn a_new_condition_is_complete() {
    let mut scheduler = ToyScheduler::new(vec![rejecting("full")]);
    scheduler.try_pod(&pod(r#"p {"metadata": {"generation": 4}}"#));
    let patches = scheduler.patches();
    let condition = patches[0].condition.clone().unwrap();
    assert_eq!((&*condition.kind, &*condition.status), ("PodScheduled", "False"));
    assert_eq!((&*condition.reason, &*condition.message), ("Unschedulable", FULL));
    assert_eq!((condition.last_probe, condition.last_transition), (None, Some(START)));
    assert_eq!(condition.observed_generation, 4);
    assert_eq!((patches[0].has_conditions, &patches[0].nominated_node_name), (false, &None));
}

#[test]
fn nothing_new_is_not_written() {
    let mut scheduler = ToyScheduler::new(vec![rejecting("full")]);
    scheduler.try_pod(&failed_with(FULL, None));
    let effects = scheduler.effects();
    assert_eq!(effects.len(), 1, "only the event: {effects:?}");
}

#[test]
fn a_new_message_keeps_the_time_of_transition() {
    let mut scheduler = ToyScheduler::new(vec![rejecting("full")]);
    scheduler.try_pod(&failed_with("something else", None));
    let patches = scheduler.patches();
    let condition = patches[0].condition.clone().unwrap();
    assert_eq!(&*condition.message, FULL);
    assert_eq!(condition.last_transition, Timestamp::parse("1970-01-01T00:00:07Z"));
    assert!(patches[0].has_conditions);
}

#[test]
fn a_new_nomination_alone_is_written_alone() {
    let to_n1 = nominating(Some(NominatingInfo::Override(Some("n1".into()))));
    let mut scheduler = ToyScheduler::new(vec![rejecting("full"), to_n1]);
    scheduler.try_pod(&failed_with(&format!("{FULL} tried."), None));
    let patches = scheduler.patches();
    assert_eq!(patches.len(), 1);
    assert_eq!(patches[0].condition, None);
    assert_eq!(patches[0].nominated_node_name, Some(Some("n1".into())));
}

#[test]
fn long_messages_are_cut_in_events_only() {
    let cases = [("x", 2_000, 1_020), ("é", 1_000, 1_020)];
    for (letter, n, cut) in cases {
        let reason: &'static str = letter.repeat(n).leak();
        let mut scheduler = ToyScheduler::new(vec![rejecting(reason)]);
        scheduler.try_pod(&pod("p"));
        let message = format!("0/1 nodes are available: 1 {reason}.");
        let effects = scheduler.raw_effects();
        let Effect::RecordEvent { note, .. } = &effects[0] else { panic!("{effects:?}") };
        let kept = note.strip_suffix(" ...").unwrap();
        assert!(message.starts_with(kept) && (cut - 1..=cut).contains(&kept.len()), "{letter}");
        let Effect::PatchStatus { patch, .. } = &effects[1] else { panic!("{effects:?}") };
        assert_eq!(*patch.condition.clone().unwrap().message, message);
    }
    let exact: &'static str = "x".repeat(1_024 - "0/1 nodes are available: 1 .".len()).leak();
    let mut scheduler = ToyScheduler::new(vec![rejecting(exact)]);
    scheduler.try_pod(&pod("p"));
    let effects = scheduler.raw_effects();
    assert!(matches!(&effects[0], Effect::RecordEvent { note, .. } if note.len() == 1_024));
}

/// The nomination in the patch and in the queue after `p`, nominated to `n9`, failed.
fn nomination_after(toys: Vec<Toy>) -> (Option<Option<Arc<str>>>, Option<String>) {
    let mut scheduler = ToyScheduler::new(toys);
    scheduler.try_pod(&nominated("p", "n9", 0));
    let patches = scheduler.patches();
    assert_eq!(patches.len(), 1);
    let node = scheduler.engine.queue().nomination("p-uid").filter(|node| !node.is_empty());
    (patches[0].nominated_node_name.clone(), node.map(str::to_owned))
}

#[test]
fn nominations_are_kept_changed_or_cleared() {
    let with = |info| vec![rejecting("full"), nominating(info)];
    let kept = (None, Some("n9".to_owned()));
    let cleared = (Some(None), None);
    assert_eq!(nomination_after(with(None)), kept);
    assert_eq!(nomination_after(with(Some(NominatingInfo::Keep))), kept);
    assert_eq!(nomination_after(with(Some(NominatingInfo::Override(None)))), cleared);
    assert_eq!(
        nomination_after(with(Some(NominatingInfo::Override(Some("n1".into()))))),
        (Some(Some("n1".into())), Some("n1".to_owned()))
    );
    assert_eq!(nomination_after(vec![rejecting("full")]), cleared, "no PostFilter plugins");
    assert_eq!(nomination_after(vec![failing(), nominating(None)]), cleared, "an error");
    let reserve = Toy::new("R").reserve(|_, _| Status::unschedulable("no"));
    assert_eq!(nomination_after(vec![reserve]), cleared, "a rejection after the search");
}

#[test]
fn assuming_a_pod_ends_its_nomination_in_the_queue() {
    let mut scheduler = ToyScheduler::new(vec![]);
    let p = nominated("p", "n9", 0);
    scheduler.apply(&p);
    assert_eq!(scheduler.engine.queue().nomination("p-uid"), Some("n9"));
    assert_eq!(scheduler.attempt(), "assumed n1");
    assert_eq!(scheduler.engine.queue().nomination("p-uid"), None);
}

#[test]
fn what_post_filter_says_follows_the_counts() {
    let mut scheduler = ToyScheduler::new(vec![rejecting("full"), nominating(None)]);
    assert_eq!(scheduler.try_pod(&pod("p")), format!("unschedulable {FULL} tried."));
    assert_eq!(scheduler.place("p"), Some(Place::Unschedulable));
}

#[test]
fn an_error_backs_off_and_blames_nobody() {
    let mut scheduler = ToyScheduler::new(vec![failing()]);
    assert_eq!(scheduler.try_pod(&pod("p")), "error running \"F\" filter plugin: boom");
    assert_eq!(
        scheduler.effects()[1],
        "patch ns/p uid=p-uid PodScheduled=False reason=SchedulerError \
         message=\"running \\\"F\\\" filter plugin: boom\""
    );
    assert_eq!(scheduler.place("p"), Some(Place::ErrorBackoff));
}

#[test]
fn without_nodes_the_pod_backs_off_longer_and_longer() {
    let mut scheduler = ToyScheduler::without_nodes(vec![rejecting("never asked")]);
    scheduler.apply(&pod("p"));
    for wait in [1, 2, 4, 8, 10, 10] {
        assert_eq!(scheduler.attempt(), "unschedulable no nodes available to schedule pods");
        assert_eq!(scheduler.place("p"), Some(Place::ErrorBackoff));
        let start = scheduler.now;
        let deadline = scheduler.engine.next_deadline().unwrap();
        let waited = deadline.saturating_since(start);
        assert!(waited >= seconds(wait) && waited <= seconds(wait + 1), "{waited:?}");
        assert_eq!(scheduler.attempt(), "nobody");
        scheduler.advance(waited);
    }
    assert_eq!(scheduler.calls(), Vec::<String>::new());
    assert!(scheduler.effects()[1].contains("reason=Unschedulable"));
}

#[test]
fn a_pod_being_deleted_is_skipped_and_that_is_reported() {
    let mut scheduler = ToyScheduler::new(vec![rejecting("never asked")]);
    assert_eq!(scheduler.try_pod(&leaving("p")), "skipped");
    assert_eq!(
        scheduler.effects(),
        ["event ns/p Warning FailedScheduling Scheduling \"skip schedule deleting pod: ns/p\""]
    );
    assert_eq!((scheduler.place("p"), scheduler.attempt()), (None, "nobody".to_owned()));
    assert!(!scheduler.engine.queue().is_in_flight("p-uid"));
    assert_eq!(scheduler.calls(), Vec::<String>::new());
}
