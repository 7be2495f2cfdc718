//! Numbers by topology domain: a node label and a value of it.
//!
//! Where the cluster keeps a column for the label, numbers are by number of the value, so that a scan over all nodes
//! looks up small numbers; otherwise they are by the value itself. A single counter of the cluster is taken as it is.
//! All forms answer the same.
//!
//! Invariant: a key is in a tally at most once; keys stay in order of first mention.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_framework::api::Labels;
use kube_scheduler_framework::{
    ClusterView, DomainCounts, FilterSink, LabelColumn, LabelValueId, NodeGroup, NodeIdx,
    PooledVec, Status, TermCount, TermCounts, VecPool,
};
use smallvec::SmallVec;

/// More values than this are too many to look at each when few have a number.
const MANY_VALUES: usize = 512;

/// Numbers by topology key and value.
#[derive(Debug)]
pub(super) struct Tally {
    keys: SmallVec<[KeyTally; 2]>,
    spare: Arc<VecPool<i64>>,
}

/// Numbers by value of one topology key.
#[derive(Debug)]
pub(super) struct KeyTally {
    pub(super) key: Arc<str>,
    numbers: Numbers,
}

#[derive(Debug)]
enum Numbers {
    /// By number of the value in the cluster's column; what is missing at the end is 0.
    ById(PooledVec<i64>),
    /// The same, sorted, where there are many values and few numbers; what is missing is 0.
    Few(Vec<(LabelValueId, i64)>),
    ByValue(BTreeMap<Arc<str>, i64>),
    Counted(Arc<DomainCounts>),
}

impl Tally {
    /// No numbers yet; columns of them are taken from `spare`.
    pub(super) fn new(spare: &Arc<VecPool<i64>>) -> Self {
        Self { keys: SmallVec::new(), spare: spare.clone() }
    }

    /// The sums of counters by their topology keys.
    pub(super) fn of_counters(
        cluster: ClusterView<'_>,
        counters: &[Arc<DomainCounts>],
        spare: &Arc<VecPool<i64>>,
    ) -> Self {
        let mut tally = Self::new(spare);
        let mut keys: Vec<&Arc<str>> =
            counters.iter().filter_map(|counts| counts.spec().topology_key.as_ref()).collect();
        keys.sort_unstable();
        let n_of = |key| keys.partition_point(|k| *k <= key) - keys.partition_point(|k| *k < key);
        for counts in counters {
            let Some(key) = &counts.spec().topology_key else { continue };
            if n_of(key) == 1 {
                let numbers = Numbers::Counted(counts.clone());
                tally.keys.push(KeyTally { key: key.clone(), numbers });
            } else {
                tally.add_counter(cluster, counts, 1);
            }
        }
        tally
    }

    /// The keys with their numbers.
    pub(super) fn keys(&self) -> &[KeyTally] {
        &self.keys
    }

    /// The numbers of a key.
    pub(super) fn key(&self, key: &str) -> Option<&KeyTally> {
        self.keys.iter().find(|tally| *tally.key == *key)
    }

    /// The numbers of a key to add to, all 0 if it is new.
    fn numbers_mut(&mut self, cluster: ClusterView<'_>, key: &Arc<str>) -> Option<&mut Numbers> {
        let is_key = |tally: &KeyTally| Arc::ptr_eq(&tally.key, key) || tally.key == *key;
        let at = self.keys.iter().position(is_key).unwrap_or_else(|| {
            let numbers = match cluster.n_label_ids(key) {
                Some(n_ids) if n_ids > MANY_VALUES => Numbers::Few(Vec::new()),
                Some(n_ids) => Numbers::ById(self.spare.lend_filled(0, n_ids)),
                None => Numbers::ByValue(BTreeMap::new()),
            };
            self.keys.push(KeyTally { key: key.clone(), numbers });
            self.keys.len() - 1
        });
        self.keys.get_mut(at).map(|tally| &mut tally.numbers)
    }

    /// Adds up `amount` of what terms of pods say per domain of `key`, which has a column.
    pub(super) fn add_carried(
        &mut self,
        cluster: ClusterView<'_>,
        key: &Arc<str>,
        counts: &TermCounts,
        amount: impl Fn(TermCount) -> i64,
    ) {
        let spare = self.spare.clone();
        let Some(n_ids) = cluster.n_label_ids(key) else { return };
        let Some(numbers) = self.numbers_mut(cluster, key) else { return };
        numbers.expect(counts.n_domains(), n_ids, &spare);
        counts.iter().for_each(|(domain, carried)| numbers.add(domain, amount(carried)));
    }

