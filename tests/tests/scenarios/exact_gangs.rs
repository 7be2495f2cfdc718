//! Gangs that are planned as a whole (`docs/groups.md`, "Exact mode"): they are placed whenever an exhaustive search over all
//! orders and nodes finds a way, only as a simple model of the rules allows it, and the same way in whatever order pods, nodes
//! and the group arrived.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod devices;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kube_scheduler_api_types::well_known::HOSTNAME;
use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_cache::check;
use kube_scheduler_engine::{
    AttemptResult, Effect, Engine, EngineOptions, Input, Turn, WorkLimits,
};
use kube_scheduler_framework::groups::{GroupDemand, PlacementBound};
use kube_scheduler_framework::{
    Commands, Context, CycleState, Filter, NodeView, Plugin, Reserve, Status, extension_points,
};
use kube_scheduler_tests::fixtures::{
    self, GANG_GATES, applied, devices_applied, gates, node_applied, object_applied, pod_applied,
    pod_group,
};
use kube_scheduler_tests::history::Numbers;
use kube_scheduler_tests::live_cluster::LiveCluster;
use serde_json::{Value, json};

/// How many random gangs the tests try, and in how many orders each arrives. `KUBE_SCHEDULER_GANGS` and
/// `KUBE_SCHEDULER_ARRIVALS` set other numbers.
const N_GANGS: u64 = 300;
const N_ARRIVALS: u64 = 4;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

fn engine(uses_class_cache: bool, plans_gangs_exactly: bool, work: WorkLimits) -> Engine {
    let gates = gates(GANG_GATES);
    let rest = EngineOptions::default();
    fixtures::engine(EngineOptions { gates, uses_class_cache, plans_gangs_exactly, work, ..rest })
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// What a pod of the model wants of others: a label, and whether of its zone or its node.
#[derive(Clone, Copy, Debug)]
struct Term {
    label: u64,
    by_zone: bool,
}

#[derive(Clone, Debug)]
struct Member {
    cpu: u64,
    label: u64,
    tolerates: bool,
    /// Only nodes of this kind.
    wants_kind: Option<u64>,
    affinity: Option<Term>,
    anti_affinity: Option<Term>,
}

#[derive(Clone, Debug)]
struct Machine {
    cpu: u64,
    max_pods: u64,
    zone: u64,
    kind: u64,
    is_tainted: bool,
}

/// A gang, and the cluster that it comes to.
#[derive(Clone, Debug)]
struct Case {
    machines: Vec<Machine>,
    /// Pods that run already, with their nodes.
    running: Vec<(Member, usize)>,
    members: Vec<Member>,
    min_count: usize,
    keeps_to_zone: bool,
}

fn term(numbers: &mut Numbers, one_in: u64) -> Option<Term> {
    let (label, by_zone) = (numbers.below(2), numbers.one_in(2));
    numbers.one_in(one_in).then_some(Term { label, by_zone })
}

impl Member {
    /// Each of its rules about other pods is there once in `one_in` times.
    fn random(numbers: &mut Numbers, one_in: u64) -> Self {
        Self {
            cpu: 1 + numbers.below(3),
            label: numbers.below(2),
            tolerates: numbers.one_in(2),
            wants_kind: numbers.one_in(4).then(|| numbers.below(2)),
            affinity: term(numbers, one_in),
            anti_affinity: term(numbers, one_in),
        }
    }

    fn json(&self, name: &str, node: Option<String>, group: Option<&str>) -> Value {
        let term = |term: Term| {
            json!([{
                "topologyKey": if term.by_zone { "zone" } else { "host" },
                "labelSelector": {"matchLabels": {"app": format!("a{}", term.label)}},
            }])
        };
        let mut affinity = json!({});
        if let Some(wanted) = self.affinity {
            affinity["podAffinity"] = json!({REQUIRED: term(wanted)});
        }
        if let Some(shunned) = self.anti_affinity {
            affinity["podAntiAffinity"] = json!({REQUIRED: term(shunned)});
        }
        let toleration = json!({"key": "special", "operator": "Exists", "effect": "NoSchedule"});
        json!({
            "metadata": {"namespace": "x", "name": name, "uid": name, "labels": {"app": format!("a{}", self.label)}},
            "spec": {
                "schedulerName": "default-scheduler",
                "nodeName": node,
                "schedulingGroup": group.map(|name| json!({"podGroupName": name})),
                "nodeSelector": self.wants_kind.map(|kind| json!({"kind": format!("k{kind}")})),
                "tolerations": if self.tolerates { json!([toleration]) } else { json!([]) },
                "affinity": affinity,
                "containers": [{"name": "c", "resources": {"requests": {"cpu": self.cpu.to_string()}}}],
            },
        })
    }
}

impl Case {
    fn random(seed: u64) -> Self {
        let mut numbers = Numbers::new(seed);
        let n_machines = 1 + numbers.below(4);
        let machines = (0..n_machines).map(|_| Machine {
            cpu: numbers.below(6),
            max_pods: 1 + numbers.below(4),
            zone: numbers.below(2),
            kind: numbers.below(2),
            is_tainted: numbers.one_in(4),
        });
        let machines: Vec<Machine> = machines.collect();
        let one_in = [1_000_000, 4, 2][usize::try_from(numbers.below(3)).unwrap()];
        let n_members = 1 + usize::try_from(numbers.below(5)).unwrap();
        let members: Vec<Member> =
            (0..n_members).map(|_| Member::random(&mut numbers, one_in)).collect();
        let running = (0..numbers.below(2)).map(|_| {
            let node = usize::try_from(numbers.below(n_machines)).unwrap();
            (Member { cpu: 1, ..Member::random(&mut numbers, one_in) }, node)
        });
        let running = running.collect();
        let min_count = if numbers.one_in(2) {
            n_members
        } else {
            1 + usize::try_from(numbers.below(n_members as u64)).unwrap()
        };
        Self { machines, running, members, min_count, keeps_to_zone: numbers.one_in(3) }
    }

    fn inputs(&self) -> Vec<Input> {
        let mut inputs = Vec::new();
        for (at, machine) in self.machines.iter().enumerate() {
            let taint = json!({"key": "special", "effect": "NoSchedule"});
            let node = json!({
                "metadata": {"name": format!("n{at}"), "labels": {
                    "host": format!("n{at}"), "zone": format!("z{}", machine.zone), "kind": format!("k{}", machine.kind),
                }},
                "spec": {"taints": if machine.is_tainted { json!([taint]) } else { json!([]) }},
                "status": {"allocatable": {
                    "cpu": machine.cpu.to_string(), "memory": "64Gi", "pods": machine.max_pods.to_string(),
                }},
            });
            inputs.push(node_applied(&node));
        }
        let constraints = self.keeps_to_zone.then(|| json!({"topology": [{"key": "zone"}]}));
        let spec = json!({
            "schedulingPolicy": {"gang": {"minCount": self.min_count}}, "schedulingConstraints": constraints,
        });
        inputs.push(object_applied(pod_group("g", spec)));
        for (at, (member, node)) in self.running.iter().enumerate() {
            let pod = member.json(&format!("r{at}"), Some(format!("n{node}")), None);
            inputs.push(pod_applied(&pod));
        }
        for (at, member) in self.members.iter().enumerate() {
            let pod = member.json(&format!("m{at}"), None, Some("g"));
            inputs.push(pod_applied(&pod));
        }
        inputs
    }

    /// Whether a pod may go to a node beside `placed`.
    fn allows(&self, placed: &[(&Member, usize)], member: &Member, node: usize) -> bool {
        let machine = &self.machines[node];
        let on_it: Vec<&Member> =
            placed.iter().filter(|(_, on)| *on == node).map(|(other, _)| *other).collect();
        let used: u64 = on_it.iter().map(|other| other.cpu).sum();
        let is_near = |by_zone: bool, other: usize| {
            if by_zone { self.machines[other].zone == machine.zone } else { other == node }
        };
        let is_shunned = |owner: &Member, label: u64, other: usize| {
            owner
                .anti_affinity
                .is_some_and(|term| term.label == label && is_near(term.by_zone, other))
        };
        let attracts = |term: Term| {
            let mut matching = placed.iter().filter(|(other, _)| other.label == term.label);
            let is_first = matching.clone().next().is_none() && member.label == term.label;
            is_first || matching.any(|(_, other)| is_near(term.by_zone, *other))
        };
        used + member.cpu <= machine.cpu
            && (on_it.len() as u64) < machine.max_pods
            && (member.tolerates || !machine.is_tainted)
            && member.wants_kind.is_none_or(|kind| kind == machine.kind)
            && !placed.iter().any(|(other, on)| is_shunned(member, other.label, *on))
            && !placed.iter().any(|(other, on)| is_shunned(other, member.label, *on))
            && member.affinity.is_none_or(attracts)
    }

    /// Whether this many members can be placed beside `placed`, in any order, on nodes of the zone.
    fn can_place(
        &self,
        placed: &mut Vec<(usize, usize)>,
        needed: usize,
        zone: Option<u64>,
        tried: &mut BTreeSet<Vec<(usize, usize)>>,
    ) -> bool {
        if needed == 0 {
            return true;
        }
        let mut key = placed.clone();
        key.sort_unstable();
        if !tried.insert(key) {
            return false;
        }
        for at in 0..self.members.len() {
            if placed.iter().any(|(member, _)| *member == at) {
                continue;
            }
            for node in 0..self.machines.len() {
                let is_allowed = zone.is_none_or(|zone| self.machines[node].zone == zone);
                if is_allowed && self.allows(&self.with_running(placed), &self.members[at], node) {
                    placed.push((at, node));
                    let found = self.can_place(placed, needed - 1, zone, tried);
                    placed.pop();
                    if found {
                        return true;
                    }
                }
            }
        }
        false
    }

    fn with_running(&self, placed: &[(usize, usize)]) -> Vec<(&Member, usize)> {
        let running = self.running.iter().map(|(member, node)| (member, *node));
        running.chain(placed.iter().map(|(member, node)| (&self.members[*member], *node))).collect()
    }

    fn is_satisfiable(&self) -> bool {
        let zones = if self.keeps_to_zone { vec![Some(0), Some(1)] } else { vec![None] };
        zones
            .into_iter()
            .any(|zone| self.can_place(&mut Vec::new(), self.min_count, zone, &mut BTreeSet::new()))
    }
}

/// What became of the members, in the order in which they were placed, and what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Decision {
    placed: Vec<(usize, usize)>,
    effects: Vec<String>,
}

