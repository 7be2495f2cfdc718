//! Smaller work does not keep a gang waiting for ever (`docs/groups.md`, "Who goes first"): the gang that holds room is placed
//! when the pods are gone that it waits for, whatever smaller pods come meanwhile, and holds the room for a while only.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod devices;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::Timestamp;
use kube_scheduler_engine::{AttemptResult, Engine, EngineOptions, Input};
use kube_scheduler_framework::testing;
use kube_scheduler_runtime::{Extender, ExtenderVerbs, Extenders};
use kube_scheduler_tests::fixtures::{self, GANG_GATES, gates};
use kube_scheduler_tests::history::Numbers;
use kube_scheduler_tests::live_cluster::LiveCluster;
use serde_json::json;

/// How many random clusters the test tries. `KUBE_SCHEDULER_BACKFILLS` sets another number.
const N_CASES: u64 = 150;
const HOUR: u64 = 3600;

fn engine(longest_hold: u64, preempts: bool, extenders: Extenders) -> Engine {
    let preemption = preempts.then_some("WorkloadAwarePreemption");
    fixtures::engine(EngineOptions {
        gates: gates(GANG_GATES.into_iter().chain(preemption)),
        plans_gangs_exactly: true,
        longest_hold: Duration::from_secs(longest_hold),
        extenders,
        max_in_unschedulable: super::NEVER,
        ..EngineOptions::default()
    })
}

/// A cluster whose nodes have so many CPUs and are in these zones.
fn cluster_with(longest_hold: u64, nodes: &[(u64, u64)]) -> LiveCluster {
    cluster_of(engine(longest_hold, false, Extenders::default()), nodes)
}

fn cluster_of(engine: Engine, nodes: &[(u64, u64)]) -> LiveCluster {
    let mut cluster = LiveCluster::new(engine);
    cluster.pods_start = true;
    for (at, (cpu, zone)) in nodes.iter().enumerate() {
        cluster.apply(&format!("node n{at} cpu={cpu} zone=z{zone}"));
    }
    cluster
}

/// A pod on a node that has run for some seconds when the test begins.
fn run(cluster: &mut LiveCluster, pod: &str, node: usize, for_seconds: i64) {
    let began = LiveCluster::START.as_nanos() / 1_000_000;
    let started = Timestamp::from_millis(began - for_seconds * 1000);
    cluster.apply(&format!("pod {pod} node=n{node} started={started}"));
}

/// Lets some seconds pass. Unless gangs may evict pods, none is evicted, and what is held is not written.
fn wait(cluster: &mut LiveCluster, seconds: u64) {
    for _ in 0..seconds {
        cluster.pass(Duration::from_secs(1));
        let said = std::mem::take(&mut cluster.log);
        let is_of = |line: &str, pod: &String| line.starts_with(&format!("patch default/{pod} "));
        let holds = |line: &&String| {
            line.contains(" nominated=") && !cluster.placed.iter().any(|pod| is_of(line, pod))
        };
        let wrong = (said.iter().find(holds), cluster.evicted.first());
        assert!(cluster.victims_stay || wrong == (None, None), "{wrong:?}");
    }
}

/// How many seconds a gang of `g0` and `g1` waits that comes after a minute, if no more than `n_seconds` are looked at, while
/// there are always small pods that wait as well, `s1` and so on; and how many of these are placed meanwhile. `add` makes a pod
/// of such a name, `end` ends a small one, and `runs_for` is for how many seconds that has run then.
fn wait_in_stream(
    mut cluster: LiveCluster,
    n_seconds: u64,
    add: impl Fn(&mut LiveCluster, &str),
    runs_for: impl Fn(&str) -> u64,
    end: impl Fn(&mut LiveCluster, &str),
) -> (Option<u64>, usize) {
    let mut ends: BTreeMap<String, u64> = BTreeMap::new();
    let (mut n_small, mut n_before) = (0, 0);
    for second in 0..n_seconds {
        if second == 60 {
            n_before = cluster.placed.len();
            cluster.apply("podgroup g min=2");
            add(&mut cluster, "g0");
            add(&mut cluster, "g1");
        }
        if cluster.is_placed("g0") && cluster.is_placed("g1") {
            return (Some(second - 60), cluster.placed.len() - 2 - n_before);
        }
        let due: Vec<String> =
            ends.iter().filter(|(_, at)| **at <= second).map(|(name, _)| name.clone()).collect();
        for name in due {
            ends.remove(&name);
            end(&mut cluster, &name);
        }
        // So many wait at any time.
        let waiting = cluster.pods.values().filter(|pod| !pod.is_assigned()).count();
        for _ in waiting..8 {
            n_small += 1;
            add(&mut cluster, &format!("s{n_small}"));
        }
        let before = cluster.placed.clone();
        wait(&mut cluster, 1);
        let small = cluster.placed.difference(&before).filter(|name| name.starts_with('s'));
        ends.extend(small.map(|name| (name.clone(), second + runs_for(name))));
    }
    (None, cluster.placed.len() - n_before)
}