    /// Adds `factor` times what a counter with a topology key counts.
    pub(super) fn add_counter(
        &mut self,
        cluster: ClusterView<'_>,
        counts: &DomainCounts,
        factor: i64,
    ) {
        let spare = self.spare.clone();
        let Some(key) = &counts.spec().topology_key else { return };
        let Some(column) = cluster.domain_column(counts) else { return };
        let Some(numbers) = self.numbers_mut(cluster, key) else { return };
        let n_with_pods = counts.n_domains().saturating_sub(counts.n_domains_with(0) as usize);
        numbers.expect(n_with_pods, column.n_ids(), &spare);
        for (id, domain) in counts.domains().filter(|(_, domain)| domain.n_pods != 0) {
            let amount = factor * domain.n_pods;
            if let Numbers::ByValue(numbers) = numbers {
                if let Some(value) = column.value(id) {
                    *numbers.entry(value.clone()).or_default() += amount;
                }
            } else {
                numbers.add(id, amount);
            }
        }
    }

    /// In how many domains of all keys the number is not 0.
    pub(super) fn n_domains(&self) -> usize {
        self.keys.iter().map(KeyTally::n_domains).sum()
    }
}

impl Numbers {
    /// Gets ready for so many more numbers.
    fn expect(&mut self, n_more: usize, n_ids: usize, spare: &Arc<VecPool<i64>>) {
        /// Below this share of all values a sorted list is the shorter form.
        const FEW: usize = 16;

        if let Self::Few(list) = self
            && (list.len() + n_more) * FEW > n_ids
        {
            let mut numbers = spare.lend_filled(0, n_ids);
            for (id, number) in &*list {
                numbers[id.index()] = *number;
            }
            *self = Self::ById(numbers);
        }
    }

    /// Adds to a number by id.
    fn add(&mut self, id: LabelValueId, amount: i64) {
        match self {
            Self::ById(numbers) => {
                if let Some(number) = numbers.get_mut(id.index()) {
                    *number += amount;
                }
            }
            Self::Few(list) => match list.binary_search_by_key(&id, |(id, _)| *id) {
                Ok(at) => list[at].1 += amount,
                Err(at) => list.insert(at, (id, amount)),
            },
            Self::ByValue(_) | Self::Counted(_) => {}
        }
    }
}

impl KeyTally {
    /// Whether no node has the key.
    pub(super) fn is_nowhere(&self, cluster: ClusterView<'_>) -> bool {
        cluster.label_column(&self.key).is_some_and(|column| column.n_values() == 0)
    }

    fn n_domains(&self) -> usize {
        match &self.numbers {
            Numbers::ById(numbers) => numbers.iter().filter(|n| **n != 0).count(),
            Numbers::Few(list) => list.iter().filter(|(_, n)| *n != 0).count(),
            Numbers::ByValue(numbers) => numbers.values().filter(|n| **n != 0).count(),
            Numbers::Counted(counts) => {
                counts.n_domains().saturating_sub(counts.n_domains_with(0) as usize)
            }
        }
    }

    /// The number in the domain of a node, `None` when the node lacks the label.
    pub(super) fn of_node(
        &self,
        cluster: ClusterView<'_>,
        node: NodeIdx,
        labels: &Labels,
    ) -> Option<i64> {
        let id =
            |column: &LabelColumn| Some(column.id(node)).filter(|id| *id != LabelValueId::ABSENT);
        match &self.numbers {
            Numbers::ByValue(numbers) => {
                let value = labels.get(&self.key)?;
                Some(numbers.get(value).copied().unwrap_or(0))
            }
            // A value that came after the count has no number yet. Without the column no node is in any domain.
            Numbers::ById(numbers) => {
                let id = id(cluster.label_column(&self.key)?)?;
                Some(numbers.get(id.index()).copied().unwrap_or(0))
            }
            Numbers::Few(list) => {
                let id = id(cluster.label_column(&self.key)?)?;
                let at = list.binary_search_by_key(&id, |(id, _)| *id);
                Some(at.ok().and_then(|at| list.get(at)).map_or(0, |(_, n)| *n))
            }
            Numbers::Counted(counts) => Some(counts.n_pods_in(id(cluster.domain_column(counts)?)?)),
        }
    }

