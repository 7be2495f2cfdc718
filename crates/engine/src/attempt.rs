//! One pod's search for a node: prefilter, filter, score, select, and what to say when there is none.
//!
//! Behaviour: `spec/core.md` §4. Nothing here changes the cluster.

mod extended;
mod sample;

use std::sync::Arc;

use kube_scheduler_api_types::Pod;
use kube_scheduler_framework::{
    Code, Commands, CycleState, Diagnosis, Extenders, FitError, HypotheticalRunner, Meter,
    MeteredPoint, NodeIdx, NodeOverlay, NodeStatuses, NominatingInfo, PluginName,
    PostFilterContext, PostFilterOutcome, PreFilterRun, Runner, SkipSet, Status, SumsFilters,
    Verdicts, must_leave_room,
};

use self::extended::Said;
use crate::class_cache::ClassCache;
use crate::evaluation::{Evaluation, EvaluationFailure, Rejected};
use crate::explain::scores_of;
use crate::observer::{SearchStep, Watched};
use crate::pool::Pool;

/// The text of an attempt in a cluster without nodes.
pub(crate) const NO_NODES: &str = "no nodes available to schedule pods";

/// A node was found.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) node: NodeIdx,
    /// What plugins left for later extension points; empty when nobody will read it.
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
    Unfit(Box<Unfit>),
    /// Something broke.
    Broken(Status),
}

/// Why a pod fits nowhere, and what PostFilter can do about it.
#[derive(Debug)]
pub(crate) struct Unfit {
    pub(crate) error: Box<FitError>,
    /// What PostFilter wants of the nomination; `None` leaves it alone.
    pub(crate) nominating: Option<NominatingInfo>,
    /// Whom PostFilter wants evicted.
    pub(crate) victims: Vec<Arc<Pod>>,
    /// The plugin that wants it.
    pub(crate) found_by: Option<PluginName>,
    pub(crate) commands: Commands,
}

/// What a search has learned before it looks at all nodes.
#[derive(Debug)]
struct Begun {
    state: CycleState,
    pre_filter: PreFilterRun,
    /// What the nominated node said, if the pod has one and does not fit there.
    rejection: Option<(NodeIdx, Status)>,
    /// What extenders said then.
    said: Said,
}

/// How the pod fares on the node it was nominated to.
enum Nominated {
    Fits(Choice),
    Fails(Begun),
}

/// Everything one search needs.
pub(crate) struct Search<'a, 'w> {
    pub(crate) runner: Runner<'a>,
    pub(crate) extenders: &'a Extenders,
    pub(crate) pool: &'a Pool,
    pub(crate) classes: &'a mut ClassCache,
    pub(crate) pod: &'a Arc<Pod>,
    /// The pod's class, if it may share evaluations.
    pub(crate) class: Option<u64>,
    /// Score only this share of the nodes; `None` scores all.
    pub(crate) percentage: Option<i32>,
    /// Where a sampled scan begins.
    pub(crate) next_start: &'a mut usize,
    /// Whether later extension points read the cycle state.
    pub(crate) keeps_state: bool,
    pub(crate) random: u64,
    /// Who is told of the steps.
    pub(crate) watched: &'a Watched<'w>,
}

impl Search<'_, '_> {
    /// Looks for a node.
    pub(crate) fn run(mut self) -> Result<Choice, NoChoice> {
        self.watched.reached(SearchStep::Begun);
        let n_nodes = self.runner.cx.cluster.n_nodes();
        if n_nodes == 0 {
            return Err(NoChoice::NoNodes);
        }
        let begun = match self.nominated_node() {
            Some(node) => match self.try_nominated_node(node) {
                Nominated::Fits(choice) => {
                    self.watched.reached(SearchStep::NodesFiltered);
                    return Ok(choice);
                }
                Nominated::Fails(begun) => Some(begun),
            },
            None => None,
        };
        if let Some(percentage) = self.percentage {
            let limit = sample::n_feasible_to_find(n_nodes, percentage);
            if limit < n_nodes || self.one_is_enough() {
                return self.sampled(percentage, begun);
            }
        }
        self.exhaustive(begun)
    }

