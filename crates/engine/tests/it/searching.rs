//! Where a pod is looked at, how often, and in which order.

use std::sync::Arc;

use kube_scheduler_engine::Input;
use kube_scheduler_framework::{PostFilterOutcome, PreFilterOutcome, Status};
use proptest::prelude::*;

use crate::toy::Toy;
use crate::toy_scheduler::{ToyScheduler, nominated, pod, profile};

fn with_nodes(toys: Vec<Toy>, n: usize) -> ToyScheduler {
    let mut scheduler = ToyScheduler::without_nodes(toys);
    scheduler.nodes(n);
    scheduler
}

fn picky(good: &'static [&'static str]) -> Toy {
    Toy::new("F").pre_filter(|_, _| PreFilterOutcome::success()).filter(move |_, node| {
        if good.contains(&node) { Status::SUCCESS } else { Status::unschedulable("picky") }
    })
}

#[test]
fn a_nominated_node_that_fits_is_the_only_one_looked_at() {
    let mut scheduler = with_nodes(vec![picky(&["n0", "n1", "n2"]).score(|_, _| 1)], 4);
    assert_eq!(scheduler.try_pod(&nominated("p", "n2", 0)), "assumed n2");
    assert_eq!(scheduler.calls_at("Filter").len(), 1);
}

#[test]
fn a_nominated_node_that_does_not_fit_costs_one_look() {
    let mut scheduler = with_nodes(vec![picky(&["n0"])], 4);
    assert_eq!(scheduler.try_pod(&nominated("p", "n2", 0)), "assumed n0");
    let calls = scheduler.calls();
    assert_eq!(calls.iter().filter(|call| **call == "F.Filter(p)").count(), 1 + 4);
    assert_eq!(
        calls.iter().filter(|call| **call == "F.PreFilter(p)").count(),
        1,
        "once per attempt"
    );
}

#[test]
fn a_nominated_node_that_is_gone_does_not_matter() {
    let mut scheduler = with_nodes(vec![picky(&["n0"])], 2);
    assert_eq!(scheduler.try_pod(&nominated("p", "gone", 0)), "assumed n0");
}

#[test]
fn what_a_nominated_node_said_stays_though_pre_filter_left_it_out() {
    for share in [None, Some(50)] {
        let mut scheduler =
            ToyScheduler::configured(vec![picky(&[]), narrowing("n0")], |config, _| {
                config.percentage_of_nodes_to_score = share;
            });
        scheduler.nodes(300);
        assert_eq!(
            scheduler.try_pod(&nominated("p", "n2", 0)),
            "unschedulable 0/300 nodes are available: 2 picky, \
             298 node(s) didn't satisfy plugin(s) [N]."
        );
    }
}

/// Leaves only one node.
fn narrowing(node: &'static str) -> Toy {
    Toy::new("N").pre_filter(move |_, _| PreFilterOutcome::narrowed_to([Arc::from(node)].into()))
}

#[test]
fn nodes_that_pre_filter_names_need_not_exist() {
    let mut scheduler = with_nodes(vec![narrowing("gone")], 3);
    assert_eq!(
        scheduler.try_pod(&pod("p")),
        "unschedulable 0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [N]."
    );
}

#[test]
fn a_rejection_by_pre_filter_is_reported_once() {
    let never = Toy::new("N").pre_filter(|_, _| Status::unresolvable("never").into());
    let mut scheduler = with_nodes(vec![never], 3);
    assert_eq!(scheduler.try_pod(&pod("p")), "unschedulable 0/3 nodes are available: never.");
}

