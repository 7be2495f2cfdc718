//! The pods that wait for a time: how long, and in which order they come back.
//!
//! Two heaps. Pods rejected by plugins may be tried early when nothing else is ready; they are ordered by the second in
//! which their backoff ends, then by the policy's sort. Pods that met an error always wait to the end, as do those that were given
//! a time to wait until and, by default, members of groups.
//!
//! Invariant: which heap a pod is in follows from what it was when it was put in.

use std::time::Duration;

use kube_scheduler_primitives::Timestamp;

use crate::active::{SortKey, policy_order};
use crate::entry::{QueueEntry, QueuedPod};
use crate::heap::{Heap, Slot};
use crate::policy::QueuePolicy;
use crate::profile::QueueSettings;
use crate::records::Records;

const SECOND: Duration = Duration::from_secs(1);

/// How long a pod waits after its `count`-th failure in a row; zero for none.
pub(crate) fn backoff_duration(count: u32, initial: Duration, max: Duration) -> Duration {
    if count == 0 || max.is_zero() {
        return Duration::ZERO;
    }
    let shift = count - 1;
    let most = max.as_nanos().checked_shr(shift).unwrap_or(0);
    if initial.as_nanos() > most {
        return max;
    }
    let nanos = initial.as_nanos().checked_shl(shift).unwrap_or(u128::MAX);
    u64::try_from(nanos).map_or(max, Duration::from_nanos)
}

/// When the backoff of `pod` ends; `None` if it has none.
pub(crate) fn backoff_end<E>(pod: &QueuedPod<E>, settings: &QueueSettings) -> Option<Timestamp> {
    let counted = counted_end(pod, settings);
    match pod.not_before {
        None => counted,
        Some(at) => counted.max(Some(align(at, settings))),
    }
}

/// When the backoff ends that follows from how often the pod has failed.
fn counted_end<E>(pod: &QueuedPod<E>, settings: &QueueSettings) -> Option<Timestamp> {
    let count =
        if pod.consecutive_errors > 0 { pod.consecutive_errors } else { pod.unschedulable_count };
    if count == 0 || settings.max_backoff.is_zero() {
        return None;
    }
    Some(align(
        pod.timestamp + backoff_duration(count, settings.initial_backoff, settings.max_backoff),
        settings,
    ))
}

/// Whether `pod` still has to wait.
///
/// Quirk: at the very end it has, so that all pods of one second come back together. Pinned by
/// `the_last_second_still_counts_as_backoff`.
pub(crate) fn is_backing_off<E>(
    pod: &QueuedPod<E>,
    now: Timestamp,
    settings: &QueueSettings,
) -> bool {
    backoff_end(pod, settings).is_some_and(|end| end >= align(now, settings))
}

fn align(at: Timestamp, settings: &QueueSettings) -> Timestamp {
    if settings.pop_from_backoff { at.floor_to_second() } else { at }
}

/// The first moment at which a pod whose backoff ends at `end` no longer backs off.
fn release(end: Timestamp, settings: &QueueSettings) -> Timestamp {
    if settings.pop_from_backoff { end + SECOND } else { end + Duration::from_nanos(1) }
}

type BackoffKey = (Option<Timestamp>, SortKey);

#[derive(Clone, Debug, Default)]
pub(crate) struct Backoff {
    rejected: Heap<BackoffKey>,
    /// Pods that are never tried early.
    failed: Heap<Option<Timestamp>>,
}

impl Backoff {
    pub(crate) fn len(&self) -> usize {
        self.rejected.len() + self.failed.len()
    }

    /// Whether there is a pod that may be tried early.
    pub(crate) fn has_rejected(&self) -> bool {
        !self.rejected.is_empty()
    }

