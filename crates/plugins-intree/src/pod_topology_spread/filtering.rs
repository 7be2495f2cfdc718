//! Hard constraints: PreFilter's state, hypothetical pods, and the verdict on a node (`docs/spec/plugins-topology.md` §2.5
//! to §2.8).
//!
//! Invariant: a clone of the state shares what was prepared and copies the shifts of hypothetical pods alone.

use std::sync::Arc;

use kube_scheduler_framework::api::{LabelSelector, Pod};
use kube_scheduler_framework::columns::ValueId as LabelValueId;
use kube_scheduler_framework::counters::{CounterSpec, DomainNumbers, PodCounter};
use kube_scheduler_framework::{ClusterView, FilterSink, NodeIdx, PodCounts, Status};
use smallvec::SmallVec;

use super::constraints::{GivenConstraints, selects};

/// The fewest pods where there is no domain: everything fits, which takes a `minDomains` that no API server lets pass.
const NO_DOMAIN: i64 = i32::MAX as i64;

/// What the constraints of `pod` count, in order.
pub(super) fn specs(
    constraints: &GivenConstraints<'_>,
    pod: &Pod,
    compares_numbers: bool,
) -> Vec<CounterSpec> {
    let keys = constraints.keys();
    constraints.iter().map(|given| constraints.spec(given, pod, &keys, compares_numbers)).collect()
}

/// What a constraint says about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Fits,
    LacksLabel,
    IsSkewed,
}

/// A constraint with what it counts.
pub(super) struct Limit {
    max_skew: i64,
    min_domains: i64,
    /// `None` matches nothing.
    selector: Option<LabelSelector>,
    counter: PodCounter,
    /// 1 if the pod itself will count, else 0.
    own: i64,
}

impl Limit {
    /// What is counted; `None` when the cluster no longer follows it.
    fn read<'a>(&'a self, cluster: ClusterView<'a>) -> Option<PodCounts<'a>> {
        cluster.counts(&self.counter)
    }

    fn means(&self, pod: &Pod) -> bool {
        selects(self.selector.as_ref(), &pod.labels)
    }
}

/// A domain whose number of pods differs from the counted one because of hypothetical pods.
#[derive(Clone, Copy)]
struct Shift {
    /// The constraint, by position.
    at: usize,
    value: LabelValueId,
    delta: i64,
}

/// Hard constraints of a pod, with hypothetical pods added and removed.
#[derive(Clone)]
pub(super) struct HardState {
    limits: Arc<[Limit]>,
    shifts: SmallVec<[Shift; 2]>,
}

impl HardState {
    /// O(constraints), if the cluster follows what they count.
    pub(super) fn of(
        cluster: ClusterView<'_>,
        pod: &Pod,
        constraints: &GivenConstraints<'_>,
        specs: &[CounterSpec],
    ) -> Self {
        let counters = cluster.count_pods_of_each(specs);
        let limits = constraints.iter().zip(counters).map(|(given, counter)| {
            let selector = constraints.selector_of(given);
            Limit {
                max_skew: given.max_skew.into(),
                min_domains: given.min_domains.unwrap_or(1).into(),
                selector: selector.cloned(),
                counter,
                own: i64::from(selects(selector, &pod.labels)),
            }
        });
        Self { limits: limits.collect(), shifts: SmallVec::new() }
    }

    /// Another pod hypothetically comes to a node or leaves it.
    ///
    /// Quirk: unlike in bulk counting, pods that are being deleted count, so that the removal of one that was never
    /// counted lowers the number. Pinned by `removing_a_terminating_pod_lowers_the_count`.
    pub(super) fn shift(
        &mut self,
        cluster: ClusterView<'_>,
        pod: &Pod,
        other: &Pod,
        node: NodeIdx,
        delta: i64,
    ) {
        if other.namespace != pod.namespace {
            return;
        }
        for (at, limit) in self.limits.iter().enumerate() {
            let Some(counts) = limit.read(cluster) else { continue };
            if !counts.is_eligible(node) || !limit.means(other) {
                continue;
            }
            let value = counts.domain_of(node);
            match self.shifts.iter_mut().find(|shift| shift.at == at && shift.value == value) {
                Some(shift) => shift.delta += delta,
                None => self.shifts.push(Shift { at, value, delta }),
            }
        }
    }

    /// Whether [`shift`](Self::shift) may do anything on some node.
    pub(super) fn may_shift(&self, pod: &Pod, other: &Pod) -> bool {
        other.namespace == pod.namespace && self.limits.iter().any(|limit| limit.means(other))
    }

