//! How much work an attempt may cost, and what happens to pods that cost more.
//!
//! An attempt below the soft limit is not affected. An attempt beyond it is made, but its results are not cached, because there
//! may be many such pods and each would need its own cache entries. Beyond the hard limit the attempt fails before it starts, and
//! the pod is tried again after a delay that grows with each failure. The cost of attempts beyond the soft limit is taken from an
//! allowance of their namespace, which fills up again with time. While a namespace has used up its allowance, its attempts fail
//! at the soft limit already. What plugins count while they search, such as steps of the search for devices, may be as much as
//! the price of the search leaves of the limit, and is taken from the same allowance.
//!
//! Attempts that find no node are free below the soft limit, but a pod may be tried at each event, and more often than its backoff
//! allows when nothing else is to do. What such attempts cost beyond what those at plain pods do, the first one of each pod aside,
//! is counted against a second allowance. While a namespace has used it up, its pods that are rejected wait out a longer backoff.
//!
//! Invariant: the price of a pod and the time are inputs, so the same history has the same attempts over their limits. What plugins
//! count depends on which of their answers they have kept from earlier attempts, which follows from the history; questions have
//! answers of their own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::{Timestamp, WorkMeter};
use kube_scheduler_cache::ClusterState;

/// How many times the soft limit the hard limit is where nodes have few pods.
const SOFT_PART: u64 = 10;
/// Each running pod beyond [`FEW_PODS`] per node raises the soft limit by [`PER_POD`] units, up to a [`MOST_PART`]th of the hard
/// limit. Affinity and spreading compare with all pods, at 3 to 5 units for each term and running pod, so without this even pods
/// with few terms would be over the soft limit in large clusters.
const FEW_PODS: u64 = 10;
const PER_POD: u64 = 12;
const MOST_PART: u64 = 4;
/// The allowance of a namespace, as a number of attempts that cost the hard limit.
const FULL: u64 = 10;
/// What an attempt at a plain pod costs for each node of the cluster, about. However many of these there are, they are not charged.
pub(crate) const PLAIN_PER_NODE: u64 = 8;
/// The factor by which the cost of an attempt in vain is multiplied: nothing has come of it, and its pod waits in any case.
const IN_VAIN: u64 = 4;
/// How long a pod waits after the first attempt over its limit; twice as long after each further one in a row. So long waits a
/// rejected pod, too, whose namespace has had too many attempts in vain: as long as the longest backoff that is usual.
const FIRST_WAIT: Duration = Duration::from_secs(10);
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// How much work attempts may cost, in units: one for a comparison, a table entry, or a slot of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkLimits {
    /// What an attempt may cost, in units, plus what `per_node` adds. Zero means that there is no limit. The results of an attempt
    /// that costs more than a part of the limit are not cached: a tenth, and more in clusters with more than ten pods for each
    /// node, up to a quarter.
    pub base: u64,
    /// What each node of the cluster adds to the limit, in units.
    pub per_node: u64,
    /// How many units each allowance of a namespace regains per second: that for attempts beyond that part, and that for attempts
    /// that find no node.
    pub refill_per_second: u64,
}

impl WorkLimits {
    /// Limits under which every attempt is made.
    pub const NONE: Self = Self { base: 0, per_node: 0, refill_per_second: 0 };

    fn hard(&self, n_nodes: usize) -> u64 {
        if self.base == 0 {
            return u64::MAX;
        }
        self.base.saturating_add(self.per_node.saturating_mul(n_nodes as u64))
    }
}

impl Default for WorkLimits {
    fn default() -> Self {
        // A unit takes about 10 ns at most (`bench tenants --units`). So an attempt at the limit takes less than 50 ms with 2,000
        // nodes, and the refill lets one namespace use half a percent of the core's time.
        Self { base: 1_600_000, per_node: 1_200, refill_per_second: 500_000 }
    }
}

/// The limits of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AttemptLimits {
    /// Beyond this the attempt's results are not cached.
    pub(crate) soft: u64,
    /// Beyond this the attempt fails, what plugins count included.
    pub(crate) hard: u64,
    /// What `hard` is for namespaces that have not used up their allowance.
    usual: u64,
}

impl AttemptLimits {
    /// Counts what plugins do in an attempt whose search has the price `search`: up to what that leaves of the limit.
    pub(crate) const fn meter(self, search: u64) -> WorkMeter {
        // Without a limit nothing comes near what is left.
        WorkMeter::new(self.hard.saturating_sub(search))
    }
}

