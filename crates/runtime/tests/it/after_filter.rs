//! PostFilter, PreScore and Score.

use std::sync::Arc;

use kube_scheduler_framework::testing::fixture;
use kube_scheduler_framework::{
    Code, Commands, CycleState, NominatingInfo, Normalization, PostFilterContext,
    PostFilterOutcome, Status, Verdicts,
};
use kube_scheduler_runtime::{HypotheticalRunner, PluginIdx, SkipSet};

use crate::toy::{Log, Toy, calls, pod, profile, runner, text};

fn nominating(status: Status, node: &str) -> PostFilterOutcome {
    let nominating = Some(NominatingInfo::Override(Some(node.into())));
    PostFilterOutcome { nominating, victims: Vec::new(), found_by: None, status }
}

fn plain(status: Status) -> PostFilterOutcome {
    PostFilterOutcome::without_nomination(status)
}

/// Runs PostFilter plugins A, B, C with these answers: the status, the nomination, who was asked.
fn post_filtered(answers: Vec<PostFilterOutcome>) -> (String, Option<Arc<str>>, String) {
    let log = Log::default();
    let toys = answers
        .into_iter()
        .zip(["A", "B", "C"])
        .map(|(answer, name)| Toy::new(name, &log).post_filter(answer))
        .collect();
    let (world, profile) = (fixture("node n1"), profile(toys));
    let runner = runner(&world, &profile);
    let skip = SkipSet::default();
    let filters = HypotheticalRunner { profile: &profile, skip: &skip };
    let verdicts = Verdicts::absent(world.cluster().capacity());
    let mut commands = Commands::default();
    let mut cx = PostFilterContext {
        cx: runner.cx.unrecorded(),
        verdicts: &verdicts,
        absent: &Status::SUCCESS,
        filters: &filters,
        extenders: None,
        random: 0,
        commands: &mut commands,
        report: None,
    };
    let outcome = runner.post_filter(&mut cx, &CycleState::new(), &pod("p"));
    let node = match outcome.nominating {
        Some(NominatingInfo::Override(node)) => node,
        _ => None,
    };
    (text(&outcome.status), node, calls(&log).join(" ").replace(".PostFilter", ""))
}

#[test]
fn success_ends_it_and_drops_what_was_said_before() {
    let no = || plain(Status::unschedulable("no"));
    let yes = || nominating(Status::SUCCESS, "n1");
    let expected = |asked: &str| ("Success: ".to_owned(), Some("n1".into()), asked.to_owned());
    assert_eq!(post_filtered(vec![yes(), no()]), expected("A"));
    assert_eq!(post_filtered(vec![no(), yes()]), expected("A B"));
}

#[test]
fn an_error_ends_it_in_its_own_words() {
    for error in [Status::error("boom"), Status::new(Code::Wait, ["boom".into()])] {
        let (status, node, asked) = post_filtered(vec![
            nominating(Status::unschedulable("no"), "n1"),
            nominating(error, "n2"),
            plain(Status::SUCCESS),
        ]);
        assert_eq!((&*status, node, &*asked), ("Error B: boom", None, "A B"));
    }
}

#[test]
fn unresolvable_ends_it_with_its_own_result() {
    let (status, node, asked) = post_filtered(vec![
        plain(Status::unschedulable("no")),
        nominating(Status::unresolvable("never"), "n2"),
        plain(Status::SUCCESS),
    ]);
    assert_eq!(status, "UnschedulableAndUnresolvable B: never");
    assert_eq!((node, &*asked), (Some("n2".into()), "A B"));
}

#[test]
fn rejections_are_collected_under_the_first_name() {
    let (status, node, asked) = post_filtered(vec![
        plain(Status::unschedulable("a")),
        plain(Status::pending("b")),
        plain(Status::unschedulable("c")),
    ]);
    assert_eq!((&*status, node, &*asked), ("Unschedulable A: a, b, c", None, "A B C"));
}

#[test]
fn of_several_nominations_the_last_stands() {
    let keep = PostFilterOutcome {
        nominating: Some(NominatingInfo::Keep),
        ..plain(Status::unschedulable("c"))
    };
    let (_, node, _) = post_filtered(vec![
        nominating(Status::unschedulable("a"), "n1"),
        nominating(Status::unschedulable("b"), "n2"),
        keep,
    ]);
    assert_eq!(node, Some("n2".into()));
}

/// PreScore with these answers: who is left out of Score, or the error; and who was asked.
fn pre_scored(answers: Vec<Status>) -> (Result<Vec<usize>, String>, String) {
    let log = Log::default();
    let n = answers.len();
    let toys = answers
        .into_iter()
        .zip(["A", "B", "C"])
        .map(|(answer, name)| Toy::new(name, &log).pre_score(answer))
        .collect();
    let (world, profile) = (fixture("node n1"), profile(toys));
    let result = runner(&world, &profile).pre_score(
        &mut CycleState::new(),
        &pod("p"),
        &[],
        &SkipSet::default(),
    );
    let skipped = result
        .map(|skip| (0..n).filter(|idx| skip.contains(PluginIdx::from_index(*idx))).collect())
        .map_err(|status| text(&status));
    (skipped, calls(&log).join(" ").replace(".PreScore", ""))
}

