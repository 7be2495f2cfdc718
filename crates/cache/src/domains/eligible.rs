//! Which nodes count, found for all of them at once: once per distinct value or list of taints instead of once per node.
//!
//! Invariant: the answers of [`CounterSpec::includes_node`].

use kube_scheduler_api_types::untolerated_taint;

use super::spec::{CounterSpec, PodTolerations, RequiredNodeAffinity};
use crate::bound_selector::BoundRequirements;
use crate::label_index::ValueId;
use crate::node_set::NodeSet;
use crate::node_table::NodeIdx;
use crate::state::ClusterState;

/// The nodes that count by `spec`. O(nodes × conditions).
pub(super) fn eligible(cluster: &ClusterState, spec: &CounterSpec) -> NodeSet {
    let nodes = &spec.nodes;
    let mut eligible = cluster.live_nodes().clone();
    let topology_key = spec.topology_key.as_ref().filter(|_| !nodes.counts_unlabelled);
    for key in topology_key.into_iter().chain(nodes.required_keys.iter()) {
        keep_labelled(cluster, key, &mut eligible);
    }
    if let Some(tolerated) = &nodes.tolerated {
        keep_tolerated(cluster, tolerated, &mut eligible);
    }
    if let Some(affinity) = &nodes.affinity {
        let RequiredNodeAffinity { pairs, required } = affinity;
        let bound = BoundRequirements::new(cluster, pairs.as_ref(), required.as_ref());
        eligible.and(&bound.nodes(cluster));
    }
    eligible
}

fn keep(nodes: &mut NodeSet, does_count: impl Fn(NodeIdx) -> bool) {
    let mut left = NodeSet::with_capacity(nodes.words().len() * u64::BITS as usize);
    for idx in nodes.iter().filter(|idx| does_count(*idx)) {
        left.insert(idx);
    }
    *nodes = left;
}

fn keep_labelled(cluster: &ClusterState, key: &str, nodes: &mut NodeSet) {
    match cluster.label_column(key) {
        // Only nodes with an object have labels.
        Some(column) if column.n_labelled() == cluster.live_nodes().len() => {}
        Some(column) => nodes.and(&NodeSet::of_slots(column.ids(), |id| id != ValueId::ABSENT)),
        None => {
            let has_key = |idx| cluster.node(idx).is_some_and(|node| node.labels.contains_key(key));
            keep(nodes, has_key);
        }
    }
}

fn keep_tolerated(cluster: &ClusterState, tolerated: &PodTolerations, nodes: &mut NodeSet) {
    let PodTolerations { tolerations, compares_numbers } = tolerated;
    let sets = cluster.taint_sets();
    let mut lets_in = vec![true; sets.n_ids()];
    for (id, taints) in sets.iter() {
        lets_in[id.index()] = untolerated_taint(taints, tolerations, *compares_numbers).is_none();
    }
    if lets_in.contains(&false) {
        nodes.and(&NodeSet::of_slots(cluster.taint_set_ids(), |id| lets_in[id.index()]));
    }
}
