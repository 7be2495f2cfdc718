//! What the queue tells of its moves to an owner that writes a log.

use crate::event::EventLabel;
use crate::plugins::PluginSet;
use crate::policy::Requeue;
use crate::records::Queue;

/// A pod came into a queue. Kept only on request, see [`SchedulingQueue::keep_moves`](crate::SchedulingQueue::keep_moves).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move<E> {
    /// The pod.
    pub entry: E,
    /// Why.
    pub event: EventLabel,
    /// Where to.
    pub queue: Queue,
    /// What the events that the pod missed meant for it, after a failed attempt: the reference's name of it.
    pub hint: Option<&'static str>,
    /// The plugins that reject the pod.
    pub rejectors: PluginSet,
}

impl Requeue {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Skip => "QueueSkip",
            Self::AfterBackoff => "QueueAfterBackoff",
            Self::Immediately => "QueueImmediately",
        }
    }
}
