//! Random pod groups: no gang is bound by halves, the same history gives the same decisions, and what was only tried leaves
//! nothing behind.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::cell::Cell;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::check;
use kube_scheduler_engine::{AttemptResult, EngineOptions, Input, Notice, Turn, WorkLimits};
use kube_scheduler_framework::groups::PlacedGroup;
use kube_scheduler_framework::{
    Commands, Context, CycleState, Permit, PermitDecision, Plugin, Reserve, Status,
    extension_points, testing,
};
use kube_scheduler_tests::fixtures::{self, engine_with};
use kube_scheduler_tests::live_cluster::LiveCluster;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::json;

/// A step of a history; numbers name one of a few pods, nodes or groups.
#[derive(Clone, Debug)]
enum Step {
    Group(u8, u8),
    GroupGone(u8),
    Pod(u8),
    PodGone(u8),
    Node(u8),
    NodeGone(u8),
    Turn,
    Wait(u8),
}

/// How many pods there may be at once.
const N_PODS: u8 = 40;

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0_u8..3, 0_u8..5).prop_map(|(group, size)| Step::Group(group, size)),
        1 => (0_u8..3).prop_map(Step::GroupGone),
        10 => (0_u8..N_PODS).prop_map(Step::Pod),
        1 => (0_u8..N_PODS).prop_map(Step::PodGone),
        4 => (0_u8..6).prop_map(Step::Node),
        1 => (0_u8..6).prop_map(Step::NodeGone),
        8 => Just(Step::Turn),
        2 => (0_u8..20).prop_map(Step::Wait),
    ]
}

/// A plugin because of which members of gangs are taken off their nodes after their trial.
struct Watcher;

impl Plugin for Watcher {
    fn name(&self) -> &str {
        "Watcher"
    }

    extension_points!(Reserve);
}

impl Reserve for Watcher {
    fn reserve(
        &self,
        _: &Context<'_>,
        _: &mut CycleState,
        _: &Arc<Pod>,
        _: &str,
        _: &mut Commands,
    ) -> Status {
        Status::SUCCESS
    }

    fn unreserve(
        &self,
        _: &Context<'_>,
        _: &mut CycleState,
        _: &Arc<Pod>,
        _: &str,
        _: &mut Commands,
    ) {
    }
}

fn cached(uses_class_cache: bool) -> EngineOptions {
    EngineOptions { uses_class_cache, ..EngineOptions::default() }
}

fn cluster(gates: &[&str], options: EngineOptions) -> LiveCluster {
    watched(gates, options, false)
}

/// With `is_watched` a plugin is asked about each reservation that says nothing, and does not say that it never will.
fn watched(gates: &[&str], options: EngineOptions, is_watched: bool) -> LiveCluster {
    with_plugins(gates, options, if is_watched { &["Watcher"] } else { &[] })
}

/// With more plugins, of those that are defined here.
fn with_plugins(gates: &[&str], options: EngineOptions, more: &[&str]) -> LiveCluster {
    let mut registry = kube_scheduler_plugins_intree::registry();
    let names: Vec<_> = more.iter().map(|name| json!({"name": name})).collect();
    // Where members stay on their nodes, they are not asked about on trial.
    let denies_from = if more.contains(&"Watcher") { 2 } else { 1 };
    let plugins = json!({"multiPoint": {"enabled": names}});
    let profiles = json!([{"schedulerName": "default-scheduler", "plugins": plugins}]);
    registry.register("Watcher", |_, _| Ok(Arc::new(Watcher))).unwrap();
    let fickle = move || Fickle { n_asked: Mutex::default(), denies_from };
    registry.register("Fickle", move |_, _| Ok(Arc::new(fickle()))).unwrap();
    registry.register("Counter", |_, _| Ok(Arc::new(Counter))).unwrap();
    let options = EngineOptions { gates: fixtures::gates(gates.iter().copied()), ..options };
    let mut cluster = LiveCluster::new(engine_with(&profiles, &registry, options));
    cluster.expects_quorum = gates.contains(&"GangScheduling");
    cluster
}

