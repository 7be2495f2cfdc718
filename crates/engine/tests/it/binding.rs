//! The way from a chosen node to a written binding, and back.

use kube_scheduler_framework::{
    BindOutcome, ClusterEvent, Completion, EventRegistration, PermitDecision, Status,
};
use kube_scheduler_queue::Place;

use crate::toy::Toy;
use crate::toy_scheduler::{ToyScheduler, pod, running};

fn full(name: &'static str) -> Toy {
    Toy::new(name)
        .reserve(|_, _| Status::SUCCESS)
        .permit(|_, _| PermitDecision::allow())
        .pre_bind(|_, _| Completion::Ready(Status::SUCCESS))
        .post_bind(|_, _| ())
}

#[test]
fn a_pod_goes_through_every_point_and_stays_assumed_until_it_is_seen() {
    let mut scheduler = ToyScheduler::new(vec![full("A"), full("B")]);
    let p = pod("p");
    assert_eq!(scheduler.try_pod(&p), "assumed n1");
    assert_eq!(
        scheduler.calls(),
        [
            "A.Reserve(p)",
            "B.Reserve(p)",
            "A.Permit(p)",
            "B.Permit(p)",
            "A.PreFlight(p)",
            "B.PreFlight(p)",
            "A.PreBind(p)",
            "B.PreBind(p)",
            "Base.Bind(p)",
        ]
    );
    assert_eq!(
        scheduler.effects(),
        ["patch ns/p uid=p-uid nominated=n1", "bind #1 ns/p uid=p-uid node=n1"]
    );
    assert!(scheduler.is_assumed(&p) && scheduler.engine.n_binding() == 1);

    scheduler.written(1, Ok(()));
    assert_eq!(
        scheduler.effects(),
        ["event ns/p Normal Scheduled Binding \"Successfully assigned ns/p to n1\""]
    );
    assert_eq!(scheduler.calls(), ["A.PostBind(p)", "B.PostBind(p)"]);
    assert!(scheduler.is_assumed(&p), "the watch has not shown it on the node yet");
    assert_eq!(scheduler.engine.profile_counts()[0].scheduled, 1);

    scheduler.apply(&running("p", "n1"));
    assert!(scheduler.is_clean());
    assert_eq!(scheduler.engine.cluster().all_pods().count(), 1);
    assert_eq!((scheduler.attempt(), scheduler.place("p")), ("nobody".into(), None));
}

