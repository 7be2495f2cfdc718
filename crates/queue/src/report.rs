//! What the queue reports of its work to an owner that writes a log.

use crate::event::EventLabel;
use crate::policy::Requeue;
use crate::records::QueueName;
use crate::rejectors::RejectorSet;

/// A step of the queue. Kept only on request, see [`SchedulingQueue::keep_reports`](crate::SchedulingQueue::keep_reports).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueReport<E> {
    /// A pod came into a queue.
    Moved(Move<E>),
    /// An event did not move a pod, because no plugin that rejects the pod expects it to help.
    NotHelped {
        /// The pod.
        entry: E,
        /// The event.
        event: EventLabel,
    },
    /// An event was recorded for pods whose attempts are under way.
    SeenInFlight(EventLabel),
}

/// A pod that came into a queue, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move<E> {
    /// The pod that was moved.
    pub entry: E,
    /// The event that moved it.
    pub event: EventLabel,
    /// The queue that it is in now.
    pub queue: QueueName,
    /// After a failed attempt: what the events that the pod missed mean for it, by the reference's name.
    pub hint: Option<&'static str>,
    /// Whether a gate held it on its way to another queue.
    pub is_gated: bool,
    /// Whether a change of the pod itself moved it.
    pub is_update: bool,
    /// The plugins that rejected the pod in its last attempt, or gate it.
    pub rejectors: RejectorSet,
}

/// Reports that the owner has not fetched; none are kept unless it asks for them.
#[derive(Clone, Debug)]
pub(crate) struct Reports<E>(Option<Vec<QueueReport<E>>>);

impl<E> Default for Reports<E> {
    fn default() -> Self {
        Self(None)
    }
}

impl<E> Reports<E> {
    pub(crate) fn keep(&mut self, keeps: bool) {
        if keeps != self.0.is_some() {
            self.0 = keeps.then(Vec::new);
        }
    }

    /// Whether anything is reported.
    pub(crate) fn are_kept(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn take(&mut self) -> Vec<QueueReport<E>> {
        self.0.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Adds a report; `report` is called only if reports are kept.
    #[inline]
    pub(crate) fn add(&mut self, report: impl FnOnce() -> QueueReport<E>) {
        if let Some(reports) = &mut self.0 {
            reports.push(report());
        }
    }

    /// Changes the report of the last move.
    pub(crate) fn amend_last(&mut self, amend: impl FnOnce(&mut Move<E>)) {
        if let Some(QueueReport::Moved(last)) = self.0.as_mut().and_then(|all| all.last_mut()) {
            amend(last);
        }
    }
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
