//! The best node for a pod without a cached evaluation: scores are added up in one column of totals and not kept.
//!
//! Nodes are scored in runs, one per thread; what is scaled by the scores of all nodes is added when all runs are done.
//! Plugins that promise bounds come last, and are asked only about nodes that can still win: the others are so far behind that
//! even the highest score of these plugins would not help.
//!
//! Invariants: the node, and the error if there is one, are those of [`ScoreTable`]; nothing depends on how nodes are
//! split into runs.

use kube_scheduler_api_types::Pod;
use kube_scheduler_framework::{Code, CycleState, MAX_NODE_SCORE, NodeIdx, Normalization, Status};
use kube_scheduler_runtime::{MeteredPoint, Runner, Scale, SkipSet, bounds, is_within_bounds};
use smallvec::SmallVec;

use super::{Evaluation, ScoreTable, Scorer, deciding_scorers};
use crate::pool::{Pool, ScoreColumn};
use crate::preference::{TieBreak, first_best};

/// The best node that passes, `None` when there is none. Runs PreScore.
pub(crate) fn best_node(
    runner: &Runner<'_>,
    pool: &Pool,
    pod: &Pod,
    evaluation: &mut Evaluation,
    ties: TieBreak,
) -> Result<Option<NodeIdx>, Status> {
    let mut feasible = pool.list(evaluation.verdicts.n_passing() + 1);
    evaluation.verdicts.passing(&mut feasible);
    let skip = runner.pre_score(&mut evaluation.state, pod, &feasible, &SkipSet::default())?;
    let started = runner.profile.point_start();
    let search = Search { runner, pool, state: &evaluation.state, pod, feasible: &feasible, ties };
    let best = match search.best(&skip) {
        Some(best) => Ok(best),
        None => search.best_in_list_order(&skip),
    };
    let code = best.as_ref().err().map_or(Code::Success, Status::code);
    runner.profile.point_ended(MeteredPoint::Score, code, started);
    best
}

type Scorers<'a> = SmallVec<[Scorer<'a>; 8]>;

/// The lowest and the highest of some raw scores; the former is above the latter when there are none.
type Bounds = (i64, i64);

/// The scores of a run of nodes.
struct ScoredRun<'a> {
    nodes: &'a [NodeIdx],
    totals: ScoreColumn,
    /// Raw scores that are yet to be scaled, by scorer; empty for the others.
    raw: SmallVec<[ScoreColumn; 8]>,
    /// By scorer.
    bounds: SmallVec<[Bounds; 8]>,
}

struct Search<'a> {
    runner: &'a Runner<'a>,
    pool: &'a Pool,
    state: &'a CycleState,
    pod: &'a Pod,
    /// In the order of their slots.
    feasible: &'a [NodeIdx],
    ties: TieBreak,
}

