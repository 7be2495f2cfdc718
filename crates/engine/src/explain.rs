//! Why a pod goes where it goes: every node's verdict, all that is in the way, and every plugin's score, as data.
//!
//! An explanation is computed from scratch on the state as it is and changes nothing that any answer depends on. It says
//! what the next attempt would find, but extenders are not asked; scores are given even when there is only one node to
//! choose.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_scheduler_api_types::numbers::Numbers;
use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_cache::NodeOverlay;
use kube_scheduler_framework::preemption::PreemptionReport;
use kube_scheduler_framework::{
    CycleState, NodeIdx, PluginName, PostFilterOutcome, Shortage, Status, VerdictId, Verdicts,
};
use kube_scheduler_runtime::{Extenders, Rejections, Runner, SkipSet};

use crate::attempt::{NO_NODES, TOO_EXPENSIVE, ask_post_filter, n_feasible_to_find, order_of};
use crate::backfill::held_objects::show_held_to;
use crate::buffers::Buffers;
use crate::cycle::SEARCHES;
use crate::diagnosis::{Diagnosis, FitError, events_for};
use crate::effect::PodRef;
use crate::engine::Engine;
use crate::evaluation::{
    Evaluation, EvaluationFailure, NodeScores, ScoreTable, verdicts_with_nominated_pods,
};
use crate::group::membership::put_into_group;
use crate::guard::guarded;
use crate::preference::{TieBreak, first_best};
use crate::price::{Price, ScopeSize, most_expensive_part};

/// What one plugin gives one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginScore {
    /// The plugin that has given the score.
    pub plugin: PluginName,
    /// What it answered, in units of its own.
    pub raw: i64,
    /// From 0 to 100.
    pub normalized: i64,
    /// What that is multiplied by.
    pub weight: i64,
}

/// Whether one node passes the filters, and all that rejects it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeExplanation {
    /// The node.
    pub name: Arc<str>,
    /// Success, or the first plugin's rejection.
    pub status: Status,
    /// What else rejects the node: the filters that an attempt does not get to, in plugin order, errors included. Empty for
    /// nodes that pass, and when an error ended the evaluation.
    pub further: Vec<Status>,
    /// What the node lacks, by the plugins that reject it and can say so.
    pub shortages: Vec<(PluginName, Shortage)>,
    /// Whether the answer is a node's own. A node that PreFilter left out shares one answer with all others left out.
    pub is_explicit: bool,
    /// Scores, if the node is feasible and scoring worked.
    pub scores: Option<NodeScores>,
    /// What each plugin gives the node, in plugin order; plugins that skipped the pod are not listed.
    pub by_plugin: Vec<PluginScore>,
}

/// What the next attempt at a pod would find.
#[derive(Clone, Debug, Default)]
pub struct AttemptExplanation {
    /// The pod.
    pub pod: PodRef,
    /// The first PreEnqueue rejection, if any.
    pub gated: Option<Status>,
    /// The result of PreFilter: success, a rejection or an error.
    pub pre_filter: Status,
    /// All rejections of the pod as a whole: the plugins that PreFilter does not get to included, each asked as if the
    /// others had accepted the pod.
    pub of_pod: Vec<Status>,
    /// The only nodes that PreFilter left, if it narrowed them.
    pub node_names: Option<BTreeSet<Arc<str>>>,
    /// All nodes, in list order. Only those before the first error when a filter failed. When PreFilter rejected the pod,
    /// their answer is that rejection, and what else is in the way stands beside it.
    pub nodes: Vec<NodeExplanation>,
    /// An error that ended the evaluation.
    pub error: Option<Status>,
    /// The feasible nodes with the highest total, in list order.
    pub best: Vec<Arc<str>>,
    /// The node that an attempt would choose now.
    pub chosen: Option<Arc<str>>,
    /// What PostFilter answers when no node is feasible.
    pub post_filter: Option<PostFilterOutcome>,
    /// How PostFilter chose the pods to evict, if a plugin preempts.
    pub preemption: PreemptionReport,
    /// The text of the event when the attempt fails.
    pub message: Option<String>,
    /// The events that may bring the pod back after such an attempt, as [`PodPlace::waits_for`](crate::PodPlace::waits_for); none if
    /// it fits on a node.
    pub waits_for: Vec<String>,
    /// After this many feasible nodes an attempt stops looking, so that it may choose among fewer nodes than are listed here.
    pub enough: Option<usize>,
    /// Whether an attempt would ask extenders besides.
    pub has_extenders: bool,
}

