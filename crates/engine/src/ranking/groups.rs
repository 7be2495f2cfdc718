//! Nodes in groups, each group in the order in which its nodes are chosen.
//!
//! Invariants: a node is in one group at most; a group in use has a node at least; within a group nodes are sorted by
//! total, highest first, equal ones by their [rank](pre_order_rank). When the list of nodes changed, the orders are
//! dropped ([`Groups::begin_relisting`]) and made again ([`Groups::list`]); in between, it is only known which node is in
//! which group.

use std::collections::{BTreeMap, BTreeSet};

use kube_scheduler_cache::ClusterState;
use kube_scheduler_framework::{GroupKey, NodeIdx};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::own_scores::RawScores;
use crate::preference::{position_of_rank, pre_order_rank};

/// A total no node can have: it is out of bounds.
const BAD: i32 = i32::MIN;
const NOWHERE: u32 = u32::MAX;

/// What puts a node in its place within its group.
pub(super) struct Place {
    /// `None` when a score is out of bounds.
    pub(super) total: Option<i32>,
    /// Its raw scores by the plugins whose scores are scaled.
    pub(super) raw: RawScores,
}

/// The place of a node in the order of its group: a higher total comes first, then a lower rank. The rank identifies the
/// node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Preference(u64);

impl Preference {
    fn new(total: i32, rank: u32) -> Self {
        let reversed = (!total).cast_unsigned() ^ (1 << 31);
        Self(u64::from(reversed) << 32 | u64::from(rank))
    }

    fn total(self) -> i32 {
        !((self.0 >> 32) as u32 ^ (1 << 31)).cast_signed()
    }

    fn rank(self) -> u32 {
        self.0 as u32
    }

    fn node(self, cluster: &ClusterState) -> Option<NodeIdx> {
        cluster.order().get(position_of_rank(self.rank())).copied()
    }
}

/// Nodes with equal standings.
pub(super) struct Group {
    standing: GroupKey,
    n_nodes: usize,
    /// Empty while the orders are dropped.
    order: BTreeSet<Preference>,
    /// By plugin whose scores are scaled: how many nodes have which raw score.
    raw: SmallVec<[BTreeMap<i64, u32>; 3]>,
    pub(super) passes: bool,
    /// What its nodes get beside their totals.
    pub(super) score: i64,
}

impl Group {
    /// The best node, `None` when the group is not in use.
    pub(super) fn first(&self, cluster: &ClusterState) -> Option<NodeIdx> {
        self.order.first()?.node(cluster)
    }

    pub(super) fn n_nodes(&self) -> usize {
        self.n_nodes
    }
}

/// Where a node is. There is one for each node and template: eight bytes.
#[derive(Clone, Copy)]
struct Member {
    group: u32,
    total: i32,
}

/// All groups.
#[derive(Default)]
pub(super) struct Groups {
    groups: Vec<Group>,
    free: Vec<u32>,
    by_standing: FxHashMap<GroupKey, u32>,
    members: Vec<Member>,
    n_bad: usize,
    n_scaled: usize,
    /// The state of the node list that ranks belong to.
    membership: u64,
    is_relisting: bool,
}

impl Groups {
    /// No groups; the scores of `n_scaled` plugins are scaled.
    pub(super) fn new(n_scaled: usize) -> Self {
        Self { n_scaled, ..Self::default() }
    }

    /// How many groups have nodes.
    pub(super) fn len(&self) -> usize {
        self.by_standing.len()
    }

    /// Whether the list of nodes is the one that the orders were made for.
    pub(super) fn has_order_of(&self, cluster: &ClusterState) -> bool {
        self.membership == cluster.membership_sequence()
    }

