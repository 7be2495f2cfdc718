//! Nodes in groups, each group in the order in which its nodes are chosen.
//!
//! Invariants: a node is in one group at most; a group in use has a node at least; the first of a group's heap is its node
//! with the highest total, of several the one with the lowest [rank](Order::rank). Below the first, a heap may hold
//! entries of nodes that have left. When the list of nodes changed, the heaps are emptied ([`Groups::begin_relisting`])
//! and made again ([`Groups::list`]); in between, it is only known which node is in which group.

use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use kube_scheduler_cache::ClusterState;
use kube_scheduler_framework::NodeIdx;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::own_scores::OwnScores;
use crate::preference::{TieBreak, position_of_rank, pre_order_rank};

/// What tells groups apart: numbers that are equal for nodes that get equal answers.
pub(super) type Standing = SmallVec<[u32; 8]>;

/// A total no node can have, for a sum of scores one of which is out of bounds.
pub(super) const BAD: i32 = i32::MIN;
const NOWHERE: u32 = u32::MAX;

/// Bytes that a group takes beside its numbers and what it takes for each of its nodes: a heap with the entries that may be left
/// over, its place in the table, and the memory for asking about it.
const PER_GROUP: usize = 400;
/// Bytes that a group takes for the raw scores of a plugin.
const PER_RAW: usize = 160;

/// The order of equally good nodes: along the list of nodes, or by name. Each node in the list has a rank.
#[derive(Default)]
struct Order {
    /// `None` along the list.
    by_name: Option<Names>,
}

#[derive(Default)]
struct Names {
    /// By slot; [`NOWHERE`] for those that are not in the list.
    ranks: Vec<u32>,
    /// By rank.
    nodes: Vec<NodeIdx>,
    /// The state of the node list that they belong to.
    membership: Option<u64>,
}

impl Order {
    /// Follows a new list of nodes. By name O(nodes log nodes).
    fn renew(&mut self, cluster: &ClusterState) {
        let Some(names) = &mut self.by_name else { return };
        let membership = Some(cluster.membership_sequence());
        if names.membership == membership {
            return;
        }
        let mut nodes = cluster.order().to_vec();
        nodes.sort_unstable_by_key(|idx| cluster.node_name(*idx));
        let mut ranks = vec![NOWHERE; cluster.capacity()];
        for (rank, idx) in (0..NOWHERE).zip(&nodes) {
            if let Some(known) = ranks.get_mut(idx.index()) {
                *known = rank;
            }
        }
        *names = Names { ranks, nodes, membership };
    }

    /// `None` when the node is not in the list.
    fn rank(&self, cluster: &ClusterState, idx: NodeIdx) -> Option<u32> {
        match &self.by_name {
            Some(names) => names.ranks.get(idx.index()).copied().filter(|rank| *rank != NOWHERE),
            None => cluster.position(idx).map(pre_order_rank),
        }
    }

    fn node(&self, cluster: &ClusterState, rank: u32) -> Option<NodeIdx> {
        match &self.by_name {
            Some(names) => names.nodes.get(rank as usize).copied(),
            None => cluster.order().get(position_of_rank(rank)).copied(),
        }
    }
}

/// How much a node is preferred within its group: a higher total is better, then a lower rank. The rank identifies the
/// node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Preference(u64);

impl Preference {
    fn new(total: i32, rank: u32) -> Self {
        let unsigned = total.cast_unsigned() ^ (1 << 31);
        Self(u64::from(unsigned) << 32 | u64::from(!rank))
    }

    fn total(self) -> i32 {
        ((self.0 >> 32) as u32 ^ (1 << 31)).cast_signed()
    }

    fn rank(self) -> u32 {
        !(self.0 as u32)
    }
}

/// How many nodes have which raw score, beside those that have 0, as most do.
#[derive(Clone, Default)]
struct RawScoreCounts {
    by_score: BTreeMap<i64, u32>,
    n_nodes: usize,
}

impl RawScoreCounts {
    fn add(&mut self, raw: i64) {
        if raw != 0 {
            *self.by_score.entry(raw).or_default() += 1;
            self.n_nodes += 1;
        }
    }

    fn remove(&mut self, raw: i64) {
        if let Some(n) = self.by_score.get_mut(&raw) {
            *n -= 1;
            self.n_nodes -= 1;
            if *n == 0 {
                self.by_score.remove(&raw);
            }
        }
    }