fn at(name: &str) -> usize {
    name[1..].parse().unwrap()
}

fn decide(inputs: Vec<Input>, mut engine: Engine) -> Decision {
    decide_in(inputs, &mut engine)
}

fn decide_in(inputs: Vec<Input>, engine: &mut Engine) -> Decision {
    let now = Timestamp::from_millis(1_000_000);
    for input in inputs {
        engine.handle(input, now);
    }
    let first: Vec<Effect> = engine.drain_effects().collect();
    assert!(first.is_empty(), "{first:?}");
    let turn: Option<Turn> = engine.schedule_next(now);
    let differences = check(engine.cluster());
    assert!(differences.is_empty(), "{differences:?}");
    let members = turn.into_iter().filter_map(|turn| turn.group).flat_map(|group| group.members);
    let placed = members.filter_map(|(pod, result)| match result {
        AttemptResult::Assumed(node) => Some((at(&pod.name), at(&node))),
        _ => None,
    });
    let placed = placed.collect();
    let effects = engine.drain_effects().map(|effect| effect.to_string()).collect();
    Decision { placed, effects }
}

fn exact() -> Engine {
    engine(true, true, WorkLimits::default())
}

fn shuffled(mut inputs: Vec<Input>, numbers: &mut Numbers) -> Vec<Input> {
    for at in (1..inputs.len()).rev() {
        let other = usize::try_from(numbers.below(at as u64 + 1)).unwrap();
        inputs.swap(at, other);
    }
    inputs
}

#[test]
fn a_gang_is_placed_whenever_there_is_a_way() {
    let (mut n_satisfiable, mut n_beyond_greedy, mut n_refused) = (0, 0, 0);
    for seed in 0..number("KUBE_SCHEDULER_GANGS", N_GANGS) {
        let case = Case::random(seed);
        let decision = decide(case.inputs(), exact());
        let Decision { placed, effects } = &decision;
        let is_satisfiable = case.is_satisfiable();
        assert_eq!(
            placed.len() >= case.min_count,
            is_satisfiable,
            "seed {seed}: {case:#?}, placed {placed:?}, {effects:#?}"
        );
        assert!(is_satisfiable || placed.is_empty(), "seed {seed}: by halves: {placed:?}");
        let mut before = Vec::new();
        for (member, node) in placed {
            let beside = case.with_running(&before);
            let is_allowed = case.allows(&beside, &case.members[*member], *node);
            assert!(is_allowed, "seed {seed}: m{member} on n{node} after {before:?}: {case:#?}");
            before.push((*member, *node));
        }
        let zones: BTreeSet<u64> =
            placed.iter().map(|(_, node)| case.machines[*node].zone).collect();
        assert!(!case.keeps_to_zone || zones.len() <= 1, "seed {seed}: {placed:?}");
        let hides_nothing = !effects.iter().any(|effect| effect.contains("ended at its limit"));
        assert!(hides_nothing, "seed {seed}: {effects:#?}");
        let without_cache = decide(case.inputs(), engine(false, true, WorkLimits::default()));
        assert_eq!(decision, without_cache, "seed {seed}: without the class cache");
        let greedy = decide(case.inputs(), engine(true, false, WorkLimits::default()));
        n_satisfiable += u64::from(is_satisfiable);
        n_refused += u64::from(!is_satisfiable);
        n_beyond_greedy += u64::from(is_satisfiable && greedy.placed.len() < case.min_count);
    }
    // It would prove nothing if one answer were always right, or trying one after the other were enough.
    assert!(
        n_satisfiable > 50 && n_refused > 50 && n_beyond_greedy > 5,
        "{n_satisfiable} satisfiable, {n_beyond_greedy} of them only in another order, {n_refused} not"
    );
}

