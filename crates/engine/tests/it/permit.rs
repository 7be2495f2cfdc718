//! Pods that wait on Permit.

use std::time::Duration;

use kube_scheduler_config::Gate;
use kube_scheduler_engine::Input;
use kube_scheduler_framework::{
    ClusterEvent, Commands, Completion, EventRegistration, PermitDecision, PreBindFlight, Status,
};
use kube_scheduler_queue::Place;

use crate::toy::Toy;
use crate::toy_scheduler::{START, ToyScheduler, leaving, pod, seconds};

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
    let mut scheduler = ToyScheduler::new(vec![waits("A", seconds(60), open)]);
    assert_eq!(scheduler.try_pod(&pod("p")), "assumed n1");
    assert_eq!(scheduler.effects(), [NOMINATED], "even though PreBind has nothing to do");
    assert!(scheduler.is_assumed(&pod("p")));
    scheduler.try_pod(&pod("opener"));
    assert_eq!(scheduler.effects()[0], BOUND);
    assert_eq!(scheduler.engine.next_deadline(), None);
}

#[test]
fn a_pod_may_be_allowed_from_its_own_permit_of_another_plugin() {
    let mut scheduler = ToyScheduler::new(vec![
        quiet("A", seconds(60)),
        Toy::new("B")
            .permit(|_, _| PermitDecision::allow())
            .asks(|_, pod, commands| commands.allow(&pod.uid, &"A".into())),
    ]);
    scheduler.try_pod(&pod("p"));
    assert_eq!(scheduler.effects(), [NOMINATED, BOUND]);
}