/// One attempt, with its results in the log.
fn turn(cluster: &mut LiveCluster) {
    let turn: Option<Turn> = cluster.engine.schedule_next(cluster.now);
    assert_eq!(check(cluster.engine.cluster()), []);
    if let Some(turn) = &turn {
        cluster.log.push(format!("{:?} {:?} {:?}", turn.pod, turn.result, turn.group));
        let members = turn.group.iter().flat_map(|group| &group.members);
        for (pod, result) in members {
            let is_assumed = cluster.engine.cluster().is_assumed(&pod.uid);
            let is_placed = matches!(result, AttemptResult::Assumed(_));
            assert_eq!(is_assumed, is_placed, "{pod}: {result:?}");
        }
    }
    cluster.carry_out();
}

fn group(n: u8, size: u8) -> String {
    let min = if size == 0 { String::new() } else { format!("min={size}") };
    let topology = if n == 1 { "topology=zone" } else { "" };
    format!("podgroup g{n} {min} {topology} priority={}", 10 * n)
}

fn take(cluster: &mut LiveCluster, step: &Step) {
    match *step {
        Step::Group(n, size) => cluster.apply(&group(n, size)),
        Step::GroupGone(n) => {
            cluster.handle(Input::ObjectDeleted(testing::object(&group(n, 0)).build()));
        }
        Step::Pod(n) => {
            let name = format!("p{n:02}");
            if !cluster.pods.contains_key(&name) {
                // The fourth group is none.
                let group = if n % 4 < 3 { format!("group=g{}", n % 4) } else { String::new() };
                cluster.apply(&pod(&name, n, &group));
            }
        }
        Step::PodGone(n) => cluster.delete(&format!("p{n:02}")),
        Step::Node(n) => {
            let (cpu, zone) = (1 + 2 * (n % 3), n % 2);
            cluster.apply(&format!("node n{n} cpu={cpu} pods=10 zone=z{zone}"));
        }
        Step::NodeGone(n) => cluster.handle(Input::NodeDeleted { name: format!("n{n}").into() }),
        Step::Turn => turn(cluster),
        Step::Wait(seconds) => {
            cluster.now = cluster.now + Duration::from_secs(u64::from(seconds) * 20);
            cluster.handle(Input::TimePassed);
        }
    }
}

/// A pod with a word for its group, if it has one. Further words count in place of its own.
fn pod(name: &str, n: u8, group: &str) -> String {
    // Most answers are about a node alone; others are about all nodes of a zone, or about terms that pods carry.
    let more = match n / 4 % 5 {
        3 => "spread=zone:1:app=a",
        4 => "anti-affinity=host:app=a label:app=b",
        _ => "",
    };
    format!("pod {name} cpu=600m priority={} {group} label:app=a {more}", n % 5)
}

const GATES: [&[&str]; 4] = [
    &["GenericWorkload"],
    &["GenericWorkload", "GangScheduling"],
    &["GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling"],
    &["GenericWorkload", "GangScheduling", "WorkloadAwarePreemption"],
];

fn run(gates: &[&str], steps: &[Step], uses_class_cache: bool) -> Vec<String> {
    run_with(cluster(gates, cached(uses_class_cache)), steps)
}

fn run_with(mut cluster: LiveCluster, steps: &[Step]) -> Vec<String> {
    for step in steps {
        take(&mut cluster, step);
    }
    // Deleted members leave no group behind.
    for n in 0..N_PODS {
        take(&mut cluster, &Step::PodGone(n));
    }
    assert_eq!(cluster.engine.cluster().n_pod_groups(), 0);
    let n_attempts = cluster.engine.drain_preemption_counts().n_attempts;
    cluster.log.push(format!("{n_attempts} attempts at preemption"));
    cluster.log
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, rng_seed: RngSeed::Fixed(36), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn gangs_are_bound_whole_and_decisions_follow_from_the_history(
        gates in prop::sample::select(GATES.to_vec()),
        steps in prop::collection::vec(step(), 1..160),
    ) {
        let first = run(gates, &steps, true);
        prop_assert_eq!(&first, &run(gates, &steps, true), "the same history");
        prop_assert_eq!(&first, &run(gates, &steps, false), "without the class cache");
    }

    /// Members that are bound where they were tried stay there meanwhile, unless a plugin might notice.
    #[test]
    fn members_may_stay_where_they_are_tried(
        gates in prop::sample::select(GATES.to_vec()),
        (plans_gangs_exactly, seed) in (any::<bool>(), 0_u64..3),
        steps in prop::collection::vec(step(), 1..160),
    ) {
        let options = EngineOptions { plans_gangs_exactly, seed, ..EngineOptions::default() };
        let stays = run_with(cluster(gates, options.clone()), &steps);
        prop_assert_eq!(&stays, &run_with(watched(gates, options, true), &steps));
    }
}

