//! Random pod groups: no gang is bound by halves, the same history gives the same decisions, and what was only tried leaves
//! nothing behind.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube_scheduler_api_types::{Object, Pod, PodGroup, Timestamp};
use kube_scheduler_cache::check;
use kube_scheduler_engine::{
    AttemptResult, Effect, Engine, EngineOptions, Input, Notice, PodRef, Turn, WorkLimits,
};
use kube_scheduler_framework::groups::PlacedGroup;
use kube_scheduler_framework::{
    Commands, Context, CycleState, Permit, PermitDecision, Plugin, Reserve, Status,
    extension_points,
};
use kube_scheduler_tests::fixtures::{self, engine_with, node_applied, object_applied, pod_group};
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

/// An engine and the API server's side of it.
struct History {
    engine: Engine,
    now: Timestamp,
    pods: BTreeMap<String, Arc<Pod>>,
    log: Vec<String>,
    has_gangs: bool,
}

fn name(pod: &PodRef) -> String {
    pod.name.to_string()
}

impl History {
    fn new(gates: &[&str], uses_class_cache: bool) -> Self {
        Self::with(gates, EngineOptions { uses_class_cache, ..EngineOptions::default() })
    }

    fn with(gates: &[&str], options: EngineOptions) -> Self {
        Self::watched(gates, options, false)
    }

    /// With `is_watched` a plugin is asked about each reservation that says nothing, and does not say that it never will.
    fn watched(gates: &[&str], options: EngineOptions, is_watched: bool) -> Self {
        Self::with_plugins(gates, options, if is_watched { &["Watcher"] } else { &[] })
    }

    /// With more plugins, of those that are defined here.
    fn with_plugins(gates: &[&str], options: EngineOptions, more: &[&str]) -> Self {
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
        let engine = engine_with(&profiles, &registry, options);
        let now = Timestamp::from_millis(1_000_000);
        let has_gangs = gates.contains(&"GangScheduling");
        Self { engine, now, pods: BTreeMap::new(), log: Vec::new(), has_gangs }
    }

    fn group(n: u8, size: u8) -> Object {
        let policy =
            if size == 0 { json!({"basic": {}}) } else { json!({"gang": {"minCount": size}}) };
        let constraints = if n == 1 { json!({"topology": [{"key": "zone"}]}) } else { json!(null) };
        let spec = json!({
            "schedulingPolicy": policy, "schedulingConstraints": constraints, "priority": 10 * i32::from(n),
        });
        Object::from_value(pod_group(&format!("g{n}"), spec)).unwrap()
    }

    fn handle(&mut self, input: Input) {
        self.engine.handle(input, self.now);
        self.carry_out();
    }

    fn add(&mut self, pod: serde_json::Value) {
        let pod = Arc::new(Pod::from_value(&pod).unwrap());
        self.pods.insert(pod.name.to_string(), pod.clone());
        self.handle(Input::PodApplied(pod));
    }

