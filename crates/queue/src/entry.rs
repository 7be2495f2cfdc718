//! A pod as the queue keeps it: what it must know of the pod, and what it remembers about its attempts.
//!
//! Answers to `QueuedPodInfo` of the reference.
//!
//! Invariants: the rejector sets survive a pop, so that a successful attempt can still log them; counters only change
//! when the pod is popped or comes back; the first-attempt stamp is set once.

use std::time::Duration;

use kube_scheduler_primitives::Timestamp;

use crate::policy::Signature;
use crate::profile::ProfileId;
use crate::rejectors::{RejectorId, RejectorSet};

/// What the queue must know of a pod. Clones should be cheap: the usual entry is a reference-counted pod.
///
/// In the queues two entries with equal namespace and name are the same pod. Pods in flight and nominated pods are
/// identified by UID.
pub trait QueueEntry: Clone {
    /// The pod's UID.
    fn uid(&self) -> &str;

    /// The pod's namespace.
    fn namespace(&self) -> &str;

    /// The pod's name.
    fn name(&self) -> &str;

    /// The name of the profile that schedules the pod.
    fn scheduler_name(&self) -> &str;

    /// The node that the pod's status nominates, if any. An empty name counts as none.
    fn nominated_node_name(&self) -> Option<&str>;

    /// Whether the pod has a node already.
    fn is_assigned(&self) -> bool;

    /// Whether the pod belongs to a pod group (and groups are enabled at all).
    ///
    /// A member that comes back with rejectors waits for its backoff, whatever happened meanwhile.
    fn is_group_member(&self) -> bool {
        false
    }
}

/// What the queue must know of the objects that events are about. The queue hands them on to the queueing hints and reads
/// little of them itself.
pub trait HintObject<E>: Clone {
    /// The object that stands for a queued pod in events about that pod.
    fn from_entry(entry: &E) -> Self;

    /// Whether this object is the pod with this UID. Always false for objects of other kinds.
    fn is_pod(&self, uid: &str) -> bool;
}

/// A pod with what the queue remembers about it.
#[derive(Clone, Debug)]
pub struct QueuedPod<E> {
    pub(crate) entry: E,
    pub(crate) profile: ProfileId,
    pub(crate) timestamp: Timestamp,
    pub(crate) initial_attempt: Option<Timestamp>,
    pub(crate) attempts: u32,
    pub(crate) unschedulable_count: u32,
    pub(crate) consecutive_errors: u32,
    pub(crate) not_before: Option<Timestamp>,
    pub(crate) was_flushed: bool,
    pub(crate) signature_is_stale: bool,
    pub(crate) signature: Option<Signature>,
    pub(crate) gated_by: Option<RejectorId>,
    pub(crate) unschedulable_plugins: RejectorSet,
    pub(crate) pending_plugins: RejectorSet,
}

impl<E> QueuedPod<E> {
    pub(crate) fn new(
        entry: E,
        profile: ProfileId,
        signature: Option<Signature>,
        now: Timestamp,
    ) -> Self {
        Self {
            entry,
            profile,
            timestamp: now,
            initial_attempt: None,
            attempts: 0,
            unschedulable_count: 0,
            consecutive_errors: 0,
            not_before: None,
            was_flushed: false,
            signature_is_stale: false,
            signature,
            gated_by: None,
            unschedulable_plugins: RejectorSet::new(),
            pending_plugins: RejectorSet::new(),
        }
    }

    /// The entry that the caller has added: in a scheduler the pod.
    pub const fn entry(&self) -> &E {
        &self.entry
    }

    /// Replaces the pod by a newer version of itself, as failure handling does before it returns the pod to the queue.
    ///
    /// Parity: the reference keeps the batching signature of the old state, which may then be wrong; here it is
    /// dropped, and computed again when the pod is back.
    pub fn replace_entry(&mut self, entry: E) {
        self.entry = entry;
        self.signature = None;
        self.signature_is_stale = true;
    }

    /// The number of the profile that the pod's scheduler name names.
    pub const fn profile(&self) -> ProfileId {
        self.profile
    }

