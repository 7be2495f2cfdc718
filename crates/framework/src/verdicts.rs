//! The answer of a filter pass for every node, as codes.
//!
//! A column of small ids over all node slots and one table of distinct statuses. Text exists once per distinct
//! answer; counting reasons costs O(distinct answers).
//!
//! Invariants: id 0 is "passes", id 1 is "absent" (not looked at); `counts[id]` is the number of slots that hold `id`,
//! for ids other than 0; equal statuses have equal ids.

use std::sync::Arc;

use kube_scheduler_api_types::KeyedMap;
use kube_scheduler_cache::NodeIdx;
use kube_scheduler_cache::columns::{COLUMN_CHUNK, Column, NodeSet, PooledVec, VecPool};

use crate::status::Status;

/// A distinct answer within one [`Verdicts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VerdictId(u16);

impl VerdictId {
    /// The node passes every filter so far.
    pub const PASS: Self = Self(0);
    /// The node was not looked at; what that means is the diagnosis' "absent" status.
    pub const ABSENT: Self = Self(1);
}

/// Per node slot: passes, absent, or the status with which it was rejected.
#[derive(Clone, Debug)]
pub struct Verdicts {
    ids: PooledVec<VerdictId>,
    statuses: Vec<Status>,
    counts: Vec<u32>,
    by_status: KeyedMap<Status, VerdictId>,
}

impl Verdicts {
    /// All `n_slots` node slots absent.
    pub fn absent(n_slots: usize) -> Self {
        Self {
            ids: vec![VerdictId::ABSENT; n_slots].into(),
            statuses: vec![Status::SUCCESS, Status::SUCCESS],
            counts: vec![0, u32::try_from(n_slots).unwrap_or(u32::MAX)],
            by_status: KeyedMap::default(),
        }
    }

    /// As [`absent`](Self::absent), in memory that is used again.
    pub fn absent_in(spare: &Arc<VecPool<VerdictId>>, n_slots: usize) -> Self {
        let ids = spare.lend_filled(VerdictId::ABSENT, n_slots);
        let mut verdicts = Self::absent(0);
        verdicts.counts[1] = u32::try_from(n_slots).unwrap_or(u32::MAX);
        Self { ids, ..verdicts }
    }

    /// Number of node slots.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are no slots at all.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Makes room for `n_slots` slots; new ones are absent.
    pub fn grow(&mut self, n_slots: usize) {
        if let Some(more) = n_slots.checked_sub(self.ids.len()) {
            self.ids.resize(n_slots, VerdictId::ABSENT);
            self.counts[1] = self.counts[1].saturating_add(u32::try_from(more).unwrap_or(u32::MAX));
        }
    }

    /// The id for `status`, made when it is new. When 65,534 distinct answers exist already, the last one stands for all that
    /// follow.
    pub(crate) fn intern(&mut self, status: &Status) -> VerdictId {
        if status.is_success() {
            return VerdictId::PASS;
        }
        if let Some(id) = self.by_status.get(status) {
            return *id;
        }
        let Ok(id) = u16::try_from(self.statuses.len()) else { return VerdictId(u16::MAX) };
        let id = VerdictId(id);
        self.statuses.push(status.clone());
        self.counts.push(0);
        self.by_status.insert(status.clone(), id);
        id
    }

    /// Puts `id` on a slot. Out of range is ignored.
    pub fn set(&mut self, node: NodeIdx, id: VerdictId) {
        let Some(slot) = self.ids.get_mut(node.index()) else { return };
        let old = std::mem::replace(slot, id);
        if old != id {
            if old != VerdictId::PASS {
                self.counts[usize::from(old.0)] -= 1;
            }
            if id != VerdictId::PASS {
                self.counts[usize::from(id.0)] += 1;
            }
        }
    }

    /// Rejects a node with `status`, or lets it pass when that is success.
    pub fn put(&mut self, node: NodeIdx, status: &Status) {
        let id = self.intern(status);
        self.set(node, id);
    }

    /// Lets `nodes`, each of them once, pass, as if [`put`](Self::put) said so for each.
    pub fn let_pass(&mut self, nodes: &[NodeIdx]) {
        if nodes.len() == self.ids.len() {
            self.ids.fill(VerdictId::PASS);
            self.counts.fill(0);
            return;
        }
        let mut n_absent = 0;
        let ids = self.ids.as_mut_slice();
        for &idx in nodes {
            let Some(slot) = ids.get_mut(idx.index()) else { continue };
            let old = std::mem::replace(slot, VerdictId::PASS);
            n_absent += u32::from(old == VerdictId::ABSENT);
            if old > VerdictId::ABSENT {
                self.counts[usize::from(old.0)] -= 1;
            }
        }
        self.counts[usize::from(VerdictId::ABSENT.0)] -= n_absent;
    }

