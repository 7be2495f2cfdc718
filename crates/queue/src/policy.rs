//! What the owner of a queue decides for it: order, gates, hints, signatures, and which pods exist.

use std::num::NonZeroU64;

use crate::entry::QueuedPod;
use crate::event::EventLabel;
use crate::profile::{HintId, ProfileId};
use crate::rejectors::RejectorId;

/// The decisions that the queue leaves to its owner. The policy is an argument of every operation that may need it, so that
/// it can borrow from the owner's state for the length of the call.
///
/// Answers must not depend on anything that changes during one operation, and the callbacks must not call back into the
/// queue (the borrow checker sees to it).
pub trait QueuePolicy<E, O> {
    /// QueueSort: whether `a` must be popped before `b`. Pods of which neither precedes the other leave first in, first out.
    ///
    /// Must be a strict weak order. Not called while [`sort_key`](Self::sort_key) gives keys.
    fn precedes(&self, a: &QueuedPod<E>, b: &QueuedPod<E>) -> bool;

    /// The order of [`precedes`](Self::precedes) as a key, smallest first, if it can be expressed as one: `(-priority, timestamp)` for
    /// the default sort. It is computed once per insertion and saves most of the cost of comparing.
    ///
    /// Either every pod has a key or none has, for the whole life of a queue.
    fn sort_key(&self, pod: &QueuedPod<E>) -> Option<(i64, i64)> {
        let _ = pod;
        None
    }

    /// PreEnqueue: whether `plugin` lets the pod into the active queue. `profile` is the pod's own.
    ///
    /// A plugin that fails must answer [`Gate`](PreEnqueueVerdict::Gate); logging the failure is up to the owner.
    fn pre_enqueue(
        &mut self,
        entry: &E,
        profile: ProfileId,
        plugin: RejectorId,
    ) -> PreEnqueueVerdict;

    /// Called before the PreEnqueue plugins of a pod of this profile run; for measurements.
    fn gates_begin(&mut self, profile: ProfileId) {
        let _ = profile;
    }

    /// Called after the PreEnqueue plugins of a pod of this profile ran; for measurements.
    fn gates_end(&mut self, profile: ProfileId) {
        let _ = profile;
    }

    /// Runs one queueing hint: whether the event on these objects may make the pod schedulable. `event` is what came in,
    /// not what the plugin registered for.
    ///
    /// A hint that fails must answer [`Queue`](QueueingHint::Queue): the event will not come again, and the pod would wait for it
    /// for ever.
    fn hint(
        &mut self,
        hint: HintId,
        event: &EventLabel,
        entry: &E,
        old: Option<&O>,
        new: Option<&O>,
    ) -> QueueingHint;

    /// The topics of a pod, for this queueing hint; `None` if the hint has none, whatever the pod.
    ///
    /// The hint is asked about a pod and an event only if they share a topic. So where it would answer [`Queue`](QueueingHint::Queue),
    /// they must share one, or one of them must have [all](Topics::All). Must depend on the pod alone.
    fn pod_topics(&self, hint: HintId, entry: &E) -> Option<Topics> {
        let _ = (hint, entry);
        None
    }

    /// The topics of an event on these objects, for this queueing hint: [all](Topics::All) if the hint has none. See
    /// [`pod_topics`](Self::pod_topics).
    fn event_topics(&self, hint: HintId, old: Option<&O>, new: Option<&O>) -> Topics {
        let _ = (hint, old, new);
        Topics::All
    }

    /// What is equal for pods that are scheduled alike; `None` if the pod cannot share a decision with others. The
    /// queue keeps it with the pod and does not read it. Called for every new or updated pod.
    fn signature(&mut self, entry: &E, profile: ProfileId) -> Option<Signature> {
        let _ = (entry, profile);
        None
    }

    /// The pod of this name as last seen by the informer. A pod is nominated only if it exists and has no node.
    fn latest(&self, namespace: &str, name: &str) -> Option<E>;
}

/// Numbers by which pods are known to be scheduled alike. They stay what they are until the pod changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Pods of which this is equal are scheduled alike in any case.
    pub strict: NonZeroU64,
    /// Pods of which this is equal are scheduled alike as long as the owner knows that what they differ in does not matter, which
    /// may change at any time. The same as [`strict`](Self::strict) for a pod of which that is never known.
    pub loose: NonZeroU64,
}

impl Signature {
    /// Of a pod for which one number says it all.
    pub const fn new(number: NonZeroU64) -> Self {
        Self { strict: number, loose: number }
    }
}

/// The answer of a PreEnqueue plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreEnqueueVerdict {
    /// The pod may be tried.
    Admit,
    /// The pod must wait for one of the plugin's events.
    Gate,
}

/// The answer of a queueing hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueingHint {
    /// The event does not help the pod.
    Skip,
    /// The event may make the pod schedulable.
    Queue,
}

impl QueueingHint {
    /// [`Queue`](Self::Queue) if the event may help the pod, else [`Skip`](Self::Skip).
    pub const fn queue_if(may_help: bool) -> Self {
        if may_help { Self::Queue } else { Self::Skip }
    }
}

/// What a pod waits for, or what an event is about, so that a queueing hint is not asked about every pod at every event.
///
/// A topic is any number, such as the hash of a name. That two things have the same number costs a question too many and changes
/// nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topics {
    /// Any topic: the hint is asked whatever the other side has.
    All,
    /// These, and nothing else. They may be repeated.
    Only(Vec<u64>),
}

/// Where a pod goes after an event or a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Requeue {
    /// The pod stays with the unschedulable pods.
    Skip,
    /// It is tried again when its backoff is over.
    AfterBackoff,
    /// The pod is tried again without backoff.
    Immediately,
}

/// Which node a pod is to be nominated to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nomination<'a> {
    /// The node in the pod's status, if any.
    Noop,
    /// This node, whatever is in the status; an empty name withdraws the nomination.
    Override(&'a str),
}