    /// What `of` makes of the number of each value of the key's column, `None` where there is no column. A node without the
    /// label has number 0 here.
    fn table<'a, T: Clone>(
        &'a self,
        cluster: ClusterView<'a>,
        of: impl Fn(i64) -> T,
    ) -> Option<(Vec<T>, &'a LabelColumn)> {
        match &self.numbers {
            Numbers::ById(numbers) => {
                let column = cluster.label_column(&self.key)?;
                let mut table: Vec<T> = numbers.iter().map(|number| of(*number)).collect();
                // A value that came after the count has no number yet.
                if table.len() < column.n_ids() {
                    table.resize(column.n_ids(), of(0));
                }
                Some((table, column))
            }
            Numbers::Few(list) => {
                let column = cluster.label_column(&self.key)?;
                let mut table = vec![of(0); column.n_ids()];
                for (id, number) in list {
                    if let Some(place) = table.get_mut(id.index()) {
                        *place = of(*number);
                    }
                }
                Some((table, column))
            }
            Numbers::Counted(counts) => {
                let column = cluster.domain_column(counts)?;
                let mut table = vec![of(0); column.n_ids()];
                for (id, domain) in counts.domains().filter(|(id, _)| *id != LabelValueId::ABSENT) {
                    if let Some(place) = table.get_mut(id.index()) {
                        *place = of(domain.n_pods);
                    }
                }
                Some((table, column))
            }
            Numbers::ByValue(_) => None,
        }
    }

    /// Calls `put` for each score with the number of its node's domain, 0 where there is none.
    pub(super) fn put(
        &self,
        cluster: ClusterView<'_>,
        nodes: &[NodeIdx],
        scores: &mut [i64],
        put: impl Fn(&mut i64, i64),
    ) {
        /// A table is made when there are so many nodes for each entry.
        const WORTH_A_TABLE: usize = 4;

        let both = nodes.iter().zip(scores);
        match &self.numbers {
            Numbers::Counted(counts) => match cluster.domain_column(counts) {
                Some(column) if column.n_ids() * WORTH_A_TABLE > nodes.len() => {
                    both.for_each(|(idx, score)| {
                        let id = column.id(*idx);
                        let is_there = id != LabelValueId::ABSENT;
                        put(score, if is_there { counts.n_pods_in(id) } else { 0 });
                    });
                    return;
                }
                _ => {}
            },
            Numbers::ById(numbers) => {
                if let Some(column) = cluster.label_column(&self.key) {
                    let numbers = numbers.as_slice();
                    // A value that came after the count has no number yet.
                    let number = |id: LabelValueId| numbers.get(id.index()).copied().unwrap_or(0);
                    both.for_each(|(idx, score)| put(score, number(column.id(*idx))));
                    return;
                }
            }
            Numbers::Few(_) | Numbers::ByValue(_) => {}
        }
        match self.table(cluster, |number| number) {
            Some((numbers, column)) => {
                both.for_each(|(idx, score)| put(score, numbers[column.id(*idx).index()]));
            }
            None => both.for_each(|(idx, score)| {
                put(score, self.number_at(cluster, *idx).unwrap_or(0));
            }),
        }
    }

    /// Rejects those of `nodes` for which `is_meant` is true of the number of their domain; the number is `None` for nodes
    /// without the label.
    pub(super) fn reject_where(
        &self,
        cluster: ClusterView<'_>,
        nodes: &[NodeIdx],
        sink: &mut FilterSink<'_>,
        rejection: &Status,
        is_meant: impl Fn(Option<i64>) -> bool,
    ) {
        let id = sink.code_for(rejection.clone());
        let live = cluster.live_nodes();
        if !is_meant(None)
            && !is_meant(Some(0))
            && let Some((numbers, column)) = self.numbers_of_many(cluster)
        {
            let meant = numbers.filter(|(_, number)| is_meant(Some(*number)));
            let groups = meant.filter_map(|(value, _)| column.nodes(value));
            // Only nodes that are asked about are open.
            let open = groups.flat_map(NodeGroup::iter).filter(|idx| live.contains(*idx));
            return open.for_each(|idx| {
                if sink.is_open(idx) {
                    sink.reject_with(idx, id);
                }
            });
        }
        match self.table(cluster, |number| is_meant(Some(number))) {
            Some((mut table, column)) => {
                table[LabelValueId::ABSENT.index()] = is_meant(None);
                let is_meant = |idx| live.contains(idx) & table[column.id(idx).index()];
                sink.reject_where(nodes, id, is_meant);
            }
            None => sink.reject_where(nodes, id, |idx| {
                live.contains(idx) && is_meant(self.number_at(cluster, idx))
            }),
        }
    }

    /// The numbers that are not 0, if the key has many values; perhaps with zeroes, and some more than once.
    fn numbers_of_many<'a>(
        &'a self,
        cluster: ClusterView<'a>,
    ) -> Option<(impl Iterator<Item = (LabelValueId, i64)> + 'a, &'a LabelColumn)> {
        let (column, few, by_id, counted) = match &self.numbers {
            Numbers::Few(list) => (cluster.label_column(&self.key)?, Some(list), None, None),
            Numbers::ById(numbers) => (cluster.label_column(&self.key)?, None, Some(numbers), None),
            Numbers::Counted(counts) => (cluster.domain_column(counts)?, None, None, Some(counts)),
            Numbers::ByValue(_) => return None,
        };
        let few = few.into_iter().flatten().copied();
        let by_id = by_id.into_iter().flat_map(|numbers| numbers.iter().copied().enumerate());
        let by_id = by_id.map(|(at, number)| (LabelValueId::from_index(at), number));
        let counted = counted.into_iter().flat_map(move |counts| cluster.domains_with_pods(counts));
        let numbers = few.chain(by_id).chain(counted.map(|(id, domain)| (id, domain.n_pods)));
        (column.n_ids() > MANY_VALUES).then_some((numbers, column))
    }

    fn number_at(&self, cluster: ClusterView<'_>, idx: NodeIdx) -> Option<i64> {
        self.of_node(cluster, idx, cluster.node(idx)?.labels())
    }
}
