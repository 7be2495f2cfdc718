//! PreBind: the look ahead, work that takes time, and groups.

use kube_scheduler_framework::{Code, Completion, PreBindFlight, Status};
use kube_scheduler_queue::Place;

use crate::toy::Toy;
use crate::world::{World, pod};

fn flight(status: Status, may_run_in_parallel: bool) -> PreBindFlight {
    PreBindFlight { status, may_run_in_parallel }
}

fn pending() -> Completion {
    // Never awaited here: the tests say themselves when work ends.
    Completion::Pending(Box::pin(std::future::pending()))
}

fn slow(name: &'static str, may_run_in_parallel: bool) -> Toy {
    Toy::new(name)
        .flight(move |_, _| flight(Status::SUCCESS, may_run_in_parallel))
        .pre_bind(|_, _| pending())
}

fn idle(name: &'static str, may_run_in_parallel: bool) -> Toy {
    Toy::new(name)
        .flight(move |_, _| flight(Status::skip(), may_run_in_parallel))
        .pre_bind(|_, _| pending())
}

/// Tries a pod; gives the effects except for the early nomination.
fn started(toys: Vec<Toy>) -> (World, Vec<String>) {
    let mut world = World::new(toys);
    world.try_pod(&pod("p"));
    let effects = world.effects();
    assert_eq!(effects[0], "patch ns/p uid=p-uid nominated=n1");
    (world, effects[1..].to_vec())
}

#[test]
fn without_work_the_pod_is_bound_right_away_and_not_announced() {
    let mut world = World::new(vec![idle("A", false), idle("B", true)]);
    world.try_pod(&pod("p"));
    assert_eq!(world.calls(), ["A.PreFlight(p)", "B.PreFlight(p)", "Base.Bind(p)"]);
    assert_eq!(world.effects(), ["bind #1 ns/p uid=p-uid node=n1"]);
}

#[test]
fn a_look_ahead_that_fails_sends_the_pod_back() {
    let cases = [
        (Status::error("boom"), "running PreBindPreFlight \"A\": boom".to_owned()),
        (
            Status::unschedulable("no"),
            "PreBindPreFlight A returned \"Unschedulable\", which is unsupported. \
             It is supposed to return Success, Skip, or Error status"
                .to_owned(),
        ),
        (
            Status::new(Code::Wait, []),
            "PreBindPreFlight A returned \"Wait\", which is unsupported. \
             It is supposed to return Success, Skip, or Error status"
                .to_owned(),
        ),
    ];
    for (status, message) in cases {
        let mut world = World::new(vec![
            Toy::new("A").flight(move |_, _| flight(status.clone(), false)),
            Toy::new("R").unreserve(|_, _| ()),
        ]);
        world.try_pod(&pod("p"));
        assert_eq!(
            world.effects(),
            [
                format!("event ns/p Warning FailedScheduling Scheduling {message:?}"),
                format!(
                    "patch ns/p uid=p-uid PodScheduled=False reason=SchedulerError message={message:?}"
                ),
            ]
        );
        assert_eq!(world.calls_at("Unreserve"), ["R.Unreserve(p)"]);
        assert_eq!(world.place("p"), Some(Place::ErrorBackoff));
        assert!(world.is_clean());
    }
}

#[test]
fn work_is_awaited_before_the_binding() {
    let (mut world, effects) = started(vec![slow("A", false)]);
    assert_eq!(effects, ["await #1 A"]);
    world.finished(1, Status::SUCCESS);
    assert_eq!(world.effects(), ["bind #2 ns/p uid=p-uid node=n1"]);
    world.finished(1, Status::SUCCESS);
    assert_eq!(world.effects(), Vec::<String>::new(), "a token is good for one answer");
}

#[test]
fn neighbours_that_may_do_so_work_side_by_side() {
    let toys = vec![slow("A", true), slow("B", true), slow("C", false), slow("D", true)];
    let (mut world, effects) = started(toys);
    assert_eq!(effects, ["await #1 A", "await #2 B"]);
    world.finished(2, Status::SUCCESS);
    assert_eq!(world.effects(), Vec::<String>::new());
    world.finished(1, Status::SUCCESS);
    assert_eq!(world.effects(), ["await #3 C"]);
    world.finished(3, Status::SUCCESS);
    assert_eq!(world.effects(), ["await #4 D"]);
    world.finished(4, Status::SUCCESS);
    assert_eq!(world.effects(), ["bind #5 ns/p uid=p-uid node=n1"]);
}

#[test]
fn a_plugin_on_its_own_separates_its_neighbours_even_without_work() {
    let (mut world, effects) = started(vec![slow("A", true), idle("B", false), slow("C", true)]);
    assert_eq!(effects, ["await #1 A"]);
    world.finished(1, Status::SUCCESS);
    assert_eq!(world.effects(), ["await #2 C"]);

    let (_, effects) = started(vec![slow("A", true), idle("B", true), slow("C", true)]);
    assert_eq!(effects, ["await #1 A", "await #2 C"]);
}

#[test]
fn the_first_failure_stops_what_has_not_started_and_waits_for_what_has() {
    let (mut world, _) = started(vec![slow("A", true), slow("B", true), slow("C", false)]);
    world.finished(2, Status::error("boom"));
    assert_eq!(world.effects(), Vec::<String>::new());
    assert!(world.is_assumed(&pod("p")), "A is still at it");
    world.finished(1, Status::error("too late"));
    assert_eq!(
        world.effects()[0],
        "event ns/p Warning FailedScheduling Scheduling \"running PreBind plugin \\\"B\\\": boom\""
    );
    assert!(world.is_clean());
    assert_eq!(world.place("p"), Some(Place::ErrorBackoff));
}

#[test]
fn rejections_keep_their_words_and_back_off() {
    for is_late in [false, true] {
        let answer = || Status::unschedulable("no volume");
        let toy = Toy::new("A")
            .pre_bind(move |_, _| if is_late { pending() } else { Completion::Ready(answer()) });
        let (mut world, mut effects) = started(vec![toy]);
        if is_late {
            world.finished(1, answer());
            effects = world.effects();
        }
        assert_eq!(
            effects,
            [
                "event ns/p Warning FailedScheduling Scheduling \"no volume\"",
                "patch ns/p uid=p-uid PodScheduled=False reason=Unschedulable message=\"no volume\"",
            ]
        );
        assert_eq!(world.place("p"), Some(Place::ErrorBackoff), "no plugin is blamed");
        assert!(world.is_clean());
    }
}
