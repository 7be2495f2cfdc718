//! What the raw scores of one plugin are scaled by, the weighted scores that come of it, and the check that scores are from 0 to 100.
//!
//! Behaviour: `docs/spec/plugins-node.md` §2.10, `docs/spec/plugins-topology.md` §5.6.

use kube_scheduler_framework::{MAX_NODE_SCORE, Normalization, PluginName, Status};
use smallvec::SmallVec;

/// Checks a normalised score of the plugin `name`.
///
/// # Errors
/// If it is outside of 0..=100.
pub fn check_score(name: &PluginName, score: i64) -> Result<(), Status> {
    if is_within_bounds(score) {
        return Ok(());
    }
    Err(Status::error(format!(
        "applying score defaultWeights on Score plugins: plugin \"{name}\" returns an invalid score {score}, \
         it should in the range of [0, {MAX_NODE_SCORE}] after normalizing"
    )))
}

/// Whether a normalised score is one of 0..=100.
#[inline]
pub fn is_within_bounds(score: i64) -> bool {
    (0..=MAX_NODE_SCORE).contains(&score)
}

/// Whether all of `scores` are normalised ones, from 0 to 100.
pub fn are_within_bounds(scores: &[i64]) -> bool {
    // A score out of bounds makes either number negative. Looking at the signs of all numbers at once takes a fraction of the time
    // that looking for the lowest and the highest takes.
    let signs = |score: &i64| score | MAX_NODE_SCORE.wrapping_sub(*score);
    scores.iter().map(signs).fold(0, |any, signs| any | signs) >= 0
}

/// What the raw scores of one plugin are scaled by: all that is to be known of the raw scores of other nodes.
///
/// Equal scales give equal scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    normalization: Normalization,
    lowest: i64,
    highest: i64,
}

impl Scale {
    /// Leaves scores as they are.
    pub const IDENTITY: Self = Self { normalization: Normalization::None, lowest: 0, highest: 0 };

    /// The scale of raw scores of which these are the lowest and the highest; of no scores at all when `lowest` is above
    /// `highest`.
    pub fn new(normalization: Normalization, lowest: i64, highest: i64) -> Self {
        let (lowest, highest) = normalization.ends(lowest, highest);
        Self { normalization, lowest, highest }
    }

    /// The scale of `scores`.
    pub(crate) fn spanning(normalization: Normalization, scores: &[i64]) -> Self {
        let (lowest, highest) = bounds(scores);
        Self::new(normalization, lowest, highest)
    }

    /// The score between 0 and 100 for a raw one; without scaling, the raw one.
    #[inline]
    pub fn score(self, raw: i64) -> i64 {
        self.normalization.score(raw, self.lowest, self.highest)
    }

    /// The weighted score for a raw one; `None` when the score is not between 0 and 100.
    #[inline]
    pub fn weighted(self, raw: i64, weight: i64) -> Option<i64> {
        let score = self.score(raw);
        is_within_bounds(score).then(|| score.wrapping_mul(weight))
    }

