//! How much work an attempt may cost, and what becomes of pods that cost more.
//!
//! Up to the soft limit nothing happens. An attempt beyond it goes on, but nothing that was found out for it is kept: pods
//! like that may be many, and each would need something else. Beyond the hard limit the attempt fails, and the pod comes
//! back later each time. What attempts beyond the soft limit cost is taken from an allowance of their namespace, which
//! fills up again with time; as long as it is used up, the soft limit is where attempts of that namespace fail.
//!
//! Invariant: work and time are inputs, so the same history has the same attempts over their limits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::Timestamp;
use kube_scheduler_cache::WorkDone;

/// How many times the soft limit the hard limit is.
const HARD: u64 = 10;
/// The allowance of a namespace, as a number of attempts that cost the hard limit.
const FULL: u64 = 10;
/// How long a pod waits after the first attempt over its limit; twice as long after each further one in a row.
const FIRST_WAIT: Duration = Duration::from_secs(10);
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// How much work attempts may cost, in units: one for a comparison, a table entry, or a slot of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkLimits {
    /// What an attempt may cost before nothing of it is kept any more, beside what `per_node` adds; it fails at ten times
    /// as much. Zero means that there is no limit.
    pub base: u64,
    /// What each node adds.
    pub per_node: u64,
    /// How much of the allowance of a namespace for attempts beyond that comes back in a second.
    pub refill_per_second: u64,
}

impl WorkLimits {
    /// No attempt costs too much.
    pub const NONE: Self = Self { base: 0, per_node: 0, refill_per_second: 0 };

    fn soft(&self, n_nodes: usize) -> u64 {
        if self.base == 0 {
            return u64::MAX;
        }
        self.base.saturating_add(self.per_node.saturating_mul(n_nodes as u64))
    }
}

impl Default for WorkLimits {
    fn default() -> Self {
        Self { base: 10_000_000, per_node: 2_000, refill_per_second: 10_000_000 }
    }
}

/// The limits of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AttemptLimits {
    /// Beyond this nothing is kept.
    pub(crate) soft: u64,
    /// Beyond this the attempt fails.
    pub(crate) hard: u64,
}

/// Why an attempt failed, and for how long to leave the pod alone.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OverBudget {
    pub(crate) message: String,
    pub(crate) not_before: Timestamp,
}

/// What a namespace has used up of its allowance.
#[derive(Clone, Copy, Debug)]
struct Used {
    units: u64,
    at: Timestamp,
}

/// The limits, and what namespaces have used up of their allowances; those that have used nothing are not listed.
#[derive(Debug)]
pub(crate) struct Budgets {
    limits: WorkLimits,
    used: BTreeMap<Arc<str>, Used>,
}

impl Budgets {
    pub(crate) const fn new(limits: WorkLimits) -> Self {
        Self { limits, used: BTreeMap::new() }
    }

    /// The limits of an attempt for a pod of this namespace.
    pub(crate) fn of(&self, namespace: &str, n_nodes: usize, now: Timestamp) -> AttemptLimits {
        let soft = self.limits.soft(n_nodes);
        let hard = soft.saturating_mul(HARD);
        let used = self.used.get(namespace).map_or(0, |used| self.used_at(*used, now));
        let hard = if used >= hard.saturating_mul(FULL) { soft } else { hard };
        AttemptLimits { soft, hard }
    }

    /// Takes what an attempt beyond its soft limit cost from its namespace's allowance.
    pub(crate) fn spend(&mut self, namespace: &Arc<str>, done: &WorkDone, now: Timestamp) {
        let limits = self.limits;
        self.used.retain(|_, used| used_at(limits, *used, now) > 0);
        let used = self.used.entry(namespace.clone()).or_insert(Used { units: 0, at: now });
        *used = Used { units: used_at(limits, *used, now).saturating_add(done.total()), at: now };
    }

    /// What to say about a pod whose attempt failed after `n_errors` earlier ones in a row, and when to try it again.
    pub(crate) fn refusal(
        &self,
        limits: AttemptLimits,
        namespace: &str,
        done: &WorkDone,
        n_errors: u32,
        now: Timestamp,
    ) -> OverBudget {
        let AttemptLimits { soft, hard } = limits;
        let cause = done.most().cause();
        let mut message = format!(
            "the attempt was ended because it cost more than {hard} units of work; \
             most of them for: {cause}"
        );
        let wait = FIRST_WAIT.saturating_mul(1 << n_errors.min(16)).min(LONGEST_WAIT);
        let mut not_before = now + wait;
        if hard == soft {
            message.push_str(
                "; the limit is a tenth of the usual one, because costly pods of this namespace \
                 have used up its allowance",
            );
            not_before = not_before.max(self.refilled(namespace, soft, now));
        }
        OverBudget { message, not_before }
    }

