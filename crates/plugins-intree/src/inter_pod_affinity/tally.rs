//! Numbers by topology domain: a node label and a value of it.
//!
//! Where the cluster keeps a column for the label, numbers are by number of the value, so that a scan over all nodes
//! looks up small numbers; otherwise they are by the value itself. A single counter of the cluster is taken as it is.
//! All forms answer the same.
//!
//! Invariant: a key is in a tally at most once; keys stay in order of first mention.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_framework::api::Labels;
use kube_scheduler_framework::{
    CarriedCounts, ClusterState, DomainCounts, LabelColumn, LabelValueId, NodeGroup, NodeIdx,
};
use smallvec::SmallVec;

/// Numbers by topology key and value.
#[derive(Debug, Default)]
pub(super) struct Tally(SmallVec<[KeyTally; 2]>);

/// Numbers by value of one topology key.
#[derive(Debug)]
pub(super) struct KeyTally {
    pub(super) key: Arc<str>,
    numbers: Numbers,
}

#[derive(Debug)]
enum Numbers {
    /// By number of the value in the cluster's column; what is missing at the end is 0.
    ById(Vec<i64>),
    ByValue(BTreeMap<Arc<str>, i64>),
    Counted(Arc<DomainCounts>),
}

impl Tally {
    /// The sums of counters by their topology keys.
    pub(super) fn of_counters(cluster: &ClusterState, counters: &[Arc<DomainCounts>]) -> Self {
        let mut tally = Self::default();
        for counts in counters {
            let Some(key) = &counts.spec().topology_key else { continue };
            let n_of_key =
                counters.iter().filter(|c| c.spec().topology_key.as_ref() == Some(key)).count();
            if n_of_key == 1 {
                let numbers = Numbers::Counted(counts.clone());
                tally.0.push(KeyTally { key: key.clone(), numbers });
            } else {
                tally.add_counter(cluster, counts, 1);
            }
        }
        tally
    }

    /// The keys with their numbers.
    pub(super) fn keys(&self) -> &[KeyTally] {
        &self.0
    }

    /// The numbers of a key.
    pub(super) fn key(&self, key: &str) -> Option<&KeyTally> {
        self.0.iter().find(|tally| *tally.key == *key)
    }

    /// The numbers of a key to add to, all 0 if it is new.
    fn numbers_mut(&mut self, cluster: &ClusterState, key: &Arc<str>) -> Option<&mut Numbers> {
        let is_key = |tally: &KeyTally| Arc::ptr_eq(&tally.key, key) || tally.key == *key;
        let at = self.0.iter().position(is_key).unwrap_or_else(|| {
            let numbers = match cluster.label_column(key) {
                Some(column) => Numbers::ById(vec![0; column.n_ids()]),
                None => Numbers::ByValue(BTreeMap::new()),
            };
            self.0.push(KeyTally { key: key.clone(), numbers });
            self.0.len() - 1
        });
        self.0.get_mut(at).map(|tally| &mut tally.numbers)
    }

    /// Adds `factor` times what terms of pods say per domain of `key`, which has a column.
    pub(super) fn add_carried(
        &mut self,
        cluster: &ClusterState,
        key: &Arc<str>,
        counts: &CarriedCounts,
        factor: i64,
    ) {
        if let Some(Numbers::ById(numbers)) = self.numbers_mut(cluster, key) {
            for (domain, n) in counts.iter() {
                if let Some(number) = numbers.get_mut(domain.index()) {
                    *number += factor * i64::from(n);
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
        self.0.iter().map(KeyTally::n_domains).sum()
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

    /// The numbers by value of the key's column, `None` where there is none. A node without the label has number 0 here.
    fn by_id<'a>(&'a self, cluster: &'a ClusterState) -> Option<(Cow<'a, [i64]>, &'a LabelColumn)> {
        match &self.numbers {
            Numbers::ById(numbers) => {
                let column = cluster.label_column(&self.key)?;
                let mut numbers = Cow::from(numbers);
                // A value that came after the count has no number yet.
                if numbers.len() < column.n_ids() {
                    numbers.to_mut().resize(column.n_ids(), 0);
                }
                Some((numbers, column))
            }
            Numbers::Counted(counts) => {
                let column = counts.column(cluster)?;
                let mut numbers = vec![0; column.n_ids()];
                for (id, domain) in counts.domains().filter(|(id, _)| *id != LabelValueId::ABSENT) {
                    if let Some(number) = numbers.get_mut(id.index()) {
                        *number = domain.n_pods;
                    }
                }
                Some((numbers.into(), column))
            }
            Numbers::ByValue(_) => None,
        }
    }

    /// Adds to each score the number in the domain of its node.
    pub(super) fn add_to(&self, cluster: &ClusterState, nodes: &[NodeIdx], scores: &mut [i64]) {
        if matches!(&self.numbers, Numbers::Counted(counts) if counts.n_pods() == 0) {
            return;
        }
        match self.by_id(cluster) {
            Some((numbers, column)) => {
                for (&idx, score) in nodes.iter().zip(scores) {
                    *score += numbers[column.id(idx).index()];
                }
            }
            None => {
                for (&idx, score) in nodes.iter().zip(scores) {
                    *score += self.number_at(cluster, idx).unwrap_or(0);
                }
            }
        }
    }

    /// Visits nodes by whether the number of their domain, `None` without the label, is `meant`: every such node among
    /// `nodes`, and perhaps others of the cluster.
    pub(super) fn visit_where(
        &self,
        cluster: &ClusterState,
        nodes: &[NodeIdx],
        is_meant: impl Fn(Option<i64>) -> bool,
        mut visit: impl FnMut(NodeIdx),
    ) {
        /// A domain's nodes are listed, which is worth it while they are this small a share of all.
        const SPARSE: usize = 8;

        let Some((numbers, column)) = self.by_id(cluster) else {
            let meant = nodes.iter().filter(|idx| is_meant(self.number_at(cluster, **idx)));
            return meant.for_each(|idx| visit(*idx));
        };
        let is_absent_meant = is_meant(None);
        let mut table: Vec<bool> = numbers.iter().map(|number| is_meant(Some(*number))).collect();
        table[LabelValueId::ABSENT.index()] = is_absent_meant;
        if !is_absent_meant {
            let meant = table.iter().enumerate().filter(|(_, is_meant)| **is_meant);
            let groups =
                || meant.clone().filter_map(|(at, _)| column.nodes(LabelValueId::from_index(at)));
            let n_meant = groups().map(NodeGroup::len).sum::<usize>();
            if n_meant * SPARSE < nodes.len() {
                return groups().for_each(|group| group.iter().for_each(&mut visit));
            }
        }
        for &idx in nodes {
            if table[column.id(idx).index()] {
                visit(idx);
            }
        }
    }

    fn number_at(&self, cluster: &ClusterState, idx: NodeIdx) -> Option<i64> {
        self.of_node(cluster, idx, &cluster.node(idx)?.labels)
    }
}
