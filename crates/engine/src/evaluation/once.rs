//! The best node for a pod that nothing is kept of: scores are added up in one column of totals and are gone.
//!
//! Nodes are scored in runs, one per thread; what is scaled by the scores of all nodes is added when all runs are done.
//! Plugins that promise bounds come last, and are asked about those nodes only that can still win: the others are so far
//! behind that the most these plugins can give would not help.
//!
//! Invariants: the node, and the error if there is one, are those of [`Scoring`](super::Scoring); nothing depends on how
//! nodes are split into runs.

use kube_scheduler_api_types::Pod;
use kube_scheduler_framework::{
    Code, CycleState, Lent, MAX_NODE_SCORE, Meter, MeteredPoint, NodeIdx, Normalization, PluginIdx,
    Runner, Scale, SkipSet, Status, bounds, is_within_bounds,
};
use smallvec::SmallVec;

use super::scoring::Scoring;
use crate::pool::Pool;
use crate::score_tree::pre_order_rank;

/// The best of `feasible` nodes, which are in the order of their slots, after PreScore.
pub(super) fn best_once(
    runner: &Runner<'_>,
    pool: &Pool,
    state: &mut CycleState,
    pod: &Pod,
    feasible: &[NodeIdx],
) -> Result<Option<NodeIdx>, Status> {
    let skip = runner.pre_score(state, pod, feasible)?;
    let begun = runner.profile.meter().map(Meter::nanos);
    let search = Search { runner, pool, state, pod, feasible };
    let best = match search.best(&skip) {
        Some(best) => Ok(best),
        None => search.best_in_order(&skip),
    };
    let code = best.as_ref().err().map_or(Code::Success, Status::code);
    runner.point_ended(MeteredPoint::Score, code, begun);
    best
}

/// A plugin that has something to say.
struct Scorer {
    idx: PluginIdx,
    weight: i64,
    normalization: Normalization,
}

type Scorers = SmallVec<[Scorer; 8]>;

/// The lowest and the highest of some raw scores; the former is above the latter when there are none.
type Bounds = (i64, i64);

/// The scores of a run of nodes.
struct Scored<'a> {
    nodes: &'a [NodeIdx],
    totals: Lent<i64>,
    /// Raw scores that are yet to be scaled, by scorer; empty for the others.
    raw: SmallVec<[Lent<i64>; 8]>,
    /// By scorer.
    bounds: SmallVec<[Bounds; 8]>,
}

/// Nodes that can still win.
struct Candidates {
    nodes: Lent<NodeIdx>,
    /// What each has so far.
    totals: Lent<i64>,
}

/// How many nodes with the most so far are scored to the end before the others are compared with them.
const MANY_AHEAD: usize = 128;

struct Search<'a> {
    runner: &'a Runner<'a>,
    pool: &'a Pool,
    state: &'a CycleState,
    pod: &'a Pod,
    feasible: &'a [NodeIdx],
}

impl<'a> Search<'a> {
    /// The best node; `None` when there is an error somewhere.
    fn best(&self, skip: &SkipSet) -> Option<Option<NodeIdx>> {
        let scorers = self.runner.profile.score().filter(|(idx, ..)| !skip.contains(*idx));
        let (bounded, scorers): (Vec<_>, Vec<_>) = scorers
            .map(|(idx, _, score)| {
                let (weight, normalization) =
                    (self.runner.profile.weight(idx), score.normalization());
                let is_bounded = normalization == Normalization::None && score.promises_bounds();
                (is_bounded, Scorer { idx, weight, normalization })
            })
            .partition(|(is_bounded, _)| *is_bounded);
        let bounded: Scorers = bounded.into_iter().map(|(_, scorer)| scorer).collect();
        let scorers: Scorers = scorers.into_iter().map(|(_, scorer)| scorer).collect();
        let runs = self.pool.map_runs(self.feasible, |nodes| self.run(&scorers, nodes));
        let mut runs = runs.into_iter().collect::<Option<Vec<_>>>()?;
        for (at, scorer) in scorers.iter().enumerate() {
            match scorer.normalization {
                Normalization::Custom => self.add_custom(&mut runs, (at, scorer))?,
                _ => add_scaled(&mut runs, (at, scorer))?,
            }
        }
        self.best_of(&runs, &bounded)
    }

    /// The same by the book: which of several errors is reported depends on the order of nodes.
    fn best_in_order(&self, skip: &SkipSet) -> Result<Option<NodeIdx>, Status> {
        let cluster = self.runner.cx.cluster;
        let mut in_order = self.feasible.to_vec();
        in_order.sort_unstable_by_key(|idx| cluster.position(*idx));
        let scoring = Scoring::scored(self.runner, self.state, skip, self.pod, &in_order)?;
        let position = scoring.first_best();
        Ok(position.and_then(|at| cluster.order().get(at).copied()))
    }

