//! Scans over exactly two resources, the common case, which are worth loops of their own.
//!
//! Invariant: the amounts are those of [`ScanPlan::at`](super::scored::ScanPlan::at), and the scores those of
//! [`Strategy::LeastAllocated`](super::strategy::Strategy).

use kube_scheduler_framework::NodeIdx;
use kube_scheduler_framework::columns::{COLUMN_CHUNK, Column, runs_by_chunk};

use super::scored::Amounts;
use super::strategy::{Strategy, free_percent};

/// Two resources with their columns.
#[derive(Debug)]
pub(crate) struct Pair<'a>([Columns<'a>; 2]);

/// One resource: what the pod asks for, what it counts, what nodes have and what is used of it.
#[derive(Debug)]
pub(crate) struct Columns<'a> {
    pub(crate) request: i64,
    pub(crate) weight: i64,
    pub(crate) capacity: &'a Column<i64>,
    pub(crate) used: &'a Column<i64>,
}

/// The part of a resource that is in one chunk.
struct Chunk<'a> {
    request: i64,
    weight: i64,
    capacity: &'a [i64; COLUMN_CHUNK],
    used: &'a [i64; COLUMN_CHUNK],
}

impl Chunk<'_> {
    #[inline]
    fn at(&self, node: NodeIdx) -> Option<Amounts> {
        let Self { request, weight, .. } = *self;
        let at = node.index() % COLUMN_CHUNK;
        let (allocatable, before) = (self.capacity[at], self.used[at]);
        let after = before.wrapping_add(request);
        (allocatable != 0).then_some(Amounts { allocatable, before, after, weight })
    }
}

impl<'a> Pair<'a> {
    pub(super) fn new(a: Columns<'a>, b: Columns<'a>) -> Self {
        Self([a, b])
    }

    /// Scores each of `nodes` by the amounts there; `None` for a resource that a node does not have.
    pub(crate) fn score(
        &self,
        nodes: &[NodeIdx],
        scores: &mut [i64],
        score: impl Fn([Option<Amounts>; 2]) -> i64,
    ) {
        let mut places = scores.iter_mut();
        for (at, run) in runs_by_chunk(nodes) {
            let chunk = |columns: &Columns<'a>| {
                let Columns { request, weight, .. } = *columns;
                let (capacity, used) = (columns.capacity.chunk(at)?, columns.used.chunk(at)?);
                Some(Chunk { request, weight, capacity, used })
            };
            // Columns have a chunk for every slot.
            let (Some(a), Some(b)) = (chunk(&self.0[0]), chunk(&self.0[1])) else { return };
            for (&idx, place) in run.iter().zip(&mut places) {
                *place = score([a.at(idx), b.at(idx)]);
            }
        }
    }

    /// What [`Strategy::LeastAllocated`] gives to each of `nodes`.
    pub(crate) fn score_least_allocated(&self, nodes: &[NodeIdx], scores: &mut [i64]) {
        let weights = self.0[0].weight + self.0[1].weight;
        let sum = |a: &Amounts, b: &Amounts| {
            let sum = free_percent(a).wrapping_mul(a.weight);
            sum.wrapping_add(free_percent(b).wrapping_mul(b.weight))
        };
        let rare = |amounts: [Option<Amounts>; 2]| {
            Strategy::LeastAllocated.score(amounts.into_iter().flatten())
        };
        // Two resources of weight 1 are the default, and a shift takes a fraction of the time of a division.
        if weights == 2 {
            self.score(nodes, scores, |amounts| match amounts {
                [Some(a), Some(b)] if sum(&a, &b) >= 0 => sum(&a, &b) >> 1,
                amounts => rare(amounts),
            });
        } else {
            self.score(nodes, scores, |amounts| match amounts {
                [Some(a), Some(b)] => quotient(sum(&a, &b), weights),
                amounts => rare(amounts),
            });
        }
    }
}

/// Truncated division; the short form takes a fraction of the time.
#[inline]
fn quotient(sum: i64, weights: i64) -> i64 {
    match (u32::try_from(sum), u32::try_from(weights)) {
        (Ok(sum), Ok(weights)) if weights > 0 => i64::from(sum / weights),
        _ if weights == 0 => 0,
        _ => sum.wrapping_div(weights),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, any, prop_assert_eq, prop_oneof, proptest};
    use proptest::strategy::Strategy as AnyStrategy;

    use super::*;
    use crate::resources::strategy::Strategy;

    fn amount() -> impl AnyStrategy<Value = i64> {
        prop_oneof![0_i64..300, 0_i64..1 << 46, any::<i64>()]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn short_forms_give_what_the_long_ones_give(
            allocatable in amount().prop_filter("resource exists", |n| *n != 0),
            before in amount(),
            request in amount(),
            weight in 1_i64..200,
        ) {
            let after = before.wrapping_add(request);
            let amounts = Amounts { allocatable, before, after, weight };
            let long = Strategy::LeastAllocated.score(std::iter::once(amounts));
            let short = quotient(free_percent(&amounts).wrapping_mul(weight), weight);
            prop_assert_eq!(short, long);
        }
    }
}