    /// The members, those rejected by plugins first.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.rejected.slots().chain(self.failed.slots())
    }

    /// Adds the record of `slot`; true if it went to the heap of pods that always wait.
    pub(crate) fn push<E: QueueEntry, O, P>(
        &mut self,
        slot: Slot,
        seq: u64,
        settings: &QueueSettings,
        records: &Records<E>,
        policy: &P,
    ) -> bool
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        let Some(pod) = records.pod(slot) else { return false };
        let end = backoff_end(pod, settings);
        let may_be_hurried = settings.hurries_groups || !pod.entry.is_group_member();
        if pod.has_rejectors() && may_be_hurried && pod.not_before.is_none() {
            let key = (end, sort_key(pod, settings, policy));
            self.rejected.push(slot, key, seq, |key, a, b| {
                rejected_order(settings, records, policy, key, a, b)
            });
            false
        } else {
            self.failed.push(slot, end, seq, |_, _, _| std::cmp::Ordering::Equal);
            true
        }
    }

    /// Takes the pod whose backoff ends first, over or not, errors excepted.
    pub(crate) fn pop_rejected<E: QueueEntry, O, P>(
        &mut self,
        settings: &QueueSettings,
        records: &Records<E>,
        policy: &P,
    ) -> Option<Slot>
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        self.rejected.pop(|key, a, b| rejected_order(settings, records, policy, key, a, b))
    }

    /// Takes the next pod whose backoff is over at `now`.
    pub(crate) fn pop_completed<E: QueueEntry, O, P>(
        &mut self,
        now: Timestamp,
        settings: &QueueSettings,
        records: &Records<E>,
        policy: &P,
    ) -> Option<Slot>
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        let now = align(now, settings);
        let is_over = |end: Option<Timestamp>| end.is_none_or(|end| end < now);
        if self.rejected.peek().is_some_and(|((end, _), _)| is_over(end)) {
            return self.pop_rejected(settings, records, policy);
        }
        if self.failed.peek().is_some_and(|(end, _)| is_over(end)) {
            return self.failed.pop(|_, _, _| std::cmp::Ordering::Equal);
        }
        None
    }

    /// The members by when their backoff ends; of those that end together, rejected ones first, in the order in which they
    /// would be popped.
    pub(crate) fn in_order<E: QueueEntry, O, P>(
        &self,
        settings: &QueueSettings,
        records: &Records<E>,
        policy: &P,
    ) -> Vec<Slot>
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        let Self { mut rejected, mut failed } = self.clone();
        let order = |key, a, b| rejected_order(settings, records, policy, key, a, b);
        let mut all: Vec<Slot> = std::iter::from_fn(|| rejected.pop(order)).collect();
        all.extend(std::iter::from_fn(|| failed.pop(|_, _, _| std::cmp::Ordering::Equal)));
        all.sort_by_key(|slot| records.pod(*slot).and_then(|pod| backoff_end(pod, settings)));
        all
    }

    pub(crate) fn remove<E: QueueEntry, O, P>(
        &mut self,
        slot: Slot,
        settings: &QueueSettings,
        records: &Records<E>,
        policy: &P,
    ) -> bool
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        self.rejected.remove(slot, |key, a, b| rejected_order(settings, records, policy, key, a, b))
            || self.failed.remove(slot, |_, _, _| std::cmp::Ordering::Equal)
    }

    /// Puts a member whose pod was replaced where it belongs now. It stays in its heap.
    pub(crate) fn resort<E: QueueEntry, O, P>(
        &mut self,
        slot: Slot,
        settings: &QueueSettings,
        records: &Records<E>,
        policy: &P,
    ) where
        P: QueuePolicy<E, O> + ?Sized,
    {
        let Some(pod) = records.pod(slot) else { return };
        let end = backoff_end(pod, settings);
        let key = (end, sort_key(pod, settings, policy));
        self.rejected
            .rekey(slot, key, |key, a, b| rejected_order(settings, records, policy, key, a, b));
        self.failed.rekey(slot, end, |_, _, _| std::cmp::Ordering::Equal);
    }

    /// When the next backoff is over; in the past if one is already. `None` without members.
    pub(crate) fn next_release(&self, settings: &QueueSettings) -> Option<Timestamp> {
        let rejected = self.rejected.peek().map(|((end, _), _)| end);
        let failed = self.failed.peek().map(|(end, _)| end);
        let end = match (rejected, failed) {
            (Some(a), Some(b)) => a.min(b),
            (a, b) => a.or(b)?,
        };
        Some(end.map_or(Timestamp::from_nanos(i64::MIN), |end| release(end, settings)))
    }
}

fn sort_key<E, O, P>(pod: &QueuedPod<E>, settings: &QueueSettings, policy: &P) -> SortKey
where
    P: QueuePolicy<E, O> + ?Sized,
{
    // Without early pops the order within one instant does not matter, and is first in, first out.
    if settings.pop_from_backoff { policy.sort_key(pod) } else { None }
}

