//! Nodes by name: their slots, and the order in which a scheduling cycle goes through them.
//!
//! Invariants: a name has at most one slot; a slot with a name but without a node object is a *ghost* that exists
//! because pods name it; a freed slot is used again before a new one is made, the lowest first, so that those at the end become
//! free and are given back. The listed
//! order changes only when the set of node names does (`docs/spec/core.md` §14.2): neither a change of zone nor removing
//! and adding a node between two refreshes moves anything.

use std::ops::BitOr;
use std::sync::Arc;

use kube_scheduler_api_types::{KeyedMap, Node};

use crate::fork::{COLUMN_CHUNK, Column, CowMap, WIDE_CHUNK};
use crate::node_set::NodeSet;
use crate::node_tree::NodeTree;

/// The slot of a node: an index into every column of a [`ClusterState`](crate::ClusterState).
///
/// It stays the same as long as the node, or a pod on it, exists; afterwards the slot may go to another node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIdx(u32);

impl NodeIdx {
    /// The slot with this number.
    pub const fn from_index(index: usize) -> Self {
        Self(index as u32)
    }

    /// The number of the slot, for tables with one entry per slot.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Runs of `nodes` whose slots are in one chunk of every column, with the number of the chunk. Few and long when the
/// nodes are in the order of their slots.
pub fn runs_by_chunk(nodes: &[NodeIdx]) -> impl Iterator<Item = (usize, &[NodeIdx])> {
    /// So many nodes are compared with the first one at once. One by one an attempt takes two percent more instructions
    /// (`bench core --workload EveryPodDifferent`).
    const STEP: usize = 16;

    let mut left = nodes;
    std::iter::from_fn(move || {
        let first = left.first()?.index();
        let is_elsewhere = |differences: usize| differences >= COLUMN_CHUNK;
        let difference = |idx: &NodeIdx| idx.index() ^ first;
        let differs =
            |step: &[NodeIdx]| is_elsewhere(step.iter().map(difference).fold(0, BitOr::bitor));
        // In another order than that of the slots, runs are short.
        let n_alike = match left.get(1) {
            Some(second) if differs(std::slice::from_ref(second)) => 0,
            _ => STEP * left.chunks(STEP).position(differs).unwrap_or(left.len()),
        };
        let rest = left.get(n_alike..).unwrap_or_default();
        let n_more = rest.iter().position(|idx| is_elsewhere(difference(idx)));
        let (run, others) = left.split_at(n_more.map_or(left.len(), |n_more| n_alike + n_more));
        left = others;
        Some((first / COLUMN_CHUNK, run))
    })
}

impl<T: Copy> Column<T> {
    /// Calls `visit` for each of `nodes` with the element of `places` at the same position and the value of the node, which is what
    /// [`get`](Self::get) returns: both lists have to be equally long, and the column has to have a place for every node. The loop takes
    /// a fifth fewer instructions than looking up each node where they are in the order of their slots
    /// (`bench core --workload EveryPodDifferent`).
    ///
    /// # Panics
    /// If there are fewer places than nodes.
    #[inline]
    pub fn zip_nodes<P>(
        &self,
        nodes: &[NodeIdx],
        mut places: &mut [P],
        mut visit: impl FnMut(&mut P, T),
    ) {
        debug_assert!(nodes.iter().all(|idx| idx.index() < self.len()));
        for (at, run) in runs_by_chunk(nodes) {
            let (these, others) = places.split_at_mut(run.len());
            places = others;
            let Some(values) = self.chunk(at) else { continue };
            for (idx, place) in run.iter().zip(these) {
                visit(place, values[idx.index() % COLUMN_CHUNK]);
            }
        }
    }
}

impl From<NodeIdx> for usize {
    #[inline]
    fn from(node: NodeIdx) -> Self {
        node.index()
    }
}

/// Not in the listed order.
const UNLISTED: u32 = u32::MAX;

#[derive(Clone, Debug, Default)]
struct NodeSlot {
    name: Option<Arc<str>>,
    node: Option<Arc<Node>>,
}

/// Names, objects and order of all nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeTable {
    slots: Column<NodeSlot, WIDE_CHUNK>,
    by_name: CowMap<Arc<str>, NodeIdx>,
    free: NodeSet,
    live: NodeSet,
    /// What the objects take in memory by themselves.
    n_bytes: usize,
    /// Behind an `Arc` because it changes with membership alone.
    tree: Arc<NodeTree>,
    order: Arc<NodeOrder>,
}

/// The order as of the last refresh, and what has happened since.
#[derive(Clone, Debug, Default)]
struct NodeOrder {
    nodes: Arc<[NodeIdx]>,
    /// Rank by slot.
    ranks: Vec<u32>,
    /// Listed names that are gone, with their rank.
    removed: KeyedMap<Arc<str>, u32>,
    /// Live nodes that are not listed.
    n_added: usize,
}