    /// When the pod was created in the queue or last came back from an attempt.
    pub const fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    /// When the pod was first ready to be tried; `None` before. Time spent behind gates before that does not count as
    /// waiting.
    pub const fn initial_attempt_timestamp(&self) -> Option<Timestamp> {
        self.initial_attempt
    }

    /// How often the pod was popped.
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// How often the pod came back rejected by plugins.
    pub const fn unschedulable_count(&self) -> u32 {
        self.unschedulable_count
    }

    /// How often in a row the pod came back with an error.
    pub const fn consecutive_errors(&self) -> u32 {
        self.consecutive_errors
    }

    /// Whether the last move out of the unschedulable pods was for waiting too long.
    ///
    /// Parity: the reference loses this flag when the record is copied on assume, so its metric of pods scheduled after a
    /// flush is always zero. Here a copy keeps it.
    pub const fn was_flushed_from_unschedulable(&self) -> bool {
        self.was_flushed
    }

    /// The [signature](crate::QueuePolicy::signature) that the policy computed for the pod; `None` if it has none, or if it
    /// is stale because the entry was replaced.
    pub const fn signature(&self) -> Option<Signature> {
        self.signature
    }

    /// The PreEnqueue plugin that keeps the pod out of the active queue, if any.
    pub const fn gated_by(&self) -> Option<RejectorId> {
        self.gated_by
    }

    /// Whether a PreEnqueue plugin keeps the pod out of the active queue.
    pub const fn is_gated(&self) -> bool {
        self.gated_by.is_some()
    }

    /// The plugins that rejected the pod in its last attempt, and those that gated it since.
    pub const fn unschedulable_plugins(&self) -> &RejectorSet {
        &self.unschedulable_plugins
    }

    /// The plugins that rejected the pod with "pending": they wait for something that is already on its way, so their
    /// events make the pod ready without backoff.
    pub const fn pending_plugins(&self) -> &RejectorSet {
        &self.pending_plugins
    }

    /// Every plugin whose events may make the pod schedulable.
    pub fn rejectors(&self) -> RejectorSet {
        self.unschedulable_plugins.union(&self.pending_plugins)
    }

    /// Whether `plugin` is among the [rejectors](Self::rejectors).
    pub(crate) fn is_rejected_by(&self, plugin: RejectorId) -> bool {
        self.unschedulable_plugins.contains(plugin) || self.pending_plugins.contains(plugin)
    }

    /// Whether any plugin rejected the pod. A failed attempt without rejectors is an error.
    pub(crate) fn has_rejectors(&self) -> bool {
        !self.unschedulable_plugins.is_empty() || !self.pending_plugins.is_empty()
    }

    /// Makes the backoff after the attempt that has failed last at least until `at`. Until then the pod is not popped early because
    /// nothing else is ready, [activated](crate::SchedulingQueue::activate), or
    /// [taken](crate::SchedulingQueue::pop_specific) with others. Only an event of a [pending
    /// plugin](Self::pending_plugins) makes it ready.
    pub const fn wait_until(&mut self, at: Timestamp) {
        self.not_before = Some(at);
    }

    /// The time that was set with [`wait_until`](Self::wait_until).
    pub(crate) const fn waits_until(&self) -> Option<Timestamp> {
        self.not_before
    }

    /// Forgets all rejectors, the gate, and until when to [wait](Self::wait_until). To be called at the start of failure
    /// handling, before the rejectors of the failed attempt are added.
    pub fn clear_rejectors(&mut self) {
        self.unschedulable_plugins.clear();
        self.pending_plugins.clear();
        self.gated_by = None;
        self.not_before = None;
    }

    /// Records that `plugin` rejected the pod: its events may make the pod schedulable, after backoff.
    pub fn add_unschedulable_plugin(&mut self, plugin: RejectorId) {
        self.unschedulable_plugins.insert(plugin);
    }

    /// Records that `plugin` rejected the pod with "pending": its events make the pod ready without backoff.
    pub fn add_pending_plugin(&mut self, plugin: RejectorId) {
        self.pending_plugins.insert(plugin);
    }

    /// How long the pod has been waiting at `now` since it was first ready; zero if it never was.
    pub fn waited(&self, now: Timestamp) -> Duration {
        self.initial_attempt.map_or(Duration::ZERO, |start| now.saturating_since(start))
    }
}
