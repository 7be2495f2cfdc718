//! Which candidate to take: the one whose eviction does the least harm.
//!
//! Criterion by criterion the best stay; when all are equal the first one in the list is taken, which is one of the
//! answers the reference may give.
//!
//! Behaviour in `docs/spec/preemption.md` §6.2.

use std::cmp::Reverse;

use kube_scheduler_framework::api::{Pod, Timestamp};
use kube_scheduler_framework::preemption::{Harm, PreemptionCandidate};

/// Makes every priority non-negative, so that more victims never look cheaper.
const PRIORITY_OFFSET: i64 = 1 << 31;

/// What is compared; `now` stands for the start of pods that have not started.
pub(super) fn harm(candidate: &PreemptionCandidate, now: Timestamp) -> Harm {
    let victims = &candidate.victims;
    let highest = victims.iter().map(|victim| victim.priority()).max().unwrap_or(i32::MIN);
    let earliest = victims
        .iter()
        .filter(|victim| victim.priority() == highest)
        .map(|victim| started(victim, now))
        .min()
        .unwrap_or(now);
    Harm {
        n_pdb_violations: candidate.n_pdb_violations,
        highest_priority: victims.first().map_or(i32::MIN, |victim| victim.priority()),
        priority_sum: victims
            .iter()
            .map(|victim| i64::from(victim.priority()) + PRIORITY_OFFSET)
            .sum(),
        n_victims: victims.len(),
        earliest_start: Reverse(earliest),
    }
}

/// When the pod started; `now` for a pod that has not started.
pub(super) fn started(pod: &Pod, now: Timestamp) -> Timestamp {
    pod.status.started.unwrap_or(now)
}