    /// Everything succeeds at once, and the watch reports it.
    fn carry_out(&mut self) {
        loop {
            let effects: Vec<Effect> = self.engine.drain_effects().collect();
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                self.log.push(effect.to_string());
                match effect {
                    Effect::WriteBinding { token, pod, node } => {
                        if self.has_gangs {
                            self.expect_quorum(&pod);
                        }
                        let answer = Input::BindingWritten { token, result: Ok(()) };
                        self.engine.handle(answer, self.now);
                        if let Some(known) = self.pods.get_mut(&name(&pod)) {
                            *known = Arc::new(known.with_node_name(&node));
                            self.engine.handle(Input::PodApplied(known.clone()), self.now);
                        }
                    }
                    Effect::EvictPod { token, pod, .. } => {
                        let result = Ok(kube_scheduler_engine::EvictionOutcome::Deleted);
                        self.engine.handle(Input::PodEvicted { token, result }, self.now);
                        self.pods.remove(&name(&pod));
                        let (namespace, name) = (pod.namespace, pod.name);
                        self.engine.handle(Input::PodDeleted { namespace, name }, self.now);
                    }
                    Effect::ClearNomination { token, .. } => {
                        let answer = Input::NominationCleared { token, result: Ok(()) };
                        self.engine.handle(answer, self.now);
                    }
                    _ => {}
                }
            }
        }
    }

    /// A member of a gang is only bound when enough of the gang have a node.
    fn expect_quorum(&self, pod: &PodRef) {
        let cluster = self.engine.cluster();
        let known = self.engine.known_pod(&pod.namespace, &pod.name);
        let Some(group) = known.and_then(|pod| pod.spec.pod_group.clone()) else { return };
        let object = cluster.objects().get(PodGroup::GROUP, PodGroup::KIND, &pod.namespace, &group);
        let Some(object) = object else { return };
        let Some(min_count) = PodGroup::from_object(object).unwrap().min_count() else { return };
        let state = cluster.pod_group(&pod.namespace, &group).unwrap();
        assert!(
            state.n_scheduled() >= usize::try_from(min_count).unwrap(),
            "{pod} is bound, {} of {min_count} have a node",
            state.n_scheduled()
        );
    }

    fn turn(&mut self) {
        let turn: Option<Turn> = self.engine.schedule_next(self.now);
        let differences = check(self.engine.cluster());
        assert!(differences.is_empty(), "{differences:?}");
        if let Some(turn) = &turn {
            self.log.push(format!("{:?} {:?} {:?}", turn.pod, turn.result, turn.group));
            let members = turn.group.iter().flat_map(|group| &group.members);
            for (pod, result) in members {
                let is_assumed = self.engine.cluster().is_assumed(&pod.uid);
                let is_placed = matches!(result, AttemptResult::Assumed(_));
                assert_eq!(is_assumed, is_placed, "{pod}: {result:?}");
            }
        }
        self.carry_out();
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Group(n, size) => {
                self.handle(Input::ObjectApplied(Arc::new(Self::group(n, size))));
            }
            Step::GroupGone(n) => {
                self.handle(Input::ObjectDeleted(Arc::new(Self::group(n, 0))));
            }
            Step::Pod(n) => {
                let name = format!("p{n:02}");
                if self.pods.contains_key(&name) {
                    return;
                }
                // The fourth group is none.
                let group = (n % 4 < 3).then(|| json!({"podGroupName": format!("g{}", n % 4)}));
                let pod = Arc::new(Pod::from_value(&pod_json(&name, n, group.as_ref())).unwrap());
                self.pods.insert(name, pod.clone());
                self.handle(Input::PodApplied(pod));
            }
            Step::PodGone(n) => {
                let name = format!("p{n:02}");
                if self.pods.remove(&name).is_some() {
                    let namespace = "x".into();
                    self.handle(Input::PodDeleted { namespace, name: name.into() });
                }
            }
            Step::Node(n) => {
                let node = json!({
                    "metadata": {"name": format!("n{n}"), "labels": {"zone": format!("z{}", n % 2), "host": format!("n{n}")}},
                    "status": {"allocatable": {"cpu": (1 + 2 * (n % 3)).to_string(), "memory": "8Gi", "pods": "10"}},
                });
                self.handle(node_applied(&node));
            }
            Step::NodeGone(n) => self.handle(Input::NodeDeleted { name: format!("n{n}").into() }),
            Step::Turn => self.turn(),
            Step::Wait(seconds) => {
                self.now = self.now + Duration::from_secs(u64::from(seconds) * 20);
                self.handle(Input::TimePassed);
            }
        }
    }
}

fn pod_json(name: &str, n: u8, group: Option<&serde_json::Value>) -> serde_json::Value {
    let mut pod = json!({
        "metadata": {"namespace": "x", "name": name, "uid": name, "labels": {"app": "a"}},
        "spec": {
            "schedulerName": "default-scheduler", "schedulingGroup": group, "priority": i32::from(n % 5),
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "600m"}}}],
        },
    });
    let selector = json!({"matchLabels": {"app": "a"}});
    // Most answers are about a node alone; others are about all nodes of a zone, or about terms that pods carry.
    match n / 4 % 5 {
        3 => {
            pod["spec"]["topologySpreadConstraints"] = json!([{
                "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector,
            }]);
        }
        4 => {
            let term = json!({"topologyKey": "host", "labelSelector": selector});
            pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
                json!([term]);
            pod["metadata"]["labels"]["app"] = "b".into();
        }
        _ => {}
    }
    pod
}

const GATES: [&[&str]; 4] = [
    &["GenericWorkload"],
    &["GenericWorkload", "GangScheduling"],
    &["GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling"],
    &["GenericWorkload", "GangScheduling", "WorkloadAwarePreemption"],
];

fn run(gates: &[&str], steps: &[Step], uses_class_cache: bool) -> Vec<String> {
    run_with(History::new(gates, uses_class_cache), steps)
}

