//! Why a pod goes where it goes: every node's verdict and every plugin's score, as data.
//!
//! An explanation is computed from scratch on the state as it is and changes nothing that any answer depends on. It says what the next attempt
//! would find, but for what extenders have to say, who are not asked; scores are given even when there is only one node to choose.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_framework::{
    Commands, CycleState, Extenders, HypotheticalRunner, NodeIdx, NodeOverlay, NodeStatuses,
    PluginName, PostFilterContext, PostFilterOutcome, Runner, SkipSet, Sources, Status, Verdicts,
};

use crate::effect::PodRef;
use crate::engine::Engine;
use crate::evaluation::{AnswersInOrder, Evaluation, EvaluationFailure, nodes_in_scope};
use crate::guard::guarded;
use crate::pool::Pool;

/// One feasible node's scores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeScores {
    /// The sum.
    pub total: i64,
    /// Weighted, normalised scores by plugin, in plugin order; plugins that skipped the pod are not listed.
    pub by_plugin: Vec<(PluginName, i64)>,
}

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
    /// All nodes, in list order. Empty when PreFilter turned the pod down; only those before the first error when a
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

impl Engine {
    /// Explains what the next attempt at `pod` would find. The pod need not be known. `None` when no profile is
    /// responsible for it. `random` stands for the attempt's random number.
    pub fn explain(&mut self, pod: &Arc<Pod>, random: u64, now: Timestamp) -> Option<Explanation> {
        let profile = self.profile_of(pod)?;
        self.cluster.refresh_order();
        let failed = |panic| Explanation { error: Some(panic), ..Explanation::nothing_yet(pod) };
        if let Err(panic) = self.follow_for(pod, profile, now) {
            return Some(failed(panic));
        }
        let cx = Sources {
            cluster: &self.cluster,
            pods: &self.pods,
            waiting: &self.bindings,
            nominated: &self.queue,
            preemptions: &self.preemptions,
            now,
        };
        let runner = Runner::new(&self.plans.profiles[profile], cx);
        let explanation = guarded(|| explain(&runner, pod, random));
        Some(explanation.unwrap_or_else(failed))
    }
}

fn explain(runner: &Runner<'_>, pod: &Arc<Pod>, random: u64) -> Explanation {
    let mut explanation =
        Explanation { gated: gating_status(runner, pod), ..Explanation::nothing_yet(pod) };
    let mut evaluation = match Evaluation::new(runner, pod, &Pool::none()) {
        Ok(evaluation) => evaluation,
        Err(EvaluationFailure::Error(status)) => {
            explanation.error = Some(status);
            add_answers_before_error(runner, pod, &mut explanation);
            return explanation;
        }
        Err(EvaluationFailure::Rejected(rejected)) => {
            let run = &rejected.pre_filter;
            explanation.pre_filter = run.status.clone();
            let verdicts = Verdicts::absent(runner.cx.cluster.capacity());
            let statuses = NodeStatuses { verdicts: &verdicts, absent: &run.status };
            explanation.post_filter =
                post_filter(runner, pod, statuses, &rejected.state, &run.skip, random);
            return explanation;
        }
    };
    explanation.node_names.clone_from(&evaluation.pre_filter.node_names);
    if let Err(status) = apply_nominations(runner, pod, &mut evaluation) {
        explanation.error = Some(status);
        return explanation;
    }
    if evaluation.n_feasible() == 0 {
        let statuses = NodeStatuses { verdicts: &evaluation.verdicts, absent: &evaluation.absent };
        explanation.post_filter = post_filter(
            runner,
            pod,
            statuses,
            &evaluation.state,
            &evaluation.pre_filter.skip,
            random,
        );
    }
    let scores = scores_of(runner, pod, &mut evaluation);
    if let Err(status) = &scores {
        explanation.error = Some(status.clone());
    }
    let scores = scores.unwrap_or_default();
    let best = scores.iter().map(|(_, scores)| scores.total).max();
    let cluster = runner.cx.cluster;
    for &idx in cluster.order() {
        let Some(node) = cluster.node(idx) else { continue };
        let passes = evaluation.verdicts.passes(idx);
        let rejection = evaluation.verdicts.rejection(idx);
        let scores =
            scores.iter().find(|(scored, _)| *scored == idx).map(|(_, scores)| scores.clone());
        if scores.as_ref().is_some_and(|scores| Some(scores.total) == best) {
            explanation.best.push(node.name.clone());
        }
        explanation.nodes.push(NodeExplanation {
            name: node.name.clone(),
            status: if passes {
                Status::SUCCESS
            } else {
                rejection.unwrap_or(&evaluation.absent).clone()
            },
            is_explicit: passes || rejection.is_some(),
            scores,
        });
    }
    explanation
}