/// The wait of a gang for two whole nodes of four among small pods that run for 30 to 50 seconds.
fn wait_of_gang(longest_hold: u64) -> (Option<u64>, usize) {
    let add = |cluster: &mut LiveCluster, name: &str| {
        if name.starts_with('g') {
            cluster.apply(&format!("pod {name} cpu=4 group=g"));
        } else {
            cluster.apply(&format!("pod {name} cpu=1"));
        }
    };
    let runs_for = |name: &str| 30 + name.len() as u64 * 7 % 21;
    wait_in_stream(
        cluster_with(longest_hold, &[(4, 0); 4]),
        1000,
        add,
        runs_for,
        LiveCluster::delete,
    )
}

#[test]
fn a_stream_of_small_pods_does_not_keep_a_gang_waiting() {
    let (waited, n_beside) = wait_of_gang(HOUR);
    // No small pod runs for longer than 50 seconds, and after the last one the gang comes back within its backoff.
    assert!(waited.is_some_and(|waited| waited <= 65), "{waited:?}");
    assert!(n_beside > 4, "{n_beside} small pods were placed meanwhile");
    assert_eq!(wait_of_gang(0).0, None, "without the rule the gang never gets its turn");
}

/// A gang that comes to a full cluster whose pods end one after the other, those first that have run for longest.
#[derive(Clone, Debug)]
struct Case {
    /// CPU and zone.
    nodes: Vec<(u64, u64)>,
    /// CPU and node; the first one ends first.
    running: Vec<(u64, usize)>,
    members: Vec<u64>,
    min_count: usize,
    in_one_zone: bool,
    /// CPU of small pods, which come between the ends.
    small: Vec<u64>,
}

impl Case {
    fn random(seed: u64) -> Self {
        let mut numbers = Numbers::new(seed);
        let n_nodes = 2 + usize::try_from(numbers.below(3)).unwrap();
        let nodes: Vec<(u64, u64)> =
            (0..n_nodes).map(|_| (2 + numbers.below(4), numbers.below(2))).collect();
        let mut running = Vec::new();
        for (at, (cpu, _)) in nodes.iter().enumerate() {
            let mut left = *cpu;
            while left > 0 && !numbers.one_in(5) {
                let cpu = 1 + numbers.below(left);
                running.push((cpu, at));
                left -= cpu;
            }
        }
        for at in (1..running.len()).rev() {
            running.swap(at, usize::try_from(numbers.below(at as u64 + 1)).unwrap());
        }
        let members: Vec<u64> = (0..1 + numbers.below(4)).map(|_| 1 + numbers.below(3)).collect();
        let min_count = 1 + usize::try_from(numbers.below(members.len() as u64)).unwrap();
        let small = (0..running.len()).map(|_| 1 + numbers.below(2)).collect();
        Self { nodes, running, members, min_count, in_one_zone: numbers.one_in(3), small }
    }

    /// After how many ends the gang is placed, and how many small pods are by then.
    fn play(&self, longest_hold: u64, with_small: bool) -> (Option<usize>, usize) {
        let mut cluster = cluster_with(longest_hold, &self.nodes);
        for (at, (cpu, node)) in self.running.iter().enumerate() {
            run(&mut cluster, &format!("r{at} cpu={cpu}"), *node, 10_000 - at as i64 * 100);
        }
        let topology = if self.in_one_zone { "topology=zone" } else { "" };
        cluster.apply(&format!("podgroup g min={} {topology}", self.min_count));
        for (at, cpu) in self.members.iter().enumerate() {
            cluster.apply(&format!("pod g{at} cpu={cpu} group=g"));
        }
        wait(&mut cluster, 2);
        for ended in 0..=self.running.len() {
            let n_members = cluster.placed.iter().filter(|name| name.starts_with('g')).count();
            if n_members >= self.min_count {
                return (Some(ended), cluster.placed.len() - n_members);
            }
            if with_small && let Some(cpu) = self.small.get(ended) {
                cluster.apply(&format!("pod s{ended} cpu={cpu}"));
            }
            // Longer than any backoff.
            wait(&mut cluster, 15);
            if ended < self.running.len() {
                cluster.delete(&format!("r{ended}"));
                wait(&mut cluster, 15);
            }
        }
        (None, cluster.placed.len())
    }
}

