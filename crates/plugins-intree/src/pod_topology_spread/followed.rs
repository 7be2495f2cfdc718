//! Cached answers of PodTopologySpread, kept up to date: they follow from the pod counts of a node's domains.
//!
//! The engine groups nodes with equal standings. For a topology key with few values a node's standing is the value; for
//! one with many (host names above all) it is the number of pods in the domain. Either way one more pod changes the
//! standing of few nodes.
//!
//! Invariant: everything but weights and limits is read from the cluster's counters when an answer is needed.

use std::sync::Arc;

use kube_scheduler_framework::api::{Pod, WhenUnsatisfiable};
use kube_scheduler_framework::columns::{LabelColumn, ValueId as LabelValueId};
use kube_scheduler_framework::counters::{CounterId, DomainCounts};
use kube_scheduler_framework::{
    Candidates, ClusterView, Context, CycleState, DomainAnswers, DomainScoped, GroupKey, NodeIdx,
};

use super::constraints::{Constraint, HOSTNAME};
use super::scoring::{IGNORED, normalize, part, rounded, weight_of};
use super::{HardState, PodTopologySpread, SoftState, filtering, scoring};

/// A topology key with more values than this groups nodes by pod counts, not by the value.
const FEW_VALUES: usize = 64;
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
    fn domain_answers(&self, cx: &Context<'_>, pod: &Pod) -> Option<Box<dyn DomainAnswers>> {
        let constraints_of = |action| self.defaults.constraints_of(cx.cluster(), pod, action);
        let (Ok(hard), Ok(soft)) = (
            constraints_of(WhenUnsatisfiable::DoNotSchedule),
            constraints_of(WhenUnsatisfiable::ScheduleAnyway),
        ) else {
            return None;
        };
        if hard.is_empty() && soft.is_empty() {
            return None;
        }
        Some(Box::new(self.answers(cx.cluster(), pod, hard, &soft)?))
    }

    fn forget(&self, state: &mut CycleState) {
        state.remove::<HardState>();
        state.remove::<SoftState>();
    }
}

impl PodTopologySpread {
    /// `None` when a counter is not followed or a key has too many values.
    fn answers(
        &self,
        cluster: ClusterView<'_>,
        pod: &Pod,
        hard: Vec<Constraint>,
        soft: &[Constraint],
    ) -> Option<SpreadAnswers> {
        let hard_specs = filtering::specs(&hard, pod, self.compares_numbers);
        let mut limits = Vec::new();
        for (constraint, spec) in hard.into_iter().zip(&hard_specs) {
            let counter = cluster.followed_id(spec)?;
            let n_values = cluster.label_column(&constraint.key)?.n_values();
            let own = i64::from(constraint.matches(&pod.labels));
            let is_fine = n_values > FEW_VALUES;
            limits.push(Limit { constraint, counter, own, is_fine, most: 0 });
        }
        let requires_all = self.defaults.requires_all_keys(pod);
        let soft_specs = scoring::specs(soft, pod, requires_all, self.compares_numbers);
        let mut wishes = Vec::new();
        for (constraint, spec) in soft.iter().zip(&soft_specs) {
            let counter = cluster.followed_id(spec)?;
            // The weight needs the number of distinct values among the candidates, which the standings show only while
            // they are the values themselves. For hosts it is the number of candidates.
            let is_hostname = &*constraint.key == HOSTNAME;
            let column = cluster.label_column(&constraint.key)?;
            if !is_hostname && column.n_values() > FEW_VALUES {
                return None;
            }
            let (key, max_skew) = (constraint.key.clone(), constraint.max_skew);
            wishes.push(Wish { max_skew, key, counter, is_hostname });
        }
        let uses_defaults = pod.spec.topology_spread_constraints.is_empty();
        Some(SpreadAnswers {
            limits,
            wishes,
            requires_all,
            selecting: uses_defaults.then(|| selecting_sequences(cluster)),
        })
    }
}

/// A hard constraint.
struct Limit {
    constraint: Constraint,
    counter: CounterId,
    /// 1 if the pod itself will count, else 0.
    own: i64,
    /// Whether the key has more than [`FEW_VALUES`] values.
    is_fine: bool,
    /// How many pods a domain may have before the pod comes.
    most: i64,
}

/// A soft constraint.
struct Wish {
    max_skew: i64,
    key: Arc<str>,
    counter: CounterId,
    is_hostname: bool,
}

struct SpreadAnswers {
    limits: Vec<Limit>,
    wishes: Vec<Wish>,
    /// Whether nodes that lack a soft constraint's label take no part in scoring.
    requires_all: bool,
    /// Where the objects stood that default constraints were made from.
    selecting: Option<[u64; 4]>,
}

/// A counter with its column; the engine starts over before one of them can be missing.
fn read(cluster: ClusterView<'_>, counter: CounterId) -> Option<(&DomainCounts, &LabelColumn)> {
    let counts = cluster.followed_by_id(counter)?;
    Some((counts, cluster.domain_column(counts)?))
}

fn number(n: i64) -> u32 {
    u32::try_from(n).unwrap_or(NO_DOMAIN - 1)
}