fn rejected_order<E: QueueEntry, O, P>(
    settings: &QueueSettings,
    records: &Records<E>,
    policy: &P,
    key: BackoffKey,
    a: Slot,
    b: Slot,
) -> std::cmp::Ordering
where
    P: QueuePolicy<E, O> + ?Sized,
{
    if settings.pop_from_backoff {
        policy_order(records, policy, key.1, a, b)
    } else {
        std::cmp::Ordering::Equal
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profiles;

    fn pod(unschedulable: u32, errors: u32, at_millis: i64) -> QueuedPod<()> {
        let profile = Profiles::new(vec![]).intern("s");
        let mut pod = QueuedPod::new((), profile, None, Timestamp::from_millis(at_millis));
        pod.unschedulable_count = unschedulable;
        pod.consecutive_errors = errors;
        pod
    }

    #[test]
    fn durations_double_up_to_the_limit() {
        let seconds = |count| {
            backoff_duration(count, Duration::from_secs(1), Duration::from_secs(10)).as_secs()
        };
        assert_eq!([0, 1, 2, 3, 4, 5, 64, u32::MAX].map(seconds), [0, 1, 2, 4, 8, 10, 10, 10]);
        let nanos = Duration::from_nanos;
        assert_eq!(backoff_duration(5, nanos(3), nanos(1000)), nanos(48));
        assert_eq!(backoff_duration(32, nanos(1), nanos(i32::MAX as u64)), nanos(i32::MAX as u64));
        assert_eq!(backoff_duration(64, nanos(1), nanos(i64::MAX as u64)), nanos(i64::MAX as u64));
        assert_eq!(backoff_duration(3, nanos(1), Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn errors_count_before_rejections() {
        let settings = QueueSettings::default();
        assert_eq!(backoff_end(&pod(0, 0, 0), &settings), None);
        assert_eq!(backoff_end(&pod(4, 1, 0), &settings), Some(Timestamp::from_millis(1000)));
        assert_eq!(backoff_end(&pod(4, 0, 0), &settings), Some(Timestamp::from_millis(8000)));
        let off = QueueSettings { max_backoff: Duration::ZERO, ..settings };
        assert_eq!(backoff_end(&pod(4, 0, 0), &off), None);
        assert!(!is_backing_off(&pod(4, 0, 0), Timestamp::EPOCH, &off));
    }

    #[test]
    fn a_pod_that_has_to_wait_longer_does() {
        let settings = QueueSettings::default();
        let mut pod = pod(0, 1, 0);
        pod.wait_until(Timestamp::from_millis(500));
        assert_eq!(backoff_end(&pod, &settings), Some(Timestamp::from_millis(1000)));
        pod.wait_until(Timestamp::from_millis(60_000));
        assert_eq!(backoff_end(&pod, &settings), Some(Timestamp::from_millis(60_000)));
        assert!(is_backing_off(&pod, Timestamp::from_millis(59_000), &settings));
        let off = QueueSettings { max_backoff: Duration::ZERO, ..settings };
        assert_eq!(backoff_end(&pod, &off), Some(Timestamp::from_millis(60_000)));
        pod.clear_rejectors();
        assert_eq!(backoff_end(&pod, &settings), Some(Timestamp::from_millis(1000)));
    }

    #[test]
    fn the_last_second_still_counts_as_backoff() {
        let settings = QueueSettings::default();
        for failed_at in [0, 990] {
            let pod = pod(1, 0, failed_at);
            let waits = |millis| is_backing_off(&pod, Timestamp::from_millis(millis), &settings);
            assert!(waits(1000) && waits(1999));
            assert!(!waits(2000));
            let end = backoff_end(&pod, &settings).unwrap();
            assert_eq!(release(end, &settings), Timestamp::from_millis(2000));
        }
        let exact = QueueSettings { pop_from_backoff: false, ..settings };
        let end = backoff_end(&pod(1, 0, 990), &exact).unwrap();
        assert!(is_backing_off(&pod(1, 0, 990), end, &exact));
        assert!(!is_backing_off(&pod(1, 0, 990), release(end, &exact), &exact));
    }
}
