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
    Code, CycleState, MAX_NODE_SCORE, MIN_NODE_SCORE, Meter, MeteredPoint, NodeIdx, Normalization,
    PluginIdx, Runner, SkipSet, Status, min_max, proportional,
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

/// The lowest and the highest of some raw scores.
#[derive(Clone, Copy)]
struct Bounds {
    lowest: i64,
    highest: i64,
}

impl Bounds {
    const NONE: Self = Self { lowest: i64::MAX, highest: i64::MIN };

    #[inline]
    fn with(self, score: i64) -> Self {
        self.and(Self { lowest: score, highest: score })
    }

    #[inline]
    fn and(self, other: Self) -> Self {
        Self { lowest: self.lowest.min(other.lowest), highest: self.highest.max(other.highest) }
    }
}

/// The scores of a run of nodes.
struct Scored<'a> {
    nodes: &'a [NodeIdx],
    totals: Vec<i64>,
    /// Raw scores that are yet to be scaled, by scorer; empty for the others.
    raw: SmallVec<[Vec<i64>; 8]>,
    /// By scorer.
    bounds: SmallVec<[Bounds; 8]>,
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
        let best = self.best_of(&runs, &bounded);
        for run in runs {
            run.raw.into_iter().chain([run.totals]).for_each(|column| self.pool.give_back(column));
        }
        best
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
        let (mut raw, mut bounds) = (SmallVec::new(), SmallVec::new());
        for scorer in scorers {
            self.raw_scores(scorer, nodes, &mut column)?;
            let mut of_run = Bounds::NONE;
            if scorer.normalization == Normalization::None {
                for (total, score) in totals.iter_mut().zip(&column) {
                    *total = i64::wrapping_add(*total, score.wrapping_mul(scorer.weight));
                    of_run = of_run.with(*score);
                }
                raw.push(Vec::new());
            } else {
                column.iter().for_each(|score| of_run = of_run.with(*score));
                raw.push(std::mem::replace(&mut column, self.pool.column(nodes.len())));
            }
            bounds.push(of_run);
        }
        self.pool.give_back(column);
        Some(Scored { nodes, totals, raw, bounds })
    }

    fn raw_scores(&self, scorer: &Scorer, nodes: &[NodeIdx], column: &mut [i64]) -> Option<()> {
        column.fill(0);
        self.runner.raw_scores(scorer.idx, self.state, self.pod, nodes, column).ok()
    }

    /// The best node when `bounded` plugins have their say too.
    fn best_of(&self, runs: &[Scored<'_>], bounded: &[Scorer]) -> Option<Option<NodeIdx>> {
        let Some(most) = runs.iter().flat_map(|run| &run.totals).copied().max() else {
            return Some(None);
        };
        let all = || runs.iter().flat_map(Scored::both);
        if bounded.is_empty() {
            return Some(self.first(all().filter(|(_, total)| *total == most)));
        }
        let room: i64 = bounded.iter().map(|scorer| scorer.weight * MAX_NODE_SCORE).sum();
        let ahead = all().filter(|(_, total)| *total == most).take(MANY_AHEAD).collect();
        let best_ahead =
            self.finished(ahead, bounded)?.into_iter().map(|(_, total)| total).max()?;
        let has_a_chance = |total: i64| total.saturating_add(room) >= best_ahead;
        let finished =
            self.finished(all().filter(|(_, total)| has_a_chance(*total)).collect(), bounded)?;
        let best = finished.iter().map(|(_, total)| *total).max()?;
        Some(self.first(finished.into_iter().filter(|(_, total)| *total == best)))
    }

    /// Adds what `bounded` plugins give. `None` when one of them fails or breaks its promise.
    fn finished(
        &self,
        mut candidates: Vec<(NodeIdx, i64)>,
        bounded: &[Scorer],
    ) -> Option<Vec<(NodeIdx, i64)>> {
        let nodes: Vec<NodeIdx> = candidates.iter().map(|(idx, _)| *idx).collect();
        let mut column = self.pool.column(nodes.len());
        for scorer in bounded {
            self.raw_scores(scorer, &nodes, &mut column)?;
            for ((_, total), score) in candidates.iter_mut().zip(&column) {
                is_fine(*score).then_some(())?;
                *total = total.wrapping_add(score * scorer.weight);
            }
        }
        self.pool.give_back(column);
        Some(candidates)
    }

    /// The one of equally good nodes that [`ScoreTree`](crate::score_tree::ScoreTree) prefers.
    fn first(&self, nodes: impl Iterator<Item = (NodeIdx, i64)>) -> Option<NodeIdx> {
        let cluster = self.runner.cx.cluster;
        let place = |idx: NodeIdx| Some((pre_order_rank(cluster.position(idx)?), idx));
        nodes.filter_map(|(idx, _)| place(idx)).min().map(|(_, idx)| idx)
    }

    /// Has the plugin normalise its scores, and adds them. `None` when it fails.
    fn add_custom(&self, runs: &mut [Scored<'_>], (at, scorer): (usize, &Scorer)) -> Option<()> {
        let mut column = match runs {
            [run] => std::mem::take(&mut run.raw[at]),
            ref runs => runs.iter().flat_map(|run| &run.raw[at]).copied().collect(),
        };
        let Self { runner, state, pod, feasible, .. } = *self;
        runner.normalize_and_weigh(scorer.idx, state, pod, feasible, &mut column).ok()?;
        let mut scores = &*column;
        for run in runs {
            let (of_run, others) = scores.split_at(run.nodes.len());
            scores = others;
            for (total, score) in run.totals.iter_mut().zip(of_run) {
                *total = total.wrapping_add(*score);
            }
        }
        self.pool.give_back(column);
        Some(())
    }
}

impl Scored<'_> {
    /// The nodes with their totals.
    fn both(&self) -> impl Iterator<Item = (NodeIdx, i64)> {
        self.nodes.iter().copied().zip(self.totals.iter().copied())
    }
}

