//! A plugin that panics fails its pod's attempt and nothing else.

use kube_scheduler_framework::{
    ActionType, BindOutcome, ClusterEvent, Completion, EventRegistration, EventResource,
    PermitDecision, PostFilterOutcome, PreBindFlight, PreFilterOutcome, Status,
};
use kube_scheduler_queue::Place;

use crate::toy::Toy;
use crate::toy_scheduler::{ToyScheduler, pod};

/// Panics over the pod `p` and answers `otherwise` for every other.
fn over_p<T>(otherwise: fn() -> T) -> impl Fn(&kube_scheduler_framework::api::Pod, &str) -> T {
    move |pod, _| {
        assert!(&*pod.name != "p", "over p");
        otherwise()
    }
}

fn success() -> Status {
    Status::SUCCESS
}

fn rejecting() -> Toy {
    Toy::new("F").filter(|pod, _| {
        if &*pod.name == "p" { Status::unschedulable("full") } else { Status::SUCCESS }
    })
}

/// The message about `p` when `toys` are asked about it. Checks that nothing stays behind and that the next pod is unharmed.
fn said(toys: Vec<Toy>) -> String {
    let mut scheduler = ToyScheduler::new(toys);
    scheduler.node("n2");
    scheduler.try_pod(&pod("p"));
    let event = scheduler.effects().into_iter().find(|effect| effect.starts_with("event"));
    assert!(scheduler.is_clean());
    assert_eq!(scheduler.place("p"), Some(Place::ErrorBackoff));
    assert!(scheduler.try_pod(&pod("q")).starts_with("assumed"), "the next pod is unharmed");
    let note = event.unwrap();
    note.split_once(" Scheduling ").unwrap().1.trim_matches('"').replace("\\\"", "'")
}

#[test]
fn panics_during_the_search() {
    let toys: Vec<Vec<Toy>> = vec![
        vec![Toy::new("A").column(over_p(|| "disk".into()))],
        vec![Toy::new("A").pre_filter(over_p(PreFilterOutcome::success))],
        vec![Toy::new("A").filter(over_p(success))],
        vec![Toy::new("A").pre_score(over_p(success)).score(|_, _| 1)],
        vec![Toy::new("A").score(over_p(|| 1))],
        vec![Toy::new("A").score(|_, _| 1).normalize(over_p(success))],
        vec![
            rejecting(),
            Toy::new("A").post_filter(over_p(|| {
                PostFilterOutcome::without_nomination(Status::unschedulable("no"))
            })),
        ],
    ];
    for toys in toys {
        assert_eq!(said(toys), "plugin panicked: over p");
    }
}

#[test]
fn panics_on_the_way_to_the_node() {
    let reserve = said(vec![Toy::new("A").reserve(over_p(success))]);
    assert_eq!(reserve, "running Reserve plugin 'A': plugin panicked: over p");
    let permit = said(vec![Toy::new("A").permit(over_p(PermitDecision::allow))]);
    assert_eq!(permit, "running Permit plugin 'A': plugin panicked: over p");
    let flight =
        said(vec![Toy::new("A").flight(over_p(|| PreBindFlight {
            status: Status::SUCCESS,
            may_run_in_parallel: false,
        }))]);
    assert_eq!(flight, "running PreBindPreFlight 'A': plugin panicked: over p");
    let pre_bind =
        said(vec![Toy::new("A").pre_bind(over_p(|| Completion::Ready(Status::SUCCESS)))]);
    assert_eq!(pre_bind, "running PreBind plugin 'A': plugin panicked: over p");
    let bind = said(vec![Toy::new("A").bind(over_p(|| BindOutcome::WriteBinding))]);
    assert_eq!(bind, "running Bind plugin 'A': plugin panicked: over p");
}

#[test]
fn a_panic_while_unreserving_does_not_keep_others_from_it() {
    let mut scheduler = ToyScheduler::new(vec![
        Toy::new("A").unreserve(|_, _| ()),
        Toy::new("B").unreserve(over_p(|| ())),
        Toy::new("C").reserve(|_, _| Status::unschedulable("no")),
    ]);
    assert_eq!(scheduler.try_pod(&pod("p")), "unschedulable 0/1 nodes are available: 1 no.");
    assert_eq!(
        scheduler.calls_at("Unreserve"),
        ["C.Unreserve(p)", "B.Unreserve(p)", "A.Unreserve(p)"]
    );
    assert!(scheduler.is_clean());
    let notes: Vec<String> = scheduler.engine.drain_notes().collect();
    assert_eq!(notes, ["Unreserve of B: plugin panicked: over p"]);
}

#[test]
fn a_panic_after_the_binding_does_not_undo_it() {
    let mut scheduler = ToyScheduler::new(vec![
        Toy::new("A").post_bind(over_p(|| ())),
        Toy::new("B").post_bind(|_, _| ()),
    ]);
    scheduler.try_pod(&pod("p"));
    scheduler.effects();
    scheduler.written(1, Ok(()));
    assert_eq!(scheduler.effects().len(), 1, "the event of success");
    assert_eq!(scheduler.calls_at("PostBind"), ["A.PostBind(p)", "B.PostBind(p)"]);
    assert!(scheduler.is_assumed(&pod("p")) && scheduler.engine.n_binding() == 0);
}

#[test]
fn a_gate_that_panics_stays_closed() {
    let mut scheduler = ToyScheduler::new(vec![Toy::new("A").pre_enqueue(over_p(success))]);
    scheduler.apply(&pod("p"));
    scheduler.apply(&pod("q"));
    assert_eq!(scheduler.place("p"), Some(Place::Unschedulable));
    assert_eq!(scheduler.attempt(), "assumed n1");
}

#[test]
fn a_hint_that_panics_lets_the_pod_try_again() {
    let added = ClusterEvent::new(EventResource::Node, ActionType::ADD);
    let hint = EventRegistration::with_hint(added, |_, _, _, _| -> bool { panic!("no idea") });
    let mut scheduler = ToyScheduler::new(vec![rejecting().wants(hint)]);
    scheduler.try_pod(&pod("p"));
    assert_eq!(scheduler.place("p"), Some(Place::Unschedulable));
    scheduler.node("n2");
    assert_eq!(scheduler.place("p"), Some(Place::Backoff));
}

#[test]
fn an_explanation_says_that_a_plugin_panicked() {
    let mut scheduler = ToyScheduler::new(vec![Toy::new("A").filter(over_p(success))]);
    let explanation = scheduler.engine.explain(&pod("p"), 0, scheduler.now).unwrap();
    assert_eq!(explanation.error.unwrap().message(), "plugin panicked: over p");
    let explanation = scheduler.engine.explain(&pod("q"), 0, scheduler.now).unwrap();
    assert_eq!(explanation.nodes.len(), 1);
}