#[test]
fn the_order_of_arrival_decides_nothing() {
    let n_arrivals = number("KUBE_SCHEDULER_ARRIVALS", N_ARRIVALS);
    for seed in 0..number("KUBE_SCHEDULER_GANGS", N_GANGS / 3) {
        let case = Case::random(seed);
        let mut numbers = Numbers::new(seed);
        let expected = decide(case.inputs(), exact());
        for _ in 0..n_arrivals {
            let arrived = shuffled(case.inputs(), &mut numbers);
            let live = decide(arrived.clone(), exact());
            assert_eq!(live, decide(arrived, exact()), "seed {seed}: replayed");
            let places: BTreeMap<usize, usize> = live.placed.iter().copied().collect();
            assert_eq!(places, expected.placed.iter().copied().collect(), "seed {seed}: {case:#?}");
            assert_eq!(live.placed, expected.placed, "seed {seed}: in another order");
        }
    }
}

#[test]
fn the_order_of_arrival_decides_nothing_about_devices() {
    let n_arrivals = number("KUBE_SCHEDULER_ARRIVALS", N_ARRIVALS);
    let with_devices = || with_gates(&["DRAWorkloadResourceClaims"], true);
    for seed in 0..number("KUBE_SCHEDULER_GANGS", N_GANGS / 3) {
        let case = Sharing::random(seed);
        let mut numbers = Numbers::new(seed);
        let expected = decide(case.inputs(), with_devices());
        for _ in 0..n_arrivals {
            let arrived = shuffled(case.inputs(), &mut numbers);
            let live = decide(arrived.clone(), with_devices());
            assert_eq!(live, decide(arrived, with_devices()), "seed {seed}: replayed");
            assert_eq!(live, expected, "seed {seed}: in another order: {case:#?}");
        }
    }
}

/// Two gangs that compete for the same nodes: the one of the higher priority goes first, whatever came first.
fn two_gangs(case: &Case, other: &Case) -> Vec<Input> {
    let mut inputs = preempting(case);
    inputs.retain(|input| !matches!(input, Input::PodApplied(pod) if pod.is_assigned()));
    let policy = json!({"gang": {"minCount": other.min_count}});
    inputs.push(object_applied(pod_group("h", json!({"schedulingPolicy": policy}))));
    for (at, member) in other.members.iter().enumerate() {
        inputs.push(pod_applied(&member.json(&format!("h{at}"), None, Some("h"))));
    }
    inputs
}

/// A scheduler that stops after some of its bindings have been written, and another one that sees what there is then.
#[test]
fn two_gangs_get_the_same_nodes_in_any_order_and_after_a_restart() {
    let n_arrivals = number("KUBE_SCHEDULER_ARRIVALS", N_ARRIVALS);
    let both = |cluster: &LiveCluster| (places(cluster, "m"), places(cluster, "h"));
    let (mut n_both, mut n_halves) = (0, 0);
    for seed in 0..number("KUBE_SCHEDULER_GANGS", N_GANGS / 3) {
        let mut case = Case::random(seed);
        case.running.clear();
        let other = Case::random(seed + 1_000_000);
        let mut numbers = Numbers::new(seed);
        let inputs = two_gangs(&case, &other);
        let cluster = live(exact(), inputs.clone());
        let expected = both(&cluster);
        n_both += u64::from(!expected.0.is_empty() && !expected.1.is_empty());
        for _ in 0..n_arrivals {
            let cluster = live(exact(), shuffled(inputs.clone(), &mut numbers));
            assert_eq!(both(&cluster), expected, "seed {seed}: {case:#?} {other:#?}");
            let n_bound = numbers.below(expected.0.len() as u64 + 1);
            let mut after_restart = inputs.clone();
            let mut bound: Vec<(usize, usize)> = expected.0.iter().map(|(m, n)| (*m, *n)).collect();
            while bound.len() as u64 > n_bound {
                bound.swap_remove(usize::try_from(numbers.below(bound.len() as u64)).unwrap());
            }
            for input in &mut after_restart {
                let Input::PodApplied(pod) = input else { continue };
                let of_first = |(member, _): &&(usize, usize)| *pod.name == *format!("m{member}");
                if let Some((_, node)) = bound.iter().find(of_first) {
                    *pod = Arc::new(pod.with_node_name(&format!("n{node}").into()));
                }
            }
            let restarted = live(exact(), shuffled(after_restart, &mut numbers));
            let (first, second) = both(&restarted);
            let at_restart = format!("seed {seed}: {bound:?} were bound: {case:#?} {other:#?}");
            if bound.is_empty() {
                assert_eq!((first, second), expected, "{at_restart}");
                continue;
            }
            // Bound pods stay, and the gang is completed, if need be by other members than were planned.
            let stays = |(member, node): &(usize, usize)| first.get(member) == Some(node);
            assert!(
                bound.iter().all(stays) && first.len() >= case.min_count,
                "{first:?}, {at_restart}"
            );
            let is_half = bound.len() < expected.0.len();
            n_halves += u64::from(is_half);
        }
    }
    assert!(n_both > 10 && n_halves > 20, "{n_both} {n_halves}");
}

fn machine(cpu: u64) -> Machine {
    Machine { cpu, max_pods: 10, zone: 0, kind: 0, is_tainted: false }
}

fn member(cpu: u64) -> Member {
    Member {
        cpu,
        label: 0,
        tolerates: false,
        wants_kind: None,
        affinity: None,
        anti_affinity: None,
    }
}

fn gang(machines: &[u64], members: &[u64]) -> Case {
    Case {
        machines: machines.iter().map(|cpu| machine(*cpu)).collect(),
        running: Vec::new(),
        members: members.iter().map(|cpu| member(*cpu)).collect(),
        min_count: members.len(),
        keeps_to_zone: false,
    }
}

