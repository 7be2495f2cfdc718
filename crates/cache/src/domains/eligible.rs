//! Which nodes count, found for all of them at once: once per distinct value or list of taints instead of once per node.
//!
//! Invariant: the answers of [`CounterSpec::includes_node`].

use std::sync::Arc;

use kube_scheduler_api_types::untolerated_taint;

use super::counts::PodsOnNodes;
use super::spec::{CountedPods, CounterSpec, PodTolerations, RequiredNodeAffinity};
use crate::label_index::{LabelColumn, ValueId};
use crate::matching_nodes::nodes_matching;
use crate::node_set::NodeSet;
use crate::node_table::NodeIdx;
use crate::state::ClusterState;

/// The nodes that count by `spec`. O(nodes × conditions), and no more once none is left. `shared` has what was found out
/// for others of the same pod.
pub(super) fn eligible(
    cluster: &ClusterState,
    spec: &CounterSpec,
    shared: &mut SharedEligibility,
) -> NodeSet {
    let nodes = &spec.nodes;
    if spec.needed_keys().any(|key| !cluster.labels.is_on_nodes(key)) {
        return NodeSet::new();
    }
    let mut eligible = cluster.live_nodes().clone();
    for key in spec.needed_keys() {
        keep_labelled(cluster, key, &mut eligible);
    }
    if eligible.is_empty() {
        return eligible;
    }
    if let Some(tolerated) = &nodes.tolerated {
        keep_tolerated(cluster, tolerated, &mut eligible);
    }
    if let Some(affinity) = &nodes.affinity {
        eligible.and(shared.matching(cluster, affinity));
    }
    eligible
}

/// What counters of one pod have in common, worked out once for all of them as long as the cluster stays as it is.
#[derive(Debug, Default)]
pub(crate) struct SharedEligibility {
    affinity: Option<(RequiredNodeAffinity, NodeSet)>,
    /// The labels of a topology key that the cluster has no column for.
    column: Option<Arc<LabelColumn>>,
    /// Whether several counters are counted.
    pub(super) is_for_many: bool,
    /// The pods that count, and how many are on each node.
    pub(super) on_nodes: Option<(CountedPods, PodsOnNodes)>,
    /// How often nodes were compared with an affinity.
    #[cfg(test)]
    pub(crate) n_evaluations: usize,
}

impl SharedEligibility {
    /// Nothing is known yet.
    pub(super) fn for_counters(n: usize) -> Self {
        Self { is_for_many: n > 1, ..Self::default() }
    }

    /// The column of a topology key; `None` when the cluster has one. O(nodes), once for counters by the same key.
    pub(super) fn column_for(
        &mut self,
        cluster: &ClusterState,
        key: &Arc<str>,
    ) -> Option<Arc<LabelColumn>> {
        if cluster.label_column(key).is_some() {
            return None;
        }
        if self.column.as_ref().is_none_or(|column| column.key() != key) {
            let nodes = cluster.is_on_nodes(key).then(|| cluster.live_nodes().iter());
            let nodes = nodes.into_iter().flatten();
            let nodes = nodes.filter_map(|idx| Some((idx, &**cluster.node(idx)?)));
            let column = LabelColumn::new(key.clone(), cluster.capacity(), nodes);
            self.column = Some(Arc::new(column));
        }
        self.column.clone()
    }

    /// The nodes that match an affinity.
    fn matching(&mut self, cluster: &ClusterState, affinity: &RequiredNodeAffinity) -> &NodeSet {
        let known = self.affinity.take().filter(|(known, _)| known == affinity);
        let known = known.unwrap_or_else(|| {
            let RequiredNodeAffinity { pairs, required } = affinity;
            #[cfg(test)]
            {
                self.n_evaluations += 1;
            }
            (affinity.clone(), nodes_matching(cluster, pairs.as_ref(), required.as_ref()))
        });
        &self.affinity.insert(known).1
    }
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
