//! PreFilter, plugin by plugin.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_scheduler_framework::testing::fixture;
use kube_scheduler_framework::{Code, CycleState, PreFilterOutcome, Status};
use kube_scheduler_runtime::{PluginIdx, PreFilterRun, Runner};

use crate::toy::{Log, Toy, calls, pod, profile, runner, text};

fn nodes(names: &str) -> PreFilterOutcome {
    PreFilterOutcome::narrowed_to(set(names))
}

fn set(names: &str) -> BTreeSet<Arc<str>> {
    names.split_whitespace().map(Arc::from).collect()
}

/// Runs plugins A, B, … with these answers; says who was asked.
fn run(answers: Vec<PreFilterOutcome>) -> (PreFilterRun, String) {
    let log = Log::default();
    let toys = answers
        .into_iter()
        .zip(["A", "B", "C"])
        .map(|(answer, name)| Toy::new(name, &log).pre_filter(answer))
        .collect();
    let (world, profile) = (fixture("node n1; node n2"), profile(toys));
    let run = runner(&world, &profile).pre_filter(&mut CycleState::new(), &pod("p"));
    let asked = calls(&log).join(" ").replace(".PreFilter", "");
    (run, asked)
}

#[test]
fn node_sets_are_intersected() {
    let (run, asked) = run(vec![nodes("n2"), PreFilterOutcome::success(), nodes("n1 n2")]);
    assert!(run.status.is_success());
    assert_eq!(run.node_names, Some(set("n2")));
    assert_eq!(run.restricting, set("A C"));
    assert_eq!(asked, "A B C");
}

#[test]
fn no_set_means_all_nodes() {
    let (run, _) = run(vec![PreFilterOutcome::success(), PreFilterOutcome::success()]);
    assert_eq!((run.node_names, run.restricting), (None, set("")));
}

#[test]
fn disjoint_sets_end_it_and_name_everybody_who_narrowed() {
    let (run, asked) = run(vec![nodes("n2"), nodes("n1"), PreFilterOutcome::success()]);
    assert_eq!(
        text(&run.status),
        "UnschedulableAndUnresolvable: node(s) didn't satisfy plugin(s) [A B] simultaneously"
    );
    assert_eq!(run.restricting, set("A B"));
    assert_eq!(asked, "A B", "no plugin is asked about a pod that has no node left");
}

#[test]
fn one_empty_set_names_its_plugin() {
    let (run, _) = run(vec![PreFilterOutcome::success(), nodes("")]);
    assert_eq!(text(&run.status), "UnschedulableAndUnresolvable: node(s) didn't satisfy plugin B");
    assert_eq!(run.restricting, set("B"));
}

#[test]
fn unresolvable_ends_it_and_forgets_who_narrowed() {
    let (run, asked) = run(vec![nodes("n1"), Status::unresolvable("no").into(), nodes("n2")]);
    assert_eq!(text(&run.status), "UnschedulableAndUnresolvable B: no");
    assert_eq!((run.node_names, run.restricting), (None, set("")));
    assert_eq!(asked, "A B");
}

#[test]
fn unschedulable_goes_on_and_the_last_one_stands() {
    let (run, asked) = run(vec![
        Status::unschedulable("a").into(),
        nodes("n1"),
        Status::unschedulable("c").into(),
    ]);
    assert_eq!(text(&run.status), "Unschedulable C: c");
    assert_eq!(run.restricting, set("B"));
    assert_eq!(asked, "A B C");
}

#[test]
fn unschedulable_gives_way_to_what_is_worse() {
    let unschedulable = || Status::unschedulable("a").into();
    let (empty, _) = run(vec![unschedulable(), nodes("")]);
    assert_eq!(
        text(&empty.status),
        "UnschedulableAndUnresolvable: node(s) didn't satisfy plugin B"
    );
    let (unresolvable, _) = run(vec![unschedulable(), Status::unresolvable("b").into()]);
    assert_eq!(text(&unresolvable.status), "UnschedulableAndUnresolvable B: b");
    let (error, _) = run(vec![unschedulable(), Status::error("b").into()]);
    assert_eq!(text(&error.status), "Error B: running PreFilter plugin \"B\": b");
}

#[test]
fn anything_else_is_an_error() {
    for answer in [Status::error("boom"), Status::pending("boom")] {
        let (run, asked) = run(vec![answer.into(), PreFilterOutcome::success()]);
        assert_eq!(text(&run.status), "Error A: running PreFilter plugin \"A\": boom");
        assert_eq!(asked, "A");
    }
    let (run, _) = run(vec![Status::new(Code::Wait, []).into()]);
    assert_eq!(run.status.code(), Code::Error);
}

#[test]
fn a_plugin_that_skips_narrows_nothing() {
    let skip = PreFilterOutcome { node_names: Some(set("")), ..PreFilterOutcome::skip() };
    let (run, asked) = run(vec![skip, nodes("n1")]);
    assert!(run.status.is_success());
    assert_eq!(run.node_names, Some(set("n1")));
    assert_eq!(run.restricting, set("B"));
    assert_eq!(asked, "A B");
}

#[test]
fn the_plugins_to_leave_out_are_known_whatever_the_end() {
    let ends: Vec<PreFilterOutcome> = vec![
        PreFilterOutcome::success(),
        nodes(""),
        Status::unschedulable("no").into(),
        Status::unresolvable("no").into(),
        Status::error("no").into(),
    ];
    for end in ends {
        let (run, _) = run(vec![PreFilterOutcome::skip(), end]);
        assert!(
            run.skip.contains(PluginIdx::from_index(0))
                && !run.skip.contains(PluginIdx::from_index(1)),
            "{:?}",
            run.status
        );
    }
}

#[test]
fn nodes_that_were_left_out_share_one_answer() {
    assert_eq!(
        text(&Runner::left_out_status(&set("B A"))),
        "UnschedulableAndUnresolvable: node(s) didn't satisfy plugin(s) [A B]"
    );
}
