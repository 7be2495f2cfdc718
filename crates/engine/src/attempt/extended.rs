//! What extenders have to say about the nodes that the plugins left.
//!
//! Extenders answer about single pods, so they are asked in every attempt, also when the plugins' answers are shared by a
//! class: what they say changes a copy of the evaluation and never gets back into the cache.
//!
//! Parity: an extender that is sent whole nodes may send back other ones. The reference goes on with those, as nodes
//! without any pod, so that scores see empty nodes and a name that it never sent can be chosen. Here only the names
//! count, and they must be among those that were sent.

use kube_scheduler_framework::{ExtenderScores, NodeIdx, NodeSet, Status};

use super::{NoChoice, Search};
use crate::evaluation::Evaluation;
use crate::score_tree::{NO_SCORE, first_best_of};

/// What extenders have said of single nodes.
pub(super) type Said = Vec<(NodeIdx, Status)>;

impl Search<'_, '_> {
    /// Lets extenders narrow the nodes that pass. `None` when they change nothing, otherwise a changed copy. `earlier` is what
    /// they said when the nominated node was tried.
    pub(super) fn narrowed(
        &self,
        evaluation: &Evaluation,
        earlier: Said,
    ) -> Result<Option<Evaluation>, NoChoice> {
        if self.extenders.is_empty() {
            return Ok(None);
        }
        let runner = &self.runner;
        let cluster = runner.cx.cluster;
        let passing = evaluation.feasible(cluster);
        let n_passing = passing.len();
        let verdicts =
            self.extenders.filter(cluster, self.pod, passing.clone()).map_err(NoChoice::Broken)?;
        let is_narrowed = verdicts.survivors.len() != n_passing;
        if !is_narrowed && n_passing > 0 {
            return Ok(None);
        }
        let survivors: NodeSet = verdicts.survivors.into_iter().collect();
        let dropped = passing.into_iter().filter(|node| !survivors.contains(*node));
        let mut changes: Vec<_> = dropped.map(|node| (node, None)).collect();
        let is_open = |node: NodeIdx| evaluation.verdicts.rejection(node).is_none();
        let said = earlier
            .into_iter()
            .filter(|(node, _)| is_open(*node))
            .chain(verdicts.statuses)
            .filter(|(node, _)| !survivors.contains(*node));
        changes.extend(said.map(|(node, status)| (node, Some(status))));
        if changes.is_empty() {
            return Ok(None);
        }
        let mut narrowed = evaluation.clone();
        narrowed.change_verdicts(runner, self.pod, &changes).map_err(NoChoice::Broken)?;
        narrowed.rejected_outside = is_narrowed;
        Ok(Some(narrowed))
    }

    /// The best passing node, with what extenders think of it. Needs at least one.
    pub(super) fn best(&self, evaluation: &mut Evaluation) -> Result<Option<NodeIdx>, Status> {
        let runner = &self.runner;
        let cluster = runner.cx.cluster;
        let best = evaluation.best(runner, self.pod, self.pool)?;
        if self.extenders.is_empty() {
            return Ok(best);
        }
        let feasible = evaluation.feasible(cluster);
        let Some(scores) = self.extenders.prioritize(cluster, self.pod, &feasible) else {
            return Ok(best);
        };
        let scoring = evaluation.scoring(runner, self.pod)?;
        let mut totals = vec![NO_SCORE; cluster.order().len()];
        let mut is_mentioned = vec![false; totals.len()];
        for (idx, added) in feasible.iter().zip(&scores.by_node) {
            let Some(at) = cluster.position(*idx).filter(|at| *at < totals.len()) else { continue };
            totals[at] = sum(scoring.total(*idx)?, *added);
            is_mentioned[at] = added.is_some();
        }
        Ok(best_of(totals, &is_mentioned).and_then(|at| cluster.order().get(at).copied()))
    }
}

/// The position of the best of some nodes with these totals, with what extenders add to them.
pub(super) fn best_with(mut totals: Vec<i64>, scores: Option<ExtenderScores>) -> Option<usize> {
    let Some(ExtenderScores { by_node }) = scores else { return first_best_of(&totals) };
    for (total, added) in totals.iter_mut().zip(&by_node) {
        *total = sum(*total, *added);
    }
    let is_mentioned: Vec<bool> = by_node.iter().map(Option::is_some).collect();
    best_of(totals, &is_mentioned)
}

/// Whatever an extender adds, the node can be chosen.
fn sum(total: i64, added: Option<i64>) -> i64 {
    total.wrapping_add(added.unwrap_or(0)).max(NO_SCORE + 1)
}

/// Of the nodes with the best total those go first that an extender mentioned. Among them any would be legal, as the
/// reference draws lots; here the order of the list decides, as without extenders.
fn best_of(mut totals: Vec<i64>, is_mentioned: &[bool]) -> Option<usize> {
    let best = totals.iter().copied().max()?;
    let is_best_mentioned = |(total, is_mentioned): (&i64, &bool)| *total == best && *is_mentioned;
    if totals.iter().zip(is_mentioned).any(is_best_mentioned) {
        for (total, is_mentioned) in totals.iter_mut().zip(is_mentioned) {
            if !is_mentioned {
                *total = NO_SCORE;
            }
        }
    }
    first_best_of(&totals)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(by_node: &[Option<i64>]) -> Option<ExtenderScores> {
        Some(ExtenderScores { by_node: by_node.to_vec() })
    }

    #[test]
    fn mentioned_nodes_win_ties_and_nothing_else() {
        assert_eq!(best_with(vec![5, 5, 5], None), Some(0));
        assert_eq!(best_with(vec![5, 5, 5], scores(&[None, None, Some(0)])), Some(2));
        assert_eq!(best_with(vec![6, 5, 5], scores(&[None, None, Some(0)])), Some(0));
        assert_eq!(best_with(vec![5, 5, 5], scores(&[Some(-1), Some(0), Some(0)])), Some(1));
        assert_eq!(best_with(vec![5, 5], scores(&[Some(0), Some(0)])), Some(0));
    }

    #[test]
    fn the_worst_possible_score_can_still_be_chosen() {
        assert_eq!(best_with(vec![0], scores(&[Some(i64::MIN)])), Some(0));
        assert_eq!(best_with(vec![1, 0], scores(&[Some(i64::MAX), Some(7)])), Some(1), "wraps");
    }
}
