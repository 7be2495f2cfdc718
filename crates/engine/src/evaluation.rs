//! What one pod means for every node: verdicts, scores, and the best of them.
//!
//! An evaluation is made from scratch once, and then kept up to date by looking only at nodes that changed. The two ways
//! give the same answers; `tests` compares them over random histories.
//!
//! Invariants: a slot has a score in the tree exactly when its node passes and is in the list; the `scale` of
//! a plugin whose scores are scaled spans the raw scores of passing nodes.

mod once;
mod scoring;

use std::sync::Arc;

use kube_scheduler_api_types::Pod;
use kube_scheduler_framework::{
    ClusterState, Code, CycleState, Diagnosis, EXTENDER, Meter, MeteredPoint, NodeIdx, PhaseReads,
    PreFilterRun, Runner, SkipSet, Status, Verdicts,
};
use smallvec::SmallVec;

pub(crate) use scoring::{ScoreColumn, Scoring, columns_of_sample, totals_of};

use crate::pool::Pool;

/// How a pod fares on every node.
#[derive(Clone, Debug)]
pub(crate) struct Evaluation {
    /// What PreFilter and PreScore left for later extension points.
    pub(crate) state: CycleState,
    /// What PreFilter said.
    pub(crate) pre_filter: PreFilterRun,
    /// The answer of every node in the list; nodes outside `pre_filter.node_names` are absent.
    pub(crate) verdicts: Verdicts,
    /// What absent means.
    pub(crate) absent: Status,
    /// Whether extenders have turned nodes down.
    pub(crate) rejected_outside: bool,
    /// Whether it serves one pod only, so that scores need not be kept.
    pub(crate) is_for_once: bool,
    n_feasible: usize,
    scoring: Option<Scoring>,
}

/// What a rejection by PreFilter leaves behind.
#[derive(Clone, Debug)]
pub(crate) struct Rejected {
    pub(crate) diagnosis: Diagnosis,
    pub(crate) pre_filter: PreFilterRun,
    pub(crate) state: CycleState,
}

/// Why there is no evaluation.
#[derive(Clone, Debug)]
pub(crate) enum EvaluationFailure {
    /// PreFilter turned the pod down for all nodes; the diagnosis says how.
    Rejected(Box<Rejected>),
    /// Something broke.
    Error(Status),
}

impl Evaluation {
    /// Looks at every node.
    pub(crate) fn new(
        runner: &Runner<'_>,
        pod: &Pod,
        pool: &Pool,
    ) -> Result<Self, EvaluationFailure> {
        let mut state = CycleState::new();
        let pre_filter = runner.pre_filter(&mut state, pod);
        Self::after_pre_filter(runner, pod, pool, state, pre_filter)
    }

    /// Looks at every node that PreFilter left.
    pub(crate) fn after_pre_filter(
        runner: &Runner<'_>,
        pod: &Pod,
        pool: &Pool,
        state: CycleState,
        pre_filter: PreFilterRun,
    ) -> Result<Self, EvaluationFailure> {
        if !pre_filter.status.is_success() {
            return Err(pre_filter_failure(pre_filter, state));
        }
        let reads = pre_filter.reads.clone();
        let runner = &runner.recording(&reads);
        let cluster = runner.cx.cluster;
        let absent = match &pre_filter.node_names {
            Some(_) => Runner::left_out_status(&pre_filter.restricting),
            None => Status::SUCCESS,
        };
        let mut nodes = pool.list(cluster.capacity());
        list_nodes_by_slot(cluster, &pre_filter, &mut nodes);
        let mut verdicts = pool.verdicts(cluster.capacity());
        let begun = runner.profile.meter().map(Meter::nanos);
        let passed = pool.filter(runner, &state, pod, &nodes, &pre_filter.skip, &mut verdicts);
        let code = if passed.is_ok() { Code::Success } else { Code::Error };
        runner.point_ended(MeteredPoint::Filter, code, begun);
        passed.map_err(|status| {
            let nodes = nodes_in_scope(cluster, &pre_filter);
            let answers = AnswersInOrder::new(runner, &state, pod, &nodes, &pre_filter.skip);
            EvaluationFailure::Error(answers.error.unwrap_or(status))
        })?;
        drop(nodes);
        let n_feasible = verdicts.n_passing();
        Ok(Self {
            state,
            pre_filter,
            verdicts,
            absent,
            rejected_outside: false,
            is_for_once: false,
            n_feasible,
            scoring: None,
        })
    }

    /// What the answers were read from, beside the pod: decides whether and how long they can be cached.
    pub(crate) fn reads(&self) -> PhaseReads {
        self.pre_filter.reads.all()
    }

