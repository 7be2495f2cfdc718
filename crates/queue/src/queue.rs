//! The scheduling queue: its parts, and the steps that all operations are made of.
//!
//! Answers to `PriorityQueue` of the reference, with hints enabled. Operations are grouped by what triggers them: pods
//! that come, change and go ([`admit`]), taking the next pod ([`pop`]), failed attempts and events ([`requeue`]), time
//! ([`timers`]), nominations ([`nominate`]), and reading ([`inspect`]).
//!
//! Invariants: a pod is in at most one container; every pod with the unschedulable ones has a rejector; between operations
//! every record has a place. The order of moves within one operation is the order of parking.

mod admit;
mod inspect;
mod nominate;
mod pop;
mod requeue;
mod timers;

use kube_scheduler_primitives::Timestamp;

pub use self::inspect::NominatedPod;
pub use self::requeue::RequeueError;
use crate::active::ActiveQueue;
use crate::backoff::{Backoff, is_backing_off};
use crate::counters::Counters;
use crate::entry::{HintObject, QueueEntry, QueuedPod};
use crate::event::EventLabel;
use crate::gates;
use crate::heap::Slot;
use crate::hints;
use crate::in_flight::InFlightPods;
use crate::nominator::Nominator;
use crate::policy::{Nomination, QueuePolicy, Requeue};
use crate::profile::{ProfileSpec, Profiles, QueueSettings};
use crate::records::{Place, QueueName, Records};
use crate::rejectors::RejectorId;
use crate::report::{Move, QueueReport, Reports};
use crate::unschedulable::UnschedulablePods;

/// The pods waiting to be scheduled. See the [crate's documentation](crate).
///
/// `E` is a pod, `O` an object that events are about. Operations that need time take `now`, which must not go back;
/// operations that need a decision of the owner take a [`QueuePolicy`], which must decide by the same rules in every call.
#[derive(Clone, Debug)]
pub struct SchedulingQueue<E, O> {
    settings: QueueSettings,
    profiles: Profiles,
    records: Records<E>,
    active: ActiveQueue,
    backoff: Backoff,
    unschedulable: UnschedulablePods,
    in_flight: InFlightPods<E, O>,
    nominator: Nominator,
    counters: Counters,
    /// The pods that one operation looks at. Empty in between; kept so that its memory is used again.
    candidates: Vec<(u64, Slot)>,
    next_seq: u64,
    reports: Reports<E>,
}

impl<E: QueueEntry, O: HintObject<E>> SchedulingQueue<E, O> {
    /// An empty queue for these profiles. Of profiles with the same scheduler name the first counts.
    pub fn new(settings: QueueSettings, profiles: Vec<ProfileSpec>) -> Self {
        Self {
            settings,
            profiles: Profiles::new(profiles),
            records: Records::default(),
            active: ActiveQueue::default(),
            backoff: Backoff::default(),
            unschedulable: UnschedulablePods::default(),
            in_flight: InFlightPods::default(),
            nominator: Nominator::default(),
            counters: Counters::default(),
            candidates: Vec::new(),
            next_seq: 0,
            reports: Reports::default(),
        }
    }

    /// The number of a plugin, for rejector sets. A name that was not mentioned at construction gets a new number: that of a
    /// plugin that registered for nothing, or the empty name under which a waiting pod is rejected.
    pub fn intern_plugin(&mut self, name: &str) -> RejectorId {
        self.profiles.plugins.intern(name)
    }

