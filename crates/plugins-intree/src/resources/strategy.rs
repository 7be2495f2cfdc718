//! How NodeResourcesFit turns amounts into a score: least allocated, most allocated, requested to capacity ratio.
//!
//! Answers to `plugins/noderesources/{least_allocated,most_allocated,requested_to_capacity_ratio}.go` of the reference;
//! behaviour in `docs/spec/plugins-node.md` §4.8.5.

use kube_scheduler_framework::{MAX_NODE_SCORE, percent};

use super::scored::{Amounts, ScoreAmounts};
use super::shape::Shape;

/// Which nodes are better.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// The emptier ones.
    LeastAllocated,
    /// The fuller ones.
    MostAllocated,
    /// Those on the right place of a curve.
    RequestedToCapacityRatio(Shape),
}

impl Strategy {
    /// As the configuration names it.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::LeastAllocated => "LeastAllocated",
            Self::MostAllocated => "MostAllocated",
            Self::RequestedToCapacityRatio(_) => "RequestedToCapacityRatio",
        }
    }
}

impl ScoreAmounts for Strategy {
    #[inline]
    fn score(&self, amounts: impl Iterator<Item = Amounts>) -> i64 {
        match self {
            Self::LeastAllocated => weighted_mean(amounts, free_percent),
            Self::MostAllocated => weighted_mean(amounts, |amounts| {
                percent(amounts.after.min(amounts.allocatable), amounts.allocatable)
            }),
            Self::RequestedToCapacityRatio(shape) => rounded_mean_of_positive(amounts, |amounts| {
                let utilization = if amounts.after > amounts.allocatable {
                    MAX_NODE_SCORE
                } else {
                    percent(amounts.after, amounts.allocatable)
                };
                shape.score_at(utilization)
            }),
        }
    }
}

/// How much of a resource stays free, in percent, truncated; 0 when more is used than there is.
#[inline]
fn free_percent(amounts: &Amounts) -> i64 {
    let Amounts { allocatable, after, .. } = *amounts;
    if after > allocatable {
        return 0;
    }
    percent(allocatable.wrapping_sub(after), allocatable)
}

/// Truncated mean; 0 when nothing counts.
#[inline]
fn weighted_mean(amounts: impl Iterator<Item = Amounts>, score: impl Fn(&Amounts) -> i64) -> i64 {
    let (mut sum, mut weights) = (0_i64, 0_i64);
    for amounts in amounts {
        sum = sum.wrapping_add(score(&amounts).wrapping_mul(amounts.weight));
        weights += amounts.weight;
    }
    if weights == 0 { 0 } else { sum.wrapping_div(weights) }
}

/// Mean of the scores above zero, rounded half away from zero; 0 when there are none.
#[inline]
fn rounded_mean_of_positive(
    amounts: impl Iterator<Item = Amounts>,
    score: impl Fn(&Amounts) -> i64,
) -> i64 {
    let (mut sum, mut weights) = (0_i64, 0_i64);
    for amounts in amounts {
        let score = score(&amounts);
        if score > 0 {
            sum = sum.wrapping_add(score.wrapping_mul(amounts.weight));
            weights += amounts.weight;
        }
    }
    if weights == 0 { 0 } else { (sum as f64 / weights as f64).round() as i64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(strategy: &Strategy, rows: &[(i64, i64, i64)]) -> i64 {
        strategy.score(rows.iter().map(|&(after, allocatable, weight)| Amounts {
            allocatable,
            before: 0,
            after,
            weight,
        }))
    }

    fn ratio(points: &[(i64, i64)]) -> Strategy {
        Strategy::RequestedToCapacityRatio(Shape::new(points.iter().copied()))
    }

    #[test]
    fn both_divisions_truncate() {
        let rows = [(3000, 4000, 1), (6000, 10000, 1)];
        assert_eq!(score(&Strategy::LeastAllocated, &rows), 32);
        assert_eq!(score(&Strategy::MostAllocated, &rows), 67);
        assert_eq!(score(&Strategy::MostAllocated, &[(75, 100, 1), (50, 100, 2)]), 58);
    }

    #[test]
    fn more_than_there_is_counts_as_full() {
        let rows = [(5000, 4000, 1), (0, 10, 1)];
        assert_eq!(score(&Strategy::LeastAllocated, &rows), 50);
        assert_eq!(score(&Strategy::MostAllocated, &rows), 50);
        assert_eq!(score(&ratio(&[(0, 100), (100, 0)]), &[(5000, 4000, 1), (9, 10, 1)]), 10);
    }

    #[test]
    fn ratio_rounds_half_up_and_leaves_zeroes_out() {
        let shape = ratio(&[(0, 0), (100, 100)]);
        assert_eq!(score(&shape, &[(25, 100, 1), (50, 100, 1)]), 38);
        assert_eq!(score(&shape, &[(0, 100, 5), (50, 100, 1)]), 50);
        let falling = ratio(&[(0, 100), (100, 0)]);
        assert_eq!(score(&falling, &[(66, 100, 1), (70, 100, 1)]), 32);
    }

    #[test]
    fn nothing_that_counts_is_zero() {
        for strategy in [Strategy::LeastAllocated, Strategy::MostAllocated, ratio(&[(0, 10)])] {
            assert_eq!(score(&strategy, &[]), 0);
        }
    }
}
