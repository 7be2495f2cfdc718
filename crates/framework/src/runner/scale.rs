//! Bringing raw scores to the scale from 0 to 100.
//!
//! Behaviour: `spec/plugins-node.md` §2.10, `spec/plugins-topology.md` §5.6.

use crate::points::{MAX_NODE_SCORE, MIN_NODE_SCORE};
use crate::status::{PluginName, Status};

/// Refuses a normalised score outside of 0..=100.
pub fn check_score(name: &PluginName, score: i64) -> Result<(), Status> {
    if (MIN_NODE_SCORE..=MAX_NODE_SCORE).contains(&score) {
        return Ok(());
    }
    Err(Status::error(format!(
        "applying score defaultWeights on Score plugins: plugin \"{name}\" returns an invalid score {score}, \
         it should in the range of [{MIN_NODE_SCORE}, {MAX_NODE_SCORE}] after normalizing"
    )))
}

/// Scales to 0..100 by the highest score, truncating; reversed if asked (`spec/plugins-node.md` §2.10).
pub(crate) fn normalize_proportionally(scores: &mut [i64], is_reversed: bool) {
    let highest = scores.iter().copied().fold(0, i64::max);
    for score in scores {
        *score = proportional(*score, highest, is_reversed);
    }
}

/// One score scaled by the highest one (`spec/plugins-node.md` §2.10).
pub fn proportional(score: i64, highest: i64, is_reversed: bool) -> i64 {
    if highest == 0 {
        return if is_reversed { MAX_NODE_SCORE } else { score };
    }
    let scaled = MAX_NODE_SCORE.wrapping_mul(score) / highest;
    if is_reversed { MAX_NODE_SCORE.wrapping_sub(scaled) } else { scaled }
}

/// Scales from 0 for the lowest score to 100 for the highest.
pub(crate) fn normalize_min_max(scores: &mut [i64]) {
    let lowest = scores.iter().copied().min().unwrap_or(0);
    let highest = scores.iter().copied().max().unwrap_or(0);
    for score in scores {
        *score = min_max(*score, lowest, highest);
    }
}

/// One score scaled by the lowest and the highest one (`spec/plugins-topology.md` §5.6).
///
/// Quirk: dividing floats first loses a unit here and there, such as 57 for 29 of 50. Pinned by
/// `min_max_truncates_the_float`.
pub fn min_max(score: i64, lowest: i64, highest: i64) -> i64 {
    let way = highest.wrapping_sub(lowest);
    if way <= 0 {
        return MIN_NODE_SCORE;
    }
    let share = score.wrapping_sub(lowest) as f64 / way as f64;
    (MAX_NODE_SCORE as f64 * share) as i64
}