    /// Whether nobody has an opinion on which of several fitting nodes to take.
    fn one_is_enough(&self) -> bool {
        self.runner.profile.score().next().is_none() && !self.extenders.judge_nodes()
    }

    fn nominated_node(&self) -> Option<NodeIdx> {
        self.runner.cx.cluster.node_idx(self.pod.nominated_node_name()?)
    }

    /// The node that the pod was nominated to, if it fits there. Failures only mean a full search.
    fn try_nominated_node(&self, node: NodeIdx) -> Nominated {
        let mut begun = self.begin();
        if begun.pre_filter.status.is_success() {
            let overlay = NodeOverlay::new(node);
            let skip = &begun.pre_filter.skip;
            let started = self.started();
            let status =
                self.runner.filter_with_nominated_pods(&begun.state, self.pod, &overlay, skip);
            self.filtered(started, Some(&status));
            if status.is_success() {
                let cluster = self.runner.cx.cluster;
                match self.extenders.filter(cluster, self.pod, vec![node]) {
                    Ok(verdicts) if verdicts.survivors.is_empty() => begun.said = verdicts.statuses,
                    Ok(_) => {
                        let state = begun.state;
                        let choice = Choice { node, state, n_feasible: 1, n_evaluated: 1 };
                        return Nominated::Fits(choice);
                    }
                    Err(_) => {}
                }
            }
            begun.rejection = status.is_rejected().then_some((node, status));
        }
        Nominated::Fails(begun)
    }

    /// The time from which an extension point is measured, if it is.
    fn started(&self) -> Option<u64> {
        self.runner.profile.meter().map(Meter::nanos)
    }

    /// A pass of the filters over nodes has ended; what single nodes said is no matter, errors excepted.
    fn filtered(&self, started: Option<u64>, status: Option<&Status>) {
        let is_error = status.is_some_and(|status| !status.is_success() && !status.is_rejected());
        let code = if is_error { Code::Error } else { Code::Success };
        self.runner.point_ended(MeteredPoint::Filter, code, started);
    }

    fn begin(&self) -> Begun {
        let mut state = CycleState::new();
        let pre_filter = self.runner.pre_filter(&mut state, self.pod);
        Begun { state, pre_filter, rejection: None, said: Said::new() }
    }

    /// All nodes are filtered and every passing one is scored, from the class's evaluation if there is one.
    fn exhaustive(&mut self, begun: Option<Begun>) -> Result<Choice, NoChoice> {
        let runner = self.runner;
        let (mut rejection, mut said) = (None, Said::new());
        let mut run = None;
        if let Some(begun) = begun {
            (rejection, said) = (begun.rejection, begun.said);
            run = Some((begun.state, begun.pre_filter));
        }
        let kept = self.class.and_then(|class| self.classes.take(class, &runner, self.pod));
        if kept.is_none()
            && run.is_none()
            && let Some(choice) = self.by_groups()
        {
            return Ok(choice);
        }
        let mut evaluation = match kept {
            Some(evaluation) => evaluation,
            None => {
                self.classes.misses += 1;
                let (state, pre_filter) = run.unwrap_or_else(|| {
                    let begun = self.begin();
                    (begun.state, begun.pre_filter)
                });
                let made =
                    Evaluation::after_pre_filter(&runner, self.pod, self.pool, state, pre_filter);
                let mut made = made.map_err(|failure| self.failed(failure))?;
                // Many a class has one pod only: what is kept is made when there is a second one.
                // Who wants to see scores too would have them computed twice.
                made.is_for_once = self.class.is_none_or(|class| !self.classes.has_seen(class))
                    && self.extenders.is_empty()
                    && !self.watched.wants_scores();
                made
            }
        };
        let mut overrides = self.nominated_overrides(&evaluation).map_err(NoChoice::Broken)?;
        // A nominated node is looked at even if PreFilter left it out, and its answer stays.
        overrides.extend(rejection.filter(|(idx, _)| evaluation.is_left_out(*idx)));
        let outcome = if overrides.is_empty() {
            self.choose(&mut evaluation, said)
        } else {
            let mut adjusted = evaluation.clone();
            match adjusted.override_verdicts(&runner, self.pod, &overrides) {
                Ok(()) => self.choose(&mut adjusted, said),
                Err(status) => Err(NoChoice::Broken(status)),
            }
        };
        if let Some(class) = self.class.filter(|_| !matches!(outcome, Err(NoChoice::Broken(_)))) {
            self.classes.put(class, &runner, evaluation);
        }
        outcome
    }

