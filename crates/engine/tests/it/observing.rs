//! What an observer is reported, and that it changes nothing.

use std::sync::Arc;

use kube_scheduler_engine::{NodeScores, Observer, PodRef, SearchStep};
use kube_scheduler_framework::Status;

use crate::toy::Toy;
use crate::world::{World, pod};

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

fn reported(world: &mut World, wants_scores: bool) -> Vec<String> {
    let mut notes = Notes { wants_scores, ..Notes::default() };
    let turn = world.engine.schedule_next_observed(&mut notes, world.now);
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
    let mut world = World::without_nodes(scorers());
    world.nodes(3);
    world.apply(&pod("p"));
    assert_eq!(
        reported(&mut world, false),
        ["p Started", "p NodesFiltered", "p NodesScored", "p Ended"]
    );
}

#[test]
fn a_single_node_is_not_scored() {
    let mut world = World::new(scorers());
    world.apply(&pod("p"));
    assert_eq!(reported(&mut world, true), ["p Started", "p NodesFiltered", "p Ended"]);
}

#[test]
fn a_search_in_vain_ends_before_anything_is_done_about_it() {
    let mut world = World::new(vec![Toy::new("F").filter(|_, _| Status::unschedulable("no"))]);
    world.apply(&pod("p"));
    assert_eq!(reported(&mut world, true), ["p Started", "p NodesFiltered", "p Ended"]);
    let mut world = World::new(vec![Toy::new("F").filter(|_, _| Status::error("boom"))]);
    world.apply(&pod("p"));
    assert_eq!(reported(&mut world, true), ["p Started", "p Ended"]);
}

#[test]
fn scores_are_reported_node_by_node_fresh_or_kept_sampled_or_not() {
    let table = ["p n0 A:0 B:50 =50", "p n1 A:10 B:50 =60", "p n2 A:20 B:50 =70"];
    for percentage in [None, Some(100)] {
        let mut world = World::configured(scorers(), |config, _| {
            config.percentage_of_nodes_to_score = percentage;
        });
        world.nodes(3);
        for _ in 0..2 {
            world.apply(&pod("p"));
            let reported = reported(&mut world, true);
            assert_eq!(reported[2..5], table, "{percentage:?}");
            world.delete(&pod("p"));
        }
    }
}

#[test]
fn without_score_plugins_nothing_is_reported() {
    let mut world = World::without_nodes(vec![]);
    world.nodes(2);
    world.apply(&pod("p"));
    assert_eq!(
        reported(&mut world, true),
        ["p Started", "p NodesFiltered", "p NodesScored", "p Ended"]
    );
}
