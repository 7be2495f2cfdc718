//! The engine's answers to the queue's questions: order, gates, hints, signatures.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

use kube_scheduler_api_types::{Pod, PodGroup, Timestamp};
use kube_scheduler_config::{FeatureGates, Gate as Feature};
use kube_scheduler_framework::{
    Code, EventObject, EventRegistration, NominatedPods, PluginName, QueuedPodView, Sources,
};
use kube_scheduler_queue::{
    EventLabel, HintId, NominatedPod, PreEnqueueVerdict, ProfileId, QueueEntry, QueuePolicy,
    QueuedPod, QueueingHint, RejectorId, SchedulingQueue, Signature, Topics,
};
use kube_scheduler_runtime::{Extenders, MeteredPoint, Profile};
use smallvec::SmallVec;

use crate::class_cache::{SignPlan, Signatures};
use crate::effect::PodRef;
use crate::guard::guarded;
use crate::measures::Measures;
use crate::notice::{Notice, Notices};
use crate::profiles::Profiles;

/// A pod in the queue.
#[derive(Clone, Debug)]
pub struct Entry(pub Arc<Pod>);

impl QueueEntry for Entry {
    fn uid(&self) -> &str {
        &self.0.uid
    }

    fn namespace(&self) -> &str {
        &self.0.namespace
    }

    fn name(&self) -> &str {
        &self.0.name
    }

    fn scheduler_name(&self) -> &str {
        &self.0.spec.scheduler_name
    }

    fn nominated_node_name(&self) -> Option<&str> {
        self.0.nominated_node_name()
    }

    fn is_assigned(&self) -> bool {
        self.0.is_assigned()
    }

    /// Intake takes pods out of their groups while groups are off.
    fn is_group_member(&self) -> bool {
        self.0.spec.pod_group.is_some()
    }
}

impl kube_scheduler_queue::HintObject<Entry> for EventObject {
    fn from_entry(entry: &Entry) -> Self {
        Self::Pod(entry.0.clone())
    }

    fn is_pod(&self, uid: &str) -> bool {
        self.as_pod().is_some_and(|pod| *pod.uid == *uid)
    }
}

/// The queue as the engine uses it.
pub(crate) type Queue = SchedulingQueue<Entry, EventObject>;

/// Which parts of pod groups are on, by feature gate.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GroupGates {
    /// Pods belong to the groups of `scheduling.k8s.io` that they name (`GenericWorkload`).
    pub(crate) reads_groups: bool,
    /// Pods wait for others of their group (`GangScheduling`, or plugins with groups of their own).
    pub(crate) has_gangs: bool,
    /// So do those of PodGroups of `scheduling.k8s.io` (`GangScheduling`).
    pub(crate) has_own_gangs: bool,
    /// Groups are placed as a whole (`TopologyAwareWorkloadScheduling`).
    pub(crate) places_groups: bool,
    /// Groups preempt as a whole (`WorkloadAwarePreemption`).
    pub(crate) preempts_for_groups: bool,
    /// Gangs are planned as a whole.
    pub(crate) plans_gangs_exactly: bool,
}

impl GroupGates {
    /// `has_foreign`: whether plugins know of groups of their own.
    pub(crate) fn new(gates: &FeatureGates, has_foreign: bool, plans_gangs_exactly: bool) -> Self {
        let has_own_gangs = gates.is_enabled(Feature::GangScheduling);
        let has_gangs = has_foreign || has_own_gangs;
        Self {
            has_own_gangs,
            plans_gangs_exactly: plans_gangs_exactly && has_gangs,
            reads_groups: gates.is_enabled(Feature::GenericWorkload),
            has_gangs,
            places_groups: gates.is_enabled(Feature::TopologyAwareWorkloadScheduling),
            preempts_for_groups: gates.is_enabled(Feature::WorkloadAwarePreemption),
        }
    }

    /// Whether the pods of a group of this name wait for each other, if it is a gang.
    pub(crate) fn has_gangs_like(&self, name: &str) -> bool {
        match PodGroup::foreign_parts(name) {
            None => self.has_own_gangs,
            Some(_) => self.has_gangs,
        }
    }
}