impl AttemptExplanation {
    /// The explanation of a pod about which there is nothing to decide, or of which nothing is known yet.
    pub fn nothing_yet(pod: &Pod) -> Self {
        Self { pod: PodRef::from(pod), ..Self::default() }
    }

    fn failed(pod: &Pod, error: Status) -> Self {
        Self::nothing_yet(pod).ended_by(error)
    }

    /// What has been found until an error ended the evaluation.
    fn ended_by(self, error: Status) -> Self {
        Self { message: Some(error.message()), error: Some(error), ..self }
    }
}

/// A pod about which an explanation is being made.
struct Explainer<'a> {
    runner: Runner<'a>,
    pod: &'a Arc<Pod>,
    ties: TieBreak,
    random: u64,
    may_preempt: bool,
    found: AttemptExplanation,
}

impl Engine {
    /// Explains what the next attempt at `pod` would find. The pod need not be known. `None` when no profile is
    /// responsible for it. `random` stands for the attempt's random number.
    pub fn explain(
        &mut self,
        pod: &Arc<Pod>,
        random: u64,
        now: Timestamp,
    ) -> Option<AttemptExplanation> {
        let Self { core, cycle, .. } = self;
        core.now = now;
        let idx = core.plans.profiles.of(pod)?;
        core.cluster.refresh_order();
        let price = Price::of(pod, &core.cluster);
        let limits = cycle.budgets.of(&pod.namespace, &core.cluster, core.now);
        let refused = |price| {
            let refusal = cycle.budgets.refusal(limits, &pod.namespace, price, 0, now);
            Some(AttemptExplanation::failed(pod, Status::error(refusal.message)))
        };
        if price.search > limits.hard {
            let part = most_expensive_part(pod, &core.cluster, ScopeSize::all(&core.cluster));
            return refused((price.search, part));
        }
        core.work = limits.meter(price.search);
        let may_preempt = price.search.saturating_add(price.preemption) <= limits.hard;
        // A manifest names no group that plugins know of; a pod of the cluster does.
        let mut pod = pod.clone();
        put_into_group(core, &mut pod);
        let pod = &pod;
        show_held_to(core, idx, pod, &[]);
        let profile = &core.plans.profiles[idx];
        let (runner, ties) = (Runner::new(profile, core.sources()), cycle.options.ties(random));
        let found = AttemptExplanation::nothing_yet(pod);
        let explainer = Explainer { runner, pod, ties, random, may_preempt, found };
        let explanation = guarded(|| explainer.explain());
        let n_nodes = core.cluster.n_nodes();
        let mut explanation =
            explanation.unwrap_or_else(|panic| AttemptExplanation::failed(pod, panic));
        if explanation.error.is_some() && core.work.left() == 0 {
            return refused((price.search.saturating_add(core.work.done()), SEARCHES));
        }
        let percentage = profile.percentage_of_nodes_to_score.or(cycle.options.percentage);
        let enough = percentage.map(|percentage| n_feasible_to_find(n_nodes, percentage));
        explanation.enough = enough.filter(|enough| *enough < n_nodes);
        explanation.has_extenders = !core.plans.extenders.is_empty();
        if n_nodes == 0 && explanation.error.is_none() {
            explanation.message = Some(NO_NODES.to_owned());
        }
        if price.is_kept(limits.soft) {
            core.cluster.follow_requested();
        } else {
            core.cluster.forget_requested();
        }
        Some(explanation)
    }

    /// What holds a pod back before any attempt: the first rejection by a PreEnqueue plugin, if there is one. `None` also when no
    /// profile is responsible for the pod. The pod need not be known.
    pub fn gate_of(&self, pod: &Arc<Pod>) -> Option<Status> {
        let profile = &self.core.plans.profiles[self.core.plans.profiles.of(pod)?];
        let runner = Runner::new(profile, self.core.sources());
        guarded(|| gating_status(&runner, pod)).unwrap_or_else(Some)
    }

    /// The random number of the next attempt, for [`explain`](Self::explain).
    pub fn next_random(&self) -> u64 {
        Numbers::nth(self.cycle.options.seed, self.cycle.number + 1)
    }
}