/// A gang of pods that are alike.
#[derive(Clone, Debug)]
struct Uniform {
    size: u8,
    min_count: u8,
    /// In units of 100m.
    cpu: u8,
    is_in_one_zone: bool,
    priority: u8,
}

/// A cluster for such gangs.
#[derive(Clone, Debug)]
struct UniformCase {
    /// Zone and CPUs.
    nodes: Vec<(u8, u8)>,
    /// Node, CPU in units of 100m, priority, and the group that it goes with.
    running: Vec<(u8, u8, u8, Option<u8>)>,
    gangs: Vec<Uniform>,
    /// Whether some pods prefer to be near others, are kept apart from them, or use host ports.
    has_others: bool,
    seed: u64,
}

fn uniform_case() -> impl Strategy<Value = UniformCase> {
    let gang = (1_u8..9, 1_u8..9, 1_u8..12, any::<bool>(), 0_u8..4);
    let gang = gang.prop_map(|(size, min_count, cpu, is_in_one_zone, priority)| Uniform {
        size,
        min_count,
        cpu,
        is_in_one_zone,
        priority,
    });
    let running = (0_u8..8, 1_u8..12, 0_u8..3, prop::option::weighted(0.3, 0_u8..2));
    let parts = (
        prop::collection::vec((0_u8..4, 1_u8..4), 1..8),
        prop::collection::vec(running, 0..20),
        prop::collection::vec(gang, 1..6),
        prop::bool::weighted(0.2),
        0_u64..3,
    );
    parts.prop_map(|(nodes, running, gangs, has_others, seed)| UniformCase {
        nodes,
        running,
        gangs,
        has_others,
        seed,
    })
}

const ALL_GATES: [&str; 4] = [
    "GenericWorkload",
    "GangScheduling",
    "TopologyAwareWorkloadScheduling",
    "WorkloadAwarePreemption",
];

/// Pods of indexed Jobs are numbered by it.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

impl UniformCase {
    fn pod(name: &str, group: &str, cpu: u8, priority: u8) -> String {
        format!("{} cpu={}m priority={priority}", pod(name, 0, group), u32::from(cpu) * 100)
    }

    fn play(&self, uses_class_cache: bool) -> LiveCluster {
        let options =
            EngineOptions { uses_class_cache, seed: self.seed, ..EngineOptions::default() };
        let mut cluster = cluster(&ALL_GATES, options);
        for (at, (zone, cpu)) in self.nodes.iter().enumerate() {
            cluster.apply(&format!("node n{at} cpu={cpu} pods=10 zone=z{zone}"));
        }
        for group in 0..2 {
            let mode = json!({"spec": {"disruptionMode": "PodGroup"}});
            cluster.apply(&format!("podgroup r{group} priority={group} {mode}"));
        }
        for (at, (node, cpu, priority, group)) in self.running.iter().enumerate() {
            let group = group.map_or_else(String::new, |group| format!("group=r{group}"));
            let mut pod = Self::pod(&format!("r{at:02}"), &group, *cpu, *priority);
            pod += &format!(" node=n{}", usize::from(*node) % self.nodes.len());
            if self.has_others && at % 3 == 0 {
                // Of these, some look at the numbers that the members of gangs have.
                let (key, value) = if self.seed == 2 { (INDEX, "1") } else { ("app", "a") };
                let kind = ["affinity", "anti-affinity"][at / 3 % 2];
                pod += &format!(" {kind}=zone:{key}={value} label:app=-");
            }
            cluster.apply(&pod);
        }
        for (n, gang) in self.gangs.iter().enumerate() {
            let Uniform { min_count, priority, cpu, .. } = *gang;
            let topology = if gang.is_in_one_zone { "topology=zone" } else { "" };
            cluster.apply(&format!("podgroup g{n} min={min_count} priority={priority} {topology}"));
            for at in 0..gang.size {
                let mut pod =
                    Self::pod(&format!("g{n}-{at}"), &format!("group=g{n}"), cpu, priority);
                if self.seed > 0 {
                    pod += &format!(" label:{INDEX}={at}");
                }
                if self.has_others && n == 1 {
                    pod += " port=80";
                }
                cluster.apply(&pod);
            }
            turn(&mut cluster);
        }
        for _ in 0..4 {
            take(&mut cluster, &Step::Wait(20));
            (0..6).for_each(|_| turn(&mut cluster));
        }
        cluster
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, rng_seed: RngSeed::Fixed(17), failure_persistence: None, ..ProptestConfig::default() })]

    /// Without the class cache members are tried one by one, in every placement and for every pod that may have to go.
    #[test]
    fn members_that_are_alike_are_counted_as_they_would_be_tried(case in uniform_case()) {
        prop_assert_eq!(&case.play(true).log, &case.play(false).log);
    }
}

