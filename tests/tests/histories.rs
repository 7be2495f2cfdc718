//! The same history gives the same decisions: with any number of threads, with evaluations shared or not, and twice.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_api_types::{Node, Pod};
use kube_scheduler_engine::{EngineOptions, Pool};
use kube_scheduler_framework::preemption::PreemptionCandidate;
use kube_scheduler_runtime::{
    Extender, ExtenderFilterResult, ExtenderVerbs, ExtenderVictims, HostPriority, PendingPriorities,
};
use kube_scheduler_tests::history::History;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const STEPS: usize = 400;
/// Histories of which at least one has what is looked for.
const SEEDS: std::ops::Range<u64> = 1..9;

/// With every third seed ties fall on the first node, with the others they are drawn.
fn log(seed: u64, percentage: i32, options: EngineOptions) -> Vec<String> {
    let options = EngineOptions { seed: seed % 3, ..options };
    History::new(seed, percentage, options).unwrap().run(STEPS).unwrap().to_vec()
}

fn threads(n: usize) -> Pool {
    let threads = rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap();
    Pool::new(Arc::new(threads)).splitting_from(2)
}

/// Lets every node and every eviction pass; scores nothing, or not at all.
struct Agreeable {
    is_mute: bool,
}

impl Extender for Agreeable {
    fn name(&self) -> &str {
        "agreeable"
    }

    fn verbs(&self) -> ExtenderVerbs {
        let prioritize = !self.is_mute;
        ExtenderVerbs { filter: true, prioritize, preempt: true, bind: false }
    }

    fn filter(&self, _: &Arc<Pod>, nodes: &[Arc<Node>]) -> Result<ExtenderFilterResult, String> {
        let nodes = nodes.iter().rev().map(|node| node.name.to_string()).collect();
        Ok(ExtenderFilterResult { nodes, ..ExtenderFilterResult::default() })
    }

    fn prioritize(&self, _: &Arc<Pod>, nodes: &[Arc<Node>]) -> PendingPriorities {
        let scored = nodes.iter().rev();
        let scores =
            scored.map(|node| HostPriority { host: node.name.to_string(), score: 0 }).collect();
        Box::new(|| Ok(scores))
    }

    fn preempt(
        &self,
        _: &Arc<Pod>,
        candidates: &[(Arc<Node>, PreemptionCandidate)],
    ) -> Result<BTreeMap<String, ExtenderVictims>, String> {
        let victims = |candidate: &PreemptionCandidate| ExtenderVictims {
            uids: candidate.victims.iter().map(|victim| victim.uid.to_string()).collect(),
            n_pdb_violations: candidate.n_pdb_violations,
        };
        let agreed = candidates.iter();
        Ok(agreed.map(|(node, candidate)| (node.name.to_string(), victims(candidate))).collect())
    }
}

fn options(uses_class_cache: bool, pool: Pool) -> EngineOptions {
    EngineOptions { seed: 7, uses_class_cache, pool, ..EngineOptions::default() }
}

#[test]
fn a_history_is_not_empty() {
    let log: Vec<String> =
        SEEDS.flat_map(|seed| log(seed, 0, options(true, Pool::none()))).collect();
    let bindings = log.iter().filter(|line| line.starts_with("bind ")).count();
    let refusals = log.iter().filter(|line| line.contains("FailedScheduling")).count();
    let evictions = log.iter().filter(|line| line.starts_with("evict ")).count();
    assert!(
        bindings > 10 && refusals > 3 && evictions > 0,
        "{bindings} bindings, {refusals} refusals, {evictions} evictions"
    );
}

/// Otherwise comparing them with fresh ones would prove nothing.
#[test]
fn evaluations_are_really_shared() {
    let hits = |uses_class_cache: bool| {
        let hits_of = |seed| {
            let mut history =
                History::new(seed, 0, options(uses_class_cache, Pool::none())).unwrap();
            history.run(STEPS).unwrap();
            history.engine.class_cache_counts().hits
        };
        SEEDS.map(hits_of).sum::<u64>()
    };
    assert!(hits(true) > 10, "{} evaluations were brought up to date", hits(true));
    assert_eq!(hits(false), 0);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    #[test]
    fn decisions_do_not_depend_on_threads(seed: u64) {
        let alone = log(seed, 0, options(true, Pool::none()));
        prop_assert_eq!(&alone, &log(seed, 0, options(true, Pool::none())));
        prop_assert_eq!(&alone, &log(seed, 0, options(true, threads(1))));
        prop_assert_eq!(&alone, &log(seed, 0, options(true, threads(3))));
    }

    #[test]
    fn decisions_do_not_depend_on_shared_evaluations(seed: u64) {
        let shared = log(seed, 0, options(true, Pool::none()));
        let fresh = log(seed, 0, options(false, Pool::none()));
        prop_assert_eq!(shared, fresh);
    }

    /// An extender that agrees to everything and has no favourites changes no decision.
    #[test]
    fn an_agreeable_extender_changes_nothing(seed: u64) {
        for percentage in [0, 30] {
            let alone = log(seed, percentage, options(true, Pool::none()));
            for is_mute in [true, false] {
                let agreeable: Arc<dyn Extender> = Arc::new(Agreeable { is_mute });
                let extenders = [agreeable].into_iter().collect();
                let options = EngineOptions { extenders, ..options(true, Pool::none()) };
                prop_assert_eq!(&alone, &log(seed, percentage, options));
            }
        }
    }

    #[test]
    fn sampling_is_deterministic_too(seed: u64) {
        let first = log(seed, 30, options(true, Pool::none()));
        prop_assert_eq!(first, log(seed, 30, options(false, threads(2))));
    }

    /// Whatever was deleted at whatever point of an attempt, nothing of it stays behind.
    #[test]
    fn a_history_leaves_no_trace(seed: u64) {
        let mut history = History::new(seed, 0, options(true, Pool::none())).unwrap();
        history.run(STEPS).unwrap();
        history.wind_up().unwrap();
        let engine = &history.engine;
        let cluster = engine.cluster();
        let differences = kube_scheduler_cache::check(cluster);
        prop_assert!(differences.is_empty(), "{differences:?}");
        prop_assert_eq!((cluster.n_nodes(), cluster.n_ghosts(), cluster.n_pods()), (0, 0, 0));
        prop_assert_eq!((cluster.n_assumed(), cluster.objects().n_assumed()), (0, 0));
        let under_way = (engine.n_binding(), engine.n_preempting());
        prop_assert_eq!((under_way, engine.n_known_pods()), ((0, 0), 0));
        prop_assert_eq!(engine.queue().nominated_nodes().count(), 0);
        let pending = engine.pending_counts();
        prop_assert_eq!(pending.active + pending.backoff + pending.unschedulable + pending.gated, 0);
    }

    #[test]
    fn the_cluster_state_equals_recomputation(seed: u64) {
        let mut history = History::new(seed, 0, options(true, Pool::none())).unwrap();
        history.run(STEPS).unwrap();
        let differences = kube_scheduler_cache::check(history.engine.cluster());
        prop_assert!(differences.is_empty(), "{differences:?}");
    }
}
