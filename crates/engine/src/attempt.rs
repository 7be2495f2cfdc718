//! One pod's search for a node: prefilter, filter, score, select, and what to say when there is none.
//!
//! Behaviour: `docs/spec/core.md` §4. Nothing here changes the cluster.

mod candidates;
mod extenders;
mod sample;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::diagnosis::{Diagnosis, FitError};
use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::{ClusterState, NodeOverlay};
use kube_scheduler_framework::groups::GroupCycleState;
use kube_scheduler_framework::preemption::PreemptionReport;
use kube_scheduler_framework::{
    Code, Commands, CycleState, NodeIdx, NominatingInfo, PluginName, PostFilterContext,
    PostFilterOutcome, Status, Verdicts,
};
use kube_scheduler_runtime::{
    Extenders, HypotheticalRunner, MeteredPoint, PreFilterRun, Runner, SkipSet,
};

pub(crate) use self::candidates::Candidates;
use self::extenders::{ExtenderStatuses, best_with};
pub(crate) use self::sample::n_feasible_to_find;
use crate::budget::OverBudget;
use crate::buffers::Buffers;
use crate::class_cache::{ClassCache, ClassEvaluation};
use crate::evaluation::{
    Evaluation, EvaluationFailure, Rejection, ScoreTable, best_node, verdicts_with_nominated_pods,
};
use crate::failure::Failure;
use crate::observer::{ObservedSearch, SearchStep};
use crate::preference::TieBreak;

/// The text of an attempt in a cluster without nodes.
pub(crate) const NO_NODES: &str = "no nodes available to schedule pods";

/// The message about preemption where it would cost too much.
pub(crate) const TOO_EXPENSIVE: &str =
    "preemption: not attempted, because it may cost more work than the limit of an attempt.";

/// A node was found.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) node: NodeIdx,
    /// What plugins left for later extension points; empty when none of those reads it.
    pub(crate) state: CycleState,
    pub(crate) n_feasible: usize,
    pub(crate) n_evaluated: usize,
}

/// No node was found.
#[derive(Debug)]
pub(crate) enum NoChoice {
    /// There are no nodes at all.
    NoNodes,
    /// The pod fits nowhere.
    Unfit(Box<FitFailure>),
    /// Something broke.
    Broken(Status),
    /// The search would cost too much.
    OverBudget(OverBudget),
}

impl NoChoice {
    /// What the attempt fails with, if nothing is done about it.
    pub(crate) fn into_failure(self) -> Failure {
        match self {
            Self::NoNodes => Failure::Rejected(NO_NODES.to_owned(), NominatingInfo::Override(None)),
            Self::Unfit(unfit) => Failure::Unfit(unfit.error, NominatingInfo::Keep),
            Self::Broken(status) => Failure::Error(status.message()),
            Self::OverBudget(over) => Failure::OverBudget(over),
        }
    }
}

/// Why a pod fits nowhere, and what PostFilter can do about it.
#[derive(Debug)]
pub(crate) struct FitFailure {
    pub(crate) error: Box<FitError>,
    /// What PostFilter wants of the nomination.
    pub(crate) nominating: NominatingInfo,
    /// The pods that PostFilter wants evicted.
    pub(crate) victims: Vec<Arc<Pod>>,
    /// The plugin that wants it.
    pub(crate) found_by: Option<PluginName>,
    pub(crate) commands: Commands,
    /// What plugins left for later extension points, if there are victims; empty when none of those reads it.
    pub(crate) state: CycleState,
}

/// What is known when the pod does not fit on the node that it was nominated to.
#[derive(Debug)]
struct NominationFailure {
    state: CycleState,
    pre_filter: PreFilterRun,
    /// The filters' rejection of that node.
    rejection: Option<(NodeIdx, Status)>,
    /// What extenders answered about it.
    extender_statuses: ExtenderStatuses,
}

