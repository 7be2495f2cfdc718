//! What a shell that writes a log is given.

use kube_scheduler_engine::{Notice, RejectionStage};
use kube_scheduler_framework::{BindOutcome, Completion, PermitDecision, Status};

use crate::toy::Toy;
use crate::toy_scheduler::{ToyScheduler, pod, seconds};

/// The kinds of notices since the last call, in order.
fn kinds(scheduler: &mut ToyScheduler) -> Vec<String> {
    let kind = |notice: &Notice| match notice {
        Notice::PodMoved { queue, hint: Some(hint), .. } => format!("{queue} {hint}"),
        Notice::PodMoved { queue, is_gated, .. } => format!("{queue} gated={is_gated}"),
        Notice::EventDoesNotHelp { event, .. } => format!("{event} does not help"),
        Notice::EventSeenInFlight(event) => format!("{event} in flight"),
        Notice::Gated { plugin, status, .. } => format!("{plugin}: {status}"),
        Notice::RejectedByPlugin { plugin, at, status, .. } => format!("{plugin} {at:?}: {status}"),
        Notice::PreFilterEnded { status, .. } => format!("PreFilter: {status}"),
        Notice::PostFilterEnded { status, .. } => format!("PostFilter: {status}"),
        Notice::WaitsOnPermit(pod) => format!("{} waits", pod.name),
        Notice::RejectedOnPermit { status, .. } => format!("Permit: {status}"),
        Notice::Bound { node, n_evaluated, n_feasible, .. } => {
            format!("bound to {node}, {n_feasible} of {n_evaluated}")
        }
        other => format!("{other:?}"),
    };
    scheduler.engine.drain_notices().iter().map(kind).collect()
}

#[test]
fn nothing_is_kept_unless_it_is_asked_for() {
    let mut scheduler = ToyScheduler::new(vec![]);
    scheduler.try_pod(&pod("a"));
    assert_eq!(scheduler.engine.drain_notices(), []);
    scheduler.engine.set_verbosity(5);
    scheduler.apply(&pod("b"));
    assert_eq!(kinds(&mut scheduler), ["Active gated=false"]);
    scheduler.engine.set_verbosity(0);
    scheduler.try_pod(&pod("c"));
    assert_eq!(scheduler.engine.drain_notices(), []);
}

#[test]
fn a_bound_pod_comes_with_the_numbers_of_nodes() {
    let mut scheduler = ToyScheduler::new(vec![Toy::new("A").filter(|_, node| {
        if node == "n2" { Status::unschedulable("no") } else { Status::SUCCESS }
    })]);
    scheduler.nodes(3);
    scheduler.engine.set_verbosity(2);
    scheduler.try_pod(&pod("p"));
    scheduler.written(1, Ok(()));
    let seen = kinds(&mut scheduler);
    assert!(matches!(&*seen, [one] if one.ends_with(", 2 of 3")), "{seen:?}");
}

#[test]
fn rejections_name_the_plugin_and_the_point() {
    let no = || Status::unschedulable("no");
    let toys: [(Toy, RejectionStage); 4] = [
        (Toy::new("A").reserve(move |_, _| no()), RejectionStage::BeforeBinding),
        (
            Toy::new("A").permit(move |_, _| PermitDecision::deny(no())),
            RejectionStage::BeforeBinding,
        ),
        (Toy::new("A").pre_bind(move |_, _| Completion::Ready(no())), RejectionStage::PreBind),
        (Toy::new("A").bind(move |_, _| BindOutcome::Ready(no())), RejectionStage::Bind),
    ];
    for (toy, at) in toys {
        let mut scheduler = ToyScheduler::new(vec![toy]);
        scheduler.engine.set_verbosity(4);
        scheduler.try_pod(&pod("p"));
        let seen = kinds(&mut scheduler);
        let expected = format!("A {at:?}: no");
        assert!(seen.contains(&expected), "{expected:?} is not in {seen:?}");
    }
}

#[test]
fn a_wait_and_its_end_are_reported() {
    let mut scheduler =
        ToyScheduler::new(vec![Toy::new("A").permit(|_, _| PermitDecision::wait(seconds(5)))]);
    scheduler.engine.set_verbosity(4);
    scheduler.try_pod(&pod("p"));
    assert!(kinds(&mut scheduler).contains(&"p waits".to_owned()));
    scheduler.advance(seconds(6));
    let seen = kinds(&mut scheduler);
    assert!(seen.iter().any(|kind| kind.starts_with("Permit: ")), "{seen:?}");
    assert!(seen.iter().any(|kind| kind.ends_with(" QueueSkip")), "{seen:?}");
}

#[test]
fn a_gate_is_named() {
    let mut scheduler = ToyScheduler::new(vec![
        Toy::new("Gate").pre_enqueue(|_, _| Status::unschedulable("closed")),
    ]);
    scheduler.engine.set_verbosity(5);
    scheduler.apply(&pod("p"));
    assert_eq!(kinds(&mut scheduler), ["Gate: closed", "Unschedulable gated=true"]);
}
