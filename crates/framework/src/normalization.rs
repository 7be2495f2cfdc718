//! Bringing raw scores to the scale from 0 to 100.
//!
//! Behaviour: `docs/spec/plugins-node.md` §2.10, `docs/spec/plugins-topology.md` §5.6.

/// The highest score a plugin may give after normalisation; the lowest is 0.
pub const MAX_NODE_SCORE: i64 = 100;

/// How raw scores become scores between 0 and 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Normalization {
    /// Raw scores are between 0 and 100 already and stay as they are.
    None,
    /// In proportion to the highest one; the highest becomes 100.
    Proportional,
    /// In proportion to the highest one, then reversed; the highest becomes 0, and all become 100 when it is 0.
    ReversedProportional,
    /// In proportion to the way from the lowest one to the highest; the lowest becomes 0 and the highest 100, and all
    /// become 0 when they are equal.
    MinMax,
    /// By the plugin itself, in [`Score::normalize`](crate::Score::normalize).
    Custom,
}

impl Normalization {
    /// The score for a raw one, where these are the lowest and the highest of all. What is not scaled stays as it is.
    #[inline]
    pub fn score(self, raw: i64, lowest: i64, highest: i64) -> i64 {
        match self {
            Self::None | Self::Custom => raw,
            Self::Proportional => proportional(raw, highest),
            Self::ReversedProportional if highest == 0 => MAX_NODE_SCORE,
            Self::ReversedProportional => MAX_NODE_SCORE.wrapping_sub(proportional(raw, highest)),
            Self::MinMax => min_max(raw, lowest, highest),
        }
    }

    /// The lowest and the highest score after scaling, given the lowest and the highest raw score. A `lowest` above `highest`
    /// means that there are no scores.
    #[inline]
    pub fn ends(self, lowest: i64, highest: i64) -> (i64, i64) {
        match self {
            Self::MinMax if lowest <= highest => (lowest, highest),
            Self::Proportional | Self::ReversedProportional if lowest <= highest => {
                (0, highest.max(0))
            }
            _ => (0, 0),
        }
    }

    /// Scales all scores in place.
    pub fn apply(self, scores: &mut [i64]) {
        let lowest = scores.iter().copied().fold(i64::MAX, i64::min);
        let highest = scores.iter().copied().fold(i64::MIN, i64::max);
        let (lowest, highest) = self.ends(lowest, highest);
        scores.iter_mut().for_each(|score| *score = self.score(*score, lowest, highest));
    }
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

/// One score scaled by the highest one, truncating (`docs/spec/plugins-node.md` §2.10).
#[inline]
fn proportional(score: i64, highest: i64) -> i64 {
    if highest == 0 { score } else { percent(score, highest) }
}

/// One score scaled by the lowest and the highest one (`docs/spec/plugins-topology.md` §5.6).
///
/// Quirk: dividing floats first loses a unit in some cases, such as 57 for 29 of 50. Pinned by
/// `min_max_truncates_the_float`.
#[inline]
fn min_max(score: i64, lowest: i64, highest: i64) -> i64 {
    let way = highest.wrapping_sub(lowest);
    if way <= 0 {
        return 0;
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
    }
}