    /// How many nodes pass.
    pub(crate) fn n_feasible(&self) -> usize {
        self.n_feasible
    }

    /// The nodes that pass, in list order. O(nodes).
    pub(crate) fn feasible(&self, cluster: &ClusterState) -> Vec<NodeIdx> {
        cluster.order().iter().copied().filter(|idx| self.verdicts.passes(*idx)).collect()
    }

    /// Looks again at `changed` nodes, which may be gone, new, or different.
    pub(crate) fn refresh(
        &mut self,
        runner: &Runner<'_>,
        pod: &Pod,
        changed: &[NodeIdx],
    ) -> Result<(), Status> {
        let reads = self.pre_filter.reads.clone();
        let runner = &runner.recording(&reads);
        let cluster = runner.cx.cluster;
        self.verdicts.grow(cluster.capacity());
        let begun = runner.profile.meter().map(Meter::nanos);
        let mut answers: SmallVec<[(NodeIdx, Option<Status>); 4]> = SmallVec::new();
        for &idx in changed {
            let status = match runner.node(idx) {
                Some(view) if self.is_in_scope(view.name()) => {
                    let status = runner.filter(&self.state, pod, &view, &self.pre_filter.skip);
                    if !status.is_success() && !status.is_rejected() {
                        runner.point_ended(MeteredPoint::Filter, Code::Error, begun);
                        return Err(status);
                    }
                    Some(status)
                }
                _ => None,
            };
            answers.push((idx, status));
        }
        // The scores' measuring begins where the filters' ends, which saves reading the timer.
        let filtered =
            runner.profile.meter().zip(begun).map(|(meter, begun)| {
                meter.point_ended(MeteredPoint::Filter, Code::Success, begun)
            });
        for (idx, status) in &answers {
            self.apply(runner, pod, *idx, status.as_ref())?;
        }
        if let Some(scoring) = &mut self.scoring {
            scoring.settle(cluster, &self.verdicts)?;
            runner.point_ended(MeteredPoint::Score, Code::Success, filtered);
        }
        Ok(())
    }

    /// Replaces the answers of single nodes, for the length of one attempt.
    pub(crate) fn override_verdicts(
        &mut self,
        runner: &Runner<'_>,
        pod: &Pod,
        verdicts: &[(NodeIdx, Status)],
    ) -> Result<(), Status> {
        let changes: Vec<_> =
            verdicts.iter().map(|(idx, status)| (*idx, Some(status.clone()))).collect();
        self.change_verdicts(runner, pod, &changes)
    }

    /// As [`override_verdicts`](Self::override_verdicts); `None` takes a node's answer away, so that it does not pass.
    pub(crate) fn change_verdicts(
        &mut self,
        runner: &Runner<'_>,
        pod: &Pod,
        changes: &[(NodeIdx, Option<Status>)],
    ) -> Result<(), Status> {
        let reads = self.pre_filter.reads.clone();
        let runner = &runner.recording(&reads);
        for (idx, status) in changes {
            self.apply(runner, pod, *idx, status.as_ref())?;
        }
        if let Some(scoring) = &mut self.scoring {
            scoring.settle(runner.cx.cluster, &self.verdicts)?;
        }
        Ok(())
    }

    /// Whether the node has no answer of its own.
    pub(crate) fn is_left_out(&self, idx: NodeIdx) -> bool {
        !self.verdicts.passes(idx) && self.verdicts.rejection(idx).is_none()
    }

    fn is_in_scope(&self, name: &Arc<str>) -> bool {
        self.pre_filter.node_names.as_ref().is_none_or(|names| names.contains(name))
    }

    /// Records one node's new answer; `None` when it is not in the list any more.
    fn apply(
        &mut self,
        runner: &Runner<'_>,
        pod: &Pod,
        idx: NodeIdx,
        status: Option<&Status>,
    ) -> Result<(), Status> {
        let passed = self.verdicts.passes(idx);
        match status {
            Some(status) => self.verdicts.put(idx, status),
            None => self.verdicts.set(idx, kube_scheduler_framework::VerdictId::ABSENT),
        }
        let passes = self.verdicts.passes(idx);
        self.n_feasible = self.n_feasible + usize::from(passes) - usize::from(passed);
        if let Some(scoring) = &mut self.scoring {
            scoring.update(runner, &self.state, pod, idx, passed, passes)?;
        }
        Ok(())
    }

