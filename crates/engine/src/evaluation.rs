//! What one pod means for every node: which nodes it fits on, and why not on the others.
//!
//! An evaluation serves one attempt, or a class of pods as long as it is [brought up to date](Evaluation::look_again)
//! by looking at changed nodes. Which of the fitting nodes is best follows from it in one of three ways:
//! [`best_node`] computes scores that are used once, [`ScoreTable`] keeps what every plugin gave, and
//! [`Ranking`](crate::ranking::Ranking) keeps the order of nodes up to date. All three choose the same node.

mod best;
mod nominations;
mod scores;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::diagnosis::Diagnosis;
use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::ClusterState;
use kube_scheduler_cache::reads::PhaseReads;
use kube_scheduler_framework::{Code, CycleState, NodeIdx, Status, VerdictId, Verdicts};
use kube_scheduler_runtime::{MeteredPoint, PreFilterRun, Runner, SkipSet};

pub(crate) use self::best::best_node;
pub(crate) use self::nominations::{NominatedVerdicts, verdicts_with_nominated_pods};
pub use self::scores::NodeScores;
pub(crate) use self::scores::{ScoreTable, Scorer, deciding_scorers};
use crate::buffers::Buffers;

/// How a pod fares on every node.
#[derive(Clone, Debug)]
pub(crate) struct Evaluation {
    /// What PreFilter and PreScore left for later extension points.
    pub(crate) state: CycleState,
    /// What PreFilter said.
    pub(crate) pre_filter: PreFilterRun,
    /// The answer of every node that was looked at. Nodes outside `pre_filter.node_names` are absent.
    pub(crate) verdicts: Verdicts,
    /// What absent means.
    pub(crate) absent: Status,
}

/// What a rejection by PreFilter leaves behind.
#[derive(Clone, Debug)]
pub(crate) struct Rejection {
    pub(crate) diagnosis: Diagnosis,
    pub(crate) pre_filter: PreFilterRun,
    pub(crate) state: CycleState,
}

/// What was known when PreFilter or a filter failed.
#[derive(Clone, Debug, Default)]
pub(crate) struct PluginFailure {
    /// The error of PreFilter, or that of the first node, in list order, for which a filter failed.
    pub(crate) status: Status,
    /// The answers of the nodes before it.
    pub(crate) answers: Vec<(NodeIdx, Status)>,
    /// The only nodes that PreFilter left, if it narrowed them.
    pub(crate) node_names: Option<BTreeSet<Arc<str>>>,
}

/// Why there is no evaluation.
#[derive(Clone, Debug)]
pub(crate) enum EvaluationFailure {
    /// PreFilter rejected the pod for all nodes; the diagnosis says how.
    Rejected(Box<Rejection>),
    /// A plugin failed.
    Broken(Box<PluginFailure>),
}

impl Evaluation {
    /// Looks at every node.
    pub(crate) fn new(
        runner: &Runner<'_>,
        pod: &Pod,
        buffers: &Buffers,
    ) -> Result<Self, EvaluationFailure> {
        let mut evaluation = Self::before_filters(runner, pod, buffers)?;
        evaluation.look_at_all(runner, pod, buffers)?;
        Ok(evaluation)
    }

    /// Runs PreFilter; no node has been looked at.
    pub(crate) fn before_filters(
        runner: &Runner<'_>,
        pod: &Pod,
        buffers: &Buffers,
    ) -> Result<Self, EvaluationFailure> {
        let mut state = CycleState::new();
        let pre_filter = runner.pre_filter(&mut state, pod);
        Self::after_pre_filter(runner, buffers, state, pre_filter)
    }

    /// The evaluation of a pod for which PreFilter has run already, with the state and the results that it left.
    pub(crate) fn after_pre_filter(
        runner: &Runner<'_>,
        buffers: &Buffers,
        state: CycleState,
        pre_filter: PreFilterRun,
    ) -> Result<Self, EvaluationFailure> {
        if !pre_filter.status.is_success() {
            return Err(pre_filter_failure(pre_filter, state));
        }
        let absent = match &pre_filter.node_names {
            Some(_) => Runner::left_out_status(&pre_filter.restricting),
            None => Status::SUCCESS,
        };
        let verdicts = buffers.verdicts(runner.cx.cluster.capacity());
        Ok(Self { state, pre_filter, verdicts, absent })
    }

    /// Leaves out all nodes but those in `names`, `None` for all. The verdicts on nodes that PreFilter left out stay as they are.
    pub(crate) fn kept_to(mut self, names: Option<&BTreeSet<Arc<str>>>) -> Self {
        let Some(names) = names else { return self };
        let left = match self.pre_filter.node_names.take() {
            Some(left) => left.intersection(names).cloned().collect(),
            None => names.clone(),
        };
        self.pre_filter.node_names = Some(left);
        self
    }

    /// Looks at every node that PreFilter left.
    pub(crate) fn look_at_all(
        &mut self,
        runner: &Runner<'_>,
        pod: &Pod,
        buffers: &Buffers,
    ) -> Result<(), EvaluationFailure> {
        let reads = self.pre_filter.reads.clone();
        let runner = &runner.recording(&reads);
        let cluster = runner.cx.cluster;
        let mut nodes = buffers.list(cluster.capacity());
        nodes.clear();
        if self.pre_filter.node_names.is_none() && !cluster.order_is_stale() {
            cluster.live_nodes().list(&mut nodes);
        } else {
            nodes.extend(self.nodes_in_scope(cluster));
            // Columns are fastest to read in the order of slots.
            nodes.sort_unstable();
        }
        let Self { state, pre_filter, verdicts, .. } = self;
        let started = runner.profile.point_start();
        let result = runner.filter_all(state, pod, &nodes, &pre_filter.skip, verdicts);
        let code = if result.is_ok() { Code::Success } else { Code::Error };
        runner.profile.point_ended(MeteredPoint::Filter, code, started);
        result.map_err(|status| {
            EvaluationFailure::Broken(Box::new(self.failure(runner, pod, status)))
        })
    }

