//! Pod groups while everything goes wrong that can: watches lag behind, bindings are refused, get lost or arrive late, and the
//! scheduler ends half-way and another one takes over; meanwhile nodes, groups and members come and go in any order, and groups
//! ask for more or fewer pods. Some groups matter more and evict others, and evictions fail in the same ways; in some clusters groups
//! are those of scheduler-plugins. In the end, with all faults gone, no gang is left half-bound that could be completed, and no pod
//! waits that would fit (`docs/groups.md`, "What happens when the scheduler ends half-way").
//!
//! Invariants: everything is a function of the seed. A scheduler knows only what was reported to it; what the API server has is kept
//! beside it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::{Node, Object, Pod, Timestamp};
use kube_scheduler_cache::check;
use kube_scheduler_engine::{Effect, Engine, EngineOptions, EvictionOutcome, Input, PodRef, Token};
use kube_scheduler_framework::{ApiError, testing};
use kube_scheduler_tests::fixtures::{engine_with, gates};
use kube_scheduler_tests::history::Numbers;
use kube_scheduler_tests::live_cluster::quorum_fault;
use kube_scheduler_tests::questioner::{Questioner, WaitingQuestion};
use serde_json::json;

/// How many seeds the tests try, and how many steps each has. `KUBE_SCHEDULER_GROUP_SEEDS` sets another number of seeds.
const N_SEEDS: u64 = 200;
const N_STEPS: u64 = 120;
/// How many seeds are tried with questions and without.
const N_ASKED_SEEDS: u64 = 18;
/// How often a question comes, in inputs and decisions.
const ASKED_ONCE_IN: u64 = 3;

const N_GROUPS: u64 = 4;
const N_PODS: u64 = 24;
const N_NODES: u64 = 5;
/// What most pods ask for.
const POD_MILLIS: u64 = 600;
/// The group whose pods ask for twice as much.
const LARGE: u64 = 0;
/// The group that matters more than others, with its pods; and the one that does without its pods.
const IMPORTANT: u64 = 1;
const IMPORTANT_ALONE: u64 = 2;
const PRIORITY: i32 = 10;

/// The word for pods in groups of scheduler-plugins, before the group.
const LABEL: &str = "label:scheduling.x-k8s.io/pod-group=";

const NAMESPACE: &str = "x";

/// A group as the API server has it.
#[derive(Clone, Debug)]
struct Group {
    /// `None` if its pods do not wait for each other.
    min_count: Option<usize>,
    is_in_one_zone: bool,
    object: Arc<Object>,
}

/// The API server, and a scheduler that follows it.
struct FaultyCluster {
    seed: u64,
    numbers: Numbers,
    engine: Engine,
    now: Timestamp,
    kind: Kind,
    n_made: u64,
    nodes: BTreeMap<u64, Arc<Node>>,
    groups: BTreeMap<u64, Group>,
    pods: BTreeMap<u64, Arc<Pod>>,
    /// What has not been reported to the scheduler yet.
    unseen: VecDeque<Input>,
    /// Bindings that are still on their way to the server, also when the one who sent them is gone.
    late: Vec<(PodRef, Arc<str>)>,
    /// Pods that are being deleted, and evictions that are still on their way, by number and UID.
    going: Vec<(u64, Arc<str>)>,
    n_evicted: u64,
    /// How often another scheduler took over while preemptions were under way.
    n_half_evicted: u64,
    /// Answers that the scheduler still waits for.
    unanswered: Vec<(Token, Result<(), ApiError>)>,
    unanswered_evictions: Vec<(Token, Result<EvictionOutcome, ApiError>)>,
    is_calm: bool,
    n_bound: u64,
    /// How often fewer pods of a group became enough.
    n_lowered: u64,
    trace: Vec<String>,
    questioner: Option<Questioner>,
    /// Copies that were made for questions and wait to be asked.
    waiting: Vec<WaitingQuestion>,
}

fn zone(node: u64) -> u64 {
    node % 2
}

fn millis(node: u64) -> u64 {
    600 * (1 + node % 4)
}

fn group_name(group: u64) -> String {
    format!("g{group}")
}

