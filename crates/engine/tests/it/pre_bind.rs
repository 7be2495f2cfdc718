//! PreBind: the look ahead, work that takes time, and groups.

use kube_scheduler_framework::{Code, Completion, PreBindFlight, Status};
use kube_scheduler_queue::Place;

use crate::toy::Toy;
use crate::toy_scheduler::{ToyScheduler, pod};

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
fn started(toys: Vec<Toy>) -> (ToyScheduler, Vec<String>) {
    let mut scheduler = ToyScheduler::new(toys);
    scheduler.try_pod(&pod("p"));
    let effects = scheduler.effects();
    assert_eq!(effects[0], "patch ns/p uid=p-uid nominated=n1");
    (scheduler, effects[1..].to_vec())
}

#[test]
fn without_work_the_pod_is_bound_right_away_and_not_announced() {
    let mut scheduler = ToyScheduler::new(vec![idle("A", false), idle("B", true)]);
    scheduler.try_pod(&pod("p"));
    assert_eq!(scheduler.calls(), ["A.PreFlight(p)", "B.PreFlight(p)", "Base.Bind(p)"]);
    assert_eq!(scheduler.effects(), ["bind #1 ns/p uid=p-uid node=n1"]);
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
        let mut scheduler = ToyScheduler::new(vec![
            Toy::new("A").flight(move |_, _| flight(status.clone(), false)),
            Toy::new("R").unreserve(|_, _| ()),
        ]);
        scheduler.try_pod(&pod("p"));
        assert_eq!(
            scheduler.effects(),
            [
                format!("event ns/p Warning FailedScheduling Scheduling {message:?}"),
                format!(
                    "patch ns/p uid=p-uid PodScheduled=False reason=SchedulerError message={message:?}"
                ),
            ]
        );
        assert_eq!(scheduler.calls_at("Unreserve"), ["R.Unreserve(p)"]);
        assert_eq!(scheduler.place("p"), Some(Place::ErrorBackoff));
        assert!(scheduler.is_clean());
    }
}

#[test]
fn work_is_awaited_before_the_binding() {
    let (mut scheduler, effects) = started(vec![slow("A", false)]);
    assert_eq!(effects, ["await #1 A"]);
    scheduler.finished(1, Status::SUCCESS);
    assert_eq!(scheduler.effects(), ["bind #2 ns/p uid=p-uid node=n1"]);
    scheduler.finished(1, Status::SUCCESS);
    assert_eq!(scheduler.effects(), Vec::<String>::new(), "a token is good for one answer");
}

#[test]
fn neighbours_that_may_do_so_work_side_by_side() {
    let toys = vec![slow("A", true), slow("B", true), slow("C", false), slow("D", true)];
    let (mut scheduler, effects) = started(toys);
    assert_eq!(effects, ["await #1 A", "await #2 B"]);
    scheduler.finished(2, Status::SUCCESS);
    assert_eq!(scheduler.effects(), Vec::<String>::new());
    scheduler.finished(1, Status::SUCCESS);
    assert_eq!(scheduler.effects(), ["await #3 C"]);
    scheduler.finished(3, Status::SUCCESS);
    assert_eq!(scheduler.effects(), ["await #4 D"]);
    scheduler.finished(4, Status::SUCCESS);
    assert_eq!(scheduler.effects(), ["bind #5 ns/p uid=p-uid node=n1"]);
}

#[test]
fn a_plugin_on_its_own_separates_its_neighbours_even_without_work() {
    let (mut scheduler, effects) =
        started(vec![slow("A", true), idle("B", false), slow("C", true)]);
    assert_eq!(effects, ["await #1 A"]);
    scheduler.finished(1, Status::SUCCESS);
    assert_eq!(scheduler.effects(), ["await #2 C"]);

    let (_, effects) = started(vec![slow("A", true), idle("B", true), slow("C", true)]);
    assert_eq!(effects, ["await #1 A", "await #2 C"]);
}

#[test]
fn the_first_failure_stops_what_has_not_started_and_waits_for_what_has() {
    let (mut scheduler, _) = started(vec![slow("A", true), slow("B", true), slow("C", false)]);
    scheduler.finished(2, Status::error("boom"));
    assert_eq!(scheduler.effects(), Vec::<String>::new());
    assert!(scheduler.is_assumed(&pod("p")), "A is still at it");
    scheduler.finished(1, Status::error("too late"));
    assert_eq!(
        scheduler.effects()[0],
        "event ns/p Warning FailedScheduling Scheduling \"running PreBind plugin \\\"B\\\": boom\""
    );
    assert!(scheduler.is_clean());
    assert_eq!(scheduler.place("p"), Some(Place::ErrorBackoff));
}

#[test]
fn rejections_keep_their_words_and_back_off() {
    for is_late in [false, true] {
        let answer = || Status::unschedulable("no volume");
        let toy = Toy::new("A")
            .pre_bind(move |_, _| if is_late { pending() } else { Completion::Ready(answer()) });
        let (mut scheduler, mut effects) = started(vec![toy]);
        if is_late {
            scheduler.finished(1, answer());
            effects = scheduler.effects();
        }
        assert_eq!(
            effects,
            [
                "event ns/p Warning FailedScheduling Scheduling \"no volume\"",
                "patch ns/p uid=p-uid PodScheduled=False reason=Unschedulable message=\"no volume\"",
            ]
        );
        assert_eq!(scheduler.place("p"), Some(Place::ErrorBackoff), "no plugin is blamed");
        assert!(scheduler.is_clean());
    }
}
