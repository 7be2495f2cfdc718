//! DefaultPreemption's analysis, through a profile as the engine would run it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_cache::NodeOverlay;
use kube_scheduler_config::{
    self as config, ConfiguredArgs, KubeSchedulerProfile, PluginConfig, PluginSet, Plugins,
};
use kube_scheduler_framework::api::{Node, Pod, Timestamp};
use kube_scheduler_framework::preemption::{EvictionTrials, PreemptionCandidate};
use kube_scheduler_framework::testing::{self, Fixture, fixture};
use kube_scheduler_framework::{
    ClusterEvent, ClusterView, Commands, Context, CycleState, HypotheticalFilter, NodeIdx,
    NominatedPods, NominatingInfo, PostFilterContext, RunningPreemptions, Sources, Status,
    Verdicts,
};
use kube_scheduler_runtime::{
    EvaluationReads, Extender, ExtenderCallError, ExtenderVerbs, ExtenderVictims, Extenders,
    HypotheticalRunner, NominatedFilters, PodChange, Profile, Runner, SkipSet, must_leave_room,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

use crate::support::{handle, pod, text, try_plugin};

fn profile(preemption_args: Value) -> Profile {
    let names = [
        "PrioritySort",
        "NodeUnschedulable",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "VolumeRestrictions",
        "PodTopologySpread",
        "InterPodAffinity",
        "DynamicResources",
        "DefaultPreemption",
        "DefaultBinder",
    ];
    let multi_point = PluginSet {
        enabled: names.iter().map(|name| config::WeightedPlugin::new(*name, 0)).collect(),
        disabled: Vec::new(),
    };
    let args = ConfiguredArgs::Raw(preemption_args);
    let config = KubeSchedulerProfile {
        scheduler_name: Some("default-scheduler".into()),
        plugins: Some(Plugins { multi_point, ..Plugins::default() }),
        plugin_config: vec![PluginConfig { name: "DefaultPreemption".into(), args }],
        ..KubeSchedulerProfile::default()
    };
    let registry = kube_scheduler_plugins_intree::registry();
    Profile::build(&config, "profiles[0]", &registry, &handle(&[])).unwrap()
}

/// What PostFilter has to say: status, nomination and victims.
#[derive(Debug, PartialEq)]
struct Outcome {
    text: String,
    node: Option<String>,
    victims: Vec<String>,
}

fn preempt_with(world: &Fixture, pod: &Arc<Pod>, args: Value, random: u64) -> Outcome {
    preempt_by(world, pod, args, random, true, &Extenders::default())
}

/// Tries out every node for real: asks all filters again after each pod.
struct Naive<'a> {
    profile: &'a Profile,
    skip: &'a SkipSet,
}

/// A node without some of its pods, as [`Naive`] tries it.
struct NaiveTrial<'a> {
    runner: Runner<'a>,
    skip: &'a SkipSet,
    before: &'a CycleState,
    pod: &'a Pod,
    state: CycleState,
    overlay: NodeOverlay,
}

impl HypotheticalFilter for Naive<'_> {
    fn eviction_trials<'a>(
        &'a self,
        cx: &Context<'a>,
        before: &'a CycleState,
        pod: &'a Pod,
    ) -> Box<dyn EvictionTrials + 'a> {
        let Self { profile, skip } = self;
        let runner = Runner::new(profile, cx.sources());
        let (state, overlay) = (before.clone(), NodeOverlay::new(NodeIdx::default()));
        Box::new(NaiveTrial { runner, skip, before, pod, state, overlay })
    }
}

impl NaiveTrial<'_> {
    fn filter(&self) -> Status {
        self.runner.filter_with_nominated_pods(&self.state, self.pod, &self.overlay, self.skip)
    }

    fn remove(&mut self, pod: &Arc<Pod>) -> Status {
        let Self { state, overlay, .. } = self;
        overlay.remove_pod(self.runner.cx.cluster, &pod.uid).unwrap();
        self.runner.pod_changed(PodChange::Removed, state, self.pod, pod, overlay, self.skip)
    }
}