/// kubernetes#138765: a gang that fits stays pending for ever, because each pod takes the node that is best for itself.
#[test]
fn a_gang_fits_although_its_pods_one_after_the_other_do_not() {
    let case = gang(&[4, 2], &[2, 4]);
    let greedy = decide(case.inputs(), engine(true, false, WorkLimits::default()));
    assert_eq!(greedy.placed, []);
    let places: BTreeMap<usize, usize> =
        decide(case.inputs(), exact()).placed.into_iter().collect();
    assert_eq!(places, BTreeMap::from([(0, 1), (1, 0)]));
}

/// Room that a node keeps for a nominated pod is kept from members of lower priority alone, so it matters who of two members that
/// are alike otherwise goes where.
#[test]
fn members_of_different_priority_are_not_interchangeable() {
    let mut inputs = gang(&[2, 2], &[2, 2]).inputs();
    inputs.retain(|input| !matches!(input, Input::PodApplied(_)));
    let mut add = |mut pod: Value, priority: i32| {
        pod["spec"]["priority"] = priority.into();
        inputs.push(pod_applied(&pod));
    };
    add(member(2).json("m0", None, Some("g")), 10);
    add(member(2).json("m1", None, Some("g")), 0);
    let mut nominated = member(1).json("f", None, None);
    nominated["status"] = json!({"nominatedNodeName": "n1"});
    add(nominated, 5);
    let greedy = decide(inputs.clone(), engine(true, false, WorkLimits::default()));
    assert!(greedy.placed.len() < 2, "{greedy:#?}");
    let places: BTreeMap<usize, usize> = decide(inputs, exact()).placed.into_iter().collect();
    assert_eq!(places, BTreeMap::from([(0, 1), (1, 0)]));
}

fn says(decision: &Decision, text: &str) -> bool {
    let of_group = |effect: &&String| effect.contains("PodGroup x/g");
    decision.placed.is_empty()
        && decision.effects.iter().filter(of_group).any(|effect| effect.contains(text))
}

#[test]
fn a_gang_is_refused_with_a_reason_for_each_level() {
    let short = decide(gang(&[4, 2], &[3, 4]).inputs(), exact());
    assert!(
        says(&short, "pod group is unschedulable, cluster: cpu (milli): 7000 needed, 6000 free"),
        "{short:#?}"
    );
    let tight = decide(gang(&[4, 3], &[2, 2, 3]).inputs(), exact());
    assert_eq!(tight.placed.len(), 3, "{tight:#?}");
    let nowhere = decide(gang(&[5, 3], &[2, 2, 4]).inputs(), exact());
    assert!(says(&nowhere, "cluster: no way to place 3 pods, in any order"), "{nowhere:#?}");

    let mut racks = Case { keeps_to_zone: true, ..gang(&[4, 4, 9, 2], &[3, 3]) };
    for (at, zone) in [(0, 0), (1, 1), (2, 2), (3, 3)] {
        racks.machines[at].zone = zone;
    }
    racks.machines[2].is_tainted = true;
    let decision = decide(racks.inputs(), exact());
    let text = "cluster: enough room in sum, zone: 3 of 4 domains, such as z0: cpu (milli): 6000 needed, 4000 free, zone: \
                1 of 4 domains, such as z2: no way to place 2 pods, in any order";
    assert!(says(&decision, text), "{decision:#?}");
}

/// Many equal nodes, and a gang that fits in no way: found out at once, because nodes that stand alike are one.
#[test]
fn equal_nodes_are_not_tried_one_by_one() {
    let members: Vec<u64> = std::iter::repeat_n(3, 40).chain(std::iter::repeat_n(2, 41)).collect();
    let nowhere = decide(gang(&[5; 40], &members).inputs(), exact());
    assert!(says(&nowhere, "cpu (milli): 202000 needed, 200000 free"), "{nowhere:#?}");
    // In sum there is room, and each pod has room somewhere.
    let members: Vec<u64> = std::iter::repeat_n(3, 20).chain([2; 3]).collect();
    let nowhere = decide(gang(&[5; 20].map(|cpu| cpu - 1), &members).inputs(), exact());
    assert!(says(&nowhere, "no way to place 23 pods, in any order"), "{nowhere:#?}");
}

/// What was not found out is not claimed.
#[test]
fn a_search_that_ends_at_its_limit_says_so() {
    let work = WorkLimits { base: 150, per_node: 0, refill_per_second: 0 };
    let decision = decide(gang(&[4, 2], &[2, 4]).inputs(), engine(true, true, work));
    assert!(says(&decision, "ended at its limit, there may be one"), "{decision:#?}");
}

/// The first pod takes any device, the second one only a large one, and the node that is best for the first has that.
#[test]
fn devices_are_part_of_the_plan() {
    let api = "resource.k8s.io/v1";
    let mut inputs = gang(&[16, 8], &[1, 1]).inputs();
    inputs.retain(|input| !matches!(input, Input::PodApplied(_)));
    inputs.push(applied("deviceclass gpu"));
    for (node, size) in [("n0", "large"), ("n1", "small")] {
        let device = json!({"name": "gpu", "attributes": {"size": {"string": size}}});
        inputs.push(devices_applied(node, &[device]));
    }
    let large =
        json!({"cel": {"expression": "device.attributes['gpu.example.com'].size == 'large'"}});
    for (at, selectors) in [(0, json!([])), (1, json!([large]))] {
        let name = format!("m{at}");
        let request = json!({"name": "r", "exactly": {"deviceClassName": "gpu", "selectors": selectors,
            "allocationMode": "ExactCount", "count": 1}});
        inputs.push(object_applied(json!({
            "apiVersion": api, "kind": "ResourceClaim", "metadata": {"namespace": "x", "name": name, "uid": name},
            "spec": {"devices": {"requests": [request]}}, "status": {},
        })));
        let mut pod = member(1).json(&name, None, Some("g"));
        pod["spec"]["resourceClaims"] = json!([{"name": "c", "resourceClaimName": name}]);
        inputs.push(pod_applied(&pod));
    }
    let greedy = decide(inputs.clone(), engine(true, false, WorkLimits::default()));
    assert_eq!(greedy.placed, [], "{greedy:#?}");
    let decision = decide(inputs, exact());
    let places: BTreeMap<usize, usize> = decision.placed.iter().copied().collect();
    assert_eq!(places, BTreeMap::from([(0, 1), (1, 0)]), "{decision:#?}");
}

/// An engine with more gates on.
fn with_gates(more: &[&str], plans_gangs_exactly: bool) -> Engine {
    with_limits(more, plans_gangs_exactly, WorkLimits::default())
}

fn with_limits(more: &[&str], plans_gangs_exactly: bool, work: WorkLimits) -> Engine {
    let gates = gates(GANG_GATES.iter().chain(more).copied());
    fixtures::engine(EngineOptions { gates, plans_gangs_exactly, work, ..EngineOptions::default() })
}

const DEVICES: &str = "resource.k8s.io/v1";

