//! What extenders have to say about the nodes that the plugins left.
//!
//! Extenders answer about single pods, so they are asked in every attempt, also when the plugins' answers are shared by a
//! class: what they say changes a copy of the evaluation and never gets back into the cache.
//!
//! Parity: an extender that is sent whole nodes may send back other ones. The reference goes on with those, as nodes
//! without any pod, so that scores see empty nodes and a name that it never sent can be chosen. Here only the names
//! count, and they must be among those that were sent.

use std::borrow::Cow;

use kube_scheduler_cache::columns::NodeSet;
use kube_scheduler_framework::{NodeIdx, Status};

use super::{NoChoice, Search};
use crate::evaluation::Evaluation;
use crate::preference::first_best;

/// The answers of extenders about single nodes.
pub(super) type ExtenderStatuses = Vec<(NodeIdx, Status)>;

impl Search<'_, '_> {
    /// Lets extenders narrow the nodes that pass; whether they did. `earlier` is what they said when the nominated node
    /// was tried.
    pub(super) fn narrow(
        &self,
        evaluation: &mut Cow<'_, Evaluation>,
        sample: &mut Option<Vec<NodeIdx>>,
        earlier: ExtenderStatuses,
    ) -> Result<bool, NoChoice> {
        if self.extenders.is_empty() {
            return Ok(false);
        }
        let cluster = self.runner.cx.cluster;
        let passing = sample.clone().unwrap_or_else(|| evaluation.feasible(cluster));
        let answer =
            self.extenders.filter(cluster, self.pod, passing.clone()).map_err(NoChoice::Broken)?;
        let is_narrowed = answer.survivors.len() != passing.len();
        if !is_narrowed && !passing.is_empty() {
            return Ok(false);
        }
        let survivors: NodeSet = answer.survivors.into_iter().collect();
        let dropped = passing.into_iter().filter(|node| !survivors.contains(*node));
        let mut changes: Vec<_> = dropped.map(|node| (node, None)).collect();
        let is_open = |node: NodeIdx| evaluation.verdicts.rejection(node).is_none();
        let statuses = earlier
            .into_iter()
            .filter(|(node, _)| is_open(*node))
            .chain(answer.statuses)
            .filter(|(node, _)| !survivors.contains(*node));
        changes.extend(statuses.map(|(node, status)| (node, Some(status))));
        if !changes.is_empty() {
            evaluation.to_mut().replace(changes);
        }
        if let Some(sample) = sample {
            sample.retain(|node| survivors.contains(*node));
        }
        Ok(is_narrowed)
    }
}

/// The index of the best of some nodes, by these totals and what extenders add to them. Among equally good nodes, those that an
/// extender mentioned come first, then those with the lowest `order`. The reference picks one of them at random.
pub(super) fn best_with(
    mut totals: Vec<i64>,
    added: Option<Vec<Option<i64>>>,
    order: impl Fn(usize) -> u64,
) -> Option<usize> {
    let Some(added) = added else { return first_best(&totals, order) };
    for (total, added) in totals.iter_mut().zip(&added) {
        *total = total.wrapping_add(added.unwrap_or(0));
    }
    let best = totals.iter().copied().max()?;
    let is_mentioned = |at: usize| added.get(at).is_some_and(Option::is_some);
    let ties = || (0..totals.len()).filter(|at| totals[*at] == best);
    let mentioned = ties().filter(|at| is_mentioned(*at)).min_by_key(|at| order(*at));
    mentioned.or_else(|| ties().min_by_key(|at| order(*at)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preference::TieBreak;

    fn scores(by_node: &[Option<i64>]) -> Option<Vec<Option<i64>>> {
        Some(by_node.to_vec())
    }

    fn best(totals: Vec<i64>, added: Option<Vec<Option<i64>>>) -> Option<usize> {
        best_with(totals, added, |at| TieBreak::First.order(Some(at)))
    }

    #[test]
    fn mentioned_nodes_win_ties_and_nothing_else() {
        assert_eq!(best(vec![5, 5, 5], None), Some(0));
        assert_eq!(best(vec![5, 5, 5], scores(&[None, None, Some(0)])), Some(2));
        assert_eq!(best(vec![6, 5, 5], scores(&[None, None, Some(0)])), Some(0));
        assert_eq!(best(vec![5, 5, 5], scores(&[Some(-1), Some(0), Some(0)])), Some(1));
        assert_eq!(best(vec![5, 5], scores(&[Some(0), Some(0)])), Some(0));
    }

    #[test]
    fn the_worst_possible_score_can_still_be_chosen() {
        assert_eq!(best(vec![0], scores(&[Some(i64::MIN)])), Some(0));
        assert_eq!(best(vec![1, 0], scores(&[Some(i64::MAX), Some(7)])), Some(1), "wraps");
    }
}