    /// Scores one run of nodes; adds up what need not be scaled. `None` when a plugin fails.
    fn run(&self, scorers: &[Scorer], nodes: &'a [NodeIdx]) -> Option<Scored<'a>> {
        let mut totals = self.pool.column(nodes.len());
        totals.fill(0);
        let mut column = self.pool.column(nodes.len());
        let (mut raw, mut bounds_of_raw) = (SmallVec::new(), SmallVec::new());
        for scorer in scorers {
            self.raw_scores(scorer, nodes, &mut column)?;
            bounds_of_raw.push(bounds(&column));
            if scorer.normalization == Normalization::None {
                for (total, score) in totals.iter_mut().zip(column.iter()) {
                    *total = i64::wrapping_add(*total, score.wrapping_mul(scorer.weight));
                }
                raw.push(Lent::default());
            } else {
                raw.push(std::mem::replace(&mut column, self.pool.column(nodes.len())));
            }
        }
        Some(Scored { nodes, totals, raw, bounds: bounds_of_raw })
    }

    fn raw_scores(&self, scorer: &Scorer, nodes: &[NodeIdx], column: &mut [i64]) -> Option<()> {
        self.runner.raw_scores(scorer.idx, self.state, self.pod, nodes, column).ok()
    }

    /// The best node when `bounded` plugins have their say too.
    fn best_of(&self, runs: &[Scored<'_>], bounded: &[Scorer]) -> Option<Option<NodeIdx>> {
        if self.feasible.is_empty() {
            return Some(None);
        }
        let most = runs.iter().map(|run| bounds(&run.totals).1).max()?;
        if bounded.is_empty() {
            let nodes = runs.iter().flat_map(|run| run.nodes.iter().zip(run.totals.iter()));
            let best = nodes.filter(|(_, total)| **total == most);
            return Some(self.first(best.map(|(idx, _)| *idx)));
        }
        let mut ahead = self.candidates(runs, most, MANY_AHEAD);
        self.finish(&mut ahead, bounded)?;
        let best_ahead = bounds(&ahead.totals).1;
        drop(ahead);
        let room: i64 = bounded.iter().map(|scorer| scorer.weight * MAX_NODE_SCORE).sum();
        let mut left = self.candidates(runs, best_ahead.saturating_sub(room), usize::MAX);
        self.finish(&mut left, bounded)?;
        let best = bounds(&left.totals).1;
        let nodes = left.nodes.iter().zip(left.totals.iter());
        Some(self.first(nodes.filter(|(_, total)| **total == best).map(|(idx, _)| *idx)))
    }

    /// The nodes with `least` or more so far, `limit` of them at most.
    fn candidates(&self, runs: &[Scored<'_>], least: i64, limit: usize) -> Candidates {
        let n_all = self.feasible.len();
        let (mut nodes, mut totals) = (self.pool.list(n_all), self.pool.column(n_all));
        totals.clear();
        for run in runs {
            let both =
                run.nodes.iter().zip(run.totals.iter()).filter(|(_, total)| **total >= least);
            for (idx, total) in both.take(limit - nodes.len()) {
                nodes.push(*idx);
                totals.push(*total);
            }
        }
        Candidates { nodes, totals }
    }

    /// Adds what `bounded` plugins give. `None` when one of them fails or breaks its promise.
    fn finish(&self, candidates: &mut Candidates, bounded: &[Scorer]) -> Option<()> {
        let Candidates { nodes, totals } = candidates;
        let mut column = self.pool.column(nodes.len());
        for scorer in bounded {
            self.raw_scores(scorer, nodes, &mut column)?;
            let (lowest, highest) = bounds(&column);
            (is_within_bounds(lowest) && is_within_bounds(highest)).then_some(())?;
            for (total, score) in totals.iter_mut().zip(column.iter()) {
                *total = total.wrapping_add(score * scorer.weight);
            }
        }
        Some(())
    }

    /// The one of equally good nodes that [`ScoreTree`](crate::score_tree::ScoreTree) prefers.
    fn first(&self, nodes: impl Iterator<Item = NodeIdx>) -> Option<NodeIdx> {
        let cluster = self.runner.cx.cluster;
        let place = |idx: NodeIdx| Some((pre_order_rank(cluster.position(idx)?), idx));
        nodes.filter_map(place).min().map(|(_, idx)| idx)
    }

    /// Has the plugin normalise its scores, and adds them. `None` when it fails.
    fn add_custom(&self, runs: &mut [Scored<'_>], (at, scorer): (usize, &Scorer)) -> Option<()> {
        let mut column = match runs {
            [run] => std::mem::take(&mut run.raw[at]),
            ref runs => {
                let raw = runs.iter().flat_map(|run| run.raw[at].iter());
                raw.copied().collect::<Vec<i64>>().into()
            }
        };
        let Self { runner, state, pod, feasible, .. } = *self;
        runner.normalize_and_weigh(scorer.idx, state, pod, feasible, &mut column).ok()?;
        let mut scores = column.as_slice();
        for run in runs {
            let (of_run, others) = scores.split_at(run.nodes.len());
            scores = others;
            for (total, score) in run.totals.iter_mut().zip(of_run) {
                *total = total.wrapping_add(*score);
            }
        }
        Some(())
    }
}

/// Adds scaled, weighted scores. `None` when one of them is out of bounds.
fn add_scaled(runs: &mut [Scored<'_>], (at, scorer): (usize, &Scorer)) -> Option<()> {
    let (lowest, highest) = runs.iter().fold((i64::MAX, i64::MIN), |(lowest, highest), run| {
        (lowest.min(run.bounds[at].0), highest.max(run.bounds[at].1))
    });
    let scale = Scale::new(scorer.normalization, lowest, highest);
    // Scaling never turns the order of two scores around halfway: if both ends are fine, all are.
    let is_fine = |raw: i64| is_within_bounds(scale.score(raw));
    (is_fine(lowest) && is_fine(highest)).then_some(())?;
    // One score for all changes nothing about who is best.
    if scorer.normalization != Normalization::None && lowest != highest {
        for run in runs {
            scale.add_weighted(&run.raw[at], scorer.weight, &mut run.totals);
        }
    }
    Some(())
}
