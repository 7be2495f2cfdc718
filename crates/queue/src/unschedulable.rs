//! The pods that wait for an event: parked, indexed by who rejected them and by how long they have been waiting.
//!
//! An event can only move pods with a rejector that registered for it, so that only those are visited; of these, where the
//! rejector's hints have topics, only those that share one with the event, unless it has more topics than there are such pods.
//!
//! Invariants: a parked pod is in the set of each of its rejectors, or in `unindexed` if it has none or its profile is
//! unknown (then every event moves it); it is in `by_topic` under each of its topics; and in exactly one of the two sets ordered by
//! time. What is collected is in the order of parking.

use std::collections::BTreeSet;

use kube_scheduler_primitives::Timestamp;

use crate::entry::QueuedPod;
use crate::heap::Slot;
use crate::policy::Topics;
use crate::rejectors::{RejectorId, RejectorSet};

/// What the indexes say of a parked pod, so that they can be undone whatever happened to the pod meanwhile.
#[derive(Clone, Debug)]
struct ParkedPod {
    seq: u64,
    timestamp: Timestamp,
    is_gated: bool,
    is_settled: bool,
    is_unindexed: bool,
    rejectors: RejectorSet,
    topics: PodTopics,
}

/// What a pod waits for, by rejector. No topic stands for every event that the rejector registered for.
pub(crate) type PodTopics = Vec<(RejectorId, Option<u64>)>;

#[derive(Clone, Debug, Default)]
pub(crate) struct UnschedulablePods {
    parked: Vec<Option<ParkedPod>>,
    len: usize,
    n_gated: usize,
    by_rejector: Vec<BTreeSet<(u64, Slot)>>,
    unindexed: BTreeSet<(u64, Slot)>,
    /// Rejector, topic or none, rank and pod: the pods whose rejector has hints with topics.
    by_topic: BTreeSet<(RejectorId, Option<u64>, u64, Slot)>,
    /// Pods that the flush has to move or flag when they have waited long enough.
    waiting: BTreeSet<(Timestamp, u64, Slot)>,
    /// Gated pods that the flush has flagged already: it meets them every time and leaves them alone.
    settled: BTreeSet<(Timestamp, u64, Slot)>,
}

impl UnschedulablePods {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn n_gated(&self) -> usize {
        self.n_gated
    }

    /// What is noted of the parked pods takes in memory, about, in bytes. Each topic is there twice, with the pod and in the
    /// index. O(1).
    pub(crate) fn n_bytes(&self) -> usize {
        let of_topic = size_of::<(RejectorId, Option<u64>)>()
            + size_of::<(RejectorId, Option<u64>, u64, Slot)>();
        self.len * size_of::<Option<ParkedPod>>() + self.by_topic.len() * of_topic
    }

    /// Parks the pod of `slot`, or takes note of what changed about it; then `seq` is ignored and it keeps its rank.
    pub(crate) fn park<E>(
        &mut self,
        slot: Slot,
        seq: u64,
        pod: &QueuedPod<E>,
        has_profile: bool,
        topics: PodTopics,
    ) {
        // All entries are taken out first: rejectors, topics and time may have changed, and those under the old ones would stay
        // for ever.
        let seq = self.unpark(slot).unwrap_or(seq);
        let rejectors = pod.rejectors();
        let parked = ParkedPod {
            seq,
            timestamp: pod.timestamp,
            is_gated: pod.is_gated(),
            is_settled: pod.is_gated() && pod.was_flushed,
            is_unindexed: rejectors.is_empty() || !has_profile,
            rejectors,
            topics,
        };
        self.len += 1;
        self.n_gated += usize::from(parked.is_gated);
        for plugin in parked.rejectors.iter() {
            if self.by_rejector.len() <= plugin.index() {
                self.by_rejector.resize_with(plugin.index() + 1, BTreeSet::new);
            }
            if let Some(pods) = self.by_rejector.get_mut(plugin.index()) {
                pods.insert((seq, slot));
            }
        }
        for &(plugin, topic) in &parked.topics {
            self.by_topic.insert((plugin, topic, seq, slot));
        }
        if parked.is_unindexed {
            self.unindexed.insert((seq, slot));
        }
        // Apart from the others, gated pods that were flagged do not make the flush come due again and again.
        let by_time = if parked.is_settled { &mut self.settled } else { &mut self.waiting };
        by_time.insert((parked.timestamp, seq, slot));
        if self.parked.len() <= slot.index() {
            self.parked.resize_with(slot.index() + 1, || None);
        }
        if let Some(place) = self.parked.get_mut(slot.index()) {
            *place = Some(parked);
        }
    }