#[test]
fn reserve_and_permit_may_reject_or_fail() {
    type Answer = fn() -> Status;
    type Change = fn(Toy, Answer) -> Toy;
    type Case = (Change, Answer, &'static str, Place);
    let reserve: Change = |toy, status| toy.reserve(move |_, _| status());
    let permit: Change = |toy, status| {
        toy.reserve(|_, _| Status::SUCCESS).permit(move |_, _| PermitDecision::deny(status()))
    };
    let unschedulable = "unschedulable 0/1 nodes are available: 1 full.";
    let cases: [Case; 6] = [
        (reserve, || Status::unschedulable("full"), unschedulable, Place::Unschedulable),
        (reserve, || Status::unresolvable("full"), unschedulable, Place::Unschedulable),
        (
            reserve,
            || Status::error("boom"),
            "error running Reserve plugin \"B\": boom",
            Place::ErrorBackoff,
        ),
        (permit, || Status::unschedulable("full"), unschedulable, Place::Unschedulable),
        (permit, || Status::pending("full"), unschedulable, Place::Unschedulable),
        (
            permit,
            || Status::error("boom"),
            "error running Permit plugin \"B\": boom",
            Place::ErrorBackoff,
        ),
    ];
    for (change, status, outcome, place) in cases {
        let mut scheduler = ToyScheduler::new(vec![
            full("A"),
            change(Toy::new("B"), status),
            Toy::new("C").unreserve(|_, _| ()),
        ]);
        assert_eq!(scheduler.try_pod(&pod("p")), outcome);
        assert_eq!(
            scheduler.calls_at("Unreserve"),
            ["C.Unreserve(p)", "B.Unreserve(p)", "A.Unreserve(p)"],
            "all of them, in reverse order, whichever has failed"
        );
        assert_eq!(scheduler.place("p"), Some(place), "{outcome}");
        assert!(scheduler.is_clean());
        let (_, message) = outcome.split_once(' ').unwrap();
        let reason = if place == Place::ErrorBackoff { "SchedulerError" } else { "Unschedulable" };
        assert_eq!(
            scheduler.effects(),
            [
                format!("event ns/p Warning FailedScheduling Scheduling {message:?}"),
                format!(
                    "patch ns/p uid=p-uid PodScheduled=False reason={reason} message={message:?}"
                ),
            ]
        );
    }
}

#[test]
fn a_permit_that_answers_nonsense_is_an_error() {
    let mut scheduler =
        ToyScheduler::new(vec![Toy::new("A").permit(|_, _| PermitDecision::deny(Status::skip()))]);
    assert!(scheduler.try_pod(&pod("p")).starts_with("error running Permit plugin \"A\""));
    assert!(scheduler.is_clean());
}

#[test]
fn bind_plugins_are_asked_until_one_takes_the_pod() {
    let skips = |name| Toy::new(name).bind(|_, _| BindOutcome::Ready(Status::skip()));
    let later = Toy::new("C")
        .bind(|_, _| BindOutcome::Pending(Box::pin(std::future::ready(Status::skip()))));
    let takes = Toy::new("D").bind(|_, _| BindOutcome::Ready(Status::SUCCESS));
    let mut scheduler = ToyScheduler::new(vec![skips("A"), skips("B"), later, takes]);
    scheduler.try_pod(&pod("p"));
    assert_eq!(scheduler.calls(), ["A.Bind(p)", "B.Bind(p)", "C.Bind(p)"]);
    assert_eq!(scheduler.effects(), ["await #1 C"]);
    scheduler.finished(1, Status::skip());
    assert_eq!(scheduler.calls(), ["D.Bind(p)"], "Base comes later and is not asked");
    assert_eq!(scheduler.effects().len(), 1, "the event of success");
    assert_eq!(scheduler.engine.n_binding(), 0);
}

#[test]
fn a_pod_that_every_bind_plugin_skips_backs_off() {
    let mut scheduler = ToyScheduler::configured(
        vec![Toy::sorter("Sort"), Toy::new("A").bind(|_, _| BindOutcome::Ready(Status::skip()))],
        |config, _| config.profiles = vec![crate::toy_scheduler::profile("s", &["Sort", "A"])],
    );
    scheduler.node("n1");
    scheduler.try_pod(&pod("p"));
    assert_eq!(scheduler.place("p"), Some(Place::ErrorBackoff));
    assert!(scheduler.is_clean());
}

#[test]
fn a_binding_that_cannot_be_written_backs_off_with_event_and_condition() {
    let mut scheduler = ToyScheduler::new(vec![full("A"), full("B")]);
    let p = pod("p");
    scheduler.try_pod(&p);
    scheduler.calls();
    scheduler.effects();
    scheduler.written(1, Err("conflict"));
    assert_eq!(scheduler.calls(), ["B.Unreserve(p)", "A.Unreserve(p)"]);
    let message = "running Bind plugin \\\"Base\\\": conflict";
    assert_eq!(
        scheduler.effects(),
        [
            format!("event ns/p Warning FailedScheduling Scheduling \"{message}\""),
            format!(
                "patch ns/p uid=p-uid PodScheduled=False reason=SchedulerError message=\"{message}\""
            ),
        ]
    );
    assert_eq!(scheduler.place("p"), Some(Place::ErrorBackoff));
    assert!(scheduler.is_clean());
    let counts = scheduler.engine.profile_counts()[0];
    assert_eq!((counts.scheduled, counts.error), (0, 1));
}

/// A rejection after Permit names no plugin, so the pod backs off as after an error.
#[test]
fn what_a_failed_binding_held_is_offered_to_others_whoever_failed() {
    for reason in ["Unschedulable", "SchedulerError"] {
        let answer = move || match reason {
            "Unschedulable" => Status::unschedulable("no"),
            _ => Status::error("no"),
        };
        let mut scheduler = ToyScheduler::new(vec![
            Toy::new("A")
                .filter(|pod, _| {
                    if &*pod.name == "q" { Status::unschedulable("full") } else { Status::SUCCESS }
                })
                .bind(move |_, _| BindOutcome::Ready(answer()))
                .wants(EventRegistration::always(ClusterEvent::ASSIGNED_POD_DELETE)),
        ]);
        scheduler.try_pod(&pod("q"));
        assert_eq!(scheduler.place("q"), Some(Place::Unschedulable));
        scheduler.apply(&pod("p"));
        scheduler.attempt();
        assert_eq!(scheduler.place("q"), Some(Place::Backoff), "{reason}");
        assert_eq!(scheduler.place("p"), Some(Place::ErrorBackoff), "{reason}");
        assert!(scheduler.effects().iter().any(|effect| {
            effect.contains(&format!("patch ns/p uid=p-uid PodScheduled=False reason={reason}"))
        }));
    }
}

#[test]
fn a_copy_begins_no_work_outside() {
    let work = || {
        Box::pin(async {
            assert!(std::thread::panicking(), "this is never polled");
            Status::SUCCESS
        })
    };
    let toys = vec![
        Toy::new("A").pre_bind(move |_, _| Completion::Pending(work())),
        Toy::new("B").bind(move |_, _| BindOutcome::Pending(work())),
    ];
    let mut scheduler = ToyScheduler::new(toys);
    scheduler.apply(&pod("p"));
    let mut copy = scheduler.engine.fork(scheduler.now);
    assert_eq!(copy.trusted_plugins().count(), 0);
    copy.schedule_next(scheduler.now).unwrap();
    let effects: Vec<String> = copy.drain_effects().map(|effect| effect.to_string()).collect();
    assert!(effects.iter().any(|effect| effect.starts_with("bind #1 ns/p")), "{effects:?}");
    let trusted: Vec<&str> = copy.trusted_plugins().map(|plugin| &**plugin).collect();
    assert_eq!(trusted, ["A", "B"]);
    scheduler.turn();
    assert!(
        scheduler.effects().contains(&"await #1 A".to_owned()),
        "the original goes its own way"
    );
    assert_eq!(scheduler.engine.trusted_plugins().count(), 0);
}