    /// The best node according to answers that follow other pods, if the class has them. `None` says nothing: neither
    /// reasons, nominated pods, extenders nor scores to be told are looked at here.
    fn by_groups(&mut self) -> Option<Choice> {
        let others_count = self.runner.cx.nominated.has_nominated_pods();
        if others_count || !self.extenders.is_empty() || self.watched.wants_scores() {
            return None;
        }
        let grouped = self.classes.grouped(self.class?, &self.runner, self.pod, self.pool)?;
        let node = grouped.best(self.runner.cx.cluster)?;
        self.watched.reached(SearchStep::NodesFiltered);
        if grouped.n_feasible() > 1 {
            self.watched.reached(SearchStep::NodesScored);
        }
        let state = if self.keeps_state { grouped.state.clone() } else { CycleState::new() };
        let (n_feasible, n_evaluated) = (grouped.n_feasible(), grouped.n_in_scope());
        Some(Choice { node, state, n_feasible, n_evaluated })
    }

    /// Where pods nominated to a node change the answer for it.
    fn nominated_overrides(
        &self,
        evaluation: &Evaluation,
    ) -> Result<Vec<(NodeIdx, Status)>, Status> {
        let cx = self.runner.cx;
        if !cx.nominated.has_nominated_pods() {
            return Ok(Vec::new());
        }
        let (state, skip) = (&evaluation.state, &evaluation.pre_filter.skip);
        let sums = SumsFilters::new(self.runner, state, self.pod, skip);
        let mut overrides = Vec::new();
        for (name, mut pods) in cx.nominated.nominations() {
            pods.retain(|other| must_leave_room(self.pod, other));
            if pods.is_empty() {
                continue;
            }
            let Some(idx) = cx.cluster.node_idx(&name) else { continue };
            if evaluation.is_left_out(idx) {
                continue;
            }
            let known = || evaluation.verdicts.rejection(idx).cloned().unwrap_or_default();
            let by_sums =
                sums.as_ref().and_then(|sums| sums.filter_with(idx, pods.iter().map(|pod| &**pod)));
            let status = match by_sums {
                // Without the pods, the node says what it is known to say.
                Some(status) if status.is_success() => known(),
                Some(rejection) => rejection,
                None => {
                    let overlay = NodeOverlay::new(idx);
                    self.runner.filter_with_nominated_pods(state, self.pod, &overlay, skip)
                }
            };
            if !status.is_success() && !status.is_rejected() {
                return Err(status);
            }
            if status != known() {
                overrides.push((idx, status));
            }
        }
        Ok(overrides)
    }

    /// Lets extenders narrow what passes, and takes the best of it.
    fn choose(&self, evaluation: &mut Evaluation, said: Said) -> Result<Choice, NoChoice> {
        match self.narrowed(evaluation, said)? {
            Some(mut narrowed) => self.choose_from(&mut narrowed),
            None => self.choose_from(evaluation),
        }
    }

