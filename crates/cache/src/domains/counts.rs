//! One counter: pods per node, and sums per domain.
//!
//! Invariants: `on_nodes` counts pods on ghosts too, everything else only eligible nodes; a domain without eligible
//! nodes has sum 0; `by_sum` holds the sum of every domain with eligible nodes, as often as it occurs.

mod scan;
mod sums;

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_api_types::Pod;

use self::sums::SumCounts;
use super::spec::CounterSpec;
use crate::fork::{Column, SPARSE_CHUNK};
use crate::label_index::{LabelColumn, LabelIndex, ValueId};
use crate::node_set::NodeSet;
use crate::node_table::NodeIdx;

/// What a counter has in one topology domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Domain {
    /// How many of the counted pods are on nodes of the domain.
    pub n_pods: i64,
    /// How many nodes of the domain count, by the specification of the counter.
    pub n_nodes: u32,
}

/// A [`Domain`] in half the memory: there is one for each node where every host is one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cell {
    n_pods: u32,
    n_nodes: u32,
}

impl From<Cell> for Domain {
    fn from(cell: Cell) -> Self {
        Self { n_pods: i64::from(cell.n_pods), n_nodes: cell.n_nodes }
    }
}

/// How many pods are on each node.
pub(super) type PodsOnNodes = Column<u32, SPARSE_CHUNK>;

/// How many pods count on each node and in each domain.
#[derive(Clone, Debug)]
pub struct DomainCounts {
    spec: Arc<CounterSpec>,
    on_nodes: PodsOnNodes,
    eligible: NodeSet,
    /// In small chunks: most topology keys have a few domains, and a pod may need dozens of counters by them.
    domains: Column<Cell, 16>,
    by_sum: SumCounts,
    n_domains: usize,
    n_pods: i64,
    /// The labels of a topology key that the state has no column for.
    own_column: Option<Arc<LabelColumn>>,
}

/// A counter by names and numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlainCounts {
    pub(crate) on_nodes: Vec<(usize, u32)>,
    pub(crate) eligible: Vec<usize>,
    pub(crate) domains: BTreeMap<Option<String>, (i64, u32)>,
    pub(crate) n_domains: usize,
    pub(crate) n_pods: i64,
    pub(crate) by_sum: SumCounts,
}

/// # Reading
impl DomainCounts {
    /// The specification: which pods are counted, and by which topology key.
    pub fn spec(&self) -> &CounterSpec {
        &self.spec
    }

    /// How many pods that count are on a node, whether or not the node counts. May be 0 for a counter that is not followed
    /// and by whose specification no node can count.
    #[inline]
    pub fn on_node(&self, node: NodeIdx) -> i64 {
        self.on_nodes.try_get(node).map_or(0, |n| i64::from(*n))
    }

    /// Whether a node counts by the specification: the pods of other nodes are in no domain's number.
    #[inline]
    pub fn is_eligible(&self, node: NodeIdx) -> bool {
        self.eligible.contains(node)
    }

    /// The nodes that count by the specification.
    #[cfg(test)]
    pub(crate) fn eligible(&self) -> &NodeSet {
        &self.eligible
    }

    /// A domain that has nodes that count, by the id of its value in [`column`](Self::column). Without a topology key
    /// it is [`ValueId::ABSENT`].
    #[inline]
    pub fn domain(&self, value: ValueId) -> Option<Domain> {
        let cell = self.domains.try_get(value.index()).filter(|cell| cell.n_nodes > 0);
        cell.map(|cell| Domain::from(*cell))
    }

    /// How many pods count in a domain; 0 when there is no such domain.
    #[inline]
    pub fn n_pods_in(&self, value: ValueId) -> i64 {
        self.domains.try_get(value.index()).map_or(0, |cell| i64::from(cell.n_pods))
    }

    /// All domains that have nodes that count, by id.
    pub fn domains(&self) -> impl Iterator<Item = (ValueId, Domain)> {
        let all = self.domains.iter().enumerate();
        all.filter(|(_, domain)| domain.n_nodes > 0)
            .map(|(at, domain)| (ValueId::from_index(at), Domain::from(*domain)))
    }

    /// How many domains have nodes that count.
    pub fn n_domains(&self) -> usize {
        self.n_domains
    }

    /// How many pods count on all nodes that count.
    pub fn n_pods(&self) -> i64 {
        self.n_pods
    }

