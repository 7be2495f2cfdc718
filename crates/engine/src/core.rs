//! What all parts of the engine work on: the cluster and the queue, what plugins may look at, and what leaves the engine.
//!
//! The parts ([`SchedulingCycle`](crate::cycle::SchedulingCycle), [`Bindings`](crate::binding::Bindings),
//! [`Preemptions`](crate::preemption::Preemptions)) own the state of what they carry out; a verb of a part takes the core
//! as its first argument. What plugins may see of a part's work (pods that wait on Permit, pods that are held back, room that is
//! kept) stands here, so that a plugin can be called from within any part; its fields are private to the part's module.
//!
//! Invariant: the queue changes through [`Core::with_queue`] alone, which keeps the queue's deadline in the table of
//! deadlines.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use kube_scheduler_api_types::{Object, Pod, Timestamp, WorkMeter};
use kube_scheduler_cache::reads::Memo;
use kube_scheduler_cache::{ClusterState, PodGroupState};
use kube_scheduler_framework::{
    ActionType, ClusterEvent, Context, EventKind, EventObject, PluginName, Sources,
};
use kube_scheduler_queue::{Move, QueueReport, QueuedPod};
use kube_scheduler_runtime::{Extenders, cluster_alone};

use crate::apart::ForkState;
use crate::backfill::Backfill;
use crate::binding::PermitWaits;
use crate::changes::resource_of;
use crate::class_cache::Signatures;
use crate::counts::Counts;
use crate::deadlines::{Deadlines, WakeUp};
use crate::effect::{Effect, FAILED_SCHEDULING, ObjectRef, PodRef};
use crate::group::foreign::ForeignGroups;
use crate::group::incomplete::{GroupKey, IncompleteGroups};
use crate::measures::Measures;
use crate::notice::{Notice, Notices, QUEUE_REPORTS_FROM};
use crate::pods::PodIndex;
use crate::policy::{Entry, NominatingQueue, Plans, Policy, Queue};
use crate::preemption::HeldPreemptors;
use crate::readers::ObjectReaders;
use crate::term_limits::TermLimits;

/// How many notes are kept until they are fetched; later ones are dropped.
const MAX_NOTES: usize = 256;

/// The longest note of an event, in bytes.
const MAX_NOTE_LEN: usize = 1024;

/// What all parts of the engine work on.
#[derive(Debug)]
pub(crate) struct Core {
    /// Shared, so that a part can go through a profile's plugins while it changes the core.
    pub(crate) plans: Arc<Plans>,
    pub(crate) cluster: ClusterState,
    pub(crate) pods: PodIndex,
    /// Running pods with many affinity terms.
    pub(crate) term_limits: TermLimits,
    /// Pods that wait on Permit: the bindings' state, as far as plugins may see it.
    pub(crate) permits: PermitWaits,
    /// Pods that must not be tried yet: the preemptions' state, as far as plugins may see it.
    pub(crate) held_back: HeldPreemptors,
    pub(crate) deadlines: Deadlines,
    /// Groups of other kinds, which plugins know of.
    pub(crate) foreign: ForeignGroups,
    /// Groups with members that are held back.
    pub(crate) incomplete: IncompleteGroups,
    /// The gang for which room is kept.
    pub(crate) backfill: Backfill,
    pub(crate) effects: Vec<Effect>,
    /// Objects with which the API server answered writes. They are taken in after the current input has been handled.
    pub(crate) confirmed: Vec<Arc<Object>>,
    /// Objects that are no longer about to be written: they are, or what they were to get is free again.
    pub(crate) released: Vec<Arc<Object>>,
    pub(crate) counts: Counts,
    pub(crate) measures: Measures,
    /// Notified of changes of objects; none in a copy for questions.
    pub(crate) readers: ObjectReaders,
    /// For a shell that writes a log.
    pub(crate) notices: Notices,
    /// The time of the current input or turn. Set on entry into the engine and not read between calls.
    pub(crate) now: Timestamp,
    /// What plugins found out in the present cycle.
    pub(crate) memo: Memo,
    /// What plugins count of the present attempt.
    pub(crate) work: WorkMeter,
    queue: NominatingQueue,
    /// How often the queue was changed.
    n_queue_changes: u64,
    /// The group whose members were made ready last, and how often the queue had been changed then.
    activated: Option<(GroupKey, u64)>,
    pub(crate) signatures: Signatures,
    pub(crate) notes: Vec<String>,
    /// The extenders that are asked: none in a copy.
    pub(crate) extenders: Extenders,
    /// What only a copy has, on which questions are answered; `None` in the engine that schedules.
    pub(crate) fork_state: Option<ForkState>,
}