fn is_fine(score: i64) -> bool {
    (MIN_NODE_SCORE..=MAX_NODE_SCORE).contains(&score)
}

/// Adds scaled, weighted scores. `None` when one of them is out of bounds.
fn add_scaled(runs: &mut [Scored<'_>], (at, scorer): (usize, &Scorer)) -> Option<()> {
    let Bounds { lowest, highest } =
        runs.iter().fold(Bounds::NONE, |bounds, run| bounds.and(run.bounds[at]));
    let top = highest.max(0);
    let scaled = |raw: i64| match scorer.normalization {
        Normalization::None | Normalization::Custom => raw,
        Normalization::Proportional => proportional(raw, top, false),
        Normalization::ReversedProportional => proportional(raw, top, true),
        Normalization::MinMax => min_max(raw, lowest, highest),
    };
    // Scaling never turns the order of two scores around halfway: if both ends are fine, all are.
    (is_fine(scaled(lowest)) && is_fine(scaled(highest))).then_some(())?;
    // One score for all changes nothing about who is best.
    if scorer.normalization != Normalization::None && lowest != highest {
        for run in runs {
            add_scaled_run(&mut run.totals, &run.raw[at], scorer, Bounds { lowest, highest });
        }
    }
    Some(())
}

/// The loops are apart so that each is a plain one.
fn add_scaled_run(totals: &mut [i64], raw: &[i64], scorer: &Scorer, bounds: Bounds) {
    /// Products of numbers below this with 100 are exact floats, and their quotients, which are at most 100, are further
    /// from the next whole number than rounding goes: truncated they are what dividing integers gives.
    const EXACT: i64 = 1 << 45;

    let Bounds { lowest, highest } = bounds;
    let weight = scorer.weight;
    let both = totals.iter_mut().zip(raw);
    match scorer.normalization {
        Normalization::Proportional | Normalization::ReversedProportional
            if lowest >= 0 && highest < EXACT =>
        {
            let is_reversed = scorer.normalization == Normalization::ReversedProportional;
            let (base, sign) = if is_reversed { (MAX_NODE_SCORE, -1) } else { (0, 1) };
            let top = highest as f64;
            for (total, raw) in both {
                let share = ((MAX_NODE_SCORE * raw) as f64 / top) as i64;
                *total = total.wrapping_add((base + sign * share) * weight);
            }
        }
        Normalization::Proportional => {
            both.for_each(|(total, raw)| {
                *total = total.wrapping_add(proportional(*raw, highest.max(0), false) * weight);
            });
        }
        Normalization::ReversedProportional => {
            both.for_each(|(total, raw)| {
                *total = total.wrapping_add(proportional(*raw, highest.max(0), true) * weight);
            });
        }
        Normalization::MinMax => {
            both.for_each(|(total, raw)| {
                *total = total.wrapping_add(min_max(*raw, lowest, highest) * weight);
            });
        }
        Normalization::None | Normalization::Custom => {}
    }
}