impl Explainer<'_> {
    fn explain(mut self) -> AttemptExplanation {
        let (runner, pod) = (self.runner, self.pod);
        self.found.gated = gating_status(&runner, pod);
        let cluster = runner.cx.cluster;
        let mut evaluation = match Evaluation::new(&runner, pod, &Buffers::default()) {
            Ok(evaluation) => evaluation,
            Err(EvaluationFailure::Broken(failure)) => {
                self.found.node_names = failure.node_names;
                let answers = failure.answers.into_iter().filter_map(|(idx, status)| {
                    let name = cluster.node_name(idx)?.clone();
                    Some(NodeExplanation { status, ..NodeExplanation::of(name) })
                });
                self.found.nodes = answers.collect();
                return self.found.ended_by(failure.status);
            }
            Err(EvaluationFailure::Rejected(rejection)) => {
                let run = &rejection.pre_filter;
                self.found.pre_filter = run.status.clone();
                let verdicts = Verdicts::absent(cluster.capacity());
                let statuses = (&verdicts, &run.status);
                let asked = (&rejection.state, &run.skip);
                let diagnosis = rejection.diagnosis.clone();
                self.give_up(statuses, asked, diagnosis);
                self.add_rejected_nodes(statuses);
                return self.found;
            }
        };
        self.found.node_names.clone_from(&evaluation.pre_filter.node_names);
        // As in an attempt, nominated pods are taken into account before the verdicts are used: they can take the last node.
        match verdicts_with_nominated_pods(&runner, pod, &evaluation, None) {
            Ok(changed) => evaluation.replace(changed),
            Err(status) => return self.found.ended_by(status),
        }
        self.found.chosen = nominated_node(&runner, pod, &evaluation);
        if evaluation.verdicts.n_passing() == 0 && self.found.chosen.is_none() {
            let Evaluation { state, pre_filter, .. } = &evaluation;
            let asked = (state, &pre_filter.skip);
            let diagnosis = evaluation.diagnosis(false);
            self.give_up(evaluation.statuses(), asked, diagnosis);
        }
        self.add_nodes(&mut evaluation);
        self.found
    }

    /// What an attempt does when no node fits: asks PostFilter, and says why.
    fn give_up(
        &mut self,
        statuses: (&Verdicts, &Status),
        asked: (&CycleState, &SkipSet),
        mut diagnosis: Diagnosis,
    ) {
        let (runner, pod, found) = (&self.runner, self.pod, &mut self.found);
        let has_post_filter = runner.profile.post_filter().next().is_some();
        if has_post_filter && self.may_preempt {
            let (extenders, report) = (Extenders::default(), Some(&mut found.preemption));
            let (outcome, _) =
                ask_post_filter(runner, &extenders, pod, statuses, asked, self.random, report);
            diagnosis.post_filter_message = outcome.status.message();
            found.post_filter = Some(outcome);
        } else if has_post_filter {
            diagnosis.post_filter_message = TOO_EXPENSIVE.to_owned();
        }
        let plugins: Vec<PluginName> = diagnosis.unschedulable_plugins.iter().cloned().collect();
        found.waits_for = events_for(runner.profile, &plugins);
        let n_nodes = runner.cx.cluster.n_nodes();
        found.message = Some(FitError { n_nodes, diagnosis, not_before: None }.to_string());
    }

    /// Adds every node's answer, with scores for those that pass.
    fn add_nodes(&mut self, evaluation: &mut Evaluation) {
        let cluster = self.runner.cx.cluster;
        let feasible = evaluation.feasible(cluster);
        self.add_rejected_nodes(evaluation.statuses());
        if feasible.is_empty() {
            return;
        }
        let found = &mut self.found;
        let name_of = |idx: NodeIdx| cluster.node_name(idx).cloned();
        if let ([only], None) = (&*feasible, &found.chosen) {
            found.chosen = name_of(*only);
        }
        match scored(&self.runner, self.pod, evaluation, &feasible) {
            Ok(scored) => {
                let totals: Vec<i64> = scored.iter().map(|(scores, _)| scores.total).collect();
                let best = totals.iter().copied().max();
                let tied = feasible.iter().zip(&totals).filter(|(_, total)| Some(**total) == best);
                found.best = tied.filter_map(|(idx, _)| name_of(*idx)).collect();
                if found.chosen.is_none() {
                    let order = order_of(self.ties, &feasible, false, cluster);
                    let chosen = first_best(&totals, order);
                    found.chosen = chosen.and_then(|at| name_of(feasible[at]));
                }
                let passing = found.nodes.iter_mut().filter(|node| node.status.is_success());
                for (node, (scores, by_plugin)) in passing.zip(scored) {
                    (node.scores, node.by_plugin) = (Some(scores), by_plugin);
                }
            }
            // One node alone is not scored in an attempt.
            Err(status) => {
                if feasible.len() > 1 && found.chosen.is_none() {
                    found.message = Some(status.message());
                }
                found.error = Some(status);
            }
        }
    }

    /// Every node's answer, without scores.
    fn add_rejected_nodes(&mut self, (verdicts, absent): (&Verdicts, &Status)) {
        let (runner, pod) = (self.runner, self.pod);
        let cluster = runner.cx.cluster;
        let mut all: Option<Rejections<'_>> = None;
        for &idx in cluster.order() {
            let Some(name) = cluster.node_name(idx) else { continue };
            let mut node = NodeExplanation::of(name.clone());
            node.is_explicit = verdicts.id(idx) != VerdictId::ABSENT;
            if !verdicts.passes(idx) {
                node.status = verdicts.rejection(idx).unwrap_or(absent).clone();
                let all = all.get_or_insert_with(|| Rejections::new(runner, pod));
                let found = all.of_node(idx);
                let mut further = found.statuses;
                // The first is the answer that there is already, unless PreFilter gave that one.
                if let Some(at) = further.iter().position(|other| *other == node.status) {
                    further.remove(at);
                }
                node.further = further;
                node.shortages = found.shortages;
            }
            self.found.nodes.push(node);
        }
        self.found.of_pod = all.map(|all| all.of_pod().to_vec()).unwrap_or_default();
    }
}

