//! Which of several equally good nodes is chosen: the first in pre-order of a binary heap over list positions, or one that
//! is drawn.
//!
//! Position `i` has the children `2i + 1` and `2i + 2`. A position comes before everything below it, left before right.
//! This is what popping the reference's heap gives (`docs/spec/core.md` §4.7).

use kube_scheduler_api_types::numbers::Numbers;

/// How one of several equally good nodes is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TieBreak {
    /// The first in pre-order.
    First,
    /// One that follows from this number, each as likely as the others.
    Drawn(u64),
    /// The first by name: for comparisons with recorded decisions. The caller has to pass nodes that are sorted by name.
    ByName,
}

impl TieBreak {
    /// Of equally good nodes, the one whose position has the lowest order is chosen. A node without a position comes last.
    pub(crate) fn order(self, position: Option<usize>) -> u64 {
        let Some(position) = position else { return u64::MAX };
        match self {
            Self::First => pre_order_rank(position).into(),
            Self::Drawn(number) => Numbers::nth(number, position as u64),
            Self::ByName => position as u64,
        }
    }
}

/// The index of the highest of `totals`; of several, the one whose [order](TieBreak::order) is lowest. O(totals).
pub(crate) fn first_best(totals: &[i64], order: impl Fn(usize) -> u64) -> Option<usize> {
    let best = totals.iter().copied().max()?;
    let ties = totals.iter().enumerate().filter(|(_, total)| **total == best).map(|(at, _)| at);
    ties.min_by_key(|at| order(*at))
}

/// Number of bits of a rank that hold the depth of its position in the tree.
const DEPTH_BITS: u32 = 5;

/// A number that grows along pre-order: of two equally good positions the one with the lower number is chosen. Positions
/// from 2²⁶ on may get equal numbers.
pub(crate) fn pre_order_rank(position: usize) -> u32 {
    let one_based = u32::try_from(position + 1).unwrap_or(u32::MAX);
    let depth = one_based.ilog2();
    // The path from the root, left-aligned; a shallower position comes before everything on its leftmost path.
    let path = one_based << (u32::BITS - 1 - depth);
    (path & !((1 << DEPTH_BITS) - 1)) | depth
}

/// The position with this [rank](pre_order_rank), as long as it is below 2²⁶.
pub(crate) fn position_of_rank(rank: u32) -> usize {
    let depth = rank & ((1 << DEPTH_BITS) - 1);
    let path = rank & !((1 << DEPTH_BITS) - 1);
    (path >> (u32::BITS - 1 - depth)).saturating_sub(1) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A total that loses against every node's: positions that must not be chosen.
    const LEFT_OUT: i64 = i64::MIN;

    /// What the reference does: heapify with strict comparisons, then pop.
    fn heap_winner(totals: &[i64]) -> Option<usize> {
        let mut heap: Vec<usize> = (0..totals.len()).collect();
        for start in (0..totals.len() / 2).rev() {
            let mut at = start;
            loop {
                let mut child = 2 * at + 1;
                if child >= heap.len() {
                    break;
                }
                if child + 1 < heap.len() && totals[heap[child + 1]] > totals[heap[child]] {
                    child += 1;
                }
                if totals[heap[child]] <= totals[heap[at]] {
                    break;
                }
                heap.swap(at, child);
                at = child;
            }
        }
        heap.first().copied().filter(|at| totals[*at] != LEFT_OUT)
    }

    /// Whether position `a` comes before position `b` in pre-order: compares the paths from the root.
    fn is_before_in_pre_order(a: usize, b: usize) -> bool {
        let (a, b) = (a + 1, b + 1);
        let (depth_a, depth_b) = (a.ilog2(), b.ilog2());
        let shallow = depth_a.min(depth_b);
        let (path_a, path_b) = (a >> (depth_a - shallow), b >> (depth_b - shallow));
        if path_a == path_b { depth_a < depth_b } else { path_a < path_b }
    }

    #[test]
    fn ranks_grow_along_pre_order() {
        for a in (0..600).chain([70_000, (1 << 26) - 2]) {
            assert_eq!(position_of_rank(pre_order_rank(a)), a);
            for b in 0..600 {
                let is_before = a != b && is_before_in_pre_order(a, b);
                assert_eq!(pre_order_rank(a) < pre_order_rank(b), is_before, "{a} {b}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn agrees_with_a_heap(
            totals in prop::collection::vec(prop_oneof![Just(LEFT_OUT), 0i64..4], 0..60),
        ) {
            // Those left out keep their places in the heap, but are not in the list.
            let listed: Vec<usize> = (0..totals.len()).filter(|at| totals[*at] != LEFT_OUT).collect();
            let of_listed: Vec<i64> = listed.iter().map(|at| totals[*at]).collect();
            let best = first_best(&of_listed, |at| TieBreak::First.order(Some(listed[at])));
            prop_assert_eq!(best.map(|at| listed[at]), heap_winner(&totals));
        }
    }
}
