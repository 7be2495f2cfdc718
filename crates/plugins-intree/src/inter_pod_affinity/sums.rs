//! Numbers by topology domain, read from the cluster's counters and from the terms that its pods carry.
//!
//! A sum only knows where its numbers come from, so making one costs as much as there are sources; a scan adds them up by
//! domain where that takes less time than asking for each node.
//!
//! Invariant: the number in a domain is the same however it is read.

use std::sync::Arc;

use kube_scheduler_framework::affinity::{TermCount, TermId};
use kube_scheduler_framework::columns::{
    LabelColumn, NodeGroup, PooledVec, ValueId as LabelValueId, VecPool,
};
use kube_scheduler_framework::counters::{CounterSpec, DomainCounts};
use kube_scheduler_framework::{ClusterView, NodeIdx};
use smallvec::SmallVec;

use crate::domains::Counter;

/// With more terms about a pod than this, their sums by domain are worth having once for all nodes.
pub(super) const MANY_TERMS: usize = 64;
/// More values than this are too many to look at each when few have a number.
const MANY_VALUES: usize = 512;

/// What one pod that carries a term adds to a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Amount {
    /// Each time it carries the term.
    pub(super) per_pod: i64,
    /// For each unit of the term's weight.
    pub(super) per_weight: i64,
}

impl Amount {
    fn of(self, carried: TermCount) -> i64 {
        self.per_pod * i64::from(carried.n) + self.per_weight * carried.weight
    }
}

#[derive(Debug)]
enum Source {
    /// The pods that count, each with this amount.
    Counter(Counter, i64),
    /// The pods that carry a term.
    Term(TermId, Amount),
    /// Many terms added up, by id of the value; what is missing at the end is 0.
    Sums(PooledVec<i64>),
}

impl Source {
    fn number_in(&self, cluster: ClusterView<'_>, value: LabelValueId) -> i64 {
        match self {
            Self::Counter(counter, factor) => {
                counter.counts(cluster).map_or(0, |counts| factor * counts.n_pods_in(value))
            }
            Self::Term(id, amount) => {
                let carried = cluster.affinity_terms().get(*id);
                carried.map_or(0, |carried| amount.of(carried.domains().get(value)))
            }
            // A value that came after the sums has no number yet.
            Self::Sums(sums) => sums.get(value.index()).copied().unwrap_or(0),
        }
    }

    /// Whether there are pods anywhere that it is about; their amounts may cancel out.
    fn is_any(&self, cluster: ClusterView<'_>) -> bool {
        match self {
            Self::Counter(counter, _) => {
                counter.counts(cluster).is_some_and(|counts| counts.n_pods() > 0)
            }
            Self::Term(id, _) => {
                let carried = cluster.affinity_terms().get(*id);
                carried.is_some_and(|carried| !carried.domains().is_empty())
            }
            Self::Sums(_) => true,
        }
    }

    /// Calls `visit` with the number of each domain that has pods.
    fn visit(&self, cluster: ClusterView<'_>, mut visit: impl FnMut(LabelValueId, i64)) {
        match self {
            Self::Counter(counter, factor) => {
                let domains = counter.counts(cluster).into_iter().flat_map(DomainCounts::domains);
                let occupied = domains.filter(|(_, domain)| domain.n_pods != 0);
                occupied.for_each(|(value, domain)| visit(value, factor * domain.n_pods));
            }
            Self::Term(id, amount) => {
                let carried = cluster.affinity_terms().get(*id);
                let domains = carried.into_iter().flat_map(|carried| carried.domains().iter());
                domains.for_each(|(value, carried)| visit(value, amount.of(carried)));
            }
            Self::Sums(sums) => {
                let occupied = sums.iter().enumerate().filter(|(_, number)| **number != 0);
                occupied.for_each(|(at, number)| visit(LabelValueId::from_index(at), *number));
            }
        }
    }

    /// Adds its numbers to those of all domains.
    fn add_to(&self, cluster: ClusterView<'_>, sums: &mut [i64]) {
        self.visit(cluster, |value, number| {
            if let Some(sum) = sums.get_mut(value.index()) {
                *sum += number;
            }
        });
    }
}

/// Numbers by topology key, each key at most once, sorted by key.
#[derive(Debug, Default)]
pub(super) struct DomainSums(SmallVec<[DomainSum; 1]>);