fn pod_number(name: &str) -> u64 {
    name.trim_start_matches('p').parse().unwrap()
}

/// The group of a pod; every fifth has none.
fn group_of(pod: u64) -> Option<u64> {
    let group = pod % (N_GROUPS + 1);
    (group < N_GROUPS).then_some(group)
}

/// What kind of cluster it is.
#[derive(Clone, Copy, Debug)]
struct Kind {
    has_topology: bool,
    /// Whether gangs are planned as a whole.
    is_exact: bool,
    /// Whether pods and groups matter differently, so that some are evicted.
    has_priorities: bool,
    /// Whether groups make room as groups.
    preempts_for_groups: bool,
    /// Whether the groups are those of scheduler-plugins.
    is_foreign: bool,
}

impl Kind {
    fn of(seed: u64, has_topology: bool) -> Self {
        let is_foreign = seed % 5 == 4;
        Self {
            has_topology: has_topology && !is_foreign,
            is_exact: seed % 3 == 2,
            has_priorities: seed % 4 >= 1,
            preempts_for_groups: seed % 4 >= 2,
            is_foreign,
        }
    }

    fn engine(self) -> Engine {
        let mut on = Vec::new();
        if !self.is_foreign {
            on.extend(["GenericWorkload", "GangScheduling"]);
            on.extend(self.has_topology.then_some("TopologyAwareWorkloadScheduling"));
            on.extend(self.preempts_for_groups.then_some("WorkloadAwarePreemption"));
        }
        let mut profiles = json!(null);
        if self.is_foreign {
            let plugin = json!([{"name": "Coscheduling"}]);
            let queue_sort = json!({"enabled": plugin, "disabled": [{"name": "*"}]});
            let plugins = json!({"multiPoint": {"enabled": plugin}, "queueSort": queue_sort});
            profiles = json!([{"schedulerName": "default-scheduler", "plugins": plugins}]);
        }
        // Room is held in vain here: no pod ends once all is calm.
        let longest_hold = Duration::from_secs(60);
        let (gates, plans_gangs_exactly) = (gates(on), self.is_exact);
        let options =
            EngineOptions { gates, plans_gangs_exactly, longest_hold, ..EngineOptions::default() };
        engine_with(&profiles, &kube_scheduler_plugins_intree::registry(), options)
    }

    fn priority_of_group(self, group: Option<u64>) -> i32 {
        let matters = [Some(IMPORTANT), Some(IMPORTANT_ALONE)].contains(&group);
        if self.has_priorities && matters { PRIORITY } else { 0 }
    }

    fn priority_of_pod(self, group: Option<u64>) -> i32 {
        if group == Some(IMPORTANT) { self.priority_of_group(group) } else { 0 }
    }
}

/// What a pod of the group, or of none, asks for.
fn size(group: Option<u64>) -> u64 {
    if group == Some(LARGE) { 2 * POD_MILLIS } else { POD_MILLIS }
}

impl FaultyCluster {
    fn new(seed: u64) -> Self {
        let mut numbers = Numbers::new(seed);
        let kind = Kind::of(seed, numbers.one_in(2));
        Self {
            seed,
            numbers,
            engine: kind.engine(),
            now: Timestamp::from_millis(1_000_000),
            kind,
            n_made: 0,
            nodes: BTreeMap::new(),
            groups: BTreeMap::new(),
            pods: BTreeMap::new(),
            unseen: VecDeque::new(),
            late: Vec::new(),
            going: Vec::new(),
            n_evicted: 0,
            n_half_evicted: 0,
            unanswered: Vec::new(),
            unanswered_evictions: Vec::new(),
            is_calm: false,
            n_bound: 0,
            n_lowered: 0,
            trace: Vec::new(),
            questioner: None,
            waiting: Vec::new(),
        }
    }

    fn next_uid(&mut self) -> String {
        self.n_made += 1;
        format!("uid-{}", self.n_made)
    }

    fn handle(&mut self, input: Input) {
        self.engine.handle(input, self.now);
        self.ask();
        self.carry_out();
    }

