//! Pods that wait on Permit.

use std::time::Duration;

use kube_scheduler_config::Gate;
use kube_scheduler_engine::Input;
use kube_scheduler_framework::{
    ClusterEvent, Commands, Completion, EventRegistration, PermitDecision, PreBindFlight, Status,
};
use kube_scheduler_queue::Place;

use crate::toy::Toy;
use crate::world::{START, World, leaving, pod, seconds};

/// Lets pods named `p…` wait; every other pod goes on and does `ask` on its way.
fn waits(
    name: &'static str,
    length: Duration,
    ask: impl Fn(&mut Commands) + Send + Sync + 'static,
) -> Toy {
    Toy::new(name)
        .reserve(|_, _| Status::SUCCESS)
        .permit(move |pod, _| {
            if pod.name.starts_with('p') {
                PermitDecision::wait(length)
            } else {
                PermitDecision::allow()
            }
        })
        .asks(move |_, pod, commands| {
            if !pod.name.starts_with('p') {
                ask(commands);
            }
        })
}

fn quiet(name: &'static str, length: Duration) -> Toy {
    waits(name, length, |_| {})
}

const NOMINATED: &str = "patch ns/p uid=p-uid nominated=n1";
const BOUND: &str = "bind #1 ns/p uid=p-uid node=n1";

#[test]
fn a_waiting_pod_is_announced_and_bound_once_it_is_allowed() {
    let open = |commands: &mut Commands| commands.allow(&"p-uid".into(), &"A".into());
    let mut world = World::new(vec![waits("A", seconds(60), open)]);
    assert_eq!(world.try_pod(&pod("p")), "assumed n1");
    assert_eq!(world.effects(), [NOMINATED], "even though PreBind has nothing to do");
    assert!(world.is_assumed(&pod("p")));
    world.try_pod(&pod("opener"));
    assert_eq!(world.effects()[0], BOUND);
    assert_eq!(world.engine.next_deadline(), None);
}

#[test]
fn a_pod_may_be_allowed_from_its_own_permit_of_another_plugin() {
    let mut world = World::new(vec![
        quiet("A", seconds(60)),
        Toy::new("B")
            .permit(|_, _| PermitDecision::allow())
            .asks(|_, pod, commands| commands.allow(&pod.uid, &"A".into())),
    ]);
    world.try_pod(&pod("p"));
    assert_eq!(world.effects(), [NOMINATED, BOUND]);
}

#[test]
fn two_plugins_that_wait_must_both_allow() {
    let mut world = World::new(vec![
        quiet("A", seconds(60)),
        quiet("B", seconds(30)),
        Toy::new("Key").permit(|_, _| PermitDecision::allow()).asks(|cx, pod, commands| {
            let plugin = if &*pod.name == "first" { "B" } else { "A" };
            let waiting = cx.waiting().waiting_pod("p-uid");
            if let Some(waiting) = waiting.filter(|_| &*pod.name != "p") {
                assert_eq!(waiting.pod.node_name.as_deref(), Some("n1"));
                assert_eq!(waiting.pending_plugins.len(), if plugin == "B" { 2 } else { 1 });
                commands.allow(&"p-uid".into(), &plugin.into());
            }
        }),
    ]);
    world.try_pod(&pod("p"));
    world.effects();
    assert_eq!(world.engine.next_deadline(), Some(START + seconds(30)));
    world.try_pod(&pod("first"));
    assert!(!world.effects().contains(&BOUND.to_owned()));
    assert_eq!(world.engine.next_deadline(), Some(START + seconds(60)), "only A's wait is left");
    world.try_pod(&pod("second"));
    assert!(world.effects().iter().any(|effect| effect.ends_with("ns/p uid=p-uid node=n1")));
}

#[test]
fn a_waiting_pod_that_is_rejected_is_unschedulable() {
    let close = |commands: &mut Commands| commands.reject(&"p-uid".into(), &"A".into(), "closed");
    let mut world = World::new(vec![waits("A", seconds(60), close)]);
    world.try_pod(&pod("p"));
    world.effects();
    world.try_pod(&pod("closer"));
    let message = "0/1 nodes are available: 1 closed.";
    assert_eq!(
        world.effects()[..2],
        [
            format!("event ns/p Warning FailedScheduling Scheduling {message:?}"),
            format!(
                "patch ns/p uid=p-uid PodScheduled=False reason=Unschedulable message={message:?}"
            ),
        ]
    );
    assert_eq!(world.place("p"), Some(Place::Unschedulable));
    assert!(!world.is_assumed(&pod("p")));
}

#[test]
fn waits_end_with_their_time_in_the_known_words() {
    let lengths = [
        (seconds(5), seconds(5), "5s"),
        (Duration::from_millis(1_500), Duration::from_millis(1_500), "1.5s"),
        (seconds(3_600), seconds(900), "15m0s"),
        (seconds(0), seconds(0), "0s"),
    ];
    for (asked, given, text) in lengths {
        let mut world = World::new(vec![quiet("A", asked)]);
        world.try_pod(&pod("p"));
        world.effects();
        assert_eq!(world.engine.next_deadline(), Some(START + given));
        if let Some(before) = given.checked_sub(Duration::from_nanos(1)) {
            world.advance(before);
            assert!(world.is_assumed(&pod("p")) && world.effects().is_empty());
            world.now = START;
        }
        world.calls();
        world.advance(given);
        let message = format!(
            "0/1 nodes are available: 1 rejected due to timeout after waiting {text} at plugin A."
        );
        assert_eq!(
            world.effects()[0],
            format!("event ns/p Warning FailedScheduling Scheduling {message:?}")
        );
        assert_eq!(world.calls(), ["A.Unreserve(p)"]);
        assert_eq!(world.place("p"), Some(Place::Unschedulable));
        assert!(world.is_clean());
    }
}

