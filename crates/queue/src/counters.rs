//! The queue's metrics as plain numbers.
//!
//! Invariant: the count of a plugin and profile is the number of queued pods of that profile with that plugin among their
//! rejectors, in whichever queue.
//!
//! Parity: the reference does not subtract a pod's counts when the pod is deleted from the active or backoff queue, replaced
//! by an addition of the same name, or discarded as a duplicate; its gauge then never returns to zero.

use rustc_hash::FxHashMap;

use crate::entry::QueuedPod;
use crate::event::EventLabel;
use crate::profile::ProfileId;
use crate::records::QueueName;
use crate::rejectors::RejectorId;

/// The number of waiting pods, split as by the label `queue` of the metric `pending_pods`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingCounts {
    /// Pods that are ready to be tried.
    pub active: usize,
    /// Pods that wait until their backoff is over.
    pub backoff: usize,
    /// Pods that wait for an event, gated ones aside.
    pub unschedulable: usize,
    /// Pods that a PreEnqueue plugin holds back.
    pub gated: usize,
}

impl PendingCounts {
    /// All pods that wait.
    pub const fn total(&self) -> usize {
        self.active + self.backoff + self.unschedulable + self.gated
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    incoming: [FxHashMap<EventLabel, u64>; 3],
    rejected: FxHashMap<(RejectorId, ProfileId), u64>,
}

impl Counters {
    pub(crate) fn incoming(&mut self, queue: QueueName, label: &EventLabel) {
        let counts = &mut self.incoming[queue as usize];
        match counts.get_mut(label) {
            Some(count) => *count += 1,
            None => {
                counts.insert(label.clone(), 1);
            }
        }
    }

    /// A pod came in with its rejectors.
    pub(crate) fn enter<E>(&mut self, pod: &QueuedPod<E>) {
        for plugin in pod.rejectors().iter() {
            self.reject(plugin, pod.profile);
        }
    }

    /// A pod left with its rejectors.
    pub(crate) fn leave<E>(&mut self, pod: &QueuedPod<E>) {
        for plugin in pod.rejectors().iter() {
            if let Some(count) = self.rejected.get_mut(&(plugin, pod.profile)) {
                *count = count.saturating_sub(1);
            }
        }
    }

    /// A queued pod got another rejector.
    pub(crate) fn reject(&mut self, plugin: RejectorId, profile: ProfileId) {
        *self.rejected.entry((plugin, profile)).or_default() += 1;
    }

    /// How many pods came into each queue for what reason, sorted.
    pub(crate) fn incoming_sorted(&self) -> Vec<(QueueName, &EventLabel, u64)> {
        let mut all = Vec::new();
        for queue in QueueName::ALL {
            all.extend(
                self.incoming[queue as usize].iter().map(|(label, &count)| (queue, label, count)),
            );
        }
        all.sort_unstable();
        all
    }

    /// How many queued pods each plugin rejected, sorted; zero where it once was more.
    pub(crate) fn rejected_sorted(&self) -> Vec<(RejectorId, ProfileId, u64)> {
        let mut all: Vec<_> = self
            .rejected
            .iter()
            .map(|(&(plugin, profile), &count)| (plugin, profile, count))
            .collect();
        all.sort_unstable();
        all
    }
}