impl NodeTable {
    pub(crate) fn capacity(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn live(&self) -> &NodeSet {
        &self.live
    }

    /// The slot of a live node or ghost.
    pub(crate) fn slot_of(&self, name: &str) -> Option<NodeIdx> {
        self.by_name.get(name).copied()
    }

    /// The name of a live node or ghost.
    pub(crate) fn name(&self, node: NodeIdx) -> Option<&Arc<str>> {
        self.slots.try_get(node)?.name.as_ref()
    }

    pub(crate) fn node(&self, node: NodeIdx) -> Option<&Arc<Node>> {
        self.slots.try_get(node)?.node.as_ref()
    }

    /// The sum of what the nodes take in memory [by themselves](Node::own_bytes), in bytes.
    pub(crate) fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    pub(crate) fn n_ghosts(&self) -> usize {
        self.by_name.len() - self.live.len()
    }

    /// The slot of `name`, made as a ghost when it is new, and whether it is.
    pub(crate) fn claim_slot(&mut self, name: &Arc<str>) -> (NodeIdx, bool) {
        if let Some(node) = self.slot_of(name) {
            return (node, false);
        }
        let node = match self.free.pop_first() {
            Some(node) => node,
            None => {
                self.slots.grow(self.slots.len() + 1);
                NodeIdx::from_index(self.slots.len() - 1)
            }
        };
        self.slots.set(node, NodeSlot { name: Some(name.clone()), node: None });
        self.by_name.insert(name.clone(), node);
        (node, true)
    }

    /// Gives up the slot of a ghost.
    pub(crate) fn free_slot(&mut self, node: NodeIdx) {
        let slot = self.slots.take(node);
        if let Some(name) = slot.name {
            self.by_name.remove(&*name);
            self.free.insert(node);
        }
    }

    /// Gives the free slots at the end back; says whether there were any. Not while the order lists nodes that are gone.
    pub(crate) fn drop_free_slots(&mut self) -> bool {
        let before = self.slots.len();
        if self.order_is_stale() {
            return false;
        }
        let mut after = before;
        while after > 0 && self.free.remove(NodeIdx::from_index(after - 1)) {
            after -= 1;
        }
        self.slots.resize(after);
        after < before
    }

    /// Sets the object of a slot and returns the previous one. A ghost becomes live.
    pub(crate) fn set_node(&mut self, node: NodeIdx, object: Arc<Node>) -> Option<Arc<Node>> {
        let is_new = self.live.insert(node);
        let previous = self.slots.get_mut(node).node.replace(object.clone());
        self.n_bytes += object.own_bytes();
        self.n_bytes -= previous.as_ref().map_or(0, |previous| previous.own_bytes());
        // Rewriting an `Arc` that a fork shares copies the tree, so find out first whether there is anything to write.
        let zone_may_differ = previous
            .as_ref()
            .is_none_or(|previous| !previous.labels.is_same_allocation(&object.labels));
        if zone_may_differ {
            let zone_key = object.zone_key();
            if self.tree.zone_key(node) != Some(&*zone_key) {
                Arc::make_mut(&mut self.tree).insert(node, &zone_key);
            }
        }
        if is_new {
            Arc::make_mut(&mut self.order).add(node, &object.name);
        }
        previous
    }

    /// Clears the object of a slot, which becomes a ghost.
    pub(crate) fn clear_node(&mut self, node: NodeIdx) -> Option<Arc<Node>> {
        let previous = self.slots.get_mut(node).node.take()?;
        self.n_bytes -= previous.own_bytes();
        self.live.remove(node);
        Arc::make_mut(&mut self.tree).remove(node);
        Arc::make_mut(&mut self.order).remove(node, &previous.name);
        Some(previous)
    }

    pub(crate) fn order(&self) -> &Arc<[NodeIdx]> {
        &self.order.nodes
    }

    pub(crate) fn position(&self, node: NodeIdx) -> Option<usize> {
        self.order
            .ranks
            .get(node.index())
            .filter(|rank| **rank != UNLISTED)
            .map(|rank| *rank as usize)
    }

    pub(crate) fn order_is_stale(&self) -> bool {
        self.order.n_added > 0 || !self.order.removed.is_empty()
    }

    pub(crate) fn refresh_order(&mut self) {
        if self.order_is_stale() {
            self.order = Arc::new(NodeOrder::new(self.tree.list(), self.slots.len()));
        }
    }

    pub(crate) fn tree(&self) -> &NodeTree {
        &self.tree
    }
}

impl NodeOrder {
    fn new(nodes: Vec<NodeIdx>, capacity: usize) -> Self {
        let mut ranks = vec![UNLISTED; capacity];
        for (rank, node) in nodes.iter().enumerate() {
            ranks[node.index()] = rank as u32;
        }
        Self { nodes: nodes.into(), ranks, removed: KeyedMap::default(), n_added: 0 }
    }

    fn add(&mut self, node: NodeIdx, name: &str) {
        let Some(rank) = self.removed.remove(name) else {
            self.n_added += 1;
            return;
        };
        // The name is back where it was, perhaps in another slot.
        if self.ranks.len() <= node.index() {
            self.ranks.resize(node.index() + 1, UNLISTED);
        }
        self.ranks[node.index()] = rank;
        Arc::make_mut(&mut self.nodes)[rank as usize] = node;
    }

