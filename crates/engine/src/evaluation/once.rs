//! The best node for a pod that nothing is kept of: the scores go into one column of totals and are gone.
//!
//! Invariant: the node, and the error if there is one, are those of [`Scoring`](super::Scoring).

use kube_scheduler_api_types::Pod;
use kube_scheduler_framework::{
    Code, CycleState, MAX_NODE_SCORE, MIN_NODE_SCORE, Meter, MeteredPoint, NodeIdx, Normalization,
    Runner, SkipSet, Status, min_max, proportional,
};

use super::scoring::Scoring;
use crate::score_tree::pre_order_rank;

/// The best of `feasible` nodes, after PreScore.
pub(super) fn best_once(
    runner: &Runner<'_>,
    state: &mut CycleState,
    pod: &Pod,
    feasible: &[NodeIdx],
) -> Result<Option<NodeIdx>, Status> {
    let skip = runner.pre_score(state, pod, feasible)?;
    let begun = runner.profile.meter().map(Meter::nanos);
    let totals = totals(runner, state, &skip, pod, feasible);
    let code = totals.as_ref().err().map_or(Code::Success, Status::code);
    runner.point_ended(MeteredPoint::Score, code, begun);
    Ok(first_best(runner, feasible, &totals?))
}

fn totals(
    runner: &Runner<'_>,
    state: &CycleState,
    skip: &SkipSet,
    pod: &Pod,
    feasible: &[NodeIdx],
) -> Result<Vec<i64>, Status> {
    let mut totals = vec![0; feasible.len()];
    let mut column = vec![0; feasible.len()];
    let mut are_fine = true;
    for (idx, _, score) in runner.profile.score() {
        if skip.contains(idx) {
            continue;
        }
        column.fill(0);
        runner.raw_scores(idx, state, pod, feasible, &mut column)?;
        let weight = runner.profile.weight(idx);
        are_fine &= match score.normalization() {
            Normalization::Custom => {
                runner.normalize_and_weigh(idx, state, pod, feasible, &mut column)?;
                totals.iter_mut().zip(&column).for_each(|(total, score)| {
                    *total = i64::wrapping_add(*total, *score);
                });
                true
            }
            normalization => add(&mut totals, &column, normalization, weight),
        };
    }
    if are_fine {
        return Ok(totals);
    }
    // Which of the scores that are out of bounds is named depends on the order of nodes.
    let scoring = Scoring::scored(runner, state, skip, pod, feasible)?;
    feasible.iter().map(|idx| scoring.total(*idx)).collect()
}

/// Adds normalised, weighted scores; whether all of them are within bounds.
fn add(totals: &mut [i64], column: &[i64], normalization: Normalization, weight: i64) -> bool {
    let lowest = column.iter().copied().min().unwrap_or(0);
    let highest = column.iter().copied().max().unwrap_or(0);
    let scaled = |raw| match normalization {
        Normalization::None | Normalization::Custom => raw,
        Normalization::Proportional => proportional(raw, highest.max(0), false),
        Normalization::ReversedProportional => proportional(raw, highest.max(0), true),
        Normalization::MinMax => min_max(raw, lowest, highest),
    };
    let is_fine = |score| (MIN_NODE_SCORE..=MAX_NODE_SCORE).contains(&score);
    if lowest == highest {
        // One score for all changes nothing about who is best, but it may be out of bounds.
        return is_fine(scaled(lowest));
    }
    if normalization == Normalization::None {
        for (total, score) in totals.iter_mut().zip(column) {
            *total = total.wrapping_add(score * weight);
        }
        return is_fine(lowest) && is_fine(highest);
    }
    // Neighbours often have the same score: what the last one came to is at hand.
    let (mut last, mut score) = (lowest, scaled(lowest));
    let mut are_fine = is_fine(score);
    for (total, raw) in totals.iter_mut().zip(column) {
        if *raw != last {
            (last, score) = (*raw, scaled(*raw));
            are_fine &= is_fine(score);
        }
        *total = total.wrapping_add(score * weight);
    }
    are_fine
}

/// The node with the highest total; of several the one that [`ScoreTree`](crate::score_tree::ScoreTree) prefers.
fn first_best(runner: &Runner<'_>, feasible: &[NodeIdx], totals: &[i64]) -> Option<NodeIdx> {
    let highest = totals.iter().copied().max()?;
    let best = feasible.iter().zip(totals).filter(|(_, total)| **total == highest);
    let cluster = runner.cx.cluster;
    let place = |idx: NodeIdx| Some((pre_order_rank(cluster.position(idx)?), idx));
    best.filter_map(|(idx, _)| place(*idx)).min().map(|(_, idx)| idx)
}