    /// The lowest and the highest raw score among `n_all` nodes, `None` when there are none.
    fn bounds(&self, n_all: usize) -> Option<(i64, i64)> {
        let zero = (self.n_nodes < n_all).then_some(0);
        let lowest = self.by_score.first_key_value().map(|(raw, _)| *raw);
        let highest = self.by_score.last_key_value().map(|(raw, _)| *raw);
        Some((lowest.into_iter().chain(zero).min()?, highest.into_iter().chain(zero).max()?))
    }
}

/// Nodes with equal standings.
pub(super) struct Group {
    standing: Arc<[u32]>,
    n_nodes: usize,
    /// One entry at least for each of its nodes; empty while nodes are relisted.
    heap: BinaryHeap<Preference>,
    /// By plugin whose scores are scaled.
    raw: SmallVec<[RawScoreCounts; 3]>,
    pub(super) passes: bool,
    /// What its nodes get beside their totals.
    pub(super) score: i64,
}

impl Group {
    pub(super) fn n_nodes(&self) -> usize {
        self.n_nodes
    }

    /// Removes entries of nodes that have left from the top of the heap, and all of them when they are the larger part.
    fn drop_stale(&mut self, is_current: impl Fn(&Preference) -> bool) {
        while self.heap.peek().is_some_and(|first| !is_current(first)) {
            self.heap.pop();
        }
        if self.heap.len() > 2 * self.n_nodes {
            let mut entries = std::mem::take(&mut self.heap).into_vec();
            entries.sort_unstable();
            // A node that left and came back as it was has several.
            entries.dedup();
            entries.retain(&is_current);
            self.heap = entries.into();
        }
    }
}

/// Where a node is. There is one for each node and template: eight bytes.
#[derive(Clone, Copy)]
struct Member {
    group: u32,
    total: i32,
}

/// The list of nodes, in its order, and where each of them is.
struct Listing<'a> {
    cluster: &'a ClusterState,
    order: &'a Order,
    members: &'a [Member],
}

impl Listing<'_> {
    fn node(&self, entry: Preference) -> Option<NodeIdx> {
        self.order.node(self.cluster, entry.rank())
    }

    /// Whether an entry's node is still in the group of this number, with the same total.
    fn is_current(&self, entry: Preference, number: u32) -> bool {
        let member = self.node(entry).and_then(|idx| self.members.get(idx.index()));
        member.is_some_and(|it| it.group == number && it.total == entry.total())
    }
}

/// All groups.
#[derive(Default)]
pub(super) struct Groups {
    order: Order,
    groups: Vec<Group>,
    free: Vec<u32>,
    by_standing: FxHashMap<Arc<[u32]>, u32>,
    /// The group that a node entered last.
    latest: u32,
    members: Vec<Member>,
    n_bad: usize,
    n_scaled: usize,
    /// The state of the node list that ranks belong to.
    membership: u64,
    is_relisting: bool,
}

impl Groups {
    /// No groups; the scores of `n_scaled` plugins are scaled. `by_name` is how ties are going to fall most often.
    pub(super) fn new(n_scaled: usize, by_name: bool) -> Self {
        let order = Order { by_name: by_name.then(Names::default) };
        Self { order, n_scaled, ..Self::default() }
    }

    /// Takes all nodes out of all groups.
    pub(super) fn clear(&mut self) {
        let (order, n_scaled) = (std::mem::take(&mut self.order), self.n_scaled);
        *self = Self { order, n_scaled, ..Self::default() };
    }

    /// How many groups have nodes.
    pub(super) fn len(&self) -> usize {
        self.by_standing.len()
    }

    /// What they take in memory at most, in bytes, beside what they take for each node.
    pub(super) fn n_bytes(&self) -> usize {
        // The standings of all groups are equally long.
        let standing = self.groups.first().map_or(0, |group| size_of_val(&*group.standing));
        let of_one = standing + PER_GROUP + self.n_scaled * PER_RAW;
        self.groups.capacity() * size_of::<Group>() + self.groups.len() * of_one
    }

    /// Whether the list of nodes is the one that the heaps were made for.
    pub(super) fn has_order_of(&self, cluster: &ClusterState) -> bool {
        self.membership == cluster.membership_sequence()
    }