impl SpreadAnswers {
    /// Whether a node takes no part in scoring.
    fn is_ignored(&self, cluster: ClusterView<'_>, node: NodeIdx) -> bool {
        self.requires_all && self.wishes.iter().any(|wish| !wish.has_label(cluster, node))
    }
}

impl Wish {
    fn value(&self, cluster: ClusterView<'_>, node: NodeIdx) -> LabelValueId {
        let column = cluster.label_column(&self.key);
        column.map_or(LabelValueId::ABSENT, |column| column.id(node))
    }

    fn has_label(&self, cluster: ClusterView<'_>, node: NodeIdx) -> bool {
        self.value(cluster, node) != LabelValueId::ABSENT
    }

    /// How many pods are where a node is: on it, or in its domain, to which nodes without the label belong if the value
    /// is empty.
    fn n_pods(&self, cluster: ClusterView<'_>, node: NodeIdx, requires_all: bool) -> i64 {
        let Some(counts) = cluster.followed_by_id(self.counter) else { return 0 };
        if self.is_hostname {
            return counts.on_node(node);
        }
        let Some(column) = cluster.domain_column(counts) else { return 0 };
        let value = column.id(node);
        let is_empty = !requires_all && column.id_of("") == Some(value);
        let unlabelled = if is_empty { counts.n_pods_in(LabelValueId::ABSENT) } else { 0 };
        counts.n_pods_in(value) + unlabelled
    }

    /// By how many domains the candidates differ, as the weight has it.
    fn n_domains(&self, cluster: ClusterView<'_>, taking_part: &[Candidates]) -> usize {
        if self.is_hostname {
            return taking_part.iter().map(|candidates| candidates.n_nodes).sum();
        }
        let mut values: Vec<LabelValueId> =
            taking_part.iter().map(|candidates| self.value(cluster, candidates.node)).collect();
        values.sort_unstable();
        values.dedup();
        // No label is the same as an empty value.
        let has = |value: LabelValueId| values.binary_search(&value).is_ok();
        let empty = cluster.label_column(&self.key).and_then(|column| column.id_of(""));
        let is_double = has(LabelValueId::ABSENT) && empty.is_some_and(has);
        values.len() - usize::from(is_double)
    }
}

impl DomainAnswers for SpreadAnswers {
    fn catch_up(
        &mut self,
        cx: &Context<'_>,
        _: &Pod,
        changed: &[NodeIdx],
        moved: &mut Vec<NodeIdx>,
    ) -> bool {
        if self.selecting.is_some_and(|then| then != selecting_sequences(cx.cluster()))
            || self.wishes.iter().any(|wish| cx.cluster().followed_by_id(wish.counter).is_none())
        {
            return false;
        }
        for limit in &mut self.limits {
            let Some((counts, column)) = read(cx.cluster(), limit.counter) else { return false };
            limit.most = filtering::most_allowed(&limit.constraint, counts, limit.own);
            if !limit.is_fine {
                continue;
            }
            for node in changed {
                let neighbours = column.nodes(column.id(*node)).filter(|nodes| nodes.len() > 1);
                moved.extend(neighbours.into_iter().flat_map(|nodes| nodes.iter()));
            }
        }
        true
    }

    fn stand(&self, cluster: ClusterView<'_>, node: NodeIdx, standing: &mut GroupKey) {
        for limit in &self.limits {
            let Some((counts, column)) = read(cluster, limit.counter) else {
                standing.push(NO_DOMAIN);
                continue;
            };
            let value = column.id(node);
            standing.push(match value {
                LabelValueId::ABSENT => NO_DOMAIN,
                value if limit.is_fine => number(counts.n_pods_in(value)),
                value => value.index() as u32,
            });
        }
        for wish in &self.wishes {
            if wish.is_hostname {
                standing.push(u32::from(wish.has_label(cluster, node)));
                standing.push(number(wish.n_pods(cluster, node, self.requires_all)));
            } else {
                standing.push(wish.value(cluster, node).index() as u32);
            }
        }
    }

    fn fits(&self, cluster: ClusterView<'_>, node: NodeIdx) -> bool {
        self.limits.iter().all(|limit| {
            read(cluster, limit.counter).is_some_and(|(counts, column)| {
                let value = column.id(node);
                value != LabelValueId::ABSENT && counts.n_pods_in(value) <= limit.most
            })
        })
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
        let taking_part: Vec<Candidates> = candidates
            .iter()
            .copied()
            .filter(|candidates| !self.is_ignored(cluster, candidates.node))
            .collect();
        let weights: Vec<f64> = self
            .wishes
            .iter()
            .map(|wish| weight_of(wish.n_domains(cluster, &taking_part)))
            .collect();
        for (candidates, score) in candidates.iter().zip(scores.iter_mut()) {
            let node = candidates.node;
            if self.is_ignored(cluster, node) {
                *score = IGNORED;
                continue;
            }
            let mut sum = 0.0;
            for (wish, weight) in self.wishes.iter().zip(&weights) {
                if wish.has_label(cluster, node) {
                    let n_pods = wish.n_pods(cluster, node, self.requires_all);
                    sum += part(n_pods, *weight, wish.max_skew);
                }
            }
            *score = rounded(sum);
        }
        normalize(scores);
        true
    }
}