impl EvictionTrials for NaiveTrial<'_> {
    fn start(&mut self, node: NodeIdx, priority: i32) -> Status {
        (self.state, self.overlay) = (self.before.clone(), NodeOverlay::new(node));
        for pod in self.runner.cx.cluster.pods_on(node) {
            if pod.priority() < priority {
                assert!(self.remove(pod).is_success());
            }
        }
        self.filter()
    }

    fn victims(&mut self, pods: &[&Arc<Pod>]) -> Result<Vec<usize>, Status> {
        let mut victims = Vec::new();
        for (at, pod) in pods.iter().enumerate() {
            let Self { state, overlay, .. } = self;
            overlay.add_pod(self.runner.cx.cluster, pod);
            let status =
                self.runner.pod_changed(PodChange::Added, state, self.pod, pod, overlay, self.skip);
            assert!(status.is_success());
            if !self.filter().is_success() {
                assert!(self.remove(pod).is_success());
                victims.push(at);
            }
        }
        Ok(victims)
    }
}

fn preempt_by(
    world: &Fixture,
    pod: &Arc<Pod>,
    args: Value,
    random: u64,
    prunes: bool,
    extenders: &Extenders,
) -> Outcome {
    let profile = profile(args);
    let world = world.clone().at(Timestamp::from_nanos(i64::MAX));
    let cx = world.sources();
    let runner = Runner::new(&profile, cx);
    let mut state = CycleState::new();
    let run = runner.pre_filter(&mut state, pod);
    let mut verdicts = Verdicts::absent(world.cluster().capacity());
    let mut absent = run.status.clone();
    if run.status.is_success() {
        runner.filter_all(&state, pod, world.cluster().order(), &run.skip, &mut verdicts).unwrap();
        absent = Runner::left_out_status(&BTreeSet::new());
    }
    let pruning = HypotheticalRunner { profile: &profile, skip: &run.skip };
    let naive = Naive { profile: &profile, skip: &run.skip };
    let filters: &dyn HypotheticalFilter = if prunes { &pruning } else { &naive };
    let mut commands = Commands::default();
    let preempt = |candidates| extenders.preempt(world.cluster(), pod, candidates);
    let mut cx = PostFilterContext {
        cx: cx.unrecorded(),
        verdicts: &verdicts,
        absent: &absent,
        filters,
        extenders: if extenders.is_empty() { None } else { Some(&preempt) },
        random,
        commands: &mut commands,
        report: None,
    };
    let outcome = runner.post_filter(&mut cx, &state, pod);
    Outcome {
        text: text(&outcome.status),
        node: match outcome.nominating {
            Some(NominatingInfo::Override(Some(node))) => Some(node.to_string()),
            Some(NominatingInfo::Override(None)) => Some(String::new()),
            _ => None,
        },
        victims: outcome.victims.iter().map(|pod| pod.name.to_string()).collect(),
    }
}

fn preempt(world: &Fixture, pod: &Arc<Pod>) -> Outcome {
    preempt_with(world, pod, Value::Null, 0)
}

/// A pod of priority 100 that asks for 2 CPUs.
fn important(words: &str) -> Arc<Pod> {
    pod(&format!("hungry priority=100 cpu=2 {words}"))
}

/// A pod on `node` with this priority and start time that takes up `cpu`.
fn victim(name: &str, node: &str, cpu: &str, priority: i32, started: u32) -> String {
    format!(
        "pod {name} uid={name} node={node} cpu={cpu} priority={priority} label:app=x \
         started=2024-01-01T00:00:{started:02}Z\n"
    )
}

fn failed(text: &str) -> Outcome {
    Outcome {
        text: format!("Unschedulable: no new claims to deallocate, preemption: {text}"),
        node: Some(String::new()),
        victims: Vec::new(),
    }
}

fn chosen(node: &str, victims: &[&str]) -> Outcome {
    Outcome {
        text: "ok".into(),
        node: Some(node.into()),
        victims: victims.iter().map(|name| (*name).to_owned()).collect(),
    }
}

