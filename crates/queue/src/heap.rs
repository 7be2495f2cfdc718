//! A binary heap that can remove and re-key any member.
//!
//! Members are slots. The order is: smaller key first; among equal keys what the caller's tie order says; then the
//! one that was inserted first. So the order is total, and what leaves when does not depend on the heap's history.
//!
//! Invariants: `positions[slot]` is the index of the member of that slot, for members only; no member precedes its parent.
//!
//! Every operation but `peek` and `contains` is O(log n), without allocation once the vectors have grown.

use std::cmp::Ordering;

/// A dense number of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot(pub(crate) u32);

impl Slot {
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

const ABSENT: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Member<K> {
    key: K,
    seq: u64,
    slot: Slot,
}

/// The heap; see the module. `tie` orders two members of equal key, and must give the same order in all calls.
#[derive(Clone, Debug)]
pub(crate) struct Heap<K> {
    members: Vec<Member<K>>,
    positions: Vec<u32>,
}

impl<K> Default for Heap<K> {
    fn default() -> Self {
        Self { members: Vec::new(), positions: Vec::new() }
    }
}

impl<K: Ord + Copy> Heap<K> {
    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The member that leaves first, with its key.
    pub(crate) fn peek(&self) -> Option<(K, Slot)> {
        self.members.first().map(|member| (member.key, member.slot))
    }

    /// The members, in no useful order.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.members.iter().map(|member| member.slot)
    }

    pub(crate) fn contains(&self, slot: Slot) -> bool {
        self.position(slot).is_some()
    }

    #[cfg(test)]
    fn key(&self, slot: Slot) -> Option<K> {
        Some(self.members.get(self.position(slot)?)?.key)
    }

    /// Adds a member; re-keys it if it is one already.
    pub(crate) fn push(
        &mut self,
        slot: Slot,
        key: K,
        seq: u64,
        tie: impl Fn(K, Slot, Slot) -> Ordering,
    ) {
        if self.contains(slot) {
            self.rekey(slot, key, tie);
            return;
        }
        if self.positions.len() <= slot.index() {
            self.positions.resize(slot.index() + 1, ABSENT);
        }
        let at = self.members.len();
        self.members.push(Member { key, seq, slot });
        self.set_position(slot, at);
        self.sift_up(at, &tie);
    }

    /// Gives a member another key, or has its place re-examined when what `tie` sees of it changed.
    pub(crate) fn rekey(&mut self, slot: Slot, key: K, tie: impl Fn(K, Slot, Slot) -> Ordering) {
        let Some(at) = self.position(slot) else { return };
        if let Some(member) = self.members.get_mut(at) {
            member.key = key;
        }
        self.settle(at, &tie);
    }

    pub(crate) fn pop(&mut self, tie: impl Fn(K, Slot, Slot) -> Ordering) -> Option<Slot> {
        let slot = self.members.first()?.slot;
        self.take(0, &tie);
        Some(slot)
    }

    /// Removes a member; false if it is none.
    pub(crate) fn remove(&mut self, slot: Slot, tie: impl Fn(K, Slot, Slot) -> Ordering) -> bool {
        let Some(at) = self.position(slot) else { return false };
        self.take(at, &tie);
        true
    }

    fn position(&self, slot: Slot) -> Option<usize> {
        self.positions.get(slot.index()).filter(|&&at| at != ABSENT).map(|&at| at as usize)
    }

    fn set_position(&mut self, slot: Slot, at: usize) {
        if let Some(position) = self.positions.get_mut(slot.index()) {
            *position = u32::try_from(at).unwrap_or(ABSENT);
        }
    }

    fn take(&mut self, at: usize, tie: &impl Fn(K, Slot, Slot) -> Ordering) {
        let removed = self.members.swap_remove(at);
        if let Some(position) = self.positions.get_mut(removed.slot.index()) {
            *position = ABSENT;
        }
        if at < self.members.len() {
            self.settle(at, tie);
        }
    }

    /// Moves the member at `at` to where it belongs, up or down.
    fn settle(&mut self, at: usize, tie: &impl Fn(K, Slot, Slot) -> Ordering) {
        if self.sift_up(at, tie) == at {
            let bottom = self.sink(at, tie);
            self.sift_up(bottom, tie);
        }
    }

    /// The member moves as a hole: those it passes are written once, it is written at the end.
    fn sift_up(&mut self, mut at: usize, tie: &impl Fn(K, Slot, Slot) -> Ordering) -> usize {
        let moving = self.members[at];
        while at > 0 {
            let parent = (at - 1) / 2;
            if !precedes(&moving, &self.members[parent], tie) {
                break;
            }
            self.put(at, self.members[parent]);
            at = parent;
        }
        self.put(at, moving);
        at
    }

