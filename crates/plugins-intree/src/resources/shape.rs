//! A piecewise-linear curve from utilization to score.
//!
//! Answers to `plugins/helper/shape_score.go` of the reference; behaviour in `docs/spec/plugins-node.md` §2.10.

use kube_scheduler_config::UtilizationShapePoint;
use kube_scheduler_framework::MAX_NODE_SCORE;

/// Highest score in a configured shape; scores of nodes go to 100.
const MAX_SHAPE_SCORE: i64 = 10;

/// Points by increasing utilization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape(Box<[(i64, i64)]>);

impl Shape {
    /// A curve through `(utilization, score)` points, given by increasing utilization.
    pub(crate) fn new(points: impl IntoIterator<Item = (i64, i64)>) -> Self {
        Self(points.into_iter().collect())
    }

    /// The curve through configured points.
    pub(crate) fn configured(points: &[UtilizationShapePoint]) -> Self {
        let scale = MAX_NODE_SCORE / MAX_SHAPE_SCORE;
        Self::new(
            points
                .iter()
                .map(|point| (i64::from(point.utilization), i64::from(point.score) * scale)),
        )
    }

    /// The score at `utilization`: flat before the first and after the last point. The division truncates toward
    /// zero, which rounds falling segments up.
    pub(crate) fn score_at(&self, utilization: i64) -> i64 {
        let mut before: Option<(i64, i64)> = None;
        for &(x, y) in &self.0 {
            if utilization <= x {
                return match before {
                    None => y,
                    Some((x0, y0)) => {
                        y0 + ((y - y0) * (utilization - x0)).checked_div(x - x0).unwrap_or(0)
                    }
                };
            }
            before = Some((x, y));
        }
        before.map_or(0, |(_, y)| y)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rising_curve() {
        let shape = Shape::new([(10, 1), (90, 9)]);
        for (utilization, score) in [
            (-10, 1),
            (0, 1),
            (10, 1),
            (15, 1),
            (19, 1),
            (20, 2),
            (89, 8),
            (90, 9),
            (99, 9),
            (100, 9),
            (110, 9),
        ] {
            assert_eq!(shape.score_at(utilization), score, "at {utilization}");
        }
    }

    #[test]
    fn falling_segments_truncate_toward_zero() {
        let shape = Shape::new([(0, 2), (40, 10), (100, 0)]);
        let expected = [
            (-10, 2),
            (0, 2),
            (20, 6),
            (30, 8),
            (40, 10),
            (70, 5),
            (80, 4),
            (81, 4),
            (90, 2),
            (99, 1),
            (100, 0),
            (110, 0),
        ];
        for (utilization, score) in expected {
            assert_eq!(shape.score_at(utilization), score, "at {utilization}");
        }
    }
}
