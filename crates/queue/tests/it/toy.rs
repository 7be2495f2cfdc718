//! What is around a queue in tests: pods, objects, and a policy whose gates and hints are data.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::rc::Rc;

use kube_scheduler_primitives::Timestamp;
use kube_scheduler_queue::{
    ClusterEvent, EventLabel, HintId, HintObject, Place, PreEnqueueVerdict, ProfileId, ProfileSpec,
    QueueEntry, QueueName, QueuePolicy, QueueSettings, QueuedPod, QueueingHint, RejectorId,
    SchedulingQueue, Signature, Topics,
};

/// What the policy says of a pod with this shape under a profile.
pub(crate) fn signature_of(shape: u32, profile: usize) -> Signature {
    let number = |n: u64| NonZeroU64::MIN.saturating_add(n);
    let strict = number(u64::from(shape) * 100 + profile as u64);
    Signature { strict, loose: number(profile as u64) }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodState {
    pub(crate) uid: String,
    pub(crate) name: String,
    pub(crate) scheduler: String,
    pub(crate) priority: i32,
    pub(crate) nominated: String,
    pub(crate) is_assigned: bool,
    pub(crate) is_group_member: bool,
    /// Names of the PreEnqueue plugins that hold it.
    pub(crate) gates: BTreeSet<String>,
    /// Something for hints to look at.
    pub(crate) shape: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pod(pub(crate) Rc<PodState>);

impl Pod {
    pub(crate) fn new(name: &str) -> Self {
        Self(Rc::new(PodState {
            uid: format!("{name}-uid"),
            name: name.to_owned(),
            scheduler: "s".to_owned(),
            priority: 0,
            nominated: String::new(),
            is_assigned: false,
            is_group_member: false,
            gates: BTreeSet::new(),
            shape: 0,
        }))
    }

    pub(crate) fn with(&self, change: impl FnOnce(&mut PodState)) -> Self {
        let mut state = (*self.0).clone();
        change(&mut state);
        Self(Rc::new(state))
    }

    pub(crate) fn priority(&self, priority: i32) -> Self {
        self.with(|pod| pod.priority = priority)
    }

    pub(crate) fn gated_by(&self, gates: &[&str]) -> Self {
        self.with(|pod| pod.gates = gates.iter().map(|&gate| gate.to_owned()).collect())
    }

    pub(crate) fn nominated(&self, node: &str) -> Self {
        self.with(|pod| pod.nominated = node.to_owned())
    }
}

impl QueueEntry for Pod {
    fn uid(&self) -> &str {
        &self.0.uid
    }

    fn namespace(&self) -> &str {
        "ns"
    }

    fn name(&self) -> &str {
        &self.0.name
    }

    fn scheduler_name(&self) -> &str {
        &self.0.scheduler
    }

    fn nominated_node_name(&self) -> Option<&str> {
        Some(&self.0.nominated)
    }

    fn is_assigned(&self) -> bool {
        self.0.is_assigned
    }

    fn is_group_member(&self) -> bool {
        self.0.is_group_member
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Object {
    Pod(Pod),
    /// Anything else, with something for hints to look at.
    Thing(u32),
}

impl HintObject<Pod> for Object {
    fn from_entry(entry: &Pod) -> Self {
        Self::Pod(entry.clone())
    }

    fn is_pod(&self, uid: &str) -> bool {
        matches!(self, Self::Pod(pod) if pod.0.uid == uid)
    }
}

pub(crate) type Hint = fn(&Pod, Option<&Object>, Option<&Object>) -> QueueingHint;

/// What a pod waits for, and what an event is about, for a hint.
pub(crate) struct HintTopics {
    pub(crate) of_pod: fn(HintId, &Pod) -> Option<Topics>,
    pub(crate) of_event: fn(HintId, Option<&Object>, Option<&Object>) -> Topics,
}

/// Gates and hints as data, and a log of who was asked.
#[derive(Default)]
pub(crate) struct Policy {
    pub(crate) plugins: BTreeMap<RejectorId, String>,
    pub(crate) hints: Vec<Hint>,
    pub(crate) topics: Option<HintTopics>,
    pub(crate) has_sort_keys: bool,
    /// The pods whose sort keys were asked for, by name.
    pub(crate) keyed: RefCell<Vec<String>>,
    /// PreEnqueue plugins that hold every pod.
    pub(crate) closed: BTreeSet<String>,
    /// Pods that the informer does not know, by name.
    pub(crate) unknown: BTreeSet<String>,
    /// Pods that the informer knows to be assigned, by name.
    pub(crate) assigned: BTreeSet<String>,
    pub(crate) asked: Vec<String>,
}

impl Policy {
    pub(crate) fn holds(&self, pod: &Pod, plugin: &str) -> bool {
        self.closed.contains(plugin) || pod.0.gates.contains(plugin)
    }

    /// Whether the informer knows a pod of this name without a node.
    pub(crate) fn may_be_nominated(&self, name: &str) -> bool {
        !self.unknown.contains(name) && !self.assigned.contains(name)
    }
}

impl QueuePolicy<Pod, Object> for Policy {
    fn precedes(&self, a: &QueuedPod<Pod>, b: &QueuedPod<Pod>) -> bool {
        assert!(!self.has_sort_keys, "asked to compare where keys decide");
        let key = |pod: &QueuedPod<Pod>| (-i64::from(pod.entry().0.priority), pod.timestamp());
        key(a) < key(b)
    }

    fn sort_key(&self, pod: &QueuedPod<Pod>) -> Option<(i64, i64)> {
        self.keyed.borrow_mut().push(pod.entry().0.name.clone());
        self.has_sort_keys.then(|| (-i64::from(pod.entry().0.priority), pod.timestamp().as_nanos()))
    }

    fn pre_enqueue(&mut self, entry: &Pod, _: ProfileId, plugin: RejectorId) -> PreEnqueueVerdict {
        let plugin = &self.plugins[&plugin];
        self.asked.push(format!("gate {plugin} {}", entry.0.name));
        if self.holds(entry, plugin) { PreEnqueueVerdict::Gate } else { PreEnqueueVerdict::Admit }
    }

    fn hint(
        &mut self,
        hint: HintId,
        _event: &EventLabel,
        entry: &Pod,
        old: Option<&Object>,
        new: Option<&Object>,
    ) -> QueueingHint {
        self.asked.push(format!("hint {} {}", hint.0, entry.0.name));
        self.hints[hint.0 as usize](entry, old, new)
    }

    fn pod_topics(&self, hint: HintId, entry: &Pod) -> Option<Topics> {
        self.topics.as_ref().and_then(|topics| (topics.of_pod)(hint, entry))
    }

    fn event_topics(&self, hint: HintId, old: Option<&Object>, new: Option<&Object>) -> Topics {
        self.topics.as_ref().map_or(Topics::All, |topics| (topics.of_event)(hint, old, new))
    }

    fn signature(&mut self, entry: &Pod, profile: ProfileId) -> Option<Signature> {
        Some(signature_of(entry.0.shape, profile.index()))
    }

    fn latest(&self, _: &str, name: &str) -> Option<Pod> {
        let latest = Pod::new(name).with(|pod| pod.is_assigned = self.assigned.contains(name));
        (!self.unknown.contains(name)).then_some(latest)
    }
}

pub(crate) type ToyQueue = SchedulingQueue<Pod, Object>;

/// A queue with a policy and a clock. Plugins are written by name.
pub(crate) struct DrivenQueue {
    pub(crate) queue: ToyQueue,
    pub(crate) policy: Policy,
    pub(crate) now: Timestamp,
}

impl DrivenQueue {
    pub(crate) fn new(settings: QueueSettings, profiles: Vec<ProfileSpec>, hints: &[Hint]) -> Self {
        let mut names: BTreeSet<String> = profiles
            .iter()
            .flat_map(|profile| {
                profile.registrations().map(|(plugin, _, _)| plugin.to_owned()).collect::<Vec<_>>()
            })
            .collect();
        names.extend(["Gate", "G0", "G1", "None", ""].map(str::to_owned));
        let mut queue = ToyQueue::new(settings, profiles);
        let plugins = names.into_iter().map(|name| (queue.intern_plugin(&name), name)).collect();
        let policy = Policy { plugins, hints: hints.to_vec(), ..Policy::default() };
        Self { queue, policy, now: Timestamp::from_millis(1_000_000_000) }
    }

    pub(crate) fn advance(&mut self, millis: i64) {
        self.now = Timestamp::from_nanos(self.now.as_nanos() + millis * 1_000_000);
    }

    pub(crate) fn add(&mut self, pod: &Pod) -> QueueName {
        self.queue.add(pod.clone(), self.now, &mut self.policy)
    }

    pub(crate) fn update(&mut self, old: &Pod, new: &Pod, events: &[ClusterEvent]) {
        self.queue.update(old, new.clone(), events, self.now, &mut self.policy);
    }

    pub(crate) fn delete(&mut self, pod: &Pod) {
        self.queue.delete(pod, &self.policy);
    }

    pub(crate) fn pop(&mut self) -> Option<QueuedPod<Pod>> {
        self.queue.pop(&self.policy)
    }

    /// Pops a pod and says which.
    pub(crate) fn pop_name(&mut self) -> String {
        self.pop().map_or("none".to_owned(), |pod| pod.entry().0.name.clone())
    }

    /// Hands a popped pod back, rejected by these plugins; "?" before a name says "pending".
    pub(crate) fn fail(&mut self, mut pod: QueuedPod<Pod>, plugins: &[&str]) -> QueueName {
        pod.clear_rejectors();
        for plugin in plugins {
            match plugin.strip_prefix('?') {
                Some(plugin) => pod.add_pending_plugin(self.queue.intern_plugin(plugin)),
                None => pod.add_unschedulable_plugin(self.queue.intern_plugin(plugin)),
            }
        }
        self.queue.add_unschedulable_if_not_present(pod, self.now, &mut self.policy).unwrap()
    }

    /// Adds, pops and fails a pod; nothing else may be ready.
    pub(crate) fn park(&mut self, pod: &Pod, plugins: &[&str]) -> QueueName {
        self.add(pod);
        let popped = self.pop().unwrap();
        assert_eq!(popped.entry(), pod);
        self.fail(popped, plugins)
    }

    pub(crate) fn event(&mut self, event: &ClusterEvent, new: Option<&Object>) {
        self.queue.move_all(event, None, new, self.now, &mut self.policy);
    }

    pub(crate) fn activate(&mut self, pods: &[&Pod]) -> usize {
        let pods: Vec<Pod> = pods.iter().map(|&pod| pod.clone()).collect();
        self.queue.activate(&pods, self.now, &mut self.policy)
    }

    pub(crate) fn back_off(&mut self, pod: &Pod, n_errors: u32) {
        self.queue.back_off(pod, n_errors, self.now, &mut self.policy);
    }

    pub(crate) fn flush_backoff(&mut self) -> usize {
        self.queue.flush_backoff_completed(self.now, &mut self.policy)
    }

    pub(crate) fn flush_leftover(&mut self) {
        self.queue.flush_unschedulable_leftover(self.now, &mut self.policy);
    }

    pub(crate) fn get(&self, name: &str) -> &QueuedPod<Pod> {
        self.queue.get("ns", name).unwrap()
    }

    pub(crate) fn place(&self, name: &str) -> Option<Place> {
        self.queue.place("ns", name)
    }

    pub(crate) fn rejectors(&self, pod: &QueuedPod<Pod>) -> Vec<String> {
        pod.rejectors().iter().map(|plugin| self.queue.plugin_name(plugin).to_owned()).collect()
    }

    /// `active backoff unschedulable gated`.
    pub(crate) fn counts(&self) -> [usize; 4] {
        let counts = self.queue.pending_counts();
        [counts.active, counts.backoff, counts.unschedulable, counts.gated]
    }

    /// The non-zero `unschedulable_pods`.
    pub(crate) fn rejected(&self) -> Vec<(String, String, u64)> {
        let name = |plugin| self.queue.plugin_name(plugin).to_owned();
        let mut all: Vec<_> = (self.queue.rejected_counts().into_iter())
            .filter(|&(_, _, count)| count > 0)
            .map(|(plugin, profile, count)| {
                (name(plugin), self.queue.profile_name(profile).to_owned(), count)
            })
            .collect();
        all.sort();
        all
    }

    /// `queue label count`, sorted by queue.
    pub(crate) fn incoming(&self) -> Vec<String> {
        let mut all: Vec<_> = (self.queue.incoming_counts().into_iter())
            .map(|(queue, label, count)| (queue, format!("{} {label} {count}", queue.as_label())))
            .collect();
        all.sort();
        all.into_iter().map(|(_, text)| text).collect()
    }

    /// The non-zero `inflight_events`.
    pub(crate) fn in_flight(&self) -> Vec<String> {
        let mut all: Vec<_> = (self.queue.in_flight_event_counts().into_iter())
            .filter(|&(_, count)| count > 0)
            .map(|(label, count)| format!("{label} {count}"))
            .collect();
        all.sort();
        all
    }

    pub(crate) fn nominated(&self, node: &str) -> Vec<String> {
        self.queue.nominated_pods_for_node(node).map(|nominee| nominee.name.to_owned()).collect()
    }
}
