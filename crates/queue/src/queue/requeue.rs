//! Failed attempts, and events that give unschedulable pods another chance.

use kube_scheduler_primitives::Timestamp;
use thiserror::Error;

use super::SchedulingQueue;
use crate::entry::{HintObject, QueueEntry, QueuedPod};
use crate::event::{ClusterEvent, EventLabel};
use crate::heap::Slot;
use crate::hints;
use crate::policy::{QueuePolicy, Requeue, Topics};
use crate::profile::ResolvedId;
use crate::records::{Place, QueueName};
use crate::report::QueueReport;

/// A pod came back from an attempt while another of its name is queued. The texts are the reference's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RequeueError {
    /// The other one is with the unschedulable pods.
    #[error("Pod {0} is already present in unschedulable queue")]
    Unschedulable(String),
    /// The other one is ready to be tried.
    #[error("Pod {0} is already present in the active queue")]
    Active(String),
    /// The other one waits for its backoff.
    #[error("Pod {0} is already present in the backoff queue")]
    Backoff(String),
}

impl<E: QueueEntry, O: HintObject<E>> SchedulingQueue<E, O> {
    /// Takes a popped pod back after a failed attempt. Its rejectors must be those of that attempt; none means that the
    /// attempt ended with an error. The pod is no longer in flight afterwards, with an error too. Returns the queue it
    /// is in.
    ///
    /// After an error the pod waits for its backoff. A rejected pod waits for an event, unless one that may help it came
    /// during the attempt.
    ///
    /// # Errors
    /// If a pod of that name is queued; the one given is dropped.
    pub fn add_unschedulable_if_not_present<P>(
        &mut self,
        mut pod: QueuedPod<E>,
        now: Timestamp,
        policy: &mut P,
    ) -> Result<QueueName, RequeueError>
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        if let Some(place) =
            self.records.find_entry(&pod.entry).and_then(|slot| self.records.place(slot))
        {
            self.in_flight.done(pod.entry.uid());
            let name = full_name(&pod.entry);
            return Err(match place {
                Place::Unschedulable => RequeueError::Unschedulable(name),
                Place::Active => RequeueError::Active(name),
                Place::Backoff | Place::ErrorBackoff => RequeueError::Backoff(name),
            });
        }
        // Backoff grows with either count; errors in a row are forgotten as soon as an attempt ends without one.
        if pod.has_rejectors() {
            pod.unschedulable_count += 1;
            pod.consecutive_errors = 0;
        } else {
            pod.consecutive_errors += 1;
        }
        pod.timestamp = now;
        pod.was_flushed = false;
        // Failure handling may have replaced the entry by a newer one.
        pod.profile = self.profiles.intern(pod.entry.scheduler_name());
        if pod.signature_is_stale {
            pod.signature = policy.signature(&pod.entry, pod.profile);
            pod.signature_is_stale = false;
        }
        // While the pod is still in flight, for the events recorded since it was popped.
        let requeue = self.worth_after_attempt(&pod, policy);
        let entry = pod.entry.clone();
        let slot = self.insert(pod);
        let queue = self.requeue(slot, requeue, &EventLabel::SCHEDULE_ATTEMPT_FAILURE, now, policy);
        self.reports.amend_last(|last| last.hint = Some(requeue.as_str()));
        self.in_flight.done(entry.uid());
        Ok(queue)
    }

    /// Whether any plugin of any profile registered for an event; if none did, the caller need not report it.
    pub fn is_of_interest(&mut self, event: &ClusterEvent) -> bool {
        let id = self.profiles.resolve(event);
        self.profiles.resolved(id).is_of_interest()
    }

    /// Reports an event. Every unschedulable pod that it may help is moved to backoff or made ready, and it is recorded
    /// for the pods in flight in case their attempts fail. `old` and `new` are the object before and after, `None`
    /// where there is none.
    ///
    /// O(parked pods with a rejector that registered for the event, or that share one of its [topics](Topics) where the rejector has
    /// some); nothing at all if none did.
    pub fn move_all<P>(
        &mut self,
        event: &ClusterEvent,
        old: Option<&O>,
        new: Option<&O>,
        now: Timestamp,
        policy: &mut P,
    ) where
        P: QueuePolicy<E, O> + ?Sized,
    {
        self.move_all_if(event, old, new, |_| true, now, policy);
    }

    /// As [`move_all`](Self::move_all), but moves only pods that pass `pre_check`. The event is recorded for all pods in
    /// flight.
    pub fn move_all_if<P>(
        &mut self,
        event: &ClusterEvent,
        old: Option<&O>,
        new: Option<&O>,
        mut pre_check: impl FnMut(&E) -> bool,
        now: Timestamp,
        policy: &mut P,
    ) where
        P: QueuePolicy<E, O> + ?Sized,
    {
        // There is no pod to move and none in flight to record the event for. This is the common case in a stream of new pods.
        if self.unschedulable.len() == 0 && self.in_flight.is_empty() {
            return;
        }
        let id = self.profiles.resolve(event);
        let resolved = self.profiles.resolved(id);
        if !resolved.is_of_interest() {
            return;
        }
        let mut candidates = std::mem::take(&mut self.candidates);
        if resolved.is_wildcard {
            self.unschedulable.collect_all(&mut candidates);
        } else {
            // A report about each pod that is not helped needs each to be asked.
            let asks_all = self.reports.are_kept();
            let topics = |plugin| match asks_all {
                true => Topics::All,
                false => hints::event_topics(plugin, resolved, old, new, policy),
            };
            self.unschedulable.collect_candidates(&resolved.plugins, topics, &mut candidates);
        }
        candidates
            .retain(|&(_, slot)| self.records.pod(slot).is_some_and(|pod| pre_check(&pod.entry)));
        self.move_candidates(candidates, id, event, old, new, now, policy);
        if self.log_event(event, old, new) && self.settings.uses_hints {
            self.reports.add(|| QueueReport::SeenInFlight(event.label()));
        }
    }

    /// Tries the candidates in order, and keeps their vector for the next time.
    #[expect(
        clippy::too_many_arguments,
        reason = "an event is four of them, and it is called twice"
    )]
    pub(super) fn move_candidates<P>(
        &mut self,
        mut candidates: Vec<(u64, Slot)>,
        id: ResolvedId,
        event: &ClusterEvent,
        old: Option<&O>,
        new: Option<&O>,
        now: Timestamp,
        policy: &mut P,
    ) where
        P: QueuePolicy<E, O> + ?Sized,
    {
        let label = event.label();
        for (_, slot) in candidates.drain(..) {
            let Some(pod) = self.records.pod(slot) else { continue };
            let resolved = self.profiles.resolved(id);
            // Only an event for which the plugin that gates the pod has registered can lift the gate.
            if pod.gated_by.is_some_and(|plugin| !resolved.plugins.contains(plugin)) {
                continue;
            }
            let requeue = self.worth_resolved(slot, id, old, new, policy);
            if requeue == Requeue::Skip {
                if let Some(pod) = self.records.pod(slot) {
                    self.reports.add(|| QueueReport::NotHelped {
                        entry: pod.entry.clone(),
                        event: label.clone(),
                    });
                }
                continue;
            }
            self.detach(slot, policy);
            self.requeue(slot, requeue, &label, now, policy);
        }
        self.candidates = candidates;
    }

    /// Whether an event makes a queued pod worth another attempt.
    pub(super) fn worth<P>(
        &mut self,
        slot: Slot,
        event: &ClusterEvent,
        old: Option<&O>,
        new: Option<&O>,
        policy: &mut P,
    ) -> Requeue
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        let id = self.profiles.resolve(event);
        self.worth_resolved(slot, id, old, new, policy)
    }

    fn worth_resolved<P>(
        &mut self,
        slot: Slot,
        id: ResolvedId,
        old: Option<&O>,
        new: Option<&O>,
        policy: &mut P,
    ) -> Requeue
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        let Some(record) = self.records.get(slot) else { return Requeue::Skip };
        hints::worth(&record.pod, self.profiles.resolved(id), old, new, policy)
    }

    /// Where a pod belongs after an attempt, given what happened meanwhile.
    fn worth_after_attempt<P>(&mut self, pod: &QueuedPod<E>, policy: &mut P) -> Requeue
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        if !pod.has_rejectors() || pod.entry.is_group_member() {
            return Requeue::AfterBackoff;
        }
        match self.in_flight.events_since(pod.entry.uid()) {
            Some(mut missed) if !self.settings.uses_hints => match missed.next() {
                Some(_) => Requeue::AfterBackoff,
                None => Requeue::Skip,
            },
            Some(missed) => hints::worth_of_missed(pod, missed, &self.profiles, policy),
            // The events during the attempt are not known, so one of them may have helped.
            None => Requeue::AfterBackoff,
        }
    }
}

fn full_name<E: QueueEntry>(entry: &E) -> String {
    if entry.namespace().is_empty() {
        entry.name().to_owned()
    } else {
        format!("{}/{}", entry.namespace(), entry.name())
    }
}