/// Everything one search needs.
pub(crate) struct Search<'a, 'w> {
    pub(crate) runner: Runner<'a>,
    pub(crate) extenders: &'a Extenders,
    pub(crate) buffers: &'a Buffers,
    pub(crate) classes: &'a mut ClassCache,
    pub(crate) pod: &'a Arc<Pod>,
    /// The pod's class, if it may share evaluations.
    pub(crate) class: Option<u64>,
    /// The nodes that the pod may go to; `None` for all.
    pub(crate) nodes: Option<&'a BTreeSet<Arc<str>>>,
    /// What the members of the pod's group share, if they are tried together.
    pub(crate) group: Option<&'a GroupCycleState>,
    /// Score only this share of the nodes; 0 adapts to their number, `None` scores all.
    pub(crate) percentage: Option<i32>,
    /// Where a sampled scan begins.
    pub(crate) next_start: &'a mut usize,
    /// Whether the node that the pod is nominated to comes first.
    pub(crate) prefers_nominated: bool,
    pub(crate) random: u64,
    pub(crate) ties: TieBreak,
    /// Whether to ask PostFilter plugins when no node fits.
    pub(crate) may_preempt: bool,
    /// Where steps are reported.
    pub(crate) watched: &'a ObservedSearch<'w>,
}

impl Search<'_, '_> {
    /// Looks for a node.
    pub(crate) fn run(mut self) -> Result<Choice, NoChoice> {
        self.watched.reached(SearchStep::Started);
        let n_nodes = self.n_nodes();
        if n_nodes == 0 {
            return Err(NoChoice::NoNodes);
        }
        let failure = match self.nominated_node().map(|node| self.try_nominated_node(node)) {
            Some(Ok(choice)) => {
                self.watched.reached(SearchStep::NodesFiltered);
                return Ok(choice);
            }
            Some(Err(failure)) => Some(failure),
            None => None,
        };
        if let Some(percentage) = self.percentage {
            let limit = n_feasible_to_find(n_nodes, percentage);
            if limit < n_nodes || self.one_is_enough() {
                return self.sampled(percentage, failure);
            }
        }
        self.exhaustive(failure)
    }

    /// Whether no plugin or extender has an opinion on which of several fitting nodes to take.
    fn one_is_enough(&self) -> bool {
        self.runner.profile.score().next().is_none() && !self.extenders.judge_nodes()
    }

    /// The number of nodes that the pod may go to.
    fn n_nodes(&self) -> usize {
        self.nodes.map_or_else(|| self.runner.cx.cluster.n_nodes(), BTreeSet::len)
    }

    /// Asks the filters about all nodes that the pod may go to, after PreFilter has left these.
    fn evaluate(
        &self,
        state: CycleState,
        pre_filter: PreFilterRun,
    ) -> Result<Evaluation, EvaluationFailure> {
        let (runner, buffers) = (&self.runner, self.buffers);
        let evaluation = Evaluation::after_pre_filter(runner, buffers, state, pre_filter)?;
        let mut evaluation = evaluation.kept_to(self.nodes);
        evaluation.look_at_all(runner, self.pod, buffers)?;
        Ok(evaluation)
    }

    fn nominated_node(&self) -> Option<NodeIdx> {
        let name = self.pod.nominated_node_name().filter(|_| self.prefers_nominated)?;
        let is_allowed = self.nodes.is_none_or(|nodes| nodes.contains(name));
        self.runner.cx.cluster.node_idx(name).filter(|_| is_allowed)
    }

    /// The node that the pod was nominated to, if it fits there. Failures only mean a full search.
    fn try_nominated_node(&self, node: NodeIdx) -> Result<Choice, Box<NominationFailure>> {
        let (state, pre_filter) = self.pre_filter();
        let extender_statuses = ExtenderStatuses::new();
        let mut failure =
            Box::new(NominationFailure { state, pre_filter, rejection: None, extender_statuses });
        if !failure.pre_filter.status.is_success() {
            return Err(failure);
        }
        let overlay = NodeOverlay::new(node);
        let (state, skip) = (&failure.state, &failure.pre_filter.skip);
        let started = self.runner.profile.point_start();
        let status = self.runner.filter_with_nominated_pods(state, self.pod, &overlay, skip);
        self.filtered(started, Some(&status));
        if status.is_success() {
            let cluster = self.runner.cx.cluster;
            match self.extenders.filter(cluster, self.pod, vec![node]) {
                Ok(verdicts) if verdicts.survivors.is_empty() => {
                    failure.extender_statuses = verdicts.statuses;
                }
                Ok(_) => {
                    let NominationFailure { state, .. } = *failure;
                    return Ok(Choice { node, state, n_feasible: 1, n_evaluated: 1 });
                }
                Err(_) => {}
            }
        }
        failure.rejection = status.is_rejected().then_some((node, status));
        Err(failure)
    }

