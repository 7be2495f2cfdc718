//! The reference's way of looking at a share of the nodes only: in list order from a moving start, until enough fit.
//!
//! Behaviour: `docs/spec/core.md` §4.1 to §4.3 and §4.7, followed exactly, as a sequential scan.

use std::borrow::Cow;

use kube_scheduler_cache::NodeOverlay;
use kube_scheduler_framework::{NodeIdx, Status, VerdictId};

use super::extenders::ExtenderStatuses;
use super::{Choice, NoChoice, NominationFailure, Search};
use crate::evaluation::Evaluation;

/// Below this number of nodes all are looked at.
const MIN_NODES_TO_SAMPLE: i64 = 100;
/// The least share, in percent, that the adaptive rule goes down to.
const MIN_ADAPTIVE_PERCENTAGE: i64 = 5;

/// How many fitting nodes are enough. A percentage of 0 adapts to the number of nodes.
pub(crate) fn n_feasible_to_find(n_nodes: usize, percentage: i32) -> usize {
    let n = i64::try_from(n_nodes).unwrap_or(i64::MAX);
    if n < MIN_NODES_TO_SAMPLE {
        return n_nodes;
    }
    let mut percentage = i64::from(percentage);
    if percentage == 0 {
        percentage = (50 - n / 125).max(MIN_ADAPTIVE_PERCENTAGE);
    }
    let enough = (n * percentage / 100).max(MIN_NODES_TO_SAMPLE);
    usize::try_from(enough).unwrap_or(n_nodes)
}

impl Search<'_, '_> {
    /// Scans from the moving start until enough nodes fit, and scores those.
    pub(super) fn sampled(
        &mut self,
        percentage: i32,
        failure: Option<Box<NominationFailure>>,
    ) -> Result<Choice, NoChoice> {
        let (mut rejection, mut earlier) = (None, ExtenderStatuses::new());
        let (state, pre_filter) = match failure.map(|failure| *failure) {
            Some(failure) => {
                (rejection, earlier) = (failure.rejection, failure.extender_statuses);
                (failure.state, failure.pre_filter)
            }
            None => self.pre_filter(),
        };
        let mut evaluation =
            Evaluation::after_pre_filter(&self.runner, self.buffers, state, pre_filter)
                .map(|evaluation| evaluation.kept_to(self.nodes))
                .map_err(|failure| self.failed(failure))?;
        let cluster = self.runner.cx.cluster;
        let nodes = evaluation.nodes_in_scope(cluster);
        let limit =
            if self.one_is_enough() { 1 } else { n_feasible_to_find(nodes.len(), percentage) };
        // What the nominated node said stays, and counts, even if the scan never gets there.
        evaluation.replace(rejection.map(|(node, status)| (node, Some(status))));
        let started = self.runner.profile.point_start();
        let (feasible, error) = self.scan(&mut evaluation, &nodes, limit);
        self.filtered(started, error.as_ref());
        *self.next_start = (*self.next_start + evaluation.n_evaluated()) % self.n_nodes().max(1);
        match error {
            Some(status) => Err(NoChoice::Broken(status)),
            None => self.conclude(Cow::Owned(evaluation), Some(feasible), earlier),
        }
    }

    /// Looks at `nodes` in turn until `limit` of them pass: those, and the first error. Goes on past the last accepted node
    /// until one more fits, as the reference's does: that decides which rejections are known and where the next scan begins.
    fn scan(
        &self,
        evaluation: &mut Evaluation,
        nodes: &[NodeIdx],
        limit: usize,
    ) -> (Vec<NodeIdx>, Option<Status>) {
        let (runner, pod) = (&self.runner, self.pod);
        let mut feasible = Vec::with_capacity(limit.min(nodes.len()));
        let (before, after) = nodes.split_at(*self.next_start % nodes.len().max(1));
        let has_filters = runner.profile.filter().next().is_some();
        let has_nominated = runner.cx.nominated.has_nominated_pods();
        for &idx in after.iter().chain(before) {
            let (state, skip) = (&evaluation.state, &evaluation.pre_filter.skip);
            let status = if !has_filters {
                Status::SUCCESS
            } else if has_nominated {
                runner.filter_with_nominated_pods(state, pod, &NodeOverlay::new(idx), skip)
            } else {
                match runner.node(idx) {
                    Some(view) => runner.filter(state, pod, &view, skip),
                    None => continue,
                }
            };
            if status.is_success() {
                if feasible.len() == limit {
                    break;
                }
                feasible.push(idx);
                evaluation.verdicts.set(idx, VerdictId::PASS);
            } else if status.is_rejected() {
                evaluation.verdicts.put(idx, &status);
            } else {
                return (feasible, Some(status));
            }
        }
        (feasible, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_many_are_enough() {
        let cases = [
            (10, 0, 10),
            (1000, 0, 420),
            (6000, 0, 300),
            (5000, 0, 500),
            (1000, 40, 400),
            (150, 30, 100),
            (5000, 100, 5000),
        ];
        for (n, percentage, enough) in cases {
            assert_eq!(n_feasible_to_find(n, percentage), enough, "{n} nodes, {percentage} %");
        }
    }
}