/// Where pods end in the order that is expected of them, smaller pods do not delay the gang at all.
#[test]
fn smaller_pods_do_not_delay_the_gang() {
    let n_cases = std::env::var("KUBE_SCHEDULER_BACKFILLS");
    let n_cases = n_cases.map_or(N_CASES, |text| text.parse().unwrap());
    let (mut n_waiting, mut n_beside, mut n_delayed) = (0, 0, 0);
    for seed in 0..n_cases {
        let case = Case::random(seed);
        let (alone, _) = case.play(10 * HOUR, false);
        let (beside_others, n_small) = case.play(10 * HOUR, true);
        assert_eq!(beside_others, alone, "seed {seed}: {case:#?}");
        if alone.is_some_and(|ended| ended > 0) {
            n_waiting += 1;
            n_beside += n_small;
            n_delayed += u64::from(case.play(0, true).0 != alone);
        }
    }
    // It would prove nothing if gangs did not have to wait, nothing else were placed, or others did no harm anyway.
    assert!(
        n_waiting > n_cases / 4 && n_beside > 10 && n_delayed > n_cases / 20,
        "{n_waiting} gangs waited, {n_beside} pods were placed beside them, {n_delayed} would have been delayed"
    );
}

/// A node of four with a pod of two on it, a gang that wants all of it, and a small pod that comes later.
fn blocked(longest_hold: u64) -> LiveCluster {
    blocked_in(cluster_with(longest_hold, &[(4, 0)]))
}

fn blocked_in(mut cluster: LiveCluster) -> LiveCluster {
    run(&mut cluster, "r cpu=2", 0, 100);
    cluster.apply("podgroup g min=1; pod g0 cpu=4 group=g");
    wait(&mut cluster, 1);
    cluster.apply("pod s cpu=2");
    wait(&mut cluster, 30);
    cluster
}

#[test]
fn room_is_held_for_a_while_only() {
    let mut cluster = blocked(100);
    assert!(!cluster.is_placed("s"), "it would delay the gang");
    wait(&mut cluster, 60);
    assert!(!cluster.is_placed("s"));
    wait(&mut cluster, 30);
    assert!(cluster.is_placed("s"), "the gang has had its time");
    assert!(blocked(0).is_placed("s"), "nothing is held");
}

#[test]
fn after_a_hold_in_vain_nothing_is_held_for_as_long() {
    let mut cluster = blocked(100);
    wait(&mut cluster, 100);
    assert!(cluster.is_placed("s"), "the gang has had its time");
    cluster.delete("s");
    wait(&mut cluster, 30);
    cluster.apply("podgroup h min=1; pod h0 cpu=4 group=h");
    wait(&mut cluster, 2);
    cluster.apply("pod t cpu=2");
    wait(&mut cluster, 2);
    assert!(cluster.is_placed("t"), "no gang holds room now");
    cluster.delete("h0");
    // When something changes for it, the first gang comes back, and holds room again when both pauses are over.
    wait(&mut cluster, 200);
    cluster.delete("t");
    wait(&mut cluster, 15);
    cluster.apply("pod u cpu=2");
    wait(&mut cluster, 15);
    assert!(!cluster.is_placed("u") && !cluster.is_placed("g0"), "the gang holds room again");
}

/// What the gang has held so far counts when it evicts pods there, until they are gone.
#[test]
fn a_gang_that_begins_to_evict_pods_keeps_its_places() {
    let mut cluster = cluster_of(engine(HOUR, true, Extenders::default()), &[(4, 0)]);
    cluster.victims_stay = true;
    run(&mut cluster, "x cpu=2 priority=10", 0, 100);
    run(&mut cluster, "y cpu=2", 0, 100);
    cluster.apply("podgroup g min=1 priority=10; pod g0 cpu=4 group=g priority=10");
    wait(&mut cluster, 1);
    cluster.apply("pod s cpu=2 priority=10");
    wait(&mut cluster, 15);
    assert!(!cluster.is_placed("s") && cluster.evicted.is_empty());
    cluster.delete("x");
    wait(&mut cluster, 15);
    assert_eq!(cluster.evicted.len(), 1, "the other one can be evicted");
    assert!(!cluster.is_placed("s"), "it would take the room for which a pod is evicted");
    for pod in std::mem::take(&mut cluster.evicted) {
        cluster.delete(&pod);
    }
    wait(&mut cluster, 15);
    assert!(cluster.is_placed("g0") && !cluster.is_placed("s"));
}