    /// Adds the weighted scores of `raw` scores to `totals`. Few distinct raw scores are worked out once each.
    pub fn add_weighted(self, raw: &[i64], weight: i64, totals: &mut [i64]) {
        /// A table is made only if there is at most one score for this many nodes. Without tables an attempt takes two percent
        /// longer (`bench core --workload EveryPodDifferent`).
        const WORTH_A_TABLE: usize = 4;

        let weighted = |raw: i64| self.score(raw).wrapping_mul(weight);
        let both = totals.iter_mut().zip(raw);
        let is_final = matches!(self.normalization, Normalization::None | Normalization::Custom);
        // Most weights are 1, and there is no fast multiplication of several 64-bit numbers at once. Without this and what `bounds` does
        // an attempt takes two percent more instructions (`bench core --nodes 1000 --workload EveryPodDifferent`).
        if is_final && weight == 1 {
            return both.for_each(|(total, raw)| *total = total.wrapping_add(*raw));
        }
        if is_final {
            return both.for_each(|(total, raw)| {
                *total = total.wrapping_add(raw.wrapping_mul(weight));
            });
        }
        let span =
            self.highest.checked_sub(self.lowest).and_then(|span| usize::try_from(span).ok());
        if span.is_none_or(|span| span >= raw.len() / WORTH_A_TABLE) {
            both.for_each(|(total, raw)| *total = total.wrapping_add(weighted(*raw)));
            return;
        }
        let table: SmallVec<[i64; 128]> = (self.lowest..=self.highest).map(weighted).collect();
        let (table, lowest) = (&table[..], self.lowest);
        for (total, raw) in both {
            // A raw score below the lowest becomes a number beyond the table.
            let score = match table.get(raw.wrapping_sub(lowest) as u64 as usize) {
                Some(known) => *known,
                None => weighted(*raw),
            };
            *total = total.wrapping_add(score);
        }
    }
}

/// The lowest and the highest of `scores`; the former is above the latter when there are none.
pub fn bounds(scores: &[i64]) -> (i64, i64) {
    /// Each lane waits for itself alone, not for the number before.
    const LANES: usize = 4;
    const RUN: usize = 16 * LANES;

    let Some(&first) = scores.first() else { return (i64::MAX, i64::MIN) };
    // Many a plugin gives all nodes the same score, and to see that takes a fraction of the time.
    let differs = |run: &[i64]| run.iter().fold(0, |all, score| all | (score ^ first)) != 0;
    let Some(at) = scores.chunks(RUN).position(differs) else { return (first, first) };
    let (mut lowest, mut highest) = ([first; LANES], [first; LANES]);
    let (runs, rest) = scores[at * RUN..].as_chunks::<LANES>();
    for run in runs {
        for lane in 0..LANES {
            lowest[lane] = lowest[lane].min(run[lane]);
            highest[lane] = highest[lane].max(run[lane]);
        }
    }
    let lowest = lowest.iter().chain(rest).copied().fold(i64::MAX, i64::min);
    let highest = highest.iter().chain(rest).copied().fold(i64::MIN, i64::max);
    (lowest, highest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn normalization() -> impl Strategy<Value = Normalization> {
        prop::sample::select(vec![
            Normalization::None,
            Normalization::Proportional,
            Normalization::ReversedProportional,
            Normalization::MinMax,
        ])
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn tables_give_what_single_scores_give(
            normalization in normalization(),
            scores in prop::collection::vec(prop_oneof![4 => -5_i64..60, 1 => any::<i64>()], 0..300),
            weight in 1_i64..100,
        ) {
            let scale = Scale::spanning(normalization, &scores);
            let mut totals = vec![7; scores.len()];
            scale.add_weighted(&scores, weight, &mut totals);
            let singly: Vec<i64> =
                scores.iter().map(|raw| scale.score(*raw).wrapping_mul(weight).wrapping_add(7)).collect();
            prop_assert_eq!(totals, singly);
        }

        #[test]
        fn scores_are_checked_together_as_one_by_one(
            scores in prop::collection::vec(prop_oneof![8 => 0_i64..=100, 1 => -2_i64..103, 1 => any::<i64>()], 0..12),
        ) {
            let singly = scores.iter().all(|score| is_within_bounds(*score));
            prop_assert_eq!(are_within_bounds(&scores), singly);
        }

        #[test]
        fn bounds_are_the_least_and_the_most(
            same in any::<i64>(),
            n_same in 0..150_usize,
            others in prop::collection::vec(any::<i64>(), 0..20),
        ) {
            let scores: Vec<i64> = std::iter::repeat_n(same, n_same).chain(others).collect();
            let least = scores.iter().copied().min().unwrap_or(i64::MAX);
            let most = scores.iter().copied().max().unwrap_or(i64::MIN);
            prop_assert_eq!(bounds(&scores), (least, most));
        }
    }
}
