//! Selectors bound to the label columns of a cluster, for scans over many nodes.
//!
//! A requirement on a key that has a column is decided once per distinct value; a scan then looks up small numbers. On
//! a key without a column it is decided from the node's labels.
//!
//! Scans of the whole cluster ask for the set of matching nodes instead ([`BoundRequirements::nodes`]): a value's nodes
//! are known as a set already, so that most requirements cost a few words of bits.
//!
//! Invariant: same answers as the selector gives for the node's labels and name.

use kube_scheduler_api_types::{
    FieldRequirement, Labels, NodeSelector, NodeSelectorTerm, Operator, PreferredNodeTerm,
    Requirement,
};
use smallvec::SmallVec;

use crate::label_index::{LabelColumn, ValueId};
use crate::node_group::NodeGroup;
use crate::node_set::NodeSet;
use crate::node_table::NodeIdx;
use crate::state::ClusterState;

/// One requirement on a label.
#[derive(Debug)]
enum BoundRequirement<'a> {
    /// The label must have exactly this value.
    Is(&'a LabelColumn, ValueId),
    /// No node has any of the values: nothing matches.
    Never,
    /// No node has the key, and every node is as required.
    Always,
    /// The answer for every value, by id.
    Table(&'a LabelColumn, Vec<bool>),
    /// There is no column for the key: labels are read from the node object.
    Labels(&'a Requirement),
    /// As `Labels`, for exactly one value.
    Pair(&'a str, &'a str),
}

impl<'a> BoundRequirement<'a> {
    fn new(cluster: &'a ClusterState, requirement: &'a Requirement) -> Self {
        let Some(column) = cluster.label_column(&requirement.key) else {
            return Self::Labels(requirement);
        };
        if requirement.operator == Operator::In {
            let mut ids: SmallVec<[ValueId; 4]> =
                requirement.values.iter().filter_map(|value| column.id_of(value)).collect();
            return match (ids.pop(), ids.is_empty()) {
                (None, _) => Self::Never,
                (Some(id), true) => Self::Is(column, id),
                (Some(id), false) => {
                    let mut table = vec![false; column.n_ids()];
                    ids.push(id);
                    for id in ids {
                        table[id.index()] = true;
                    }
                    Self::Table(column, table)
                }
            };
        }
        if column.n_labelled() == 0 {
            return if requirement.matches_value(None) { Self::Always } else { Self::Never };
        }
        let mut table = vec![false; column.n_ids()];
        table[ValueId::ABSENT.index()] = requirement.matches_value(None);
        for (id, value, _) in column.values() {
            table[id.index()] = requirement.matches_value(Some(value));
        }
        Self::Table(column, table)
    }

    fn equals(cluster: &'a ClusterState, key: &'a str, value: &'a str) -> Self {
        match cluster.label_column(key) {
            None => Self::Pair(key, value),
            Some(column) => column.id_of(value).map_or(Self::Never, |id| Self::Is(column, id)),
        }
    }

    #[inline]
    fn matches(&self, cluster: &ClusterState, idx: NodeIdx) -> bool {
        match self {
            Self::Is(column, id) => column.id(idx) == *id,
            Self::Never => false,
            Self::Always => true,
            Self::Table(column, table) => table[column.id(idx).index()],
            Self::Labels(requirement) => {
                cluster.node(idx).is_some_and(|node| requirement.matches(&node.labels))
            }
            Self::Pair(key, value) => {
                cluster.node(idx).is_some_and(|node| node.labels.get(key) == Some(value))
            }
        }
    }

    /// The nodes that match.
    fn nodes(&self, cluster: &ClusterState) -> NodeSet {
        match self {
            Self::Is(column, id) => column.nodes(*id).map(NodeGroup::to_set).unwrap_or_default(),
            Self::Never => NodeSet::new(),
            Self::Always => cluster.live_nodes().clone(),
            Self::Table(column, table) => {
                let mut nodes = NodeSet::of_slots(column.ids(), |id| table[id.index()]);
                nodes.and(cluster.live_nodes());
                nodes
            }
            Self::Labels(_) | Self::Pair(..) => {
                cluster.live_nodes().iter().filter(|idx| self.matches(cluster, *idx)).collect()
            }
        }
    }
}

/// The nodes that are in each of `sets`; `all` if there are none. Asks for no more sets once no node is left.
fn in_each(mut sets: impl Iterator<Item = NodeSet>, all: &NodeSet) -> NodeSet {
    let Some(mut common) = sets.next() else { return all.clone() };
    while !common.is_empty()
        && let Some(set) = sets.next()
    {
        common.and(&set);
    }
    common
}

/// Binds one requirement after the other, and no more of them once one matches no node.
fn bind_all<'a, T>(
    given: impl Iterator<Item = T>,
    bind: impl Fn(T) -> BoundRequirement<'a>,
) -> SmallVec<[BoundRequirement<'a>; 2]> {
    let mut bound = SmallVec::new();
    for requirement in given {
        let requirement = bind(requirement);
        let is_never = matches!(requirement, BoundRequirement::Never);
        bound.push(requirement);
        if is_never {
            // A caller that asks for one node finds it first.
            let last = bound.len() - 1;
            bound.swap(0, last);
            break;
        }
    }
    bound
}

#[derive(Debug)]
struct BoundTerm<'a> {
    expressions: SmallVec<[BoundRequirement<'a>; 2]>,
    fields: &'a [FieldRequirement],
}

impl<'a> BoundTerm<'a> {
    fn new(cluster: &'a ClusterState, term: &'a NodeSelectorTerm) -> Self {
        let bind = |requirement| BoundRequirement::new(cluster, requirement);
        Self { expressions: bind_all(term.expressions.iter(), bind), fields: &term.fields }
    }

    fn matches(&self, cluster: &ClusterState, idx: NodeIdx) -> bool {
        self.expressions.iter().all(|requirement| requirement.matches(cluster, idx))
            && (self.fields.is_empty()
                || cluster.node(idx).is_some_and(|node| self.fields_match(&node.name)))
    }

    /// Whether it is known without looking at any node that none matches.
    fn is_never(&self) -> bool {
        matches!(self.expressions.first(), Some(BoundRequirement::Never))
    }

    fn nodes(&self, cluster: &ClusterState) -> NodeSet {
        let sets = self.expressions.iter().map(|requirement| requirement.nodes(cluster));
        let nodes = in_each(sets, cluster.live_nodes());
        if self.fields.is_empty() {
            return nodes;
        }
        let is_meant =
            |idx: &NodeIdx| cluster.node(*idx).is_some_and(|node| self.fields_match(&node.name));
        nodes.iter().filter(is_meant).collect()
    }

    fn fields_match(&self, name: &str) -> bool {
        name.is_empty() || self.fields.iter().all(|requirement| requirement.matches(name))
    }
}

/// A node selector with its label keys and values looked up in a cluster, for matching many nodes.
#[derive(Debug)]
pub struct BoundSelector<'a> {
    terms: SmallVec<[BoundTerm<'a>; 2]>,
}

impl<'a> BoundSelector<'a> {
    /// Prepares a node selector for tests of many nodes: values are looked up once. O(requirements × distinct values).
    pub fn new(cluster: &'a ClusterState, selector: &'a NodeSelector) -> Self {
        Self {
            terms: selector
                .terms()
                .iter()
                .flatten()
                .map(|term| BoundTerm::new(cluster, term))
                .filter(|term| !term.is_never())
                .collect(),
        }
    }

    /// Whether the node matches; `None` when the slot has no node.
    pub fn matches(&self, cluster: &ClusterState, idx: NodeIdx) -> Option<bool> {
        cluster.live_nodes().contains(idx).then(|| self.is_match(cluster, idx))
    }

    fn is_match(&self, cluster: &ClusterState, idx: NodeIdx) -> bool {
        self.terms.iter().any(|term| term.matches(cluster, idx))
    }

    /// All nodes that match. O(nodes) at worst, O(nodes / 64) for labels that have columns.
    pub fn nodes(&self, cluster: &ClusterState) -> NodeSet {
        let mut nodes = NodeSet::new();
        for term in &self.terms {
            nodes.or(&term.nodes(cluster));
            if nodes.len() == cluster.live_nodes().len() {
                break;
            }
        }
        nodes
    }
}

/// What a pod requires of its node, for matching many nodes: all of its `nodeSelector` and its required affinity.
#[derive(Debug)]
pub struct BoundRequirements<'a> {
    pairs: SmallVec<[BoundRequirement<'a>; 2]>,
    selector: Option<BoundSelector<'a>>,
}

impl<'a> BoundRequirements<'a> {
    /// Binds `nodeSelector` pairs and a selector. O(requirements × distinct values).
    pub fn new(
        cluster: &'a ClusterState,
        pairs: Option<&'a Labels>,
        selector: Option<&'a NodeSelector>,
    ) -> Self {
        let pairs = pairs.into_iter().flat_map(Labels::iter);
        let pairs = bind_all(pairs, |(key, value)| BoundRequirement::equals(cluster, key, value));
        let is_never = matches!(pairs.first(), Some(BoundRequirement::Never));
        let selector = selector.filter(|_| !is_never);
        Self { pairs, selector: selector.map(|selector| BoundSelector::new(cluster, selector)) }
    }

    /// How many pairs were looked up.
    #[cfg(test)]
    pub(crate) fn n_bound(&self) -> usize {
        self.pairs.len()
    }

    /// Whether the node matches all requirements; `None` when the slot has no node.
    pub fn matches(&self, cluster: &ClusterState, idx: NodeIdx) -> Option<bool> {
        cluster.live_nodes().contains(idx).then(|| {
            self.pairs.iter().all(|pair| pair.matches(cluster, idx))
                && self.selector.as_ref().is_none_or(|selector| selector.is_match(cluster, idx))
        })
    }

    /// All nodes that match all requirements. Costs as much as [`BoundSelector::nodes`].
    pub fn nodes(&self, cluster: &ClusterState) -> NodeSet {
        let pairs = self.pairs.iter().map(|pair| pair.nodes(cluster));
        let selector = self.selector.iter().map(|selector| selector.nodes(cluster));
        in_each(pairs.chain(selector), cluster.live_nodes())
    }
}

/// Preferred node terms with their weights, for matching many nodes.
#[derive(Debug)]
pub struct BoundPreferences<'a> {
    terms: SmallVec<[(i64, BoundTerm<'a>); 2]>,
}

impl<'a> BoundPreferences<'a> {
    /// Prepares weighted terms for tests of many nodes: values are looked up once. O(requirements × distinct values).
    pub fn new(
        cluster: &'a ClusterState,
        terms: impl Iterator<Item = &'a PreferredNodeTerm>,
    ) -> Self {
        let bind = |preferred: &'a PreferredNodeTerm| {
            (i64::from(preferred.weight), BoundTerm::new(cluster, &preferred.term))
        };
        Self { terms: terms.map(bind).filter(|(_, term)| !term.is_never()).collect() }
    }

    /// The sum of the weights of the terms that match the node; 0 when the slot has no node.
    pub fn sum_of_matching(&self, cluster: &ClusterState, idx: NodeIdx) -> i64 {
        if !cluster.live_nodes().contains(idx) {
            return 0;
        }
        self.terms
            .iter()
            .filter(|(_, term)| term.matches(cluster, idx))
            .map(|(weight, _)| weight)
            .sum()
    }

    /// The weight of each term with the nodes that match it. Costs as much as [`BoundSelector::nodes`] for each.
    pub fn nodes(&self, cluster: &ClusterState) -> impl Iterator<Item = (i64, NodeSet)> {
        self.terms.iter().map(|(weight, term)| (*weight, term.nodes(cluster)))
    }
}
