//! Soft constraints: how many pods there are already, weighed by how many domains there are to choose from
//! (`docs/spec/plugins-topology.md` §3).
//!
//! The arithmetic is the reference's: 64-bit floats, summed in the order of the constraints, rounded half away from
//! zero, and integer division when normalising.

use std::sync::Arc;

use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::{
    ClusterView, CountedNodes, CounterSpec, DomainCounts, LabelColumn, LabelValueId,
    MAX_NODE_SCORE, NodeIdx, NodeSet, percent,
};

use smallvec::SmallVec;

use super::constraints::{Constraint, HOSTNAME, keys};

/// A raw score that no node gets by itself as long as skews are positive.
pub(super) const IGNORED: i64 = -1;

/// What the constraints of `pod` count, in order. Hosts are scored by the counts of their node, which any counter of
/// the same pods has.
pub(super) fn specs(
    constraints: &[Constraint],
    pod: &Pod,
    requires_all: bool,
    compares_numbers: bool,
) -> Vec<CounterSpec> {
    let keys = if requires_all { keys(constraints) } else { Arc::from([]) };
    let by_domain = |constraint: &Constraint| CounterSpec {
        pods: constraint.counted_pods(&pod.namespace),
        nodes: CountedNodes {
            counts_unlabelled: !requires_all,
            ..constraint.counted_nodes(pod, &keys, compares_numbers)
        },
        topology_key: Some(constraint.key.clone()),
    };
    let spec = |constraint: &Constraint| {
        if &*constraint.key != HOSTNAME {
            return by_domain(constraint);
        }
        let pods = constraint.counted_pods(&pod.namespace);
        let others = constraints.iter().filter(|other| &*other.key != HOSTNAME);
        let mut others = others.filter(|other| other.counted_pods(&pod.namespace) == pods);
        match others.next() {
            Some(other) => by_domain(other),
            None => CounterSpec { pods, ..CounterSpec::default() },
        }
    };
    constraints.iter().map(spec).collect()
}

/// A constraint with its counts.
struct Soft {
    max_skew: i64,
    key: Arc<str>,
    is_hostname: bool,
    counts: Arc<DomainCounts>,
    weight: f64,
    /// How many pods are on nodes without the label, and the id of the empty value, which is the same domain.
    unlabelled: Option<(LabelValueId, i64)>,
}

/// Soft constraints of a pod, and the candidates that take no part.
#[derive(Clone)]
pub(super) struct SoftState {
    all: Arc<[Soft]>,
    ignored: Arc<NodeSet>,
}

impl SoftState {
    pub(super) fn new(
        cluster: ClusterView<'_>,
        constraints: &[Constraint],
        specs: &[CounterSpec],
        requires_all: bool,
        candidates: &[NodeIdx],
    ) -> Self {
        let values: Vec<Values<'_>> =
            constraints.iter().map(|constraint| Values::new(cluster, &constraint.key)).collect();
        // Found before the weights: the candidates that take no part must not add to the number of domains.
        let mut ignored = NodeSet::new();
        if requires_all {
            for &node in candidates {
                if values.iter().any(|values| !values.has(cluster, node)) {
                    ignored.insert(node);
                }
            }
        }
        // What is counted matters to none of them.
        let specs = if ignored.len() == candidates.len() { &[] } else { specs };
        let counted = cluster.counted_all(specs);
        let all = constraints.iter().zip(counted).map(|(constraint, counts)| {
            let is_hostname = &*constraint.key == HOSTNAME;
            // Every host is a domain of its own, so hosts need no look at their values.
            let column = cluster.domain_column(&counts).filter(|_| !is_hostname);
            let n_domains = match column {
                Some(column) => n_values(column, candidates, &ignored),
                None => candidates.len() - ignored.len(),
            };
            let unlabelled = column.filter(|_| !requires_all).and_then(|column| {
                let empty = column.id_of("")?;
                Some((empty, counts.n_pods_in(LabelValueId::ABSENT)))
            });
            Soft {
                max_skew: constraint.max_skew,
                key: constraint.key.clone(),
                is_hostname,
                weight: weight_of(n_domains),
                counts,
                unlabelled,
            }
        });
        let all = all.collect();
        Self { all, ignored: Arc::new(ignored) }
    }