/// A user-visible event about a pod.
#[derive(Debug)]
pub(crate) struct PodEvent {
    pub(crate) kind: EventKind,
    pub(crate) reason: Cow<'static, str>,
    pub(crate) action: Cow<'static, str>,
    pub(crate) note: String,
    /// The name of the profile that reports it.
    pub(crate) reporting: Arc<str>,
    /// What else it is about.
    pub(crate) related: Option<Arc<ObjectRef>>,
}

impl PodEvent {
    /// That the pod was not scheduled. A note that is too long for an event is cut.
    pub(crate) fn failed_scheduling(note: &str, reporting: &Arc<str>) -> Self {
        Self {
            kind: EventKind::Warning,
            reason: FAILED_SCHEDULING.into(),
            action: "Scheduling".into(),
            note: truncated(note),
            reporting: reporting.clone(),
            related: None,
        }
    }
}

impl Core {
    pub(crate) fn new(
        plans: Arc<Plans>,
        readers: ObjectReaders,
        queue: Queue,
        counts: Counts,
        measures: Measures,
    ) -> Self {
        Self {
            extenders: plans.extenders.clone(),
            plans,
            cluster: ClusterState::new(),
            pods: PodIndex::default(),
            term_limits: TermLimits::default(),
            foreign: ForeignGroups::default(),
            permits: PermitWaits::default(),
            held_back: HeldPreemptors::default(),
            deadlines: Deadlines::default(),
            incomplete: IncompleteGroups::default(),
            backfill: Backfill::default(),
            effects: Vec::new(),
            confirmed: Vec::new(),
            released: Vec::new(),
            counts,
            measures,
            readers,
            notices: Notices::default(),
            now: Timestamp::default(),
            memo: Memo::default(),
            work: WorkMeter::new(u64::MAX),
            queue: NominatingQueue(queue),
            n_queue_changes: 0,
            activated: None,
            signatures: Signatures::default(),
            notes: Vec::new(),
            fork_state: None,
        }
    }

    /// A copy for questions. It counts, measures and logs nothing, no preemption holds a pod back in it, and it asks nothing
    /// outside.
    pub(crate) fn fork(&self) -> Self {
        let mut cluster = self.cluster.clone();
        cluster.objects_mut().becomes_copy();
        // Every field is named, so that the compiler asks what becomes of a new one.
        Self {
            plans: self.plans.clone(),
            cluster,
            pods: self.pods.clone(),
            term_limits: self.term_limits.clone(),
            permits: self.permits.clone(),
            held_back: HeldPreemptors::default(),
            deadlines: self.deadlines.clone(),
            foreign: self.foreign.clone(),
            incomplete: self.incomplete.clone(),
            backfill: self.backfill.clone(),
            effects: Vec::new(),
            confirmed: Vec::new(),
            released: Vec::new(),
            counts: Counts::default(),
            measures: Measures::default(),
            readers: ObjectReaders::default(),
            notices: Notices::default(),
            now: self.now,
            memo: Memo::default(),
            work: WorkMeter::new(u64::MAX),
            queue: NominatingQueue(self.queue.0.clone()),
            n_queue_changes: self.n_queue_changes,
            activated: self.activated.clone(),
            signatures: self.signatures.fork(),
            notes: Vec::new(),
            extenders: Extenders::default(),
            fork_state: Some(ForkState::default()),
        }
    }

    /// Whether this is a copy, so that a plugin's outside work is assumed to succeed without being started. If so, notes the
    /// plugin.
    pub(crate) fn trusts(&mut self, plugin: &PluginName) -> bool {
        let Some(state) = &mut self.fork_state else { return false };
        state.trusted.insert(plugin.clone());
        true
    }

    /// Whether this is a copy whose work is not wanted any more.
    pub(crate) fn is_given_up(&self) -> bool {
        self.fork_state.as_ref().is_some_and(|state| state.is_given_up.load(Ordering::Relaxed))
    }