/// Why an attempt failed, and when the pod may be tried again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OverBudget {
    pub(crate) message: String,
    pub(crate) not_before: Timestamp,
}

/// What a namespace has used up of its allowance.
#[derive(Clone, Copy, Debug)]
struct NamespaceUsage {
    units: u64,
    since: Timestamp,
}

impl NamespaceUsage {
    fn at(&self, now: Timestamp, refill_per_second: u64) -> u64 {
        let nanos = now.saturating_since(self.since).as_nanos();
        let refilled = nanos.saturating_mul(u128::from(refill_per_second)) / 1_000_000_000;
        self.units.saturating_sub(u64::try_from(refilled).unwrap_or(u64::MAX))
    }
}

/// What namespaces have used up of an allowance; those that have used nothing are not listed.
#[derive(Clone, Debug)]
struct Ledger {
    refill_per_second: u64,
    by_namespace: BTreeMap<Arc<str>, NamespaceUsage>,
}

impl Ledger {
    const fn new(refill_per_second: u64) -> Self {
        Self { refill_per_second, by_namespace: BTreeMap::new() }
    }

    fn spend(&mut self, namespace: &Arc<str>, units: u64, now: Timestamp) {
        if !self.by_namespace.contains_key(namespace) {
            let refill = self.refill_per_second;
            self.by_namespace.retain(|_, used| used.at(now, refill) > 0);
        }
        let units = self.used_by(namespace, now).saturating_add(units);
        self.by_namespace.insert(namespace.clone(), NamespaceUsage { units, since: now });
    }

    fn used_by(&self, namespace: &str, now: Timestamp) -> u64 {
        let used = self.by_namespace.get(namespace);
        used.map_or(0, |used| used.at(now, self.refill_per_second))
    }
}

/// The limits, and what namespaces have used up of their allowances.
#[derive(Clone, Debug)]
pub(crate) struct Budgets {
    limits: WorkLimits,
    /// Of that for attempts beyond the soft limit.
    expensive: Ledger,
    /// Of that for attempts in vain.
    in_vain: Ledger,
}

impl Budgets {
    pub(crate) const fn new(limits: WorkLimits) -> Self {
        let refill = limits.refill_per_second;
        Self { limits, expensive: Ledger::new(refill), in_vain: Ledger::new(refill) }
    }

    /// The limits of an attempt for a pod of this namespace.
    pub(crate) fn of(
        &self,
        namespace: &str,
        cluster: &ClusterState,
        now: Timestamp,
    ) -> AttemptLimits {
        self.with_sizes(namespace, (cluster.n_nodes(), cluster.n_pods()), now)
    }

    /// The same in a cluster of so many nodes and pods that have one.
    pub(crate) fn with_sizes(
        &self,
        namespace: &str,
        (n_nodes, n_pods): (usize, usize),
        now: Timestamp,
    ) -> AttemptLimits {
        let hard = self.limits.hard(n_nodes);
        let soft = if hard == u64::MAX {
            hard
        } else {
            let many = (n_pods as u64).saturating_sub(FEW_PODS.saturating_mul(n_nodes as u64));
            let of_many = (hard / SOFT_PART).saturating_add(PER_POD.saturating_mul(many));
            of_many.min(hard / MOST_PART)
        };
        let is_used_up = self.expensive.used_by(namespace, now) >= allowance(hard);
        AttemptLimits { soft, hard: if is_used_up { soft } else { hard }, usual: hard }
    }

    /// Takes what an attempt beyond its soft limit costs from its namespace's allowance.
    pub(crate) fn spend(&mut self, namespace: &Arc<str>, units: u64, now: Timestamp) {
        self.expensive.spend(namespace, units, now);
    }

    /// Counts an attempt, not the first one at its pod, that has found no node for `units` of work. Until when the pod has to
    /// wait if its namespace has had too many.
    pub(crate) fn count_in_vain(
        &mut self,
        namespace: &Arc<str>,
        units: u64,
        n_nodes: usize,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let units = units.saturating_sub(PLAIN_PER_NODE.saturating_mul(n_nodes as u64));
        if units == 0 || self.limits.base == 0 {
            return None;
        }
        self.in_vain.spend(namespace, units.saturating_mul(IN_VAIN), now);
        let used = self.in_vain.used_by(namespace, now);
        (used >= allowance(self.limits.hard(n_nodes))).then_some(now + FIRST_WAIT)
    }