    /// The raw score of one node.
    pub(super) fn score(&self, cluster: ClusterView<'_>, node: NodeIdx) -> i64 {
        if self.ignored.contains(node) {
            return 0;
        }
        let mut score = 0.0;
        for soft in &*self.all {
            let values = Values::new(cluster, &soft.key);
            if values.has(cluster, node) {
                score += soft.part(soft.n_pods(cluster, node));
            }
        }
        rounded(score)
    }

    /// The same for many nodes.
    pub(super) fn score_all(
        &self,
        cluster: ClusterView<'_>,
        nodes: &[NodeIdx],
        scores: &mut [i64],
    ) {
        /// Nodes whose sums are worked out together, in memory that is at hand.
        const RUN: usize = 256;

        let all: SmallVec<[Parts<'_>; 2]> =
            self.all.iter().map(|soft| Parts::new(cluster, soft)).collect();
        for (nodes, scores) in nodes.chunks(RUN).zip(scores.chunks_mut(RUN)) {
            let mut sums = [0.0; RUN];
            all.iter().for_each(|parts| parts.add_to(cluster, nodes, &mut sums));
            for ((score, sum), node) in scores.iter_mut().zip(sums).zip(nodes) {
                *score = if self.ignored.contains(*node) { 0 } else { rounded(sum) };
            }
        }
    }

    /// The fewer pods, the better: the highest raw score becomes the lowest, in proportion. Nodes that take no part
    /// get 0.
    pub(super) fn normalize(&self, nodes: &[NodeIdx], scores: &mut [i64]) {
        for (score, node) in scores.iter_mut().zip(nodes) {
            if self.ignored.contains(*node) {
                *score = IGNORED;
            }
        }
        normalize(scores);
    }
}

/// Reverses raw scores, since fewer pods are better; [`IGNORED`] ones take no part and become 0.
pub(super) fn normalize(scores: &mut [i64]) {
    let (mut least, mut most) = (i64::MAX, 0);
    for score in scores.iter().filter(|score| **score != IGNORED) {
        least = least.min(*score);
        most = most.max(*score);
    }
    for score in scores {
        *score = if *score == IGNORED {
            0
        } else if most == 0 {
            MAX_NODE_SCORE
        } else {
            percent(most.wrapping_add(least).wrapping_sub(*score), most)
        };
    }
}

impl Soft {
    /// What the number of pods contributes to a raw score.
    fn part(&self, n_pods: i64) -> f64 {
        part(n_pods, self.weight, self.max_skew)
    }

    /// How many pods are where a node is.
    ///
    /// Quirk: for hosts these are the pods of the node, whether or not it counts and whichever other node has the same
    /// host name. Pinned by `hosts_are_scored_by_their_node_alone`.
    fn n_pods(&self, cluster: ClusterView<'_>, node: NodeIdx) -> i64 {
        if self.is_hostname {
            return self.counts.on_node(node);
        }
        let value = cluster
            .domain_column(&self.counts)
            .map_or(LabelValueId::ABSENT, |column| column.id(node));
        self.in_domain(value, self.counts.n_pods_in(value))
    }

