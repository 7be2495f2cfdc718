//! The nodes that match what a pod requires or prefers of its node, as sets.
//!
//! The nodes with a value of a label are known as a set already where the label's key has a column, so most requirements cost a few
//! words of bits. On a key without a column, the labels of each node decide.
//!
//! Invariant: a set has the nodes whose labels and name the selector matches.

use kube_scheduler_api_types::{
    Labels, Node, NodeSelector, NodeSelectorTerm, Operator, Requirement,
};
use smallvec::SmallVec;

use crate::label_index::ValueId;
use crate::node_group::NodeGroup;
use crate::node_set::NodeSet;
use crate::state::ClusterState;

/// The nodes that have all labels of a `nodeSelector` and match a required affinity. For each requirement O(nodes) at worst, O(nodes / 64)
/// for one value of a label that has a column, and for a label that no node has.
pub fn nodes_matching(
    cluster: &ClusterState,
    pairs: Option<&Labels>,
    selector: Option<&NodeSelector>,
) -> NodeSet {
    in_each(sets_of_all(cluster, pairs, selector), cluster.live_nodes())
}

/// The nodes that match one term of a node affinity. As expensive as [`nodes_matching`].
pub fn nodes_matching_term(cluster: &ClusterState, term: &NodeSelectorTerm) -> NodeSet {
    let sets = term.expressions.iter().map(|requirement| as_required(cluster, requirement));
    let nodes = in_each(sets, cluster.live_nodes());
    if term.fields.is_empty() {
        return nodes;
    }
    let is_meant = |node: &Node| {
        node.name.is_empty() || term.fields.iter().all(|required| required.matches(&node.name))
    };
    nodes.iter().filter(|idx| cluster.node(*idx).is_some_and(|node| is_meant(node))).collect()
}

/// The nodes for each pair and for the selector, one after the other as they are asked for.
pub(crate) fn sets_of_all<'a>(
    cluster: &'a ClusterState,
    pairs: Option<&'a Labels>,
    selector: Option<&'a NodeSelector>,
) -> impl Iterator<Item = NodeSet> + 'a {
    let pairs = pairs.into_iter().flat_map(Labels::iter);
    let pairs = pairs.map(|(key, value)| with_label(cluster, key, value));
    pairs.chain(selector.into_iter().map(|selector| matching_any_term(cluster, selector)))
}

/// The nodes that are in each of `sets`; `all` if there are none. Asks for no more sets once no node is left: a tenant may list
/// thousands of requirements, and mostly the first one that no node meets is near the start.
pub(crate) fn in_each(mut sets: impl Iterator<Item = NodeSet>, all: &NodeSet) -> NodeSet {
    let Some(mut common) = sets.next() else { return all.clone() };
    while !common.is_empty()
        && let Some(set) = sets.next()
    {
        common.and(&set);
    }
    common
}

fn matching_any_term(cluster: &ClusterState, selector: &NodeSelector) -> NodeSet {
    let mut nodes = NodeSet::new();
    for term in selector.terms().iter().flatten() {
        nodes.or(&nodes_matching_term(cluster, term));
        if nodes.len() == cluster.live_nodes().len() {
            break;
        }
    }
    nodes
}

fn with_label(cluster: &ClusterState, key: &str, value: &str) -> NodeSet {
    let Some(column) = cluster.label_column(key) else {
        return nodes_where(cluster, |node| node.labels.get(key) == Some(value));
    };
    let nodes = column.id_of(value).and_then(|id| column.nodes(id));
    nodes.map(NodeGroup::to_set).unwrap_or_default()
}

fn as_required(cluster: &ClusterState, requirement: &Requirement) -> NodeSet {
    let Some(column) = cluster.label_column(&requirement.key) else {
        return nodes_where(cluster, |node| requirement.matches(&node.labels));
    };
    if column.n_labelled() == 0 {
        let is_met = requirement.matches_value(None);
        return if is_met { cluster.live_nodes().clone() } else { NodeSet::new() };
    }
    let mut is_wanted = vec![false; column.n_ids()];
    if requirement.operator == Operator::In {
        let ids = requirement.values.iter().filter_map(|value| column.id_of(value));
        let ids: SmallVec<[ValueId; 4]> = ids.collect();
        if let [] | [_] = *ids {
            let nodes = ids.first().and_then(|id| column.nodes(*id));
            return nodes.map(NodeGroup::to_set).unwrap_or_default();
        }
        ids.iter().for_each(|id| is_wanted[id.index()] = true);
    } else {
        is_wanted[ValueId::ABSENT.index()] = requirement.matches_value(None);
        for (id, value, _) in column.values() {
            is_wanted[id.index()] = requirement.matches_value(Some(value));
        }
    }
    let mut nodes = NodeSet::of_slots(column.ids(), |id| is_wanted[id.index()]);
    nodes.and(cluster.live_nodes());
    nodes
}

fn nodes_where(cluster: &ClusterState, is_meant: impl Fn(&Node) -> bool) -> NodeSet {
    let live = cluster.live_nodes().iter();
    live.filter(|idx| cluster.node(*idx).is_some_and(|node| is_meant(node))).collect()
}