#[test]
fn pre_score_skips_or_fails() {
    let (skipped, asked) = pre_scored(vec![Status::SUCCESS, Status::skip(), Status::SUCCESS]);
    assert_eq!((skipped, &*asked), (Ok(vec![1]), "A B C"));
    for failure in [Status::error("boom"), Status::unschedulable("boom")] {
        let (failed, asked) = pre_scored(vec![Status::skip(), failure, Status::SUCCESS]);
        let expected = "Error B: running PreScore plugin \"B\": boom".to_owned();
        assert_eq!((failed, &*asked), (Err(expected), "A B"));
    }
}

/// The weighted scores of one plugin for nodes n0, n1, … that has these raw scores.
fn scored(weight: i32, raw: &[i64], change: impl FnOnce(Toy) -> Toy) -> Result<Vec<i64>, String> {
    let log = Log::default();
    let names: Vec<String> = (0..raw.len()).map(|n| format!("n{n}")).collect();
    let world = fixture(&names.iter().map(|name| format!("node {name}\n")).collect::<String>());
    let raw = raw.to_vec();
    let toy = Toy::new("A", &log).score(move |node| Ok(raw[node[1..].parse::<usize>().unwrap()]));
    let base = Toy::at(
        "Base",
        &[
            kube_scheduler_runtime::ExtensionPoint::QueueSort,
            kube_scheduler_runtime::ExtensionPoint::Bind,
        ],
    );
    let config = crate::toy::config(&format!("A:{weight} Base"), &[]);
    let profile = crate::toy::build(vec![change(toy), base], &config).unwrap();
    let runner = runner(&world, &profile);
    let (plugin, state, pod) = (profile.position("A").unwrap(), CycleState::new(), pod("p"));
    let nodes: Vec<_> = names.iter().map(|name| world.view(name).idx()).collect();
    let mut scores = vec![0; nodes.len()];
    runner
        .raw_scores(plugin, &state, &pod, &nodes, &mut scores)
        .and_then(|()| runner.normalize_and_weigh(plugin, &state, &pod, &nodes, &mut scores))
        .map(|()| scores)
        .map_err(|status| text(&status))
}

#[test]
fn scores_are_normalised_then_weighed() {
    use Normalization::{Proportional, ReversedProportional};
    assert_eq!(scored(3, &[0, 50, 100], |toy| toy), Ok(vec![0, 150, 300]));
    let with = |how| move |toy: Toy| toy.normalization(how);
    assert_eq!(scored(1, &[0, 1, 3], with(Proportional)), Ok(vec![0, 33, 100]));
    assert_eq!(scored(2, &[0, 1, 3], with(ReversedProportional)), Ok(vec![200, 134, 0]));
    assert_eq!(scored(1, &[0, 0], with(Proportional)), Ok(vec![0, 0]));
    assert_eq!(scored(1, &[0, 0], with(ReversedProportional)), Ok(vec![100, 100]));
    let halve = |toy: Toy| {
        toy.normalize(|scores| {
            scores.iter_mut().for_each(|score| *score /= 2);
            Status::SUCCESS
        })
    };
    assert_eq!(scored(1, &[200, 8], halve), Ok(vec![100, 4]), "raw scores may be out of range");
}

#[test]
fn min_max_truncates_the_float() {
    let scaled =
        |raw: &[i64]| scored(1, raw, |toy| toy.normalization(Normalization::MinMax)).unwrap();
    assert_eq!(scaled(&[7, 7, 7]), [0, 0, 0]);
    assert_eq!(scaled(&[-5, 0, 5]), [0, 50, 100]);
    // All shares of up to 200 that come out one lower than exact arithmetic has them.
    for (part, whole, expected) in [
        (29, 50, 57),
        (58, 100, 57),
        (29, 100, 28),
        (57, 100, 56),
        (87, 150, 57),
        (58, 200, 28),
        (114, 200, 56),
        (116, 200, 57),
    ] {
        assert_eq!(scaled(&[0, part, whole]), [0, expected, 100], "{part} of {whole}");
    }
    assert_eq!(scaled(&[0, 1, 3]), [0, 33, 100]);
}

#[test]
fn scores_out_of_range_after_normalising_are_an_error() {
    for score in [-1, 101] {
        let error = format!(
            "Error: applying score defaultWeights on Score plugins: plugin \"A\" returns an invalid score {score}, \
             it should in the range of [0, 100] after normalizing"
        );
        assert_eq!(scored(1, &[5, score], |toy| toy), Err(error));
    }
}

#[test]
fn failing_scores_and_normalisations_are_wrapped() {
    let failing = |toy: Toy| toy.score(|_| Err(Status::unschedulable("boom")));
    assert_eq!(
        scored(1, &[1], failing),
        Err("Error A: running Score plugins: plugin \"A\" failed with: boom".to_owned())
    );
    let failing = |toy: Toy| toy.normalize(|_| Status::error("boom"));
    assert_eq!(
        scored(1, &[1], failing),
        Err("Error A: running Normalize on Score plugins: plugin \"A\" failed with: boom"
            .to_owned())
    );
}

#[test]
fn extreme_raw_scores_end_in_an_error_not_in_a_crash() {
    for how in [Normalization::Proportional, Normalization::ReversedProportional] {
        let result = scored(1, &[1, i64::MIN / 100], |toy| toy.normalization(how));
        assert!(result.is_err_and(|text| text.contains("invalid score")), "{how:?}");
    }
}