    /// Asks the scheduler something now and then, if this cluster has questions.
    fn ask(&mut self) {
        let Some(questioner) = self.questioner.as_mut() else { return };
        if !questioner.comes(ASKED_ONCE_IN) {
            return;
        }
        self.waiting.extend(questioner.ask(&self.engine, self.now).unwrap());
        if self.waiting.len() > 4 {
            self.answer_waiting();
        }
    }

    fn answer_waiting(&mut self) {
        for waiting in self.waiting.drain(..) {
            waiting.answer().unwrap();
        }
    }

    /// Something has changed: it is reported to the scheduler, now or later.
    fn changed(&mut self, input: Input) {
        self.unseen.push_back(input);
        if self.is_calm || !self.numbers.one_in(3) {
            self.see_all();
        }
    }

    fn see_all(&mut self) {
        while let Some(input) = self.unseen.pop_front() {
            self.handle(input);
        }
    }

    fn carry_out(&mut self) {
        loop {
            let effects: Vec<Effect> = self.engine.drain_effects().collect();
            if effects.is_empty() {
                return;
            }
            for effect in &effects {
                if let Effect::WriteBinding { pod, .. } = effect {
                    assert_eq!(quorum_fault(&self.engine, pod), None, "seed {}", self.seed);
                }
            }
            for effect in effects {
                self.trace.push(effect.to_string());
                match effect {
                    Effect::WriteBinding { token, pod, node } => self.binding(token, pod, node),
                    Effect::ClearNomination { token, .. } => {
                        let answer = Input::NominationCleared { token, result: Ok(()) };
                        self.engine.handle(answer, self.now);
                    }
                    Effect::EvictPod { token, pod, .. } => self.eviction(token, &pod),
                    _ => {}
                }
            }
        }
    }

    /// A binding is carried out, refused, lost, or on its way for a while; the answer may take as long, or never come.
    fn binding(&mut self, token: Token, pod: PodRef, node: Arc<str>) {
        let no_answer = || Err(ApiError::new("", "timed out"));
        let fate = if self.is_calm { 9 } else { self.numbers.below(10) };
        self.trace.push(format!("binding {pod} to {node}: fate {fate}"));
        let result = match fate {
            0 => Err(ApiError { code: Some(500), ..ApiError::new("InternalError", "no") }),
            1 => no_answer(),
            2 => {
                self.late.push((pod, node));
                no_answer()
            }
            3 => {
                self.bind(&pod, &node).ok();
                no_answer()
            }
            _ => self.bind(&pod, &node),
        };
        if fate == 4 || fate == 5 {
            self.unanswered.push((token, result));
        } else {
            self.engine.handle(Input::BindingWritten { token, result }, self.now);
        }
    }

    /// An eviction is carried out at once, in two steps or later, refused or lost; the answer may be lost, too.
    fn eviction(&mut self, token: Token, pod: &PodRef) {
        assert!(self.kind.has_priorities, "{}: {pod} is evicted", self.seed);
        let number = pod_number(&pod.name);
        let is_there = self.pods.get(&number).is_some_and(|known| known.uid == pod.uid);
        let fate = if self.is_calm { 9 } else { self.numbers.below(10) };
        self.trace.push(format!("eviction of {pod}: fate {fate}"));
        let no_answer = || Err(ApiError::new("", "timed out"));
        let result = match fate {
            0 => Err(ApiError { code: Some(500), ..ApiError::new("InternalError", "no") }),
            1 => no_answer(),
            _ if !is_there => Ok(EvictionOutcome::AlreadyGone),
            2 | 3 => {
                self.going.push((number, pod.uid.clone()));
                no_answer()
            }
            4 => {
                self.delete(number);
                no_answer()
            }
            5 | 6 => {
                let mut leaving = Pod::clone(&self.pods[&number]);
                leaving.deletion_requested = Some(self.now);
                let leaving = Arc::new(leaving);
                self.pods.insert(number, leaving.clone());
                self.unseen.push_back(Input::PodApplied(leaving));
                self.going.push((number, pod.uid.clone()));
                Ok(EvictionOutcome::Deleted)
            }
            _ => {
                self.delete(number);
                Ok(EvictionOutcome::Deleted)
            }
        };
        self.n_evicted += u64::from(result.is_ok());
        if !self.is_calm && self.numbers.one_in(3) {
            self.unanswered_evictions.push((token, result));
        } else {
            self.engine.handle(Input::PodEvicted { token, result }, self.now);
        }
    }