fn run_with(mut history: History, steps: &[Step]) -> Vec<String> {
    for step in steps {
        history.take(step);
    }
    // Deleted members leave no group behind.
    for n in 0..N_PODS {
        history.take(&Step::PodGone(n));
    }
    assert_eq!(history.engine.cluster().n_pod_groups(), 0);
    let n_attempts = history.engine.drain_preemption_counts().n_attempts;
    history.log.push(format!("{n_attempts} attempts at preemption"));
    history.log
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
        let stays = run_with(History::with(gates, options.clone()), &steps);
        prop_assert_eq!(&stays, &run_with(History::watched(gates, options, true), &steps));
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
    fn pod(name: &str, group: Option<String>, cpu: u8, priority: u8) -> serde_json::Value {
        let group = group.map(|group| json!({"podGroupName": group}));
        let mut pod = pod_json(name, 0, group.as_ref());
        pod["spec"]["priority"] = priority.into();
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] =
            format!("{}m", u32::from(cpu) * 100).into();
        pod
    }

    fn play(&self, uses_class_cache: bool) -> History {
        let options =
            EngineOptions { uses_class_cache, seed: self.seed, ..EngineOptions::default() };
        let mut history = History::with(&ALL_GATES, options);
        for (at, (zone, cpu)) in self.nodes.iter().enumerate() {
            let node = json!({
                "metadata": {"name": format!("n{at}"), "labels": {"zone": format!("z{zone}"), "host": format!("n{at}")}},
                "status": {"allocatable": {"cpu": cpu.to_string(), "memory": "8Gi", "pods": "10"}},
            });
            history.handle(node_applied(&node));
        }
        for group in 0..2 {
            let spec = json!({"schedulingPolicy": {"basic": {}}, "disruptionMode": "PodGroup", "priority": group});
            history.handle(object_applied(pod_group(&format!("r{group}"), spec)));
        }
        for (at, (node, cpu, priority, group)) in self.running.iter().enumerate() {
            let group = group.map(|group| format!("r{group}"));
            let mut pod = Self::pod(&format!("r{at:02}"), group, *cpu, *priority);
            pod["spec"]["nodeName"] = format!("n{}", usize::from(*node) % self.nodes.len()).into();
            if self.has_others && at % 3 == 0 {
                // Of these, some look at the numbers that the members of gangs have.
                let (key, value) = if self.seed == 2 { (INDEX, "1") } else { ("app", "a") };
                let term =
                    json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {key: value}}});
                let kind = ["podAffinity", "podAntiAffinity"][at / 3 % 2];
                pod["spec"]["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"] =
                    json!([term]);
                pod["metadata"]["labels"] = json!({});
            }
            history.add(pod);
        }
        for (n, gang) in self.gangs.iter().enumerate() {
            let mut spec = json!({"schedulingPolicy": {"gang": {"minCount": gang.min_count}}, "priority": gang.priority});
            if gang.is_in_one_zone {
                spec["schedulingConstraints"] = json!({"topology": [{"key": "zone"}]});
            }
            history.handle(object_applied(pod_group(&format!("g{n}"), spec)));
            for at in 0..gang.size {
                let (name, group) = (format!("g{n}-{at}"), Some(format!("g{n}")));
                let mut pod = Self::pod(&name, group, gang.cpu, gang.priority);
                if self.seed > 0 {
                    pod["metadata"]["labels"][INDEX] = at.to_string().into();
                }
                if self.has_others && n == 1 {
                    pod["spec"]["containers"][0]["ports"] =
                        json!([{"containerPort": 80, "hostPort": 80}]);
                }
                history.add(pod);
            }
            history.turn();
        }
        for _ in 0..4 {
            history.take(&Step::Wait(20));
            (0..6).for_each(|_| history.turn());
        }
        history
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
        let mut history = History::with_plugins(GATES[1], EngineOptions::default(), plugins);
        // The others are let through by GangScheduling before the last one is rejected.
        history.has_gangs = false;
        history.take(&Step::Node(4));
        history.take(&Step::Group(0, 3));
        (0..3).for_each(|n| history.take(&Step::Pod(n * 4)));
        let turn = history.engine.schedule_next(history.now);
        history.log.push(format!("{:?}", turn.unwrap().group));
        history.carry_out();
        for _ in 0..4 {
            history.take(&Step::Wait(20));
            history.turn();
        }
        history.log
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
        let mut history = History::with_plugins(GATES[1], EngineOptions::default(), plugins);
        history.take(&Step::Node(4));
        history.take(&Step::Group(0, n_pods));
        (0..n_pods).for_each(|n| history.take(&Step::Pod(n * 4)));
        N_ASKED.set(0);
        let turn = history.engine.schedule_next(history.now).unwrap();
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
        let mut history = History::watched(GATES[1], EngineOptions::default(), is_watched);
        history.take(&Step::Node(3));
        history.take(&Step::Node(4));
        history.take(&Step::Group(0, 3));
        (0..3).for_each(|n| history.take(&Step::Pod(n * 4)));
        let before = history.engine.cluster().sequence();
        history.engine.schedule_next(history.now).unwrap();
        history.engine.cluster().sequence() - before
    });
    assert_eq!((stays, is_taken_back), (3, 9));
}

