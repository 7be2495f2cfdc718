//! The best node for a pod without a cached evaluation: scores are added up in one column of totals and not kept.
//!
//! Plugins that promise bounds come last, and are asked only about nodes that can still win: the others are so far behind that
//! even the highest score of these plugins would not help.
//!
//! Invariant: the node, and the error if there is one, are those of [`ScoreTable`].

use std::cmp::Reverse;

use kube_scheduler_api_types::Pod;
use kube_scheduler_framework::{Code, CycleState, NodeIdx, Normalization, Status};
use kube_scheduler_runtime::{
    MeteredPoint, Runner, Scale, SkipSet, are_within_bounds, bounds, is_within_bounds,
};
use smallvec::SmallVec;

use super::{Evaluation, ScoreTable, Scorer, deciding_scorers};
use crate::buffers::Buffers;
use crate::preference::{TieBreak, first_best};

/// The best node that passes, `None` when there is none. Runs PreScore.
pub(crate) fn best_node(
    runner: &Runner<'_>,
    buffers: &Buffers,
    pod: &Pod,
    evaluation: &mut Evaluation,
    ties: TieBreak,
) -> Result<Option<NodeIdx>, Status> {
    let mut feasible = buffers.list(evaluation.verdicts.n_passing() + 1);
    evaluation.verdicts.passing(&mut feasible);
    let skip = runner.pre_score(&mut evaluation.state, pod, &feasible, &SkipSet::default())?;
    let started = runner.profile.point_start();
    let search =
        Search { runner, buffers, state: &evaluation.state, pod, feasible: &feasible, ties };
    let best = match search.best(&skip) {
        Some(best) => Ok(best),
        None => search.best_in_list_order(&skip),
    };
    let code = best.as_ref().err().map_or(Code::Success, Status::code);
    runner.profile.point_ended(MeteredPoint::Score, code, started);
    best
}

type Scorers<'a> = SmallVec<[Scorer<'a>; 8]>;

struct Search<'a> {
    runner: &'a Runner<'a>,
    buffers: &'a Buffers,
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
        let n = self.feasible.len();
        let (mut totals, mut column) = (self.buffers.column(n), self.buffers.column(n));
        totals.fill(0);
        for scorer in &scorers {
            self.add(scorer, &mut column, &mut totals)?;
        }
        self.best_of(&mut totals, &mut column, &bounded)
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

    /// Adds the weighted scores of one plugin to `totals`; `column` is for numbers meanwhile. `None` when it fails, or when one of its
    /// scores is out of bounds.
    fn add(&self, scorer: &Scorer<'_>, column: &mut [i64], totals: &mut [i64]) -> Option<()> {
        let Self { runner, state, pod, feasible, .. } = *self;
        self.raw_scores(scorer, feasible, column)?;
        if scorer.normalization == Normalization::Custom {
            runner.normalize_and_weigh(scorer.idx, state, pod, feasible, column).ok()?;
            Scale::IDENTITY.add_weighted(column, 1, totals);
            return Some(());
        }
        let (lowest, highest) = bounds(column);
        let scale = Scale::new(scorer.normalization, lowest, highest);
        // Scaling either keeps the order of all raw scores or reverses all of it: if what becomes of the lowest and the highest one is
        // within bounds, so is the rest.
        let is_fine = |raw: i64| is_within_bounds(scale.score(raw));
        (is_fine(lowest) && is_fine(highest)).then_some(())?;
        // One score for all changes nothing about which node is best.
        if lowest != highest {
            scale.add_weighted(column, scorer.weight, totals);
        }
        Some(())
    }

    fn raw_scores(&self, scorer: &Scorer<'_>, nodes: &[NodeIdx], column: &mut [i64]) -> Option<()> {
        self.runner.raw_scores(scorer.idx, self.state, self.pod, nodes, column).ok()
    }

    /// The best node, with the scores of `bounded` plugins added to `totals`, those of [`feasible`](Self::feasible). `column` is for
    /// numbers meanwhile.
    fn best_of(
        &self,
        totals: &mut [i64],
        column: &mut [i64],
        bounded: &[Scorer<'_>],
    ) -> Option<Option<NodeIdx>> {
        let most = bounds(totals).1;
        let leader = self.feasible[totals.iter().position(|total| *total == most)?];
        // What one of the leading nodes gets to the end rules out more of the others than what it has so far.
        let (mut reached, mut room) = (most, 0);
        let mut missed: SmallVec<[(i64, &Scorer<'_>); 8]> = SmallVec::new();
        for scorer in bounded {
            let mut gained = [0];
            self.add_bounded(scorer, &[leader], &mut [0], &mut gained)?;
            reached += gained[0];
            room += scorer.most();
            missed.push((scorer.most() - gained[0], scorer));
        }
        // A plugin from which one of the leading nodes misses much mostly gives little to others too: after it, fewer are left for the
        // rest.
        missed.sort_by_key(|(missed, _)| Reverse(*missed));
        let mut nodes = self.buffers.list(totals.len());
        nodes.clear();
        nodes.extend_from_slice(self.feasible);
        let mut n = totals.len();
        for (_, scorer) in missed {
            n = keep_near(&mut nodes[..n], &mut totals[..n], reached.saturating_sub(room));
            self.add_bounded(scorer, &nodes[..n], &mut column[..n], &mut totals[..n])?;
            room -= scorer.most();
        }
        Some(self.first(&nodes[..n], &totals[..n]))
    }

    /// Adds what one of the plugins that promise bounds gives to the totals of `nodes`; `column` is for numbers meanwhile. `None` when
    /// it fails or breaks its promise.
    fn add_bounded(
        &self,
        scorer: &Scorer<'_>,
        nodes: &[NodeIdx],
        column: &mut [i64],
        totals: &mut [i64],
    ) -> Option<()> {
        self.raw_scores(scorer, nodes, column)?;
        are_within_bounds(column).then_some(())?;
        Scale::IDENTITY.add_weighted(column, scorer.weight, totals);
        Some(())
    }

    /// The best of `nodes` by their `totals`; of several the one that is preferred by its place in the list.
    fn first(&self, nodes: &[NodeIdx], totals: &[i64]) -> Option<NodeIdx> {
        let cluster = self.runner.cx.cluster;
        first_best(totals, |at| self.ties.order(cluster.position(nodes[at]))).map(|at| nodes[at])
    }
}

/// Moves those of `nodes` whose total is at least `least` to the front, in their order and with their `totals`. Returns how many they
/// are.
fn keep_near(nodes: &mut [NodeIdx], totals: &mut [i64], least: i64) -> usize {
    let len = nodes.len().min(totals.len());
    let (nodes, totals) = (&mut nodes[..len], &mut totals[..len]);
    let mut n = 0;
    for at in 0..len {
        // Branchless: a node that is too far behind is overwritten by the next one, instead of a branch that the processor would
        // mispredict.
        let (node, total) = (nodes[at], totals[at]);
        (nodes[n], totals[n]) = (node, total);
        n += usize::from(total >= least);
    }
    n
}