    /// A pod is gone, and that is going to be reported.
    fn delete(&mut self, number: u64) {
        if let Some(pod) = self.pods.remove(&number) {
            let (namespace, name) = (pod.namespace.clone(), pod.name.clone());
            self.unseen.push_back(Input::PodDeleted { namespace, name });
        }
    }

    /// The API server takes a binding over, if the pod is still the same and has no node.
    fn bind(&mut self, pod: &PodRef, node: &Arc<str>) -> Result<(), ApiError> {
        let number = pod_number(&pod.name);
        let known = self.pods.get(&number).filter(|known| known.uid == pod.uid);
        let Some(known) = known else {
            return Err(ApiError { code: Some(404), ..ApiError::new("NotFound", "gone") });
        };
        if known.is_assigned() {
            return Err(ApiError { code: Some(409), ..ApiError::new("Conflict", "bound") });
        }
        let bound = Arc::new(known.with_node_name(node));
        self.pods.insert(number, bound.clone());
        self.n_bound += 1;
        self.unseen.push_back(Input::PodApplied(bound));
        Ok(())
    }

    /// Makes a group, or changes how many pods of it are needed.
    fn put_group(&mut self) {
        let group = self.numbers.below(N_GROUPS);
        let is_basic = group == 3 && !self.kind.is_foreign;
        let min_count = (!is_basic).then(|| 2 + usize::try_from(self.numbers.below(3)).unwrap());
        let known = self.groups.get(&group);
        let uid = known.map(|group| group.object.uid.to_string());
        if known.is_some_and(|known| known.min_count == min_count) {
            return;
        }
        if let Some(before) = known.and_then(|known| known.min_count) {
            self.n_lowered += u64::from(min_count.is_some_and(|min_count| min_count < before));
            self.trace.push(format!("group g{group}: {before} to {min_count:?}"));
        }
        let uid = uid.unwrap_or_else(|| self.next_uid());
        self.apply_group(group, min_count, &uid);
    }

    fn apply_group(&mut self, group: u64, min_count: Option<usize>, uid: &str) {
        let is_in_one_zone = group == 2 && !self.kind.is_foreign;
        let (name, priority) = (group_name(group), self.kind.priority_of_group(Some(group)));
        let text = if self.kind.is_foreign {
            let foreign = json!({
                "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
                "metadata": {"namespace": NAMESPACE, "name": name, "uid": uid}, "spec": {"minMember": min_count},
            });
            format!("object {foreign}")
        } else {
            let min = min_count.map(|n| format!("min={n}")).unwrap_or_default();
            let topology = if is_in_one_zone { "topology=zone" } else { "" };
            format!("podgroup {NAMESPACE}/{name} uid={uid} priority={priority} {min} {topology}")
        };
        let object = testing::object(&text).build();
        self.groups.insert(group, Group { min_count, is_in_one_zone, object: object.clone() });
        self.changed(Input::ObjectApplied(object));
    }

    /// A gang asks for one more.
    fn raise_min_count(&mut self) {
        let group = self.numbers.below(N_GROUPS);
        let Some(Group { min_count: Some(min_count), object, .. }) = self.groups.get(&group) else {
            return;
        };
        let (more, uid) = (min_count + 1, object.uid.clone());
        self.apply_group(group, Some(more), &uid);
    }

    fn remove_group(&mut self) {
        let group = self.numbers.below(N_GROUPS);
        if let Some(group) = self.groups.remove(&group) {
            self.changed(Input::ObjectDeleted(group.object));
        }
    }