#[test]
fn messages_when_nothing_helps() {
    let world = fixture("node n unschedulable");
    let text = "0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
    assert_eq!(preempt(&world, &important("")), failed(text));

    let world = fixture("node n cpu=2; pod v node=n cpu=1 priority=100");
    let text = "0/1 nodes are available: 1 No preemption victims found for incoming pod.";
    assert_eq!(preempt(&world, &important("")), failed(text));

    let world = fixture(
        "node a cpu=2; node b cpu=2; node shut unschedulable
         pod v node=a cpu=1 priority=0; pod w node=a cpu=1 priority=100; pod x node=b cpu=2 priority=200",
    );
    let text = "0/3 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod, \
                1 Preemption is not helpful for scheduling.";
    assert_eq!(preempt(&world, &important("")), failed(text));
}

#[test]
fn pods_that_must_not_preempt() {
    let world = fixture("node n cpu=2; pod v node=n cpu=2");
    let never = important("preemption=Never");
    let expected = "Unschedulable: no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.";
    assert_eq!(
        preempt(&world, &never),
        Outcome { text: expected.into(), node: None, victims: vec![] }
    );

    let beside_one_that_goes = |reason: &str| {
        let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": reason});
        let status = json!({"status": {"conditions": [condition]}});
        let world = fixture(&format!(
            "node n cpu=2; pod v node=n cpu=2 priority=0 deleted=2024-01-01T00:00:00Z {status}"
        ));
        preempt(&world, &important("nominated=n"))
    };
    let expected = "Unschedulable: no new claims to deallocate, preemption: not eligible due to a terminating pod on the \
                    nominated node.";
    let outcome = beside_one_that_goes("PreemptionByScheduler");
    assert_eq!(outcome, Outcome { text: expected.into(), node: None, victims: vec![] });
    assert_eq!(beside_one_that_goes("EvictionByEvictionAPI"), chosen("n", &["v"]));
}

#[test]
fn post_filter_without_pre_filter_state_fails_like_the_reference() {
    let world = fixture("node n cpu=2; pod v node=n cpu=2");
    let term = json!({"matchFields": [
        {"key": "metadata.name", "operator": "In", "values": ["n"]},
        {"key": "metadata.name", "operator": "In", "values": ["m"]}]});
    let conflicting = important(&format!("node-affinity={term}"));
    assert_eq!(preempt(&world, &conflicting).text, "Error: not found");
}

#[test]
fn nobody_is_evicted_without_need() {
    let pods = [
        victim("least", "n", "1", 0, 5),
        victim("old", "n", "1", 1, 1),
        victim("young", "n", "1", 1, 2),
        victim("most", "n", "1", 2, 9),
    ];
    let world = fixture("node n cpu=4").with(&pods.concat());
    // Two CPUs are needed: the two most important ones stay.
    assert_eq!(preempt(&world, &important("")), chosen("n", &["young", "least"]));
}

#[test]
fn budgets_protect_the_less_important_pods() {
    let preempt = |budget: &str| {
        let pods =
            [victim("a", "n", "1", 2, 1), victim("b", "n", "1", 1, 1), victim("c", "n", "1", 0, 1)];
        preempt(&fixture("node n cpu=3").with(&pods.concat()).with(budget), &important(""))
    };
    assert_eq!(preempt(""), chosen("n", &["b", "c"]));
    // The budget of one is used up by `a`, the most important; `b` and `c` violate it and are put back first.
    assert_eq!(preempt("pdb pdb selector=app=x allowed=1"), chosen("n", &["a", "c"]));
    let counted = r#"pdb pdb selector=app=x allowed=0 {"status": {"disruptedPods": {"a": null, "b": null, "c": null}}}"#;
    assert_eq!(preempt(counted), chosen("n", &["b", "c"]));
    assert_eq!(preempt("pdb pdb selector="), chosen("n", &["b", "c"]));
}