/// A pod nominated to `n1` waits in the queue; a plugin cannot follow it.
#[test]
fn a_nominated_pod_that_cannot_be_added_is_an_error() {
    for share in [None, Some(50)] {
        let toy = Toy::new("F")
            .extensions(|_, _| Status::error("cannot follow"))
            .filter(|pod, _| {
                if &*pod.name == "big" { Status::unschedulable("full") } else { Status::SUCCESS }
            })
            .score(|_, _| 1);
        let keep = Toy::new("P")
            .post_filter(|_, _| PostFilterOutcome::without_nomination(Status::unschedulable("no")));
        let mut scheduler = ToyScheduler::configured(vec![toy, keep], |config, _| {
            config.percentage_of_nodes_to_score = share;
        });
        scheduler.nodes(200);
        scheduler.try_pod(&nominated("big", "n1", 9));
        assert_eq!(scheduler.engine.queue().nomination("big-uid"), Some("n1"));
        assert_eq!(
            scheduler.try_pod(&pod("p")),
            "error running AddPod on PreFilter plugin \"F\": cannot follow"
        );
    }
}

/// Picks for pods p0, p1, … on `n` nodes that all score the same, with a share of nodes to score.
fn picks(n: usize, share: i32, toy: Toy, n_pods: usize) -> Vec<String> {
    let mut scheduler = ToyScheduler::configured(vec![toy], |config, _| {
        config.percentage_of_nodes_to_score = Some(share);
    });
    scheduler.nodes(n);
    (0..n_pods)
        .map(|n| {
            scheduler.try_pod(&pod(&format!("p{n}"))).trim_start_matches("assumed ").to_owned()
        })
        .collect()
}

#[test]
fn a_share_of_the_nodes_is_scored_from_a_moving_start() {
    let toy = Toy::new("F").filter(|_, _| Status::SUCCESS).score(|_, _| 1);
    assert_eq!(picks(500, 30, toy, 6), ["n0", "n150", "n300", "n450", "n100", "n250"]);
}

#[test]
fn a_scan_goes_on_until_one_more_node_fits() {
    // 120 nodes of which 100 are enough; n100 to n104 do not fit and are seen, n105 ends the scan.
    let toy = Toy::new("F")
        .filter(|_, node| {
            let n: u32 = node[1..].parse().unwrap();
            if (100..105).contains(&n) { Status::unschedulable("no") } else { Status::SUCCESS }
        })
        .score(|_, _| 1);
    assert_eq!(picks(120, 30, toy, 2), ["n0", "n105"]);
}

#[test]
fn without_scores_one_fitting_node_is_enough() {
    let toy = Toy::new("F")
        .filter(|_, node| if node == "n1" { Status::unschedulable("no") } else { Status::SUCCESS });
    assert_eq!(picks(4, 50, toy, 5), ["n0", "n2", "n3", "n0", "n2"]);
}

#[test]
fn the_start_moves_even_when_the_scan_fails() {
    let toy = Toy::new("F")
        .filter(|pod, node| {
            if &*pod.name == "p0" && node == "n120" {
                Status::error("boom")
            } else {
                Status::SUCCESS
            }
        })
        .score(|_, _| 1);
    let picks = picks(500, 30, toy, 2);
    assert_eq!(picks, ["error running \"F\" filter plugin: boom", "n120"]);
}

#[test]
fn a_profiles_zero_is_not_overruled_by_the_global_share() {
    let toy = Toy::new("F").filter(|_, _| Status::SUCCESS).score(|_, _| 1);
    let mut scheduler = ToyScheduler::configured(vec![toy], |config, _| {
        config.percentage_of_nodes_to_score = Some(30);
        config.profiles = vec![profile("s", &["F", "Base"]), profile("t", &["F", "Base"])];
        config.profiles[0].percentage_of_nodes_to_score = Some(0);
    });
    scheduler.nodes(500);
    let mut feasible = |profile: &str, name: &str| {
        let pod = pod(&format!("{name} scheduler={profile}"));
        scheduler.apply(&pod);
        scheduler.turn().unwrap().n_feasible
    };
    assert_eq!(feasible("s", "p"), 230, "500 nodes: 50 - 500 / 125 percent");
    assert_eq!(feasible("t", "q"), 150);
}