    fn in_domain(&self, value: LabelValueId, n_pods: i64) -> i64 {
        let unlabelled = self.unlabelled.filter(|(empty, _)| *empty == value);
        n_pods + unlabelled.map_or(0, |(_, n_unlabelled)| n_unlabelled)
    }
}

/// What a constraint contributes to the raw scores of many nodes.
enum Parts<'a> {
    /// Each domain is worked out once.
    ByDomain(&'a LabelColumn, Vec<f64>),
    ByNode(&'a Soft, Values<'a>),
}

impl<'a> Parts<'a> {
    fn new(cluster: ClusterView<'a>, soft: &'a Soft) -> Self {
        let Some(column) = cluster.domain_column(&soft.counts).filter(|_| !soft.is_hostname) else {
            return Self::ByNode(soft, Values::new(cluster, &soft.key));
        };
        // What no counter knows is a domain without nodes that count.
        let mut parts = vec![soft.part(0); column.n_ids()];
        for (value, domain) in soft.counts.domains() {
            parts[value.index()] = soft.part(soft.in_domain(value, domain.n_pods));
        }
        // Without the label nothing is added, and adding 0 to a sum that began with 0 is just that.
        parts[LabelValueId::ABSENT.index()] = 0.0;
        Self::ByDomain(column, parts)
    }

    fn add_to(&self, cluster: ClusterView<'_>, nodes: &[NodeIdx], sums: &mut [f64]) {
        match self {
            Self::ByDomain(column, parts) => {
                for (sum, &node) in sums.iter_mut().zip(nodes) {
                    *sum += parts[column.id(node).index()];
                }
            }
            Self::ByNode(soft, values) => {
                for (sum, &node) in sums.iter_mut().zip(nodes) {
                    if values.has(cluster, node) {
                        *sum += soft.part(soft.counts.on_node(node));
                    }
                }
            }
        }
    }
}

/// What a number of pods contributes to a raw score.
pub(super) fn part(n_pods: i64, weight: f64, max_skew: i64) -> f64 {
    n_pods as f64 * weight + (max_skew - 1) as f64
}

/// Which nodes have a label: from its column, or from the nodes where there is none.
struct Values<'a> {
    key: &'a str,
    column: Option<&'a LabelColumn>,
}

impl<'a> Values<'a> {
    fn new(cluster: ClusterView<'a>, key: &'a str) -> Self {
        Self { key, column: cluster.label_column(key) }
    }

    #[inline]
    fn has(&self, cluster: ClusterView<'_>, node: NodeIdx) -> bool {
        match self.column {
            Some(column) => column.id(node) != LabelValueId::ABSENT,
            None => cluster.node(node).is_some_and(|node| node.labels().contains_key(self.key)),
        }
    }
}

/// How many distinct values the candidates have; no label is the same as an empty value.
fn n_values(column: &LabelColumn, candidates: &[NodeIdx], ignored: &NodeSet) -> usize {
    let mut is_seen = vec![false; column.n_ids()];
    for &node in candidates {
        if ignored.is_empty() || !ignored.contains(node) {
            is_seen[column.id(node).index()] = true;
        }
    }
    let n_seen = is_seen.iter().filter(|is_seen| **is_seen).count();
    let seen = |value: LabelValueId| is_seen.get(value.index()).copied().unwrap_or(false);
    let is_double = seen(LabelValueId::ABSENT) && column.id_of("").is_some_and(seen);
    n_seen - usize::from(is_double)
}

/// The weight of a constraint with this many domains to choose from: more domains have fewer pods each.
pub(super) fn weight_of(n_domains: usize) -> f64 {
    ((n_domains + 2) as f64).ln()
}

pub(super) fn rounded(score: f64) -> i64 {
    score.round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_natural_logarithms() {
        let expected = [
            (1, 1.098_612_288_668_109_8),
            (2, 1.386_294_361_119_890_6),
            (3, 1.609_437_912_434_100_3),
            (4, 1.791_759_469_228_055),
            (10, 2.484_906_649_788_000_4),
            (100, 4.624_972_813_284_271),
            (1000, 6.909_753_281_644_81),
            (5000, 8.517_593_111_437_565),
        ];
        for (n_domains, weight) in expected {
            assert!((weight_of(n_domains) - weight).abs() < 1e-15 * weight, "{n_domains}");
        }
    }

    #[test]
    fn scores_are_rounded_half_away_from_zero() {
        assert_eq!([0.5, 1.4, 2.5, -0.5].map(rounded), [1, 1, 3, -1]);
    }
}
