//! Filter on one node and on many, and the pod extensions of PreFilter.

use kube_scheduler_cache::NodeOverlay;
use kube_scheduler_framework::testing::fixture;
use kube_scheduler_framework::{ClusterView, Code, CycleState, PreFilterOutcome, Status, Verdicts};
use kube_scheduler_runtime::{PluginIdx, PodChange, SkipSet};
use proptest::prelude::*;

use crate::toy::{Log, Toy, calls, pod, profile, runner, text};

/// A plugin that answers `status` for node `n1` and accepts every other.
fn against_n1(name: &'static str, log: &Log, status: Status) -> Toy {
    Toy::new(name, log)
        .filter(move |node| if &**node.name() == "n1" { status.clone() } else { Status::SUCCESS })
}

/// What filtering `n1` gives when A accepts, B answers `status`, C would reject; and who was asked.
fn filtered(status: Status, skip: &SkipSet) -> (String, String) {
    let log = Log::default();
    let profile = profile(vec![
        against_n1("A", &log, Status::SUCCESS),
        against_n1("B", &log, status),
        against_n1("C", &log, Status::unschedulable("c")),
    ]);
    let world = fixture("node n1");
    let view = world.view("n1");
    let status = runner(&world, &profile).filter(&CycleState::new(), &pod("p"), &view, skip);
    (text(&status), calls(&log).join(" ").replace(".Filter(n1)", ""))
}

#[test]
fn the_first_plugin_that_does_not_accept_decides() {
    let none = SkipSet::default();
    let cases = [
        (Status::unschedulable("b"), "Unschedulable B: b", "A B"),
        (Status::unresolvable("b"), "UnschedulableAndUnresolvable B: b", "A B"),
        (Status::pending("b"), "Pending B: b", "A B"),
        (Status::error("b"), "Error B: running \"B\" filter plugin: b", "A B"),
        (Status::SUCCESS, "Unschedulable C: c", "A B C"),
    ];
    for (status, expected, asked) in cases {
        assert_eq!(filtered(status, &none), (expected.to_owned(), asked.to_owned()));
    }
    for code in [Code::Wait, Code::Skip] {
        let (text, _) = filtered(Status::new(code, []), &none);
        assert!(text.starts_with("Error B: running \"B\" filter plugin"), "{text}");
    }
}

#[test]
fn a_plugin_whose_pre_filter_skipped_is_not_asked() {
    let mut skip = SkipSet::default();
    skip.insert(PluginIdx::from_index(1));
    let expected = ("Unschedulable C: c".to_owned(), "A C".to_owned());
    assert_eq!(filtered(Status::error("b"), &skip), expected);
}

#[test]
fn many_nodes_at_once_end_with_the_first_error() {
    let log = Log::default();
    let profile = profile(vec![
        against_n1("A", &log, Status::unschedulable("a")),
        Toy::new("B", &log).filter(|node| {
            if &**node.name() == "n2" { Status::error("b") } else { Status::SUCCESS }
        }),
    ]);
    let world = fixture("node n1; node n2; node n3");
    let mut verdicts = Verdicts::absent(world.cluster().capacity());
    let result = runner(&world, &profile).filter_all(
        &CycleState::new(),
        &pod("p"),
        world.cluster().order(),
        &SkipSet::default(),
        &mut verdicts,
    );
    assert_eq!(text(&result.unwrap_err()), "Error B: running \"B\" filter plugin: b");
    assert!(!calls(&log).contains(&"B.Filter(n1)".to_owned()), "A has turned n1 down already");
}

#[test]
fn pod_extensions_are_reported_unless_skipped_and_wrap_what_fails() {
    let log = Log::default();
    let with = |name, outcome: PreFilterOutcome, added: Status, removed: Status| {
        Toy::new(name, &log).pre_filter(outcome).extensions(added, removed)
    };
    let bad = || Status::unschedulable("no");
    let profile = profile(vec![
        with("Idle", PreFilterOutcome::skip(), bad(), bad()),
        Toy::new("Plain", &log).pre_filter(PreFilterOutcome::success()),
        with("A", PreFilterOutcome::success(), Status::SUCCESS, Status::error("gone")),
        with("B", PreFilterOutcome::success(), bad(), Status::SUCCESS),
        with("C", PreFilterOutcome::success(), Status::SUCCESS, Status::SUCCESS),
    ]);
    let world = fixture("node n1");
    let runner = runner(&world, &profile);
    let (incoming, other) = (pod("p"), pod("other"));
    let mut state = CycleState::new();
    let skip = runner.pre_filter(&mut state, &incoming).skip;
    calls(&log);

    let mut overlay = NodeOverlay::new(world.view("n1").idx());
    overlay.add_pod(world.cluster(), &other);
    let status =
        runner.pod_changed(PodChange::Added, &mut state, &incoming, &other, &overlay, &skip);
    assert_eq!(text(&status), "Error B: running AddPod on PreFilter plugin \"B\": no");
    assert_eq!(calls(&log), ["A.AddPod(other)", "B.AddPod(other)"]);

    let overlay = NodeOverlay::new(world.view("n1").idx());
    let status =
        runner.pod_changed(PodChange::Removed, &mut state, &incoming, &other, &overlay, &skip);
    assert_eq!(text(&status), "Error A: running RemovePod on PreFilter plugin \"A\": gone");
    assert_eq!(calls(&log), ["A.RemovePod(other)"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Filtering all nodes at once gives each node the answer that it gets alone.
    #[test]
    fn all_at_once_is_one_by_one(
        answers in proptest::collection::vec(proptest::collection::vec(0_u8..4, 6), 1..4),
        skipped in proptest::collection::vec(any::<bool>(), 4),
    ) {
        let names = ["n0", "n1", "n2", "n3", "n4", "n5"];
        let world = fixture(&names.map(|name| format!("node {name}")).join("\n"));
        let log = Log::default();
        let toys = answers.into_iter().zip(["A", "B", "C", "D"]).map(|(answers, name)| {
            Toy::new(name, &log).filter(move |node| {
                match answers[names.iter().position(|name| **name == **node.name()).unwrap()] {
                    0 => Status::unschedulable("full"),
                    1 => Status::unresolvable("wrong"),
                    _ => Status::SUCCESS,
                }
            })
        });
        let profile = profile(toys.collect());
        let mut skip = SkipSet::default();
        skipped.iter().enumerate().filter(|(_, is)| **is).for_each(|(idx, _)| skip.insert(PluginIdx::from_index(idx)));
        let (runner, state, pod) = (runner(&world, &profile), CycleState::new(), pod("p"));
        let mut verdicts = Verdicts::absent(world.cluster().capacity());
        let order = world.cluster().order().to_vec();
        runner.filter_all(&state, &pod, &order, &skip, &mut verdicts).unwrap();
        for idx in order {
            let view = ClusterView::unrecorded(world.cluster()).node(idx).unwrap();
            let alone = runner.filter(&state, &pod, &view, &skip);
            prop_assert_eq!(verdicts.passes(idx), alone.is_success());
            prop_assert_eq!(verdicts.rejection(idx).cloned().unwrap_or_default(), alone);
        }
    }
}
