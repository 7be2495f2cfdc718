//! Adding, updating and deleting pods, and activating them at the request of a plugin.

use kube_scheduler_primitives::Timestamp;

use super::SchedulingQueue;
use crate::action::ActionType;
use crate::entry::{HintObject, QueueEntry, QueuedPod};
use crate::event::{ClusterEvent, EventLabel};
use crate::gates;
use crate::heap::Slot;
use crate::in_flight::LoggedEvent;
use crate::policy::{QueuePolicy, Requeue};
use crate::records::{Place, QueueName};

impl<E: QueueEntry, O: HintObject<E>> SchedulingQueue<E, O> {
    /// Adds a pod that has no node: to the active queue, or to the unschedulable pods if a PreEnqueue plugin gates it.
    /// Returns the queue that the pod is in afterwards.
    ///
    /// A queued pod of the same name is replaced, unless that one is ready or in backoff and the new one is gated.
    pub fn add<P>(&mut self, entry: E, now: Timestamp, policy: &mut P) -> QueueName
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        let pod = self.new_pod(entry, now, policy);
        self.admit(pod, &EventLabel::UNSCHEDULABLE_POD_ADD, now, policy)
    }

    /// Replaces a pod that has no node by a newer version. `events` are the kinds of change, one event each, or one generic
    /// update.
    ///
    /// For a pod in flight only the events are recorded; failure handling picks up the new state. A pod in the
    /// active or backoff queue stays there. An unschedulable pod is tried again if the change helps it. An unknown pod is
    /// added.
    pub fn update<P>(
        &mut self,
        old: &E,
        new: E,
        events: &[ClusterEvent],
        now: Timestamp,
        policy: &mut P,
    ) where
        P: QueuePolicy<E, O> + ?Sized,
    {
        if self.in_flight.contains(new.uid()) {
            let old = O::from_entry(old);
            let new = O::from_entry(&new);
            for event in events {
                self.log_event(event, Some(&old), Some(&new));
            }
            return;
        }
        let Some(slot) = self.records.find_entry(&new) else {
            let pod = self.new_pod(new, now, policy);
            self.admit(pod, &EventLabel::UNSCHEDULABLE_POD_UPDATE, now, policy);
            return;
        };
        let was_parked = self.records.place(slot) == Some(Place::Unschedulable);
        let objects = was_parked.then(|| (O::from_entry(old), O::from_entry(&new)));
        self.replace_entry(slot, old, new, policy);
        let Some((old, new)) = objects else { return };
        if !self.settings.uses_hints {
            if events.iter().any(|event| event.action() != ActionType::UPDATE) {
                let label = EventLabel::UNSCHEDULABLE_POD_UPDATE;
                self.requeue(slot, Requeue::AfterBackoff, &label, now, policy);
            }
            return;
        }
        for event in events {
            let requeue = self.worth(slot, event, Some(&old), Some(&new), policy);
            // Parity: without early pops the reference looks at the remaining events even after the pod went to backoff, and
            // may then have it in two queues. Here the first move ends it.
            if self.requeue(slot, requeue, &event.label(), now, policy) != QueueName::Unschedulable
            {
                self.reports.amend_last(|last| last.is_update = true);
                return;
            }
        }
    }

    /// Removes a pod that was deleted or got a node, with its nomination. A pod in flight stays in flight.
    pub fn delete<P>(&mut self, entry: &E, policy: &P)
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        self.nominator.remove(entry.uid());
        if let Some(slot) = self.records.find_entry(entry) {
            self.remove(slot, policy);
        }
    }

    /// Makes queued pods ready now, without waiting for events or backoff, unless a PreEnqueue plugin gates them or they have
    /// to [wait](QueuedPod::wait_until). A pod in flight whose attempt fails waits for its backoff only. Unknown pods are
    /// ignored. Returns the number of pods that became ready.
    pub fn activate<P>(&mut self, entries: &[E], now: Timestamp, policy: &mut P) -> usize
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        let mut n_activated = 0;
        for entry in entries {
            if self.try_activate(entry, now, policy) {
                n_activated += 1;
            } else if self.in_flight.contains(entry.uid()) {
                let object = O::from_entry(entry);
                self.log_event(&ClusterEvent::FORCE_ACTIVATE, None, Some(&object));
            }
        }
        n_activated
    }

    /// Moves the pod of this name from the unschedulable pods or from backoff to the active queue.
    fn try_activate<P>(&mut self, entry: &E, now: Timestamp, policy: &mut P) -> bool
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        let slot = self.records.find_entry(entry);
        slot.is_some_and(|slot| self.activate_slot(slot, now, policy))
    }

    /// Moves a pod from the unschedulable pods or from backoff to the active queue.
    pub(super) fn activate_slot<P>(&mut self, slot: Slot, now: Timestamp, policy: &mut P) -> bool
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        let from_backoff = match self.records.place(slot) {
            Some(Place::Unschedulable) => false,
            Some(Place::Backoff | Place::ErrorBackoff) => true,
            Some(Place::Active) | None => return false,
        };
        let until = self.records.pod(slot).and_then(QueuedPod::waits_until);
        if until.is_some_and(|until| now < until) {
            return false;
        }
        let label = ClusterEvent::FORCE_ACTIVATE.label();
        self.send_to_active(slot, &label, from_backoff, now, policy) == QueueName::Active
    }

    /// Makes an unschedulable pod wait as after an attempt that met an error, the `n_errors`-th in a row: it comes back after its backoff,
    /// not before, and whatever events come. Nothing happens to a pod that is elsewhere, that is another one of this name, or that a
    /// gate holds back.
    pub fn back_off<P>(&mut self, entry: &E, n_errors: u32, now: Timestamp, policy: &mut P)
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        let slot = self.records.find_entry(entry).filter(|slot| {
            let is_same = |pod: &QueuedPod<E>| pod.entry.uid() == entry.uid();
            self.records.place(*slot) == Some(Place::Unschedulable)
                && self.records.pod(*slot).is_some_and(is_same)
        });
        let Some(slot) = slot else { return };
        let label = EventLabel::SCHEDULE_ATTEMPT_FAILURE;
        // The plugin that holds it back brings it back, through events that find it by its rejectors.
        if self.is_held(slot, policy) {
            return self.park(slot, &label, policy);
        }
        // While it is parked, it is found by its rejectors.
        self.detach(slot, policy);
        if let Some(record) = self.records.get_mut(slot) {
            self.counters.leave(&record.pod);
            record.pod.clear_rejectors();
            record.pod.consecutive_errors = n_errors;
            record.pod.timestamp = now;
        }
        self.requeue(slot, Requeue::AfterBackoff, &label, now, policy);
    }

    /// Records an event for the pods in flight. False if there are none.
    pub(super) fn log_event(
        &mut self,
        event: &ClusterEvent,
        old: Option<&O>,
        new: Option<&O>,
    ) -> bool {
        if self.in_flight.is_empty() {
            return false;
        }
        let resolved = self.profiles.resolve(event);
        self.in_flight.note(LoggedEvent {
            event: event.clone(),
            resolved,
            old: old.cloned(),
            new: new.cloned(),
        });
        true
    }

    /// Lets a new record in. It takes the place of a record of the same name, unless it is gated and the other is not.
    fn admit<P>(
        &mut self,
        mut pod: QueuedPod<E>,
        label: &EventLabel,
        now: Timestamp,
        policy: &mut P,
    ) -> QueueName
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        let profile = pod.profile;
        gates::run(&mut pod, self.profiles.gates(profile), policy);
        let is_gated = pod.is_gated();
        let existing = self.records.find_entry(&pod.entry);
        if let Some(slot) = existing {
            let place = self.records.place(slot);
            if is_gated
                && let Some(place @ (Place::Active | Place::Backoff | Place::ErrorBackoff)) = place
            {
                return place.queue();
            }
            if is_gated {
                self.swap_parked(slot, pod, policy);
                return QueueName::Unschedulable;
            }
            self.remove(slot, policy);
        }
        let slot = self.insert(pod);
        if is_gated {
            self.park(slot, label, policy);
            return QueueName::Unschedulable;
        }
        self.enter_active(slot, label, now, policy);
        QueueName::Active
    }

    /// Exchanges the record of a parked pod for another of the same name.
    fn swap_parked<P>(&mut self, slot: Slot, pod: QueuedPod<E>, policy: &P)
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        self.counters.enter(&pod);
        if let Some(record) = self.records.get_mut(slot) {
            let replaced = std::mem::replace(&mut record.pod, pod);
            self.counters.leave(&replaced);
        }
        let seq = self.seq();
        self.index_parked(slot, seq, policy);
    }

    /// Puts a newer state of the pod into its record, which stays where it is.
    fn replace_entry<P>(&mut self, slot: Slot, old: &E, new: E, policy: &mut P)
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        let profile = self.profiles.intern(new.scheduler_name());
        let signature = policy.signature(&new, profile);
        let Some(record) = self.records.get_mut(slot) else { return };
        let place = record.place;
        let pod = &mut record.pod;
        if pod.profile != profile {
            // Rejectors are counted by profile: they are taken off the old one before it is forgotten.
            self.counters.leave(pod);
            pod.profile = profile;
            self.counters.enter(pod);
        }
        pod.signature = signature;
        pod.signature_is_stale = false;
        pod.entry = new;
        self.nominator.update(old, &pod.entry, |namespace, name| policy.latest(namespace, name));
        // Only now that the record has the new state, by which it is sorted and indexed.
        match place {
            Some(Place::Active) => self.active.resort(slot, &self.records, policy),
            Some(Place::Backoff | Place::ErrorBackoff) => {
                self.backoff.resort(slot, &self.settings, &self.records, policy);
            }
            Some(Place::Unschedulable) => {
                let seq = self.seq();
                self.index_parked(slot, seq, policy);
            }
            None => {}
        }
    }
}
