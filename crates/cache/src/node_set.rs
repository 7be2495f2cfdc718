//! A set of nodes as a bitset over their indexes.
//!
//! Invariants: `len` is the number of set bits; trailing zero words carry no meaning, so sets of different capacity
//! compare by their members.

use std::fmt;

use crate::fork::Column;
use crate::node_table::NodeIdx;

const BITS: usize = u64::BITS as usize;

/// A set of nodes. Members come out in order of their indexes.
#[derive(Clone, Default)]
pub struct NodeSet {
    words: Vec<u64>,
    len: usize,
}

impl NodeSet {
    /// An empty set.
    pub const fn new() -> Self {
        Self { words: Vec::new(), len: 0 }
    }

    /// An empty set with room for indexes below `capacity`, so that inserting them allocates nothing.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self { words: Vec::with_capacity(capacity.div_ceil(BITS)), len: 0 }
    }

    /// The set whose bits are `words`, lowest index first.
    fn from_words(words: Vec<u64>) -> Self {
        let len = count(&words);
        Self { words, len }
    }

    /// The slots whose value in a column is `wanted`, those without a node among them. O(slots).
    pub(crate) fn of_slots<T: Copy>(column: &Column<T>, wanted: impl Fn(T) -> bool) -> Self {
        let word = |values: &[T]| {
            let bits = values.iter().enumerate().map(|(at, value)| u64::from(wanted(*value)) << at);
            bits.fold(0, |word, bit| word | bit)
        };
        // A chunk of a column holds a whole number of words.
        Self::from_words(column.chunks().flat_map(|chunk| chunk.chunks(BITS)).map(word).collect())
    }

    /// The bits, lowest index first. Words past the end are zero.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Number of members. O(1).
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no members. O(1).
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether `node` is a member.
    #[inline]
    pub fn contains(&self, node: NodeIdx) -> bool {
        let idx = node.index();
        self.words.get(idx / BITS).is_some_and(|word| word >> (idx % BITS) & 1 == 1)
    }

    /// Adds a member. Returns whether it is new.
    pub fn insert(&mut self, node: NodeIdx) -> bool {
        let idx = node.index();
        if self.words.len() <= idx / BITS {
            self.words.resize(idx / BITS + 1, 0);
        }
        let word = &mut self.words[idx / BITS];
        let is_new = *word >> (idx % BITS) & 1 == 0;
        *word |= 1 << (idx % BITS);
        self.len += usize::from(is_new);
        is_new
    }

    /// Removes a member. Returns whether it was one.
    pub fn remove(&mut self, node: NodeIdx) -> bool {
        let was_member = self.contains(node);
        if was_member {
            self.words[node.index() / BITS] &= !(1 << (node.index() % BITS));
            self.len -= 1;
        }
        was_member
    }

    /// Removes the first member. O(slots / 64).
    pub(crate) fn pop_first(&mut self) -> Option<NodeIdx> {
        let first = self.iter().next()?;
        self.remove(first);
        Some(first)
    }

    /// Adds a member, or removes it. Returns whether that changed the set.
    pub(crate) fn set(&mut self, node: NodeIdx, is_member: bool) -> bool {
        if is_member { self.insert(node) } else { self.remove(node) }
    }

    /// Removes all members that are not in `other` (intersection).
    pub fn and(&mut self, other: &Self) {
        self.words.truncate(other.words.len());
        for (word, mask) in self.words.iter_mut().zip(&other.words) {
            *word &= mask;
        }
        self.len = count(&self.words);
    }

    /// Removes all members of `other` (difference).
    pub fn remove_all(&mut self, other: &Self) {
        for (word, mask) in self.words.iter_mut().zip(&other.words) {
            *word &= !mask;
        }
        self.len = count(&self.words);
    }

    /// The members among the 64 slots from `64 * at` on, as bits, the first slot lowest; 0 past the end.
    #[inline]
    pub fn word(&self, at: usize) -> u64 {
        self.words.get(at).copied().unwrap_or(0)
    }

    /// Adds all members of `other` (union).
    pub fn or(&mut self, other: &Self) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            *word |= more;
        }
        self.len = count(&self.words);
    }

    /// All members in order.
    pub fn iter(&self) -> impl Iterator<Item = NodeIdx> {
        self.words.iter().enumerate().flat_map(|(at, &word)| Bits { word, base: at * BITS })
    }

    /// Appends all members to `nodes`, in order of their indexes.
    pub fn list(&self, nodes: &mut Vec<NodeIdx>) {
        for (at, &word) in self.words.iter().enumerate() {
            let base = at * BITS;
            if word == u64::MAX {
                nodes.extend((base..base + BITS).map(NodeIdx::from_index));
            } else {
                nodes.extend(Bits { word, base });
            }
        }
    }
}