    /// The scores of all passing nodes, computed on first use: with PreScore, as the reference does only when there is a
    /// choice.
    pub(crate) fn scoring(&mut self, runner: &Runner<'_>, pod: &Pod) -> Result<&Scoring, Status> {
        match self.scoring {
            Some(ref scoring) => Ok(scoring),
            None => {
                let feasible = self.feasible(runner.cx.cluster);
                let runner = runner.recording(&self.pre_filter.reads);
                let scoring = Scoring::new(&runner, &mut self.state, pod, &feasible)?;
                Ok(self.scoring.insert(scoring))
            }
        }
    }

    /// The best passing node. Needs at least one.
    pub(crate) fn best(
        &mut self,
        runner: &Runner<'_>,
        pod: &Pod,
        pool: &Pool,
    ) -> Result<Option<NodeIdx>, Status> {
        if self.is_for_once && self.scoring.is_none() {
            let mut feasible = pool.list(self.verdicts.n_passing());
            self.verdicts.passing(&mut feasible);
            return once::best_once(runner, pool, &mut self.state, pod, &feasible);
        }
        let position = self.scoring(runner, pod)?.first_best();
        Ok(position.and_then(|at| runner.cx.cluster.order().get(at).copied()))
    }

    /// Whether the scores can be kept up to date node by node.
    pub(crate) fn is_incremental(&self) -> bool {
        self.scoring.as_ref().is_none_or(Scoring::is_incremental)
    }

    /// Why no node passes.
    pub(crate) fn diagnosis(&self) -> Diagnosis {
        let mut diagnosis = Diagnosis { absent: self.absent.clone(), ..Diagnosis::default() };
        diagnosis.unschedulable_plugins.clone_from(&self.pre_filter.restricting);
        diagnosis.absorb(&self.verdicts);
        if self.rejected_outside {
            diagnosis.unschedulable_plugins.insert(EXTENDER.into());
        }
        diagnosis
    }
}

/// What nodes answer one after the other until one answers with an error.
///
/// A scan of the whole cluster meets errors plugin by plugin. The reference goes node by node, so where several nodes err
/// it reports another one's error, and it knows the answers of the nodes before.
#[derive(Clone, Debug)]
pub(crate) struct AnswersInOrder {
    /// The answers before the error.
    pub(crate) answers: Vec<(NodeIdx, Status)>,
    /// The first error.
    pub(crate) error: Option<Status>,
}

impl AnswersInOrder {
    /// Asks `nodes` in this order.
    pub(crate) fn new(
        runner: &Runner<'_>,
        state: &CycleState,
        pod: &Pod,
        nodes: &[NodeIdx],
        skip: &SkipSet,
    ) -> Self {
        let mut answers = Vec::new();
        for &idx in nodes {
            let Some(view) = runner.node(idx) else { continue };
            let status = runner.filter(state, pod, &view, skip);
            if !status.is_success() && !status.is_rejected() {
                return Self { answers, error: Some(status) };
            }
            answers.push((idx, status));
        }
        Self { answers, error: None }
    }
}

/// The nodes that PreFilter left, in list order.
pub(crate) fn nodes_in_scope(cluster: &ClusterState, pre_filter: &PreFilterRun) -> Vec<NodeIdx> {
    let Some(names) = &pre_filter.node_names else { return cluster.order().to_vec() };
    let mut nodes: Vec<(usize, NodeIdx)> = names
        .iter()
        .filter_map(|name| cluster.node_idx(name))
        .filter_map(|idx| Some((cluster.position(idx)?, idx)))
        .collect();
    nodes.sort_unstable();
    nodes.into_iter().map(|(_, idx)| idx).collect()
}

/// Lists the nodes that PreFilter left, in the order of their slots, in which columns are fastest to read.
pub(crate) fn list_nodes_by_slot(
    cluster: &ClusterState,
    pre_filter: &PreFilterRun,
    nodes: &mut Vec<NodeIdx>,
) {
    if pre_filter.node_names.is_none() && !cluster.order_is_stale() {
        cluster.live_nodes().list(nodes);
        return;
    }
    nodes.extend(nodes_in_scope(cluster, pre_filter));
    nodes.sort_unstable();
}

/// What a failed PreFilter means.
pub(crate) fn pre_filter_failure(run: PreFilterRun, state: CycleState) -> EvaluationFailure {
    if !run.status.is_rejected() {
        return EvaluationFailure::Error(run.status);
    }
    let mut diagnosis = Diagnosis {
        absent: run.status.clone(),
        pre_filter_message: run.status.message(),
        unschedulable_plugins: run.restricting.clone(),
        ..Diagnosis::default()
    };
    diagnosis.blame(&run.status);
    EvaluationFailure::Rejected(Box::new(Rejected { diagnosis, pre_filter: run, state }))
}