#[test]
fn two_plugins_that_wait_must_both_allow() {
    let mut scheduler = ToyScheduler::new(vec![
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
    scheduler.try_pod(&pod("p"));
    scheduler.effects();
    assert_eq!(scheduler.engine.next_deadline(), Some(START + seconds(30)));
    scheduler.try_pod(&pod("first"));
    assert!(!scheduler.effects().contains(&BOUND.to_owned()));
    assert_eq!(
        scheduler.engine.next_deadline(),
        Some(START + seconds(60)),
        "only A's wait is left"
    );
    scheduler.try_pod(&pod("second"));
    assert!(scheduler.effects().iter().any(|effect| effect.ends_with("ns/p uid=p-uid node=n1")));
}

#[test]
fn a_waiting_pod_that_is_rejected_is_unschedulable() {
    let close = |commands: &mut Commands| commands.reject(&"p-uid".into(), &"A".into(), "closed");
    let mut scheduler = ToyScheduler::new(vec![waits("A", seconds(60), close)]);
    scheduler.try_pod(&pod("p"));
    scheduler.effects();
    scheduler.try_pod(&pod("closer"));
    let message = "0/1 nodes are available: 1 closed.";
    assert_eq!(
        scheduler.effects()[..2],
        [
            format!("event ns/p Warning FailedScheduling Scheduling {message:?}"),
            format!(
                "patch ns/p uid=p-uid PodScheduled=False reason=Unschedulable message={message:?}"
            ),
        ]
    );
    assert_eq!(scheduler.place("p"), Some(Place::Unschedulable));
    assert!(!scheduler.is_assumed(&pod("p")));
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
        let mut scheduler = ToyScheduler::new(vec![quiet("A", asked)]);
        scheduler.try_pod(&pod("p"));
        scheduler.effects();
        assert_eq!(scheduler.engine.next_deadline(), Some(START + given));
        if let Some(before) = given.checked_sub(Duration::from_nanos(1)) {
            scheduler.advance(before);
            assert!(scheduler.is_assumed(&pod("p")) && scheduler.effects().is_empty());
            scheduler.now = START;
        }
        scheduler.calls();
        scheduler.advance(given);
        let message = format!(
            "0/1 nodes are available: 1 rejected due to timeout after waiting {text} at plugin A."
        );
        assert_eq!(
            scheduler.effects()[0],
            format!("event ns/p Warning FailedScheduling Scheduling {message:?}")
        );
        assert_eq!(scheduler.calls(), ["A.Unreserve(p)"]);
        assert_eq!(scheduler.place("p"), Some(Place::Unschedulable));
        assert!(scheduler.is_clean());
    }
}

#[test]
fn of_two_waits_the_shorter_one_ends_it() {
    let mut scheduler = ToyScheduler::new(vec![quiet("A", seconds(9)), quiet("B", seconds(4))]);
    scheduler.try_pod(&pod("p"));
    scheduler.effects();
    scheduler.advance(seconds(20));
    assert!(scheduler.effects()[0].contains("after waiting 4s at plugin B"));
    assert!(scheduler.effects().is_empty(), "once");
}

#[test]
fn a_pod_that_ran_out_of_time_is_not_woken_by_its_own_going() {
    let freed = EventRegistration::always(ClusterEvent::ASSIGNED_POD_DELETE);
    let other = Toy::new("F").wants(freed.clone()).filter(|pod, _| {
        if &*pod.name == "q" { Status::unschedulable("full") } else { Status::SUCCESS }
    });
    let mut scheduler = ToyScheduler::new(vec![quiet("A", seconds(5)).wants(freed), other]);
    scheduler.try_pod(&pod("q"));
    scheduler.try_pod(&pod("p"));
    scheduler.advance(seconds(5));
    assert_eq!(scheduler.place("p"), Some(Place::Unschedulable));
    assert_eq!(scheduler.place("q"), Some(Place::Active), "what p held may help it");
}

#[test]
fn events_during_the_wait_count() {
    let node_added = EventRegistration::always(ClusterEvent::new(
        kube_scheduler_framework::EventResource::Node,
        kube_scheduler_framework::ActionType::ADD,
    ));
    let mut scheduler = ToyScheduler::new(vec![quiet("A", seconds(5)).wants(node_added)]);
    scheduler.try_pod(&pod("p"));
    scheduler.node("n2");
    scheduler.advance(seconds(5));
    assert_eq!(scheduler.place("p"), Some(Place::Backoff));
}

#[test]
fn a_pod_deleted_while_it_waits_is_rejected() {
    let mut scheduler = ToyScheduler::new(vec![quiet("A", seconds(60))]);
    let p = pod("p");
    scheduler.try_pod(&p);
    scheduler.effects();
    scheduler.delete(&p);
    assert!(scheduler.effects()[0].contains("0/1 nodes are available: 1 removed."));
    assert!(scheduler.is_clean());
    assert_eq!(scheduler.place("p"), None);
    assert_eq!(scheduler.engine.next_deadline(), None);
}

#[test]
fn a_pod_asked_to_go_while_it_waits_is_not_tried_again() {
    let mut scheduler = ToyScheduler::new(vec![quiet("A", seconds(60))]);
    scheduler.try_pod(&pod("p"));
    scheduler.effects();
    scheduler.apply(&leaving("p"));
    assert!(scheduler.effects()[0].contains("0/1 nodes are available: 1 removed."));
    assert!(scheduler.is_clean());
    assert_eq!(
        scheduler.place("p"),
        Some(Place::Unschedulable),
        "no plugin's events bring it back"
    );
    scheduler.node("n2");
    scheduler.advance(seconds(30));
    assert_eq!(scheduler.attempt(), "nobody");
}

#[test]
fn updates_of_a_waiting_pod_change_nothing() {
    let mut scheduler = ToyScheduler::new(vec![quiet("A", seconds(60))]);
    scheduler.try_pod(&pod("p"));
    scheduler.effects();
    scheduler.apply(&pod("p version=2 label:a=b"));
    assert_eq!(scheduler.effects(), Vec::<String>::new());
    assert!(scheduler.is_assumed(&pod("p")) && scheduler.place("p").is_none());
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
    let mut scheduler = ToyScheduler::configured(toys(), |_, options| {
        let gates = std::mem::take(&mut options.gates);
        options.gates = gates.with(Gate::NominatedNodeNameForExpectation, false);
    });
    scheduler.node("n1");
    scheduler.try_pod(&pod("p"));
    assert_eq!(scheduler.effects(), Vec::<String>::new());
    scheduler.try_pod(&pod("free"));
    assert_eq!(scheduler.calls_at("PreBind"), ["B.PreBind(free)"], "without having looked ahead");
}

#[test]
fn a_pod_that_says_so_already_is_not_announced_again() {
    let mut scheduler = ToyScheduler::new(vec![quiet("A", seconds(60))]);
    scheduler.try_pod(&crate::toy_scheduler::nominated("p", "n1", 0));
    assert_eq!(scheduler.effects(), Vec::<String>::new());
}

#[test]
fn many_waits_end_in_the_order_of_their_deadlines() {
    let mut scheduler = ToyScheduler::new(vec![Toy::new("A").permit(|pod, _| {
        let n: u64 = pod.name[1..].parse().unwrap();
        PermitDecision::wait(seconds(1 + n % 7))
    })]);
    for n in 0..700 {
        scheduler.try_pod(&pod(&format!("p{n}")));
    }
    scheduler.effects();
    assert_eq!(scheduler.engine.n_binding(), 700);
    scheduler.now = START + seconds(60);
    scheduler.input(Input::TimePassed);
    let order: Vec<u64> = scheduler
        .effects()
        .iter()
        .filter_map(|effect| effect.strip_prefix("event ns/p")?.split(' ').next()?.parse().ok())
        .collect();
    let mut expected: Vec<u64> = (0..700).collect();
    expected.sort_by_key(|n| n % 7);
    assert_eq!(order, expected, "earlier deadlines first, then who set off first");
    assert!(scheduler.is_clean());
}