/// Where all members of a gang fit in each of three zones, only the zone that is taken is evaluated, also if they are numbered.
#[test]
fn members_are_tried_only_where_they_go() {
    for seed in [0, 1] {
        are_tried_only_where_they_go(seed);
    }
}

fn are_tried_only_where_they_go(seed: u64) {
    let case = UniformCase {
        nodes: vec![(0, 3), (1, 3), (2, 3), (0, 3)],
        running: vec![(0, 5, 0, None)],
        gangs: vec![Uniform { size: 4, min_count: 4, cpu: 5, is_in_one_zone: true, priority: 0 }],
        has_others: false,
        seed,
    };
    let [counted, tried] = [true, false].map(|uses_class_cache| case.play(uses_class_cache));
    assert_eq!(counted.log, tried.log);
    let bound = counted.log.iter().filter(|line| line.starts_with("bind ")).count();
    assert_eq!((bound, counted.engine.class_cache_counts().misses), (4, 1), "{:#?}", counted.log);
}

/// A plugin that says that it goes by the number of members, and then rejects the last one all the same, when it is asked in earnest.
struct Fickle {
    n_asked: Mutex<u32>,
    denies_from: u32,
}

impl Plugin for Fickle {
    fn name(&self) -> &str {
        "Fickle"
    }

    extension_points!(Permit);
}

impl Permit for Fickle {
    fn permit(
        &self,
        _: &Context<'_>,
        _: &mut CycleState,
        pod: &Arc<Pod>,
        _: &str,
        _: &mut Commands,
    ) -> PermitDecision {
        let mut n_asked = self.n_asked.lock().unwrap();
        let is_last = *pod.name == *"p00";
        *n_asked += u32::from(is_last);
        if is_last && (self.denies_from..=2).contains(&*n_asked) {
            return PermitDecision::deny(Status::unschedulable("not now"));
        }
        PermitDecision::allow()
    }

    fn members_needed(&self, _: &Context<'_>, _: PlacedGroup<'_>) -> Option<usize> {
        Some(0)
    }
}

/// Members that were to be bound together are bound one by one when a plugin does not keep to what it has promised.
#[test]
fn members_are_bound_one_by_one_when_a_promise_is_broken() {
    let [stays, is_taken_back] = [false, true].map(|is_watched| {
        let plugins: &[&str] = if is_watched { &["Watcher", "Fickle"] } else { &["Fickle"] };
        let mut cluster = with_plugins(GATES[1], EngineOptions::default(), plugins);
        // The others are let through by GangScheduling before the last one is rejected.
        cluster.expects_quorum = false;
        take(&mut cluster, &Step::Node(4));
        take(&mut cluster, &Step::Group(0, 3));
        (0..3).for_each(|n| take(&mut cluster, &Step::Pod(n * 4)));
        let first = cluster.engine.schedule_next(cluster.now);
        cluster.log.push(format!("{:?}", first.unwrap().group));
        cluster.carry_out();
        for _ in 0..4 {
            take(&mut cluster, &Step::Wait(20));
            turn(&mut cluster);
        }
        cluster.log
    });
    assert_eq!(stays, is_taken_back);
    assert!(stays.iter().any(|line| line.contains("not now")), "{stays:#?}");
}

thread_local! {
    /// How often [`Counter`] was asked.
    static N_ASKED: Cell<u32> = const { Cell::new(0) };
}

/// A plugin that goes by the number of members, and counts how often it is asked.
struct Counter;

impl Plugin for Counter {
    fn name(&self) -> &str {
        "Counter"
    }

    extension_points!(Permit);
}