    fn choose_from(&self, evaluation: &mut Evaluation) -> Result<Choice, NoChoice> {
        let runner = &self.runner;
        let n_feasible = evaluation.n_feasible();
        let n_evaluated = n_feasible + evaluation.verdicts.n_rejected();
        self.watched.reached(SearchStep::NodesFiltered);
        if n_feasible == 0 {
            let statuses =
                NodeStatuses { verdicts: &evaluation.verdicts, absent: &evaluation.absent };
            return Err(self.unfit(
                evaluation.diagnosis(),
                statuses,
                &evaluation.state,
                &evaluation.pre_filter.skip,
            ));
        }
        let node = if n_feasible == 1 {
            evaluation.feasible(runner.cx.cluster).first().copied()
        } else {
            let best = self.best(evaluation).map_err(NoChoice::Broken)?;
            if self.watched.wants_scores() {
                self.tell_scores(evaluation).map_err(NoChoice::Broken)?;
            }
            self.watched.reached(SearchStep::NodesScored);
            best
        };
        let node = node
            .ok_or_else(|| NoChoice::Broken(Status::error("the list of nodes is out of date")))?;
        let state = if self.keeps_state { evaluation.state.clone() } else { CycleState::new() };
        Ok(Choice { node, state, n_feasible, n_evaluated })
    }

    /// Tells what every passing node got. O(nodes × plugins).
    fn tell_scores(&self, evaluation: &mut Evaluation) -> Result<(), Status> {
        let cluster = self.runner.cx.cluster;
        let scores = scores_of(&self.runner, self.pod, evaluation)?;
        let named = scores.into_iter().filter_map(|(idx, scores)| {
            let name = cluster.node_name(idx)?.clone();
            (!scores.by_plugin.is_empty()).then_some((name, scores))
        });
        let named: Vec<_> = named.collect();
        if !named.is_empty() {
            self.watched.scored(&named);
        }
        Ok(())
    }

    fn failed(&self, failure: EvaluationFailure) -> NoChoice {
        match failure {
            EvaluationFailure::Error(status) => NoChoice::Broken(status),
            EvaluationFailure::Rejected(rejected) => {
                self.watched.reached(SearchStep::NodesFiltered);
                let Rejected { diagnosis, pre_filter, state } = *rejected;
                self.rejected_by_pre_filter(diagnosis, &pre_filter, &state)
            }
        }
    }

    fn rejected_by_pre_filter(
        &self,
        diagnosis: Diagnosis,
        run: &PreFilterRun,
        state: &CycleState,
    ) -> NoChoice {
        let verdicts = Verdicts::absent(self.runner.cx.cluster.capacity());
        let statuses = NodeStatuses { verdicts: &verdicts, absent: &run.status };
        self.unfit(diagnosis, statuses, state, &run.skip)
    }

    /// Asks PostFilter what can be done.
    fn unfit(
        &self,
        mut diagnosis: Diagnosis,
        statuses: NodeStatuses<'_>,
        state: &CycleState,
        skip: &SkipSet,
    ) -> NoChoice {
        self.watched.reached(SearchStep::Ended);
        let profile = self.runner.profile;
        let n_nodes = self.runner.cx.cluster.n_nodes();
        let mut commands = Commands::default();
        let mut outcome = PostFilterOutcome::without_nomination(Status::SUCCESS);
        if profile.post_filter().next().is_none() {
            outcome.nominating = Some(NominatingInfo::Override(None));
        } else {
            let filters = HypotheticalRunner { profile, skip };
            let mut cx = PostFilterContext {
                cx: self.runner.cx.unrecorded(),
                statuses,
                filters: &filters,
                extenders: self.extenders,
                random: self.random,
                commands: &mut commands,
            };
            outcome = self.runner.post_filter(&mut cx, state, self.pod);
            diagnosis.post_filter_message = outcome.status.message();
        }
        NoChoice::Unfit(Box::new(Unfit {
            error: Box::new(FitError { n_nodes, diagnosis }),
            nominating: outcome.nominating,
            victims: outcome.victims,
            found_by: outcome.found_by,
            commands,
        }))
    }
}
