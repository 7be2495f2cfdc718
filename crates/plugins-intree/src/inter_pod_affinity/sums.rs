//! Numbers by topology domain, read from the cluster's counters and from the terms that its pods carry.
//!
//! A sum only knows where its numbers come from, so making one costs as much as there are sources; a scan adds them up by
//! domain where that takes less time than asking for each node.
//!
//! Invariant: the number in a domain is the same however it is read.

use std::sync::Arc;

use kube_scheduler_framework::affinity::TermCount;
use kube_scheduler_framework::columns::{
    LabelColumn, NodeGroup, PooledVec, ValueId as LabelValueId, VecPool,
};
use kube_scheduler_framework::counters::{CounterSpec, DomainNumbers, PodCounter};
use kube_scheduler_framework::{ClusterView, NodeIdx, PodCounts};
use smallvec::SmallVec;

/// With more terms about a pod than this, their sums by domain are worth having once for all nodes. Sums for fewer make
/// `bench core --workload FiftyAntiAffinities` take 1.6 times as long; many are what one tenant writes (`bench tenants`,
/// RunningTermsForOthers).
const MANY_TERMS: usize = 64;
/// More values than this are too many to look at each when few have a number: with 512 an attempt takes six percent longer with 500
/// nodes, with 16 one percent (`bench core --workload EveryPodDifferent`).
const MANY_VALUES: usize = 64;

/// A table takes about as long to make as looking at a quarter of its entries one by one. Without tables
/// `bench core --workload EveryPodDifferent` takes four times as long.
const TABLE_SHARE: usize = 4;

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
    Counter(PodCounter, i64),
    /// The pods that carry a term.
    Term(PodCounter, Amount),
    /// Many terms added up, by id of the value; what is missing at the end is 0.
    Sums(PooledVec<i64>),
}

impl Source {
    /// What it reads; `None` for numbers that are its own.
    fn read<'a>(&'a self, cluster: ClusterView<'a>) -> Option<PodCounts<'a>> {
        match self {
            Self::Counter(counter, _) | Self::Term(counter, _) => cluster.counts(counter),
            Self::Sums(_) => None,
        }
    }

    /// The number in the domain of a node that has one; `counts` is [what it reads](Self::read).
    fn number_near(&self, counts: Option<PodCounts<'_>>, node: NodeIdx) -> i64 {
        match (self, counts) {
            (Self::Counter(_, factor), Some(counts)) => {
                factor * counts.n_pods_near(node).unwrap_or(0)
            }
            (Self::Term(_, amount), Some(counts)) => {
                amount.of(counts.carried_near(node).unwrap_or_default())
            }
            _ => 0,
        }
    }

    fn number_in(&self, cluster: ClusterView<'_>, value: LabelValueId) -> i64 {
        match (self, self.read(cluster)) {
            (Self::Counter(_, factor), Some(counts)) => factor * counts.numbers().n_pods_in(value),
            (Self::Term(_, amount), Some(counts)) => amount.of(counts.numbers().carried_in(value)),
            // A value that came after the sums has no number yet.
            (Self::Sums(sums), _) => sums.get(value.index()).copied().unwrap_or(0),
            _ => 0,
        }
    }

    /// Whether there are pods anywhere that it is about; their amounts may cancel out. A term is there as long as pods carry
    /// it in a domain.
    fn is_any(&self, cluster: ClusterView<'_>) -> bool {
        match self {
            Self::Counter(..) => {
                self.read(cluster).is_some_and(|counts| counts.numbers().n_pods() > 0)
            }
            Self::Term(..) | Self::Sums(_) => true,
        }
    }