/// What stays the same for the life of an engine.
#[derive(Debug)]
pub(crate) struct Plans {
    /// Resources beyond the known kinds that plugins registered for, by name.
    pub(crate) custom_resources: BTreeSet<Arc<str>>,
    /// The profiles, in the order of configuration and of the queue's numbers.
    pub(crate) profiles: Profiles,
    /// Which parts of pod groups are on.
    pub(crate) groups: GroupGates,
    /// Programs outside that take part in every attempt.
    pub(crate) extenders: Extenders,
    /// Which plugins sign pods, by profile.
    pub(crate) sign: Vec<SignPlan>,
    /// The queue's numbers for the PreEnqueue plugins of each profile, in their order.
    pub(crate) gates: Vec<Vec<RejectorId>>,
    /// Hints by the number that the queue knows them by.
    pub(crate) hints: Hints,
    /// Whether every profile sorts by priority, then age.
    pub(crate) is_by_priority_then_age: bool,
}

impl Plans {
    /// Measures a call of one plugin that was waited for.
    pub(crate) fn plugin_ended(
        &self,
        profile: ProfileId,
        plugin: &PluginName,
        point: MeteredPoint,
        code: Code,
        start: Option<u64>,
    ) {
        let profile = &self.profiles[profile];
        if profile.meter().is_some()
            && let Some(idx) = profile.position(plugin)
        {
            profile.plugin_ended(idx, point, code, start);
        }
    }
}

/// Registrations with hints by number, and whose they are.
#[derive(Default)]
pub(crate) struct Hints(pub(crate) Vec<(PluginName, EventRegistration)>);

impl std::fmt::Debug for Hints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} hints", self.0.len())
    }
}

/// The engine's side of one queue operation.
pub(crate) struct Policy<'a> {
    pub(crate) plans: &'a Plans,
    /// What plugins may look at. Nominations are not available while the queue works.
    pub(crate) sources: Sources<'a>,
    pub(crate) signatures: &'a mut Signatures,
    pub(crate) measures: &'a mut Measures,
    pub(crate) notices: &'a mut Notices,
    /// The meter's reading when the gates of the current pod were first asked.
    pub(crate) gates_start: Option<u64>,
    pub(crate) now: Timestamp,
}

