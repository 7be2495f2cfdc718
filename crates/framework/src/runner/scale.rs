//! Bringing raw scores to the scale from 0 to 100.
//!
//! Behaviour: `docs/spec/plugins-node.md` §2.10, `docs/spec/plugins-topology.md` §5.6.

use smallvec::SmallVec;

use crate::points::{MAX_NODE_SCORE, MIN_NODE_SCORE, Normalization};
use crate::status::{PluginName, Status};

/// Refuses a normalised score outside of 0..=100.
pub fn check_score(name: &PluginName, score: i64) -> Result<(), Status> {
    if is_within_bounds(score) {
        return Ok(());
    }
    Err(Status::error(format!(
        "applying score defaultWeights on Score plugins: plugin \"{name}\" returns an invalid score {score}, \
         it should in the range of [{MIN_NODE_SCORE}, {MAX_NODE_SCORE}] after normalizing"
    )))
}

/// Whether a normalised score is one of 0..=100.
#[inline]
pub fn is_within_bounds(score: i64) -> bool {
    (MIN_NODE_SCORE..=MAX_NODE_SCORE).contains(&score)
}

/// `100 * part / whole` in integers: truncated, wrapping around where the reference's 64-bit product does. 0 if `whole` is.
///
/// Dividing floats takes a fraction of the time of dividing integers, and gives the same while the product is an exact
/// float: below 2^53, that is. The quotient is then rounded by less than 1/`whole`, which is the least by which it misses
/// the next whole number if it is none itself, so that truncation finds the same number below.
#[inline]
pub fn percent(part: i64, whole: i64) -> i64 {
    /// Products of numbers below this with 100 are below 2^53.
    const EXACT: i64 = 1 << 46;
    if (0..EXACT).contains(&part) && (1..EXACT).contains(&whole) {
        return ((MAX_NODE_SCORE * part) as f64 / whole as f64) as i64;
    }
    if whole == 0 { 0 } else { MAX_NODE_SCORE.wrapping_mul(part).wrapping_div(whole) }
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
        let (lowest, highest) = match normalization {
            _ if lowest > highest => (0, 0),
            Normalization::MinMax => (lowest, highest),
            Normalization::Proportional | Normalization::ReversedProportional => {
                (0, highest.max(0))
            }
            Normalization::None | Normalization::Custom => (0, 0),
        };
        Self { normalization, lowest, highest }
    }

    /// The scale of `scores`.
    pub fn spanning(normalization: Normalization, scores: &[i64]) -> Self {
        let (lowest, highest) = bounds(scores);
        Self::new(normalization, lowest, highest)
    }

    /// The score between 0 and 100 for a raw one; without scaling, the raw one.
    #[inline]
    pub fn score(self, raw: i64) -> i64 {
        let Self { normalization, lowest, highest } = self;
        match normalization {
            Normalization::None | Normalization::Custom => raw,
            Normalization::Proportional => proportional(raw, highest),
            Normalization::ReversedProportional if highest == 0 => MAX_NODE_SCORE,
            Normalization::ReversedProportional => {
                MAX_NODE_SCORE.wrapping_sub(proportional(raw, highest))
            }
            Normalization::MinMax => min_max(raw, lowest, highest),
        }
    }

    /// The weighted score for a raw one; `None` when the score is not between 0 and 100.
    #[inline]
    pub fn weighted(self, raw: i64, weight: i64) -> Option<i64> {
        let score = self.score(raw);
        is_within_bounds(score).then(|| score.wrapping_mul(weight))
    }

    /// Adds the weighted scores of `raw` scores to `totals`. Few distinct raw scores are worked out once each.
    pub fn add_weighted(self, raw: &[i64], weight: i64, totals: &mut [i64]) {
        /// A table is made of at most a score for so many nodes.
        const WORTH_A_TABLE: usize = 4;

        let weighted = |raw: i64| self.score(raw).wrapping_mul(weight);
        let both = totals.iter_mut().zip(raw);
        if matches!(self.normalization, Normalization::None | Normalization::Custom) {
            both.for_each(|(total, raw)| *total = total.wrapping_add(raw.wrapping_mul(weight)));
            return;
        }
        let span =
            self.highest.checked_sub(self.lowest).and_then(|span| usize::try_from(span).ok());
        if span.is_none_or(|span| span >= raw.len() / WORTH_A_TABLE) {
            both.for_each(|(total, raw)| *total = total.wrapping_add(weighted(*raw)));
            return;
        }
        let table: SmallVec<[i64; 128]> = (self.lowest..=self.highest).map(weighted).collect();
        for (total, raw) in both {
            let at = usize::try_from(raw.wrapping_sub(self.lowest)).ok();
            let known = at.and_then(|at| table.get(at)).copied();
            *total = total.wrapping_add(known.unwrap_or_else(|| weighted(*raw)));
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

/// Scales all scores in place.
pub(crate) fn normalize(normalization: Normalization, scores: &mut [i64]) {
    let scale = Scale::spanning(normalization, scores);
    scores.iter_mut().for_each(|score| *score = scale.score(*score));
}

/// One score scaled by the highest one, truncating (`docs/spec/plugins-node.md` §2.10).
#[inline]
fn proportional(score: i64, highest: i64) -> i64 {
    if highest == 0 { score } else { percent(score, highest) }
}

/// One score scaled by the lowest and the highest one (`docs/spec/plugins-topology.md` §5.6).
///
/// Quirk: dividing floats first loses a unit here and there, such as 57 for 29 of 50. Pinned by
/// `min_max_truncates_the_float`.
#[inline]
fn min_max(score: i64, lowest: i64, highest: i64) -> i64 {
    let way = highest.wrapping_sub(lowest);
    if way <= 0 {
        return MIN_NODE_SCORE;
    }
    let share = score.wrapping_sub(lowest) as f64 / way as f64;
    (MAX_NODE_SCORE as f64 * share) as i64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn amount() -> impl Strategy<Value = i64> {
        prop_oneof![0_i64..300, 0_i64..1 << 47, any::<i64>()]
    }

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
        fn percents_are_those_of_integers(part in amount(), whole in amount()) {
            let product = 100_i64.wrapping_mul(part);
            let long = if whole == 0 { 0 } else { product.wrapping_div(whole) };
            prop_assert_eq!(percent(part, whole), long);
        }

        /// Parts that make a whole percent, and the neighbours of these.
        #[test]
        fn percents_are_exact_at_the_edges(whole in 1_i64..1 << 46, share in 0_i64..=100, off in -1_i64..=1) {
            let part = (i128::from(whole) * i128::from(share) / 100) as i64 + off;
            let long = i128::from(part) * 100 / i128::from(whole);
            prop_assert_eq!(i128::from(percent(part, whole)), long);
        }

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