fn claim(name: &str, count: u64) -> Input {
    let exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count});
    object_applied(json!({
        "apiVersion": DEVICES, "kind": "ResourceClaim", "metadata": {"namespace": "x", "name": name, "uid": name},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}, "status": {},
    }))
}

/// A gang on nodes with devices, of which some members share those of one claim, and others have one of their own.
#[derive(Clone, Debug)]
struct Sharing {
    /// CPUs and devices.
    machines: Vec<(u64, u64)>,
    /// CPUs, whether it shares the claim, and whether it has one of its own.
    members: Vec<(u64, bool, bool)>,
    /// How many devices the claim is for.
    n_shared: u64,
    min_count: usize,
    /// Whether the claim belongs to the group, so that it is reserved once for all.
    is_of_group: bool,
}

impl Sharing {
    fn random(seed: u64) -> Self {
        let mut numbers = Numbers::new(seed);
        let machines = (0..=numbers.below(3)).map(|_| (numbers.below(7), numbers.below(4)));
        let machines = machines.collect();
        let member = |numbers: &mut Numbers| {
            let (cpu, shares, owns) = (1 + numbers.below(3), numbers.one_in(2), numbers.one_in(3));
            (cpu, shares, owns)
        };
        let n_members = 1 + numbers.below(4);
        let members: Vec<_> = (0..n_members).map(|_| member(&mut numbers)).collect();
        let all = members.len();
        let min_count = if numbers.one_in(2) {
            all
        } else {
            1 + usize::try_from(numbers.below(n_members)).unwrap()
        };
        Self {
            machines,
            members,
            n_shared: 1 + numbers.below(2),
            min_count,
            is_of_group: numbers.one_in(2),
        }
    }

    fn inputs(&self) -> Vec<Input> {
        let sizes: Vec<u64> = self.machines.iter().map(|(cpu, _)| *cpu).collect();
        let mut inputs = gang(&sizes, &[]).inputs();
        inputs.retain(|input| matches!(input, Input::NodeApplied(_)));
        inputs.push(object_applied(
            json!({"apiVersion": DEVICES, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}),
        ));
        for (at, (_, n_devices)) in self.machines.iter().enumerate() {
            let devices: Vec<Value> =
                (0..*n_devices).map(|n| json!({"name": format!("d{n}")})).collect();
            let node = format!("n{at}");
            inputs.push(devices_applied(&node, &devices));
        }
        let shared = json!({"name": "shared", "resourceClaimName": "shared"});
        let of_group = if self.is_of_group { json!([shared]) } else { json!([]) };
        let policy = json!({"gang": {"minCount": self.min_count}});
        let spec = json!({"schedulingPolicy": policy, "resourceClaims": of_group});
        inputs.push(object_applied(pod_group("g", spec)));
        inputs.push(claim("shared", self.n_shared));
        for (at, (cpu, shares, owns)) in self.members.iter().enumerate() {
            let name = format!("m{at}");
            let mut claims = Vec::new();
            if *shares {
                claims.push(shared.clone());
            }
            if *owns {
                inputs.push(claim(&name, 1));
                claims.push(json!({"name": "own", "resourceClaimName": name}));
            }
            let mut pod = member(*cpu).json(&name, None, Some("g"));
            pod["spec"]["resourceClaims"] = claims.into();
            inputs.push(pod_applied(&pod));
        }
        inputs
    }

    /// Whether members can be where `places` has them; those that have none stay out.
    fn allows(&self, places: &[Option<usize>]) -> bool {
        let mut used = vec![(0, 0); self.machines.len()];
        let mut shared_on = None;
        for ((cpu, shares, owns), place) in self.members.iter().zip(places) {
            let Some(node) = *place else { continue };
            used[node].0 += cpu;
            used[node].1 += u64::from(*owns);
            if *shares && *shared_on.get_or_insert(node) != node {
                return false;
            }
        }
        if let Some(node) = shared_on {
            used[node].1 += self.n_shared;
        }
        used.iter().zip(&self.machines).all(|(used, has)| used.0 <= has.0 && used.1 <= has.1)
    }

    fn is_satisfiable(&self) -> bool {
        let sizes = (self.members.len(), self.machines.len(), self.min_count);
        any_places(sizes, &mut Vec::new(), &|places| self.allows(places))
    }
}

/// Whether enough of so many members can be placed on so many nodes, or left out, as `allows` says; by trying everything.
fn any_places(
    (n_members, n_nodes, min_count): (usize, usize, usize),
    places: &mut Vec<Option<usize>>,
    allows: &dyn Fn(&[Option<usize>]) -> bool,
) -> bool {
    if places.len() == n_members {
        return places.iter().flatten().count() >= min_count && allows(places);
    }
    [None].into_iter().chain((0..n_nodes).map(Some)).any(|place| {
        places.push(place);
        let found = any_places((n_members, n_nodes, min_count), places, allows);
        places.pop();
        found
    })
}

/// Members and devices are planned together, whether the devices belong to one claim or to several.
#[test]
fn members_that_share_devices_are_placed_whenever_there_is_a_way() {
    let (mut n_satisfiable, mut n_shared, mut n_refused) = (0, 0, 0);
    for seed in 0..number("KUBE_SCHEDULER_GANGS", N_GANGS) {
        let case = Sharing::random(seed);
        let decision = decide(case.inputs(), with_gates(&["DRAWorkloadResourceClaims"], true));
        let is_satisfiable = case.is_satisfiable();
        let placed = &decision.placed;
        assert_eq!(
            placed.len() >= case.min_count,
            is_satisfiable,
            "seed {seed}: {case:#?}, {decision:#?}"
        );
        let mut places = vec![None; case.members.len()];
        for (member, node) in placed {
            places[*member] = Some(*node);
        }
        assert!(case.allows(&places), "seed {seed}: {case:#?}, {decision:#?}");
        let n_sharing = placed.iter().filter(|(member, _)| case.members[*member].1).count();
        n_satisfiable += u64::from(is_satisfiable);
        n_shared += u64::from(n_sharing > 1 && case.is_of_group);
        n_refused += u64::from(!is_satisfiable);
    }
    let enough = n_satisfiable > 50 && n_shared > 5 && n_refused > 50;
    assert!(enough, "{n_satisfiable} satisfiable, {n_shared} share a claim, {n_refused} not");
}