impl Permit for Counter {
    fn permit(
        &self,
        _: &Context<'_>,
        _: &mut CycleState,
        _: &Arc<Pod>,
        _: &str,
        _: &mut Commands,
    ) -> PermitDecision {
        N_ASKED.set(N_ASKED.get() + 1);
        PermitDecision::allow()
    }

    fn members_needed(&self, _: &Context<'_>, _: PlacedGroup<'_>) -> Option<usize> {
        Some(0)
    }
}

/// Where the number of members decides, Permit is asked about the last one of a gang that fits, and about all of one that does not.
#[test]
fn permit_is_asked_when_the_number_of_members_has_not_decided_yet() {
    let n_asked = |plugins: &[&str], n_pods: u8| {
        let mut cluster = with_plugins(GATES[1], EngineOptions::default(), plugins);
        take(&mut cluster, &Step::Node(4));
        take(&mut cluster, &Step::Group(0, n_pods));
        (0..n_pods).for_each(|n| take(&mut cluster, &Step::Pod(n * 4)));
        N_ASKED.set(0);
        let turn = cluster.engine.schedule_next(cluster.now).unwrap();
        (N_ASKED.get(), matches!(turn.result, AttemptResult::Assumed(_)))
    };
    assert_eq!(n_asked(&["Counter"], 3), (1, true));
    assert_eq!(n_asked(&["Counter", "Watcher"], 3), (6, true), "on trial and in earnest");
    let (n_placed, fits) = n_asked(&["Counter"], 12);
    assert!(!fits && n_placed > 0, "{n_placed} were placed, and say what they wait for");
}

/// A gang that fits changes the cluster once for each member, and three times where it is taken off its nodes in between.
#[test]
fn members_that_stay_are_placed_once() {
    let [stays, is_taken_back] = [false, true].map(|is_watched| {
        let mut cluster = watched(GATES[1], EngineOptions::default(), is_watched);
        take(&mut cluster, &Step::Node(3));
        take(&mut cluster, &Step::Node(4));
        take(&mut cluster, &Step::Group(0, 3));
        (0..3).for_each(|n| take(&mut cluster, &Step::Pod(n * 4)));
        let before = cluster.engine.cluster().sequence();
        cluster.engine.schedule_next(cluster.now).unwrap();
        cluster.engine.cluster().sequence() - before
    });
    assert_eq!((stays, is_taken_back), (3, 9));
}

/// The histories above would prove nothing if no gang were ever bound.
#[test]
fn a_gang_is_bound_when_it_is_complete_and_fits() {
    let mut cluster = cluster(GATES[1], cached(true));
    for step in [Step::Group(0, 2), Step::Node(1), Step::Pod(0), Step::Turn] {
        take(&mut cluster, &step);
    }
    assert_eq!(cluster.log, Vec::<String>::new(), "one of two has arrived");
    take(&mut cluster, &Step::Pod(4));
    take(&mut cluster, &Step::Turn);
    let bound = |log: &[String]| log.iter().filter(|line| line.starts_with("bind ")).count();
    assert_eq!(bound(&cluster.log), 2, "{:#?}", cluster.log);
    let written = cluster.log.iter().any(|line| line.contains("PodGroupScheduled"));
    assert!(written, "{:#?}", cluster.log);
}

#[test]
fn a_gang_that_does_not_fit_leaves_nothing_behind() {
    let mut cluster = cluster(GATES[1], cached(true));
    // One node with room for one of four pods.
    for step in
        [Step::Group(0, 4), Step::Node(0), Step::Pod(0), Step::Pod(4), Step::Pod(8), Step::Pod(12)]
    {
        take(&mut cluster, &step);
    }
    take(&mut cluster, &Step::Turn);
    assert_eq!(cluster.engine.cluster().n_assumed(), 0);
    assert!(!cluster.log.iter().any(|line| line.starts_with("bind ")), "{:#?}", cluster.log);
    assert!(
        cluster.log.iter().any(|line| line.contains("pod group is unschedulable")),
        "{:#?}",
        cluster.log
    );
}

