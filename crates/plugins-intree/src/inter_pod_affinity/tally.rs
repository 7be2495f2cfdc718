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
    CarriedCounts, ClusterState, DomainCounts, LabelColumn, LabelValueId, NodeIdx,
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
        let at = self.0.iter().position(|tally| tally.key == *key).unwrap_or_else(|| {
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
        match &self.numbers {
            Numbers::ByValue(numbers) => {
                let value = labels.get(&self.key)?;
                Some(numbers.get(value).copied().unwrap_or(0))
            }
            _ => self.bind(cluster).of_node(cluster, node),
        }
    }

    /// The numbers made ready for a scan over many nodes.
    pub(super) fn bind<'a>(&'a self, cluster: &'a ClusterState) -> BoundTally<'a> {
        let bound = match &self.numbers {
            Numbers::ById(numbers) => {
                cluster.label_column(&self.key).map(|column| BoundTally::ById { numbers, column })
            }
            Numbers::Counted(counts) => {
                counts.column(cluster).map(|column| BoundTally::Counted { counts, column })
            }
            Numbers::ByValue(_) => Some(BoundTally::ByLabels(self)),
        };
        bound.unwrap_or(BoundTally::Nowhere)
    }
}

/// Numbers of one key, for a scan.
pub(super) enum BoundTally<'a> {
    ById {
        numbers: &'a [i64],
        column: &'a LabelColumn,
    },
    Counted {
        counts: &'a DomainCounts,
        column: &'a LabelColumn,
    },
    ByLabels(&'a KeyTally),
    /// The column that the numbers were made for is gone: no node is in any domain.
    Nowhere,
}

impl BoundTally<'_> {
    /// The number in the domain of a node, `None` when the node lacks the label.
    #[inline]
    pub(super) fn of_node(&self, cluster: &ClusterState, node: NodeIdx) -> Option<i64> {
        let is_present = |id: &LabelValueId| *id != LabelValueId::ABSENT;
        match self {
            Self::ById { numbers, column } => {
                let id = Some(column.id(node)).filter(is_present)?;
                // A value that came after the count has no number yet.
                Some(numbers.get(id.index()).copied().unwrap_or(0))
            }
            Self::Counted { counts, column } => {
                Some(column.id(node)).filter(is_present).map(|id| counts.n_pods_in(id))
            }
            Self::ByLabels(tally) => tally.of_node(cluster, node, &cluster.node(node)?.labels),
            Self::Nowhere => None,
        }
    }
}