impl DomainSums {
    /// The numbers of all keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = &DomainSum> {
        self.0.iter()
    }

    /// The numbers of a key.
    pub(super) fn of_key(&self, key: &str) -> Option<&DomainSum> {
        self.0.get(self.find(key).ok()?)
    }

    fn find(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|sum| (*sum.key).cmp(key))
    }

    /// Adds the pods that `counter` counts by `spec`, each with `factor`.
    pub(super) fn add_counter(&mut self, spec: &CounterSpec, counter: Counter, factor: i64) {
        if let Some(key) = &spec.topology_key {
            self.sources_mut(key).push(Source::Counter(counter, factor));
        }
    }

    /// Adds the pods that carry a term with this topology key.
    pub(super) fn add_term(&mut self, key: &Arc<str>, id: TermId, amount: Amount) {
        self.sources_mut(key).push(Source::Term(id, amount));
    }

    fn sources_mut(&mut self, key: &Arc<str>) -> &mut SmallVec<[Source; 1]> {
        let at = self.find(key).unwrap_or_else(|at| {
            self.0.insert(at, DomainSum { key: key.clone(), sources: SmallVec::new() });
            at
        });
        &mut self.0[at].sources
    }

    /// Whether there are pods anywhere that it is about; their amounts may cancel out.
    pub(super) fn is_any(&self, cluster: ClusterView<'_>) -> bool {
        self.iter().any(|sum| sum.is_any(cluster))
    }

    /// Adds up the terms of each key by domain where they are many: a table for as long as the terms are the same.
    pub(super) fn condense(&mut self, cluster: ClusterView<'_>, spare: &Arc<VecPool<i64>>) {
        self.0.iter_mut().for_each(|sum| sum.condense(cluster, spare));
    }
}

/// A number for each domain of a topology key: the sum of several sources.
#[derive(Debug)]
pub(super) struct DomainSum {
    pub(super) key: Arc<str>,
    sources: SmallVec<[Source; 1]>,
}

impl DomainSum {
    /// How many terms are among the sources, as far as they are not too many to read one by one.
    pub(super) fn n_terms(&self) -> Option<usize> {
        let n_terms = self.sources.iter().map(|source| match source {
            Source::Counter(..) => Some(0),
            Source::Term(..) => Some(1),
            Source::Sums(_) => None,
        });
        n_terms.sum()
    }

    fn condense(&mut self, cluster: ClusterView<'_>, spare: &Arc<VecPool<i64>>) {
        if self.n_terms().is_some_and(|n_terms| n_terms <= MANY_TERMS) || !self.is_any(cluster) {
            return;
        }
        let Some(n_ids) = cluster.n_label_ids(&self.key) else { return };
        let mut sums = spare.lend_filled(0, n_ids);
        self.sources.retain(|source| {
            let is_term = matches!(source, Source::Term(..));
            if is_term {
                source.add_to(cluster, &mut sums);
            }
            !is_term
        });
        self.sources.push(Source::Sums(sums));
    }

    /// Whether there are pods anywhere that it is about; their amounts may cancel out.
    pub(super) fn is_any(&self, cluster: ClusterView<'_>) -> bool {
        self.sources.iter().any(|source| source.is_any(cluster))
    }

    /// The domain of each node. Counters that are not followed may bring a column of their own; such columns number the
    /// values alike, because they are made from the same nodes in the same order.
    pub(super) fn column<'a>(&'a self, cluster: ClusterView<'a>) -> Option<&'a LabelColumn> {
        match self.sources.first() {
            Some(Source::Counter(counter, _)) => cluster.domain_column(counter.counts(cluster)?),
            _ => cluster.label_column(&self.key),
        }
    }

    /// The number in a domain.
    pub(super) fn number_in(&self, cluster: ClusterView<'_>, value: LabelValueId) -> i64 {
        self.sources.iter().map(|source| source.number_in(cluster, value)).sum()
    }

    /// The number in the domain of a node; `None` when the node lacks the label.
    pub(super) fn number_at(&self, cluster: ClusterView<'_>, node: NodeIdx) -> Option<i64> {
        let value = self.column(cluster)?.id(node);
        (value != LabelValueId::ABSENT).then(|| self.number_in(cluster, value))
    }

