//! Reading the queue: pods, counts, metrics.

use std::sync::Arc;

use kube_scheduler_primitives::Timestamp;

use super::SchedulingQueue;
use crate::backoff::backoff_end;
use crate::counters::PendingCounts;
use crate::entry::{HintObject, QueueEntry, QueuedPod};
use crate::event::EventLabel;
use crate::nominator::Nominee;
use crate::policy::QueuePolicy;
use crate::profile::{ProfileId, QueueSettings};
use crate::records::{Place, QueueName};
use crate::rejectors::RejectorId;

/// A pod nominated to a node.
#[derive(Clone, Copy, Debug)]
pub struct NominatedPod<'a, E> {
    /// The pod's UID.
    pub uid: &'a str,
    /// The pod's namespace.
    pub namespace: &'a str,
    /// The pod's name.
    pub name: &'a str,
    /// The pod, if it is queued.
    ///
    /// Quirk: nothing is known of a nominated pod in flight; it counts as a pod without requests and of priority 0. Pinned by
    /// `a_pod_in_flight_stays_nominated_without_its_spec`.
    ///
    /// Parity: the reference finds the pod by name only, so that a successor of the same name could stand in for it.
    pub pod: Option<&'a QueuedPod<E>>,
}

impl<E: QueueEntry, O: HintObject<E>> SchedulingQueue<E, O> {
    /// The settings given at construction.
    pub const fn settings(&self) -> &QueueSettings {
        &self.settings
    }