#[test]
fn a_profiles_zero_adapts_to_the_number_of_nodes() {
    for (n, enough) in [(99, 99), (101, 100), (250, 120), (500, 230), (1000, 420), (6000, 300)] {
        for global in [None, Some(0), Some(70)] {
            let toy = Toy::new("F").filter(|_, _| Status::SUCCESS).score(|_, _| 1);
            let mut scheduler = ToyScheduler::configured(vec![toy], |config, _| {
                config.percentage_of_nodes_to_score = global;
                config.profiles[0].percentage_of_nodes_to_score = Some(0);
            });
            scheduler.nodes(n);
            scheduler.apply(&pod("p"));
            assert_eq!(scheduler.turn().unwrap().n_feasible, enough, "{n} nodes, {global:?}");
        }
    }
}

#[test]
fn a_global_zero_scores_all_nodes() {
    for share in [None, Some(0)] {
        let toy = Toy::new("F").filter(|_, _| Status::SUCCESS).score(|_, _| 1);
        let mut scheduler = ToyScheduler::configured(vec![toy], |config, _| {
            config.percentage_of_nodes_to_score = share;
        });
        scheduler.nodes(500);
        scheduler.apply(&pod("p"));
        assert_eq!(scheduler.turn().unwrap().n_feasible, 500);
    }
}

/// Picks for 40 pods on eight nodes, of which all but `n0` are equally good.
fn picks_of_seed(seed: u64, share: Option<i32>) -> Vec<String> {
    let toy = Toy::new("F").score(|_, node| i64::from(node != "n0"));
    let mut scheduler = ToyScheduler::configured(vec![toy], |config, options| {
        options.seed = seed;
        config.percentage_of_nodes_to_score = share;
    });
    scheduler.nodes(8);
    (0..40)
        .map(|n| {
            scheduler.try_pod(&pod(&format!("p{n}"))).trim_start_matches("assumed ").to_owned()
        })
        .collect()
}

#[test]
fn a_seed_spreads_pods_over_equally_good_nodes() {
    use std::collections::BTreeSet;
    for share in [None, Some(100)] {
        let first = picks_of_seed(0, share).into_iter().collect::<BTreeSet<_>>();
        assert_eq!(first.len(), 1, "without a seed ties fall on the same node: {first:?}");
        let drawn = picks_of_seed(1, share);
        assert_eq!(drawn, picks_of_seed(1, share), "the same seed decides the same");
        assert_ne!(drawn, picks_of_seed(2, share), "another one does not");
        let nodes: BTreeSet<&str> = drawn.iter().map(|node| &**node).collect();
        let expected: BTreeSet<&str> = ["n1", "n2", "n3", "n4", "n5", "n6", "n7"].into();
        assert_eq!(nodes, expected);
    }
}

#[test]
fn the_best_node_wins_and_one_candidate_is_not_scored() {
    let toy = Toy::new("F").score(|_, node| if node == "n2" { 90 } else { 10 });
    let mut scheduler = with_nodes(vec![toy], 4);
    assert_eq!(scheduler.try_pod(&pod("p")), "assumed n2");
    let mut scheduler = with_nodes(vec![picky(&["n3"]), Toy::new("S").score(|_, _| 101)], 4);
    assert_eq!(scheduler.try_pod(&pod("p")), "assumed n3");
    assert_eq!(scheduler.calls_at("Score"), Vec::<String>::new());
}

#[test]
fn what_plugins_read_is_followed_afterwards() {
    let mut scheduler = ToyScheduler::new(vec![Toy::new("A").column(|pod, _| pod.name.clone())]);
    let labelled = kube_scheduler_framework::testing::node("labelled");
    let labelled = labelled.label("p", "1").label("q", "1").label("r", "1");
    scheduler.input(Input::NodeApplied(labelled.build()));
    assert!(scheduler.engine.cluster().label_column("r").is_none());
    scheduler.try_pod(&pod("p"));
    assert!(scheduler.engine.cluster().label_column("p").is_some());
    assert!(scheduler.engine.explain(&pod("q"), 0, scheduler.now).is_some());
    assert!(scheduler.engine.cluster().label_column("q").is_some());
}

