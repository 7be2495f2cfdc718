//! A set of nodes that is small in memory when it is small or sparse: the nodes of one label value, of one image.
//!
//! A cluster of 100,000 nodes can have 100,000 values of one label; a bitset for each would take a gigabyte.
//!
//! Invariant: the representation follows from the history of the set, membership and order never from the
//! representation.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::node_set::NodeSet;
use crate::node_table::NodeIdx;

/// From this many members on, a bitset unless that is larger. With lists alone an attempt takes a tenth longer, with bitsets from the
/// first member on as long (`bench core --workload EveryPodDifferent`), and far more memory where every node has a value of its own.
const FEW: usize = 16;

/// A set of nodes as a sorted list or a bitset, whichever is smaller.
#[derive(Clone)]
pub struct NodeGroup(Members);

#[derive(Clone)]
enum Members {
    /// Sorted.
    Few(SmallVec<[NodeIdx; 2]>),
    /// Behind an `Arc` so that copying a table of groups copies pointers.
    Many(Arc<NodeSet>),
}

impl NodeGroup {
    /// An empty group.
    pub(crate) fn new() -> Self {
        Self(Members::Few(SmallVec::new()))
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        match &self.0 {
            Members::Few(list) => list.len(),
            Members::Many(set) => set.len(),
        }
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether `node` is a member.
    #[inline]
    pub fn contains(&self, node: NodeIdx) -> bool {
        match &self.0 {
            Members::Few(list) => list.binary_search(&node).is_ok(),
            Members::Many(set) => set.contains(node),
        }
    }

    /// All members in order of their indexes.
    pub fn iter(&self) -> impl Iterator<Item = NodeIdx> {
        let (list, set) = match &self.0 {
            Members::Few(list) => (Some(list.iter().copied()), None),
            Members::Many(set) => (None, Some(set.iter())),
        };
        list.into_iter().flatten().chain(set.into_iter().flatten())
    }

    /// The members as a bitset.
    pub(crate) fn to_set(&self) -> NodeSet {
        match &self.0 {
            Members::Few(list) => list.iter().copied().collect(),
            Members::Many(set) => (**set).clone(),
        }
    }

    /// Adds a member. Returns whether it is new. O(1) for big groups, else O(members).
    pub(crate) fn insert(&mut self, node: NodeIdx) -> bool {
        match &mut self.0 {
            Members::Few(list) => {
                let Err(at) = list.binary_search(&node) else { return false };
                list.insert(at, node);
                let highest = list.last().map_or(0, |last| last.index());
                // A list takes 32 bits a member, a bitset one bit a node.
                if list.len() >= FEW && list.len() * 32 > highest {
                    self.0 = Members::Many(Arc::new(list.iter().copied().collect()));
                }
                true
            }
            Members::Many(set) => Arc::make_mut(set).insert(node),
        }
    }

    /// Removes a member. Returns whether it was one.
    pub(crate) fn remove(&mut self, node: NodeIdx) -> bool {
        match &mut self.0 {
            Members::Few(list) => {
                let Ok(at) = list.binary_search(&node) else { return false };
                list.remove(at);
                true
            }
            Members::Many(set) => {
                if !Arc::make_mut(set).remove(node) {
                    return false;
                }
                // A quarter of the density at which it became a bitset, so that it does not flap.
                if set.len() < FEW / 2 || set.len() * 128 < set.words().len() * 64 {
                    self.0 = Members::Few(set.iter().collect());
                }
                true
            }
        }
    }
}

impl PartialEq for NodeGroup {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Eq for NodeGroup {}

impl fmt::Debug for NodeGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(NodeIdx::index)).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(crate::tests::cases(64))]

        #[test]
        fn behaves_like_a_sorted_set(ops in prop::collection::vec((0_u8..5, 0_usize..70, any::<bool>()), 0..400)) {
            let (mut group, mut model) = (NodeGroup::new(), BTreeSet::new());
            for (at, (op, idx, is_far)) in ops.into_iter().enumerate() {
                let idx = if is_far && op == 0 { idx * 50 } else { idx };
                let node = NodeIdx::from_index(idx);
                // Growing in the first half and shrinking in the second visits both forms.
                if (op < 3) == (at < 200) {
                    prop_assert_eq!(group.insert(node), model.insert(idx));
                } else {
                    prop_assert_eq!(group.remove(node), model.remove(&idx));
                }
                prop_assert_eq!(group.len(), model.len());
                prop_assert_eq!(group.contains(node), model.contains(&idx));
            }
            prop_assert!(group.iter().map(NodeIdx::index).eq(model.iter().copied()));
            prop_assert!(group.to_set().iter().map(NodeIdx::index).eq(model.iter().copied()));
        }
    }
}