/// The node that is best for the first member has the devices that all have to be near, and no room for the second.
#[test]
fn a_claim_of_the_group_goes_where_all_its_members_fit() {
    let mut case = Sharing {
        machines: vec![(16, 1), (8, 1)],
        members: vec![(1, true, false), (1, true, false)],
        n_shared: 1,
        min_count: 2,
        is_of_group: true,
    };
    let gates = ["DRAWorkloadResourceClaims"];
    let decision = decide(case.inputs(), with_gates(&gates, true));
    assert_eq!(decision.placed, [(0, 0), (1, 0)], "{decision:#?}");
    // The second member is free to go, and where it would go by itself there is no room left for the last one then.
    case.machines = vec![(9, 1), (2, 0)];
    case.members = vec![(5, true, false), (2, false, false), (4, true, false)];
    case.min_count = 3;
    let greedy = decide(case.inputs(), with_gates(&gates, false));
    assert_eq!(greedy.placed, [], "{greedy:#?}");
    let decision = decide(case.inputs(), with_gates(&gates, true));
    let places: BTreeMap<usize, usize> = decision.placed.iter().copied().collect();
    assert_eq!(places, BTreeMap::from([(0, 0), (1, 1), (2, 0)]), "{decision:#?}");
}

/// The API server takes 256 users of a claim, so that one more would be refused when the others are bound.
#[test]
fn a_gang_does_not_share_a_claim_among_more_pods_than_may_use_it() {
    let text = "cluster: resource claim x/shared: 257 pods would use it, and 256 may; as one of the PodGroup's resourceClaims";
    for (n_sharing, n_others, room, min_count, is_of_group, n_placed) in [
        (256, 0, 300, 256, false, 256),
        (257, 0, 300, 257, false, 0),
        (257, 0, 300, 257, true, 257),
        // Those that share the claim come first, and there is room for no more than are needed.
        (257, 3, 258, 258, false, 258),
        (257, 3, 300, 200, false, 259),
    ] {
        let members = std::iter::repeat_n((1, true, false), n_sharing);
        let members = members.chain(std::iter::repeat_n((1, false, false), n_others));
        let members = members.collect();
        let machines = vec![(room, 1)];
        let case = Sharing { machines, members, n_shared: 1, min_count, is_of_group };
        let mut inputs = case.inputs();
        for input in &mut inputs {
            if let Input::NodeApplied(node) = input {
                let cpu = node.allocatable.milli_cpu / 1000;
                *input = applied(&format!("node {} cpu={cpu} pods=1000", node.name));
            }
        }
        let decision = decide(inputs, with_gates(&["DRAWorkloadResourceClaims"], true));
        assert_eq!(decision.placed.len(), n_placed, "{n_sharing} share: {:#?}", decision.effects);
        assert!(n_placed > 0 || says(&decision, text), "{:#?}", decision.effects);
    }
}

fn cluster(engine: Engine, inputs: Vec<Input>) -> LiveCluster {
    let mut cluster = LiveCluster::new(engine);
    inputs.into_iter().for_each(|input| cluster.handle(input));
    cluster
}

/// What a cluster does in some minutes.
fn live(engine: Engine, inputs: Vec<Input>) -> LiveCluster {
    let mut cluster = cluster(engine, inputs);
    cluster.run();
    cluster
}

/// Where the pods are whose names begin so.
fn places(cluster: &LiveCluster, prefix: &str) -> BTreeMap<usize, usize> {
    let pods = cluster.pods.values().filter(|pod| pod.name.starts_with(prefix));
    pods.filter_map(|pod| Some((at(&pod.name), at(pod.node_name.as_ref()?)))).collect()
}

/// A case with a group of priority 10 and pods of no priority that run.
fn preempting(case: &Case) -> Vec<Input> {
    let mut inputs = case.inputs();
    for input in &mut inputs {
        match input {
            Input::ObjectApplied(group) => {
                Arc::make_mut(group).set_field(&["spec", "priority"], json!(10).into());
            }
            Input::PodApplied(pod) if pod.spec.pod_group.is_some() => {
                let pod = Arc::make_mut(pod);
                Arc::make_mut(&mut pod.spec).priority = Some(10);
            }
            _ => {}
        }
    }
    inputs
}

/// Room is made for the gang as a plan needs it, although its pods one after the other would not find it then.
#[test]
fn a_gang_makes_room_for_itself_as_a_whole() {
    let mut case = gang(&[4, 2], &[2, 4]);
    case.running = vec![(member(1), 0), (member(1), 0), (member(1), 1)];
    let cluster = live(with_gates(&["WorkloadAwarePreemption"], true), preempting(&case));
    assert_eq!(cluster.evicted.len(), 3, "{:#?}", cluster.log);
    assert_eq!(places(&cluster, "m"), BTreeMap::from([(0, 1), (1, 0)]), "{:#?}", cluster.log);
    // No pod is evicted for a gang that does not fit even then, and no more are than have to be.
    let mut case = gang(&[4, 2], &[2, 5]);
    case.running = vec![(member(1), 0), (member(1), 1)];
    let cluster = live(with_gates(&["WorkloadAwarePreemption"], true), preempting(&case));
    assert_eq!((cluster.evicted.len(), places(&cluster, "m").len()), (0, 0), "{:#?}", cluster.log);
    let mut case = gang(&[4, 4, 4], &[4, 2]);
    case.running = vec![(member(2), 0), (member(2), 1), (member(2), 2)];
    let cluster = live(with_gates(&["WorkloadAwarePreemption"], true), preempting(&case));
    assert_eq!((cluster.evicted.len(), places(&cluster, "m").len()), (1, 2), "{:#?}", cluster.log);
}

/// A gang with a constraint makes room in the domain where the least important pods have to go.
#[test]
fn a_gang_makes_room_in_one_domain() {
    for members in [&[3, 3][..], &[3, 2]] {
        let mut case = Case { keeps_to_zone: true, ..gang(&[3, 3, 3, 3], members) };
        for at in 0..4 {
            case.machines[at].zone = at as u64 / 2;
        }
        case.running = (0..4).map(|at| (member(2), at)).collect();
        let mut inputs = preempting(&case);
        // Those of the second zone matter less.
        for (input, priority) in inputs.iter_mut().filter_map(|input| match input {
            Input::PodApplied(pod) if pod.is_assigned() => {
                let priority = if at(pod.node_name.as_ref().unwrap()) < 2 { 2 } else { 1 };
                Some((pod, priority))
            }
            _ => None,
        }) {
            Arc::make_mut(&mut Arc::make_mut(input).spec).priority = Some(priority);
        }
        let cluster = live(with_gates(&["WorkloadAwarePreemption"], true), inputs.clone());
        assert_eq!(cluster.evicted, ["r2", "r3"], "{:#?}", cluster.log);
        let nodes: BTreeSet<usize> = places(&cluster, "m").into_values().collect();
        assert_eq!(nodes, BTreeSet::from([2, 3]), "{:#?}", cluster.log);
    }
}

