//! Which candidate to take: the one whose eviction does the least harm.
//!
//! Criterion by criterion the best stay; when all are equal the first one in the list is taken, which is one of the
//! answers the reference may give.
//!
//! Behaviour in `docs/spec/preemption.md` §6.2.

use std::cmp::Reverse;

use kube_scheduler_framework::api::{Pod, Timestamp};

use super::candidate::Candidate;

/// Makes every priority non-negative, so that more victims never look cheaper.
const PRIORITY_OFFSET: i64 = 1 << 31;

/// The best candidate; `now` stands for the start of pods that have not started.
pub(super) fn best<'a, 'b>(
    candidates: &'a [Candidate<'b>],
    now: Timestamp,
) -> Option<&'a Candidate<'b>> {
    candidates.iter().min_by_key(|candidate| harm(candidate, now))
}

/// Compares like the chain of criteria, and `min_by_key` takes the first of equals.
fn harm(candidate: &Candidate<'_>, now: Timestamp) -> (i64, i32, i64, usize, Reverse<Timestamp>) {
    let victims = &candidate.victims;
    let highest = victims.iter().map(|victim| victim.priority()).max().unwrap_or(i32::MIN);
    let earliest = victims
        .iter()
        .filter(|victim| victim.priority() == highest)
        .map(|victim| started(victim, now))
        .min()
        .unwrap_or(now);
    (
        candidate.n_violations,
        victims.first().map_or(i32::MIN, |victim| victim.priority()),
        victims.iter().map(|victim| i64::from(victim.priority()) + PRIORITY_OFFSET).sum(),
        victims.len(),
        Reverse(earliest),
    )
}

/// When the pod started; pods that have not are as young as can be.
pub(super) fn started(pod: &Pod, now: Timestamp) -> Timestamp {
    pod.status.started.unwrap_or(now)
}
