//! Smaller work does not keep a gang waiting for ever (`docs/groups.md`, "Who goes first"): the gang that holds room is placed
//! when the pods are gone that it waits for, whatever smaller pods come meanwhile, and holds the room for a while only.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod devices;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::{Object, Pod, Timestamp};
use kube_scheduler_cache::check;
use kube_scheduler_engine::{
    AttemptResult, Effect, Engine, EngineOptions, EvictionOutcome, Input, PodRef, Token,
};
use kube_scheduler_framework::ObjectWrite;
use kube_scheduler_runtime::{Extender, ExtenderVerbs, Extenders};
use kube_scheduler_tests::fixtures::{
    self, GANG_GATES, gates, node_applied, object_applied, pod_applied, pod_group,
};
use kube_scheduler_tests::history::Numbers;
use serde_json::{Value, json};

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
        // Whatever is not woken in time is not woken: what time alone brings back would hide that.
        max_in_unschedulable: Duration::from_secs(1_000_000),
        ..EngineOptions::default()
    })
}

/// A pod to be made.
#[derive(Clone, Debug)]
struct Ask {
    name: String,
    cpu: u64,
    priority: i32,
    group: Option<&'static str>,
}

fn ask(name: &str, cpu: u64) -> Ask {
    Ask { name: name.to_owned(), cpu, priority: 0, group: None }
}

fn member(name: &str, cpu: u64, group: &'static str) -> Ask {
    Ask { group: Some(group), ..ask(name, cpu) }
}

impl Ask {
    fn json(&self, node: Option<&str>, started: Option<Timestamp>) -> Value {
        json!({
            "metadata": {"namespace": "x", "name": self.name, "uid": self.name},
            "spec": {
                "schedulerName": "default-scheduler", "nodeName": node, "priority": self.priority,
                "schedulingGroup": self.group.map(|name| json!({"podGroupName": name})),
                "containers": [{"name": "c", "resources": {"requests": {"cpu": self.cpu.to_string()}}}],
            },
            "status": {"startTime": started.map(|at| at.floor_to_second().to_string())},
        })
    }
}

/// A cluster in which everything that is asked for succeeds at once.
struct World {
    engine: Engine,
    now: Timestamp,
    pods: BTreeMap<String, Arc<Pod>>,
    /// The pods that were placed, and how many seconds after the beginning.
    placed: BTreeMap<String, u64>,
    preempts: bool,
    /// The pods that were to be evicted and are still there.
    evicted: Vec<(Token, PodRef)>,
    /// How many revisions of claims there were.
    n_revisions: u64,
}

const START: i64 = 1_000_000;

impl World {
    fn new(longest_hold: u64, nodes: &[(u64, u64)]) -> Self {
        Self::with(longest_hold, nodes, false)
    }

    /// With `preempts` gangs may evict pods.
    fn with(longest_hold: u64, nodes: &[(u64, u64)], preempts: bool) -> Self {
        Self::of(engine(longest_hold, preempts, Extenders::default()), nodes, preempts)
    }

    fn of(engine: Engine, nodes: &[(u64, u64)], preempts: bool) -> Self {
        let (pods, placed, evicted) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let now = Timestamp::from_millis(START);
        let mut world = Self { engine, now, pods, placed, preempts, evicted, n_revisions: 0 };
        for (at, (cpu, zone)) in nodes.iter().enumerate() {
            let node = json!({
                "metadata": {"name": format!("n{at}"), "labels": {"zone": format!("z{zone}")}},
                "status": {"allocatable": {"cpu": cpu.to_string(), "memory": "64Gi", "pods": "50"}},
            });
            world.handle(node_applied(&node));
        }
        world
    }

    fn handle(&mut self, input: Input) {
        if let Input::PodApplied(pod) = &input {
            self.pods.insert(pod.name.to_string(), pod.clone());
        }
        self.engine.handle(input, self.now);
        self.carry_out();
    }

