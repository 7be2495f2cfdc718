//! Numbers that the engine keeps about itself, for metrics.

use kube_scheduler_api_types::Timestamp;
use kube_scheduler_queue::{ProfileId, QueuedPod};

use crate::policy::Entry;

/// Attempts of one profile by how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProfileCounts {
    /// Attempts whose pod was bound.
    pub scheduled: u64,
    /// Attempts whose pod was rejected.
    pub unschedulable: u64,
    /// Attempts that failed with an error.
    pub error: u64,
}

/// A pod that was bound, as its metrics need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundPod {
    /// The profile that scheduled it.
    pub profile: ProfileId,
    /// How many attempts it took.
    pub attempts: u32,
    /// From the start of the last attempt to the end of the binding.
    pub attempt: std::time::Duration,
    /// From the first readiness to the end of the binding.
    pub since_first_attempt: Option<std::time::Duration>,
    /// Whether it was tried because it had waited too long, and not because of an event.
    pub was_flushed: bool,
}

/// A preemption in the background that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedPreemption {
    /// Whether a write failed.
    pub is_error: bool,
    /// How long it took.
    pub length: std::time::Duration,
}

/// Preemptions, as their metrics need them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreemptionCounts {
    /// The number of attempts at preemption, with or without success, since the engine was made.
    pub n_attempts: u64,
    /// The number of victims of each that was carried out.
    pub victims: Vec<usize>,
    /// Those in the background that are over.
    pub ended: Vec<EndedPreemption>,
}

/// Everything counted.
///
/// Invariant: single pods and preemptions are kept only for a shell that fetches them, so nothing grows without one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) profiles: Vec<ProfileCounts>,
    pub(crate) bound: Vec<BoundPod>,
    pub(crate) preemptions: PreemptionCounts,
    pub(crate) keeps_bound: bool,
}

impl Counts {
    pub(crate) fn bound(
        &mut self,
        queued: &QueuedPod<Entry>,
        profile: ProfileId,
        started: Timestamp,
        now: Timestamp,
    ) {
        if let Some(counts) = self.profiles.get_mut(profile.index()) {
            counts.scheduled += 1;
        }
        if self.keeps_bound {
            self.bound.push(BoundPod {
                profile,
                attempts: queued.attempts(),
                attempt: now.saturating_since(started),
                since_first_attempt: queued
                    .initial_attempt_timestamp()
                    .map(|first| now.saturating_since(first)),
                was_flushed: queued.was_flushed_from_unschedulable(),
            });
        }
    }

    /// Counts a preemption with `n_victims` victims that is being carried out.
    pub(crate) fn preemption_started(&mut self, n_victims: usize) {
        if self.keeps_bound {
            self.preemptions.victims.push(n_victims);
        }
    }

    /// Counts a background preemption that has ended.
    pub(crate) fn preemption_ended(&mut self, is_error: bool, length: std::time::Duration) {
        if self.keeps_bound {
            self.preemptions.ended.push(EndedPreemption { is_error, length });
        }
    }

    /// Attempts at preemption so far, and what was kept since the last call.
    pub(crate) fn drain_preemptions(&mut self) -> PreemptionCounts {
        PreemptionCounts {
            n_attempts: self.preemptions.n_attempts,
            victims: std::mem::take(&mut self.preemptions.victims),
            ended: std::mem::take(&mut self.preemptions.ended),
        }
    }

    pub(crate) fn failed(&mut self, profile: ProfileId, is_rejected: bool) {
        let Some(counts) = self.profiles.get_mut(profile.index()) else { return };
        if is_rejected {
            counts.unschedulable += 1;
        } else {
            counts.error += 1;
        }
    }
}