    /// The numbers for a scan of so many nodes; `None` when no node has the label.
    pub(super) fn numbers<'a>(
        &'a self,
        cluster: ClusterView<'a>,
        n_nodes: usize,
        spare: &Arc<VecPool<i64>>,
    ) -> Option<Numbers<'a>> {
        /// A table takes about as long to make as looking at a quarter of its entries one by one, and a single counter is
        /// as good as a table.
        const SHARE: usize = 4;

        let column = self.column(cluster)?;
        let n_ids = column.n_ids();
        if let [Source::Counter(counter, factor)] = &self.sources[..]
            && n_ids * SHARE > n_nodes
        {
            return Some(Numbers::Counter(column, counter.counts(cluster)?, *factor));
        }
        if n_ids > n_nodes * SHARE {
            return Some(Numbers::Single(column, cluster, self));
        }
        let mut sums = spare.lend_filled(0, n_ids);
        self.sources.iter().for_each(|source| source.add_to(cluster, &mut sums));
        if let Some(unlabelled) = sums.first_mut() {
            *unlabelled = 0;
        }
        Some(Numbers::Table(column, sums))
    }

    /// Calls `visit` with the nodes of each domain that has pods, with some of them perhaps more than once, if the key has
    /// so many values that few have pods. Returns whether it has.
    pub(super) fn visit_few_of_many(
        &self,
        cluster: ClusterView<'_>,
        mut visit: impl FnMut(&NodeGroup),
    ) -> bool {
        let Some(column) = self.column(cluster).filter(|column| column.n_ids() > MANY_VALUES)
        else {
            return false;
        };
        let mut visit_value = |value| column.nodes(value).into_iter().for_each(&mut visit);
        for source in &self.sources {
            match source {
                // Passes over runs of nodes without pods.
                Source::Counter(counter, _) => {
                    let counts = counter.counts(cluster).into_iter();
                    let domains = counts.flat_map(|counts| cluster.domains_with_pods(counts));
                    domains.for_each(|(value, _)| visit_value(value));
                }
                _ => source.visit(cluster, |value, _| visit_value(value)),
            }
        }
        true
    }

    /// In how many domains there are pods that a counter counts; for each counter.
    pub(super) fn n_occupied(&self, cluster: ClusterView<'_>) -> i64 {
        let counters = self.sources.iter().filter_map(|source| match source {
            Source::Counter(counter, _) => counter.counts(cluster),
            _ => None,
        });
        counters.map(|counts| counts.n_domains() as i64 - i64::from(counts.n_domains_with(0))).sum()
    }
}

/// The numbers of one topology key, for many nodes.
pub(super) enum Numbers<'a> {
    /// By id of the value.
    Table(&'a LabelColumn, PooledVec<i64>),
    /// One counter, and the amount of each pod.
    Counter(&'a LabelColumn, &'a DomainCounts, i64),
    /// Added up for each node.
    Single(&'a LabelColumn, ClusterView<'a>, &'a DomainSum),
}

impl Numbers<'_> {
    /// Whether no node has the label.
    pub(super) fn is_nowhere(&self) -> bool {
        let (Self::Table(column, _) | Self::Counter(column, ..) | Self::Single(column, ..)) = self;
        column.n_values() == 0
    }

    /// Adds to each of `scores` the number in the domain of its node, if the node has the label: pods count nowhere else.
    pub(super) fn add_to(&self, nodes: &[NodeIdx], scores: &mut [i64]) {
        let both = nodes.iter().zip(scores);
        // One loop for each kind: which one it is would otherwise be found out again for every node.
        match self {
            Self::Table(column, sums) => {
                both.for_each(|(idx, score)| *score += sums[column.id(*idx).index()]);
            }
            Self::Counter(column, counts, factor) => {
                both.for_each(|(idx, score)| *score += factor * counts.n_pods_in(column.id(*idx)));
            }
            Self::Single(..) => {
                both.for_each(|(idx, score)| *score += self.at(*idx).unwrap_or(0));
            }
        }
    }

    /// The number in the domain of a node; `None` when the node lacks the label.
    #[inline]
    pub(super) fn at(&self, node: NodeIdx) -> Option<i64> {
        let (Self::Table(column, _) | Self::Counter(column, ..) | Self::Single(column, ..)) = self;
        let value = column.id(node);
        let number = match self {
            Self::Table(_, sums) => sums[value.index()],
            Self::Counter(_, counts, factor) => factor * counts.n_pods_in(value),
            Self::Single(_, cluster, sum) => sum.number_in(*cluster, value),
        };
        (value != LabelValueId::ABSENT).then_some(number)
    }
}