    /// Puts `id` on those of `nodes` that pass so far and for which `is_meant` is true. `is_meant` is called for all of them, without
    /// a branch for each: the answers are close to random, and a mispredicted branch takes longer than the call.
    fn set_where(
        &mut self,
        nodes: &[NodeIdx],
        id: VerdictId,
        mut is_meant: impl FnMut(NodeIdx) -> bool,
    ) {
        let mut n_set = 0;
        let ids = self.ids.as_mut_slice();
        for &idx in nodes {
            let Some(slot) = ids.get_mut(idx.index()) else { continue };
            let is_set = (*slot == VerdictId::PASS) & is_meant(idx);
            *slot = if is_set { id } else { *slot };
            n_set += u32::from(is_set);
        }
        self.add_to_count(id, n_set);
    }

    /// Puts `id` on those of `nodes` that pass so far and are in `members`.
    pub(crate) fn set_members(&mut self, nodes: &[NodeIdx], id: VerdictId, members: &NodeSet) {
        const BITS: usize = u64::BITS as usize;

        if nodes.len() != self.ids.len() {
            return self.set_where(nodes, id, |idx| members.contains(idx));
        }
        // Every slot, each of them once: a bit for each of them.
        let mut n_set = 0;
        for (at, slots) in self.ids.chunks_mut(BITS).enumerate() {
            let word = members.word(at);
            if word == 0 {
                continue;
            }
            for (place, slot) in slots.iter_mut().enumerate() {
                let is_set = (*slot == VerdictId::PASS) & (word >> place & 1 == 1);
                *slot = if is_set { id } else { *slot };
                n_set += u32::from(is_set);
            }
        }
        self.add_to_count(id, n_set);
    }

    /// Puts `id` on those of `nodes` that pass so far and for which `is_meant` is true, given the value of the node's slot in `column`.
    pub(crate) fn set_by_value<T: Copy>(
        &mut self,
        nodes: &[NodeIdx],
        id: VerdictId,
        column: &Column<T>,
        mut is_meant: impl FnMut(NodeIdx, T) -> bool,
    ) {
        if nodes.len() != self.ids.len() {
            return self.set_where(nodes, id, |idx| is_meant(idx, column.get(idx)));
        }
        // Every slot, each of them once: none has to be looked up.
        let mut n_set = 0;
        let runs = self.ids.chunks_mut(COLUMN_CHUNK).zip(column.chunks()).enumerate();
        for (at, (slots, values)) in runs {
            for (place, (slot, value)) in slots.iter_mut().zip(values).enumerate() {
                let idx = NodeIdx::from_index(at * COLUMN_CHUNK + place);
                let is_set = (*slot == VerdictId::PASS) & is_meant(idx, *value);
                *slot = if is_set { id } else { *slot };
                n_set += u32::from(is_set);
            }
        }
        self.add_to_count(id, n_set);
    }

    fn add_to_count(&mut self, id: VerdictId, n: u32) {
        if id != VerdictId::PASS {
            self.counts[usize::from(id.0)] += n;
        }
    }

    /// Replaces `nodes` by those that pass, in the order of their slots.
    pub fn passing(&self, nodes: &mut Vec<NodeIdx>) {
        nodes.resize(self.n_passing() + 1, NodeIdx::from_index(0));
        let places = nodes.as_mut_slice();
        let mut n = 0;
        for (at, id) in self.ids.iter().enumerate() {
            // A node that does not pass is overwritten by the next one: this avoids a branch that is hard to predict.
            places[n] = NodeIdx::from_index(at);
            n += usize::from(*id == VerdictId::PASS);
        }
        nodes.truncate(n);
    }

    /// How many nodes all filters have accepted.
    pub fn n_passing(&self) -> usize {
        let n_others: usize = self.counts.iter().map(|n| *n as usize).sum();
        self.ids.len() - n_others
    }

    /// What a slot holds; absent when out of range.
    pub fn id(&self, node: NodeIdx) -> VerdictId {
        self.ids.get(node.index()).copied().unwrap_or(VerdictId::ABSENT)
    }

    /// Whether all filters have accepted the node.
    pub fn passes(&self, node: NodeIdx) -> bool {
        self.id(node) == VerdictId::PASS
    }

    /// The status behind an id; success for "passes" and "absent".
    pub fn status(&self, id: VerdictId) -> &Status {
        self.statuses.get(usize::from(id.0)).unwrap_or(&self.statuses[0])
    }

    /// The explicit status of a node: `None` when it passes or is absent.
    pub fn rejection(&self, node: NodeIdx) -> Option<&Status> {
        let id = self.id(node);
        (id > VerdictId::ABSENT).then(|| self.status(id))
    }

    /// Each distinct rejection with the number of nodes that hold it, in order of first appearance.
    pub fn rejections(&self) -> impl Iterator<Item = (&Status, u32)> {
        self.statuses
            .iter()
            .zip(&self.counts)
            .skip(2)
            .filter(|(_, n)| **n > 0)
            .map(|(status, n)| (status, *n))
    }

