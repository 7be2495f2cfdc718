//! Explanations, and where pods are.

use std::time::Duration;

use kube_scheduler_engine::{PodStage, WorkLimits};
use kube_scheduler_framework::{
    ActionType, ClusterEvent, EventRegistration, EventResource, PermitDecision, PreFilterOutcome,
    Status,
};

use crate::toy::Toy;
use crate::toy_scheduler::{START, ToyScheduler, nominated, pod, running, seconds};

fn rejecting(name: &'static str, nodes: &'static [&'static str]) -> Toy {
    Toy::new(name).filter(move |_, node| {
        if nodes.contains(&node) { Status::unschedulable(name) } else { Status::SUCCESS }
    })
}

fn with_nodes(toys: Vec<Toy>, n: usize) -> ToyScheduler {
    let mut scheduler = ToyScheduler::without_nodes(toys);
    scheduler.nodes(n);
    scheduler
}

#[test]
fn every_rejection_of_a_node_is_given_and_the_first_is_that_of_the_attempt() {
    let mut scheduler = with_nodes(vec![rejecting("A", &["n0"]), rejecting("B", &["n0", "n1"])], 3);
    let answer = scheduler.engine.explain(&pod("p"), 0, scheduler.now).unwrap();
    let all: Vec<String> = answer
        .nodes
        .iter()
        .map(|node| {
            let further: Vec<String> = node.further.iter().map(Status::message).collect();
            format!("{} {} then {further:?}", node.name, node.status.message())
        })
        .collect();
    assert_eq!(all, ["n0 A then [\"B\"]", "n1 B then []", "n2  then []"]);
    assert_eq!(answer.chosen.as_deref(), Some("n2"));
    assert_eq!(answer.message, None);
    assert_eq!(scheduler.try_pod(&pod("p")), "assumed n2");
}

#[test]
fn a_rejection_of_the_whole_pod_hides_no_other() {
    let refusing =
        Toy::new("A").pre_filter(|_, _| PreFilterOutcome::from(Status::unresolvable("nowhere")));
    let mut scheduler = with_nodes(vec![refusing, rejecting("B", &["n0"])], 2);
    let answer = scheduler.engine.explain(&pod("p"), 0, scheduler.now).unwrap();
    let of_pod: Vec<String> = answer.of_pod.iter().map(Status::message).collect();
    assert_eq!(of_pod, ["nowhere"]);
    let further: Vec<usize> = answer.nodes.iter().map(|node| node.further.len()).collect();
    assert_eq!(further, [1, 0]);
    assert!(answer.nodes.iter().all(|node| node.status.message() == "nowhere"));
    let text = answer.message.unwrap();
    assert_eq!(scheduler.try_pod(&pod("p")), format!("unschedulable {text}"));
}

#[test]
fn scores_are_given_raw_scaled_and_weighted() {
    let scored = Toy::new("S").score(|_, node| if node == "n1" { 70 } else { 30 });
    let mut scheduler = with_nodes(vec![scored], 2);
    let answer = scheduler.engine.explain(&pod("p"), 0, scheduler.now).unwrap();
    let scores: Vec<_> = answer
        .nodes
        .iter()
        .flat_map(|node| &node.by_plugin)
        .map(|score| (&*score.plugin, score.raw, score.normalized, score.weight))
        .collect();
    assert_eq!(scores, [("S", 30, 30, 1), ("S", 70, 70, 1)]);
    assert_eq!(answer.best.len(), 1);
    assert_eq!(answer.chosen.as_deref(), Some("n1"));
}

#[test]
fn a_nominated_node_is_chosen_whatever_the_scores() {
    let scored = Toy::new("S").score(|_, node| if node == "n1" { 70 } else { 30 });
    let mut scheduler = with_nodes(vec![scored], 2);
    let answer = scheduler.engine.explain(&nominated("p", "n0", 0), 0, scheduler.now).unwrap();
    assert_eq!(answer.chosen.as_deref(), Some("n0"));
    assert_eq!(answer.best, ["n1".into()]);
    assert_eq!(scheduler.try_pod(&nominated("p", "n0", 0)), "assumed n0");
}

#[test]
fn a_pod_that_is_too_expensive_is_not_looked_at() {
    let mut scheduler = ToyScheduler::configured(vec![rejecting("A", &[])], |_, options| {
        options.work = WorkLimits { base: 1, per_node: 0, ..WorkLimits::default() };
    });
    scheduler.nodes(2);
    let expensive = pod("p selector:a=b selector:c=d");
    let answer = scheduler.engine.explain(&expensive, 0, scheduler.now).unwrap();
    let error = answer.error.unwrap().message();
    assert!(error.starts_with("the pod is too expensive to schedule"), "{error}");
    assert!(answer.nodes.is_empty() && scheduler.calls_at("Filter").is_empty());
}

#[test]
fn a_pod_is_followed_from_the_queue_to_its_node() {
    let added = ClusterEvent::new(EventResource::Node, ActionType::ADD);
    let mut scheduler = ToyScheduler::without_nodes(vec![
        Toy::new("G").pre_enqueue(|pod, _| {
            if pod.name.starts_with("gated") { Status::unresolvable("no") } else { Status::SUCCESS }
        }),
        rejecting("F", &["n1"]).wants(EventRegistration::always(added)),
        Toy::new("W").permit(|pod, _| {
            if pod.name.starts_with('w') {
                PermitDecision::wait(seconds(30))
            } else {
                PermitDecision::allow()
            }
        }),
    ]);
    scheduler.node("n1");
    let stage = |scheduler: &ToyScheduler, name: &str| {
        scheduler.engine.place_of("ns", name).map(|place| place.stage)
    };
    assert_eq!(stage(&scheduler, "p"), None);
    scheduler.apply(&pod("gated"));
    assert_eq!(stage(&scheduler, "gated"), Some(PodStage::Gated { by: "G".into() }));
    scheduler.apply(&pod("p"));
    assert_eq!(stage(&scheduler, "p"), Some(PodStage::Active));
    scheduler.attempt();
    let place = scheduler.engine.place_of("ns", "p").unwrap();
    let until = START + Duration::from_secs(300);
    assert_eq!(place.stage, PodStage::Unschedulable { until });
    assert_eq!((place.attempts, &*place.rejected_by), (1, &["F".into()][..]));
    assert_eq!(place.waits_for, ["NodeAdd"]);
    scheduler.node("n2");
    assert!(matches!(stage(&scheduler, "p"), Some(PodStage::Backoff { until: Some(_) })));
    scheduler.try_pod(&pod("w"));
    let place = scheduler.engine.place_of("ns", "w").unwrap();
    assert_eq!(place.stage, PodStage::WaitingOnPermit { plugins: vec!["W".into()] });
    assert_eq!(place.node.as_deref(), Some("n2"));
    scheduler.try_pod(&pod("q"));
    assert_eq!(stage(&scheduler, "q"), Some(PodStage::Binding));
    scheduler.apply(&running("q", "n2"));
    assert_eq!(stage(&scheduler, "q"), Some(PodStage::Bound));
}