    /// A record for a pod not known yet.
    fn new_pod<P>(&mut self, entry: E, now: Timestamp, policy: &mut P) -> QueuedPod<E>
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        let profile = self.profiles.intern(entry.scheduler_name());
        let signature = policy.signature(&entry, profile);
        QueuedPod::new(entry, profile, signature, now)
    }

    /// Stores a pod, in no container yet.
    fn insert(&mut self, pod: QueuedPod<E>) -> Slot {
        self.counters.enter(&pod);
        self.records.insert(pod)
    }

    /// Takes a pod out, wherever it is.
    fn remove<P>(&mut self, slot: Slot, policy: &P) -> Option<QueuedPod<E>>
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        self.detach(slot, policy);
        let pod = self.records.remove(slot)?;
        self.counters.leave(&pod);
        Some(pod)
    }

    /// Takes a pod out of its container. It must be given another one, or be removed.
    fn detach<P>(&mut self, slot: Slot, policy: &P)
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        let Some(place) = self.records.get_mut(slot).and_then(|record| record.place.take()) else {
            return;
        };
        match place {
            Place::Active => {
                self.active.remove(slot, &self.records, policy);
            }
            Place::Backoff | Place::ErrorBackoff => {
                self.backoff.remove(slot, &self.settings, &self.records, policy);
            }
            Place::Unschedulable => {
                self.unschedulable.unpark(slot);
            }
        }
    }

    /// Where a strategy sends a pod. It may still be parked, or in no container.
    fn requeue<P>(
        &mut self,
        slot: Slot,
        requeue: Requeue,
        label: &EventLabel,
        now: Timestamp,
        policy: &mut P,
    ) -> QueueName
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        let must_wait =
            || self.records.pod(slot).is_some_and(|pod| is_backing_off(pod, now, &self.settings));
        match requeue {
            Requeue::Skip => {
                self.park(slot, label, policy);
                QueueName::Unschedulable
            }
            Requeue::AfterBackoff if must_wait() => self.send_to_backoff(slot, label, policy),
            Requeue::AfterBackoff | Requeue::Immediately => {
                self.send_to_active(slot, label, false, now, policy)
            }
        }
    }

    /// Makes a pod ready unless a gate holds it. Gates were asked already on the way into backoff, if pods can be popped
    /// from there.
    fn send_to_active<P>(
        &mut self,
        slot: Slot,
        label: &EventLabel,
        from_backoff: bool,
        now: Timestamp,
        policy: &mut P,
    ) -> QueueName
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        if !(from_backoff && self.settings.pop_from_backoff) && self.is_held(slot, policy) {
            self.park(slot, label, policy);
            return QueueName::Unschedulable;
        }
        self.enter_active(slot, label, now, policy);
        QueueName::Active
    }

    /// Makes a pod wait for its backoff. A pod that may be popped from there must pass the gates first.
    fn send_to_backoff<P>(&mut self, slot: Slot, label: &EventLabel, policy: &mut P) -> QueueName
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        if self.settings.pop_from_backoff && self.is_held(slot, policy) {
            self.park(slot, label, policy);
            return QueueName::Unschedulable;
        }
        self.detach(slot, policy);
        let seq = self.seq();
        let is_error = self.backoff.push(slot, seq, &self.settings, &self.records, policy);
        self.entered(slot, if is_error { Place::ErrorBackoff } else { Place::Backoff }, label);
        QueueName::Backoff
    }

    fn is_held<P>(&mut self, slot: Slot, policy: &mut P) -> bool
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        let Some(record) = self.records.get_mut(slot) else { return false };
        let profile = record.pod.profile;
        if let Some(plugin) = gates::run(&mut record.pod, self.profiles.gates(profile), policy) {
            self.counters.reject(plugin, profile);
        }
        record.pod.is_gated()
    }

    fn enter_active<P>(&mut self, slot: Slot, label: &EventLabel, now: Timestamp, policy: &P)
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        self.detach(slot, policy);
        let seq = self.seq();
        if let Some(record) = self.records.get_mut(slot) {
            record.pod.initial_attempt.get_or_insert(now);
        }
        self.active.push(slot, seq, &self.records, policy);
        self.entered(slot, Place::Active, label);
        if matches!(
            *label,
            EventLabel::UNSCHEDULABLE_POD_ADD | EventLabel::UNSCHEDULABLE_POD_UPDATE
        ) && let Some(pod) = self.records.pod(slot)
        {
            self.nominator.add(&pod.entry, Nomination::Noop, |namespace, name| {
                policy.latest(namespace, name)
            });
        }
    }

    /// Puts a pod with the unschedulable ones. One that is there already keeps its rank and does not count as incoming.
    fn park<P>(&mut self, slot: Slot, label: &EventLabel, policy: &P)
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        if self.records.place(slot) != Some(Place::Unschedulable) {
            self.detach(slot, policy);
            self.entered(slot, Place::Unschedulable, label);
        }
        let seq = self.seq();
        self.index_parked(slot, seq, policy);
    }

    /// Brings the indexes of the unschedulable pods up to date with a pod.
    fn index_parked<P>(&mut self, slot: Slot, seq: u64, policy: &P)
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        if let Some(pod) = self.records.pod(slot) {
            let topics = hints::pod_topics(pod, &self.profiles, policy);
            self.unschedulable.park(slot, seq, pod, self.profiles.is_known(pod.profile), topics);
        }
    }

    fn entered(&mut self, slot: Slot, place: Place, label: &EventLabel) {
        self.counters.incoming(place.queue(), label);
        let Some(record) = self.records.get_mut(slot) else { return };
        record.place = Some(place);
        let pod = &record.pod;
        self.reports.add(|| {
            QueueReport::Moved(Move {
                entry: pod.entry.clone(),
                event: label.clone(),
                queue: place.queue(),
                hint: None,
                is_gated: place == Place::Unschedulable && pod.is_gated(),
                is_update: false,
                rejectors: pod.rejectors(),
            })
        });
    }

    /// Keeps reports from now on until they are [fetched](Self::take_reports); or none any more, as at the beginning.
    pub fn keep_reports(&mut self, keeps: bool) {
        self.reports.keep(keeps);
    }

    /// The reports since the last call, oldest first.
    pub fn take_reports(&mut self) -> Vec<QueueReport<E>> {
        self.reports.take()
    }

    /// A number larger than any before: the rank of a pod among equals.
    fn seq(&mut self) -> u64 {
        self.next_seq += 1;
        self.next_seq
    }
}