    /// When a namespace may have attempts up to the hard limit again; an hour from now at the latest.
    fn refilled(&self, namespace: &str, soft: u64, now: Timestamp) -> Timestamp {
        let allowed = soft.saturating_mul(HARD).saturating_mul(FULL);
        let used = self.used.get(namespace).map_or(0, |used| self.used_at(*used, now));
        let excess = used.saturating_sub(allowed).saturating_add(1);
        let seconds = excess.checked_div(self.limits.refill_per_second).unwrap_or(u64::MAX);
        now + Duration::from_secs(seconds.saturating_add(1)).min(LONGEST_WAIT)
    }

    fn used_at(&self, used: Used, now: Timestamp) -> u64 {
        used_at(self.limits, used, now)
    }

    /// How many namespaces have used something up.
    pub(crate) fn len(&self) -> usize {
        self.used.len()
    }
}

fn used_at(limits: WorkLimits, used: Used, now: Timestamp) -> u64 {
    let nanos = now.saturating_since(used.at).as_nanos();
    let refilled = nanos.saturating_mul(u128::from(limits.refill_per_second)) / 1_000_000_000;
    used.units.saturating_sub(u64::try_from(refilled).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use kube_scheduler_cache::{ClusterState, WorkKind};

    use super::*;

    const LIMITS: WorkLimits = WorkLimits { base: 1000, per_node: 10, refill_per_second: 500 };

    fn work(units: usize) -> WorkDone {
        let mut cluster = ClusterState::new();
        cluster.begin_work(u64::MAX);
        cluster.charge(WorkKind::Resources, units);
        cluster.end_work()
    }

    #[test]
    fn limits_grow_with_the_cluster_and_can_be_switched_off() {
        let budgets = Budgets::new(LIMITS);
        let limits = budgets.of("a", 50, Timestamp::EPOCH);
        assert_eq!(limits, AttemptLimits { soft: 1500, hard: 15_000 });
        let off = Budgets::new(WorkLimits::NONE).of("a", 50, Timestamp::EPOCH);
        assert_eq!(off, AttemptLimits { soft: u64::MAX, hard: u64::MAX });
    }

    #[test]
    fn a_namespace_that_has_used_up_its_allowance_fails_earlier_until_it_has_some_again() {
        let mut budgets = Budgets::new(LIMITS);
        let (namespace, start) = (Arc::from("a"), Timestamp::EPOCH);
        let hard = |budgets: &Budgets, namespace: &str, now| budgets.of(namespace, 0, now).hard;
        budgets.spend(&namespace, &work(99_999), start);
        assert_eq!(hard(&budgets, "a", start), 10_000);
        budgets.spend(&namespace, &work(1001), start);
        assert_eq!(hard(&budgets, "a", start), 1000);
        assert_eq!(hard(&budgets, "b", start), 10_000);
        let limits = budgets.of("a", 0, start);
        let refusal = budgets.refusal(limits, "a", &work(1001), 0, start);
        assert_eq!(refusal.not_before, start + FIRST_WAIT);
        assert!(refusal.message.contains("more than 1000 units"), "{}", refusal.message);
        assert!(refusal.message.contains("used up its allowance"), "{}", refusal.message);
        assert!(refusal.message.contains("names of requested resources"), "{}", refusal.message);
        // 1,000 units too many come back in two seconds.
        assert_eq!(hard(&budgets, "a", start + Duration::from_millis(1900)), 1000);
        assert_eq!(hard(&budgets, "a", start + Duration::from_millis(2100)), 10_000);
    }

    #[test]
    fn pods_come_back_later_each_time_up_to_an_hour() {
        let budgets = Budgets::new(LIMITS);
        let limits = budgets.of("a", 0, Timestamp::EPOCH);
        let wait = |n_errors| {
            let refusal = budgets.refusal(limits, "a", &work(20_000), n_errors, Timestamp::EPOCH);
            refusal.not_before.saturating_since(Timestamp::EPOCH).as_secs()
        };
        assert_eq!([0, 1, 2, 8, 9, u32::MAX].map(wait), [10, 20, 40, 2560, 3600, 3600]);
    }

    #[test]
    fn namespaces_that_have_used_nothing_are_not_kept() {
        let mut budgets = Budgets::new(LIMITS);
        for at in 0..100 {
            let now = Timestamp::EPOCH + Duration::from_secs(10 * at);
            budgets.spend(&format!("n{at}").into(), &work(1500), now);
            assert_eq!(budgets.len(), 1);
        }
    }
}