/// The histories above would prove nothing if no gang were ever bound.
#[test]
fn a_gang_is_bound_when_it_is_complete_and_fits() {
    let mut history = History::new(GATES[1], true);
    for step in [Step::Group(0, 2), Step::Node(1), Step::Pod(0), Step::Turn] {
        history.take(&step);
    }
    assert_eq!(history.log, Vec::<String>::new(), "one of two has arrived");
    history.take(&Step::Pod(4));
    history.take(&Step::Turn);
    let bound = |log: &[String]| log.iter().filter(|line| line.starts_with("bind ")).count();
    assert_eq!(bound(&history.log), 2, "{:#?}", history.log);
    let written = history.log.iter().any(|line| line.contains("PodGroupScheduled"));
    assert!(written, "{:#?}", history.log);
}

#[test]
fn a_gang_that_does_not_fit_leaves_nothing_behind() {
    let mut history = History::new(GATES[1], true);
    // One node with room for one of four pods.
    for step in
        [Step::Group(0, 4), Step::Node(0), Step::Pod(0), Step::Pod(4), Step::Pod(8), Step::Pod(12)]
    {
        history.take(&step);
    }
    history.take(&Step::Turn);
    assert_eq!(history.engine.cluster().n_assumed(), 0);
    assert!(!history.log.iter().any(|line| line.starts_with("bind ")), "{:#?}", history.log);
    assert!(
        history.log.iter().any(|line| line.contains("pod group is unschedulable")),
        "{:#?}",
        history.log
    );
}

/// Of three kinds of members, two each: the second is refused like the first.
#[test]
fn each_member_that_fits_nowhere_is_an_attempt_at_preemption() {
    for uses_class_cache in [true, false] {
        let mut history = History::new(GATES[1], uses_class_cache);
        history.take(&Step::Group(0, 6));
        history.take(&Step::Node(0));
        for n in 0..6 {
            let group = json!({"podGroupName": "g0"});
            let mut pod = pod_json(&format!("m{n}"), 0, Some(&group));
            let cpu = (100 + n / 2).to_string();
            pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu.into();
            history.add(pod);
        }
        history.turn();
        let n_attempts = history.engine.drain_preemption_counts().n_attempts;
        assert_eq!(n_attempts, 6, "class cache: {uses_class_cache}, {:#?}", history.log);
    }
}

