//! Hard constraints: PreFilter's state, hypothetical pods, and the verdict on a node (`docs/spec/plugins-topology.md` §2.5
//! to §2.8).
//!
//! Invariant: a clone of the state shares what was prepared and copies the shifts of hypothetical pods alone.

use std::sync::Arc;

use kube_scheduler_framework::api::{LabelSelector, Pod};
use kube_scheduler_framework::columns::ValueId as LabelValueId;
use kube_scheduler_framework::counters::{CounterSpec, DomainNumbers, PodCounter};
use kube_scheduler_framework::{
    ClusterView, Context, CycleState, Filter, FilterSink, NodeIdx, NodeView, PodCounts,
    PreFilterExtensions, Status,
};
use smallvec::SmallVec;

use super::PodTopologySpread;
use super::constraints::{GivenConstraints, selects};

const NO_STATE: &str = "reading \"PreFilterPodTopologySpread\" from cycleState: not found";

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

/// A constraint with what it counts.
struct Limit {
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

impl PreFilterExtensions for PodTopologySpread {
    fn may_fail(&self, state: &CycleState) -> bool {
        state.get::<HardState>().is_none()
    }

    fn concerns(&self, _: &Context<'_>, state: &CycleState, pod: &Pod, added: &Pod) -> bool {
        state.get::<HardState>().is_none_or(|hard| {
            added.namespace == pod.namespace && hard.limits.iter().any(|limit| limit.means(added))
        })
    }

    fn add_pod(
        &self,
        _: &Context<'_>,
        state: &mut CycleState,
        pod: &Pod,
        added: &Pod,
        node: &NodeView<'_>,
    ) -> Status {
        shift(state, pod, added, node, 1)
    }

    fn remove_pod(
        &self,
        _: &Context<'_>,
        state: &mut CycleState,
        pod: &Pod,
        removed: &Pod,
        node: &NodeView<'_>,
    ) -> Status {
        shift(state, pod, removed, node, -1)
    }
}

/// Another pod hypothetically comes to a node or leaves it.
///
/// Quirk: unlike in bulk counting, pods that are being deleted count, so that the removal of one that was never
/// counted lowers the number. Pinned by `removing_a_terminating_pod_lowers_the_count`.
fn shift(
    state: &mut CycleState,
    pod: &Pod,
    other: &Pod,
    node: &NodeView<'_>,
    delta: i64,
) -> Status {
    let Some(HardState { limits, shifts }) = state.get_mut() else { return no_state() };
    if other.namespace != pod.namespace {
        return Status::SUCCESS;
    }
    for (at, limit) in limits.iter().enumerate() {
        let Some(counts) = limit.read(node.cluster()) else { continue };
        if !counts.is_eligible(node.idx()) || !limit.means(other) {
            continue;
        }
        let value = counts.domain_of(node.idx());
        match shifts.iter_mut().find(|shift| shift.at == at && shift.value == value) {
            Some(shift) => shift.delta += delta,
            None => shifts.push(Shift { at, value, delta }),
        }
    }
    Status::SUCCESS
}

impl Filter for PodTopologySpread {
    /// Rejects by the first constraint that does not accept the node.
    fn filter(&self, _: &Context<'_>, state: &CycleState, _: &Pod, node: &NodeView<'_>) -> Status {
        let Some(hard) = state.get::<HardState>() else { return no_state() };
        for (at, limit) in hard.limits.iter().enumerate() {
            let counts = limit.read(node.cluster());
            let counted = counts.and_then(|counts| Some((counts, counts.n_pods_near(node.idx())?)));
            let Some((counts, n_pods)) = counted else { return self.rejection_label.clone() };
            let is_shifted = hard.shifts_of(at).next().is_some();
            let shift =
                if is_shifted { hard.shift_in(at, counts.domain_of(node.idx())) } else { 0 };
            if n_pods + shift > hard.most(at, limit, counts.numbers()) {
                return self.rejection.clone();
            }
        }
        Status::SUCCESS
    }

    /// Judges each domain once.
    fn filter_all(
        &self,
        cx: &Context<'_>,
        state: &CycleState,
        _: &Pod,
        nodes: &[NodeIdx],
        sink: &mut FilterSink<'_>,
    ) -> Result<(), Status> {
        let Some(hard) = state.get::<HardState>() else {
            return sink.reject_each(cx, nodes, |_, _| no_state());
        };
        for (at, limit) in hard.limits.iter().enumerate() {
            let read = limit.read(cx.cluster());
            let Some((column, counts)) =
                read.and_then(|counts| Some((counts.column()?, counts.numbers())))
            else {
                // As for a single node: none is known to be in a domain.
                return sink.reject_each(cx, nodes, |_, _| self.rejection_label.clone());
            };
            let most = hard.most(at, limit, counts);
            // A domain without nodes that count has no pods.
            let mut is_skewed = vec![0 > most; column.n_ids()];
            for (value, domain) in counts.domains() {
                is_skewed[value.index()] = domain.n_pods > most;
            }
            for shift in hard.shifts_of(at) {
                is_skewed[shift.value.index()] = hard.n_pods(at, counts, shift.value) > most;
            }
            is_skewed[LabelValueId::ABSENT.index()] = false;
            let mut is_any_unlabelled = false;
            let skewed = sink.code_for(self.rejection.clone());
            let is_skewed = &is_skewed[..];
            sink.reject_by_value(nodes, skewed, column.ids(), |_, value| {
                is_any_unlabelled |= value == LabelValueId::ABSENT;
                is_skewed[value.index()]
            });
            if is_any_unlabelled {
                let unlabelled = sink.code_for(self.rejection_label.clone());
                sink.reject_by_value(nodes, unlabelled, column.ids(), |_, value| {
                    value == LabelValueId::ABSENT
                });
            }
            if column.n_values() == 0 {
                // No node is left to be rejected.
                break;
            }
        }
        Ok(())
    }
}

fn no_state() -> Status {
    Status::error(NO_STATE)
}