    fn put_pod(&mut self) {
        let number = self.numbers.below(N_PODS);
        if self.pods.contains_key(&number) {
            return;
        }
        let group = group_of(number);
        let word = if self.kind.is_foreign { LABEL } else { "group=" };
        let of_group =
            group.map(|group| format!("{word}{}", group_name(group))).unwrap_or_default();
        let (uid, priority) = (self.next_uid(), self.kind.priority_of_pod(group));
        let words = format!("uid={uid} cpu={}m priority={priority} {of_group}", size(group));
        let pod = testing::pod(&format!("{NAMESPACE}/p{number} {words}")).build();
        self.pods.insert(number, pod.clone());
        self.changed(Input::PodApplied(pod));
    }

    fn remove_pod(&mut self) {
        let number = self.numbers.below(N_PODS);
        if let Some(pod) = self.pods.remove(&number) {
            let (namespace, name) = (pod.namespace.clone(), pod.name.clone());
            self.changed(Input::PodDeleted { namespace, name });
        }
    }

    fn put_node(&mut self) {
        let number = self.numbers.below(N_NODES);
        let (cpu, zone) = (millis(number), zone(number));
        let node = testing::node(&format!("n{number} cpu={cpu}m pods=10 zone=z{zone}")).build();
        self.nodes.insert(number, node.clone());
        self.changed(Input::NodeApplied(node));
    }

    fn remove_node(&mut self) {
        let number = self.numbers.below(N_NODES);
        if self.nodes.remove(&number).is_some() {
            self.changed(Input::NodeDeleted { name: format!("n{number}").into() });
        }
    }

    /// The scheduler ends without notice, and another one takes over with what the API server has.
    fn crash(&mut self) {
        self.trace.push("take-over".to_owned());
        self.n_half_evicted += u64::from(self.engine.n_preempting() > 0);
        self.engine = self.kind.engine();
        self.unseen.clear();
        self.unanswered.clear();
        self.unanswered_evictions.clear();
        let nodes = self.nodes.values().cloned().map(Input::NodeApplied);
        let groups = self.groups.values().map(|group| Input::ObjectApplied(group.object.clone()));
        let pods = self.pods.values().cloned().map(Input::PodApplied);
        // Lists of different kinds come in any order.
        let all: Vec<Input> = if self.numbers.one_in(2) {
            nodes.chain(groups).chain(pods).collect()
        } else {
            pods.chain(groups).chain(nodes).collect()
        };
        all.into_iter().for_each(|input| self.handle(input));
    }

    fn arrive(&mut self) {
        for (pod, node) in std::mem::take(&mut self.late) {
            let result = self.bind(&pod, &node);
            self.trace.push(format!("late binding of {pod}: {result:?}"));
        }
        for (number, uid) in std::mem::take(&mut self.going) {
            if self.pods.get(&number).is_some_and(|pod| pod.uid == uid) {
                self.trace.push(format!("p{number} is gone"));
                self.delete(number);
            }
        }
    }

    fn answer(&mut self) {
        for (token, result) in std::mem::take(&mut self.unanswered) {
            self.handle(Input::BindingWritten { token, result });
        }
        for (token, result) in std::mem::take(&mut self.unanswered_evictions) {
            self.handle(Input::PodEvicted { token, result });
        }
    }

    fn wait(&mut self, seconds: u64) {
        self.now = self.now + Duration::from_secs(seconds);
        self.handle(Input::TimePassed);
    }

    fn turn(&mut self) -> bool {
        let is_busy = self.engine.schedule_next(self.now).is_some();
        self.ask();
        let differences = check(self.engine.cluster());
        assert!(differences.is_empty(), "seed {}: {differences:?}", self.seed);
        self.carry_out();
        is_busy
    }

    fn step(&mut self) {
        match self.numbers.below(42) {
            0..3 => self.put_group(),
            3 => self.remove_group(),
            4..14 => self.put_pod(),
            14..16 => self.remove_pod(),
            16..19 => self.put_node(),
            19 => self.remove_node(),
            20 => self.crash(),
            21 => self.arrive(),
            22..24 => self.answer(),
            24..27 => self.see_all(),
            27..30 => {
                let seconds = self.numbers.below(100);
                self.wait(seconds);
            }
            30 => self.raise_min_count(),
            _ => drop(self.turn()),
        }
    }