    /// Evaluates `nodes` again, which may be gone, new, or different. After an error the evaluation is invalid and must be
    /// discarded.
    pub(crate) fn look_again(
        &mut self,
        runner: &Runner<'_>,
        pod: &Pod,
        nodes: &[NodeIdx],
    ) -> Result<(), Status> {
        let reads = self.pre_filter.reads.clone();
        let runner = &runner.recording(&reads);
        self.verdicts.grow(runner.cx.cluster.capacity());
        for &idx in nodes {
            let view = runner.node(idx).filter(|view| self.is_in_scope(view.name()));
            let Some(view) = view else {
                self.verdicts.set(idx, VerdictId::ABSENT);
                continue;
            };
            let status = runner.filter(&self.state, pod, &view, &self.pre_filter.skip);
            if !status.is_success() && !status.is_rejected() {
                return Err(status);
            }
            self.verdicts.put(idx, &status);
        }
        Ok(())
    }

    /// Replaces the answers of single nodes; `None` takes a node's answer away, so that it does not pass.
    pub(crate) fn replace(
        &mut self,
        verdicts: impl IntoIterator<Item = (NodeIdx, Option<Status>)>,
    ) {
        for (idx, status) in verdicts {
            match status {
                Some(status) => self.verdicts.put(idx, &status),
                None => self.verdicts.set(idx, VerdictId::ABSENT),
            }
        }
    }

    /// What the answers were read from, beside the pod, by all plugins but `left_out`, and without what `following` follow
    /// themselves.
    pub(crate) fn reads_without(&self, left_out: &SkipSet, following: &SkipSet) -> PhaseReads {
        self.pre_filter.reads.without(left_out, following)
    }

    /// How many nodes were looked at.
    pub(crate) fn n_evaluated(&self) -> usize {
        self.verdicts.n_passing() + self.verdicts.n_rejected()
    }

    /// The nodes that pass, in list order. O(nodes).
    pub(crate) fn feasible(&self, cluster: &ClusterState) -> Vec<NodeIdx> {
        cluster.order().iter().copied().filter(|idx| self.verdicts.passes(*idx)).collect()
    }

    /// Whether the node has no answer of its own.
    pub(crate) fn is_left_out(&self, idx: NodeIdx) -> bool {
        self.verdicts.id(idx) == VerdictId::ABSENT
    }

    /// The nodes that PreFilter left, in list order.
    pub(crate) fn nodes_in_scope(&self, cluster: &ClusterState) -> Vec<NodeIdx> {
        let Some(names) = &self.pre_filter.node_names else { return cluster.order().to_vec() };
        let mut nodes: Vec<(usize, NodeIdx)> = names
            .iter()
            .filter_map(|name| cluster.node_idx(name))
            .filter_map(|idx| Some((cluster.position(idx)?, idx)))
            .collect();
        nodes.sort_unstable();
        nodes.into_iter().map(|(_, idx)| idx).collect()
    }

    fn is_in_scope(&self, name: &Arc<str>) -> bool {
        self.pre_filter.node_names.as_ref().is_none_or(|names| names.contains(name))
    }

    /// The answers with their reasons.
    pub(crate) fn statuses(&self) -> (&Verdicts, &Status) {
        (&self.verdicts, &self.absent)
    }

    /// Why no node passes. `is_narrowed_outside` if extenders rejected nodes.
    pub(crate) fn diagnosis(&self, is_narrowed_outside: bool) -> Diagnosis {
        let mut diagnosis = Diagnosis { absent: self.absent.clone(), ..Diagnosis::default() };
        diagnosis.unschedulable_plugins.clone_from(&self.pre_filter.restricting);
        diagnosis.absorb(&self.verdicts);
        if is_narrowed_outside {
            diagnosis.unschedulable_plugins.insert(kube_scheduler_queue::EXTENDER_PLUGIN.into());
        }
        diagnosis
    }

    /// What the reference would report after an error. A scan meets errors plugin by plugin, the reference goes node by
    /// node: where several nodes fail it reports another one's error, and it knows the answers of the nodes before.
    fn failure(&self, runner: &Runner<'_>, pod: &Pod, of_scan: Status) -> PluginFailure {
        let cluster = runner.cx.cluster;
        let skip: &SkipSet = &self.pre_filter.skip;
        let mut failure = PluginFailure {
            status: of_scan,
            answers: Vec::new(),
            node_names: self.pre_filter.node_names.clone(),
        };
        for idx in self.nodes_in_scope(cluster) {
            let Some(view) = runner.node(idx) else { continue };
            let status = runner.filter(&self.state, pod, &view, skip);
            if !status.is_success() && !status.is_rejected() {
                failure.status = status;
                break;
            }
            failure.answers.push((idx, status));
        }
        failure
    }
}

/// What a failed PreFilter means.
fn pre_filter_failure(run: PreFilterRun, state: CycleState) -> EvaluationFailure {
    if !run.status.is_rejected() {
        let failure = PluginFailure { status: run.status, ..PluginFailure::default() };
        return EvaluationFailure::Broken(Box::new(failure));
    }
    let mut diagnosis = Diagnosis {
        absent: run.status.clone(),
        pre_filter_message: run.status.message(),
        unschedulable_plugins: run.restricting.clone(),
        ..Diagnosis::default()
    };
    diagnosis.blame(&run.status);
    EvaluationFailure::Rejected(Box::new(Rejection { diagnosis, pre_filter: run, state }))
}