/// Members that run count, and the others go to their domain; what a member was nominated to keeps no room from the others.
#[test]
fn members_that_run_or_are_nominated_are_part_of_the_plan() {
    let mut case = Case { keeps_to_zone: true, min_count: 3, ..gang(&[9, 4, 2], &[2, 4]) };
    case.machines[1].zone = 1;
    case.machines[2].zone = 1;
    let mut inputs = case.inputs();
    let mut running = member(0).json("r9", Some("n1".to_owned()), Some("g"));
    running["spec"]["containers"][0]["resources"] = json!({});
    inputs.push(pod_applied(&running));
    // Nominated to the only node on which the other one fits.
    for input in &mut inputs {
        if let Input::PodApplied(pod) = input
            && *pod.name == *"m0"
        {
            let pod = Arc::make_mut(pod);
            Arc::make_mut(&mut pod.status).nominated_node_name = Some("n1".into());
        }
    }
    let cluster = live(exact(), inputs);
    let placed = places(&cluster, "m");
    assert_eq!(placed, BTreeMap::from([(0, 2), (1, 1)]), "{:#?}", cluster.log);
    // Without the one that runs, three are too many for two.
    let cluster = live(exact(), case.inputs());
    assert_eq!(places(&cluster, "m"), BTreeMap::new());
}

/// Pods have the priority zero, and their group a higher one: they are no victims of their own group, which would have to evict
/// one after the other without end.
#[test]
fn a_gang_does_not_evict_its_own_members() {
    for has_stranger in [false, true] {
        let mut case = gang(&[2 + u64::from(has_stranger)], &[1]);
        case.min_count = 2;
        case.running = has_stranger.then(|| (member(1), 0)).into_iter().collect();
        let mut inputs = case.inputs();
        for name in ["m8", "m9"] {
            let running = member(1).json(name, Some("n0".to_owned()), Some("g"));
            inputs.push(pod_applied(&running));
        }
        for input in &mut inputs {
            if let Input::ObjectApplied(group) = input {
                Arc::make_mut(group).set_field(&["spec", "priority"], json!(10).into());
            }
        }
        let cluster = live(with_gates(&["WorkloadAwarePreemption"], true), inputs);
        let expected: &[&str] = if has_stranger { &["r0"] } else { &[] };
        assert_eq!(cluster.evicted, expected, "{:#?}", cluster.log);
        let n_running = 2 + usize::from(has_stranger);
        assert_eq!(places(&cluster, "m").len(), n_running, "{:#?}", cluster.log);
    }
}

/// A gang of four kinds that greedy placing cannot bring under on the first nodes, where a search takes more than `base` allows;
/// on the last one there is room for all once its pod is gone.
fn hard_to_place(blocker: i32) -> Vec<Input> {
    let mut case = gang(&[5, 4, 3, 2, 40, 1], &[2, 3, 4, 5]);
    case.running = vec![(member(40), 4), (member(1), 5)];
    let mut inputs = preempting(&case);
    for input in &mut inputs {
        if let Input::PodApplied(pod) = input
            && *pod.name == *"r0"
        {
            Arc::make_mut(&mut Arc::make_mut(pod).spec).priority = Some(blocker);
        }
    }
    inputs
}

const LITTLE: WorkLimits = WorkLimits { base: 600, per_node: 0, refill_per_second: 1_000_000 };

/// A first search that ends at its limit leaves preemption work of its own: once the pod is gone, no search is needed.
#[test]
fn a_gang_makes_room_after_a_search_that_ended_at_its_limit() {
    let engine = || with_limits(&["WorkloadAwarePreemption"], true, LITTLE);
    let first = decide(hard_to_place(10), engine());
    assert!(says(&first, "ended at its limit, there may be one"), "{first:#?}");
    let cluster = live(engine(), hard_to_place(0));
    assert_eq!(cluster.evicted, ["r0"], "{:#?}", cluster.log);
    assert_eq!(places(&cluster, "m").len(), 4, "{:#?}", cluster.log);
}

/// Where preemption ends at its limit, too, the gang is refused for the reasons that it had, and holds room.
#[test]
fn a_gang_for_which_preemption_ends_at_its_limit_is_refused_and_holds_room() {
    let mut cluster =
        cluster(with_limits(&["WorkloadAwarePreemption"], true, LITTLE), hard_to_place(10));
    cluster.engine.schedule_next(cluster.now);
    let effects: Vec<String> = cluster.engine.drain_effects().map(|it| it.to_string()).collect();
    let condition = effects.iter().find(|effect| effect.contains("PodGroup x/g")).unwrap();
    for text in
        ["Unschedulable", "cluster: the search for a way to place 4 pods ended at its limit"]
    {
        assert!(condition.contains(text), "{effects:#?}");
    }
    let nominated =
        (0..4).filter(|at| cluster.engine.queue().nomination(&format!("m{at}")).is_some());
    assert_eq!(nominated.count(), 4, "it holds room: {effects:#?}");
}

/// However much of the allowed work the first try leaves for preemption, what that costs is no fault of the gang.
#[test]
fn a_limit_of_preemption_does_not_take_the_place_of_the_reasons() {
    let mut n_ended = 0;
    for base in (20..600).step_by(10) {
        let work = WorkLimits { base, per_node: 0, refill_per_second: 1_000_000 };
        let text = "cluster: the search for a way to place 4 pods ended at its limit";
        let alone = decide(hard_to_place(10), with_limits(&[], true, work));
        let decision =
            decide(hard_to_place(10), with_limits(&["WorkloadAwarePreemption"], true, work));
        assert_eq!(says(&alone, text), says(&decision, text), "{base}: {decision:#?}");
        let ends = says(&decision, "too expensive") || says(&decision, "preemption ended");
        n_ended += u64::from(says(&decision, text) && ends);
    }
    assert!(n_ended > 0);
}

/// The largest number of small members beside so many large ones on nodes that may hold either.
fn most_small(machines: &[u64], (large, n_large): (u64, u64), small: u64) -> Option<u64> {
    let n = usize::try_from(n_large).unwrap();
    let mut most: Vec<Option<u64>> = vec![None; n + 1];
    most[0] = Some(0);
    for cpu in machines {
        let mut next = vec![None; n + 1];
        for (placed, small_before) in most.iter().enumerate() {
            let Some(small_before) = small_before else { continue };
            for more in 0..=(cpu / large).min((n - placed) as u64) {
                let at = placed + usize::try_from(more).unwrap();
                let now = small_before + (cpu - more * large) / small;
                next[at] = next[at].max(Some(now));
            }
        }
        most = next;
    }
    most[n]
}

const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// The members of the gang as those of an indexed Job.
fn numbered(inputs: Vec<Input>) -> Vec<Input> {
    let inputs = inputs.into_iter().enumerate().map(|(n, input)| match input {
        Input::PodApplied(pod) if pod.spec.pod_group.is_some() => {
            let given = pod.labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
            let labels = given.chain([(INDEX.to_owned(), n.to_string())]).collect();
            Input::PodApplied(Arc::new(Pod { labels, ..Pod::clone(&pod) }))
        }
        other => other,
    });
    inputs.collect()
}