    fn carry_out(&mut self) {
        let effects: Vec<Effect> = self.engine.drain_effects().collect();
        for effect in effects {
            match effect {
                Effect::WriteBinding { token, pod, node } => {
                    self.handle(Input::BindingWritten { token, result: Ok(()) });
                    let mut bound = self.pods[&*pod.name].with_node_name(&node);
                    Arc::make_mut(&mut bound.status).started = Some(self.now);
                    self.placed.insert(pod.name.to_string(), self.seconds());
                    self.handle(Input::PodApplied(Arc::new(bound)));
                }
                Effect::WriteObject { write, awaited_by: Some((token, _)), .. } => {
                    self.store(token, write);
                }
                Effect::EvictPod { token, pod, .. } => {
                    assert!(self.preempts, "{pod} is evicted");
                    self.evicted.push((token, pod));
                }
                Effect::PatchStatus { patch, is_announcement: false, .. } if !self.preempts => {
                    let nominated = patch.nominated_node_name.flatten();
                    assert_eq!(nominated, None, "what is held is not written");
                }
                _ => {}
            }
        }
    }

    /// A claim is stored as it is written, and the watch shows it.
    fn store(&mut self, token: Token, write: ObjectWrite) {
        let (ObjectWrite::Replace(claim) | ObjectWrite::ReplaceStatus(claim)) = write else {
            panic!("{write:?}")
        };
        let mut json = Value::from(&*claim.json);
        json["metadata"]["resourceVersion"] = self.next_revision().into();
        let claim = Arc::new(Object::from_value(json).unwrap());
        self.handle(Input::ObjectWritten { token, result: Ok(claim.clone()) });
        self.handle(Input::ObjectApplied(claim));
    }

    fn next_revision(&mut self) -> String {
        self.n_revisions += 1;
        self.n_revisions.to_string()
    }

    fn seconds(&self) -> u64 {
        self.now.saturating_since(Timestamp::from_millis(START)).as_secs()
    }

    fn group(&mut self, name: &str, min_count: usize, in_one_zone: bool) {
        let constraints = in_one_zone.then(|| json!({"topology": [{"key": "zone"}]}));
        let spec = json!({
            "schedulingPolicy": {"gang": {"minCount": min_count}}, "schedulingConstraints": constraints,
        });
        self.handle(object_applied(pod_group(name, spec)));
    }

    fn add(&mut self, ask: &Ask) {
        self.handle(pod_applied(&ask.json(None, None)));
    }

    /// A pod that has run for some seconds.
    fn run(&mut self, ask: &Ask, node: usize, for_seconds: u64) {
        let started = Timestamp::from_millis(START - i64::try_from(for_seconds).unwrap() * 1000);
        let json = ask.json(Some(&format!("n{node}")), Some(started));
        self.handle(pod_applied(&json));
    }

    fn end(&mut self, name: &str) {
        self.pods.remove(name);
        self.handle(Input::PodDeleted { namespace: "x".into(), name: name.into() });
    }

    /// Lets some seconds pass.
    fn wait(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now = self.now + Duration::from_secs(1);
            self.handle(Input::TimePassed);
            for _ in 0..200 {
                if self.engine.schedule_next(self.now).is_none() {
                    break;
                }
                self.carry_out();
            }
            let differences = check(self.engine.cluster());
            assert!(differences.is_empty(), "{differences:?}");
        }
    }

    fn is_placed(&self, name: &str) -> bool {
        self.placed.contains_key(name)
    }
}