fn count(words: &[u64]) -> usize {
    words.iter().map(|word| word.count_ones() as usize).sum()
}

/// The set bits of one word.
struct Bits {
    word: u64,
    base: usize,
}

impl Iterator for Bits {
    type Item = NodeIdx;

    fn next(&mut self) -> Option<NodeIdx> {
        if self.word == 0 {
            return None;
        }
        let bit = self.word.trailing_zeros() as usize;
        self.word &= self.word - 1;
        Some(NodeIdx::from_index(self.base + bit))
    }
}

impl PartialEq for NodeSet {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.words.iter().zip(&other.words).all(|(a, b)| a == b)
    }
}

impl Eq for NodeSet {}

impl FromIterator<NodeIdx> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeIdx>>(nodes: I) -> Self {
        let mut set = Self::new();
        for node in nodes {
            set.insert(node);
        }
        set
    }
}

impl fmt::Debug for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(NodeIdx::index)).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn nodes(indexes: &BTreeSet<usize>) -> NodeSet {
        indexes.iter().map(|idx| NodeIdx::from_index(*idx)).collect()
    }

    fn indexes(set: &NodeSet) -> BTreeSet<usize> {
        set.iter().map(NodeIdx::index).collect()
    }

    proptest! {
        #![proptest_config(crate::tests::cases(128))]

        #[test]
        fn behaves_like_a_sorted_set(
            a in prop::collection::btree_set(0_usize..200, 0..80),
            b in prop::collection::btree_set(0_usize..260, 0..80),
            removed in prop::collection::vec(0_usize..200, 0..20),
            probe in 0_usize..300,
        ) {
            let mut a = a;
            let mut set = nodes(&a);
            for idx in removed {
                prop_assert_eq!(set.remove(NodeIdx::from_index(idx)), a.remove(&idx));
            }
            let (mut rest, mut left) = (set.clone(), a.clone());
            prop_assert_eq!(rest.pop_first().map(NodeIdx::index), left.pop_first());
            prop_assert_eq!(indexes(&rest), left);
            let other = nodes(&b);
            prop_assert_eq!(set.len(), a.len());
            prop_assert!(set.iter().map(NodeIdx::index).eq(a.iter().copied()));
            let mut list = Vec::new();
            set.list(&mut list);
            prop_assert!(set.iter().eq(list));
            prop_assert_eq!(set.contains(NodeIdx::from_index(probe)), a.contains(&probe));
            prop_assert_eq!(&NodeSet::from_words(set.words().to_vec()), &set);
            let is_in_word = set.word(probe / BITS) >> (probe % BITS) & 1 == 1;
            prop_assert_eq!(is_in_word, a.contains(&probe));

            let (mut and, mut or, mut others) = (set.clone(), set.clone(), set.clone());
            and.and(&other);
            or.or(&other);
            others.remove_all(&other);
            for (found, expected) in [(&and, &a & &b), (&or, &a | &b), (&others, &a - &b)] {
                prop_assert_eq!(indexes(found), expected.clone());
                prop_assert_eq!(found.len(), expected.len());
                prop_assert_eq!(found, &nodes(&expected));
            }
            prop_assert_eq!(set == other, a == b);
        }
    }

    #[test]
    fn slots_of_a_column_by_value() {
        for len in [0, 1, 64, 1_024, 1_025, 2_100] {
            let column: Column<usize> = (0..len).map(|at| at % 7).collect();
            let expected: BTreeSet<usize> = (0..len).filter(|at| at % 7 == 3).collect();
            assert_eq!(indexes(&NodeSet::of_slots(&column, |value| value == 3)), expected, "{len}");
        }
    }

    #[test]
    fn a_list_passes_over_full_words_at_once() {
        for n in [0, 1, 63, 64, 65, 128, 130] {
            let set: NodeSet = (0..n).map(NodeIdx::from_index).collect();
            let mut list = Vec::new();
            set.list(&mut list);
            assert!(list.into_iter().map(NodeIdx::index).eq(0..n));
        }
    }
}