#[test]
fn ties_are_broken_by_harm() {
    let choose = |pods: &[String]| {
        let world = fixture("node a cpu=2; node b cpu=2").with(&pods.concat());
        // Wherever the scan starts, the choice is the same.
        let outcomes =
            [0, 1].map(|random| preempt_with(&world, &important(""), Value::Null, random));
        assert_eq!(outcomes[0], outcomes[1]);
        outcomes[0].node.clone().unwrap()
    };
    // Lowest priority of the first victim.
    assert_eq!(choose(&[victim("a", "a", "2", 5, 0), victim("b", "b", "2", 4, 0)]), "b");
    // Lowest sum.
    let sums = [
        victim("a1", "a", "1", 5, 0),
        victim("a2", "a", "1", 5, 0),
        victim("b1", "b", "1", 5, 0),
        victim("b2", "b", "1", 4, 0),
    ];
    assert_eq!(choose(&sums), "b");
    // More victims never look cheaper, whatever their priority.
    let negative = [
        victim("a1", "a", "1", -5, 0),
        victim("a2", "a", "1", -900, 0),
        victim("b", "b", "2", -5, 0),
    ];
    assert_eq!(choose(&negative), "b");
    // Latest start of the most important ones.
    assert_eq!(choose(&[victim("a", "a", "2", 5, 3), victim("b", "b", "2", 5, 7)]), "b");
}

#[test]
fn a_violated_budget_outweighs_everything_else() {
    let world = fixture(
        "node a cpu=2; node b cpu=2; pdb pdb selector=app=x allowed=0
         pod a node=a cpu=2 label:app=x; pod b node=b cpu=2 priority=50",
    );
    assert_eq!(preempt(&world, &important("")), chosen("b", &["b"]));
}

