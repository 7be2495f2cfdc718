//! Why a pod goes where it goes: every node's verdict and every plugin's score, as data.
//!
//! An explanation is computed from scratch on the state as it is and changes nothing that any answer depends on. It says
//! what the next attempt would find, but extenders are not asked; scores are given even when there is only one node to
//! choose.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_scheduler_api_types::Pod;
use kube_scheduler_framework::{
    Commands, CycleState, NodeIdx, PostFilterContext, PostFilterOutcome, Status, Verdicts,
};
use kube_scheduler_runtime::{HypotheticalRunner, Runner, SkipSet};
use rustc_hash::FxHashMap;

use crate::core::Core;
use crate::effect::PodRef;
use crate::evaluation::{
    Evaluation, EvaluationFailure, NodeScores, ScoreTable, verdicts_with_nominated_pods,
};
use crate::guard::guarded;
use crate::pool::Pool;

/// One node's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeExplanation {
    /// The node.
    pub name: Arc<str>,
    /// Success, or the first plugin's rejection.
    pub status: Status,
    /// Whether the answer is a node's own. A node that PreFilter left out shares one answer with all others left out.
    pub is_explicit: bool,
    /// Scores, if the node is feasible and scoring worked.
    pub scores: Option<NodeScores>,
}

/// What the next attempt at a pod would find.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The pod.
    pub pod: PodRef,
    /// The first PreEnqueue rejection, if any.
    pub gated: Option<Status>,
    /// What PreFilter said.
    pub pre_filter: Status,
    /// The only nodes that PreFilter left, if it narrowed them.
    pub node_names: Option<BTreeSet<Arc<str>>>,
    /// All nodes, in list order. Empty when PreFilter rejected the pod; only those before the first error when a
    /// filter failed.
    pub nodes: Vec<NodeExplanation>,
    /// An error that ended the evaluation.
    pub error: Option<Status>,
    /// The feasible nodes with the highest total, in list order.
    pub best: Vec<Arc<str>>,
    /// What PostFilter answers when no node is feasible.
    pub post_filter: Option<PostFilterOutcome>,
}

impl Explanation {
    fn nothing_yet(pod: &Pod) -> Self {
        Self {
            pod: PodRef::from(pod),
            gated: None,
            pre_filter: Status::SUCCESS,
            node_names: None,
            nodes: Vec::new(),
            error: None,
            best: Vec::new(),
            post_filter: None,
        }
    }
}

/// Explains what the next attempt at `pod` would find; `None` when no profile is responsible for it.
pub(crate) fn explained(core: &mut Core, pod: &Arc<Pod>, random: u64) -> Option<Explanation> {
    let profile = core.plans.profiles.of(pod)?;
    core.cluster.refresh_order();
    let failed = |panic| Explanation { error: Some(panic), ..Explanation::nothing_yet(pod) };
    let runner = Runner::new(&core.plans.profiles[profile], core.sources());
    let explanation = guarded(|| explain(&runner, pod, random));
    core.cluster.follow_requested();
    Some(explanation.unwrap_or_else(failed))
}

fn explain(runner: &Runner<'_>, pod: &Arc<Pod>, random: u64) -> Explanation {
    let mut explanation =
        Explanation { gated: gating_status(runner, pod), ..Explanation::nothing_yet(pod) };
    let cluster = runner.cx.cluster;
    let mut evaluation = match Evaluation::new(runner, pod, &Pool::none()) {
        Ok(evaluation) => evaluation,
        Err(EvaluationFailure::PreFilter(status)) => {
            explanation.error = Some(status);
            return explanation;
        }
        Err(EvaluationFailure::Filter(failure)) => {
            explanation.error = Some(failure.status);
            explanation.node_names = failure.node_names;
            let answers = failure.answers.into_iter().filter_map(|(idx, status)| {
                let name = cluster.node_name(idx)?.clone();
                Some(NodeExplanation { name, status, is_explicit: true, scores: None })
            });
            explanation.nodes = answers.collect();
            return explanation;
        }
        Err(EvaluationFailure::Rejected(rejection)) => {
            let run = &rejection.pre_filter;
            explanation.pre_filter = run.status.clone();
            let verdicts = Verdicts::absent(cluster.capacity());
            let statuses = (&verdicts, &run.status);
            explanation.post_filter =
                post_filter(runner, pod, statuses, &rejection.state, &run.skip, random);
            return explanation;
        }
    };
    explanation.node_names.clone_from(&evaluation.pre_filter.node_names);
    // As in an attempt, nominated pods count before anything is concluded from the verdicts: they can take the last node.
    match verdicts_with_nominated_pods(runner, pod, &evaluation) {
        Ok(changed) => evaluation.replace(changed),
        Err(status) => {
            explanation.error = Some(status);
            return explanation;
        }
    }
    if evaluation.verdicts.n_passing() == 0 {
        let Evaluation { state, pre_filter, .. } = &evaluation;
        explanation.post_filter =
            post_filter(runner, pod, evaluation.statuses(), state, &pre_filter.skip, random);
    }
    add_nodes(runner, pod, &mut evaluation, &mut explanation);
    explanation
}

/// Adds every node's answer, with scores for those that pass.
fn add_nodes(
    runner: &Runner<'_>,
    pod: &Pod,
    evaluation: &mut Evaluation,
    explanation: &mut Explanation,
) {
    let cluster = runner.cx.cluster;
    let feasible = evaluation.feasible(cluster);
    let mut table = None;
    if !feasible.is_empty() {
        match ScoreTable::new(runner, &mut evaluation.state, pod, &feasible) {
            Ok(scored) => table = Some(scored),
            Err(status) => explanation.error = Some(status),
        }
    }
    let best = table.as_ref().and_then(|table| table.totals.iter().copied().max());
    let scores: Vec<NodeScores> = table.map_or_else(Vec::new, |table| table.by_node().collect());
    let mut scores: FxHashMap<NodeIdx, NodeScores> = feasible.into_iter().zip(scores).collect();
    let (verdicts, absent) = evaluation.statuses();
    for &idx in cluster.order() {
        let Some(name) = cluster.node_name(idx) else { continue };
        let scores = scores.remove(&idx);
        if scores.as_ref().is_some_and(|scores| Some(scores.total) == best) {
            explanation.best.push(name.clone());
        }
        let status = if verdicts.passes(idx) {
            Status::SUCCESS
        } else {
            verdicts.rejection(idx).unwrap_or(absent).clone()
        };
        let is_explicit = !evaluation.is_left_out(idx);
        explanation.nodes.push(NodeExplanation { name: name.clone(), status, is_explicit, scores });
    }
}

fn gating_status(runner: &Runner<'_>, pod: &Pod) -> Option<Status> {
    runner.profile.pre_enqueue().find_map(|(_, name, plugin)| {
        let status = plugin.pre_enqueue(&runner.cx.unrecorded(), pod);
        (!status.is_success()).then(|| status.from_plugin(name))
    })
}

fn post_filter(
    runner: &Runner<'_>,
    pod: &Arc<Pod>,
    (verdicts, absent): (&Verdicts, &Status),
    state: &CycleState,
    skip: &SkipSet,
    random: u64,
) -> Option<PostFilterOutcome> {
    runner.profile.post_filter().next()?;
    let filters = HypotheticalRunner { profile: runner.profile, skip };
    let mut commands = Commands::default();
    let mut cx = PostFilterContext {
        cx: runner.cx.unrecorded(),
        verdicts,
        absent,
        filters: &filters,
        extenders: None,
        random,
        commands: &mut commands,
    };
    Some(runner.post_filter(&mut cx, state, pod))
}