    /// No more faults, and as much time as it takes.
    fn settle(&mut self) {
        self.is_calm = true;
        self.arrive();
        self.answer();
        for _ in 0..30 {
            self.see_all();
            self.wait(60);
            // Far more than there are pods: who is tried again at once would never come to an end.
            let n_turns = (0..10 * N_PODS).take_while(|_| self.turn()).count();
            assert!(n_turns < 200, "seed {}: it does not come to rest", self.seed);
        }
        self.see_all();
    }

    /// How many more pods of a group, or of none, fit on the nodes of a zone, or on all. Room that others are nominated to and that do
    /// not matter less is theirs.
    fn room(&self, group: Option<u64>, only: Option<u64>) -> usize {
        let priority = self.kind.priority_of_pod(group);
        let nodes = self.nodes.keys().filter(|node| only.is_none_or(|only| zone(**node) == only));
        let room = nodes.map(|node| {
            let name = format!("n{node}");
            let takes = |(number, pod): &(&u64, &Arc<Pod>)| match pod.node_name.as_deref() {
                Some(on) => *on == *name,
                None => {
                    let (other, nominated) =
                        (group_of(**number), self.engine.queue().nomination(&pod.uid));
                    other != group
                        && nominated == Some(&*name)
                        && self.kind.priority_of_pod(other) >= priority
                }
            };
            let used: u64 =
                self.pods.iter().filter(takes).map(|(number, _)| size(group_of(*number))).sum();
            millis(*node).saturating_sub(used) / size(group)
        });
        usize::try_from(room.sum::<u64>()).unwrap()
    }

    /// How many pods of a group could still be bound; `None` if something else than room is in the way.
    fn room_for(&self, number: u64, group: &Group, members: &[&Arc<Pod>]) -> Option<usize> {
        let room = |zone| self.room(Some(number), zone);
        if !group.is_in_one_zone || !self.kind.has_topology {
            return Some(room(None));
        }
        let mut zones = Vec::new();
        for node in members.iter().filter_map(|pod| pod.node_name.as_deref()) {
            let node = node.trim_start_matches('n').parse().unwrap();
            // A group that stands on a node that is gone has no zone to go to.
            self.nodes.contains_key(&node).then_some(())?;
            zones.push(zone(node));
        }
        zones.sort_unstable();
        zones.dedup();
        match zones[..] {
            [] => Some(room(Some(0)).max(room(Some(1)))),
            [zone] => Some(room(Some(zone))),
            // Late bindings have put its members into several zones.
            _ => None,
        }
    }

    fn check_settled(&self) {
        let Self { seed, trace, .. } = self;
        let in_work = (self.engine.cluster().n_assumed(), self.engine.n_preempting());
        assert_eq!(in_work, (0, 0), "seed {seed}: {trace:#?}");
        let waits = |pod: &&Arc<Pod>| !pod.is_assigned();
        let alone = self.pods.iter().filter(|(number, _)| group_of(**number).is_none());
        let n_alone = alone.map(|(_, pod)| pod).filter(waits).count();
        let room = self.room(None, None);
        assert!(n_alone == 0 || room == 0, "seed {seed}: {n_alone} wait beside room: {trace:#?}");
        for (number, group) in &self.groups {
            let members = self.pods.iter().filter(|(pod, _)| group_of(**pod) == Some(*number));
            let members: Vec<&Arc<Pod>> = members.map(|(_, pod)| pod).collect();
            let n_waiting = members.iter().copied().filter(waits).count();
            let n_bound = members.len() - n_waiting;
            let min_count = group.min_count.unwrap_or(0);
            let Some(room) = self.room_for(*number, group, &members) else { continue };
            let more = room.min(n_waiting);
            let is_blocked = members.len() < min_count;
            assert!(
                is_blocked || more == 0 || n_bound + more < min_count,
                "seed {seed}: group g{number}: {n_bound} bound, {n_waiting} wait, {min_count} wanted, room for {room}, \
                 {:?}: {trace:#?}",
                self.kind
            );
        }
    }
}

fn simulate(seed: u64) -> (u64, Vec<String>) {
    let cluster = live(FaultyCluster::new(seed));
    (cluster.n_bound, cluster.trace)
}

