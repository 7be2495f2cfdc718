//! The same history gives the same decisions: with evaluations shared or not, and twice.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::{Node, Pod};
use kube_scheduler_engine::{EngineOptions, Input};
use kube_scheduler_framework::preemption::PreemptionCandidate;
use kube_scheduler_runtime::{
    Extender, ExtenderCallError, ExtenderFilterResult, ExtenderVerbs, ExtenderVictims,
    HostPriority, PendingPriorities,
};
use kube_scheduler_tests::fixtures::engine;
use kube_scheduler_tests::history::History;
use kube_scheduler_tests::live_cluster::LiveCluster;
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

    fn filter(
        &self,
        _: &Arc<Pod>,
        nodes: &[Arc<Node>],
    ) -> Result<ExtenderFilterResult, ExtenderCallError> {
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
    ) -> Result<BTreeMap<String, ExtenderVictims>, ExtenderCallError> {
        let victims = |candidate: &PreemptionCandidate| ExtenderVictims {
            uids: candidate.victims.iter().map(|victim| victim.uid.to_string()).collect(),
            n_pdb_violations: candidate.n_pdb_violations,
        };
        let agreed = candidates.iter();
        Ok(agreed.map(|(node, candidate)| (node.name.to_string(), victims(candidate))).collect())
    }
}

fn options(uses_class_cache: bool) -> EngineOptions {
    EngineOptions { seed: 7, uses_class_cache, ..EngineOptions::default() }
}

#[test]
fn a_history_is_not_empty() {
    let log: Vec<String> = SEEDS.flat_map(|seed| log(seed, 0, options(true))).collect();
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
            let mut history = History::new(seed, 0, options(uses_class_cache)).unwrap();
            history.run(STEPS).unwrap();
            history.engine.class_cache_counts().hits
        };
        SEEDS.map(hits_of).sum::<u64>()
    };
    assert!(hits(true) > 10, "{} evaluations were brought up to date", hits(true));
    assert_eq!(hits(false), 0);
}

/// A step of a history of preemptions; numbers name one of a few pods or nodes.
#[derive(Clone, Debug)]
enum Step {
    /// A node of so many CPUs, with a taint or without.
    Node(u8, u8, bool),
    NodeGone(u8),
    /// A pod on a node that others may take the place of.
    Running(u8, u8),
    /// A pod of one of a few classes and priorities.
    Pod(u8),
    PodGone(u8),
    /// The pod that was evicted first is gone.
    VictimGone,
    Turn,
    Wait(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_u8..4, 1_u8..4, any::<bool>()).prop_map(|(n, cpu, taint)| Step::Node(n, cpu, taint)),
        1 => (0_u8..4).prop_map(Step::NodeGone),
        6 => (0_u8..12, 0_u8..4).prop_map(|(n, node)| Step::Running(n, node)),
        8 => (0_u8..24).prop_map(Step::Pod),
        1 => (0_u8..24).prop_map(Step::PodGone),
        2 => Just(Step::VictimGone),
        16 => Just(Step::Turn),
        3 => (0_u8..20).prop_map(Step::Wait),
    ]
}

/// A cluster whose pods wait for their victims to go.
fn cluster(uses_class_cache: bool) -> LiveCluster {
    let mut cluster = LiveCluster::new(engine(options(uses_class_cache)));
    cluster.victims_stay = true;
    cluster
}

fn add(cluster: &mut LiveCluster, name: &str, words: &str) {
    if !cluster.pods.contains_key(name) {
        cluster.apply(&format!("pod {name} {words}"));
    }
}

fn take(cluster: &mut LiveCluster, step: &Step) {
    match *step {
        Step::Node(n, cpu, is_tainted) => {
            let taint = if is_tainted && cpu == 1 { "taint:a:NoSchedule" } else { "" };
            cluster.apply(&format!("node n{n} cpu={cpu} pods=9 {taint}"));
        }
        Step::NodeGone(n) => cluster.handle(Input::NodeDeleted { name: format!("n{n}").into() }),
        Step::Running(n, node) => {
            add(cluster, &format!("r{n}"), &format!("cpu=400m node=n{node} priority={}", n % 3));
        }
        Step::Pod(n) => {
            let (cpu, priority) = (["300m", "700m"][usize::from(n % 2)], 10 + n / 2 % 3);
            add(cluster, &format!("p{n}"), &format!("cpu={cpu} priority={priority}"));
        }
        Step::PodGone(n) => cluster.delete(&format!("p{n}")),
        Step::VictimGone => {
            if !cluster.evicted.is_empty() {
                let victim = cluster.evicted.remove(0);
                cluster.delete(&victim);
            }
        }
        Step::Turn => {
            let turn = cluster.turn();
            cluster.log.extend(turn.map(|turn| format!("{} {:?}", turn.pod, turn.result)));
        }
        Step::Wait(seconds) => {
            cluster.now = cluster.now + Duration::from_secs(seconds.into());
            cluster.handle(Input::TimePassed);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    /// What nodes answer with the pods nominated to them is kept from attempt to attempt.
    #[test]
    fn decisions_beside_nominated_pods_do_not_depend_on_shared_evaluations(
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let log = |uses_class_cache| {
            let mut cluster = cluster(uses_class_cache);
            (0..4).for_each(|n| take(&mut cluster, &Step::Node(n, 2, false)));
            steps.iter().for_each(|step| take(&mut cluster, step));
            cluster.log
        };
        prop_assert_eq!(log(true), log(false));
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    #[test]
    fn decisions_are_repeatable(seed: u64) {
        prop_assert_eq!(log(seed, 0, options(true)), log(seed, 0, options(true)));
    }

    #[test]
    fn decisions_do_not_depend_on_shared_evaluations(seed: u64) {
        let shared = log(seed, 0, options(true));
        let fresh = log(seed, 0, options(false));
        prop_assert_eq!(shared, fresh);
    }

    /// An extender that agrees to everything and has no favourites changes no decision.
    #[test]
    fn an_agreeable_extender_changes_nothing(seed: u64) {
        for percentage in [0, 30] {
            let alone = log(seed, percentage, options(true));
            for is_mute in [true, false] {
                let agreeable: Arc<dyn Extender> = Arc::new(Agreeable { is_mute });
                let extenders = [agreeable].into_iter().collect();
                let options = EngineOptions { extenders, ..options(true) };
                prop_assert_eq!(&alone, &log(seed, percentage, options));
            }
        }
    }

    #[test]
    fn sampling_is_deterministic_too(seed: u64) {
        let first = log(seed, 30, options(true));
        prop_assert_eq!(first, log(seed, 30, options(false)));
    }

    /// Whatever was deleted at whatever point of an attempt, nothing of it stays behind.
    #[test]
    fn a_history_leaves_no_trace(seed: u64) {
        let mut history = History::new(seed, 0, options(true)).unwrap();
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
        prop_assert_eq!(engine.pending_counts().total(), 0);
    }

    #[test]
    fn the_cluster_state_equals_recomputation(seed: u64) {
        let mut history = History::new(seed, 0, options(true)).unwrap();
        history.run(STEPS).unwrap();
        let differences = kube_scheduler_cache::check(history.engine.cluster());
        prop_assert!(differences.is_empty(), "{differences:?}");
    }
}