impl QueuePolicy<Entry, EventObject> for Policy<'_> {
    fn precedes(&self, a: &QueuedPod<Entry>, b: &QueuedPod<Entry>) -> bool {
        let first = self.plans.profiles.0.first();
        let sort = first.and_then(|profile| profile.queue_sort().next());
        let Some((_, _, sort)) = sort else { return false };
        // Without an answer the order is that of arrival.
        guarded(|| sort.compare(view(a), view(b))) == Ok(Ordering::Less)
    }

    fn sort_key(&self, pod: &QueuedPod<Entry>) -> Option<(i64, i64)> {
        self.plans
            .is_by_priority_then_age
            .then(|| (-i64::from(pod.entry().0.priority()), pod.timestamp().as_nanos()))
    }

    fn pre_enqueue(
        &mut self,
        entry: &Entry,
        profile: ProfileId,
        plugin: RejectorId,
    ) -> PreEnqueueVerdict {
        let ids = self.plans.gates.get(profile.index());
        let found = ids.zip(self.plans.profiles.get(profile)).and_then(|(ids, profile)| {
            let mut gates = ids.iter().zip(profile.pre_enqueue());
            let (_, (idx, name, gate)) = gates.find(|(id, _)| **id == plugin)?;
            Some((profile, idx, name, gate))
        });
        let Some((profile, idx, name, gate)) = found else { return PreEnqueueVerdict::Admit };
        let start = profile.plugin_start();
        let status = guarded(|| gate.pre_enqueue(&self.sources.unrecorded(), &entry.0))
            .unwrap_or_else(|panic| panic);
        profile.plugin_ended(idx, MeteredPoint::PreEnqueue, status.code(), start);
        if status.is_success() {
            return PreEnqueueVerdict::Admit;
        }
        self.notices.add(4, || Notice::Gated {
            pod: PodRef::from(&*entry.0),
            plugin: name.clone(),
            status: status.message(),
        });
        PreEnqueueVerdict::Gate
    }

    fn gates_begin(&mut self, profile: ProfileId) {
        self.gates_start = self.plans.profiles.get(profile).and_then(Profile::point_start);
    }

    fn gates_end(&mut self, profile: ProfileId) {
        let start = self.gates_start.take();
        if let Some(profile) = self.plans.profiles.get(profile) {
            // Quirk: a success whatever the gates said, as in the reference.
            profile.point_ended(MeteredPoint::PreEnqueue, Code::Success, start);
        }
    }

    fn hint(
        &mut self,
        id: HintId,
        event: &EventLabel,
        entry: &Entry,
        old: Option<&EventObject>,
        new: Option<&EventObject>,
    ) -> QueueingHint {
        let found = self.plans.hints.0.get(id.0 as usize);
        let Some(hint) = found.and_then(|(_, registration)| registration.hint.as_ref()) else {
            return QueueingHint::Queue;
        };
        let start = self.measures.hint_start();
        let answer = guarded(|| hint(&self.sources.unrecorded(), &entry.0, old, new))
            .unwrap_or_else(|panic| Err(panic.message().into()));
        self.measures.hint_ended(id.0, event, &answer, start);
        // The event has passed: a hint that fails must not leave the pod waiting for it.
        QueueingHint::queue_if(answer.unwrap_or(true))
    }

    fn pod_topics(&self, id: HintId, entry: &Entry) -> Option<Topics> {
        let (_, registration) = self.plans.hints.0.get(id.0 as usize)?;
        // A plugin that panics has every pod asked about, where its hint may answer.
        guarded(|| registration.topics_of_pod(&entry.0)).unwrap_or(Some(Topics::All))
    }

    fn event_topics(
        &self,
        id: HintId,
        old: Option<&EventObject>,
        new: Option<&EventObject>,
    ) -> Topics {
        let Some((_, registration)) = self.plans.hints.0.get(id.0 as usize) else {
            return Topics::All;
        };
        let cx = self.sources.unrecorded();
        guarded(|| registration.topics_of_event(&cx, old, new)).unwrap_or(Topics::All)
    }

    fn signature(&mut self, entry: &Entry, profile: ProfileId) -> Option<Signature> {
        let plan = self.plans.sign.get(profile.index())?;
        let measured = self.plans.profiles.get(profile);
        let start = measured.and_then(Profile::point_start);
        let signature = guarded(|| self.signatures.of_pod(profile.index(), plan, &entry.0));
        if let Some(profile) = measured {
            profile.point_ended(MeteredPoint::Sign, Code::Success, start);
        }
        signature.ok().flatten()
    }

    fn latest(&self, namespace: &str, name: &str) -> Option<Entry> {
        self.sources.pods.pod(namespace, name).map(Entry)
    }
}

fn view(pod: &QueuedPod<Entry>) -> QueuedPodView<'_> {
    QueuedPodView { pod: &pod.entry().0, queued: pod.timestamp(), attempts: pod.attempts() }
}

/// The queue, whose nominations plugins may look at.
#[derive(Debug)]
pub(crate) struct NominatingQueue(pub(crate) Queue);

impl Deref for NominatingQueue {
    type Target = Queue;

    fn deref(&self) -> &Queue {
        &self.0
    }
}

impl NominatedPods for NominatingQueue {
    fn nominated_pods(&self, node: &str) -> Vec<Arc<Pod>> {
        self.0.nominated_pods_for_node(node).map(pod_of).collect()
    }

    fn has_nominated_pods(&self) -> bool {
        self.0.nominated_nodes().next().is_some()
    }

    fn nominations(&self) -> Vec<(Arc<str>, SmallVec<[Arc<Pod>; 1]>)> {
        self.0
            .nominations()
            .map(|(node, pods)| (node.clone(), pods.map(pod_of).collect()))
            .collect()
    }
}

fn pod_of(nominee: NominatedPod<'_, Entry>) -> Arc<Pod> {
    match nominee.pod {
        Some(queued) => queued.entry().0.clone(),
        // A pod of which only the identity is known.
        None => Arc::new(Pod {
            uid: nominee.uid.into(),
            namespace: nominee.namespace.into(),
            name: nominee.name.into(),
            ..Pod::default()
        }),
    }
}