    /// Empties the heaps until all are made again: for a new list of nodes, or many nodes that enter at once.
    pub(super) fn begin_relisting(&mut self, cluster: &ClusterState) {
        self.is_relisting = true;
        self.membership = cluster.membership_sequence();
        self.order.renew(cluster);
        // A node that is gone, with its slot perhaps, is still to leave its group.
        let n_slots = cluster.capacity().max(self.members.len());
        self.members.resize(n_slots, Member { group: NOWHERE, total: 0 });
        self.groups.iter_mut().for_each(|group| group.heap.clear());
    }

    pub(super) fn is_relisting(&self) -> bool {
        self.is_relisting
    }

    /// All groups in an order that stays the same until a node enters or leaves; some may be out of use.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Group> {
        self.groups.iter_mut()
    }

    pub(super) fn contains(&self, idx: NodeIdx) -> bool {
        self.members.get(idx.index()).is_some_and(|member| member.group != NOWHERE)
    }

    /// All nodes that are in a group.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeIdx> {
        let members = self.members.iter().enumerate();
        let members = members.filter(|(_, member)| member.group != NOWHERE);
        members.map(|(slot, _)| NodeIdx::from_index(slot))
    }

    /// Adds a node that is in no group. Nodes that are not in the list are ignored.
    pub(super) fn enter(
        &mut self,
        cluster: &ClusterState,
        idx: NodeIdx,
        standing: &[u32],
        scores: &OwnScores,
    ) {
        let Some(rank) = self.order.rank(cluster, idx) else { return };
        if idx.index() >= self.members.len() {
            return;
        }
        let number = self.number_of(standing);
        let group = &mut self.groups[number as usize];
        group.n_nodes += 1;
        scores.each_raw(idx, |at, raw| group.raw[at].add(raw));
        let mut member = Member { group: number, total: 0 };
        // Listing works out all totals.
        if !self.is_relisting {
            member.total = scores.total(idx).unwrap_or(BAD);
            self.n_bad += usize::from(member.total == BAD);
            group.heap.push(Preference::new(member.total, rank));
        }
        self.members[idx.index()] = member;
        if !self.is_relisting {
            let listing = Listing { cluster, order: &self.order, members: &self.members };
            group.drop_stale(|entry| listing.is_current(*entry, number));
        }
    }

    /// The group of nodes that stand like this, which need not have any yet.
    fn number_of(&mut self, standing: &[u32]) -> u32 {
        // Nodes often come in runs of the same group; where no plugin looks at domains, there is only one.
        let is_same = |group: &Group| group.n_nodes > 0 && *group.standing == *standing;
        if self.groups.get(self.latest as usize).is_some_and(is_same) {
            return self.latest;
        }
        if let Some(number) = self.by_standing.get(standing) {
            self.latest = *number;
            return *number;
        }
        let standing = Arc::<[u32]>::from(standing);
        let group = Group {
            standing: standing.clone(),
            n_nodes: 0,
            heap: BinaryHeap::new(),
            raw: SmallVec::from_elem(RawScoreCounts::default(), self.n_scaled),
            passes: true,
            score: 0,
        };
        let number = self.free.pop().unwrap_or(self.groups.len() as u32);
        match self.groups.get_mut(number as usize) {
            Some(place) => *place = group,
            None => self.groups.push(group),
        }
        self.by_standing.insert(standing, number);
        self.latest = number;
        number
    }

    /// Takes a node out of its group, if it is in one; `scores` are those that it entered with.
    pub(super) fn leave(&mut self, cluster: &ClusterState, idx: NodeIdx, scores: &OwnScores) {
        let Some(member) = self.members.get_mut(idx.index()) else { return };
        let number = std::mem::replace(&mut member.group, NOWHERE);
        let Some(group) = self.groups.get_mut(number as usize) else { return };
        self.n_bad -= usize::from(member.total == BAD);
        group.n_nodes -= 1;
        scores.each_raw(idx, |at, raw| group.raw[at].remove(raw));
        let listing = Listing { cluster, order: &self.order, members: &self.members };
        group.drop_stale(|entry| listing.is_current(*entry, number));
        if group.n_nodes == 0 {
            self.by_standing.remove(&group.standing);
            group.passes = false;
            self.free.push(number);
        }
    }

    /// The lowest and the highest raw score that passing nodes have by one of the plugins whose scores are scaled; 0 when
    /// there are none.
    pub(super) fn bounds(&self, scaled: usize) -> (i64, i64) {
        let passing = self.groups.iter().filter(|group| group.passes);
        let all = passing.filter_map(|group| group.raw.get(scaled)?.bounds(group.n_nodes));
        all.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or((0, 0))
    }

    /// Works out all totals and makes all heaps. O(nodes).
    pub(super) fn list(&mut self, cluster: &ClusterState, scores: &OwnScores) {
        let entries = |group: &mut Group| {
            let mut entries = std::mem::take(&mut group.heap).into_vec();
            entries.clear();
            entries.reserve(group.n_nodes);
            entries
        };
        let mut heaps: Vec<Vec<Preference>> = self.groups.iter_mut().map(entries).collect();
        self.n_bad = 0;
        for (slot, member) in self.members.iter_mut().enumerate() {
            let Some(heap) = heaps.get_mut(member.group as usize) else { continue };
            let idx = NodeIdx::from_index(slot);
            member.total = scores.total(idx).unwrap_or(BAD);
            self.n_bad += usize::from(member.total == BAD);
            if let Some(rank) = self.order.rank(cluster, idx) {
                heap.push(Preference::new(member.total, rank));
            }
        }
        for (group, heap) in self.groups.iter_mut().zip(heaps) {
            group.heap = heap.into();
        }
        self.is_relisting = false;
    }

    /// Whether a node has a score that is out of bounds.
    pub(super) fn has_bad_total(&self) -> bool {
        self.n_bad > 0
    }

    /// The node that passes with the highest sum; of several the one that is preferred. O(groups), but O(nodes) where ties are
    /// drawn, or fall by name although groups were not made for that, or the other way round.
    pub(super) fn best(&self, cluster: &ClusterState, ties: TieBreak) -> Option<NodeIdx> {
        let passing = self.groups.iter().filter(|group| group.passes);
        let firsts = passing.filter_map(|group| {
            let first = *group.heap.peek()?;
            Some((i64::from(first.total()).wrapping_add(group.score), first))
        });
        let best = firsts.max_by_key(|(sum, first)| (*sum, std::cmp::Reverse(first.rank())))?;
        match (ties, &self.order.by_name) {
            (TieBreak::First, None) | (TieBreak::ByName, Some(_)) => {
                self.order.node(cluster, best.1.rank())
            }
            (TieBreak::ByName, None) => {
                self.first_of_best(cluster, best.0, |node| cluster.node_name(node))
            }
            (TieBreak::First | TieBreak::Drawn(_), _) => {
                self.first_of_best(cluster, best.0, |node| ties.order(cluster.position(node)))
            }
        }
    }

    /// The first node of each group in use that has one, with the group.
    pub(super) fn firsts_mut<'a>(
        &'a mut self,
        cluster: &'a ClusterState,
    ) -> impl Iterator<Item = (NodeIdx, &'a mut Group)> {
        let order = &self.order;
        self.groups.iter_mut().filter_map(move |group| {
            let first = group.heap.peek()?.rank();
            Some((order.node(cluster, first)?, group))
        })
    }

    /// Of the nodes that pass with the sum `best`, which none exceeds, the one with the lowest key. O(nodes).
    fn first_of_best<K: Ord>(
        &self,
        cluster: &ClusterState,
        best: i64,
        key: impl Fn(NodeIdx) -> K,
    ) -> Option<NodeIdx> {
        let listing = Listing { cluster, order: &self.order, members: &self.members };
        let mut first: Option<(K, NodeIdx)> = None;
        for (number, group) in (0..NOWHERE).zip(&self.groups).filter(|(_, group)| group.passes) {
            for entry in &group.heap {
                if i64::from(entry.total()).wrapping_add(group.score) == best
                    && listing.is_current(*entry, number)
                    && let Some(node) = listing.node(*entry)
                {
                    let key = key(node);
                    if first.as_ref().is_none_or(|(known, _)| key < *known) {
                        first = Some((key, node));
                    }
                }
            }
        }
        first.map(|(_, node)| node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn higher_totals_and_lower_ranks_are_preferred() {
        let totals = [i32::MAX, 7, 1, 0, -1, i32::MIN];
        let ordered: Vec<_> = totals
            .iter()
            .flat_map(|total| [0, 5, u32::MAX].map(|rank| Preference::new(*total, rank)))
            .collect();
        assert!(ordered.iter().rev().is_sorted());
        assert!(ordered.iter().all(|it| Preference::new(it.total(), it.rank()) == *it));
    }
}