/// On more than a hundred nodes, compared with what can be computed for two kinds of members. It is no harder if they have
/// numbers.
#[test]
fn gangs_of_two_kinds_are_placed_on_many_nodes_whenever_there_is_a_way() {
    let (mut n_placed, mut n_refused, mut n_given_up) = (0, 0, 0);
    for seed in 0..20 {
        let mut numbers = Numbers::new(seed);
        let n_nodes = 100 + numbers.below(60);
        let machines: Vec<u64> = (0..n_nodes).map(|_| 2 + numbers.below(7)).collect();
        let (small, large) = (2, 3 + numbers.below(3));
        let n_large = n_nodes / 4 + numbers.below(n_nodes / 2);
        let most = most_small(&machines, (large, n_large), small);
        // Some that there is room for, almost as many or just as many, or one too many.
        let n_small =
            most.map_or(1, |most| (most + 1).saturating_sub(numbers.below(4) * 3).min(300));
        let is_satisfiable = most.is_some_and(|most| n_small <= most);
        let of = |cpu: u64, n: u64| std::iter::repeat_n(cpu, usize::try_from(n).unwrap());
        let members: Vec<u64> = of(small, n_small).chain(of(large, n_large)).collect();
        let mut case = gang(&machines, &members);
        case.machines.iter_mut().for_each(|machine| machine.max_pods = 100);
        let decision = decide(case.inputs(), exact());
        let is_given_up = says(&decision, "ended at its limit, there may be one");
        if is_given_up {
            n_given_up += 1;
            continue;
        }
        assert_eq!(
            decision.placed.len() == members.len(),
            is_satisfiable,
            "seed {seed}: {machines:?} {members:?}"
        );
        if seed < 5 {
            let of_jobs = decide(numbered(case.inputs()), exact());
            assert_eq!(of_jobs.placed, decision.placed, "seed {seed}, numbered");
        }
        n_placed += u64::from(is_satisfiable);
        n_refused += u64::from(!is_satisfiable);
    }
    let counts = format!("{n_placed} placed, {n_refused} refused, {n_given_up} given up");
    assert!(n_placed > 5 && n_refused > 0 && n_given_up < 10, "{counts}");
}

/// Keeps something while a gang is planned, and counts how often it is asked.
struct Keeper(Arc<AtomicUsize>);

/// What it keeps.
#[derive(Clone)]
struct Kept {
    _token: Arc<AtomicUsize>,
}

impl Plugin for Keeper {
    fn name(&self) -> &str {
        "Keeper"
    }

    extension_points!(Filter, Reserve, PlacementBound);
}

impl Filter for Keeper {
    fn filter(&self, _: &Context<'_>, _: &CycleState, _: &Pod, _: &NodeView<'_>) -> Status {
        Status::SUCCESS
    }
}

/// Because of this, the states of members are kept until they are bound.
impl Reserve for Keeper {
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

impl PlacementBound for Keeper {
    fn rules_out(&self, _: &Context<'_>, demand: GroupDemand<'_>) -> Option<String> {
        self.0.fetch_add(1, Ordering::Relaxed);
        demand.shared.with(|it| it.insert(Kept { _token: self.0.clone() }));
        None
    }
}

#[test]
fn what_plugins_keep_while_a_gang_is_planned_is_gone_before_it_is_bound() {
    let n_asked = Arc::new(AtomicUsize::new(0));
    let of_plugin = n_asked.clone();
    let mut registry = kube_scheduler_plugins_intree::registry();
    registry.register("Keeper", move |_, _| Ok(Arc::new(Keeper(of_plugin.clone())))).unwrap();
    let plugins = json!({"multiPoint": {"enabled": [{"name": "Keeper"}]}});
    let profiles = json!([{"schedulerName": "default-scheduler", "plugins": plugins}]);
    let (gates, rest) = (gates(GANG_GATES), EngineOptions::default());
    let options = EngineOptions { gates, plans_gangs_exactly: true, ..rest };
    let mut engine = fixtures::engine_with(&profiles, &registry, options);
    let n_before = Arc::strong_count(&n_asked);
    let decision = decide_in(gang(&[8], &[1, 1]).inputs(), &mut engine);
    assert_eq!(decision.placed.len(), 2, "{decision:#?}");
    assert!(n_asked.load(Ordering::Relaxed) > 0);
    assert_eq!(Arc::strong_count(&n_asked), n_before);
}

/// Without InterPodAffinity, and without default constraints of PodTopologySpread, no signature has the labels of the first two
/// members, but it matters to the third one which of them is on the other node.
#[test]
fn members_with_different_labels_are_not_alike() {
    tell_members_apart_by("app");
}

/// Nor are they if only labels that number them differ, and one of them counts pods by such a label.
#[test]
fn members_with_numbers_that_another_one_looks_at_are_not_alike() {
    tell_members_apart_by(INDEX);
}

fn tell_members_apart_by(key: &str) {
    let spread = json!({
        "maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule", "nodeAffinityPolicy": "Ignore",
        "labelSelector": {"matchLabels": {key: "counted"}},
    });
    let inputs = [
        "node n0 cpu=3 pods=9",
        "node n1 cpu=8 pods=1",
        &format!("pod r0 cpu=1 label:{key}=counted node=n0"),
        "podgroup g min=3",
        &format!("pod m0 cpu=1 label:{key}=other group=g"),
        &format!("pod m1 cpu=1 label:{key}=counted group=g"),
        &format!("pod m2 cpu=1 label:{key}=counted group=g selector:{HOSTNAME}=n0 spread={spread}"),
    ];
    let inputs: Vec<Input> = inputs.into_iter().map(applied).collect();
    let plugins = json!({"multiPoint": {"disabled": [{"name": "InterPodAffinity"}]}});
    let spreading = json!({"name": "PodTopologySpread", "args": {"defaultingType": "List"}});
    let profiles = json!([
        {"schedulerName": "default-scheduler", "plugins": plugins, "pluginConfig": [spreading]},
    ]);
    let decide_as = |plans_gangs_exactly: bool| {
        let (gates, rest) = (gates(GANG_GATES), EngineOptions::default());
        let options = EngineOptions { gates, plans_gangs_exactly, ..rest };
        let registry = kube_scheduler_plugins_intree::registry();
        decide(inputs.clone(), fixtures::engine_with(&profiles, &registry, options))
    };
    // The first one takes the larger node, where there is room for one.
    let greedy = decide_as(false);
    assert_eq!(greedy.placed, [], "{greedy:#?}");
    let decision = decide_as(true);
    let places: BTreeMap<usize, usize> = decision.placed.iter().copied().collect();
    assert_eq!(places, BTreeMap::from([(0, 0), (1, 1), (2, 0)]), "{decision:#?}");
}