    /// What to say about a pod whose attempt, which may cost `search` units, most of them for `part` of it, fails after
    /// `n_errors` earlier ones in a row, and when to try it again.
    pub(crate) fn refusal(
        &self,
        limits: AttemptLimits,
        namespace: &str,
        (search, part): (u64, &str),
        n_errors: u32,
        now: Timestamp,
    ) -> OverBudget {
        let AttemptLimits { hard, usual, .. } = limits;
        let mut message = format!(
            "the pod is too expensive to schedule: it may cost up to {} units of work, more than the limit of {hard}, most \
             of them for its {part}",
            rounded_up(search)
        );
        if hard < usual {
            let text = format!(
                "; the limit is {usual} again when expensive pods of this namespace have not been tried for a while"
            );
            message.push_str(&text);
        }
        let not_before = self.next_try(limits, namespace, n_errors, now);
        OverBudget { message, not_before }
    }

    /// When to try a pod again whose attempt was over its limit, after `n_errors` earlier failures in a row.
    pub(crate) fn next_try(
        &self,
        limits: AttemptLimits,
        namespace: &str,
        n_errors: u32,
        now: Timestamp,
    ) -> Timestamp {
        let AttemptLimits { hard, usual, .. } = limits;
        let wait = FIRST_WAIT.saturating_mul(1 << n_errors.min(16)).min(LONGEST_WAIT);
        let refilled = (hard < usual).then(|| self.refilled(namespace, usual, now));
        refilled.map_or(now + wait, |refilled| refilled.max(now + wait))
    }

    /// When a namespace may have attempts up to the hard limit again; an hour from now at the latest.
    fn refilled(&self, namespace: &str, hard: u64, now: Timestamp) -> Timestamp {
        let used = self.expensive.used_by(namespace, now);
        let excess = used.saturating_sub(allowance(hard)).saturating_add(1);
        let seconds = excess.checked_div(self.limits.refill_per_second).unwrap_or(u64::MAX);
        now + Duration::from_secs(seconds.saturating_add(1)).min(LONGEST_WAIT)
    }

    /// How many namespaces have used something up, for each allowance.
    pub(crate) fn len(&self) -> usize {
        self.expensive.by_namespace.len() + self.in_vain.by_namespace.len()
    }
}

/// One digit and zeros, so that the text of a condition does not change with every pod that comes and goes.
fn rounded_up(n: u64) -> u64 {
    let unit = 10_u64.pow(n.checked_ilog10().unwrap_or(0));
    n.div_ceil(unit).saturating_mul(unit)
}