    /// Moves the member at `at` all the way down, near where it mostly belongs, as it came from there. That saves
    /// comparing it on every level. Returns where it is now.
    fn sink(&mut self, mut at: usize, tie: &impl Fn(K, Slot, Slot) -> Ordering) -> usize {
        let moving = self.members[at];
        loop {
            let mut child = 2 * at + 1;
            if child >= self.members.len() {
                break;
            }
            if child + 1 < self.members.len()
                && precedes(&self.members[child + 1], &self.members[child], tie)
            {
                child += 1;
            }
            self.put(at, self.members[child]);
            at = child;
        }
        self.put(at, moving);
        at
    }

    fn put(&mut self, at: usize, member: Member<K>) {
        self.members[at] = member;
        self.set_position(member.slot, at);
    }
}

fn precedes<K: Ord + Copy>(
    a: &Member<K>,
    b: &Member<K>,
    tie: &impl Fn(K, Slot, Slot) -> Ordering,
) -> bool {
    a.key.cmp(&b.key).then_with(|| tie(a.key, a.slot, b.slot)).then(a.seq.cmp(&b.seq)).is_lt()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Op {
        Push(u32, i8, i8),
        Rekey(u32, i8),
        Retie(u32, i8),
        Remove(u32),
        Pop,
    }

    fn op() -> impl Strategy<Value = Op> {
        let slot = 0u32..24;
        prop_oneof![
            4 => (slot.clone(), -3i8..3, 0i8..3).prop_map(|(s, k, t)| Op::Push(s, k, t)),
            2 => (slot.clone(), -3i8..3).prop_map(|(s, k)| Op::Rekey(s, k)),
            1 => (slot.clone(), 0i8..3).prop_map(|(s, t)| Op::Retie(s, t)),
            1 => slot.prop_map(Op::Remove),
            2 => Just(Op::Pop),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, rng_seed: proptest::test_runner::RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn agrees_with_a_sorted_vector(ops in prop::collection::vec(op(), 0..120)) {
            let mut heap = Heap::default();
            let mut naive: Vec<(i8, i8, u64, u32)> = Vec::new();
            let mut ties = [0i8; 24];
            for (seq, op) in (0u64..).zip(ops) {
                let before = ties;
                if let Op::Push(s, _, t) | Op::Retie(s, t) = op {
                    ties[s as usize] = t;
                }
                let now = ties;
                let tie = move |_: i8, a: Slot, b: Slot| now[a.index()].cmp(&now[b.index()]);
                match op {
                    Op::Push(s, k, t) => {
                        heap.push(Slot(s), k, seq, tie);
                        match naive.iter_mut().find(|m| m.3 == s) {
                            Some(m) => (m.0, m.1) = (k, t),
                            None => naive.push((k, t, seq, s)),
                        }
                    }
                    Op::Rekey(s, k) => {
                        heap.rekey(Slot(s), k, tie);
                        naive.iter_mut().filter(|m| m.3 == s).for_each(|m| m.0 = k);
                    }
                    Op::Retie(s, t) => {
                        if let Some(key) = heap.key(Slot(s)) {
                            heap.rekey(Slot(s), key, tie);
                        } else {
                            ties = before;
                        }
                        naive.iter_mut().filter(|m| m.3 == s).for_each(|m| m.1 = t);
                    }
                    Op::Remove(s) => {
                        let was_member = naive.iter().any(|m| m.3 == s);
                        prop_assert_eq!(heap.remove(Slot(s), tie), was_member);
                        naive.retain(|m| m.3 != s);
                    }
                    Op::Pop => {
                        let first = naive.iter().min().copied();
                        prop_assert_eq!(heap.pop(tie), first.map(|m| Slot(m.3)));
                        naive.retain(|m| Some(*m) != first);
                    }
                }
                prop_assert_eq!(heap.peek(), naive.iter().min().map(|m| (m.0, Slot(m.3))));
                prop_assert_eq!(heap.len(), naive.len());
                for s in 0..24 {
                    prop_assert_eq!(heap.key(Slot(s)), naive.iter().find(|m| m.3 == s).map(|m| m.0));
                }
            }
            let tie = |_: i8, a: Slot, b: Slot| ties[a.index()].cmp(&ties[b.index()]);
            naive.sort_unstable();
            for m in naive {
                prop_assert_eq!(heap.pop(tie), Some(Slot(m.3)));
            }
            prop_assert!(heap.is_empty());
        }
    }
}