/// Of three kinds of members, two each: the second is refused like the first.
#[test]
fn each_member_that_fits_nowhere_is_an_attempt_at_preemption() {
    for uses_class_cache in [true, false] {
        let mut cluster = cluster(GATES[1], cached(uses_class_cache));
        take(&mut cluster, &Step::Group(0, 6));
        take(&mut cluster, &Step::Node(0));
        for n in 0..6 {
            cluster.apply(&format!("{} cpu={}", pod(&format!("m{n}"), 0, "group=g0"), 100 + n / 2));
        }
        turn(&mut cluster);
        let n_attempts = cluster.engine.drain_preemption_counts().n_attempts;
        assert_eq!(n_attempts, 6, "class cache: {uses_class_cache}, {:#?}", cluster.log);
    }
}

/// Members that are refused like the one before cost next to nothing, and the allowance of their namespace nothing, whether
/// they are tried or not.
#[test]
fn members_that_are_alike_are_refused_at_the_price_of_one() {
    let work = |n_members: u8, base: u64, uses_class_cache: bool| -> Vec<u64> {
        let work = WorkLimits { base, per_node: 0, refill_per_second: 0 };
        let options = EngineOptions { uses_class_cache, work, ..EngineOptions::default() };
        let mut cluster = cluster(GATES[1], options);
        take(&mut cluster, &Step::Group(0, n_members));
        (0..3).for_each(|node| take(&mut cluster, &Step::Node(node)));
        for n in 0..n_members {
            let selector: String = (0..40).map(|at| format!(" selector:k{at}=x")).collect();
            cluster.apply(&(pod(&format!("m{n:02}"), 0, "group=g0") + &selector));
        }
        // A retry shows what is left of the allowance.
        let turns = (0..2).map(|_| {
            let turn = cluster.engine.schedule_next(cluster.now).unwrap();
            cluster.carry_out();
            take(&mut cluster, &Step::Wait(60));
            turn.work
        });
        turns.collect()
    };
    let price = work(1, 1_000_000, true)[0];
    assert!(price > 200, "not next to nothing: {price}");
    for base in [1_000_000, price * 2] {
        let (one, many) = (work(1, base, true), work(20, base, true));
        assert_eq!(many, work(20, base, false), "limit {base}");
        assert!(many[0] <= one[0] + 19 * 103, "limit {base}: {} and {}", one[0], many[0]);
    }
}

/// Pods of a class are evaluated once, in whichever trial or group they come up.
#[test]
fn evaluations_outlive_trials() {
    let mut cluster = cluster(GATES[1], cached(true));
    for step in [Step::Node(1), Step::Node(2), Step::Node(4), Step::Node(5)] {
        take(&mut cluster, &step);
    }
    let mut misses = Vec::new();
    for group in 0..3 {
        take(&mut cluster, &Step::Group(group, 3));
        for at in 0..3 {
            take(&mut cluster, &Step::Pod(group + 4 * at));
        }
        turn(&mut cluster);
        misses.push(cluster.engine.class_cache_counts().misses);
    }
    let bound = cluster.log.iter().filter(|line| line.starts_with("bind ")).count();
    assert_eq!((bound, misses), (9, vec![1, 1, 1]), "{:#?}", cluster.log);
}

/// A gang for which all of 200 pods have to go. Unless its members are alike, it is tried once without them and once per pod.
fn gang_that_preempts(work: WorkLimits, are_alike: bool) -> Vec<String> {
    let mut cluster = cluster(GATES[3], EngineOptions { work, ..EngineOptions::default() });
    cluster.apply(&group(2, 20));
    for n in 0..10 {
        cluster.apply(&format!("node n{n} cpu=2"));
    }
    for n in 0..200 {
        cluster.apply(&format!("{} node=n{} cpu=100m", pod(&format!("v{n:03}"), 0, ""), n % 10));
    }
    for n in 0..20 {
        let label = if are_alike || n % 2 == 0 { "" } else { "label:app=- label:other=yes" };
        let member = pod(&format!("m{n:02}"), 0, "group=g2");
        cluster.apply(&format!("{member} priority=20 cpu=1 {label}"));
    }
    turn(&mut cluster);
    cluster.log
}

