//! Cached answers of PodTopologySpread: what Filter and Score prepare, with nodes grouped by what it says about them.
//!
//! For a topology key with few values a node's standing is the value; for one with many (host names above all) it is the
//! number of pods in the domain. Either way one more pod changes the standing of few nodes.

use kube_scheduler_framework::api::{Pod, WhenUnsatisfiable};
use kube_scheduler_framework::columns::ValueId as LabelValueId;
use kube_scheduler_framework::counters::CounterId;
use kube_scheduler_framework::{
    Candidates, ClusterView, Context, CycleState, DomainAnswers, DomainScoped, GroupKey, NodeIdx,
};

use super::PodTopologySpread;
use super::filtering::{HardState, Verdict};
use super::scoring::{SoftState, Wishes};
use crate::domains::{add_neighbours, followed, has_many_values};

/// Stands for a domain that is none: the node lacks the label.
const NO_DOMAIN: u32 = u32::MAX;

/// What default constraints are made from, by group and kind.
const SELECTING_KINDS: [(&str, &str); 4] = [
    ("", "Service"),
    ("", "ReplicationController"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
];

fn selecting_sequences(cluster: ClusterView<'_>) -> [u64; 4] {
    SELECTING_KINDS.map(|(group, kind)| cluster.objects().kind_sequence(group, kind))
}

impl DomainScoped for PodTopologySpread {
    /// `None` when a counter is not followed or a key has too many values, too.
    fn domain_answers(&self, cx: &Context<'_>, pod: &Pod) -> Option<Box<dyn DomainAnswers>> {
        let cluster = cx.cluster();
        let constraints = |action| self.constraints(cluster, pod, action).ok();
        let hard = constraints(WhenUnsatisfiable::DoNotSchedule)?;
        let soft = constraints(WhenUnsatisfiable::ScheduleAnyway)?;
        if hard.is_empty() && soft.is_empty() {
            return None;
        }
        let specs = hard.iter().chain(&soft).map(|(_, spec)| spec.clone());
        let counters = followed(cluster, specs)?;
        let hard = HardState::of(cluster, pod, hard);
        let wishes = Wishes::of(cluster, soft, self.defaults.requires_all_keys(pod));
        let is_readable = hard.limits().iter().all(|limit| limit.read(cluster).is_some())
            && wishes.read(cluster)?.iter().all(|reader| reader.can_be_grouped());
        let uses_defaults = pod.spec.topology_spread_constraints.is_empty();
        let selecting = uses_defaults.then(|| selecting_sequences(cluster));
        is_readable.then(|| Box::new(SpreadAnswers { counters, hard, wishes, selecting }) as _)
    }

    fn forget(&self, state: &mut CycleState) {
        state.remove::<HardState>();
        state.remove::<SoftState>();
    }
}

struct SpreadAnswers {
    counters: Vec<CounterId>,
    hard: HardState,
    wishes: Wishes,
    /// Where the objects stood that default constraints were made from.
    selecting: Option<[u64; 4]>,
}

fn number(n: i64) -> u32 {
    u32::try_from(n).unwrap_or(NO_DOMAIN - 1)
}

impl DomainAnswers for SpreadAnswers {
    fn catch_up(
        &mut self,
        cx: &Context<'_>,
        _: &Pod,
        changed: &[NodeIdx],
        moved: &mut Vec<NodeIdx>,
    ) -> bool {
        let cluster = cx.cluster();
        if self.selecting.is_some_and(|then| then != selecting_sequences(cluster))
            || self.counters.iter().any(|id| cluster.followed_by_id(*id).is_none())
        {
            return false;
        }
        let columns = self.hard.limits().iter().filter_map(|limit| limit.read(cluster));
        columns.for_each(|(_, column)| add_neighbours(column, changed, moved));
        true
    }

    fn stand(&self, cluster: ClusterView<'_>, node: NodeIdx, standing: &mut GroupKey) {
        for limit in self.hard.limits() {
            standing.push(limit.read(cluster).map_or(NO_DOMAIN, |(counts, column)| {
                match column.id(node) {
                    LabelValueId::ABSENT => NO_DOMAIN,
                    value if has_many_values(column) => number(counts.n_pods_in(value)),
                    value => value.index() as u32,
                }
            }));
        }
        for reader in self.wishes.read(cluster).into_iter().flatten() {
            standing.push(reader.standing(node).map_or(NO_DOMAIN, number));
        }
    }

    fn fits(&self, cluster: ClusterView<'_>, node: NodeIdx) -> bool {
        self.hard.judge(cluster, node) == Verdict::Fits
    }

    fn score(
        &mut self,
        cluster: ClusterView<'_>,
        candidates: &[Candidates],
        scores: &mut [i64],
    ) -> bool {
        if self.wishes.is_empty() {
            return false;
        }
        let groups = candidates.iter().map(|candidates| (candidates.node, candidates.n_nodes));
        let nodes: Vec<NodeIdx> = candidates.iter().map(|candidates| candidates.node).collect();
        let Some(soft) = SoftState::new(cluster, &self.wishes, groups) else { return false };
        soft.score_all(cluster, &nodes, scores);
        soft.normalize(&nodes, scores);
        true
    }
}