    /// Calls `visit` with the number of each domain that has pods.
    fn visit(&self, cluster: ClusterView<'_>, mut visit: impl FnMut(LabelValueId, i64)) {
        let numbers = self.read(cluster).map(|counts| counts.numbers()).into_iter();
        match self {
            Self::Counter(_, factor) => {
                let domains = numbers.flat_map(DomainNumbers::domains);
                let occupied = domains.filter(|(_, domain)| domain.n_pods != 0);
                occupied.for_each(|(value, domain)| visit(value, factor * domain.n_pods));
            }
            Self::Term(_, amount) => {
                let domains = numbers.flat_map(DomainNumbers::carried);
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
    pub(super) fn add_counter(&mut self, spec: &CounterSpec, counter: PodCounter, factor: i64) {
        if let Some(key) = &spec.topology_key {
            self.sources_mut(key).push(Source::Counter(counter, factor));
        }
    }

    /// Adds the pods that carry a term with this topology key, as `carriers` counts them.
    pub(super) fn add_term(&mut self, key: &Arc<str>, carriers: PodCounter, amount: Amount) {
        self.sources_mut(key).push(Source::Term(carriers, amount));
    }

    fn sources_mut(&mut self, key: &Arc<str>) -> &mut SmallVec<[Source; 1]> {
        let at = self.find(key).unwrap_or_else(|at| {
            self.0.insert(at, DomainSum { key: key.clone(), sources: SmallVec::new() });
            at
        });
        &mut self.0[at].sources
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
    fn condense(&mut self, cluster: ClusterView<'_>, spare: &Arc<VecPool<i64>>) {
        let terms = self.sources.iter().filter(|source| matches!(source, Source::Term(..)));
        if terms.count() <= MANY_TERMS {
            return;
        }
        // From here on it is about the terms as they are now, so nothing of it is for other attempts.
        let Some(column) = cluster.label_column(&self.key) else { return };
        let mut sums = spare.lend_filled(0, column.n_ids());
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
    fn column<'a>(&'a self, cluster: ClusterView<'a>) -> Option<&'a LabelColumn> {
        match self.sources.first().and_then(|source| source.read(cluster)) {
            Some(counts) => counts.column(),
            None => cluster.label_column(&self.key),
        }
    }

    /// The number in a domain.
    pub(super) fn number_in(&self, cluster: ClusterView<'_>, value: LabelValueId) -> i64 {
        self.sources.iter().map(|source| source.number_in(cluster, value)).sum()
    }

    /// The number in the domain of a node; `None` when the node lacks the label.
    pub(super) fn number_at(&self, cluster: ClusterView<'_>, node: NodeIdx) -> Option<i64> {
        self.near(cluster).number_at(node)
    }

    /// What the sources read, for asking about several nodes.
    fn near<'a>(&'a self, cluster: ClusterView<'a>) -> NumbersNear<'a> {
        let counts = self.sources.iter().map(|source| source.read(cluster)).collect();
        NumbersNear { sum: self, cluster, counts }
    }

    /// The numbers for a scan of this many nodes; `None` when no node has the label.
    pub(super) fn numbers<'a>(
        &'a self,
        cluster: ClusterView<'a>,
        n_nodes: usize,
        spare: &Arc<VecPool<i64>>,
    ) -> Option<Numbers<'a>> {
        let n_ids = self.n_ids(cluster)?;
        if n_ids > n_nodes * TABLE_SHARE {
            return Some(Numbers::Single(self.near(cluster)));
        }
        let column = self.column(cluster)?;
        // A single counter is as good as a table.
        if let [Source::Counter(counter, factor)] = &self.sources[..] {
            return Some(Numbers::Counter(column, cluster.counts(counter)?.numbers(), *factor));
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
                Source::Counter(..) => {
                    let counts = source.read(cluster);
                    let domains = counts.iter().flat_map(PodCounts::domains_with_pods);
                    domains.for_each(&mut visit_value);
                }
                _ => source.visit(cluster, |value, _| visit_value(value)),
            }
        }
        true
    }

    /// Adds to each of `scores` the number in the domain of its node, going by the domains that have one. `None`, and nothing is
    /// added, if these are not few, or `nodes` are not in the order of their slots.
    pub(super) fn add_of_few_domains(
        &self,
        cluster: ClusterView<'_>,
        nodes: &[NodeIdx],
        scores: &mut [i64],
    ) -> Option<()> {
        /// With at least this many nodes for each that is in a domain with a number, finding it in the list takes less time
        /// than looking at all nodes (`bench core --workload EveryPodDifferent`).
        const SHARE: usize = 24;

        // About few nodes each is asked for by itself, which shows no more than their numbers, so that nodes with equal numbers
        // are one group: otherwise `bench core --workload SchedulingPreferredPodAffinity` takes five times as long.
        if self.n_ids(cluster)? > nodes.len() * TABLE_SHARE {
            return None;
        }
        let column = self.column(cluster)?;
        let most = nodes.len() / SHARE;
        let mut numbers: SmallVec<[(LabelValueId, i64); 64]> = SmallVec::new();
        for source in &self.sources {
            let counts = source.read(cluster)?;
            let n_domains = match source {
                Source::Counter(..) => {
                    let numbers = counts.numbers();
                    numbers.n_domains() - numbers.n_domains_with(0) as usize
                }
                _ => counts.numbers().n_domains(),
            };
            if n_domains > most {
                return None;
            }
            match source {
                Source::Counter(_, factor) => {
                    let mut values: SmallVec<[_; 64]> = counts.domains_with_pods().collect();
                    values.sort_unstable();
                    values.dedup();
                    let number = |value| (value, factor * counts.numbers().n_pods_in(value));
                    numbers.extend(values.into_iter().map(number));
                }
                _ => source.visit(cluster, |value, number| numbers.push((value, number))),
            }
        }
        let n_nodes: usize = numbers.iter().map(|(value, _)| column.n_nodes(*value)).sum();
        if n_nodes > most || !nodes.is_sorted() {
            return None;
        }
        for (value, number) in numbers {
            for node in column.nodes(value).into_iter().flat_map(NodeGroup::iter) {
                if let Ok(at) = nodes.binary_search(&node) {
                    scores[at] += number;
                }
            }
        }
        Some(())
    }

    /// In how many domains there are pods that a counter counts; for each counter.
    pub(super) fn n_occupied(&self, cluster: ClusterView<'_>) -> i64 {
        let counters = self.sources.iter().filter(|source| matches!(source, Source::Counter(..)));
        let numbers = counters.filter_map(|source| Some(source.read(cluster)?.numbers()));
        numbers.map(|it| it.n_domains() as i64 - i64::from(it.n_domains_with(0))).sum()
    }

    /// As many as a table needs that is indexed by the ids of the values. Only for choosing between equal ways.
    fn n_ids(&self, cluster: ClusterView<'_>) -> Option<usize> {
        match self.sources.first().and_then(|source| source.read(cluster)) {
            Some(counts) => counts.n_ids(),
            None => Some(cluster.label_column(&self.key)?.n_ids()),
        }
    }
}

/// The numbers of one topology key, for many nodes.
pub(super) enum Numbers<'a> {
    /// By id of the value.
    Table(&'a LabelColumn, PooledVec<i64>),
    /// One counter, and the amount of each pod.
    Counter(&'a LabelColumn, DomainNumbers<'a>, i64),
    /// Added up for each node.
    Single(NumbersNear<'a>),
}

/// The numbers of one topology key, node by node.
pub(super) struct NumbersNear<'a> {
    sum: &'a DomainSum,
    cluster: ClusterView<'a>,
    /// What each source reads: finding that takes longer than reading a number.
    counts: SmallVec<[Option<PodCounts<'a>>; 1]>,
}

impl NumbersNear<'_> {
    /// The number in the domain of a node; `None` when the node lacks the label.
    pub(super) fn number_at(&self, node: NodeIdx) -> Option<i64> {
        let Self { sum, cluster, counts } = self;
        if sum.sources.iter().any(|source| matches!(source, Source::Sums(_))) {
            let value = sum.column(*cluster)?.id(node);
            return (value != LabelValueId::ABSENT).then(|| sum.number_in(*cluster, value));
        }
        let first = (*counts.first()?)?;
        let sources = || sum.sources.iter().zip(counts);
        let numbers = || sources().map(|(source, counts)| source.number_near(*counts, node));
        first.has_domain(node).then(|| numbers().sum())
    }
}

/// Which domains of a topology key are rejected, by id of the value; without the label, there is a domain as well.
pub(super) struct DomainVerdicts<'a> {
    pub(super) column: &'a LabelColumn,
    pub(super) is_rejected: Vec<bool>,
}

impl<'a> DomainVerdicts<'a> {
    fn values(&self) -> impl Iterator<Item = LabelValueId> {
        let judged = self.is_rejected.iter().enumerate().filter(|(_, is_rejected)| **is_rejected);
        judged.map(|(at, _)| LabelValueId::from_index(at))
    }