    /// Takes the pod of `slot` out and returns its rank, if it is parked.
    pub(crate) fn unpark(&mut self, slot: Slot) -> Option<u64> {
        let parked = self.parked.get_mut(slot.index())?.take()?;
        let seq = parked.seq;
        self.len -= 1;
        self.n_gated -= usize::from(parked.is_gated);
        for plugin in parked.rejectors.iter() {
            if let Some(pods) = self.by_rejector.get_mut(plugin.index()) {
                pods.remove(&(seq, slot));
            }
        }
        for &(plugin, topic) in &parked.topics {
            self.by_topic.remove(&(plugin, topic, seq, slot));
        }
        if parked.is_unindexed {
            self.unindexed.remove(&(seq, slot));
        }
        let by_time = if parked.is_settled { &mut self.settled } else { &mut self.waiting };
        by_time.remove(&(parked.timestamp, seq, slot));
        Some(seq)
    }

    /// Every parked pod, in no useful order.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.ranked().map(|(_, slot)| slot)
    }

    /// Collects, in order of parking, the pods that an event may move for which `plugins` registered. `topics` says what the event
    /// is about for the pods that a plugin rejected.
    pub(crate) fn collect_candidates(
        &self,
        plugins: &RejectorSet,
        mut topics: impl FnMut(RejectorId) -> Topics,
        into: &mut Vec<(u64, Slot)>,
    ) {
        into.extend(&self.unindexed);
        for plugin in plugins.iter() {
            let pods = self.by_rejector.get(plugin.index()).filter(|pods| !pods.is_empty());
            let Some(pods) = pods else { continue };
            match topics(plugin) {
                Topics::All => into.extend(pods),
                // Each topic is a search: a pod may have 60,000 labels.
                Topics::Only(topics) if topics.len() > pods.len() => {
                    into.extend(pods);
                }
                Topics::Only(topics) => {
                    for topic in std::iter::once(None).chain(topics.into_iter().map(Some)) {
                        let (first, last) = ((0, Slot(0)), (u64::MAX, Slot(u32::MAX)));
                        let pods = self.by_topic.range(
                            (plugin, topic, first.0, first.1)..=(plugin, topic, last.0, last.1),
                        );
                        into.extend(pods.map(|&(_, _, seq, slot)| (seq, slot)));
                    }
                }
            }
        }
        into.sort_unstable();
        into.dedup();
    }

    /// Collects every parked pod in order of parking.
    pub(crate) fn collect_all(&self, into: &mut Vec<(u64, Slot)>) {
        into.extend(self.ranked());
        into.sort_unstable();
    }

    /// Collects, in order of parking, the pods that have been waiting since before `limit`.
    pub(crate) fn collect_older(&self, limit: Timestamp, into: &mut Vec<(u64, Slot)>) {
        let end = (limit, 0, Slot(0));
        into.extend(
            self.waiting
                .range(..end)
                .chain(self.settled.range(..end))
                .map(|&(_, seq, slot)| (seq, slot)),
        );
        into.sort_unstable();
    }

    /// Since when the pod has been waiting that the flush will next have something to do with.
    pub(crate) fn oldest_waiting(&self) -> Option<Timestamp> {
        self.waiting.first().map(|&(timestamp, _, _)| timestamp)
    }

    fn ranked(&self) -> impl Iterator<Item = (u64, Slot)> + '_ {
        (0u32..)
            .zip(&self.parked)
            .filter_map(|(slot, parked)| Some((parked.as_ref()?.seq, Slot(slot))))
    }
}