#[test]
fn a_gang_that_is_gone_or_changed_holds_nothing() {
    let mut cluster = blocked(HOUR);
    cluster.delete("g0");
    wait(&mut cluster, 15);
    assert!(cluster.is_placed("s"), "the gang's pods are gone");

    let mut cluster = blocked(HOUR);
    cluster.apply("podgroup g min=2");
    wait(&mut cluster, 15);
    assert!(cluster.is_placed("s"), "the gang asks for something else, and is not complete");

    let mut cluster = blocked(HOUR);
    cluster.delete("r");
    wait(&mut cluster, 15);
    assert!(cluster.is_placed("g0") && !cluster.is_placed("s"), "the gang has what it waited for");
}

#[test]
fn more_important_work_is_not_held_back() {
    let mut cluster = blocked(HOUR);
    cluster.apply("pod t cpu=2 priority=1");
    wait(&mut cluster, 1);
    assert!(cluster.is_placed("t"));

    // A more important gang takes over, and needs less.
    let mut cluster = cluster_with(HOUR, &[(4, 0), (2, 0)]);
    run(&mut cluster, "r cpu=2", 0, 100);
    run(&mut cluster, "q cpu=1", 1, 200);
    cluster.apply("podgroup g min=1; pod g0 cpu=4 group=g");
    wait(&mut cluster, 1);
    cluster.apply("podgroup h min=1; pod h0 cpu=4 group=h priority=5");
    wait(&mut cluster, 15);
    // The other one holds nothing any more, and gets the room only when this one has had it.
    cluster.delete("r");
    wait(&mut cluster, 15);
    assert!(cluster.is_placed("h0") && !cluster.is_placed("g0"));
    cluster.delete("h0");
    wait(&mut cluster, 400);
    assert!(cluster.is_placed("g0"));
}

#[test]
fn a_gang_that_held_room_in_vain_rests_once_more_while_others_may() {
    let mut cluster = blocked(100);
    // The pause ends about 200 seconds after the beginning, the rest of this gang about 300.
    wait(&mut cluster, 200);
    cluster.delete("s");
    wait(&mut cluster, 15);
    cluster.apply("pod t cpu=2");
    wait(&mut cluster, 15);
    assert!(cluster.is_placed("t"), "only other gangs may hold room");
}

#[test]
fn a_gang_that_would_never_fit_holds_nothing() {
    let mut cluster = cluster_with(HOUR, &[(4, 0)]);
    run(&mut cluster, "r cpu=2", 0, 100);
    cluster.apply("podgroup g min=1; pod g0 cpu=5 group=g");
    wait(&mut cluster, 1);
    cluster.apply("pod s cpu=2");
    wait(&mut cluster, 1);
    assert!(cluster.is_placed("s"));
    // Pods that run until somebody ends them are not waited for; those of jobs are.
    for (kind, ends) in [("ReplicaSet", false), ("Node", false), ("Job", true)] {
        let mut cluster = cluster_with(HOUR, &[(4, 0)]);
        let owner =
            json!({"apiVersion": "v1", "kind": kind, "name": "r", "uid": "r", "controller": true});
        let owned = json!({"metadata": {"ownerReferences": [owner]}});
        cluster.apply(&format!("pod r cpu=2 node=n0 {owned}"));
        cluster.apply("podgroup g min=1; pod g0 cpu=4 group=g");
        wait(&mut cluster, 1);
        cluster.apply("pod s cpu=2");
        wait(&mut cluster, 1);
        assert_eq!(cluster.is_placed("s"), !ends, "{kind}");
    }
}