    /// How many nodes are in rejected domains; as many as can be if nodes without the label are among them.
    pub(super) fn n_nodes(&self) -> usize {
        if self.is_rejected.first() == Some(&true) {
            return usize::MAX;
        }
        self.values().map(|value| self.column.n_nodes(value)).sum()
    }

    /// The nodes of rejected domains, except for those without the label.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &'a NodeGroup> {
        self.values().filter_map(|value| self.column.nodes(value))
    }
}

impl<'a> Numbers<'a> {
    /// What `rejects` returns for the number of each domain, and of nodes without the label. When there are more values than nodes it
    /// is not asked, and the numbers are given node by node.
    pub(super) fn judged(
        &self,
        rejects: impl Fn(Option<i64>) -> bool,
    ) -> Result<DomainVerdicts<'a>, &NumbersNear<'a>> {
        let rejects_number = |number: i64| rejects(Some(number));
        let (column, mut is_rejected): (_, Vec<bool>) = match self {
            Self::Table(column, sums) => {
                (*column, sums.iter().copied().map(rejects_number).collect())
            }
            Self::Counter(column, counts, factor) => {
                let values = (0..column.n_ids()).map(LabelValueId::from_index);
                let numbers = values.map(|value| factor * counts.n_pods_in(value));
                (*column, numbers.map(rejects_number).collect())
            }
            Self::Single(near) => return Err(near),
        };
        if let Some(unlabelled) = is_rejected.first_mut() {
            *unlabelled = rejects(None);
        }
        Ok(DomainVerdicts { column, is_rejected })
    }

    /// Whether no node has the label.
    pub(super) fn is_nowhere(&self) -> bool {
        match self {
            Self::Table(column, _) | Self::Counter(column, ..) => column.n_values() == 0,
            // There are more values than nodes.
            Self::Single(..) => false,
        }
    }

    /// Adds to each of `scores` the number in the domain of its node, if the node has the label: pods count nowhere else.
    pub(super) fn add_to(&self, nodes: &[NodeIdx], scores: &mut [i64]) {
        // One loop for each kind: which one it is would otherwise be found out again for every node.
        match self {
            Self::Table(column, sums) => {
                let sums = &sums[..];
                column.ids().zip_nodes(nodes, scores, |score, id| *score += sums[id.index()]);
            }
            Self::Counter(column, counts, factor) => {
                let add = |score: &mut i64, id| *score += factor * counts.n_pods_in(id);
                column.ids().zip_nodes(nodes, scores, add);
            }
            Self::Single(near) => {
                for (idx, score) in nodes.iter().zip(scores) {
                    *score += near.number_at(*idx).unwrap_or(0);
                }
            }
        }
    }
}