/// How many seconds a gang of `g0` and `g1` waits that comes after a minute, if no more than `n_seconds` are looked at, while
/// there are always small pods that wait as well, `s1` and so on; and how many of these are placed meanwhile. `add` makes a pod
/// of such a name, `end` ends a small one, and `runs_for` is for how many seconds that has run then.
fn wait_in_stream(
    mut world: World,
    n_seconds: u64,
    add: impl Fn(&mut World, &str),
    runs_for: impl Fn(&str) -> u64,
    end: impl Fn(&mut World, &str),
) -> (Option<u64>, usize) {
    let mut ends: BTreeMap<String, u64> = BTreeMap::new();
    let (mut n_small, mut n_before) = (0, 0);
    for second in 0..n_seconds {
        if second == 60 {
            n_before = world.placed.len();
            world.group("g", 2, false);
            add(&mut world, "g0");
            add(&mut world, "g1");
        }
        if world.is_placed("g0") && world.is_placed("g1") {
            return (Some(second - 60), world.placed.len() - 2 - n_before);
        }
        let due: Vec<String> =
            ends.iter().filter(|(_, at)| **at <= second).map(|(name, _)| name.clone()).collect();
        for name in due {
            ends.remove(&name);
            end(&mut world, &name);
        }
        // So many wait at any time.
        let waiting = world.pods.values().filter(|pod| !pod.is_assigned()).count();
        for _ in waiting..8 {
            n_small += 1;
            add(&mut world, &format!("s{n_small}"));
        }
        let before: BTreeSet<String> = world.placed.keys().cloned().collect();
        world.wait(1);
        let new = world.placed.keys().filter(|name| !before.contains(*name));
        let small = new.filter(|name| name.starts_with('s'));
        ends.extend(small.map(|name| (name.clone(), second + runs_for(name))));
    }
    (None, world.placed.len() - n_before)
}