    /// The queued pod of this name. Pods in flight are not queued.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&QueuedPod<E>> {
        self.records.pod(self.records.find(namespace, name)?)
    }

    /// Which container the queued pod of this name is in; `None` if it is not queued.
    pub fn place(&self, namespace: &str, name: &str) -> Option<Place> {
        self.records.place(self.records.find(namespace, name)?)
    }

    /// When the backoff of a pod ends: the time, rounded down to a second if pods may be popped from backoff, up to which
    /// and including which it waits. `None` if it has none.
    pub fn backoff_end(&self, pod: &QueuedPod<E>) -> Option<Timestamp> {
        backoff_end(pod, &self.settings)
    }

    /// Every queued pod: active ones, then backoff, then unschedulable ones. Within a queue the order means nothing, but is
    /// always the same for the same history.
    pub fn pending_pods(&self) -> impl Iterator<Item = (Place, &QueuedPod<E>)> {
        let slots =
            self.active.slots().chain(self.backoff.slots()).chain(self.unschedulable.slots());
        slots.filter_map(|slot| {
            let record = self.records.get(slot)?;
            Some((record.place?, &record.pod))
        })
    }

    /// Every queued pod in the order in which it comes to its turn, as far as that is known: active ones as the policy
    /// sorts them; those in backoff by when it ends; unschedulable ones, then gated ones, in the order in which they were
    /// parked. O(n log n) in the number of queued pods.
    pub fn pending_in_order<P>(&self, policy: &P) -> Vec<(Place, &QueuedPod<E>)>
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        let mut slots = self.active.in_order(&self.records, policy);
        slots.extend(self.backoff.in_order(&self.settings, &self.records, policy));
        let mut parked = Vec::new();
        self.unschedulable.collect_all(&mut parked);
        let is_gated = |slot| self.records.pod(slot).is_some_and(QueuedPod::is_gated);
        parked.sort_by_key(|(_, slot)| is_gated(*slot));
        slots.extend(parked.into_iter().map(|(_, slot)| slot));
        let records = slots.into_iter().filter_map(|slot| self.records.get(slot));
        records.filter_map(|record| Some((record.place?, &record.pod))).collect()
    }

    /// The number of queued pods, without those in flight.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// What the queued pods take in memory beside what the entries refer to, about, in bytes. O(1).
    pub fn n_bytes(&self) -> usize {
        self.records.n_bytes() + self.unschedulable.n_bytes()
    }

    /// Whether no pod is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of pods in each queue as one line of text, in the reference's words.
    pub fn summary(&self) -> String {
        let counts = self.pending_counts();
        let parked = counts.unschedulable + counts.gated;
        format!(
            "activeQ:{}; backoffQ:{}; unschedulablePods:{parked}",
            counts.active, counts.backoff
        )
    }

    /// The values of the gauge `pending_pods`.
    pub fn pending_counts(&self) -> PendingCounts {
        let gated = self.unschedulable.n_gated();
        PendingCounts {
            active: self.active.len(),
            backoff: self.backoff.len(),
            unschedulable: self.unschedulable.len() - gated,
            gated,
        }
    }

    /// The values of the counter `queue_incoming_pods_total`, sorted.
    pub fn incoming_counts(&self) -> Vec<(QueueName, &EventLabel, u64)> {
        self.counters.incoming_sorted()
    }

    /// The values of the gauge `unschedulable_pods` by plugin and profile, sorted. Where there once was a pod, a zero stays.
    pub fn rejected_counts(&self) -> Vec<(RejectorId, ProfileId, u64)> {
        self.counters.rejected_sorted()
    }

    /// The values of the gauge `inflight_events` by label, sorted: events in the log, and one `PodPopped` per pod in flight.
    pub fn in_flight_event_counts(&self) -> Vec<(EventLabel, u64)> {
        let mut all: Vec<_> = self
            .in_flight
            .event_counts()
            .iter()
            .map(|(label, &count)| (label.clone(), count))
            .collect();
        all.push((EventLabel::POD_POPPED, self.in_flight.len() as u64));
        all.sort_unstable();
        all
    }

    /// The pods in flight, in the order in which they were popped.
    pub fn in_flight_pods(&self) -> impl Iterator<Item = &E> {
        self.in_flight.entries()
    }

    /// Whether the pod of this UID is in flight.
    pub fn is_in_flight(&self, uid: &str) -> bool {
        self.in_flight.contains(uid)
    }

    /// The name of a plugin.
    pub fn plugin_name(&self, plugin: RejectorId) -> &str {
        self.profiles.plugins.name(plugin)
    }

    /// The scheduler name of a profile, or of a name without profile.
    pub fn profile_name(&self, profile: ProfileId) -> &str {
        self.profiles.name(profile)
    }

    /// The pods nominated to a node, in order of nomination.
    pub fn nominated_pods_for_node<'a>(
        &'a self,
        node: &str,
    ) -> impl Iterator<Item = NominatedPod<'a, E>> {
        self.nominator.nominees(node).map(|nominee| self.nominated(nominee))
    }

    /// All nodes with nominated pods, in order of their names, with [their pods](Self::nominated_pods_for_node).
    pub fn nominations(
        &self,
    ) -> impl Iterator<Item = (&Arc<str>, impl Iterator<Item = NominatedPod<'_, E>>)> {
        self.nominator
            .by_node()
            .map(|(node, nominees)| (node, nominees.map(|nominee| self.nominated(nominee))))
    }

    fn nominated<'a>(&'a self, nominee: &'a Nominee) -> NominatedPod<'a, E> {
        NominatedPod {
            uid: &nominee.uid,
            namespace: &nominee.namespace,
            name: &nominee.name,
            pod: self
                .get(&nominee.namespace, &nominee.name)
                .filter(|pod| pod.entry.uid() == &*nominee.uid),
        }
    }

    /// The nodes with nominated pods, in order of their names.
    pub fn nominated_nodes(&self) -> impl Iterator<Item = &str> {
        self.nominator.nodes()
    }

    /// The node that the pod with this UID is nominated to, `None` without a nomination. `Some("")` if a nomination was
    /// withdrawn by an override with an empty name.
    pub fn nomination(&self, uid: &str) -> Option<&str> {
        self.nominator.node_of(uid)
    }
}