impl NodeExplanation {
    fn of(name: Arc<str>) -> Self {
        Self { name, is_explicit: true, ..Self::default() }
    }
}

/// The node that the pod is nominated to, if it fits there: that one is chosen without a look at the others.
fn nominated_node(runner: &Runner<'_>, pod: &Pod, evaluation: &Evaluation) -> Option<Arc<str>> {
    let name = pod.nominated_node_name()?;
    let idx = runner.cx.cluster.node_idx(name)?;
    let Evaluation { state, pre_filter, .. } = evaluation;
    let overlay = NodeOverlay::new(idx);
    let status = runner.filter_with_nominated_pods(state, pod, &overlay, &pre_filter.skip);
    status.is_success().then(|| name.into())
}

/// What every plugin gives each of `nodes`, in their order.
fn scored(
    runner: &Runner<'_>,
    pod: &Pod,
    evaluation: &mut Evaluation,
    nodes: &[NodeIdx],
) -> Result<Vec<(NodeScores, Vec<PluginScore>)>, Status> {
    let table = ScoreTable::new(runner, &mut evaluation.state, pod, nodes)?;
    let mut by_node: Vec<(NodeScores, Vec<PluginScore>)> =
        table.by_node().map(|scores| (scores, Vec::new())).collect();
    let mut raw = vec![0; nodes.len()];
    for name in table.plugins() {
        let Some(plugin) = runner.profile.position(name) else { continue };
        let weight = runner.profile.weight(plugin);
        raw.fill(0);
        runner.raw_scores(plugin, &evaluation.state, pod, nodes, &mut raw)?;
        for ((scores, by_plugin), raw) in by_node.iter_mut().zip(&raw) {
            let weighted = scores.by_plugin.get(by_plugin.len()).map_or(0, |(_, score)| *score);
            let normalized = weighted.checked_div(weight).unwrap_or(0);
            by_plugin.push(PluginScore { plugin: name.clone(), raw: *raw, normalized, weight });
        }
    }
    Ok(by_node)
}

fn gating_status(runner: &Runner<'_>, pod: &Pod) -> Option<Status> {
    runner.profile.pre_enqueue().find_map(|(_, name, plugin)| {
        let status = plugin.pre_enqueue(&runner.cx.unrecorded(), pod);
        (!status.is_success()).then(|| status.from_plugin(name))
    })
}
