//! What an observer is reported, and that it changes nothing.

use std::sync::Arc;

use kube_scheduler_engine::{NodeScores, Observer, PodRef, SearchStep};
use kube_scheduler_framework::Status;

use crate::toy::Toy;
use crate::toy_scheduler::{ToyScheduler, pod};

#[derive(Default)]
struct Notes {
    wants_scores: bool,
    reported: Vec<String>,
}

impl Observer for Notes {
    fn reached(&mut self, pod: &PodRef, step: SearchStep) {
        self.reported.push(format!("{} {step:?}", pod.name));
    }

    fn wants_scores(&self) -> bool {
        self.wants_scores
    }

    fn scored(&mut self, pod: &PodRef, nodes: &[(Arc<str>, NodeScores)]) {
        for (node, NodeScores { total, by_plugin }) in nodes {
            let parts: Vec<String> =
                by_plugin.iter().map(|(plugin, score)| format!("{plugin}:{score}")).collect();
            self.reported.push(format!("{} {node} {} ={total}", pod.name, parts.join(" ")));
        }
    }
}

fn reported(scheduler: &mut ToyScheduler, wants_scores: bool) -> Vec<String> {
    let mut notes = Notes { wants_scores, ..Notes::default() };
    let turn = scheduler.engine.schedule_next_observed(&mut notes, scheduler.now);
    assert!(turn.is_some());
    notes.reported
}

/// Nodes n0, n1 and n2 get 0, 10 and 20 from A and 50 each from B.
fn scorers() -> Vec<Toy> {
    vec![
        Toy::new("A").score(|_, node| 10 * node[1..].parse::<i64>().unwrap()),
        Toy::new("B").score(|_, _| 50),
    ]
}

#[test]
fn a_search_with_a_choice_has_four_steps() {
    let mut scheduler = ToyScheduler::without_nodes(scorers());
    scheduler.nodes(3);
    scheduler.apply(&pod("p"));
    assert_eq!(
        reported(&mut scheduler, false),
        ["p Started", "p NodesFiltered", "p NodesScored", "p Ended"]
    );
}

#[test]
fn a_single_node_is_not_scored() {
    let mut scheduler = ToyScheduler::new(scorers());
    scheduler.apply(&pod("p"));
    assert_eq!(reported(&mut scheduler, true), ["p Started", "p NodesFiltered", "p Ended"]);
}

#[test]
fn a_search_in_vain_ends_before_anything_is_done_about_it() {
    let mut scheduler =
        ToyScheduler::new(vec![Toy::new("F").filter(|_, _| Status::unschedulable("no"))]);
    scheduler.apply(&pod("p"));
    assert_eq!(reported(&mut scheduler, true), ["p Started", "p NodesFiltered", "p Ended"]);
    let mut scheduler = ToyScheduler::new(vec![Toy::new("F").filter(|_, _| Status::error("boom"))]);
    scheduler.apply(&pod("p"));
    assert_eq!(reported(&mut scheduler, true), ["p Started", "p Ended"]);
}

#[test]
fn scores_are_reported_node_by_node_fresh_or_kept_sampled_or_not() {
    let table = ["p n0 A:0 B:50 =50", "p n1 A:10 B:50 =60", "p n2 A:20 B:50 =70"];
    for percentage in [None, Some(100)] {
        let mut scheduler = ToyScheduler::configured(scorers(), |config, _| {
            config.percentage_of_nodes_to_score = percentage;
        });
        scheduler.nodes(3);
        for _ in 0..2 {
            scheduler.apply(&pod("p"));
            let reported = reported(&mut scheduler, true);
            assert_eq!(reported[2..5], table, "{percentage:?}");
            scheduler.delete(&pod("p"));
        }
    }
}

#[test]
fn without_score_plugins_nothing_is_reported() {
    let mut scheduler = ToyScheduler::without_nodes(vec![]);
    scheduler.nodes(2);
    scheduler.apply(&pod("p"));
    assert_eq!(
        reported(&mut scheduler, true),
        ["p Started", "p NodesFiltered", "p NodesScored", "p Ended"]
    );
}