    /// A pass of the filters over nodes has ended. Only errors count; the answers of single nodes do not.
    fn filtered(&self, started: Option<u64>, status: Option<&Status>) {
        let is_error = status.is_some_and(|status| !status.is_success() && !status.is_rejected());
        let code = if is_error { Code::Error } else { Code::Success };
        self.runner.profile.point_ended(MeteredPoint::Filter, code, started);
    }

    fn pre_filter(&self) -> (CycleState, PreFilterRun) {
        let mut state = CycleState::new();
        if let Some(group) = self.group {
            state.insert(group.clone());
        }
        let pre_filter = self.runner.pre_filter(&mut state, self.pod);
        (state, pre_filter)
    }

    /// All nodes are filtered and every passing one is scored, from the class's evaluation if there is one.
    fn exhaustive(&mut self, failure: Option<Box<NominationFailure>>) -> Result<Choice, NoChoice> {
        let (runner, buffers) = (self.runner, self.buffers);
        let mut class = self
            .class
            .and_then(|class| self.classes.take(class, &runner, self.pod, buffers, self.nodes));
        let outcome = self.choose(class.as_deref_mut(), failure);
        if let (Some(number), Some(class)) = (self.class, class)
            && !matches!(outcome, Err(NoChoice::Broken(_)))
            && !self.classes.contains(number)
        {
            self.classes.put(number, &runner, class);
        }
        outcome
    }

    fn choose(
        &mut self,
        class: Option<&mut ClassEvaluation>,
        failure: Option<Box<NominationFailure>>,
    ) -> Result<Choice, NoChoice> {
        // Where groups of nodes were asked, there are no answers of single nodes that something could change.
        if let Some(class) = class.as_deref().filter(|class| !class.is_by_node())
            && failure.is_none()
            && !self.runner.cx.nominated.has_nominated_pods()
            && let Some(choice) = self.best_of_class(class)
        {
            return Ok(choice);
        }
        let (mut rejection, mut extender_statuses, mut run) = (None, ExtenderStatuses::new(), None);
        if let Some(failure) = failure.map(|failure| *failure) {
            (rejection, extender_statuses) = (failure.rejection, failure.extender_statuses);
            run = Some((failure.state, failure.pre_filter));
        }
        let (by_node, mut evaluation, changes);
        match class.filter(|class| class.is_by_node()) {
            Some(class) => {
                changes = class.verdicts_with_nominated_pods(&self.runner, self.pod);
                by_node = Some(&*class);
                evaluation = Cow::Borrowed(&class.evaluation);
            }
            None => {
                let fresh = self.fresh_evaluation(run)?;
                changes = verdicts_with_nominated_pods(&self.runner, self.pod, &fresh, None);
                by_node = None;
                evaluation = Cow::Owned(fresh);
            }
        }
        let mut changes = changes.map_err(NoChoice::Broken)?;
        // A nominated node is looked at even if PreFilter left it out, and its answer stays.
        let left_out = rejection.filter(|(idx, _)| evaluation.is_left_out(*idx));
        changes.extend(left_out.map(|(idx, status)| (idx, Some(status))));
        if !changes.is_empty() {
            evaluation.to_mut().replace(changes);
        } else if let Some(choice) = by_node.and_then(|class| self.best_of_class(class)) {
            return Ok(choice);
        }
        self.conclude(evaluation, None, extender_statuses)
    }

    /// Looks at all nodes. If none fits, that is kept for the class.
    fn fresh_evaluation(
        &mut self,
        run: Option<(CycleState, PreFilterRun)>,
    ) -> Result<Evaluation, NoChoice> {
        self.classes.misses += 1;
        let (state, pre_filter) = run.unwrap_or_else(|| self.pre_filter());
        let evaluation =
            self.evaluate(state, pre_filter).map_err(|failure| self.failed(failure))?;
        if let Some(class) = self.class.filter(|_| evaluation.verdicts.n_passing() == 0) {
            self.classes.put_unfit(class, &self.runner, self.pod, &evaluation);
        }
        Ok(evaluation)
    }

