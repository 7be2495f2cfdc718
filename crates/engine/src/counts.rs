//! Numbers that the engine keeps about itself, for metrics.

use kube_scheduler_api_types::Timestamp;
use kube_scheduler_queue::QueuedPod;

use crate::policy::Entry;

/// Attempts of one profile by how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProfileCounts {
    /// Bound.
    pub scheduled: u64,
    /// Turned down.
    pub unschedulable: u64,
    /// Broken.
    pub error: u64,
}

/// A pod that was bound, as its metrics need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundPod {
    /// The profile, by position in the configuration.
    pub profile: usize,
    /// How many attempts it took.
    pub attempts: u32,
    /// From the start of the last attempt to the end of the binding.
    pub attempt: std::time::Duration,
    /// From the first readiness to the end of the binding.
    pub since_first_attempt: Option<std::time::Duration>,
}

/// Everything counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) profiles: Vec<ProfileCounts>,
    pub(crate) bound: Vec<BoundPod>,
    pub(crate) keeps_bound: bool,
}

impl Counts {
    pub(crate) fn bound(
        &mut self,
        queued: &QueuedPod<Entry>,
        profile: usize,
        started: Timestamp,
        now: Timestamp,
    ) {
        if let Some(counts) = self.profiles.get_mut(profile) {
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
            });
        }
    }

    pub(crate) fn failed(&mut self, profile: usize, is_rejected: bool) {
        let Some(counts) = self.profiles.get_mut(profile) else { return };
        if is_rejected {
            counts.unschedulable += 1;
        } else {
            counts.error += 1;
        }
    }
}