/// The wait of a gang for two whole nodes of four among small pods that run for 30 to 50 seconds.
fn wait_of_gang(longest_hold: u64) -> (Option<u64>, usize) {
    let add = |world: &mut World, name: &str| {
        if name.starts_with('g') {
            world.add(&member(name, 4, "g"));
        } else {
            world.add(&ask(name, 1));
        }
    };
    let runs_for = |name: &str| 30 + name.len() as u64 * 7 % 21;
    wait_in_stream(World::new(longest_hold, &[(4, 0); 4]), 1000, add, runs_for, World::end)
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
        let mut world = World::new(longest_hold, &self.nodes);
        for (at, (cpu, node)) in self.running.iter().enumerate() {
            world.run(&ask(&format!("r{at}"), *cpu), *node, 10_000 - at as u64 * 100);
        }
        world.group("g", self.min_count, self.in_one_zone);
        for (at, cpu) in self.members.iter().enumerate() {
            world.add(&member(&format!("g{at}"), *cpu, "g"));
        }
        world.wait(2);
        for ended in 0..=self.running.len() {
            let n_members = world.placed.keys().filter(|name| name.starts_with('g')).count();
            if n_members >= self.min_count {
                return (Some(ended), world.placed.len() - n_members);
            }
            if with_small && let Some(cpu) = self.small.get(ended) {
                world.add(&ask(&format!("s{ended}"), *cpu));
            }
            // Longer than any backoff.
            world.wait(15);
            if ended < self.running.len() {
                world.end(&format!("r{ended}"));
                world.wait(15);
            }
        }
        (None, world.placed.len())
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
fn blocked(longest_hold: u64) -> World {
    blocked_in(World::new(longest_hold, &[(4, 0)]))
}

fn blocked_in(mut world: World) -> World {
    world.run(&ask("r", 2), 0, 100);
    world.group("g", 1, false);
    world.add(&member("g0", 4, "g"));
    world.wait(1);
    world.add(&ask("s", 2));
    world.wait(30);
    world
}

#[test]
fn room_is_held_for_a_while_only() {
    let mut world = blocked(100);
    assert!(!world.is_placed("s"), "it would delay the gang");
    world.wait(60);
    assert!(!world.is_placed("s"));
    world.wait(30);
    assert!(world.is_placed("s"), "the gang has had its time");
    assert!(blocked(0).is_placed("s"), "nothing is held");
}

#[test]
fn after_a_hold_in_vain_nothing_is_held_for_as_long() {
    let mut world = blocked(100);
    world.wait(100);
    assert!(world.is_placed("s"), "the gang has had its time");
    world.end("s");
    world.wait(30);
    world.group("h", 1, false);
    world.add(&member("h0", 4, "h"));
    world.wait(2);
    world.add(&ask("t", 2));
    world.wait(2);
    assert!(world.is_placed("t"), "no gang holds room now");
    world.end("h0");
    // When something changes for it, the first gang comes back, and holds room again when both pauses are over.
    world.wait(200);
    world.end("t");
    world.wait(15);
    world.add(&ask("u", 2));
    world.wait(15);
    assert!(!world.is_placed("u") && !world.is_placed("g0"), "the gang holds room again");
}

/// What the gang has held so far counts when it evicts pods there, until they are gone.
#[test]
fn a_gang_that_begins_to_evict_pods_keeps_its_places() {
    let mut world = World::with(HOUR, &[(4, 0)], true);
    world.run(&Ask { priority: 10, ..ask("x", 2) }, 0, 100);
    world.run(&ask("y", 2), 0, 100);
    world.group("g", 1, false);
    let spec = json!({"schedulingPolicy": {"gang": {"minCount": 1}}, "priority": 10});
    world.handle(object_applied(pod_group("g", spec)));
    world.add(&Ask { priority: 10, ..member("g0", 4, "g") });
    world.wait(1);
    world.add(&Ask { priority: 10, ..ask("s", 2) });
    world.wait(15);
    assert!(!world.is_placed("s") && world.evicted.is_empty());
    world.end("x");
    world.wait(15);
    assert_eq!(world.evicted.len(), 1, "the other one can be evicted");
    assert!(!world.is_placed("s"), "it would take the room for which a pod is evicted");
    for (token, pod) in std::mem::take(&mut world.evicted) {
        world.handle(Input::PodEvicted { token, result: Ok(EvictionOutcome::Deleted) });
        world.end(&pod.name);
    }
    world.wait(15);
    assert!(world.is_placed("g0") && !world.is_placed("s"));
}

#[test]
fn a_gang_that_is_gone_or_changed_holds_nothing() {
    let mut world = blocked(HOUR);
    world.end("g0");
    world.wait(15);
    assert!(world.is_placed("s"), "the gang's pods are gone");

    let mut world = blocked(HOUR);
    world.group("g", 2, false);
    world.wait(15);
    assert!(world.is_placed("s"), "the gang asks for something else, and is not complete");

    let mut world = blocked(HOUR);
    world.end("r");
    world.wait(15);
    assert!(world.is_placed("g0") && !world.is_placed("s"), "the gang has what it waited for");
}

#[test]
fn more_important_work_is_not_held_back() {
    let mut world = blocked(HOUR);
    world.add(&Ask { priority: 1, ..ask("t", 2) });
    world.wait(1);
    assert!(world.is_placed("t"));

    // A more important gang takes over, and needs less.
    let mut world = World::new(HOUR, &[(4, 0), (2, 0)]);
    world.run(&ask("r", 2), 0, 100);
    world.run(&ask("q", 1), 1, 200);
    world.group("g", 1, false);
    world.add(&member("g0", 4, "g"));
    world.wait(1);
    world.group("h", 1, false);
    world.add(&Ask { priority: 5, ..member("h0", 4, "h") });
    world.wait(15);
    // The other one holds nothing any more, and gets the room only when this one has had it.
    world.end("r");
    world.wait(15);
    assert!(world.is_placed("h0") && !world.is_placed("g0"));
    world.end("h0");
    world.wait(400);
    assert!(world.is_placed("g0"));
}

#[test]
fn a_gang_that_held_room_in_vain_rests_once_more_while_others_may() {
    let mut world = blocked(100);
    // The pause ends about 200 seconds after the beginning, the rest of this gang about 300.
    world.wait(200);
    world.end("s");
    world.wait(15);
    world.add(&ask("t", 2));
    world.wait(15);
    assert!(world.is_placed("t"), "only other gangs may hold room");
}

#[test]
fn a_gang_that_would_never_fit_holds_nothing() {
    let mut world = World::new(HOUR, &[(4, 0)]);
    world.run(&ask("r", 2), 0, 100);
    world.group("g", 1, false);
    world.add(&member("g0", 5, "g"));
    world.wait(1);
    world.add(&ask("s", 2));
    world.wait(1);
    assert!(world.is_placed("s"));
    // Pods that run until somebody ends them are not waited for; those of jobs are.
    for (kind, ends) in [("ReplicaSet", false), ("Node", false), ("Job", true)] {
        let mut world = World::new(HOUR, &[(4, 0)]);
        let mut owned = ask("r", 2).json(Some("n0"), None);
        owned["metadata"]["ownerReferences"] = json!([
            {"apiVersion": "v1", "kind": kind, "name": "r", "uid": "r", "controller": true},
        ]);
        world.handle(pod_applied(&owned));
        world.group("g", 1, false);
        world.add(&member("g0", 4, "g"));
        world.wait(1);
        world.add(&ask("s", 2));
        world.wait(1);
        assert_eq!(world.is_placed("s"), !ends, "{kind}");
    }
}

/// Whether a small pod is placed that comes so many seconds after the pod has gone because of which the gang would never have fitted.
fn comes_after(seconds: u64) -> bool {
    let mut world = World::new(HOUR, &[(4, 0)]);
    let mut endless = ask("r", 2).json(Some("n0"), None);
    endless["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": true},
    ]);
    world.handle(pod_applied(&endless));
    world.run(&ask("q", 2), 0, 100);
    world.group("g", 1, false);
    world.add(&member("g0", 4, "g"));
    world.wait(5);
    world.end("r");
    world.wait(seconds);
    world.add(&ask("s", 2));
    world.wait(2);
    assert!(!world.is_placed("g0"));
    world.is_placed("s")
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
    assert!(blocked_in(World::of(engine, &[(4, 0)], false)).is_placed("s"));
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
    let mut world = blocked(HOUR);
    let later = world.now + Duration::from_secs(15);
    let end = |pod: &str| Input::PodDeleted { namespace: "x".into(), name: pod.into() };
    let t = Arc::new(Pod::from_value(&ask("t", 2).json(None, None)).unwrap());

    let mut fork = world.engine.fork(world.now);
    fork.handle(Input::PodApplied(t), later);
    let placed = tried(&mut fork, later);
    assert_eq!(placed.get("t"), Some(&false), "the copy holds the room: {placed:?}");
    fork.handle(end("r"), later);
    let placed = tried(&mut fork, later + Duration::from_secs(15));
    assert_eq!(placed.get("g0"), Some(&true), "and gives it to the gang: {placed:?}");

    let mut fork = world.engine.fork(world.now);
    let expired = later + Duration::from_secs(HOUR);
    let placed = tried(&mut fork, expired);
    assert_eq!(placed.get("s"), Some(&true), "a hold ends in the copy, too: {placed:?}");

    world.wait(30);
    assert!(!world.is_placed("s") && !world.is_placed("g0"), "nothing of it has happened");
    world.end("r");
    world.wait(15);
    assert!(world.is_placed("g0") && !world.is_placed("s"));
}

/// Another scheduler takes over: it knows what the API server has, which is nothing of what was held.
#[test]
fn after_a_take_over_the_gang_holds_room_once_it_was_refused() {
    let before = blocked(HOUR);
    let take_over = |names: [&str; 3]| {
        let mut world = World::new(HOUR, &[(4, 0)]);
        world.group("g", 1, false);
        for name in names {
            world.handle(Input::PodApplied(before.pods[name].clone()));
        }
        world.wait(30);
        world
    };
    let mut world = take_over(["r", "g0", "s"]);
    assert!(!world.is_placed("s"), "the gang was tried first");
    world.end("r");
    world.wait(15);
    assert!(world.is_placed("g0"));
    assert!(take_over(["r", "s", "g0"]).is_placed("s"), "nobody was refused before");
}