fn allowance(hard: u64) -> u64 {
    hard.saturating_mul(FULL)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: WorkLimits = WorkLimits { base: 10_000, per_node: 100, refill_per_second: 500 };

    #[test]
    fn limits_grow_with_the_cluster_and_can_be_switched_off() {
        let budgets = Budgets::new(LIMITS);
        let limits = |n_pods| budgets.with_sizes("a", (50, n_pods), Timestamp::EPOCH);
        let (hard, usual) = (15_000, 15_000);
        assert_eq!(limits(0), AttemptLimits { soft: 1500, hard, usual });
        assert_eq!(limits(500), AttemptLimits { soft: 1500, hard, usual });
        assert_eq!(limits(510), AttemptLimits { soft: 1620, hard, usual });
        assert_eq!(limits(1000), AttemptLimits { soft: 3750, hard, usual });
        let mut off = Budgets::new(WorkLimits::NONE);
        off.spend(&"a".into(), u64::MAX - 1, Timestamp::EPOCH);
        let none = AttemptLimits { soft: u64::MAX, hard: u64::MAX, usual: u64::MAX };
        assert_eq!(off.with_sizes("a", (50, 1000), Timestamp::EPOCH), none);
    }

    #[test]
    fn plugins_may_count_what_the_price_leaves_of_the_limit() {
        let mut budgets = Budgets::new(LIMITS);
        let left = |budgets: &Budgets, search| {
            let limits = budgets.with_sizes("a", (0, 0), Timestamp::EPOCH);
            limits.meter(search).left()
        };
        assert_eq!([1, 4000, 10_000].map(|search| left(&budgets, search)), [9999, 6000, 0]);
        // Of the soft limit once the allowance is used up.
        budgets.spend(&"a".into(), 100_000, Timestamp::EPOCH);
        assert_eq!([1, 400, 1000].map(|search| left(&budgets, search)), [999, 600, 0]);
        let off = Budgets::new(WorkLimits::NONE);
        assert_eq!(left(&off, 4000), u64::MAX - 4000);
    }

    #[test]
    fn a_namespace_that_has_used_up_its_allowance_fails_earlier_until_it_has_some_again() {
        let mut budgets = Budgets::new(LIMITS);
        let (namespace, start) = (Arc::from("a"), Timestamp::EPOCH);
        let hard = |budgets: &Budgets, namespace: &str, now| {
            budgets.with_sizes(namespace, (0, 0), now).hard
        };
        budgets.spend(&namespace, 99_999, start);
        assert_eq!(hard(&budgets, "a", start), 10_000);
        budgets.spend(&namespace, 1001, start);
        assert_eq!(hard(&budgets, "a", start), 1000);
        assert_eq!(hard(&budgets, "b", start), 10_000);
        let limits = budgets.with_sizes("a", (0, 0), start);
        let refusal = budgets.refusal(limits, "a", (1001, "tolerations"), 0, start);
        assert_eq!(refusal.not_before, start + FIRST_WAIT);
        for text in ["up to 2000 units", "limit of 1000", "its tolerations", "is 10000 again"] {
            assert!(refusal.message.contains(text), "{text}: {}", refusal.message);
        }
        // 1,000 units too many come back in two seconds.
        assert_eq!(hard(&budgets, "a", start + Duration::from_millis(1900)), 1000);
        assert_eq!(hard(&budgets, "a", start + Duration::from_millis(2100)), 10_000);
    }

    #[test]
    fn pods_of_a_namespace_with_too_many_attempts_in_vain_wait() {
        let mut budgets = Budgets::new(LIMITS);
        let (namespace, start) = (Arc::from("a"), Timestamp::EPOCH);
        let mut count = |units, now| budgets.count_in_vain(&namespace, units, 50, now);
        // As cheap as plain pods: however often.
        for _ in 0..10_000 {
            assert_eq!(count(400, start), None);
        }
        // Ten times the hard limit of 15,000 units, less four.
        assert_eq!(count(400 + 37_499, start), None);
        assert_eq!(count(401, start), Some(start + FIRST_WAIT));
        // 500 units have come back.
        let later = start + Duration::from_secs(1);
        assert_eq!(count(400 + 124, later), None);
        assert_eq!(count(401, later), Some(later + FIRST_WAIT));
        assert_eq!(budgets.len(), 1);
        // What was spent in vain keeps no attempt from being made.
        assert_eq!(budgets.with_sizes("a", (50, 0), later).hard, 15_000);
        let mut off = Budgets::new(WorkLimits { base: 0, ..LIMITS });
        assert_eq!(off.count_in_vain(&namespace, u64::MAX, 50, start), None);
        assert_eq!(off.len(), 0);
    }

    #[test]
    fn pods_come_back_later_each_time_up_to_an_hour() {
        let budgets = Budgets::new(LIMITS);
        let limits = budgets.with_sizes("a", (0, 0), Timestamp::EPOCH);
        let wait = |n_errors| {
            let refusal =
                budgets.refusal(limits, "a", (20_000, "tolerations"), n_errors, Timestamp::EPOCH);
            refusal.not_before.saturating_since(Timestamp::EPOCH).as_secs()
        };
        assert_eq!([0, 1, 2, 8, 9, u32::MAX].map(wait), [10, 20, 40, 2560, 3600, 3600]);
    }

    #[test]
    fn prices_are_said_with_one_digit() {
        let rounded = [0, 1, 9, 10, 11, 1999, 2000, u64::MAX].map(rounded_up);
        assert_eq!(rounded, [0, 1, 9, 10, 20, 2000, 2000, u64::MAX]);
    }

    #[test]
    fn namespaces_that_have_used_nothing_are_not_kept() {
        let mut budgets = Budgets::new(LIMITS);
        for at in 0..100 {
            let now = Timestamp::EPOCH + Duration::from_secs(10 * at);
            budgets.spend(&format!("n{at}").into(), 1500, now);
            assert_eq!(budgets.len(), 1);
        }
    }
}
