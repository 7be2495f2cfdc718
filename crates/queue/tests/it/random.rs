//! Random operations on the queue and on the naive model: after each the two must be equal in everything observable.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube_scheduler_queue::{
    ActionType, ClusterEvent, EventResource, HintId, Nomination, Place, ProfileSpec, QueueSettings,
    QueuedPod, QueueingHint, Topics,
};
use proptest::prelude::*;

use crate::model::{LogItem, Model, ProfileModel, Record};
use crate::toy::{DrivenQueue, Hint, HintTopics, Object, Pod, signature_of};

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const PLUGINS: [&str; 7] = ["Fit", "Any", "Pend", "None", "G0", "All", ""];
const NODES: [&str; 3] = ["", "n1", "n2"];

/// What varies about a pod.
#[derive(Clone, Debug)]
struct Look {
    name: usize,
    generation: u8,
    scheduler: usize,
    priority: i32,
    gates: u8,
    shape: u32,
    nominated: usize,
    is_group_member: bool,
}

impl Look {
    fn pod(&self) -> Pod {
        let name = NAMES[self.name];
        let gates =
            ["G0", "G1"].into_iter().enumerate().filter(|(at, _)| self.gates & (1 << at) != 0);
        Pod::new(name).with(|pod| {
            pod.uid = format!("{name}{}", self.generation);
            pod.scheduler = ["s", "s", "t", "nobody"][self.scheduler].to_owned();
            pod.priority = self.priority;
            pod.gates = gates.map(|(_, gate)| gate.to_owned()).collect();
            pod.shape = self.shape;
            pod.nominated = NODES[self.nominated].to_owned();
            pod.is_group_member = self.is_group_member;
        })
    }
}

fn look() -> impl Strategy<Value = Look> {
    let gates = prop_oneof![4 => Just(0u8), 1 => 1u8..4];
    let nominated = prop_oneof![3 => Just(0usize), 1 => 1usize..3];
    (
        0..NAMES.len(),
        prop_oneof![6 => Just(0u8), 1 => Just(1u8)],
        0usize..4,
        0i32..3,
        gates,
        0u32..3,
        nominated,
        prop::bool::weighted(0.05),
    )
        .prop_map(
            |(name, generation, scheduler, priority, gates, shape, nominated, is_group_member)| {
                Look {
                    name,
                    generation,
                    scheduler,
                    priority,
                    gates,
                    shape,
                    nominated,
                    is_group_member,
                }
            },
        )
}

#[derive(Clone, Debug)]
enum Op {
    Add(Look),
    Update(Look, Look, Vec<usize>),
    Delete(Look),
    Pop,
    PopSpecific(Look),
    Done(usize),
    /// The last is for how many milliseconds more the pod has to wait at least.
    Fail(usize, Vec<usize>, Vec<usize>, Option<Look>, Option<u64>),
    Event(usize, Option<u32>, Option<Look>, Option<i32>),
    Advance(i64),
    FlushBackoff,
    FlushLeftover,
    FlushDue,
    Activate(Vec<Look>),
    BackOff(Look, u32),
    Nominate(Look, Option<usize>),
    Toggle(usize),
    Informer(usize, bool),
}

