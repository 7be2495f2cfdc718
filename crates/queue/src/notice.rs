//! What the queue would log if it could.

use crate::event::EventLabel;
use crate::plugins::PluginSet;
use crate::policy::Requeue;
use crate::records::Queue;

/// Something worth a line in a log. Collected only on request, see [`SchedulingQueue::observe`](crate::SchedulingQueue::observe).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice<E> {
    /// A pod came into a queue.
    Moved(Move<E>),
    /// A popped pod was thrown away because one with its UID is in flight.
    DiscardedDuplicate(E),
    /// A pod came back that was not in flight; what happened during its attempt is unknown.
    NotInFlight(E),
    /// No profile has the pod's scheduler name, so that every event counts as a reason to try again.
    UnknownProfile(E),
}

/// A pod came into a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move<E> {
    /// The pod.
    pub entry: E,
    /// Why.
    pub event: EventLabel,
    /// Where to.
    pub queue: Queue,
    /// What hints decided, where they were asked.
    pub requeue: Option<Requeue>,
    /// The pod's rejectors.
    pub rejectors: PluginSet,
    /// How many pods had been popped by then.
    pub scheduling_cycle: u64,
}
