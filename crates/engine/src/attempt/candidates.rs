//! All nodes on which a pod fits, for callers that want to choose for themselves.

use std::cmp::Reverse;

use kube_scheduler_cache::ChangeKinds;
use kube_scheduler_cache::reads::Reads;
use kube_scheduler_framework::{CycleState, NodeIdx};
use kube_scheduler_runtime::SkipSet;

use super::{NoChoice, Search};
use crate::evaluation::{Evaluation, EvaluationFailure, ScoreTable, verdicts_with_nominated_pods};

/// Where a pod fits, and what that was read from.
#[derive(Debug)]
pub(crate) struct Candidates {
    /// The best first; of equally good ones the first by name. Empty if the pod fits nowhere.
    pub(crate) nodes: Vec<NodeIdx>,
    /// What plugins left for later extension points; empty when none of those reads it.
    pub(crate) state: CycleState,
    /// What the filters' answers were read from, all nodes and plugins together.
    pub(crate) reads: Reads,
    /// Whether the answer about a node depends on that node alone, as long as no versioned table (such as objects) changes.
    pub(crate) is_local: bool,
    /// Whether plugins compare a node's pods with its properties through sums alone (requested against allocatable). Then nodes
    /// with equal sums on which the pod fits stay interchangeable, whatever is placed on them.
    pub(crate) goes_by_sums: bool,
}

impl Search<'_, '_> {
    /// All nodes on which the pod fits, from scratch. Neither extenders nor PostFilter are asked.
    pub(crate) fn candidates(self) -> Result<Candidates, NoChoice> {
        let (runner, pod) = (self.runner, self.pod);
        if self.n_nodes() == 0 {
            return Err(NoChoice::NoNodes);
        }
        let (state, pre_filter) = self.pre_filter();
        let mut evaluation = match self.evaluate(state, pre_filter) {
            Ok(evaluation) => evaluation,
            Err(EvaluationFailure::Broken(failure)) => {
                return Err(NoChoice::Broken(failure.status));
            }
            Err(EvaluationFailure::Rejected(rejection)) => {
                let reads =
                    rejection.pre_filter.reads.without(&SkipSet::default(), &SkipSet::default());
                return Ok(Candidates {
                    nodes: Vec::new(),
                    state: CycleState::new(),
                    reads: reads.union(),
                    is_local: reads.can_be_cached(),
                    goes_by_sums: false,
                });
            }
        };
        let reads = evaluation.reads_without(&SkipSet::default(), &SkipSet::default());
        let goes_by_sums = self.goes_by_sums(&evaluation);
        let changes = verdicts_with_nominated_pods(&runner, pod, &evaluation, None);
        evaluation.replace(changes.map_err(NoChoice::Broken)?);
        let cluster = runner.cx.cluster;
        let mut nodes = evaluation.feasible(cluster);
        if nodes.len() > 1 {
            let table = ScoreTable::new(&runner, &mut evaluation.state, pod, &nodes);
            let totals = table.map_err(NoChoice::Broken)?.totals;
            let mut ranked: Vec<(Reverse<i64>, NodeIdx)> =
                totals.into_iter().map(Reverse).zip(nodes).collect();
            ranked.sort_unstable_by_key(|(total, node)| (*total, cluster.node_name(*node)));
            nodes = ranked.into_iter().map(|(_, node)| node).collect();
        }
        let state = if self.keeps_state() { evaluation.state } else { CycleState::new() };
        let (reads, is_local) = (reads.union(), reads.can_be_cached());
        Ok(Candidates { nodes, state, reads, is_local, goes_by_sums })
    }

    fn goes_by_sums(&self, evaluation: &Evaluation) -> bool {
        let looked = ChangeKinds::PODS | ChangeKinds::POD_STATUS;
        let allowed = looked | ChangeKinds::ALLOCATABLE;
        !self.runner.cx.nominated.has_nominated_pods()
            && self.runner.profile.filter().all(|(idx, ..)| {
                let reads = evaluation.pre_filter.reads.of_plugin(idx);
                let reads = reads.map(|reads| reads.get().per_node).unwrap_or_default();
                let kinds = reads.node_kinds();
                !kinds.intersects(looked) || allowed.contains(kinds) && !reads.has_single_pods()
            })
    }
}