impl<'a> Search<'a> {
    /// The best node; `None` when there is an error somewhere.
    fn best(&self, skip: &SkipSet) -> Option<Option<NodeIdx>> {
        let (bounded, scorers): (Scorers<'_>, Scorers<'_>) =
            deciding_scorers(self.runner, skip, self.state, self.pod)
                .partition(|scorer| scorer.is_bounded);
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

    /// The best node, with all scores computed in the order of the list first: which of several errors is reported depends on that
    /// order.
    fn best_in_list_order(&self, skip: &SkipSet) -> Result<Option<NodeIdx>, Status> {
        let cluster = self.runner.cx.cluster;
        let mut in_order = self.feasible.to_vec();
        in_order.sort_unstable_by_key(|idx| cluster.position(*idx));
        let table =
            ScoreTable::after_pre_score(self.runner, self.state, skip, self.pod, &in_order)?;
        Ok(self.first(&in_order, &table.totals))
    }

    /// Scores one run of nodes; adds up what need not be scaled. `None` when a plugin fails.
    fn run(&self, scorers: &[Scorer<'_>], nodes: &'a [NodeIdx]) -> Option<ScoredRun<'a>> {
        let mut totals = self.pool.column(nodes.len());
        totals.fill(0);
        let mut column = self.pool.column(nodes.len());
        let (mut raw, mut bounds_of_raw) = (SmallVec::new(), SmallVec::new());
        for scorer in scorers {
            self.raw_scores(scorer, nodes, &mut column)?;
            let of_column = match scorer.normalization {
                // Not counted as a read: the plugin tracks this itself.
                Normalization::Custom => (0, 0),
                _ => bounds(&column),
            };
            bounds_of_raw.push(of_column);
            if scorer.normalization == Normalization::None {
                if of_column != (0, 0) {
                    Scale::IDENTITY.add_weighted(&column, scorer.weight, &mut totals);
                }
                raw.push(ScoreColumn::default());
            } else {
                raw.push(std::mem::replace(&mut column, self.pool.column(nodes.len())));
            }
        }
        Some(ScoredRun { nodes, totals, raw, bounds: bounds_of_raw })
    }

    fn raw_scores(&self, scorer: &Scorer<'_>, nodes: &[NodeIdx], column: &mut [i64]) -> Option<()> {
        self.runner.raw_scores(scorer.idx, self.state, self.pod, nodes, column).ok()
    }

    /// The best node, with the scores of `bounded` plugins added.
    fn best_of(&self, runs: &[ScoredRun<'_>], bounded: &[Scorer<'_>]) -> Option<Option<NodeIdx>> {
        let most = runs.iter().map(|run| bounds(&run.totals).1).max()?;
        let mut scored = runs.iter().flat_map(|run| run.nodes.iter().zip(run.totals.iter()));
        // What one of the leading nodes gets to the end rules out more of the others than what it has so far.
        let (leader, _) = scored.find(|(_, total)| **total == most)?;
        let mut leaders = [most];
        self.finish(&[*leader], &mut leaders, &mut [0], bounded)?;
        let room: i64 = bounded.iter().map(|scorer| scorer.weight * MAX_NODE_SCORE).sum();
        let least = leaders[0].saturating_sub(room);
        let n_all = self.feasible.len();
        let (mut all_nodes, mut all_totals) = (self.pool.list(n_all), self.pool.column(n_all));
        all_nodes.resize(n_all, *leader);
        let (nodes, totals) = (&mut all_nodes[..], &mut all_totals[..]);
        let mut n = 0;
        for run in runs {
            for (idx, total) in run.nodes.iter().zip(run.totals.iter()) {
                // Branchless: a node that is too far behind is overwritten by the next one, instead of a branch that the
                // processor would mispredict.
                (nodes[n], totals[n]) = (*idx, *total);
                n += usize::from(*total >= least);
            }
        }
        let (nodes, totals) = (&nodes[..n], &mut totals[..n]);
        self.finish(nodes, totals, &mut self.pool.column(n), bounded)?;
        Some(self.first(nodes, totals))
    }

    /// Adds what `bounded` plugins give to the totals of `nodes`; `column` is for numbers meanwhile. `None` when one of them
    /// fails or breaks its promise.
    fn finish(
        &self,
        nodes: &[NodeIdx],
        totals: &mut [i64],
        column: &mut [i64],
        bounded: &[Scorer<'_>],
    ) -> Option<()> {
        for scorer in bounded {
            self.raw_scores(scorer, nodes, column)?;
            let (lowest, highest) = bounds(column);
            (is_within_bounds(lowest) && is_within_bounds(highest)).then_some(())?;
            Scale::IDENTITY.add_weighted(column, scorer.weight, totals);
        }
        Some(())
    }

    /// The best of `nodes` by their `totals`; of several the one that is preferred by its place in the list.
    fn first(&self, nodes: &[NodeIdx], totals: &[i64]) -> Option<NodeIdx> {
        let cluster = self.runner.cx.cluster;
        first_best(totals, |at| self.ties.order(cluster.position(nodes[at]))).map(|at| nodes[at])
    }

    /// Has the plugin normalise its scores, and adds them. `None` when it fails.
    fn add_custom(
        &self,
        runs: &mut [ScoredRun<'_>],
        (at, scorer): (usize, &Scorer<'_>),
    ) -> Option<()> {
        let mut column = match runs {
            [run] => std::mem::take(&mut run.raw[at]),
            ref runs => {
                let raw = runs.iter().flat_map(|run| run.raw[at].iter());
                raw.copied().collect::<Vec<i64>>().into()
            }
        };
        let Self { runner, state, pod, feasible, .. } = *self;
        runner.normalize_and_weigh(scorer.idx, state, pod, feasible, &mut column).ok()?;
        let mut scores = &column[..];
        for run in runs {
            let (of_run, others) = scores.split_at(run.nodes.len());
            scores = others;
            Scale::IDENTITY.add_weighted(of_run, 1, &mut run.totals);
        }
        Some(())
    }
}

/// Adds scaled, weighted scores. `None` when one of them is out of bounds.
fn add_scaled(runs: &mut [ScoredRun<'_>], (at, scorer): (usize, &Scorer<'_>)) -> Option<()> {
    let (lowest, highest) = runs.iter().fold((i64::MAX, i64::MIN), |(lowest, highest), run| {
        (lowest.min(run.bounds[at].0), highest.max(run.bounds[at].1))
    });
    let scale = Scale::new(scorer.normalization, lowest, highest);
    // Scaling either keeps the order of all raw scores or reverses all of it: if what becomes of the lowest and the highest one is
    // within bounds, so is the rest.
    let is_fine = |raw: i64| is_within_bounds(scale.score(raw));
    (is_fine(lowest) && is_fine(highest)).then_some(())?;
    // One score for all changes nothing about which node is best, and unscaled ones were added with their run.
    if scorer.normalization != Normalization::None && lowest != highest {
        for run in runs {
            scale.add_weighted(&run.raw[at], scorer.weight, &mut run.totals);
        }
    }
    Some(())
}
