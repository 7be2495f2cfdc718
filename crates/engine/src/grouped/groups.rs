//! Nodes in groups, each group in the order in which its nodes are chosen.
//!
//! Invariants: a node is in one group at most; a group has a node at least; within a group nodes are sorted by total,
//! highest first, equal ones in the order in which [`ScoreTree`](crate::score_tree::ScoreTree) prefers them; the list of
//! nodes stays what it is for as long as there are groups.

use std::collections::{BTreeMap, BTreeSet};

use kube_scheduler_framework::{ClusterState, NodeIdx, Standing};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::own_scores::RawScores;
use crate::score_tree::{position_of_rank, pre_order_rank};

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

/// Nodes that stand alike.
#[derive(Default)]
pub(super) struct Group {
    standing: Standing,
    /// Totals turned around, with the ranks of nodes, which tell the nodes.
    order: BTreeSet<(i32, u32)>,
    /// By plugin whose scores are scaled: how many nodes have which raw score.
    raw: SmallVec<[BTreeMap<i64, u32>; 3]>,
    pub(super) passes: bool,
    /// What its nodes get beside their totals.
    pub(super) score: i64,
}

impl Group {
    /// The best node, `None` when the group is not in use.
    pub(super) fn first(&self, cluster: &ClusterState) -> Option<NodeIdx> {
        self.order.first().and_then(|(_, rank)| node_of(cluster, *rank))
    }

    pub(super) fn n_nodes(&self) -> usize {
        self.order.len()
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
    by_standing: FxHashMap<Standing, u32>,
    members: Vec<Member>,
    n_bad: usize,
    n_scaled: usize,
}

impl Groups {
    pub(super) fn new(cluster: &ClusterState, n_scaled: usize) -> Self {
        let nobody = Member { group: NOWHERE, total: 0 };
        Self { members: vec![nobody; cluster.capacity()], n_scaled, ..Self::default() }
    }

    /// How many groups have nodes.
    pub(super) fn len(&self) -> usize {
        self.by_standing.len()
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
        standing: Standing,
        place: Place,
    ) {
        let Some(rank) = rank_of(cluster, idx) else { return };
        let Some(member) = self.members.get_mut(idx.index()) else { return };
        let number = match self.by_standing.get(&standing) {
            Some(number) => *number,
            None => {
                let raw = SmallVec::from_elem(BTreeMap::new(), self.n_scaled);
                let group = Group { standing: standing.clone(), raw, ..Group::default() };
                let number = match self.free.pop() {
                    Some(number) => {
                        self.groups[number as usize] = group;
                        number
                    }
                    None => {
                        self.groups.push(group);
                        (self.groups.len() - 1) as u32
                    }
                };
                self.by_standing.insert(standing, number);
                number
            }
        };
        let group = &mut self.groups[number as usize];
        *member = Member { group: number, total: place.total.unwrap_or(BAD) };
        self.n_bad += usize::from(place.total.is_none());
        for (counts, raw) in group.raw.iter_mut().zip(&place.raw) {
            *counts.entry(*raw).or_default() += 1;
        }
        group.order.insert((turned(member.total), rank));
    }

    /// Takes a node out of its group, if it is in one; `raw` is what it entered with.
    pub(super) fn leave(&mut self, cluster: &ClusterState, idx: NodeIdx, raw: &RawScores) {
        let Some(member) = self.members.get_mut(idx.index()) else { return };
        let number = std::mem::replace(&mut member.group, NOWHERE);
        let Some(group) = self.groups.get_mut(number as usize) else { return };
        self.n_bad -= usize::from(member.total == BAD);
        if let Some(rank) = rank_of(cluster, idx) {
            group.order.remove(&(turned(member.total), rank));
        }
        for (counts, raw) in group.raw.iter_mut().zip(raw) {
            if let Some(n) = counts.get_mut(raw) {
                *n -= 1;
                if *n == 0 {
                    counts.remove(raw);
                }
            }
        }
        if group.order.is_empty() {
            self.by_standing.remove(&group.standing);
            *group = Group::default();
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

    /// Works out all totals again. O(nodes log nodes).
    pub(super) fn set_totals(
        &mut self,
        cluster: &ClusterState,
        total_of: impl Fn(NodeIdx) -> Option<i32>,
    ) {
        self.n_bad = 0;
        for group in &mut self.groups {
            let mut order: Vec<(i32, u32)> = Vec::with_capacity(group.order.len());
            for (_, rank) in &group.order {
                let Some(idx) = node_of(cluster, *rank) else { continue };
                let total = total_of(idx);
                self.n_bad += usize::from(total.is_none());
                let total = total.unwrap_or(BAD);
                if let Some(member) = self.members.get_mut(idx.index()) {
                    member.total = total;
                }
                order.push((turned(total), *rank));
            }
            group.order = order.into_iter().collect();
        }
    }

    /// Whether a node has a score that is out of bounds.
    pub(super) fn has_bad_total(&self) -> bool {
        self.n_bad > 0
    }

    /// The node that passes with the highest sum; of several the one that is preferred by position.
    pub(super) fn best(&self, cluster: &ClusterState) -> Option<NodeIdx> {
        let passing = self.groups.iter().filter(|group| group.passes);
        let firsts = passing.filter_map(|group| {
            let (total, rank) = group.order.first()?;
            Some((i64::from(turned(*total)).wrapping_add(group.score), *rank))
        });
        let best = firsts.max_by_key(|(sum, rank)| (*sum, std::cmp::Reverse(*rank)))?;
        node_of(cluster, best.1)
    }
}

/// The place of a node in the order of preference; `None` when it is not in the list.
fn rank_of(cluster: &ClusterState, idx: NodeIdx) -> Option<u32> {
    cluster.position(idx).map(pre_order_rank)
}

fn node_of(cluster: &ClusterState, rank: u32) -> Option<NodeIdx> {
    cluster.order().get(position_of_rank(rank)).copied()
}

/// Turns the order of totals around; twice is as it was.
const fn turned(total: i32) -> i32 {
    !total
}