    /// Drops the orders until all are made again: for a new list of nodes, or many nodes that enter at once.
    pub(super) fn begin_relisting(&mut self, cluster: &ClusterState) {
        self.is_relisting = true;
        self.membership = cluster.membership_sequence();
        self.members.resize(cluster.capacity(), Member { group: NOWHERE, total: 0 });
        self.groups.iter_mut().for_each(|group| group.order.clear());
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

    /// Adds a node that is in no group. Nodes that are not in the list are ignored.
    pub(super) fn enter(
        &mut self,
        cluster: &ClusterState,
        idx: NodeIdx,
        standing: GroupKey,
        place: Place,
    ) {
        let Some(rank) = rank_of(cluster, idx) else { return };
        if idx.index() >= self.members.len() {
            return;
        }
        let number = self.number_of(standing);
        let group = &mut self.groups[number as usize];
        let total = place.total.unwrap_or(BAD);
        self.members[idx.index()] = Member { group: number, total };
        self.n_bad += usize::from(total == BAD);
        group.n_nodes += 1;
        for (counts, raw) in group.raw.iter_mut().zip(&place.raw) {
            *counts.entry(*raw).or_default() += 1;
        }
        if !self.is_relisting {
            group.order.insert(Preference::new(total, rank));
        }
    }

    /// The group of nodes that stand like this, which need not have any yet.
    fn number_of(&mut self, standing: GroupKey) -> u32 {
        if let Some(number) = self.by_standing.get(&standing) {
            return *number;
        }
        let group = Group {
            standing: standing.clone(),
            n_nodes: 0,
            order: BTreeSet::new(),
            raw: SmallVec::from_elem(BTreeMap::new(), self.n_scaled),
            passes: true,
            score: 0,
        };
        let number = self.free.pop().unwrap_or(self.groups.len() as u32);
        match self.groups.get_mut(number as usize) {
            Some(place) => *place = group,
            None => self.groups.push(group),
        }
        self.by_standing.insert(standing, number);
        number
    }

    /// Takes a node out of its group, if it is in one; `raw` is what it entered with.
    pub(super) fn leave(&mut self, cluster: &ClusterState, idx: NodeIdx, raw: &RawScores) {
        let Some(member) = self.members.get_mut(idx.index()) else { return };
        let number = std::mem::replace(&mut member.group, NOWHERE);
        let Some(group) = self.groups.get_mut(number as usize) else { return };
        self.n_bad -= usize::from(member.total == BAD);
        group.n_nodes -= 1;
        if let Some(rank) = rank_of(cluster, idx) {
            group.order.remove(&Preference::new(member.total, rank));
        }
        for (counts, raw) in group.raw.iter_mut().zip(raw) {
            if let Some(n) = counts.get_mut(raw) {
                *n -= 1;
                if *n == 0 {
                    counts.remove(raw);
                }
            }
        }
        if group.n_nodes == 0 {
            self.by_standing.remove(&group.standing);
            group.passes = false;
            self.free.push(number);
        }
    }

    /// The lowest and the highest raw score that passing nodes have by one of the plugins whose scores are scaled; 0 when
    /// there are none.
    pub(super) fn bounds(&self, scaled: usize) -> (i64, i64) {
        let counts = || self.groups.iter().filter(|g| g.passes).filter_map(|g| g.raw.get(scaled));
        let lowest = counts().filter_map(|counts| counts.first_key_value()).map(|(raw, _)| *raw);
        let highest = counts().filter_map(|counts| counts.last_key_value()).map(|(raw, _)| *raw);
        (lowest.min().unwrap_or(0), highest.max().unwrap_or(0))
    }

    /// Works out all totals and orders again. O(nodes log nodes).
    pub(super) fn list(
        &mut self,
        cluster: &ClusterState,
        total_of: impl Fn(NodeIdx) -> Option<i32>,
    ) {
        let mut orders: Vec<Vec<Preference>> =
            self.groups.iter().map(|group| Vec::with_capacity(group.n_nodes)).collect();
        self.n_bad = 0;
        for (slot, member) in self.members.iter_mut().enumerate() {
            let Some(order) = orders.get_mut(member.group as usize) else { continue };
            let idx = NodeIdx::from_index(slot);
            let Some(rank) = rank_of(cluster, idx) else { continue };
            member.total = total_of(idx).unwrap_or(BAD);
            self.n_bad += usize::from(member.total == BAD);
            order.push(Preference::new(member.total, rank));
        }
        for (group, mut order) in self.groups.iter_mut().zip(orders) {
            order.sort_unstable();
            group.order = order.into_iter().collect();
        }
        self.is_relisting = false;
    }

    /// Whether a node has a score that is out of bounds.
    pub(super) fn has_bad_total(&self) -> bool {
        self.n_bad > 0
    }

    /// The node that passes with the highest sum; of several the one that is preferred by position.
    pub(super) fn best(&self, cluster: &ClusterState) -> Option<NodeIdx> {
        let passing = self.groups.iter().filter(|group| group.passes);
        let firsts = passing.filter_map(|group| {
            let first = *group.order.first()?;
            Some((i64::from(first.total()).wrapping_add(group.score), first))
        });
        let best = firsts.max_by_key(|(sum, first)| (*sum, std::cmp::Reverse(first.rank())))?;
        best.1.node(cluster)
    }
}

/// The place of a node in the order of preference; `None` when it is not in the list.
fn rank_of(cluster: &ClusterState, idx: NodeIdx) -> Option<u32> {
    cluster.position(idx).map(pre_order_rank)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn higher_totals_and_lower_ranks_come_first() {
        let totals = [i32::MAX, 7, 1, 0, -1, i32::MIN];
        let ordered: Vec<_> = totals
            .iter()
            .flat_map(|total| [0, 5, u32::MAX].map(|rank| Preference::new(*total, rank)))
            .collect();
        assert!(ordered.is_sorted());
        assert!(ordered.iter().all(|it| Preference::new(it.total(), it.rank()) == *it));
    }
}