    /// The best node according to the class's evaluation. `None` when there is none, or when extenders or observers are to
    /// have their say about every node.
    fn best_of_class(&self, class: &ClassEvaluation) -> Option<Choice> {
        if !self.extenders.is_empty() || self.watched.wants_scores() {
            return None;
        }
        let (node, n_feasible) = class.best(self.runner.cx.cluster, self.ties)?;
        self.watched.reached(SearchStep::NodesFiltered);
        if n_feasible > 1 {
            self.watched.reached(SearchStep::NodesScored);
        }
        let n_evaluated = class.evaluation.n_evaluated();
        let state = if self.keeps_state() { class.state() } else { CycleState::new() };
        Some(Choice { node, state, n_feasible, n_evaluated })
    }

    /// Takes the best node that passes, after extenders have narrowed them. Of a share of the nodes, `sample` lists those
    /// that pass, in the order in which they were looked at; all nodes are looked at in the order of the list.
    /// `earlier` is what extenders answered about the nominated node.
    fn conclude(
        &self,
        mut evaluation: Cow<'_, Evaluation>,
        mut sample: Option<Vec<NodeIdx>>,
        earlier: ExtenderStatuses,
    ) -> Result<Choice, NoChoice> {
        let is_narrowed = self.narrow(&mut evaluation, &mut sample, earlier)?;
        self.watched.reached(SearchStep::NodesFiltered);
        let n_feasible = evaluation.verdicts.n_passing();
        let n_evaluated = evaluation.n_evaluated();
        let node = match n_feasible {
            0 => {
                let Evaluation { state, pre_filter, .. } = &*evaluation;
                let diagnosis = evaluation.diagnosis(is_narrowed);
                return Err(self.unfit(diagnosis, evaluation.statuses(), state, &pre_filter.skip));
            }
            1 => evaluation.feasible(self.runner.cx.cluster).first().copied(),
            _ => {
                let best = self.best(evaluation.to_mut(), sample).map_err(NoChoice::Broken)?;
                self.watched.reached(SearchStep::NodesScored);
                best
            }
        };
        let node = node
            .ok_or_else(|| NoChoice::Broken(Status::error("the list of nodes is out of date")))?;
        Ok(Choice { node, state: self.state_of(evaluation), n_feasible, n_evaluated })
    }

    /// The best of several nodes that pass. All scores are computed only where observers want to see them or extenders
    /// add to them, and for a share of the nodes, as the reference does.
    fn best(
        &self,
        evaluation: &mut Evaluation,
        sample: Option<Vec<NodeIdx>>,
    ) -> Result<Option<NodeIdx>, Status> {
        let (runner, pod) = (&self.runner, self.pod);
        let cluster = runner.cx.cluster;
        let wants_scores = self.watched.wants_scores();
        let needs_all = wants_scores || self.ties == TieBreak::ByName || sample.is_some();
        if self.extenders.is_empty() && !needs_all {
            return best_node(runner, self.buffers, pod, evaluation, self.ties);
        }
        let is_sample = sample.is_some();
        let nodes = sample.unwrap_or_else(|| evaluation.feasible(cluster));
        let table = ScoreTable::new(runner, &mut evaluation.state, pod, &nodes)?;
        if wants_scores && !table.is_empty() {
            let names = nodes.iter().map(|idx| cluster.node_name(*idx).cloned());
            let named =
                names.zip(table.by_node()).filter_map(|(name, scores)| Some((name?, scores)));
            self.watched.scored(&named.collect::<Vec<_>>());
        }
        let added = self.extenders.prioritize(cluster, pod, &nodes);
        let order = order_of(self.ties, &nodes, is_sample, cluster);
        Ok(best_with(table.totals, added, order).map(|at| nodes[at]))
    }

    /// Whether a plugin after Score reads for this pod what was stored before. Not asked about pods that fit nowhere.
    fn keeps_state(&self) -> bool {
        let (profile, pod) = (self.runner.profile, self.pod);
        profile.permit_about(pod).any(|(_, _, plugin)| plugin.reads_cycle_state(pod))
            || profile.post_bind().next().is_some()
            || profile.bind().any(|(_, _, plugin)| plugin.reads_cycle_state())
            || profile.reserve().any(|(_, _, plugin)| plugin.reads_cycle_state(pod))
            || profile.pre_bind().any(|(_, _, plugin)| plugin.reads_cycle_state(pod))
    }

    /// What later extension points read.
    fn state_of(&self, evaluation: Cow<'_, Evaluation>) -> CycleState {
        match evaluation {
            _ if !self.keeps_state() => CycleState::new(),
            Cow::Owned(evaluation) => evaluation.state,
            Cow::Borrowed(evaluation) => evaluation.state.clone(),
        }
    }