    /// The verdict of the first constraint that does not accept the node.
    pub(super) fn judge(&self, cluster: ClusterView<'_>, node: NodeIdx) -> Verdict {
        let verdicts = self.limits.iter().enumerate().map(|(at, limit)| {
            let Some(counts) = limit.read(cluster) else { return Verdict::LacksLabel };
            let Some(counted) = counts.n_pods_near(node) else { return Verdict::LacksLabel };
            let is_shifted = self.shifts_of(at).next().is_some();
            let shift = if is_shifted { self.shift_in(at, counts.domain_of(node)) } else { 0 };
            if counted + shift > self.most(at, limit, counts.numbers()) {
                Verdict::IsSkewed
            } else {
                Verdict::Fits
            }
        });
        verdicts.into_iter().find(|verdict| *verdict != Verdict::Fits).unwrap_or(Verdict::Fits)
    }

    /// Rejects those of `nodes` that a constraint does not accept, each for the reason that [`judge`](Self::judge) gives. Each
    /// domain is judged once.
    pub(super) fn judge_all(
        &self,
        cluster: ClusterView<'_>,
        nodes: &[NodeIdx],
        sink: &mut FilterSink<'_>,
        rejection: &Status,
        rejection_label: &Status,
    ) {
        for (at, limit) in self.limits.iter().enumerate() {
            let read = limit.read(cluster);
            let Some((column, counts)) =
                read.and_then(|counts| Some((counts.column()?, counts.numbers())))
            else {
                // As for a single node: none is known to be in a domain.
                let unlabelled = sink.code_for(rejection_label.clone());
                for idx in nodes {
                    if sink.is_open(*idx) {
                        sink.reject_with(*idx, unlabelled);
                    }
                }
                return;
            };
            let most = self.most(at, limit, counts);
            // A domain without nodes that count has no pods.
            let mut is_skewed = vec![0 > most; column.n_ids()];
            for (value, domain) in counts.domains() {
                is_skewed[value.index()] = domain.n_pods > most;
            }
            for shift in self.shifts_of(at) {
                is_skewed[shift.value.index()] = self.n_pods(at, counts, shift.value) > most;
            }
            is_skewed[LabelValueId::ABSENT.index()] = false;
            let mut is_any_unlabelled = false;
            let skewed = sink.code_for(rejection.clone());
            let is_skewed = &is_skewed[..];
            sink.reject_by_value(nodes, skewed, column.ids(), |_, value| {
                is_any_unlabelled |= value == LabelValueId::ABSENT;
                is_skewed[value.index()]
            });
            if is_any_unlabelled {
                let unlabelled = sink.code_for(rejection_label.clone());
                sink.reject_by_value(nodes, unlabelled, column.ids(), |_, value| {
                    value == LabelValueId::ABSENT
                });
            }
            if column.n_values() == 0 {
                // No node is left to be rejected.
                return;
            }
        }
    }

    fn shifts_of(&self, at: usize) -> impl Iterator<Item = &Shift> {
        self.shifts.iter().filter(move |shift| shift.at == at)
    }

    /// How many pods are in a domain, hypothetical ones included.
    fn n_pods(&self, at: usize, counts: DomainNumbers<'_>, value: LabelValueId) -> i64 {
        counts.n_pods_in(value) + self.shift_in(at, value)
    }

    fn shift_in(&self, at: usize, value: LabelValueId) -> i64 {
        let shift = self.shifts_of(at).find(|shift| shift.value == value);
        shift.map_or(0, |shift| shift.delta)
    }

    /// How many pods a domain may have before the pod comes.
    fn most(&self, at: usize, limit: &Limit, counts: DomainNumbers<'_>) -> i64 {
        limit.max_skew + self.least(at, limit, counts) - limit.own
    }

    /// How many pods are in the emptiest domain; 0 when there are fewer domains than asked for.
    fn least(&self, at: usize, limit: &Limit, counts: DomainNumbers<'_>) -> i64 {
        if i64::try_from(counts.n_domains()).unwrap_or(i64::MAX) < limit.min_domains {
            return 0;
        }
        let shifted: SmallVec<[LabelValueId; 4]> =
            self.shifts_of(at).map(|shift| shift.value).collect();
        let counted = if shifted.is_empty() {
            counts.least()
        } else {
            let others = counts.least_without(&shifted);
            let shifted = shifted.iter().map(|value| self.n_pods(at, counts, *value));
            shifted.chain(others).min()
        };
        counted.unwrap_or(NO_DOMAIN)
    }
}