    fn remove(&mut self, node: NodeIdx, name: &Arc<str>) {
        match self.ranks.get_mut(node.index()).map(|rank| std::mem::replace(rank, UNLISTED)) {
            Some(rank) if rank != UNLISTED => {
                self.removed.insert(name.clone(), rank);
            }
            _ => self.n_added -= 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn node(name: &str, zone: &str) -> Arc<Node> {
        let labels = [("topology.kubernetes.io/zone", zone)].into_iter().collect();
        Arc::new(Node { name: name.into(), labels, ..Node::default() })
    }

    fn add(table: &mut NodeTable, name: &str, zone: &str) -> NodeIdx {
        let node = node(name, zone);
        let (idx, _) = table.claim_slot(&node.name);
        table.set_node(idx, node);
        idx
    }

    fn remove(table: &mut NodeTable, name: &str) {
        let idx = table.slot_of(name).unwrap();
        table.clear_node(idx);
        table.free_slot(idx);
    }

    fn names(table: &NodeTable) -> String {
        table.order().iter().map(|idx| &**table.name(*idx).unwrap()).collect::<Vec<_>>().join(" ")
    }

    fn abc() -> NodeTable {
        let mut table = NodeTable::default();
        for (name, zone) in [("a", "1"), ("b", "1"), ("c", "2")] {
            add(&mut table, name, zone);
        }
        table.refresh_order();
        table
    }

    #[test]
    fn runs_end_where_chunks_do() {
        let nodes = [5, 1_023, 1_024, 3_000, 7].map(NodeIdx::from_index);
        let runs: Vec<(usize, &[NodeIdx])> = runs_by_chunk(&nodes).collect();
        assert_eq!(
            runs,
            [(0, &nodes[..2]), (1, &nodes[2..3]), (2, &nodes[3..4]), (0, &nodes[4..])]
        );
    }

    proptest! {
        #![proptest_config(crate::tests::cases(200))]

        /// In order or not, the runs are those that comparing neighbours finds, and each node gets its own value.
        #[test]
        fn runs_and_values_are_those_of_single_nodes(
            mut slots in prop::collection::vec(0_usize..2_500, 0..150),
            is_sorted in any::<bool>(),
        ) {
            if is_sorted {
                slots.sort_unstable();
            }
            let nodes: Vec<NodeIdx> = slots.iter().copied().map(NodeIdx::from_index).collect();
            let is_together =
                |a: &NodeIdx, b: &NodeIdx| a.index() / COLUMN_CHUNK == b.index() / COLUMN_CHUNK;
            let runs: Vec<&[NodeIdx]> = runs_by_chunk(&nodes).map(|(_, run)| run).collect();
            prop_assert_eq!(runs, nodes.chunk_by(is_together).collect::<Vec<_>>());
            prop_assert!(runs_by_chunk(&nodes).all(|(at, run)| run[0].index() / COLUMN_CHUNK == at));
            let column: Column<u32> = (0..2_500).map(|at| at * 3).collect();
            let mut found = vec![1; nodes.len()];
            column.zip_nodes(&nodes, &mut found, |place, value| *place += value);
            let singly: Vec<u32> = nodes.iter().map(|idx| column.get(*idx) + 1).collect();
            prop_assert_eq!(found, singly);
        }
    }

    #[test]
    fn a_change_of_zone_reorders_with_the_next_change_of_membership() {
        let mut table = abc();
        assert_eq!(names(&table), "a c b");
        add(&mut table, "a", "2");
        table.refresh_order();
        assert_eq!(names(&table), "a c b");
        add(&mut table, "d", "3");
        table.refresh_order();
        assert_eq!(names(&table), "b c d a");
    }

    #[test]
    fn bytes_are_those_of_the_nodes_that_are_there() {
        let mut table = abc();
        // The name, the zone, and what every node has.
        let of_one = node("a", "1").own_bytes();
        assert_eq!(table.n_bytes(), 3 * of_one);
        let (idx, longer) = (table.slot_of("a").unwrap(), "12345".into());
        let changed = Node { resource_version: longer, ..(*node("a", "2")).clone() };
        table.set_node(idx, Arc::new(changed));
        assert_eq!(table.n_bytes(), 3 * of_one + 5);
        for name in ["a", "b", "c"] {
            remove(&mut table, name);
        }
        assert_eq!(table.n_bytes(), 0);
    }

    #[test]
    fn a_node_removed_and_added_between_refreshes_keeps_its_rank() {
        let mut table = abc();
        remove(&mut table, "a");
        remove(&mut table, "c");
        // Freed slots are used again, the lowest first: `c` gets the slot that `a` had.
        assert_eq!(add(&mut table, "c", "2").index(), 0);
        assert_eq!(add(&mut table, "a", "1").index(), 2);
        table.refresh_order();
        assert_eq!(names(&table), "a c b");
        assert_eq!(table.position(NodeIdx::from_index(2)), Some(0));
        assert_eq!(table.position(NodeIdx::from_index(0)), Some(1));
        // The tree has forgotten where they were, which shows at the next change.
        remove(&mut table, "b");
        table.refresh_order();
        assert_eq!(names(&table), "a c");
    }
}
