//! What passing time changes: backoffs end, and pods that waited too long for an event are tried again.
//!
//! The queue has no clock. Its owner calls the flushes from time to time (the reference: every second, and every 30 s), or
//! sleeps until [`next_deadline`](SchedulingQueue::next_deadline) and calls [`flush_due`](SchedulingQueue::flush_due).

use std::time::Duration;

use kube_scheduler_primitives::Timestamp;

use super::SchedulingQueue;
use crate::entry::{HintObject, QueueEntry};
use crate::event::{ClusterEvent, EventLabel};
use crate::policy::QueuePolicy;
use crate::records::QueueName;

impl<E: QueueEntry, O: HintObject<E>> SchedulingQueue<E, O> {
    /// Makes the pods ready whose backoff is over at `now`. Returns their number.
    pub fn flush_backoff_completed<P>(&mut self, now: Timestamp, policy: &mut P) -> usize
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        let mut n_ready = 0;
        while let Some(slot) =
            self.backoff.pop_completed(now, &self.settings, &self.records, policy)
        {
            let label = &EventLabel::BACKOFF_COMPLETE;
            if self.send_to_active(slot, label, true, now, policy) == QueueName::Active {
                n_ready += 1;
            }
        }
        n_ready
    }

    /// Moves the pods that have been unschedulable for longer than
    /// [`max_in_unschedulable`](crate::QueueSettings::max_in_unschedulable) to backoff or makes them ready, except gated
    /// ones.
    ///
    /// If there are such pods (gated ones included), a pod in flight that comes back rejected will wait for its backoff
    /// only, as if everything had changed.
    pub fn flush_unschedulable_leftover<P>(&mut self, now: Timestamp, policy: &mut P)
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        let mut candidates = std::mem::take(&mut self.candidates);
        self.unschedulable.collect_older(now - self.settings.max_in_unschedulable, &mut candidates);
        if candidates.is_empty() {
            self.candidates = candidates;
            return;
        }
        for &(seq, slot) in &candidates {
            if let Some(record) = self.records.get_mut(slot)
                && !record.pod.was_flushed
            {
                record.pod.was_flushed = true;
                self.index_parked(slot, seq, policy);
            }
        }
        let event = ClusterEvent::UNSCHEDULABLE_TIMEOUT;
        let id = self.profiles.resolve(&event);
        self.move_candidates(candidates, id, &event, None, None, now, policy);
        self.log_event(&event, None, None);
    }

    /// The earliest time at which one of the flushes has something to do; in the past if it has already. `None` if only
    /// events or additions can change anything.
    ///
    /// Gated pods that the leftover flush has seen once do not count: it would see them again and leave them alone.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        match (self.next_backoff_deadline(), self.next_leftover_deadline()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// As [`next_deadline`](Self::next_deadline), for [`flush_backoff_completed`](Self::flush_backoff_completed).
    fn next_backoff_deadline(&self) -> Option<Timestamp> {
        self.backoff.next_release(&self.settings)
    }

    /// As [`next_deadline`](Self::next_deadline), for
    /// [`flush_unschedulable_leftover`](Self::flush_unschedulable_leftover).
    fn next_leftover_deadline(&self) -> Option<Timestamp> {
        let since = self.unschedulable.oldest_waiting()?;
        Some(since + self.settings.max_in_unschedulable + Duration::from_nanos(1))
    }

    /// Runs the flushes whose deadline has come.
    pub fn flush_due<P>(&mut self, now: Timestamp, policy: &mut P)
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        if self.next_backoff_deadline().is_some_and(|deadline| deadline <= now) {
            self.flush_backoff_completed(now, policy);
        }
        if self.next_leftover_deadline().is_some_and(|deadline| deadline <= now) {
            self.flush_unschedulable_leftover(now, policy);
        }
    }
}