#[test]
fn the_scan_goes_on_until_a_candidate_violates_nothing() {
    let mut world = fixture("pdb pdb selector=app=x allowed=0");
    for (name, app) in [("n1", "x"), ("n2", "x"), ("n3", "free"), ("n4", "free"), ("n5", "x")] {
        world = world
            .with(&format!("node {name} cpu=2; pod on-{name} node={name} cpu=2 label:app={app}"));
    }
    let args = json!({"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 2});
    // From the fifth on: 5, 1 and 2 violate, 3 does not and ends the scan.
    assert_eq!(preempt_with(&world, &important(""), args, 4), chosen("n3", &["on-n3"]));
}

#[test]
fn nominated_pods_of_at_least_the_same_priority_keep_their_room() {
    let world =
        fixture("node n cpu=2; pod v node=n cpu=2; pod other nominated=n priority=100 cpu=1");
    let outcome = preempt(&world, &important(""));
    assert_eq!(outcome, failed("0/1 nodes are available: 1 Insufficient cpu."));
}

#[test]
fn an_empty_cluster_is_an_error() {
    let outcome = preempt(&Fixture::new(), &pod("p"));
    assert_eq!(outcome.text, "Error: preemption: no nodes available");
}

struct Preempting(&'static str);

impl RunningPreemptions for Preempting {
    fn is_preempting(&self, uid: &str) -> bool {
        uid == self.0
    }
}

#[test]
fn a_pod_is_held_back_while_it_preempts_in_the_background() {
    let world = Fixture::new();
    let busy = important("");
    let other = important("uid=other");
    let running = Preempting("hungry-uid");
    let cx = Sources { preemptions: &running, ..world.sources() }.unrecorded();
    for (is_on, expected) in [
        (
            true,
            "UnschedulableAndUnresolvable: waiting for the preemption for this pod to be finished",
        ),
        (false, "ok"),
    ] {
        let gates = [("SchedulerAsyncPreemption", is_on)];
        let plugin = try_plugin("DefaultPreemption", Value::Null, &gates).unwrap();
        let gate = plugin.as_pre_enqueue().unwrap();
        assert_eq!(text(&gate.pre_enqueue(&cx, &busy)), expected);
        assert_eq!(text(&gate.pre_enqueue(&cx, &other)), "ok");
        let deleted = ClusterEvent::ASSIGNED_POD_DELETE;
        let hint = crate::support::hint(&*plugin, deleted, &busy, None, None);
        assert_eq!(hint, if is_on { "skip" } else { "not registered" });
    }
}

prop_compose! {
    /// What a container asks for, in steps that make near misses likely.
    fn asks(max_cpu: i32)(cpu in 0..=max_cpu, memory in 0..4_i32, gpu in 0..3_i32, port in 0..12_i32) -> Value {
        let mut container = json!({"name": "c", "resources": {"requests": {
            "cpu": cpu.to_string(), "memory": format!("{memory}Gi"), "example.com/gpu": gpu.to_string(),
        }}});
        if port == 0 {
            container["ports"] = json!([{"containerPort": 80, "hostPort": 80}]);
        }
        json!([container])
    }
}

prop_compose! {
    /// A pod that runs on one of four nodes: which, its specification, since when, and what budgets it may fall under.
    fn running_pod()(
        at in 0_usize..4,
        priority in -1..4_i32,
        containers in asks(2),
        started in prop::option::of(0..4_u32),
        app in prop::option::of(0..3_usize),
        disk_at in 0..4_i32,
    ) -> (usize, Value) {
        let started = started.map(|second| format!("2024-01-01T00:00:{second:02}Z"));
        let labels = app.map_or(json!({}), |app| json!({"app": (["x", "y", "z"][app])}));
        let disk = json!({"name": "d", "gcePersistentDisk": {"pdName": "d"}});
        let volumes = if disk_at == 0 { json!([disk]) } else { json!([]) };
        (at, json!({
            "metadata": {"labels": labels},
            "spec": {"priority": priority, "containers": containers, "volumes": volumes},
            "status": {"startTime": started},
        }))
    }
}

/// What a pod may want of its node besides room.
const WANTS: [&str; 7] = [
    "selector:disk=ssd",
    "anti-affinity=host:app=x",
    "anti-affinity=zone:app=y",
    "affinity=zone:app=z",
    "spread=zone:1:app=x",
    "spread=host:1:app=y",
    r#"volume={"gcePersistentDisk":{"pdName":"d"},"name":"d"}"#,
];

/// By what a nominated pod may concern the others.
const CONCERNS: [&str; 6] = [
    "label:app=x",
    "label:app=y",
    "label:app=z",
    "anti-affinity=host:app=x",
    "anti-affinity=zone:app=x",
    "anti-affinity=host:app=y",
];

prop_compose! {
    /// A budget for some apps, which may count a pod or two as disrupted already.
    fn some_budget()(x in any::<bool>(), allowed in 0..3_i32, disrupted in prop::collection::vec(0..14_usize, 0..3))
        -> (bool, i32, Vec<usize>)
    {
        (x, allowed, disrupted)
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(7),
        ..ProptestConfig::default()
    })]

    /// Sums and columns, and filters that are not asked again, find the same node, the same victims in the same order and the
    /// same words as trying out every node pod by pod.
    #[test]
    fn pruning_changes_no_answer(
        nodes in prop::collection::vec((1..5_i32, 1..5_i32, 0..3_i32, 1..6_i32, any::<bool>()), 1..5),
        running in prop::collection::vec(running_pod(), 0..14),
        nominees in prop::collection::vec((0_usize..4, 0..4_i32, asks(1), 0_usize..8), 0..3),
        budgets in prop::collection::vec(some_budget(), 0..3),
        containers in asks(4),
        // Half of the pods have what takes more than sums.
        also in prop::collection::vec(0..WANTS.len() * 2, 0..4),
        priority in 0..4_i32,
        // With one candidate to be found, it matters where the scan ends.
        enough in 1..4_i32,
        random: u64,
    ) {
        let n = nodes.len();
        let mut world = Fixture::new();
        for (i, (cpu, memory, gpu, pods, is_shut)) in nodes.into_iter().enumerate() {
            let shut = if is_shut && i > 0 { "unschedulable" } else { "" };
            let zone = if i % 2 == 0 { "zone=a label:disk=ssd" } else { "zone=b" };
            world = world.with(&format!(
                "node n{i} {zone} cpu={cpu} memory={memory}Gi example.com/gpu={gpu} pods={pods} {shut}"
            ));
        }
        for (i, (at, extra)) in running.into_iter().enumerate() {
            world = world.with_pod(testing::pod(&format!("run{i} node=n{}", at % n)).with(extra));
        }
        for (i, (covers_all, allowed, disrupted)) in budgets.into_iter().enumerate() {
            let names: BTreeMap<String, Value> = disrupted.iter().map(|i| (format!("run{i}"), Value::Null)).collect();
            let apps = if covers_all { "x,y" } else { "y" };
            let disrupted = json!({"status": {"disruptedPods": names}});
            world = world.with(&format!("pdb pdb{i} selector='app in ({apps})' allowed={allowed} {disrupted}"));
        }
        for (i, (at, priority, containers, also)) in nominees.into_iter().enumerate() {
            let spec = json!({"spec": {"containers": containers}});
            let also = CONCERNS.get(also).copied().unwrap_or_default();
            let nominee = format!("pod nominee{i} nominated=n{} priority={priority} {also} {spec}", at % n);
            world = world.with(&nominee);
        }
        let also: Vec<_> = also.into_iter().filter_map(|at| WANTS.get(at).copied()).collect();
        let containers = json!({"spec": {"containers": containers}});
        let hungry = format!("hungry priority={priority} label:app=x {} {containers}", also.join(" "));
        let hungry = pod(&hungry);
        let args = json!({"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": enough});
        let outcome = |prunes| {
            preempt_by(&world, &hungry, args.clone(), random, prunes, &Extenders::default())
        };
        prop_assert_eq!(outcome(true), outcome(false));
        assert_nominated_pods_are_seen(&world, &hungry);
    }
}

/// With the pods nominated to a node, the filters that are asked say what telling all plugins of each of them says, whether or not it is
/// known what filters read.
fn assert_nominated_pods_are_seen(world: &Fixture, pod: &Pod) {
    let profile = profile(Value::Null);
    let runner = Runner::new(&profile, world.sources());
    let mut state = CycleState::new();
    let run = runner.pre_filter(&mut state, pod);
    if !run.status.is_success() {
        return;
    }
    let nodes = world.cluster().order();
    let view = |idx: NodeIdx| ClusterView::unrecorded(world.cluster()).node(idx).unwrap();
    let recording = runner.recording(&run.reads);
    let alone: Vec<Status> =
        nodes.iter().map(|idx| recording.filter(&state, pod, &view(*idx), &run.skip)).collect();
    for known in [run.reads.clone(), EvaluationReads::default()] {
        let mut filters = NominatedFilters::new(runner, &state, pod, &run.skip, &known);
        for (&idx, alone) in nodes.iter().zip(&alone) {
            let overlay = NodeOverlay::new(idx);
            let expected = runner.filter_with_nominated_pods(&state, pod, &overlay, &run.skip);
            let mut others = world.nominated_pods(view(idx).name());
            others.retain(|other| must_leave_room(pod, other));
            let (found, _) = filters.filter_with(idx, &others, alone.is_success());
            assert_eq!(if found.is_success() { alone.clone() } else { found }, expected);
        }
    }
}

/// What an extender answers when it is asked about these nodes.
type Answer = fn(&[&str]) -> Result<BTreeMap<String, ExtenderVictims>, String>;

struct Outsider {
    is_ignorable: bool,
    answer: Answer,
}

impl Extender for Outsider {
    fn name(&self) -> &str {
        "http://out"
    }

    fn verbs(&self) -> ExtenderVerbs {
        ExtenderVerbs { preempt: true, ..ExtenderVerbs::default() }
    }

    fn is_ignorable(&self) -> bool {
        self.is_ignorable
    }

    fn preempt(
        &self,
        _: &Arc<Pod>,
        candidates: &[(Arc<Node>, PreemptionCandidate)],
    ) -> Result<BTreeMap<String, ExtenderVictims>, ExtenderCallError> {
        let names: Vec<&str> = candidates.iter().map(|(node, _)| &*node.name).collect();
        Ok((self.answer)(&names)?)
    }
}

/// Preemption by `hungry` on the nodes a, b and c, each with a pod of its own and more harm from a to c, with extenders in
/// between: the ones that must not be ignored first.
fn with_extenders(extenders: &[(bool, Answer)]) -> Outcome {
    let pods = [
        victim("on-a", "a", "2", 1, 0),
        victim("on-b", "b", "2", 2, 0),
        victim("on-c", "c", "2", 3, 0),
        victim("proud", "c", "0", 1000, 0),
    ];
    let world = fixture("node a cpu=2; node b cpu=2; node c cpu=2").with(&pods.concat());
    let extenders = extenders.iter().map(|(is_ignorable, answer)| {
        Arc::new(Outsider { is_ignorable: *is_ignorable, answer: *answer }) as Arc<dyn Extender>
    });
    let extenders = extenders.collect();
    preempt_by(&world, &important(""), Value::Null, 0, true, &extenders)
}

fn victims(entries: &[(&str, &[&str], i64)]) -> BTreeMap<String, ExtenderVictims> {
    let victims = |uids: &[&str], n_pdb_violations| ExtenderVictims {
        uids: uids.iter().map(|uid| (*uid).to_owned()).collect(),
        n_pdb_violations,
    };
    let entries = entries.iter();
    entries.map(|(node, uids, n)| ((*node).to_owned(), victims(uids, *n))).collect()
}

#[test]
fn extenders_drop_candidates_and_change_victims() {
    assert_eq!(with_extenders(&[]), chosen("a", &["on-a"]));
    assert_eq!(
        with_extenders(&[(false, |_| Ok(victims(&[("b", &["on-b"], 0)])))]),
        chosen("b", &["on-b"])
    );
    // Budgets count as the extender counts them.
    let counted: Answer = |_| Ok(victims(&[("a", &["on-a"], 1), ("b", &["on-b"], -1)]));
    assert_eq!(with_extenders(&[(false, counted)]), chosen("b", &["on-b"]));
    // It may name any pod on the node, once.
    let proud: Answer = |_| Ok(victims(&[("c", &["proud", "on-c", "proud"], 0)]));
    assert_eq!(with_extenders(&[(false, proud)]), chosen("c", &["proud", "on-c"]));
    // Each sees what the one before left.
    let second: Answer = |asked| {
        assert_eq!(asked, ["b", "c"]);
        Ok(victims(&[("c", &["on-c"], 0)]))
    };
    let first: Answer = |_| Ok(victims(&[("c", &["on-c"], 0), ("b", &["on-b"], 0)]));
    assert_eq!(with_extenders(&[(true, second), (false, first)]), chosen("c", &["on-c"]));
}

#[test]
fn extenders_that_leave_nothing_end_the_preemption() {
    let expected = Outcome {
        text: "Unschedulable: no new claims to deallocate, preemption: no candidate node for preemption".into(),
        node: None,
        victims: Vec::new(),
    };
    assert_eq!(with_extenders(&[(false, |_| Ok(BTreeMap::new()))]), expected);
    assert_eq!(with_extenders(&[(true, |_| Ok(victims(&[("a", &[], 0)])))]), expected);
}

#[test]
fn wrong_answers_of_extenders_are_errors_unless_they_may_be_ignored() {
    let cases: [(Answer, &str); 5] = [
        (|_| Err("boom".into()), "boom"),
        (|_| panic!("no idea"), "extender panicked: no idea"),
        (
            |_| Ok(victims(&[("nowhere", &["x"], 0)])),
            "nodeinfo not found for node name \"nowhere\"",
        ),
        (
            |_| Ok(victims(&[("a", &["on-b"], 0)])),
            "extender: http://out claims to preempt pod (UID: &{on-b}) on node: a, but the pod is not found on that node",
        ),
        (|_| Ok(victims(&[("b", &[], 0)])), "expected at least one victim pod on node \"b\""),
    ];
    for (at, (answer, text)) in cases.into_iter().enumerate() {
        let failed =
            Outcome { text: format!("Error: preemption: {text}"), node: None, victims: Vec::new() };
        assert_eq!(with_extenders(&[(false, answer)]), failed);
        // Naming no victims is an answer, though: it drops the node.
        if at < 4 {
            assert_eq!(with_extenders(&[(true, answer)]), chosen("a", &["on-a"]), "{text}");
        }
    }
}