fn events() -> Vec<ClusterEvent> {
    let event = |resource: &str, action| ClusterEvent::new(EventResource::parse(resource), action);
    vec![
        event("Node", ActionType::ADD),
        event("Node", ActionType::UPDATE_NODE_TAINT),
        event("Node", ActionType::UPDATE_NODE_LABEL),
        event("Node", ActionType::UPDATE),
        ClusterEvent::ASSIGNED_POD_DELETE,
        event("PersistentVolumeClaim", ActionType::ADD),
        event("PersistentVolume", ActionType::ADD),
        event("UnschedulablePod", ActionType::UPDATE_POD_LABEL),
        ClusterEvent::UNSCHEDULABLE_POD_UPDATE,
        ClusterEvent::UNSCHEDULABLE_TIMEOUT,
        event("things.v1.example.com", ActionType::DELETE),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let plugins = || prop::collection::vec(0..PLUGINS.len(), 0..3);
    prop_oneof![
        5 => look().prop_map(Op::Add),
        4 => (look(), look(), prop::collection::vec(0usize..11, 1..3)).prop_map(|(a, b, e)| Op::Update(a, b, e)),
        1 => look().prop_map(Op::Delete),
        7 => Just(Op::Pop),
        1 => look().prop_map(Op::PopSpecific),
        1 => (0usize..4).prop_map(Op::Done),
        7 => (0usize..4, plugins(), plugins(), prop::option::weighted(0.2, look()), prop::option::weighted(0.2, 1u64..60_000))
            .prop_map(|(at, u, p, look, waits)| {
                Op::Fail(at, u, if p.len() > 1 { p } else { vec![] }, look, waits)
            }),
        5 => (0usize..11, prop::option::of(0u32..3), prop::option::weighted(0.3, look()), prop::option::weighted(0.3, 0i32..3))
            .prop_map(|(e, thing, look, limit)| Op::Event(e, thing, look, limit)),
        4 => prop_oneof![Just(1i64), Just(300), Just(1_000), Just(2_000), Just(11_000), Just(301_000)]
            .prop_map(Op::Advance),
        2 => Just(Op::FlushBackoff),
        2 => Just(Op::FlushLeftover),
        1 => Just(Op::FlushDue),
        2 => prop::collection::vec(look(), 1..3).prop_map(Op::Activate),
        2 => (look(), 1u32..5).prop_map(|(look, n)| Op::BackOff(look, n)),
        2 => (look(), prop::option::of(0usize..3)).prop_map(|(look, node)| Op::Nominate(look, node)),
        2 => (0usize..2).prop_map(Op::Toggle),
        1 => (0..NAMES.len(), any::<bool>()).prop_map(|(name, unknown)| Op::Informer(name, unknown)),
    ]
}

/// Two profiles with the same plugins by name, but other gates, registrations and hints.
fn profiles() -> Vec<(ProfileSpec, Vec<&'static str>)> {
    let event = |resource: &str, action| ClusterEvent::new(EventResource::parse(resource), action);
    let s = ProfileSpec::new("s")
        .with_pre_enqueue("G0")
        .with_pre_enqueue("G1")
        .with_events(
            "Fit",
            [
                (event("Node", ActionType::ADD), Some(HintId(0))),
                (event("Pod", ActionType::DELETE), Some(HintId(1))),
                (event("*", ActionType::UPDATE_NODE_LABEL), Some(HintId(2))),
            ],
        )
        .with_events("Any", [(event("Node", ActionType::ADD | ActionType::UPDATE), None)])
        .with_events("Pend", [(event("PersistentVolumeClaim", ActionType::ADD), Some(HintId(1)))])
        .with_events("G0", [(event("Pod", ActionType::UPDATE_POD_LABEL), Some(HintId(3)))])
        .with_events("None", []);
    let t = ProfileSpec::new("t")
        .with_pre_enqueue("G1")
        .with_events("Fit", [(event("Node", ActionType::UPDATE_NODE_LABEL), Some(HintId(1)))])
        .with_events("G1", [(event("PersistentVolumeClaim", ActionType::ADD), None)])
        .with_events("All", [(event("*", ActionType::ALL), Some(HintId(2)))])
        .with_events("Pend", [(event("Pod", ActionType::UPDATE), Some(HintId(0)))]);
    vec![(s, vec!["G0", "G1"]), (t, vec!["G1"])]
}

fn verdict(number: u32) -> QueueingHint {
    match number % 4 {
        0 | 3 => QueueingHint::Queue,
        _ => QueueingHint::Skip,
    }
}

fn number(object: Option<&Object>) -> u32 {
    match object {
        None => 1,
        Some(Object::Thing(number)) => *number,
        Some(Object::Pod(pod)) => pod.0.shape + 1,
    }
}

const HINTS: [Hint; 4] = [
    |pod, _, new| verdict(pod.0.shape + number(new)),
    |pod, old, _| verdict(pod.0.shape * 2 + number(old)),
    |pod, old, new| verdict(pod.0.shape + number(old) * 2 + number(new)),
    |pod, _, new| match new {
        Some(Object::Pod(new)) if new.0.uid == pod.0.uid => QueueingHint::Queue,
        _ => QueueingHint::Skip,
    },
];

/// Topics of the hints above: what `verdict` looks at, or the pod that the event is about.
const TOPICS: HintTopics = HintTopics {
    of_pod: |hint, pod| {
        let shape = u64::from(pod.0.shape);
        match hint.0 {
            0 => Some(Topics::Only(vec![(8 - shape) % 4, (7 - shape) % 4])),
            1 => Some(Topics::Only(vec![(8 - shape * 2) % 4, (7 - shape * 2) % 4])),
            2 if pod.0.shape == 1 => Some(Topics::All),
            2 => None,
            _ => Some(Topics::Only(vec![uid_topic(pod)])),
        }
    },
    of_event: |hint, old, new| match (hint.0, new) {
        (0, _) => Topics::Only(vec![u64::from(number(new) % 4)]),
        (1, _) => Topics::Only(vec![u64::from(number(old) % 4)]),
        (2, _) => Topics::All,
        (_, Some(Object::Pod(new))) => Topics::Only(vec![uid_topic(new), uid_topic(new)]),
        (_, _) => Topics::Only(vec![]),
    },
};

/// Some pods share one.
fn uid_topic(pod: &Pod) -> u64 {
    pod.0.uid.bytes().map(u64::from).sum::<u64>() % 5
}

struct Pair {
    driven: DrivenQueue,
    model: Model,
    /// Popped and not yet back, oldest first.
    popped: Vec<(QueuedPod<Pod>, Record)>,
}

impl Pair {
    fn new(settings: QueueSettings, has_sort_keys: bool, has_topics: bool) -> Self {
        let profiles = profiles();
        let model = profiles.iter().map(|(spec, gates)| ProfileModel::new(spec, gates)).collect();
        let specs = profiles.into_iter().map(|(spec, _)| spec).collect();
        let mut driven = DrivenQueue::new(settings, specs, &HINTS);
        driven.policy.has_sort_keys = has_sort_keys;
        driven.policy.topics = has_topics.then_some(TOPICS);
        Self { driven, model: Model::new(settings, model), popped: vec![] }
    }

    fn apply(&mut self, op: Op) {
        let Self { driven, model, popped, .. } = self;
        let now = driven.now;
        match op {
            Op::Add(look) => {
                driven.add(&look.pod());
                model.add(&look.pod(), now, &driven.policy);
            }
            Op::Update(old, mut new, chosen) => {
                new.name = old.name;
                let (old, new) = (old.pod(), new.pod());
                let known = events();
                let events: Vec<ClusterEvent> =
                    chosen.into_iter().map(|at| known[at].clone()).collect();
                driven.update(&old, &new, &events);
                model.update(&old, &new, &events, now, &driven.policy);
            }
            Op::Delete(look) => {
                driven.delete(&look.pod());
                model.delete(&look.pod());
            }
            Op::Pop => {
                let got = (driven.pop(), model.pop());
                keep(popped, got, driven);
            }
            Op::PopSpecific(look) => {
                let pod = look.pod();
                let got = driven.queue.pop_specific(&pod, now, &mut driven.policy);
                let got = (got, model.pop_specific(&pod, now, &driven.policy));
                keep(popped, got, driven);
            }
            Op::Done(at) if at < popped.len() => {
                let (pod, record) = popped.remove(at);
                driven.queue.done(&pod.entry().0.uid);
                model.done(&record.pod.0.uid);
                // Twice does no harm.
                driven.queue.done(&pod.entry().0.uid);
            }
            Op::Fail(at, unschedulable, pending, replaced, waits) if at < popped.len() => {
                let (mut pod, mut record) = popped.remove(at);
                pod.clear_rejectors();
                record.unschedulable =
                    unschedulable.iter().map(|&at| PLUGINS[at].to_owned()).collect();
                record.pending = pending.iter().map(|&at| PLUGINS[at].to_owned()).collect();
                record.gated_by = None;
                record.not_before = waits.map(|millis| now + Duration::from_millis(millis));
                if let Some(at) = record.not_before {
                    pod.wait_until(at);
                }
                for name in &record.unschedulable {
                    pod.add_unschedulable_plugin(driven.queue.intern_plugin(name));
                }
                for name in &record.pending {
                    pod.add_pending_plugin(driven.queue.intern_plugin(name));
                }
                if let Some(mut look) = replaced {
                    look.name = NAMES.iter().position(|&name| name == record.pod.0.name).unwrap();
                    let uid = record.pod.0.uid.clone();
                    record.pod = look.pod().with(|pod| pod.uid = uid);
                    pod.replace_entry(record.pod.clone());
                }
                let got =
                    driven.queue.add_unschedulable_if_not_present(pod, now, &mut driven.policy);
                assert_eq!(got.is_ok(), model.fail(record, now, &driven.policy));
            }
            Op::Done(_) | Op::Fail(..) => {}
            Op::Event(at, thing, look, limit) => {
                let event = events()[at].clone();
                let old = thing.map(Object::Thing);
                let new = look.map(|look| Object::Pod(look.pod())).or_else(|| old.clone());
                let passes = |pod: &Pod| limit.is_none_or(|limit| pod.0.priority <= limit);
                model.event(&event, old.as_ref(), new.as_ref(), passes, now, &driven.policy);
                driven.queue.move_all_if(
                    &event,
                    old.as_ref(),
                    new.as_ref(),
                    passes,
                    now,
                    &mut driven.policy,
                );
            }
            Op::Advance(millis) => driven.advance(millis),
            Op::FlushBackoff => {
                driven.flush_backoff();
                model.flush_backoff(now, &driven.policy);
            }
            Op::FlushLeftover => {
                driven.flush_leftover();
                model.flush_leftover(now, &driven.policy);
            }
            Op::FlushDue => {
                driven.queue.flush_due(now, &mut driven.policy);
                model.flush_backoff(now, &driven.policy);
                // A pod gated on its way out of backoff may be overdue at once.
                if model.next_deadline().is_some_and(|deadline| deadline <= now) {
                    model.flush_leftover(now, &driven.policy);
                }
                assert!(
                    driven.queue.next_deadline().is_none_or(|deadline| deadline > now),
                    "nothing is left over"
                );
            }
            Op::Activate(looks) => {
                let pods: Vec<Pod> = looks.iter().map(Look::pod).collect();
                driven.activate(&pods.iter().collect::<Vec<_>>());
                model.activate(&pods, now, &driven.policy);
            }
            Op::BackOff(look, n_errors) => {
                driven.back_off(&look.pod(), n_errors);
                model.back_off(&look.pod(), n_errors, now, &driven.policy);
            }
            Op::Nominate(look, node) => {
                let nomination =
                    node.map_or(Nomination::Noop, |node| Nomination::Override(NODES[node]));
                driven.queue.nominate(&look.pod(), nomination, &driven.policy);
                model.nominate(&look.pod(), nomination, &driven.policy);
            }
            Op::Toggle(gate) => {
                let gate = ["G0", "G1"][gate].to_owned();
                if !driven.policy.closed.remove(&gate) {
                    driven.policy.closed.insert(gate);
                }
            }
            Op::Informer(name, is_unknown) => {
                let policy = &mut driven.policy;
                let set = if is_unknown { &mut policy.unknown } else { &mut policy.assigned };
                if !set.remove(NAMES[name]) {
                    set.insert(NAMES[name].to_owned());
                }
            }
        }
    }

    fn compare(&self) {
        let Self { driven, model, .. } = self;
        let mut expected = model.records.clone();
        expected.sort_by(|a, b| a.pod.0.name.cmp(&b.pod.0.name));
        let mut found: Vec<Record> = driven
            .queue
            .pending_pods()
            .map(|(place, pod)| record(Some(place), pod, driven))
            .collect();
        found.sort_by(|a, b| a.pod.0.name.cmp(&b.pod.0.name));
        for record in &mut expected {
            *record = shown(record);
        }
        assert_eq!(found, expected);
        for (place, pod) in driven.queue.pending_pods() {
            let profile = driven.queue.profile_name(pod.profile());
            assert_eq!(profile, pod.entry().0.scheduler);
            assert_eq!(
                pod.signature(),
                Some(signature_of(pod.entry().0.shape, pod.profile().index()))
            );
            let is_it = |known: &&Record| known.pod == *pod.entry() && known.place == Some(place);
            let known = model.records.iter().find(is_it).unwrap();
            assert_eq!(driven.queue.backoff_end(pod), model.backoff_end(known));
        }
        self.compare_numbers();
        self.compare_nominations();
    }

    fn compare_numbers(&self) {
        let Self { driven, model, .. } = self;
        let at = |places: &[Place], gated: Option<bool>| {
            let fits = |record: &&Record| {
                places.contains(&record.place.unwrap())
                    && gated.is_none_or(|gated| record.gated_by.is_some() == gated)
            };
            model.records.iter().filter(fits).count()
        };
        let backoff = at(&[Place::Backoff, Place::ErrorBackoff], None);
        let parked = [Place::Unschedulable];
        let counts = [
            at(&[Place::Active], None),
            backoff,
            at(&parked, Some(false)),
            at(&parked, Some(true)),
        ];
        assert_eq!(driven.counts(), counts);
        let summary = format!(
            "activeQ:{}; backoffQ:{backoff}; unschedulablePods:{}",
            counts[0],
            counts[2] + counts[3]
        );
        assert_eq!(driven.queue.summary(), summary);
        assert_eq!(driven.queue.next_deadline(), model.next_deadline());

        let mut rejected: BTreeMap<(String, String), u64> = BTreeMap::new();
        for record in &model.records {
            for plugin in record.rejectors() {
                *rejected.entry((plugin, record.pod.0.scheduler.clone())).or_default() += 1;
            }
        }
        let rejected: Vec<_> = rejected
            .into_iter()
            .map(|((plugin, profile), count)| (plugin, profile, count))
            .collect();
        assert_eq!(driven.rejected(), rejected);

        let mut incoming: BTreeMap<_, u64> = BTreeMap::new();
        for (queue, label) in &model.incoming {
            *incoming.entry((*queue, label)).or_default() += 1;
        }
        let incoming: Vec<String> = incoming
            .into_iter()
            .map(|((queue, label), count)| format!("{} {label} {count}", queue.as_label()))
            .collect();
        assert_eq!(driven.incoming(), incoming);

        let mut in_flight: BTreeMap<String, u64> = BTreeMap::new();
        for item in &model.log {
            let label = match item {
                LogItem::Popped(_) => "PodPopped".to_owned(),
                LogItem::Happened(event, _, _) => event.label().to_string(),
            };
            *in_flight.entry(label).or_default() += 1;
        }
        let in_flight: Vec<String> =
            in_flight.into_iter().map(|(label, count)| format!("{label} {count}")).collect();
        assert_eq!(driven.in_flight(), in_flight);
        let popped = model.log.iter().filter_map(|item| match item {
            LogItem::Popped(uid) => Some(uid.clone()),
            LogItem::Happened(..) => None,
        });
        let found: Vec<String> =
            driven.queue.in_flight_pods().map(|pod| pod.0.uid.clone()).collect();
        assert_eq!(found, popped.collect::<Vec<_>>());
    }

    fn compare_nominations(&self) {
        let Self { driven, model, .. } = self;
        for node in ["n1", "n2"] {
            let expected: Vec<(String, bool)> = (model.nominations.iter())
                .filter(|(nominated, _, _)| nominated == node)
                .map(|(_, uid, _)| {
                    (uid.clone(), model.records.iter().any(|record| record.pod.0.uid == *uid))
                })
                .collect();
            let found: Vec<(String, bool)> = (driven.queue.nominated_pods_for_node(node))
                .map(|nominee| (nominee.uid.to_owned(), nominee.pod.is_some()))
                .collect();
            assert_eq!(found, expected, "{node}");
        }
        let nodes: BTreeSet<&str> = model
            .nominations
            .iter()
            .map(|(node, _, _)| node.as_str())
            .filter(|node| !node.is_empty())
            .collect();
        assert_eq!(driven.queue.nominated_nodes().collect::<BTreeSet<_>>(), nodes);
        for (node, uid, _) in &model.nominations {
            assert_eq!(driven.queue.nomination(uid), Some(node.as_str()));
        }
    }
}

/// Compares what was popped and keeps it for a later failure.
fn keep(
    popped: &mut Vec<(QueuedPod<Pod>, Record)>,
    got: (Option<QueuedPod<Pod>>, Option<Record>),
    driven: &DrivenQueue,
) {
    match got {
        (Some(pod), Some(expected)) => {
            assert_eq!(record(None, &pod, driven), shown(&expected));
            popped.push((pod, expected));
        }
        (found, expected) => {
            assert_eq!(found.map(|pod| pod.entry().clone()), expected.map(|record| record.pod));
        }
    }
}

/// What of a record can be seen of a queued pod.
fn shown(record: &Record) -> Record {
    Record { rank: 0, not_before: None, ..record.clone() }
}

fn record(place: Option<Place>, pod: &QueuedPod<Pod>, driven: &DrivenQueue) -> Record {
    let name = |plugin| driven.queue.plugin_name(plugin).to_owned();
    Record {
        pod: pod.entry().clone(),
        place,
        rank: 0,
        timestamp: pod.timestamp(),
        initial_attempt: pod.initial_attempt_timestamp(),
        attempts: pod.attempts(),
        unschedulable_count: pod.unschedulable_count(),
        consecutive_errors: pod.consecutive_errors(),
        was_flushed: pod.was_flushed_from_unschedulable(),
        gated_by: pod.gated_by().map(name),
        unschedulable: pod.unschedulable_plugins().iter().map(name).collect(),
        pending: pod.pending_plugins().iter().map(name).collect(),
        not_before: None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, rng_seed: proptest::test_runner::RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_queue_equals_the_naive_model(
        pop_from_backoff in prop::bool::weighted(0.7),
        hurries_groups: bool,
        has_sort_keys: bool,
        has_topics in prop::bool::weighted(0.8),
        has_backoff in prop::bool::weighted(0.9),
        ops in prop::collection::vec(op(), 0..120),
    ) {
        let mut settings = QueueSettings { pop_from_backoff, hurries_groups, ..QueueSettings::default() };
        if !has_backoff {
            settings.max_backoff = Duration::ZERO;
        }
        let mut pair = Pair::new(settings, has_sort_keys, has_topics);
        for op in ops {
            pair.apply(op);
            pair.compare();
        }
        // Whatever is left comes out in the same order.
        for _ in 0..NAMES.len() {
            pair.apply(Op::Pop);
            pair.compare();
        }
    }
}
