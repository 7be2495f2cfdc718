//! The reference's way of looking at a share of the nodes only: in list order from a moving start, until enough fit.
//!
//! Behaviour: `spec/core.md` §4.1 to §4.3 and §4.7, followed exactly, as a sequential scan.

use kube_scheduler_framework::{
    Code, CycleState, EXTENDER, MeteredPoint, NodeIdx, NodeOverlay, NodeSet, NodeStatuses, Runner,
    SkipSet, Status, Verdicts,
};

use super::extended::best_with;
use super::{Begun, Choice, NoChoice, Search};
use crate::evaluation::{
    ScoreColumn, columns_of_sample, nodes_in_scope, pre_filter_failure, totals_of,
};
use crate::explain::NodeScores;
use crate::observer::SearchStep;

/// Below this number of nodes all are looked at.
const MIN_NODES_TO_SAMPLE: i64 = 100;
/// The least share, in percent, that the adaptive rule goes down to.
const MIN_ADAPTIVE_PERCENTAGE: i64 = 5;

/// How many fitting nodes are enough. A percentage of 0 adapts to the number of nodes.
pub(super) fn n_feasible_to_find(n_nodes: usize, percentage: i32) -> usize {
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
        begun: Option<Begun>,
    ) -> Result<Choice, NoChoice> {
        let runner = self.runner;
        let cluster = runner.cx.cluster;
        let Begun { mut state, pre_filter, rejection, said } =
            begun.unwrap_or_else(|| self.begin());
        if !pre_filter.status.is_success() {
            return Err(self.failed(pre_filter_failure(pre_filter, state)));
        }
        let candidates = nodes_in_scope(cluster, &pre_filter);
        let absent = match &pre_filter.node_names {
            Some(_) => Runner::left_out_status(&pre_filter.restricting),
            None => Status::SUCCESS,
        };
        let limit =
            if self.one_is_enough() { 1 } else { n_feasible_to_find(candidates.len(), percentage) };
        let mut verdicts = Verdicts::absent(cluster.capacity());
        // What the nominated node said stays, and counts, even if the scan never gets there.
        if let Some((node, status)) = &rejection {
            verdicts.put(*node, status);
        }
        let started = self.started();
        let scan = scan(self, &state, &pre_filter.skip, &candidates, limit, &mut verdicts);
        let n_rejected = verdicts.n_rejected();
        let (feasible, error) = scan;
        self.filtered(started, error.as_ref());
        *self.next_start =
            (*self.next_start + feasible.len() + n_rejected) % cluster.n_nodes().max(1);
        if let Some(status) = error {
            return Err(NoChoice::Broken(status));
        }
        self.watched.reached(SearchStep::NodesFiltered);
        let n_found = feasible.len();
        let said_now =
            self.extenders.filter(cluster, self.pod, feasible).map_err(NoChoice::Broken)?;
        let feasible = said_now.survivors;
        let survivors: NodeSet = feasible.iter().copied().collect();
        for (node, status) in said.iter().chain(&said_now.statuses) {
            if !survivors.contains(*node) {
                verdicts.put(*node, status);
            }
        }
        let n_rejected = verdicts.n_rejected();
        if feasible.is_empty() {
            let mut diagnosis = kube_scheduler_framework::Diagnosis {
                absent: absent.clone(),
                ..Default::default()
            };
            diagnosis.unschedulable_plugins.clone_from(&pre_filter.restricting);
            diagnosis.absorb(&verdicts);
            if n_found > 0 {
                diagnosis.unschedulable_plugins.insert(EXTENDER.into());
            }
            let statuses = NodeStatuses { verdicts: &verdicts, absent: &absent };
            return Err(self.unfit(diagnosis, statuses, &state, &pre_filter.skip));
        }
        let mut node = feasible[0];
        if feasible.len() > 1 {
            let skip =
                runner.pre_score(&mut state, self.pod, &feasible).map_err(NoChoice::Broken)?;
            let started = self.started();
            let columns = columns_of_sample(&runner, &state, &skip, self.pod, &feasible);
            let code = columns.as_ref().err().map_or(Code::Success, Status::code);
            runner.point_ended(MeteredPoint::Score, code, started);
            let columns = columns.map_err(NoChoice::Broken)?;
            let totals = totals_of(&columns, feasible.len());
            if self.watched.wants_scores() && !columns.is_empty() {
                self.tell_sample(&feasible, &columns, &totals);
            }
            let scores = self.extenders.prioritize(cluster, self.pod, &feasible);
            let best = best_with(totals, scores);
            node = best.and_then(|at| feasible.get(at).copied()).unwrap_or(node);
            self.watched.reached(SearchStep::NodesScored);
        }
        Ok(Choice {
            node,
            state,
            n_feasible: feasible.len(),
            n_evaluated: feasible.len() + n_rejected,
        })
    }

    /// Tells what every node of the sample got.
    fn tell_sample(&self, nodes: &[NodeIdx], columns: &[ScoreColumn], totals: &[i64]) {
        let cluster = self.runner.cx.cluster;
        let named: Vec<_> = nodes
            .iter()
            .zip(totals)
            .enumerate()
            .filter_map(|(at, (idx, total))| {
                let scores = columns.iter().map(|(name, column)| (name.clone(), column[at]));
                let scores = NodeScores { total: *total, by_plugin: scores.collect() };
                Some((cluster.node_name(*idx)?.clone(), scores))
            })
            .collect();
        self.watched.scored(&named);
    }
}

/// Looks at candidates in turn. Goes on past the last accepted node until one more fits, as the reference's does: that
/// decides which rejections are known and where the next scan begins.
fn scan(
    search: &Search<'_, '_>,
    state: &CycleState,
    skip: &SkipSet,
    candidates: &[NodeIdx],
    limit: usize,
    verdicts: &mut Verdicts,
) -> (Vec<NodeIdx>, Option<Status>) {
    let runner = &search.runner;
    let n = candidates.len();
    let mut feasible = Vec::with_capacity(limit.min(n));
    if n == 0 {
        return (feasible, None);
    }
    let start = *search.next_start % n;
    if runner.profile.filter().next().is_none() {
        feasible.extend(candidates.iter().cycle().skip(start).take(limit.min(n)));
        return (feasible, None);
    }
    let has_nominated = runner.cx.nominated.has_nominated_pods();
    for at in 0..n {
        let idx = candidates[(start + at) % n];
        let status = if has_nominated {
            runner.filter_with_nominated_pods(state, search.pod, &NodeOverlay::new(idx), skip)
        } else {
            match runner.node(idx) {
                Some(view) => runner.filter(state, search.pod, &view, skip),
                None => continue,
            }
        };
        if status.is_success() {
            if feasible.len() == limit {
                break;
            }
            feasible.push(idx);
        } else if status.is_rejected() {
            verdicts.put(idx, &status);
        } else {
            return (feasible, Some(status));
        }
    }
    (feasible, None)
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
