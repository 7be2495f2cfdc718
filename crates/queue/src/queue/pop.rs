//! Taking the next pod for an attempt, and ending the attempt.

use kube_scheduler_primitives::Timestamp;

use super::SchedulingQueue;
use crate::entry::{HintObject, QueueEntry, QueuedPod};
use crate::event::EventLabel;
use crate::heap::Slot;
use crate::policy::QueuePolicy;
use crate::records::{Place, QueueName};

impl<E: QueueEntry, O: HintObject<E>> SchedulingQueue<E, O> {
    /// Takes the next pod to try, `None` if none is ready. The pod is in flight until the caller reports the end of the
    /// attempt with [`done`](Self::done) or
    /// [`add_unschedulable_if_not_present`](Self::add_unschedulable_if_not_present).
    ///
    /// When the active queue is empty and pods may be popped from backoff, this is the rejected pod whose backoff ends first;
    /// pods whose attempt ended with an error always wait for their backoff.
    pub fn pop<P>(&mut self, policy: &P) -> Option<QueuedPod<E>>
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        loop {
            let slot = match self.active.pop(&self.records, policy) {
                Some(slot) => slot,
                None => self.pop_from_backoff(policy)?,
            };
            if let Some(pod) = self.take_off(slot, policy) {
                return Some(pod);
            }
        }
    }

    /// Whether a pod is ready for [`pop`](Self::pop). Even so `pop` returns `None` if every ready pod is a duplicate of
    /// one in flight.
    pub fn has_ready(&self) -> bool {
        !self.active.is_empty() || (self.settings.pop_from_backoff && self.backoff.has_rejected())
    }

    /// Takes a given pod, ready or not: for schedulers that try the members of a pod group together. `None` if the pod is
    /// unknown, in flight or gated, or has to [wait](QueuedPod::wait_until).
    pub fn pop_specific<P>(
        &mut self,
        entry: &E,
        now: Timestamp,
        policy: &mut P,
    ) -> Option<QueuedPod<E>>
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        let slot = self.records.find_entry(entry)?;
        self.activate_slot(slot, now, policy);
        if self.records.place(slot) != Some(Place::Active) {
            return None;
        }
        self.take_off(slot, policy)
    }

    /// Ends the attempt of a pod that was scheduled or will not be tried: it is no longer in flight, and no more events are
    /// recorded for it.
    pub fn done(&mut self, uid: &str) {
        self.in_flight.done(uid);
    }

    fn pop_from_backoff<P>(&mut self, policy: &P) -> Option<Slot>
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        if !self.settings.pop_from_backoff {
            return None;
        }
        let slot = self.backoff.pop_rejected(&self.settings, &self.records, policy)?;
        self.counters.incoming(QueueName::Active, &EventLabel::POP_FROM_BACKOFF);
        Some(slot)
    }

    /// Puts a pod in flight; `None`, and the pod is dropped, if one with its UID is in flight already.
    fn take_off<P>(&mut self, slot: Slot, policy: &P) -> Option<QueuedPod<E>>
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        let mut pod = self.remove(slot, policy)?;
        pod.attempts += 1;
        self.in_flight.pop(pod.entry.clone()).then_some(pod)
    }
}
