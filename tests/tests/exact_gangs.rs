//! Gangs that are planned as a whole (`docs/groups.md`, "Exact mode"): they are placed whenever an exhaustive search over all
//! orders and nodes finds a way, only as a simple model of the rules allows it, and the same way in whatever order pods, nodes
//! and the group arrived.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_api_types::{Node, Object, Pod, Timestamp};
use kube_scheduler_cache::check;
use kube_scheduler_config::{FeatureGates, load};
use kube_scheduler_engine::{
    AttemptResult, Effect, Engine, EngineOptions, Input, Turn, WorkLimits,
};
use kube_scheduler_tests::history::Numbers;
use serde_json::{Value, json};

/// How many random gangs the tests try, and in how many orders each arrives. `KUBE_SCHEDULER_GANGS` and
/// `KUBE_SCHEDULER_ARRIVALS` set other numbers.
const N_GANGS: u64 = 300;
const N_ARRIVALS: u64 = 4;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

fn engine(uses_class_cache: bool, plans_gangs_exactly: bool, work: WorkLimits) -> Engine {
    let mut gates = FeatureGates::default();
    let on = ["GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling"];
    gates.set(&on.into_iter().map(|gate| (gate.to_owned(), true)).collect()).unwrap();
    let text = json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"});
    let config = load(&text.to_string(), &gates).unwrap();
    let options = EngineOptions {
        gates,
        uses_class_cache,
        plans_gangs_exactly,
        work,
        ..EngineOptions::default()
    };
    Engine::new(&config, &kube_scheduler_plugins_intree::registry(), options).unwrap()
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
            inputs.push(Input::NodeApplied(Arc::new(Node::from_value(&node).unwrap())));
        }
        let constraints = self.keeps_to_zone.then(|| json!({"topology": [{"key": "zone"}]}));
        let group = json!({
            "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
            "metadata": {"namespace": "x", "name": "g", "uid": "g"},
            "spec": {
                "schedulingPolicy": {"gang": {"minCount": self.min_count}}, "schedulingConstraints": constraints,
            },
        });
        inputs.push(Input::ObjectApplied(Arc::new(Object::from_value(group).unwrap())));
        for (at, (member, node)) in self.running.iter().enumerate() {
            let pod = member.json(&format!("r{at}"), Some(format!("n{node}")), None);
            inputs.push(Input::PodApplied(Arc::new(Pod::from_value(&pod).unwrap())));
        }
        for (at, member) in self.members.iter().enumerate() {
            let pod = member.json(&format!("m{at}"), None, Some("g"));
            inputs.push(Input::PodApplied(Arc::new(Pod::from_value(&pod).unwrap())));
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
        inputs.push(Input::PodApplied(Arc::new(Pod::from_value(&pod).unwrap())));
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
    let object = |json: Value| Input::ObjectApplied(Arc::new(Object::from_value(json).unwrap()));
    let api = "resource.k8s.io/v1";
    let mut inputs = gang(&[16, 8], &[1, 1]).inputs();
    inputs.retain(|input| !matches!(input, Input::PodApplied(_)));
    inputs.push(object(
        json!({"apiVersion": api, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}),
    ));
    for (node, size) in [("n0", "large"), ("n1", "small")] {
        let device = json!({"name": "gpu", "attributes": {"size": {"string": size}}});
        inputs.push(object(json!({
            "apiVersion": api, "kind": "ResourceSlice", "metadata": {"name": node},
            "spec": {
                "driver": "gpu.example.com", "nodeName": node, "devices": [device],
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            },
        })));
    }
    let large =
        json!({"cel": {"expression": "device.attributes['gpu.example.com'].size == 'large'"}});
    for (at, selectors) in [(0, json!([])), (1, json!([large]))] {
        let name = format!("m{at}");
        let request = json!({"name": "r", "exactly": {"deviceClassName": "gpu", "selectors": selectors,
            "allocationMode": "ExactCount", "count": 1}});
        inputs.push(object(json!({
            "apiVersion": api, "kind": "ResourceClaim", "metadata": {"namespace": "x", "name": name, "uid": name},
            "spec": {"devices": {"requests": [request]}}, "status": {},
        })));
        let mut pod = member(1).json(&name, None, Some("g"));
        pod["spec"]["resourceClaims"] = json!([{"name": "c", "resourceClaimName": name}]);
        inputs.push(Input::PodApplied(Arc::new(Pod::from_value(&pod).unwrap())));
    }
    let greedy = decide(inputs.clone(), engine(true, false, WorkLimits::default()));
    assert_eq!(greedy.placed, [], "{greedy:#?}");
    let decision = decide(inputs, exact());
    let places: BTreeMap<usize, usize> = decision.placed.iter().copied().collect();
    assert_eq!(places, BTreeMap::from([(0, 1), (1, 0)]), "{decision:#?}");
}