    /// The number of pods in the emptiest domain; `None` when there is no domain.
    pub fn least(&self) -> Option<i64> {
        self.by_sum.iter().next().map(|(sum, _)| i64::from(sum))
    }

    /// The number of pods in the emptiest domain that is not one of `values`, which are distinct.
    pub fn least_without(&self, values: &[ValueId]) -> Option<i64> {
        let is_left_out = |value: &&ValueId, sum: i64| {
            self.domain(**value).is_some_and(|domain| domain.n_pods == sum)
        };
        let mut sums = self.by_sum.iter();
        let least = sums.find(|(sum, n)| {
            let is_left_out = |value: &&ValueId| is_left_out(value, i64::from(*sum));
            let n_left_out = values.iter().filter(is_left_out).count();
            *n as usize > n_left_out
        });
        least.map(|(sum, _)| i64::from(sum))
    }

    /// How many domains have exactly this many pods.
    pub fn n_domains_with(&self, n_pods: i64) -> u32 {
        u32::try_from(n_pods).map_or(0, |sum| self.by_sum.of_sum(sum))
    }
}

/// # Following changes
impl DomainCounts {
    /// No pod counts, and no node.
    fn nothing(spec: &CounterSpec) -> Self {
        Self {
            spec: Arc::new(spec.clone()),
            on_nodes: Column::new(),
            eligible: NodeSet::new(),
            domains: Column::new(),
            by_sum: SumCounts::default(),
            n_domains: 0,
            n_pods: 0,
            own_column: None,
        }
    }

    /// Whether its domains are numbered by a column that is not the cluster's.
    pub(super) fn has_own_column(&self) -> bool {
        self.own_column.is_some()
    }

    /// Whether a pod counts.
    pub(super) fn includes(&self, pod: &Pod, objects: &crate::objects::ObjectStore) -> bool {
        self.spec.pods.includes(pod, objects)
    }

    /// A pod that counts comes to a node or leaves it.
    pub(super) fn shift(&mut self, node: NodeIdx, delta: i32, labels: &LabelIndex) {
        let n = self.on_node_mut(node);
        *n = n.saturating_add_signed(delta);
        if self.eligible.contains(node) {
            let value = self.value_of(node, labels);
            self.shift_domain(value, i64::from(delta), 0);
        }
    }

    /// Whether there are numbers for slots from this one on.
    pub(super) fn has_slots_from(&self, capacity: usize) -> bool {
        self.on_nodes.len() > capacity
    }

    /// Slots from this one on are gone, and so have no pods.
    pub(super) fn drop_slots_from(&mut self, capacity: usize) {
        self.on_nodes.resize(capacity);
    }

    /// A node does not count any more; its labels are still those it counted with.
    pub(super) fn hide_node(&mut self, node: NodeIdx, labels: &LabelIndex) {
        if self.eligible.remove(node) {
            let value = self.value_of(node, labels);
            self.shift_domain(value, -self.on_node(node), -1);
        }
    }

    /// A node counts that did not count before.
    pub(super) fn show_node(&mut self, node: NodeIdx, labels: &LabelIndex) {
        let value = self.value_of(node, labels);
        self.enter(node, value);
    }

    fn enter(&mut self, node: NodeIdx, value: ValueId) {
        if self.eligible.insert(node) {
            self.shift_domain(value, self.on_node(node), 1);
        }
    }

    fn value_of(&self, node: NodeIdx, labels: &LabelIndex) -> ValueId {
        let column = self.spec.topology_key.as_ref().and_then(|key| labels.column(key));
        column.map_or(ValueId::ABSENT, |column| column.id(node))
    }

    fn shift_domain(&mut self, value: ValueId, n_pods: i64, n_nodes: i32) {
        self.domains.grow(value.index() + 1);
        let domain = self.domains.get_mut(value.index());
        let old = *domain;
        domain.n_pods = u32::try_from(i64::from(old.n_pods) + n_pods).unwrap_or(0);
        domain.n_nodes = domain.n_nodes.saturating_add_signed(n_nodes);
        let new = *domain;
        self.n_pods += n_pods;
        if old.n_nodes > 0 {
            self.n_domains -= 1;
            self.by_sum.remove(old.n_pods);
        }
        if new.n_nodes > 0 {
            self.n_domains += 1;
            self.by_sum.add(new.n_pods);
        }
    }

    fn on_node_mut(&mut self, node: NodeIdx) -> &mut u32 {
        self.on_nodes.grow(node.index() + 1);
        self.on_nodes.get_mut(node)
    }
}
