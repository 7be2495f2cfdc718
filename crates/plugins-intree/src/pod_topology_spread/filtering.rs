//! Hard constraints: PreFilter's state, hypothetical pods, and the verdict on a node (`docs/spec/plugins-topology.md` §2.5
//! to §2.8).
//!
//! Invariant: a clone of the state shares all counts and copies the shifts of hypothetical pods alone.

use std::sync::Arc;

use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::{
    ClusterView, CounterSpec, DomainCounts, FilterSink, LabelValueId, NodeIdx, Status,
};
use smallvec::SmallVec;

use super::constraints::{Constraint, keys};

/// What the constraints of `pod` count, in order.
pub(super) fn specs(
    constraints: &[Constraint],
    pod: &Pod,
    compares_numbers: bool,
) -> Vec<CounterSpec> {
    let keys = keys(constraints);
    let spec = |constraint: &Constraint| CounterSpec {
        pods: constraint.counted_pods(&pod.namespace),
        nodes: constraint.counted_nodes(pod, &keys, compares_numbers),
        topology_key: Some(constraint.key.clone()),
    };
    constraints.iter().map(spec).collect()
}

/// What a constraint says about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Fits,
    LacksLabel,
    IsSkewed,
}

/// A constraint with its counts.
struct Hard {
    constraint: Constraint,
    counts: Arc<DomainCounts>,
    /// 1 if the pod itself will count, else 0.
    own: i64,
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
    all: Arc<[Hard]>,
    shifts: SmallVec<[Shift; 2]>,
}

impl HardState {
    pub(super) fn new(
        cluster: ClusterView<'_>,
        pod: &Pod,
        constraints: Vec<Constraint>,
        specs: &[CounterSpec],
    ) -> Self {
        let counted = cluster.counted_all(specs);
        let all = constraints.into_iter().zip(counted).map(|(constraint, counts)| Hard {
            counts,
            own: i64::from(constraint.matches(&pod.labels)),
            constraint,
        });
        Self { all: all.collect(), shifts: SmallVec::new() }
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
        for (at, hard) in self.all.iter().enumerate() {
            if !hard.counts.is_eligible(node) || !hard.constraint.matches(&other.labels) {
                continue;
            }
            let value = hard.value(cluster, node);
            match self.shifts.iter_mut().find(|shift| shift.at == at && shift.value == value) {
                Some(shift) => shift.delta += delta,
                None => self.shifts.push(Shift { at, value, delta }),
            }
        }
    }

    /// The verdict of the first constraint that does not accept the node.
    pub(super) fn judge(&self, cluster: ClusterView<'_>, node: NodeIdx) -> Verdict {
        let verdicts = self.all.iter().enumerate().map(|(at, hard)| {
            let value = hard.value(cluster, node);
            if value == LabelValueId::ABSENT {
                Verdict::LacksLabel
            } else if self.n_pods(at, hard, value) > hard.most(self.least(at, hard)) {
                Verdict::IsSkewed
            } else {
                Verdict::Fits
            }
        });
        verdicts.into_iter().find(|verdict| *verdict != Verdict::Fits).unwrap_or(Verdict::Fits)
    }

    /// The same for all open nodes, each domain judged once.
    pub(super) fn judge_all(
        &self,
        cluster: ClusterView<'_>,
        nodes: &[NodeIdx],
        sink: &mut FilterSink<'_>,
        rejection: &Status,
        rejection_label: &Status,
    ) {
        for (at, hard) in self.all.iter().enumerate() {
            let Some(column) = cluster.domain_column(&hard.counts) else { continue };
            let most = hard.most(self.least(at, hard));
            // A domain without nodes that count has no pods.
            let mut is_skewed = vec![0 > most; column.n_ids()];
            for (value, domain) in hard.counts.domains() {
                is_skewed[value.index()] = domain.n_pods > most;
            }
            for shift in self.shifts.iter().filter(|shift| shift.at == at) {
                is_skewed[shift.value.index()] = self.n_pods(at, hard, shift.value) > most;
            }
            is_skewed[LabelValueId::ABSENT.index()] = false;
            let mut is_any_unlabelled = false;
            let skewed = sink.code_for(rejection.clone());
            sink.reject_where(nodes, skewed, |node| {
                let value = column.id(node);
                is_any_unlabelled |= value == LabelValueId::ABSENT;
                is_skewed[value.index()]
            });
            if is_any_unlabelled {
                let unlabelled = sink.code_for(rejection_label.clone());
                let lacks_label = |node| column.id(node) == LabelValueId::ABSENT;
                sink.reject_where(nodes, unlabelled, lacks_label);
            }
            if column.n_values() == 0 {
                // No node is left to be rejected.
                return;
            }
        }
    }

    /// How many pods are in a domain, hypothetical ones included.
    fn n_pods(&self, at: usize, hard: &Hard, value: LabelValueId) -> i64 {
        let shift = self.shifts.iter().find(|shift| shift.at == at && shift.value == value);
        hard.counts.n_pods_in(value) + shift.map_or(0, |shift| shift.delta)
    }

    /// How many pods are in the emptiest domain; 0 when there are fewer domains than asked for.
    fn least(&self, at: usize, hard: &Hard) -> i64 {
        if has_too_few_domains(&hard.constraint, &hard.counts) {
            return 0;
        }
        let shifted: SmallVec<[LabelValueId; 4]> =
            self.shifts.iter().filter(|shift| shift.at == at).map(|shift| shift.value).collect();
        let counted = if shifted.is_empty() {
            hard.counts.least()
        } else {
            let others = hard.counts.least_without(&shifted);
            let shifted = shifted.iter().map(|value| self.n_pods(at, hard, *value));
            shifted.chain(others).min()
        };
        counted.unwrap_or(NO_DOMAIN)
    }
}

/// The fewest pods where there is no domain: everything fits, which takes a `minDomains` that no API server lets pass.
const NO_DOMAIN: i64 = i32::MAX as i64;

fn has_too_few_domains(constraint: &Constraint, counts: &DomainCounts) -> bool {
    i64::try_from(counts.n_domains()).unwrap_or(i64::MAX) < constraint.min_domains
}

/// How many pods a domain may have before the pod comes, without hypothetical ones. `own` is 1 if the pod itself will
/// count.
pub(super) fn most_allowed(constraint: &Constraint, counts: &DomainCounts, own: i64) -> i64 {
    let least = if has_too_few_domains(constraint, counts) {
        0
    } else {
        counts.least().unwrap_or(NO_DOMAIN)
    };
    constraint.max_skew + least - own
}

impl Hard {
    fn value(&self, cluster: ClusterView<'_>, node: NodeIdx) -> LabelValueId {
        cluster.domain_column(&self.counts).map_or(LabelValueId::ABSENT, |column| column.id(node))
    }

    /// How many pods a domain may have before the pod comes.
    fn most(&self, least: i64) -> i64 {
        self.constraint.max_skew + least - self.own
    }
}
