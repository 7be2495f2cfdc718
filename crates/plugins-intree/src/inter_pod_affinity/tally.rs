//! Numbers by topology domain: a node label and a value of it.
//!
//! Where the cluster keeps a column for the label, numbers are by number of the value, so that a scan over all nodes
//! looks up small numbers; otherwise they are by the value itself. Both forms answer the same.
//!
//! Invariant: a key is in a tally at most once; keys stay in order of first mention.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_framework::api::Labels;
use kube_scheduler_framework::{CarriedCounts, ClusterState, LabelColumn, LabelValueId, NodeIdx};

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
}

impl Tally {
    /// The keys with their numbers.
    pub(super) fn keys(&self) -> &[KeyTally] {
        &self.0
    }

    /// The numbers of a key.
    pub(super) fn key(&self, key: &str) -> Option<&KeyTally> {
        self.0.iter().find(|tally| *tally.key == *key)
    }

    /// The position of the numbers of a key, which are all 0 if it is new.
    pub(super) fn position(&mut self, cluster: &ClusterState, key: &Arc<str>) -> usize {
        if let Some(at) = self.0.iter().position(|tally| tally.key == *key) {
            return at;
        }
        let numbers = match cluster.label_column(key) {
            Some(column) => Numbers::ById(vec![0; column.n_ids()]),
            None => Numbers::ByValue(BTreeMap::new()),
        };
        self.0.push(KeyTally { key: key.clone(), numbers });
        self.0.len() - 1
    }

    /// Adds `factor` times what is counted per domain of `key`, which has a column.
    pub(super) fn add_counts(
        &mut self,
        cluster: &ClusterState,
        key: &Arc<str>,
        counts: &CarriedCounts,
        factor: i64,
    ) {
        let at = self.position(cluster, key);
        if let Some(KeyTally { numbers: Numbers::ById(numbers), .. }) = self.0.get_mut(at) {
            for (domain, n) in counts.iter() {
                if let Some(number) = numbers.get_mut(domain.index()) {
                    *number += factor * i64::from(n);
                }
            }
        }
    }

    /// Adds `amount` in the domain of `node` for the key at `position`; whether the node is in one.
    pub(super) fn add_on(
        &mut self,
        cluster: &ClusterState,
        position: usize,
        node: NodeIdx,
        amount: i64,
    ) -> bool {
        let Some(KeyTally { key, numbers }) = self.0.get_mut(position) else { return false };
        match numbers {
            Numbers::ById(numbers) => {
                let id = cluster.label_column(key).map(|column| column.id(node));
                let Some(id) = id.filter(|id| *id != LabelValueId::ABSENT) else { return false };
                if let Some(number) = numbers.get_mut(id.index()) {
                    *number += amount;
                }
                true
            }
            Numbers::ByValue(numbers) => {
                let labels = cluster.node(node).map(|node| &node.labels);
                let Some(value) = labels.and_then(|labels| labels.get_shared(key)) else {
                    return false;
                };
                *numbers.entry(value.clone()).or_default() += amount;
                true
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
            Numbers::ById(numbers) => number_of(numbers, cluster.label_column(&self.key)?.id(node)),
            Numbers::ByValue(numbers) => {
                let value = labels.get(&self.key)?;
                Some(numbers.get(value).copied().unwrap_or(0))
            }
        }
    }

    /// The numbers made ready for a scan over many nodes.
    pub(super) fn bind<'a>(&'a self, cluster: &'a ClusterState) -> BoundTally<'a> {
        match (&self.numbers, cluster.label_column(&self.key)) {
            (Numbers::ById(numbers), Some(column)) => BoundTally::ById { numbers, column },
            _ => BoundTally::ByLabels(self),
        }
    }
}

/// Numbers of one key, for a scan.
pub(super) enum BoundTally<'a> {
    ById { numbers: &'a [i64], column: &'a LabelColumn },
    ByLabels(&'a KeyTally),
}

impl BoundTally<'_> {
    /// The number in the domain of a node, `None` when the node lacks the label.
    #[inline]
    pub(super) fn of_node(&self, cluster: &ClusterState, node: NodeIdx) -> Option<i64> {
        match self {
            Self::ById { numbers, column } => number_of(numbers, column.id(node)),
            Self::ByLabels(tally) => tally.of_node(cluster, node, &cluster.node(node)?.labels),
        }
    }
}

#[inline]
fn number_of(numbers: &[i64], id: LabelValueId) -> Option<i64> {
    // A value that came after the count has no number yet.
    (id != LabelValueId::ABSENT).then(|| numbers.get(id.index()).copied().unwrap_or(0))
}