    /// What plugins may look at.
    pub(crate) fn context(&self) -> Context<'_> {
        self.sources().unrecorded()
    }

    /// What plugins' contexts read from.
    pub(crate) fn sources(&self) -> Sources<'_> {
        Sources {
            cluster: &self.cluster,
            pods: &self.pods,
            waiting: &self.permits,
            nominated: &self.queue,
            preemptions: &self.held_back,
            memo: &self.memo,
            work: Some(&self.work),
            now: self.now,
        }
    }

    /// The queue, to look at.
    pub(crate) const fn queue(&self) -> &NominatingQueue {
        &self.queue
    }

    /// Changes the queue, which asks the engine's policy about order, gates and hints meanwhile.
    pub(crate) fn with_queue<T>(
        &mut self,
        change: impl FnOnce(&mut Queue, &mut Policy<'_>) -> T,
    ) -> T {
        let sources = Sources {
            pods: &self.pods,
            waiting: &self.permits,
            preemptions: &self.held_back,
            ..cluster_alone(&self.cluster, self.now)
        };
        let mut policy = Policy {
            plans: &self.plans,
            sources,
            signatures: &mut self.signatures,
            measures: &mut self.measures,
            notices: &mut self.notices,
            gates_start: None,
            now: self.now,
        };
        let result = change(&mut self.queue.0, &mut policy);
        self.n_queue_changes += 1;
        if self.notices.wants_queue_reports() {
            self.pass_on_queue_reports();
        }
        match self.queue.next_deadline() {
            Some(at) => self.deadlines.set(WakeUp::QueueMoves, at),
            None => self.deadlines.clear(WakeUp::QueueMoves, self.now),
        }
        result
    }

    /// The queued pods in the order in which they come to their turn.
    pub(crate) fn pending_in_order(&self) -> Vec<Arc<Pod>> {
        let policy = Policy {
            plans: &self.plans,
            // Only the order is asked of it.
            sources: cluster_alone(&self.cluster, self.now),
            signatures: &mut self.signatures.fork(),
            measures: &mut Measures::default(),
            notices: &mut Notices::default(),
            gates_start: None,
            now: self.now,
        };
        let pending = self.queue.0.pending_in_order(&policy);
        pending.into_iter().map(|(_, queued)| queued.entry().0.clone()).collect()
    }

    /// Which notices are kept, as the log's verbosity.
    pub(crate) fn set_verbosity(&mut self, verbosity: u8) {
        self.notices.verbosity = verbosity;
        self.queue.0.keep_reports(self.notices.wants_queue_reports());
    }

    fn pass_on_queue_reports(&mut self) {
        for report in self.queue.0.take_reports() {
            let notice = match report {
                QueueReport::Moved(moved) => {
                    let Move { entry, event, queue, hint, is_gated, is_update, rejectors } = moved;
                    let name = |id| self.queue.0.plugin_name(id).into();
                    Notice::PodMoved {
                        pod: PodRef::from(&*entry.0),
                        event,
                        queue,
                        hint,
                        is_gated,
                        is_update,
                        rejectors: rejectors.iter().map(name).collect(),
                    }
                }
                QueueReport::NotHelped { entry, event } => {
                    Notice::EventDoesNotHelp { pod: PodRef::from(&*entry.0), event }
                }
                QueueReport::SeenInFlight(event) => Notice::EventSeenInFlight(event),
                _ => continue,
            };
            self.notices.add(QUEUE_REPORTS_FROM, || notice);
        }
    }

    /// The queue's next pod. From here until [`done`](Self::done) or [`requeue`](Self::requeue) the queue remembers the
    /// events that the pod misses.
    pub(crate) fn pop(&mut self) -> Option<QueuedPod<Entry>> {
        self.with_queue(|queue, policy| queue.pop(policy))
    }

    /// A pod that was popped, and the others of its group: takes them out of the queue, ready or not, except those that are not
    /// there, or gated.
    pub(crate) fn pop_group_of(
        &mut self,
        popped: QueuedPod<Entry>,
        name: &str,
    ) -> Vec<QueuedPod<Entry>> {
        let first = popped.entry().0.clone();
        self.with_queue(|queue, policy| {
            let state = policy.sources.cluster.pod_group(&first.namespace, name);
            let mut members = Vec::with_capacity(state.map_or(1, PodGroupState::n_unscheduled));
            members.push(popped);
            let others = state.into_iter().flat_map(PodGroupState::unscheduled);
            for pod in others.filter(|other| other.uid != first.uid) {
                members.extend(queue.pop_specific(&Entry(pod.clone()), policy.now, policy));
            }
            members
        })
    }

    /// A pod's attempt is over as far as the queue goes: events cannot help it any more.
    pub(crate) fn done(&mut self, uid: &str) {
        self.with_queue(|queue, _| queue.done(uid));
    }

    /// Hands a failed pod back to the queue.
    pub(crate) fn requeue(&mut self, queued: QueuedPod<Entry>) {
        let result = self.with_queue(|queue, policy| {
            queue.add_unschedulable_if_not_present(queued, policy.now, policy)
        });
        if let Err(error) = result {
            self.note(error.to_string());
        }
    }

    /// Has pods tried again, whatever their backoff.
    pub(crate) fn activate(&mut self, pods: impl IntoIterator<Item = Arc<Pod>>) {
        let entries: Vec<Entry> = pods.into_iter().map(Entry).collect();
        self.with_queue(|queue, policy| queue.activate(&entries, policy.now, policy));
    }

    /// Makes pods wait as after the `n_errors`-th error in a row, if they are in the queue and not ready.
    pub(crate) fn back_off(&mut self, pods: impl IntoIterator<Item = Arc<Pod>>, n_errors: u32) {
        for pod in pods {
            self.with_queue(|queue, policy| {
                queue.back_off(&Entry(pod), n_errors, policy.now, policy);
            });
        }
    }

    /// As [`activate`](Self::activate) for all members of a group that have no node, except one. Every member of a large gang
    /// asks for this, so it does nothing if the queue has not changed since the last call other than by members that were placed.
    pub(crate) fn activate_group(&mut self, group: GroupKey, except: &str) {
        let now = (group, self.n_queue_changes);
        if self.activated.as_ref() == Some(&now) {
            return;
        }
        let ((namespace, name), _) = &now;
        let state = self.cluster.pod_group(namespace, name);
        let members = state.into_iter().flat_map(PodGroupState::unscheduled);
        let members: Vec<Arc<Pod>> =
            members.filter(|member| *member.uid != *except).cloned().collect();
        self.activate(members);
        self.activated = Some((now.0, self.n_queue_changes));
    }

    /// Reports an event to the queue; pods that it may help are moved.
    pub(crate) fn move_all(
        &mut self,
        event: &ClusterEvent,
        old: Option<&EventObject>,
        new: Option<&EventObject>,
    ) {
        self.with_queue(|queue, policy| queue.move_all(event, old, new, policy.now, policy));
    }

    /// As [`move_all`](Self::move_all), and only those pods that `may_move`.
    pub(crate) fn move_all_if(
        &mut self,
        event: &ClusterEvent,
        old: &EventObject,
        new: Option<&EventObject>,
        may_move: impl Fn(&Pod) -> bool,
    ) {
        self.with_queue(|queue, policy| {
            queue.move_all_if(event, Some(old), new, |entry| may_move(&entry.0), policy.now, policy)
        });
    }

    /// Reports to the queue, for those pods that `may_move`, an object that is not about to be written any more: what it was to get
    /// is free again, unless it was written. A plugin's hint looks at both forms.
    ///
    /// Parity: the reference reports nothing. Pods that were rejected because of such an object wait for time alone.
    pub(crate) fn report_released_object(
        &mut self,
        released: Arc<Object>,
        may_move: impl Fn(&Pod) -> bool,
    ) {
        let Object { group, kind, namespace, name, .. } = &*released;
        let present = self.cluster.objects().get(group, kind, namespace, name);
        let present = present.filter(|present| present.uid == released.uid).cloned();
        let resource = resource_of(&released, &self.plans.custom_resources);
        let event = ClusterEvent::new(resource, ActionType::UPDATE);
        let (old, new) = (EventObject::Other(released), present.map(EventObject::Other));
        self.move_all_if(&event, &old, new.as_ref(), may_move);
    }

    /// A nomination has ended: what it kept free is there for pods of the same priority or less. The pod is as it was, with the
    /// nomination or with that node's name.
    pub(crate) fn nomination_ended(&mut self, pod: &Arc<Pod>) {
        let object = EventObject::Pod(pod.clone());
        let limit = pod.priority();
        let event = &ClusterEvent::ASSIGNED_POD_DELETE;
        self.move_all_if(event, &object, None, |other| other.priority() <= limit);
    }

    /// Records an event about each running pod whose affinity terms are ignored for other pods, once for each pod.
    pub(crate) fn record_ignored_terms(&mut self) {
        for (pod, note) in self.term_limits.take_unreported() {
            let profiles = &self.plans.profiles;
            let profile = profiles.of(&pod).map(|profile| &profiles[profile]);
            let reporting = profile.or(profiles.0.first()).map(|it| it.scheduler_name.clone());
            let event = PodEvent {
                kind: EventKind::Warning,
                reason: "AffinityIgnored".into(),
                action: "Scheduling".into(),
                note,
                reporting: reporting.unwrap_or_default(),
                related: None,
            };
            self.record(&pod, event);
        }
    }

    /// Has an event recorded about a pod.
    pub(crate) fn record(&mut self, pod: &Pod, event: PodEvent) {
        let PodEvent { kind, reason, action, note, reporting, related } = event;
        self.effects.push(Effect::RecordEvent {
            pod: PodRef::from(pod),
            resource_version: pod.resource_version.clone(),
            related,
            kind,
            reason,
            action,
            note,
            reporting,
        });
    }

    /// Keeps a line for the log.
    pub(crate) fn note(&mut self, note: String) {
        if self.notes.len() < MAX_NOTES {
            self.notes.push(note);
        }
    }
}

/// At most 1,024 bytes; a longer text is cut and says so.
pub(crate) fn truncated(message: &str) -> String {
    const SUFFIX: &str = " ...";
    if message.len() <= MAX_NOTE_LEN {
        return message.to_owned();
    }
    let mut end = MAX_NOTE_LEN - SUFFIX.len();
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{SUFFIX}", &message[..end])
}