/// How many evictions there were; everything that a cluster has is gone then, and nothing of it is left.
fn clear(mut cluster: FaultyCluster) -> u64 {
    for number in cluster.pods.keys().copied().collect::<Vec<u64>>() {
        cluster.delete(number);
    }
    let groups: Vec<Arc<Object>> =
        cluster.groups.values().map(|group| group.object.clone()).collect();
    groups.into_iter().for_each(|group| cluster.handle(Input::ObjectDeleted(group)));
    for node in cluster.nodes.keys().copied().collect::<Vec<u64>>() {
        cluster.handle(Input::NodeDeleted { name: format!("n{node}").into() });
    }
    cluster.settle();
    for size in cluster.engine.table_sizes() {
        let is_empty = size.n_entries == 0 && size.n_bytes.is_none_or(|n| n == 0);
        assert!(!size.is_bound_to_objects || is_empty, "seed {}: {size:?} is left", cluster.seed);
    }
    cluster.n_evicted
}

fn live(mut cluster: FaultyCluster) -> FaultyCluster {
    for _ in 0..N_STEPS {
        cluster.step();
    }
    cluster.settle();
    cluster.check_settled();
    cluster.answer_waiting();
    cluster
}

/// The seed to begin with: `FIRST_SEED`, or zero.
fn first_seed() -> u64 {
    std::env::var("FIRST_SEED").map_or(0, |text| text.parse().unwrap())
}

/// As many seeds as are wanted, else so many.
fn n_seeds(usual: u64) -> u64 {
    let n_seeds = std::env::var("KUBE_SCHEDULER_GROUP_SEEDS");
    n_seeds.map_or(usual, |text| text.parse().unwrap())
}

#[test]
fn gangs_survive_whatever_happens() {
    let n_seeds = n_seeds(N_SEEDS);
    let (mut n_bound, mut n_lowered, mut n_taken_over, mut n_half_evicted) = (0, 0, 0, 0);
    let mut n_evicted = [0; 3];
    for seed in first_seed()..first_seed() + n_seeds {
        let cluster = live(FaultyCluster::new(seed));
        let Kind { is_exact, preempts_for_groups, .. } = cluster.kind;
        n_bound += cluster.n_bound;
        n_lowered += cluster.n_lowered;
        n_taken_over += cluster.trace.iter().filter(|line| *line == "take-over").count();
        n_half_evicted += cluster.n_half_evicted;
        let n = clear(cluster);
        let kinds = [is_exact && preempts_for_groups, !is_exact && preempts_for_groups];
        for (counted, is_it) in n_evicted.iter_mut().zip(kinds.into_iter().chain([true])) {
            *counted += if is_it { n } else { 0 };
        }
    }
    // It would prove nothing if nothing were ever bound or evicted, or no other scheduler ever took over, also half-way.
    assert!(
        n_bound > 5 * n_seeds && n_lowered > n_seeds && n_taken_over > 0 && n_half_evicted > 0,
        "{n_bound} bound, {n_lowered} times lowered, {n_taken_over} taken over, {n_half_evicted} of them while pods were \
         evicted"
    );
    assert!(n_evicted.iter().all(|n| *n > 0), "{n_evicted:?} evicted");
}

#[test]
fn a_simulation_is_a_function_of_its_seed() {
    assert_eq!(simulate(7), simulate(7));
}

/// Whatever goes wrong, questions of all kinds, about groups and others, change no decision and no effect.
#[test]
fn questions_change_nothing() {
    let (mut n_answered, mut questioners) = (0, Vec::new());
    for seed in 0..n_seeds(N_ASKED_SEEDS) {
        let questioner = Some(Questioner::new(seed));
        let asked = live(FaultyCluster { questioner, ..FaultyCluster::new(seed) });
        n_answered += asked.questioner.as_ref().map_or(0, Questioner::n_answered);
        questioners.extend(asked.questioner);
        assert_eq!((asked.n_bound, asked.trace), simulate(seed), "seed {seed}");
    }
    assert!(n_answered > 30 * N_ASKED_SEEDS, "{n_answered}");
    assert_eq!(Questioner::missing(&questioners), BTreeSet::new(), "never asked about");
}
