//! Filtering that takes the pods into account that are nominated to the node.

use std::sync::Arc;

use kube_scheduler_cache::NodeOverlay;
use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::testing::fixture;
use kube_scheduler_framework::{CycleState, PreFilterOutcome, Status};
use kube_scheduler_runtime::{EvaluationReads, NominatedFilters, SkipSet};

use crate::toy::{Log, Toy, calls, pod, profile, runner, text};

/// Filters `incoming` on `n1`, where `nominated` pods are expected; a plugin follows the pods, and a filter answers by
/// how many pods it sees on the node. Gives the answer and the calls.
fn filtered(
    incoming: &Pod,
    nominated: &[Arc<Pod>],
    answer: fn(i64) -> Status,
    added: Status,
) -> (String, Vec<String>) {
    let log = Log::default();
    let profile = profile(vec![
        Toy::new("F", &log)
            .pre_filter(PreFilterOutcome::success())
            .extensions(added, Status::SUCCESS)
            .filter(move |node| answer(node.n_pods())),
    ]);
    let mut world = fixture("node n1");
    for pod in nominated {
        world = world.with_nominated_pod(pod.clone(), "n1");
    }
    let overlay = NodeOverlay::new(world.view("n1").idx());
    let status = runner(&world, &profile).filter_with_nominated_pods(
        &CycleState::new(),
        incoming,
        &overlay,
        &SkipSet::default(),
    );
    (text(&status), calls(&log))
}

fn accepts(_: i64) -> Status {
    Status::SUCCESS
}

/// There is room for one pod.
fn has_room(n_pods: i64) -> Status {
    if n_pods == 0 { Status::SUCCESS } else { Status::unschedulable("full") }
}

/// Something is needed that comes with the other pod.
fn wants_company(n_pods: i64) -> Status {
    if n_pods > 0 { Status::SUCCESS } else { Status::unschedulable("lonely") }
}

#[test]
fn more_and_equally_important_pods_are_counted_then_not_counted() {
    for priority in [10, 11] {
        let (status, calls) = filtered(
            &pod("p priority=10"),
            &[pod(&format!("other priority={priority}"))],
            accepts,
            Status::SUCCESS,
        );
        assert_eq!(status, "Success: ");
        assert_eq!(calls, ["F.AddPod(other)", "F.Filter(n1)", "F.Filter(n1)"]);
    }
}

#[test]
fn less_important_pods_and_the_pod_itself_are_not_counted() {
    for other in [pod("other priority=9"), pod("p priority=11")] {
        let (_, calls) = filtered(&pod("p priority=10"), &[other], has_room, Status::SUCCESS);
        assert_eq!(calls, ["F.Filter(n1)"]);
    }
}

#[test]
fn only_those_that_count_are_added() {
    let nominated = [pod("low priority=1"), pod("high priority=20"), pod("equal priority=10")];
    let (_, calls) = filtered(&pod("p priority=10"), &nominated, accepts, Status::SUCCESS);
    assert_eq!(calls[..2], ["F.AddPod(high)", "F.AddPod(equal)"]);
    assert_eq!(calls.len(), 4);
}

#[test]
fn both_passes_must_succeed() {
    let other = [pod("other priority=10")];
    let (status, calls) = filtered(&pod("p priority=10"), &other, has_room, Status::SUCCESS);
    assert_eq!(status, "Unschedulable F: full");
    assert_eq!(calls, ["F.AddPod(other)", "F.Filter(n1)"], "no second pass after a failed first");
    let (status, calls) = filtered(&pod("p priority=10"), &other, wants_company, Status::SUCCESS);
    assert_eq!(status, "Unschedulable F: lonely");
    assert_eq!(calls.len(), 3);
}

#[test]
fn a_stub_counts_as_priority_zero() {
    let stub = pod("stub");
    let (status, _) =
        filtered(&pod("p priority=1"), std::slice::from_ref(&stub), has_room, Status::SUCCESS);
    assert_eq!(status, "Success: ");
    let (status, _) = filtered(&pod("p"), &[stub], has_room, Status::SUCCESS);
    assert_eq!(status, "Unschedulable F: full");
}

#[test]
fn a_pod_extension_that_fails_is_an_error_of_nobody() {
    let added = Status::unschedulable("no");
    let (status, calls) = filtered(&pod("p"), &[pod("other")], accepts, added);
    assert_eq!(status, "Error: running AddPod on PreFilter plugin \"F\": no");
    assert_eq!(calls, ["F.AddPod(other)"]);
}

/// Asks about `n1`, which has room for one pod and fits without others, with a pod that concerns plugins that follow pods or does not.
fn asked_with_another(concerns: bool, reads_are_known: bool) -> (String, Vec<String>) {
    let log = Log::default();
    let profile = profile(vec![
        Toy::new("Labels", &log).filter(|node| {
            assert!(!node.labels().contains_key("zone"));
            Status::SUCCESS
        }),
        Toy::new("Follows", &log)
            .pre_filter(PreFilterOutcome::success())
            .extensions(Status::SUCCESS, Status::SUCCESS)
            .concerned(concerns),
        Toy::new("Sums", &log).filter(|node| has_room(node.n_pods())),
    ]);
    let world = fixture("node n1");
    let runner = runner(&world, &profile);
    let (incoming, others) = (pod("p priority=10"), [pod("other priority=10")]);
    let mut state = CycleState::new();
    let run = runner.pre_filter(&mut state, &incoming);
    let view = world.view("n1");
    let alone = runner.recording(&run.reads).filter(&state, &incoming, &view, &run.skip);
    assert_eq!(text(&alone), "Success: ");
    calls(&log);
    let nothing = EvaluationReads::default();
    let known = if reads_are_known { &run.reads } else { &nothing };
    let mut filters = NominatedFilters::new(runner, &state, &incoming, &run.skip, known);
    let (status, _) = filters.filter_with(view.idx(), &others, true);
    (text(&status), calls(&log))
}

#[test]
fn where_the_node_fits_only_filters_that_read_its_pods_are_asked_again() {
    let full = "Unschedulable Sums: full";
    for (concerns, reads_are_known, expected) in [
        (false, true, &["Sums.Filter(n1)"][..]),
        (false, false, &["Labels.Filter(n1)", "Sums.Filter(n1)"]),
        (true, true, &["Follows.AddPod(other)", "Labels.Filter(n1)", "Sums.Filter(n1)"]),
    ] {
        let (status, calls) = asked_with_another(concerns, reads_are_known);
        assert_eq!(status, full);
        assert_eq!(calls, expected, "{concerns}, {reads_are_known}");
    }
}
