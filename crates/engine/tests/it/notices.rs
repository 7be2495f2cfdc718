//! What a shell that writes a log is given.

use kube_scheduler_engine::{Notice, RejectionStage};
use kube_scheduler_framework::{BindOutcome, Completion, PermitDecision, Status};

use crate::toy::Toy;
use crate::world::{World, pod, seconds};

/// The kinds of notices since the last call, in order.
fn kinds(world: &mut World) -> Vec<String> {
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
    world.engine.drain_notices().iter().map(kind).collect()
}

#[test]
fn nothing_is_kept_unless_it_is_asked_for() {
    let mut world = World::new(vec![]);
    world.try_pod(&pod("a"));
    assert_eq!(world.engine.drain_notices(), []);
    world.engine.set_verbosity(5);
    world.apply(&pod("b"));
    assert_eq!(kinds(&mut world), ["Active gated=false"]);
    world.engine.set_verbosity(0);
    world.try_pod(&pod("c"));
    assert_eq!(world.engine.drain_notices(), []);
}

#[test]
fn a_bound_pod_comes_with_the_numbers_of_nodes() {
    let mut world = World::new(vec![Toy::new("A").filter(|_, node| {
        if node == "n2" { Status::unschedulable("no") } else { Status::SUCCESS }
    })]);
    world.nodes(3);
    world.engine.set_verbosity(2);
    world.try_pod(&pod("p"));
    world.written(1, Ok(()));
    let seen = kinds(&mut world);
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
        let mut world = World::new(vec![toy]);
        world.engine.set_verbosity(4);
        world.try_pod(&pod("p"));
        let seen = kinds(&mut world);
        let expected = format!("A {at:?}: no");
        assert!(seen.contains(&expected), "{expected:?} is not in {seen:?}");
    }
}

#[test]
fn a_wait_and_its_end_are_reported() {
    let mut world = World::new(vec![Toy::new("A").permit(|_, _| PermitDecision::wait(seconds(5)))]);
    world.engine.set_verbosity(4);
    world.try_pod(&pod("p"));
    assert!(kinds(&mut world).contains(&"p waits".to_owned()));
    world.advance(seconds(6));
    let seen = kinds(&mut world);
    assert!(seen.iter().any(|kind| kind.starts_with("Permit: ")), "{seen:?}");
    assert!(seen.iter().any(|kind| kind.ends_with(" QueueSkip")), "{seen:?}");
}

#[test]
fn a_gate_is_named() {
    let mut world =
        World::new(vec![Toy::new("Gate").pre_enqueue(|_, _| Status::unschedulable("closed"))]);
    world.engine.set_verbosity(5);
    world.apply(&pod("p"));
    assert_eq!(kinds(&mut world), ["Gate: closed", "Unschedulable gated=true"]);
}