/// Members that are refused like the one before cost next to nothing, and the allowance of their namespace nothing, whether
/// they are tried or not.
#[test]
fn members_that_are_alike_are_refused_at_the_price_of_one() {
    let work = |n_members: u8, base: u64, uses_class_cache: bool| -> Vec<u64> {
        let work = WorkLimits { base, per_node: 0, refill_per_second: 0 };
        let options = EngineOptions { uses_class_cache, work, ..EngineOptions::default() };
        let mut history = History::with(GATES[1], options);
        history.take(&Step::Group(0, n_members));
        (0..3).for_each(|node| history.take(&Step::Node(node)));
        for n in 0..n_members {
            let mut pod = pod_json(&format!("m{n:02}"), 0, Some(&json!({"podGroupName": "g0"})));
            pod["spec"]["nodeSelector"] =
                (0..40).map(|at| (format!("k{at}"), json!("x"))).collect();
            history.add(pod);
        }
        // A retry shows what is left of the allowance.
        let turns = (0..2).map(|_| {
            let turn = history.engine.schedule_next(history.now).unwrap();
            history.carry_out();
            history.take(&Step::Wait(60));
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
    let mut history = History::new(GATES[1], true);
    for step in [Step::Node(1), Step::Node(2), Step::Node(4), Step::Node(5)] {
        history.take(&step);
    }
    let mut misses = Vec::new();
    for group in 0..3 {
        history.take(&Step::Group(group, 3));
        for at in 0..3 {
            history.take(&Step::Pod(group + 4 * at));
        }
        history.turn();
        misses.push(history.engine.class_cache_counts().misses);
    }
    let bound = history.log.iter().filter(|line| line.starts_with("bind ")).count();
    assert_eq!((bound, misses), (9, vec![1, 1, 1]), "{:#?}", history.log);
}

/// A gang for which all of 200 pods have to go. Unless its members are alike, it is tried once without them and once per pod.
fn gang_that_preempts(work: WorkLimits, are_alike: bool) -> Vec<String> {
    let mut history = History::with(GATES[3], EngineOptions { work, ..EngineOptions::default() });
    history.handle(Input::ObjectApplied(Arc::new(History::group(2, 20))));
    let pod = |name: &str, node: Option<String>, priority: i32, cpu: &str| {
        let group = node.is_none().then(|| json!({"podGroupName": "g2"}));
        let mut pod = pod_json(name, 0, group.as_ref());
        pod["spec"]["nodeName"] = node.into();
        pod["spec"]["priority"] = priority.into();
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu.into();
        Arc::new(Pod::from_value(&pod).unwrap())
    };
    for n in 0..10 {
        let node = json!({
            "metadata": {"name": format!("n{n}")},
            "status": {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "110"}},
        });
        history.handle(node_applied(&node));
    }
    let victims =
        (0..200).map(|n| pod(&format!("v{n:03}"), Some(format!("n{}", n % 10)), 0, "100m"));
    let members = (0..20).map(|n| {
        let member = pod(&format!("m{n:02}"), None, 20, "1");
        if are_alike || n % 2 == 0 {
            return member;
        }
        let mut labelled = Pod::clone(&member);
        labelled.labels = [("other", "yes")].into_iter().collect();
        Arc::new(labelled)
    });
    for pod in victims.chain(members) {
        history.pods.insert(pod.name.to_string(), pod.clone());
        history.handle(Input::PodApplied(pod));
    }
    history.turn();
    history.log
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
    let mut history = History::new(GATES[3], true);
    let beta = |name: &str, spec: serde_json::Value| {
        let object = json!({
            "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
            "metadata": {"namespace": "x", "name": name, "uid": name}, "spec": spec,
        });
        object_applied(object)
    };
    let basic = json!({"basic": {}});
    history.handle(beta(
        "r",
        json!({"schedulingPolicy": basic, "disruptionMode": mode, "priority": 5}),
    ));
    let gang = json!({"gang": {"minCount": 1}});
    let spec = json!({"schedulingPolicy": gang, "priority": 20, "preemptionPolicy": policy});
    history.handle(beta("g", spec));
    for n in 0..2 {
        let node = json!({
            "metadata": {"name": format!("n{n}")},
            "status": {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "110"}},
        });
        history.handle(node_applied(&node));
    }
    let pod = |name: &str, group: &str, priority: i32, node: Option<String>| {
        let mut pod = pod_json(name, 0, Some(&json!({"podGroupName": group})));
        pod["spec"]["nodeName"] = node.into();
        pod["spec"]["priority"] = priority.into();
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1".into();
        pod
    };
    for n in 0..4 {
        history.add(pod(&format!("r{n}"), "r", 5, Some(format!("n{}", n % 2))));
    }
    history.add(pod("m", "g", 20, None));
    history.turn();
    let is_victim = |name: &&String| {
        let start = format!("x/{name} ");
        history.log.iter().any(|line| line.starts_with("evict ") && line.contains(&start))
    };
    let running: Vec<String> = (0..4).map(|n| format!("r{n}")).collect();
    let evicted = running.iter().filter(is_victim).cloned().collect();
    (evicted, history.log.join("\n"))
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
    let mut history = History::new(&["GenericWorkload", "GangScheduling"], true);
    history.engine.set_verbosity(6);
    history.handle(Input::ObjectApplied(Arc::new(History::group(0, 4))));
    let mut n_moved = Vec::new();
    for n in 0..4 {
        history.engine.drain_notices();
        history.take(&Step::Pod(4 * n));
        let others = history.engine.drain_notices().into_iter().filter(|notice| match notice {
            Notice::PodMoved { pod, .. } => *pod.name != *format!("p{:02}", 4 * n),
            _ => false,
        });
        n_moved.push(others.count());
    }
    assert_eq!(n_moved, [0, 0, 0, 3]);
}

#[test]
fn groups_mean_nothing_without_the_gate() {
    let mut history = History::new(&[], true);
    for step in [Step::Group(0, 4), Step::Node(1), Step::Pod(0), Step::Turn] {
        history.take(&step);
    }
    assert!(history.log.iter().any(|line| line.starts_with("bind ")), "{:#?}", history.log);
    assert_eq!(history.engine.cluster().n_pod_groups(), 0);
}
