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
    Carried, CarriedCounts, ClusterState, DomainCounts, FilterSink, LabelColumn, LabelValueId,
    Lent, NodeGroup, NodeIdx, Spare, Status,
};
use smallvec::SmallVec;

/// Numbers by topology key and value.
#[derive(Debug)]
pub(super) struct Tally {
    keys: SmallVec<[KeyTally; 2]>,
    spare: Arc<Spare<i64>>,
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
    ById(Lent<i64>),
    ByValue(BTreeMap<Arc<str>, i64>),
    Counted(Arc<DomainCounts>),
}

impl Tally {
    /// No numbers yet; columns of them are taken from `spare`.
    pub(super) fn new(spare: &Arc<Spare<i64>>) -> Self {
        Self { keys: SmallVec::new(), spare: spare.clone() }
    }

    /// The sums of counters by their topology keys.
    pub(super) fn of_counters(
        cluster: &ClusterState,
        counters: &[Arc<DomainCounts>],
        spare: &Arc<Spare<i64>>,
    ) -> Self {
        let mut tally = Self::new(spare);
        for counts in counters {
            let Some(key) = &counts.spec().topology_key else { continue };
            let n_of_key =
                counters.iter().filter(|c| c.spec().topology_key.as_ref() == Some(key)).count();
            if n_of_key == 1 {
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
    fn numbers_mut(&mut self, cluster: &ClusterState, key: &Arc<str>) -> Option<&mut Numbers> {
        let is_key = |tally: &KeyTally| Arc::ptr_eq(&tally.key, key) || tally.key == *key;
        let at = self.keys.iter().position(is_key).unwrap_or_else(|| {
            let numbers = match cluster.label_column(key) {
                Some(column) => Numbers::ById(self.spare.lend_filled(0, column.n_ids())),
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
        cluster: &ClusterState,
        key: &Arc<str>,
        counts: &CarriedCounts,
        amount: impl Fn(Carried) -> i64,
    ) {
        if let Some(Numbers::ById(numbers)) = self.numbers_mut(cluster, key) {
            for (domain, carried) in counts.iter() {
                if let Some(number) = numbers.get_mut(domain.index()) {
                    *number += amount(carried);
                }
            }
        }
    }

    /// Adds `factor` times what a counter with a topology key counts.
    pub(super) fn add_counter(
        &mut self,
        cluster: &ClusterState,
        counts: &DomainCounts,
        factor: i64,
    ) {
        let Some(key) = &counts.spec().topology_key else { return };
        let Some(numbers) = self.numbers_mut(cluster, key) else { return };
        for (id, domain) in counts.domains().filter(|(_, domain)| domain.n_pods != 0) {
            let amount = factor * domain.n_pods;
            match numbers {
                Numbers::ById(numbers) => {
                    if let Some(number) = numbers.get_mut(id.index()) {
                        *number += amount;
                    }
                }
                Numbers::ByValue(numbers) => {
                    let column = counts.column(cluster);
                    if let Some(value) = column.and_then(|column| column.value(id)) {
                        *numbers.entry(value.clone()).or_default() += amount;
                    }
                }
                Numbers::Counted(_) => {}
            }
        }
    }

    /// In how many domains of all keys the number is not 0.
    pub(super) fn n_domains(&self) -> usize {
        self.keys.iter().map(KeyTally::n_domains).sum()
    }
}

impl KeyTally {
    fn n_domains(&self) -> usize {
        match &self.numbers {
            Numbers::ById(numbers) => numbers.iter().filter(|n| **n != 0).count(),
            Numbers::ByValue(numbers) => numbers.values().filter(|n| **n != 0).count(),
            Numbers::Counted(counts) => {
                counts.n_domains().saturating_sub(counts.n_domains_with(0) as usize)
            }
        }
    }

    /// The number in the domain of a node, `None` when the node lacks the label.
    pub(super) fn of_node(
        &self,
        cluster: &ClusterState,
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
            Numbers::Counted(counts) => Some(counts.n_pods_in(id(counts.column(cluster)?)?)),
        }
    }

    /// What `of` makes of the number of each value of the key's column, `None` where there is no column. A node without the
    /// label has number 0 here.
    fn table<'a, T: Clone>(
        &'a self,
        cluster: &'a ClusterState,
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
            Numbers::Counted(counts) => {
                let column = counts.column(cluster)?;
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

    /// Adds to each score the number in the domain of its node.
    pub(super) fn add_to(&self, cluster: &ClusterState, nodes: &[NodeIdx], scores: &mut [i64]) {
        let both = nodes.iter().zip(scores);
        match &self.numbers {
            Numbers::Counted(counts) if counts.n_pods() == 0 => {}
            Numbers::Counted(counts) => {
                let Some(column) = counts.column(cluster) else { return };
                if column.n_ids() * Self::WORTH_A_TABLE > nodes.len() {
                    let number = |id: LabelValueId| match id {
                        LabelValueId::ABSENT => 0,
                        id => counts.n_pods_in(id),
                    };
                    return both.for_each(|(idx, score)| *score += number(column.id(*idx)));
                }
                let Some((numbers, column)) = self.table(cluster, |number| number) else { return };
                both.for_each(|(idx, score)| *score += numbers[column.id(*idx).index()]);
            }
            Numbers::ById(numbers) => {
                let Some(column) = cluster.label_column(&self.key) else { return };
                let numbers = &***numbers;
                // A value that came after the count has no number yet.
                let number = |id: LabelValueId| numbers.get(id.index()).copied().unwrap_or(0);
                both.for_each(|(idx, score)| *score += number(column.id(*idx)));
            }
            Numbers::ByValue(_) => {
                both.for_each(|(idx, score)| *score += self.number_at(cluster, *idx).unwrap_or(0));
            }
        }
    }

    /// A table is made when there are so many nodes for each entry.
    const WORTH_A_TABLE: usize = 4;

    /// Turns down those of `nodes` for which the number of their domain, `None` without the label, is `meant`.
    pub(super) fn reject_where(
        &self,
        cluster: &ClusterState,
        nodes: &[NodeIdx],
        sink: &mut FilterSink<'_>,
        rejection: &Status,
        is_meant: impl Fn(Option<i64>) -> bool,
    ) {
        /// A domain's nodes are listed, which is worth it while they are this small a share of all.
        const SPARSE: usize = 8;

        let id = sink.code_for(rejection.clone());
        let live = cluster.live_nodes();
        let Some((mut table, column)) = self.table(cluster, |number| is_meant(Some(number))) else {
            return sink.reject_where(nodes, id, |idx| {
                live.contains(idx) && is_meant(self.number_at(cluster, idx))
            });
        };
        let is_absent_meant = is_meant(None);
        table[LabelValueId::ABSENT.index()] = is_absent_meant;
        if !is_absent_meant {
            let meant = table.iter().enumerate().filter(|(_, is_meant)| **is_meant);
            let groups =
                || meant.clone().filter_map(|(at, _)| column.nodes(LabelValueId::from_index(at)));
            let n_meant = groups().map(NodeGroup::len).sum::<usize>();
            if n_meant * SPARSE < nodes.len() {
                // Only nodes that are asked about are open.
                let open = groups().flat_map(NodeGroup::iter).filter(|idx| live.contains(*idx));
                return open.for_each(|idx| {
                    if sink.is_open(idx) {
                        sink.reject_with(idx, id);
                    }
                });
            }
        }
        sink.reject_where(nodes, id, |idx| live.contains(idx) & table[column.id(idx).index()]);
    }

    fn number_at(&self, cluster: &ClusterState, idx: NodeIdx) -> Option<i64> {
        self.of_node(cluster, idx, &cluster.node(idx)?.labels)
    }
}