#[test]
fn of_several_errors_the_first_nodes_counts_whichever_plugin_it_comes_from() {
    let early = Toy::new("A").filter(|_, node| match node {
        "n0" => Status::unschedulable("full"),
        "n3" => Status::error("late"),
        _ => Status::SUCCESS,
    });
    let late = Toy::new("B").filter(|_, node| match node {
        "n0" | "n2" => Status::error("early"),
        _ => Status::SUCCESS,
    });
    let mut scheduler = with_nodes(vec![early, late], 5);
    let explanation = scheduler.engine.explain(&pod("p"), 0, scheduler.now).unwrap();
    let known: Vec<_> =
        explanation.nodes.iter().map(|node| (&*node.name, node.status.is_success())).collect();
    assert_eq!(known, [("n0", false), ("n1", true)]);
    let message = "running \"B\" filter plugin: early";
    assert_eq!(explanation.error.unwrap().message(), message);
    assert_eq!(scheduler.try_pod(&pod("p")), format!("error {message}"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Plugins that promise bounds are not asked about all nodes, but the node is the one that it is if they are. A weight may be
    /// negative.
    #[test]
    fn promised_bounds_change_no_decision(
        scores in prop::collection::vec(prop::array::uniform4(prop_oneof![0_i64..=100, Just(0), Just(90)]), 1..40),
        weights in (1..4, 1..4, 1..4, -1..4).prop_map(|(a, b, c, d)| [a, b, c, d]),
    ) {
        let chosen = |n_promising| ask_bounded(&scores, weights, n_promising).try_pod(&pod("p"));
        prop_assert_eq!(chosen(0), chosen(3));
    }
}

/// Nodes with these scores by four plugins with `weights`, the last of which promise bounds.
fn ask_bounded(scores: &[[i64; 4]], weights: [i32; 4], n_promising: usize) -> ToyScheduler {
    let toy = |at: usize| {
        let column: Vec<i64> = scores.iter().map(|scores| scores[at]).collect();
        let toy = Toy::new(["A", "B", "C", "D"][at])
            .score(move |_, node| column[node[1..].parse::<usize>().unwrap()]);
        if at + n_promising >= 4 { toy.promising_bounds() } else { toy }
    };
    let mut scheduler = ToyScheduler::configured((0..4).map(toy).collect(), |config, _| {
        let plugins = config.profiles[0].plugins.as_mut().unwrap();
        let weighted = plugins.multi_point.enabled.iter_mut().zip(weights);
        weighted.for_each(|(plugin, weight)| plugin.weight = weight);
    });
    scheduler.nodes(scores.len());
    scheduler
}

#[test]
fn nodes_that_cannot_win_are_not_asked_about() {
    let mut scores = [[60, 0, 0, 0]; 20];
    // The leading node, which reaches 360. It misses most from D, so that is asked first, and all may still get 300 more.
    scores[7] = [100, 100, 100, 60];
    // After D it may still reach 360 by B and C, and after B not by C alone.
    scores[8] = [95, 90, 100, 65];
    // After D it cannot reach 360.
    scores[9] = [95, 100, 100, 0];
    let mut scheduler = ask_bounded(&scores, [1; 4], 3);
    assert_eq!(scheduler.try_pod(&pod("p")), "assumed n7");
    let calls = scheduler.calls();
    let n_calls = |call: &str| calls.iter().filter(|it| **it == call).count();
    let by_plugin = ["A", "B", "C", "D"].map(|name| n_calls(&format!("{name}.Score(p)")));
    assert_eq!(by_plugin, [20, 1 + 2, 1 + 1, 1 + 20]);
}
