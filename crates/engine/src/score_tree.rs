//! The best node, kept up to date: a tree of maxima shaped like a binary heap over list positions.
//!
//! Position `i` has the children `2i + 1` and `2i + 2`; every position also knows the best score below it. Changing
//! one score costs O(log positions), finding the best one as well.
//!
//! Among equal scores the first in pre-order wins: a position before everything below it, left before right. This is what
//! popping the reference's heap gives (`spec/core.md` §4.7).
//!
//! Invariant: `best[i]` is the maximum of `scores` over `i` and everything below it.

/// A score no node can have: marks positions that must not be chosen.
pub(crate) const NO_SCORE: i64 = i64::MIN;

/// Scores by list position, with the best one at hand.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScoreTree {
    scores: Vec<i64>,
    best: Vec<i64>,
}

impl ScoreTree {
    /// A tree over `scores`. O(positions).
    pub(crate) fn new(scores: Vec<i64>) -> Self {
        let mut tree = Self { best: scores.clone(), scores };
        for at in (0..tree.scores.len()).rev() {
            tree.best[at] = tree.best_at(at);
        }
        tree
    }

    fn below(&self, at: usize) -> i64 {
        self.best.get(at).copied().unwrap_or(NO_SCORE)
    }

    fn best_at(&self, at: usize) -> i64 {
        self.scores[at].max(self.below(2 * at + 1)).max(self.below(2 * at + 2))
    }

    /// Changes one score. Out of range is ignored.
    pub(crate) fn set(&mut self, at: usize, score: i64) {
        let Some(place) = self.scores.get_mut(at) else { return };
        if *place == score {
            return;
        }
        *place = score;
        let mut at = at;
        loop {
            let best = self.best_at(at);
            if self.best[at] == best {
                return;
            }
            self.best[at] = best;
            if at == 0 {
                return;
            }
            at = (at - 1) / 2;
        }
    }

    /// The score at a position.
    #[cfg(test)]
    pub(crate) fn get(&self, at: usize) -> i64 {
        self.scores.get(at).copied().unwrap_or(NO_SCORE)
    }

    /// The position of the best score, `None` when no position can be chosen.
    pub(crate) fn first_best(&self) -> Option<usize> {
        let best = *self.best.first()?;
        if best == NO_SCORE {
            return None;
        }
        let mut at = 0;
        while self.scores[at] != best {
            let left = 2 * at + 1;
            at = if self.below(left) == best { left } else { left + 1 };
        }
        Some(at)
    }
}

/// The position that [`ScoreTree::first_best`] would give, without building a tree. O(positions).
pub(crate) fn first_best_of(scores: &[i64]) -> Option<usize> {
    let best = scores.iter().copied().max().filter(|best| *best != NO_SCORE)?;
    let ties = scores.iter().enumerate().filter(|(_, score)| **score == best).map(|(at, _)| at);
    ties.reduce(|a, b| if is_before_in_pre_order(a, b) { a } else { b })
}

/// How many bits of a rank tell how deep in the tree its position is.
const DEPTH_BITS: u32 = 5;

/// A number that grows along pre-order: which of two positions [`ScoreTree::first_best`] prefers. Positions from 2²⁶ on
/// may get equal numbers.
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

/// Whether position `a` comes before position `b` in pre-order.
fn is_before_in_pre_order(a: usize, b: usize) -> bool {
    // One-based positions spell the path from the root in binary, after the leading one.
    let (a, b) = (a + 1, b + 1);
    let (depth_a, depth_b) = (a.ilog2(), b.ilog2());
    let shallow = depth_a.min(depth_b);
    let (path_a, path_b) = (a >> (depth_a - shallow), b >> (depth_b - shallow));
    if path_a == path_b { depth_a < depth_b } else { path_a < path_b }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What the reference does: heapify with strict comparisons, then pop.
    fn heap_winner(scores: &[i64]) -> Option<usize> {
        let mut heap: Vec<usize> = (0..scores.len()).collect();
        for start in (0..scores.len() / 2).rev() {
            let mut at = start;
            loop {
                let mut child = 2 * at + 1;
                if child >= heap.len() {
                    break;
                }
                if child + 1 < heap.len() && scores[heap[child + 1]] > scores[heap[child]] {
                    child += 1;
                }
                if scores[heap[child]] <= scores[heap[at]] {
                    break;
                }
                heap.swap(at, child);
                at = child;
            }
        }
        heap.first().copied().filter(|at| scores[*at] != NO_SCORE)
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
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn agrees_with_a_heap_after_any_changes(
            scores in prop::collection::vec(prop_oneof![Just(NO_SCORE), 0i64..4], 0..40),
            changes in prop::collection::vec((0usize..40, prop_oneof![Just(NO_SCORE), 0i64..4]), 0..40),
        ) {
            let mut plain = scores.clone();
            let mut tree = ScoreTree::new(scores);
            prop_assert_eq!(tree.first_best(), heap_winner(&plain));
            for (at, score) in changes {
                tree.set(at, score);
                if let Some(place) = plain.get_mut(at) {
                    *place = score;
                    prop_assert_eq!(tree.get(at), score);
                }
                prop_assert_eq!(tree.first_best(), heap_winner(&plain));
                prop_assert_eq!(first_best_of(&plain), heap_winner(&plain));
            }
        }
    }
}