/// Whether a small pod is placed that comes so many seconds after the pod has gone because of which the gang would never have fitted.
fn comes_after(seconds: u64) -> bool {
    let mut cluster = cluster_with(HOUR, &[(4, 0)]);
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": true});
    let endless = json!({"metadata": {"ownerReferences": [owner]}});
    cluster.apply(&format!("pod r cpu=2 node=n0 {endless}"));
    run(&mut cluster, "q cpu=2", 0, 100);
    cluster.apply("podgroup g min=1; pod g0 cpu=4 group=g");
    wait(&mut cluster, 5);
    cluster.delete("r");
    wait(&mut cluster, seconds);
    cluster.apply("pod s cpu=2");
    wait(&mut cluster, 2);
    assert!(!cluster.is_placed("g0"));
    cluster.is_placed("s")
}

#[test]
fn a_gang_that_would_never_fit_is_not_planned_again_for_a_minute() {
    assert!(comes_after(30), "it is not planned again yet");
    assert!(!comes_after(80), "it has been planned again, and waits for the other pod");
}

/// Somebody outside who is consulted about every pod, and has nothing to say.
#[derive(Debug)]
struct Onlooker;

impl Extender for Onlooker {
    fn name(&self) -> &str {
        "onlooker"
    }

    fn verbs(&self) -> ExtenderVerbs {
        ExtenderVerbs::default()
    }
}

#[test]
fn with_extenders_nothing_is_held() {
    let extenders = [Arc::new(Onlooker) as Arc<dyn Extender>].into_iter().collect();
    let engine = engine(HOUR, false, extenders);
    assert!(blocked_in(cluster_of(engine, &[(4, 0)])).is_placed("s"));
    assert!(!blocked(HOUR).is_placed("s"), "without, the gang holds room");
}

/// What becomes of the pods that are tried in a copy, by name.
fn tried(engine: &mut Engine, now: Timestamp) -> BTreeMap<String, bool> {
    engine.handle(Input::TimePassed, now);
    let mut tried = BTreeMap::new();
    for _ in 0..20 {
        let Some(turn) = engine.schedule_next(now) else { break };
        let members = turn.group.map_or_else(Vec::new, |group| group.members);
        for (pod, result) in members.into_iter().chain([(turn.pod, turn.result)]) {
            tried.insert(pod.name.to_string(), matches!(result, AttemptResult::Assumed(_)));
        }
        engine.drain_effects().for_each(drop);
    }
    tried
}

#[test]
fn a_copy_has_a_head_of_its_own() {
    let mut cluster = blocked(HOUR);
    let later = cluster.now + Duration::from_secs(15);
    let end = |pod: &str| Input::PodDeleted { namespace: "default".into(), name: pod.into() };
    let t = testing::pod("t cpu=2").build();

    let mut fork = cluster.engine.fork(cluster.now);
    fork.handle(Input::PodApplied(t), later);
    let placed = tried(&mut fork, later);
    assert_eq!(placed.get("t"), Some(&false), "the copy holds the room: {placed:?}");
    fork.handle(end("r"), later);
    let placed = tried(&mut fork, later + Duration::from_secs(15));
    assert_eq!(placed.get("g0"), Some(&true), "and gives it to the gang: {placed:?}");

    let mut fork = cluster.engine.fork(cluster.now);
    let expired = later + Duration::from_secs(HOUR);
    let placed = tried(&mut fork, expired);
    assert_eq!(placed.get("s"), Some(&true), "a hold ends in the copy, too: {placed:?}");

    wait(&mut cluster, 30);
    assert!(!cluster.is_placed("s") && !cluster.is_placed("g0"), "nothing of it has happened");
    cluster.delete("r");
    wait(&mut cluster, 15);
    assert!(cluster.is_placed("g0") && !cluster.is_placed("s"));
}

/// Another scheduler takes over: it knows what the API server has, which is nothing of what was held.
#[test]
fn after_a_take_over_the_gang_holds_room_once_it_was_refused() {
    let before = blocked(HOUR);
    let take_over = |names: [&str; 3]| {
        let mut cluster = cluster_with(HOUR, &[(4, 0)]);
        cluster.apply("podgroup g min=1");
        for name in names {
            cluster.handle(Input::PodApplied(before.pods[name].clone()));
        }
        wait(&mut cluster, 30);
        cluster
    };
    let mut cluster = take_over(["r", "g0", "s"]);
    assert!(!cluster.is_placed("s"), "the gang was tried first");
    cluster.delete("r");
    wait(&mut cluster, 15);
    assert!(cluster.is_placed("g0"));
    assert!(take_over(["r", "s", "g0"]).is_placed("s"), "nobody was refused before");
}