#[test]
fn of_two_waits_the_shorter_one_ends_it() {
    let mut world = World::new(vec![quiet("A", seconds(9)), quiet("B", seconds(4))]);
    world.try_pod(&pod("p"));
    world.effects();
    world.advance(seconds(20));
    assert!(world.effects()[0].contains("after waiting 4s at plugin B"));
    assert!(world.effects().is_empty(), "once");
}

#[test]
fn a_pod_that_ran_out_of_time_is_not_woken_by_its_own_going() {
    let freed = EventRegistration::always(ClusterEvent::ASSIGNED_POD_DELETE);
    let other = Toy::new("F").wants(freed.clone()).filter(|pod, _| {
        if &*pod.name == "q" { Status::unschedulable("full") } else { Status::SUCCESS }
    });
    let mut world = World::new(vec![quiet("A", seconds(5)).wants(freed), other]);
    world.try_pod(&pod("q"));
    world.try_pod(&pod("p"));
    world.advance(seconds(5));
    assert_eq!(world.place("p"), Some(Place::Unschedulable));
    assert_eq!(world.place("q"), Some(Place::Active), "what p held may help it");
}

#[test]
fn events_during_the_wait_count() {
    let node_added = EventRegistration::always(ClusterEvent::new(
        kube_scheduler_framework::EventResource::Node,
        kube_scheduler_framework::ActionType::ADD,
    ));
    let mut world = World::new(vec![quiet("A", seconds(5)).wants(node_added)]);
    world.try_pod(&pod("p"));
    world.node("n2");
    world.advance(seconds(5));
    assert_eq!(world.place("p"), Some(Place::Backoff));
}

#[test]
fn a_pod_deleted_while_it_waits_is_rejected() {
    let mut world = World::new(vec![quiet("A", seconds(60))]);
    let p = pod("p");
    world.try_pod(&p);
    world.effects();
    world.delete(&p);
    assert!(world.effects()[0].contains("0/1 nodes are available: 1 removed."));
    assert!(world.is_clean());
    assert_eq!(world.place("p"), None);
    assert_eq!(world.engine.next_deadline(), None);
}

#[test]
fn a_pod_asked_to_go_while_it_waits_is_not_tried_again() {
    let mut world = World::new(vec![quiet("A", seconds(60))]);
    world.try_pod(&pod("p"));
    world.effects();
    world.apply(&leaving("p"));
    assert!(world.effects()[0].contains("0/1 nodes are available: 1 removed."));
    assert!(world.is_clean());
    assert_eq!(world.place("p"), Some(Place::Unschedulable), "no plugin's events bring it back");
    world.node("n2");
    world.advance(seconds(30));
    assert_eq!(world.attempt(), "nobody");
}

#[test]
fn updates_of_a_waiting_pod_change_nothing() {
    let mut world = World::new(vec![quiet("A", seconds(60))]);
    world.try_pod(&pod("p"));
    world.effects();
    world.apply(&pod("p version=2 label:a=b"));
    assert_eq!(world.effects(), Vec::<String>::new());
    assert!(world.is_assumed(&pod("p")) && world.place("p").is_none());
}

#[test]
fn pods_are_announced_only_with_the_gate() {
    let flight = |_: &_, _: &_| PreBindFlight {
        status: Status::error("never asked"),
        may_run_in_parallel: false,
    };
    let toys = || {
        vec![
            quiet("A", seconds(60)),
            Toy::new("B").flight(flight).pre_bind(|_, _| Completion::Ready(Status::SUCCESS)),
        ]
    };
    let mut world = World::configured(toys(), |_, options| {
        let gates = std::mem::take(&mut options.gates);
        options.gates = gates.with(Gate::NominatedNodeNameForExpectation, false);
    });
    world.node("n1");
    world.try_pod(&pod("p"));
    assert_eq!(world.effects(), Vec::<String>::new());
    world.try_pod(&pod("free"));
    assert_eq!(world.calls_at("PreBind"), ["B.PreBind(free)"], "without having looked ahead");
}

#[test]
fn a_pod_that_says_so_already_is_not_announced_again() {
    let mut world = World::new(vec![quiet("A", seconds(60))]);
    world.try_pod(&crate::world::nominated("p", "n1", 0));
    assert_eq!(world.effects(), Vec::<String>::new());
}

#[test]
fn many_waits_end_in_the_order_of_their_deadlines() {
    let mut world = World::new(vec![Toy::new("A").permit(|pod, _| {
        let n: u64 = pod.name[1..].parse().unwrap();
        PermitDecision::wait(seconds(1 + n % 7))
    })]);
    for n in 0..700 {
        world.try_pod(&pod(&format!("p{n}")));
    }
    world.effects();
    assert_eq!(world.engine.n_binding(), 700);
    world.now = START + seconds(60);
    world.input(Input::TimePassed);
    let order: Vec<u64> = world
        .effects()
        .iter()
        .filter_map(|effect| effect.strip_prefix("event ns/p")?.split(' ').next()?.parse().ok())
        .collect();
    let mut expected: Vec<u64> = (0..700).collect();
    expected.sort_by_key(|n| n % 7);
    assert_eq!(order, expected, "earlier deadlines first, then who set off first");
    assert!(world.is_clean());
}