    fn failed(&self, failure: EvaluationFailure) -> NoChoice {
        let Rejection { diagnosis, pre_filter, state } = match failure {
            EvaluationFailure::Broken(failure) => return NoChoice::Broken(failure.status),
            EvaluationFailure::Rejected(rejection) => *rejection,
        };
        self.watched.reached(SearchStep::NodesFiltered);
        let verdicts = Verdicts::absent(self.runner.cx.cluster.capacity());
        let statuses = (&verdicts, &pre_filter.status);
        self.unfit(diagnosis, statuses, &state, &pre_filter.skip)
    }

    /// Asks PostFilter what can be done.
    fn unfit(
        &self,
        mut diagnosis: Diagnosis,
        statuses: (&Verdicts, &Status),
        state: &CycleState,
        skip: &SkipSet,
    ) -> NoChoice {
        self.watched.reached(SearchStep::Ended);
        let profile = self.runner.profile;
        let n_nodes = self.n_nodes();
        let mut commands = Commands::default();
        let mut outcome = PostFilterOutcome::without_nomination(Status::SUCCESS);
        if profile.post_filter().next().is_none() {
            outcome.nominating = Some(NominatingInfo::Override(None));
        } else if !self.may_preempt {
            diagnosis.post_filter_message = TOO_EXPENSIVE.to_owned();
        } else {
            let (runner, asked) = (&self.runner, (state, skip));
            (outcome, commands) = ask_post_filter(
                runner,
                self.extenders,
                self.pod,
                statuses,
                asked,
                self.random,
                None,
            );
            diagnosis.post_filter_message = outcome.status.message();
        }
        NoChoice::Unfit(Box::new(FitFailure {
            error: Box::new(FitError { n_nodes, diagnosis, not_before: None }),
            state: if !outcome.victims.is_empty() && self.keeps_state() {
                state.clone()
            } else {
                CycleState::new()
            },
            nominating: outcome.nominating.unwrap_or(NominatingInfo::Keep),
            victims: outcome.victims,
            found_by: outcome.found_by,
            commands,
        }))
    }
}

/// Asks PostFilter about a pod that fits nowhere, given the nodes' answers and what PreFilter left. Gives also what plugins ask for.
pub(crate) fn ask_post_filter(
    runner: &Runner<'_>,
    extenders: &Extenders,
    pod: &Arc<Pod>,
    (verdicts, absent): (&Verdicts, &Status),
    (state, skip): (&CycleState, &SkipSet),
    random: u64,
    report: Option<&mut PreemptionReport>,
) -> (PostFilterOutcome, Commands) {
    let (cluster, profile) = (runner.cx.cluster, runner.profile);
    let preempt = |candidates| extenders.preempt(cluster, pod, candidates);
    let mut commands = Commands::default();
    let mut cx = PostFilterContext {
        cx: runner.cx.unrecorded(),
        verdicts,
        absent,
        filters: &HypotheticalRunner { profile, skip },
        extenders: if extenders.is_empty() { None } else { Some(&preempt) },
        random,
        commands: &mut commands,
        report,
    };
    let outcome = runner.post_filter(&mut cx, state, pod);
    (outcome, commands)
}

/// Which of several equally good `nodes`, by their places among these, goes first: the one with the lowest number. Ties are broken by
/// name, or else by the place in the list of all nodes; in a sample of them, by the place there.
pub(crate) fn order_of(
    ties: TieBreak,
    nodes: &[NodeIdx],
    is_sample: bool,
    cluster: &ClusterState,
) -> impl Fn(usize) -> u64 {
    let by_name = (ties == TieBreak::ByName).then(|| ranks_by_name(cluster, nodes));
    move |at| {
        ties.order(match &by_name {
            Some(ranks) => ranks.get(at).copied(),
            None if is_sample => Some(at),
            None => cluster.position(nodes[at]),
        })
    }
}

/// The place of each node among `nodes` in the order of names.
fn ranks_by_name(cluster: &ClusterState, nodes: &[NodeIdx]) -> Vec<usize> {
    let mut by_name: Vec<usize> = (0..nodes.len()).collect();
    by_name.sort_unstable_by_key(|at| cluster.node_name(nodes[*at]));
    let mut ranks = vec![0; nodes.len()];
    for (rank, at) in by_name.into_iter().enumerate() {
        ranks[at] = rank;
    }
    ranks
}