    /// Those of `nodes` whose answer is `wanted`. Asks of each distinct answer once; of "passes" and "absent", which have no
    /// status, with `None`.
    pub fn select(
        &self,
        nodes: &[NodeIdx],
        wanted: impl Fn(Option<&Status>) -> bool,
    ) -> Vec<NodeIdx> {
        let n_silent = usize::from(VerdictId::ABSENT.0) + 1;
        let statuses = self.statuses.iter().enumerate();
        let wanted: Vec<bool> =
            statuses.map(|(id, status)| wanted((id >= n_silent).then_some(status))).collect();
        let is_wanted = |node: &NodeIdx| wanted[usize::from(self.id(*node).0)];
        nodes.iter().copied().filter(is_wanted).collect()
    }

    /// Number of nodes with an explicit rejection.
    pub fn n_rejected(&self) -> usize {
        self.counts.iter().skip(2).map(|n| *n as usize).sum()
    }

    /// The verdicts of all slots, by slot.
    pub fn ids(&self) -> &[VerdictId] {
        &self.ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_follow_every_change() {
        let mut verdicts = Verdicts::absent(3);
        let (a, b, c) = (NodeIdx::from_index(0), NodeIdx::from_index(1), NodeIdx::from_index(2));
        verdicts.put(a, &Status::unschedulable("x"));
        verdicts.put(b, &Status::unschedulable("x"));
        verdicts.put(c, &Status::SUCCESS);
        assert_eq!(verdicts.n_rejected(), 2);
        verdicts.put(b, &Status::unresolvable("y"));
        let seen: Vec<_> = verdicts.rejections().map(|(s, n)| (s.message(), n)).collect();
        assert_eq!(seen, [("x".to_owned(), 1), ("y".to_owned(), 1)]);
        verdicts.put(a, &Status::SUCCESS);
        assert!(verdicts.passes(a));
        assert_eq!(verdicts.n_rejected(), 1);
        verdicts.grow(5);
        assert_eq!(verdicts.id(NodeIdx::from_index(4)), VerdictId::ABSENT);
    }

    /// All nodes in the order of their slots take a way of their own.
    #[test]
    fn answers_by_value_or_from_a_set_are_those_of_single_nodes() {
        let n = COLUMN_CHUNK + 10;
        let column: Column<u8> = (0..n).map(|at| (at % 7) as u8).collect();
        let all: Vec<NodeIdx> = (0..n).map(NodeIdx::from_index).collect();
        let status = Status::unschedulable("odd");
        let is_meant = |idx: NodeIdx, value: u8| value % 2 == 1 && !idx.index().is_multiple_of(5);
        let members = all.iter().copied().filter(|idx| is_meant(*idx, column.get(*idx)));
        let members: NodeSet = members.collect();
        for nodes in [&all[..], &all[3..], &all[1020..1030]] {
            let answers = |set: &dyn Fn(&mut Verdicts, VerdictId)| {
                let mut verdicts = Verdicts::absent(n);
                verdicts.let_pass(nodes);
                verdicts.put(nodes[1], &Status::unschedulable("rejected before"));
                let id = verdicts.intern(&status);
                set(&mut verdicts, id);
                (verdicts.ids().to_vec(), verdicts.n_rejected(), verdicts.n_passing())
            };
            let singly = answers(&|verdicts, id| {
                verdicts.set_where(nodes, id, |idx| is_meant(idx, column.get(idx)));
            });
            let by_value =
                answers(&|verdicts, id| verdicts.set_by_value(nodes, id, &column, is_meant));
            assert_eq!(by_value, singly);
            assert_eq!(answers(&|verdicts, id| verdicts.set_members(nodes, id, &members)), singly);
            let few: NodeSet = [NodeIdx::from_index(70)].into_iter().collect();
            let singly = answers(&|verdicts, id| {
                verdicts.set_where(nodes, id, |idx| few.contains(idx));
            });
            assert_eq!(answers(&|verdicts, id| verdicts.set_members(nodes, id, &few)), singly);
        }
    }

    #[test]
    fn nodes_that_pass_are_listed_by_slot() {
        let nodes: Vec<NodeIdx> = (0..7).map(NodeIdx::from_index).collect();
        let mut verdicts = Verdicts::absent(7);
        verdicts.let_pass(&nodes[..6]);
        for at in [0, 1, 3, 4] {
            verdicts.put(nodes[at], &Status::unschedulable("x"));
        }
        let mut passing = vec![nodes[0]];
        verdicts.passing(&mut passing);
        assert_eq!(passing, [nodes[2], nodes[5]]);
        assert_eq!((verdicts.n_passing(), verdicts.n_rejected()), (2, 4));
        assert_eq!(verdicts.id(nodes[6]), VerdictId::ABSENT);
        verdicts.let_pass(&nodes);
        assert_eq!((verdicts.n_passing(), verdicts.n_rejected()), (7, 0));
    }
}