/// A dry run that is broken off says nothing of the pods that were put back for it.
#[test]
fn a_group_whose_preemption_costs_too_much_evicts_nothing() {
    let n_evicted = |log: &[String]| log.iter().filter(|line| line.starts_with("evict ")).count();
    for are_alike in [true, false] {
        assert_eq!(n_evicted(&gang_that_preempts(WorkLimits::default(), are_alike)), 200);
    }
    // Enough for some of the dry runs.
    let work = WorkLimits { base: 600, per_node: 0, refill_per_second: 0 };
    let log = gang_that_preempts(work, false);
    assert_eq!(n_evicted(&log), 0, "{log:#?}");
    // Where members are counted, there are none.
    assert_eq!(n_evicted(&gang_that_preempts(work, true)), 200);
    let fails = |line: &&String| {
        line.contains("SchedulerError")
            && line.contains("the pod group is too expensive to schedule")
    };
    assert_eq!(log.iter().filter(fails).filter(|line| line.contains("g2")).count(), 1, "{log:#?}");
}

/// Two nodes full of pods of one group, and a gang of Kubernetes 1.37 whose member needs the place of one of them. The pods that
/// have to go, and the log.
fn gang_among_a_group(mode: serde_json::Value, policy: &str) -> (Vec<String>, String) {
    let mut cluster = cluster(GATES[3], cached(true));
    let mut beta = |name: &str, priority: i32, spec: serde_json::Value| {
        let beta = json!({"apiVersion": "scheduling.k8s.io/v1beta1", "spec": spec});
        cluster.apply(&format!("podgroup {name} priority={priority} {beta}"));
    };
    beta("r", 5, json!({"disruptionMode": mode}));
    let gang = json!({"gang": {"minCount": 1}});
    beta("g", 20, json!({"schedulingPolicy": gang, "preemptionPolicy": policy}));
    cluster.apply("node n0 cpu=2; node n1 cpu=2");
    for n in 0..4 {
        let running = pod(&format!("r{n}"), 0, "group=r");
        cluster.apply(&format!("{running} cpu=1 priority=5 node=n{}", n % 2));
    }
    cluster.apply(&format!("{} cpu=1 priority=20", pod("m", 0, "group=g")));
    turn(&mut cluster);
    let is_victim = |name: &&String| {
        let start = format!("default/{name} ");
        cluster.log.iter().any(|line| line.starts_with("evict ") && line.contains(&start))
    };
    let running: Vec<String> = (0..4).map(|n| format!("r{n}")).collect();
    let evicted = running.iter().filter(is_victim).cloned().collect();
    (evicted, cluster.log.join("\n"))
}

#[test]
fn groups_of_later_versions_are_evicted_as_their_disruption_mode_says() {
    let lower = "PreemptLowerPriority";
    for whole in [json!({"all": {}}), json!("PodGroup")] {
        let (evicted, _) = gang_among_a_group(whole, lower);
        assert_eq!(evicted, ["r0", "r1", "r2", "r3"]);
    }
    for single in [json!({"single": {}}), json!("Pod"), json!(null)] {
        let (evicted, said) = gang_among_a_group(single, lower);
        assert_eq!(evicted.len(), 1, "{evicted:?} {said}");
    }
}

#[test]
fn a_group_that_never_preempts_evicts_nothing() {
    let (evicted, said) = gang_among_a_group(json!({"single": {}}), "Never");
    assert_eq!(evicted, Vec::<String>::new());
    assert!(said.contains("not eligible due to preemptionPolicy=Never."), "{said}");
}

/// As long as members are missing, those that wait are left alone: each that comes costs no more than the first.
#[test]
fn members_of_a_gang_wake_up_when_the_last_one_comes() {
    let mut cluster = cluster(&["GenericWorkload", "GangScheduling"], cached(true));
    cluster.engine.set_verbosity(6);
    cluster.apply(&group(0, 4));
    let mut n_moved = Vec::new();
    for n in 0..4 {
        cluster.engine.drain_notices();
        take(&mut cluster, &Step::Pod(4 * n));
        let others = cluster.engine.drain_notices().into_iter().filter(|notice| match notice {
            Notice::PodMoved { pod, .. } => *pod.name != *format!("p{:02}", 4 * n),
            _ => false,
        });
        n_moved.push(others.count());
    }
    assert_eq!(n_moved, [0, 0, 0, 3]);
}

#[test]
fn groups_mean_nothing_without_the_gate() {
    let mut cluster = cluster(&[], cached(true));
    for step in [Step::Group(0, 4), Step::Node(1), Step::Pod(0), Step::Turn] {
        take(&mut cluster, &step);
    }
    assert!(cluster.log.iter().any(|line| line.starts_with("bind ")), "{:#?}", cluster.log);
    assert_eq!(cluster.engine.cluster().n_pod_groups(), 0);
}