/// Adds what the nodes before the first error answered, if it was a filter's.
fn add_answers_before_error(runner: &Runner<'_>, pod: &Pod, explanation: &mut Explanation) {
    let mut state = CycleState::new();
    let run = runner.pre_filter(&mut state, pod);
    if !run.status.is_success() {
        return;
    }
    let cluster = runner.cx.cluster;
    let nodes = nodes_in_scope(cluster, &run);
    let in_order = AnswersInOrder::new(runner, &state, pod, &nodes, &run.skip);
    explanation.nodes.extend(in_order.answers.into_iter().filter_map(|(idx, status)| {
        let name = cluster.node(idx)?.name.clone();
        Some(NodeExplanation { name, status, is_explicit: true, scores: None })
    }));
    explanation.node_names = run.node_names;
}

fn gating_status(runner: &Runner<'_>, pod: &Pod) -> Option<Status> {
    let cx = runner.cx.unrecorded();
    runner.profile.pre_enqueue().find_map(|(_, name, plugin)| {
        let status = plugin.pre_enqueue(&cx, pod);
        (!status.is_success()).then(|| status.from_plugin(name))
    })
}

/// Takes pods into account that are nominated to nodes.
fn apply_nominations(
    runner: &Runner<'_>,
    pod: &Pod,
    evaluation: &mut Evaluation,
) -> Result<(), Status> {
    let mut overrides = Vec::new();
    for name in runner.cx.nominated.nodes_with_nominated_pods() {
        let Some(idx) = runner.cx.cluster.node_idx(&name) else { continue };
        if evaluation.pre_filter.node_names.as_ref().is_some_and(|names| !names.contains(&name)) {
            continue;
        }
        let skip = &evaluation.pre_filter.skip;
        let status =
            runner.filter_with_nominated_pods(&evaluation.state, pod, &NodeOverlay::new(idx), skip);
        if !status.is_success() && !status.is_rejected() {
            return Err(status);
        }
        overrides.push((idx, status));
    }
    evaluation.override_verdicts(runner, pod, &overrides)
}

/// What every passing node got, in list order.
pub(crate) fn scores_of(
    runner: &Runner<'_>,
    pod: &Pod,
    evaluation: &mut Evaluation,
) -> Result<Vec<(NodeIdx, NodeScores)>, Status> {
    let feasible = evaluation.feasible(runner.cx.cluster);
    if feasible.is_empty() {
        return Ok(Vec::new());
    }
    let scoring = evaluation.scoring(runner, pod)?;
    feasible
        .into_iter()
        .map(|idx| {
            Ok((idx, NodeScores { total: scoring.total(idx)?, by_plugin: scoring.by_plugin(idx)? }))
        })
        .collect()
}

fn post_filter(
    runner: &Runner<'_>,
    pod: &Arc<Pod>,
    statuses: NodeStatuses<'_>,
    state: &CycleState,
    skip: &SkipSet,
    random: u64,
) -> Option<PostFilterOutcome> {
    runner.profile.post_filter().next()?;
    let filters = HypotheticalRunner { profile: runner.profile, skip };
    let mut commands = Commands::default();
    let mut cx = PostFilterContext {
        cx: runner.cx.unrecorded(),
        statuses,
        filters: &filters,
        extenders: &Extenders::default(),
        random,
        commands: &mut commands,
    };
    Some(runner.post_filter(&mut cx, state, pod))
}
