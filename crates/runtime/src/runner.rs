//! Runs one extension point of a profile, skips, early ends and wrapping texts included.
//!
//! Behaviour: `docs/spec/core.md` §10.4 to §10.9.

mod following;
mod hypothetical;
mod nominated;
mod recording;
mod rejections;
mod scale;
mod sums;
mod trials;

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::{NodeIdx, NodeOverlay};
use kube_scheduler_framework::{
    Code, CycleState, FeasibleNodes, FilterSink, NodeView, NominatingInfo, Normalization,
    PluginName, PostFilterContext, PostFilterOutcome, Reason, Score, Sources, Status, Verdicts,
};

use crate::meter::MeteredPoint;
use crate::profile::{PluginIdx, Profile, code_of};
use crate::reads::EvaluationReads;
use crate::skip_set::SkipSet;

pub use self::hypothetical::HypotheticalRunner;
pub use self::nominated::{NominatedFilters, must_leave_room};
pub use self::rejections::{NodeRejections, Rejections};
pub use self::scale::{Scale, are_within_bounds, bounds, check_score, is_within_bounds};
pub use self::sums::SumsFilters;

/// The result of PreFilter of all plugins: which nodes can fit, and which Filter plugins are left out.
#[derive(Clone, Debug, Default)]
pub struct PreFilterRun {
    /// Success, a rejection, or an error.
    pub status: Status,
    /// Only these nodes can fit; `None` means all.
    pub node_names: Option<BTreeSet<Arc<str>>>,
    /// The plugins that narrowed the nodes.
    pub restricting: BTreeSet<PluginName>,
    /// Plugins whose Filter and pod extensions are left out.
    pub skip: SkipSet,
    /// What the plugins have read since, if they were asked by a runner that [records](Runner::recording) it here.
    pub reads: EvaluationReads,
}

/// What hypothetically becomes of a pod on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodChange {
    /// It comes there.
    Added,
    /// It is gone.
    Removed,
}

/// One profile together with what its plugins may look at.
#[derive(Clone, Copy, Debug)]
pub struct Runner<'a> {
    /// The profile.
    pub profile: &'a Profile,
    /// What plugins may look at.
    pub cx: Sources<'a>,
    /// Where it is noted what they look at; `None` when nothing is cached of their answers.
    reads: Option<&'a EvaluationReads>,
}

fn go_list(names: &BTreeSet<PluginName>) -> String {
    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    format!("[{}]", names.join(" "))
}

impl<'a> Runner<'a> {
    /// PreFilter, plugin by plugin (`docs/spec/core.md` §10.4). Begins a new record of what plugins read.
    pub fn pre_filter(&self, state: &mut CycleState, pod: &Pod) -> PreFilterRun {
        let reads = EvaluationReads::new(self.profile.plugins().len());
        let run = || self.recording(&reads).run_pre_filter(state, pod);
        let point = MeteredPoint::PreFilter;
        let run = self.profile.measured_point(point, run, |run| run.status.code());
        PreFilterRun { reads, ..run }
    }

    fn run_pre_filter(&self, state: &mut CycleState, pod: &Pod) -> PreFilterRun {
        let mut run = PreFilterRun::default();
        for (idx, name, plugin) in self.profile.pre_filter() {
            let outcome = self.profile.measured(
                idx,
                MeteredPoint::PreFilter,
                || plugin.pre_filter(&self.cx_of_pre_filter(idx), state, pod),
                |outcome| outcome.status.code(),
            );
            if outcome.status.code() != Code::Skip {
                self.profile.called(idx, MeteredPoint::PreFilter, 1);
            }
            match outcome.status.code() {
                Code::Skip => run.skip.insert(idx),
                Code::Success => {
                    if let Some(names) = outcome.node_names {
                        run.restricting.insert(name.clone());
                        run.node_names = Some(match run.node_names.take() {
                            None => names,
                            Some(kept) => kept.intersection(&names).cloned().collect(),
                        });
                    }
                    if run.node_names.as_ref().is_some_and(BTreeSet::is_empty) {
                        let reason = if run.restricting.len() == 1 {
                            let only = run.restricting.first().map_or("", |name| name);
                            format!("node(s) didn't satisfy plugin {only}")
                        } else {
                            format!(
                                "node(s) didn't satisfy plugin(s) {} simultaneously",
                                go_list(&run.restricting)
                            )
                        };
                        run.status = Status::unresolvable(reason);
                        return run;
                    }
                }
                Code::UnschedulableAndUnresolvable => {
                    run.status = outcome.status.from_plugin(name);
                    run.node_names = None;
                    run.restricting.clear();
                    return run;
                }
                // A later plugin may still say more; the last such answer stands.
                Code::Unschedulable => run.status = outcome.status.from_plugin(name),
                Code::Error | Code::Pending | Code::Wait => {
                    run.status = outcome
                        .status
                        .wrapped(format!("running PreFilter plugin \"{name}\""))
                        .from_plugin(name);
                    return run;
                }
            }
        }
        run
    }

    /// The status of nodes that a PreFilter result left out.
    pub fn left_out_status(restricting: &BTreeSet<PluginName>) -> Status {
        Status::unresolvable(format!("node(s) didn't satisfy plugin(s) {}", go_list(restricting)))
    }

    /// All filters on one node, in order; the first that does not accept decides.
    pub fn filter(
        &self,
        state: &CycleState,
        pod: &Pod,
        node: &NodeView<'_>,
        skip: &SkipSet,
    ) -> Status {
        self.refusals(state, pod, node, skip).next().unwrap_or(Status::SUCCESS)
    }

    /// The answers of the filters that do not accept a node, in order. A filter is asked when its answer is wanted.
    #[inline]
    fn refusals(
        &self,
        state: &CycleState,
        pod: &Pod,
        node: &NodeView<'_>,
        skip: &SkipSet,
    ) -> impl Iterator<Item = Status> {
        let mut cx = self.cx.unrecorded();
        let filters = self.profile.filter().filter(|(idx, ..)| !skip.contains(*idx));
        filters.filter_map(move |(idx, name, plugin)| {
            let reads = self.per_node(idx);
            cx.note_in(reads);
            let status = self.profile.measured(
                idx,
                MeteredPoint::Filter,
                || plugin.filter(&cx, state, pod, &node.with_reads(reads)),
                Status::code,
            );
            self.profile.called(idx, MeteredPoint::Filter, 1);
            (!status.is_success()).then(|| filter_failure(status, name))
        })
    }

    /// Runs all filters on many nodes: marks each of `nodes` as passing or rejected.
    ///
    /// Gives exactly what [`filter`](Self::filter) gives node by node.
    ///
    /// # Errors
    /// The first error of a plugin.
    pub fn filter_all(
        &self,
        state: &CycleState,
        pod: &Pod,
        nodes: &[NodeIdx],
        skip: &SkipSet,
        verdicts: &mut Verdicts,
    ) -> Result<(), Status> {
        verdicts.let_pass(nodes);
        let n_left_out = verdicts.n_rejected();
        for (idx, name, plugin) in self.profile.filter() {
            if skip.contains(idx) {
                continue;
            }
            let n_rejected = verdicts.n_rejected().saturating_sub(n_left_out);
            self.profile.called(idx, MeteredPoint::Filter, nodes.len().saturating_sub(n_rejected));
            let mut sink = FilterSink::new(verdicts, name);
            self.profile
                .measured(
                    idx,
                    MeteredPoint::Filter,
                    || plugin.filter_all(&self.cx_of_scan(idx), state, pod, nodes, &mut sink),
                    code_of,
                )
                .map_err(|status| filter_failure(status, name))?;
        }
        Ok(())
    }

    /// Notifies the plugins that keep pod-dependent state, in order, that the pod `other` is hypothetically added or removed; the
    /// first that does not accept decides (`docs/spec/core.md` §10.5).
    pub fn pod_changed(
        &self,
        change: PodChange,
        state: &mut CycleState,
        pod: &Pod,
        other: &Pod,
        overlay: &NodeOverlay,
        skip: &SkipSet,
    ) -> Status {
        let Some(view) = NodeView::hypothetical(self.cx.cluster, overlay) else {
            return Status::SUCCESS;
        };
        let (what, point) = match change {
            PodChange::Added => ("AddPod", MeteredPoint::PreFilterExtensionAddPod),
            PodChange::Removed => ("RemovePod", MeteredPoint::PreFilterExtensionRemovePod),
        };
        for (idx, name, plugin) in self.profile.pre_filter() {
            let Some(extensions) = plugin.extensions().filter(|_| !skip.contains(idx)) else {
                continue;
            };
            let reads = self.per_node(idx);
            let (cx, view) = (self.cx.recorded_by(reads), view.with_reads(reads));
            let notify = || match change {
                PodChange::Added => extensions.add_pod(&cx, state, pod, other, &view),
                PodChange::Removed => extensions.remove_pod(&cx, state, pod, other, &view),
            };
            let status = self.profile.measured(idx, point, notify, Status::code);
            if !status.is_success() {
                let context = format!("running {what} on PreFilter plugin \"{name}\"");
                return status.wrapped(context).from_plugin(name);
            }
        }
        Status::SUCCESS
    }

    /// PostFilter, plugin by plugin (`docs/spec/core.md` §10.9).
    pub fn post_filter(
        &self,
        cx: &mut PostFilterContext<'_>,
        state: &CycleState,
        pod: &Arc<Pod>,
    ) -> PostFilterOutcome {
        let run = || self.run_post_filter(cx, state, pod);
        let point = MeteredPoint::PostFilter;
        self.profile.measured_point(point, run, |outcome| outcome.status.code())
    }

    fn run_post_filter(
        &self,
        cx: &mut PostFilterContext<'_>,
        state: &CycleState,
        pod: &Arc<Pod>,
    ) -> PostFilterOutcome {
        let mut reasons: Vec<Reason> = Vec::new();
        let mut kept: Option<PostFilterOutcome> = None;
        let mut first: Option<PluginName> = None;
        for (idx, name, plugin) in self.profile.post_filter() {
            let start = self.profile.plugin_start();
            // Dry runs ask plugins by the thousand; measuring each would be most of the work.
            self.profile.meter().inspect(|meter| meter.end_sample());
            let outcome = plugin.post_filter(cx, state, pod);
            let (point, code) = (MeteredPoint::PostFilter, outcome.status.code());
            self.profile.plugin_ended(idx, point, code, start);
            match outcome.status.code() {
                Code::Success => {
                    return PostFilterOutcome { found_by: Some(name.clone()), ..outcome };
                }
                Code::UnschedulableAndUnresolvable => {
                    return PostFilterOutcome {
                        status: outcome.status.from_plugin(name),
                        ..outcome
                    };
                }
                Code::Unschedulable | Code::Pending => {
                    reasons.extend(
                        outcome.status.reasons().map(|reason| Reason::from(reason.to_owned())),
                    );
                    if first.is_none() {
                        first = Some(name.clone());
                    }
                    if matches!(outcome.nominating, Some(NominatingInfo::Override(_))) {
                        kept = Some(outcome);
                    }
                }
                Code::Error | Code::Wait | Code::Skip => {
                    let text =
                        outcome.status.error_text().unwrap_or_else(|| outcome.status.message());
                    return PostFilterOutcome::without_nomination(
                        Status::error(text).from_plugin(name),
                    );
                }
            }
        }
        let mut status = Status::new(Code::Unschedulable, reasons);
        if let Some(name) = &first {
            status = status.from_plugin(name);
        }
        PostFilterOutcome {
            status,
            ..kept.unwrap_or_else(|| PostFilterOutcome::without_nomination(Status::SUCCESS))
        }
    }

    /// PreScore, plugin by plugin except for `left_out`; gives the plugins whose Score is left out, these included
    /// (`docs/spec/core.md` §10.7).
    ///
    /// # Errors
    /// The first error of a plugin.
    pub fn pre_score(
        &self,
        state: &mut CycleState,
        pod: &Pod,
        nodes: &[NodeIdx],
        left_out: &SkipSet,
    ) -> Result<SkipSet, Status> {
        let point = MeteredPoint::PreScore;
        let run = || {
            let mut skip = left_out.clone();
            for (idx, name, plugin) in self.profile.pre_score() {
                if left_out.contains(idx) {
                    continue;
                }
                let ask = || {
                    let reads = self.in_pre_score(idx);
                    let nodes = FeasibleNodes::recorded_by(nodes, reads);
                    plugin.pre_score(&self.cx.recorded_by(reads), state, pod, &nodes)
                };
                let status = self.profile.measured(idx, point, ask, Status::code);
                if status.is_skip() {
                    skip.insert(idx);
                    continue;
                }
                self.profile.called(idx, point, 1);
                if !status.is_success() {
                    let context = format!("running PreScore plugin \"{name}\"");
                    return Err(status.wrapped(context).from_plugin(name));
                }
            }
            Ok(skip)
        };
        self.profile.measured_point(point, run, code_of)
    }

    /// Writes the raw scores of one plugin for `nodes` into `scores`, in the same order; a plugin without Score writes nothing.
    ///
    /// # Errors
    /// If the plugin fails.
    pub fn raw_scores(
        &self,
        plugin: PluginIdx,
        state: &CycleState,
        pod: &Pod,
        nodes: &[NodeIdx],
        scores: &mut [i64],
    ) -> Result<(), Status> {
        let Some((name, score)) = self.score_plugin(plugin) else { return Ok(()) };
        self.profile.called(plugin, MeteredPoint::Score, nodes.len());
        let ask = || {
            // What a scan prepares for all nodes is more than what a single one needs.
            if let ([idx], [place]) = (nodes, &mut *scores)
                && let Some(node) = self.node(*idx)
            {
                let reads = self.per_node(plugin);
                let cx = self.cx.recorded_by(reads);
                *place = score.score(&cx, state, pod, &node.with_reads(reads))?;
                return Ok(());
            }
            score.score_all(&self.cx_of_scan(plugin), state, pod, nodes, scores)
        };
        let result = self.profile.measured(plugin, MeteredPoint::Score, ask, code_of);
        result.map_err(|status| {
            status
                .wrapped(format!("running Score plugins: plugin \"{name}\" failed with"))
                .from_plugin(name)
        })
    }

    /// Turns one plugin's raw scores into scores between 0 and 100, checks them, and multiplies by the weight.
    ///
    /// # Errors
    /// If the plugin's own normalisation fails, or leaves a score outside of that range.
    pub fn normalize_and_weigh(
        &self,
        plugin: PluginIdx,
        state: &CycleState,
        pod: &Pod,
        nodes: &[NodeIdx],
        scores: &mut [i64],
    ) -> Result<(), Status> {
        let Some((name, score)) = self.score_plugin(plugin) else { return Ok(()) };
        match score.normalization() {
            Normalization::Custom => {
                let status = self.profile.measured(
                    plugin,
                    MeteredPoint::ScoreExtensionNormalize,
                    || score.normalize(&self.cx_of_scan(plugin), state, pod, nodes, scores),
                    Status::code,
                );
                if !status.is_success() {
                    let text = format!(
                        "running Normalize on Score plugins: plugin \"{name}\" failed with"
                    );
                    return Err(status.wrapped(text).from_plugin(name));
                }
            }
            normalization => {
                let scale = Scale::spanning(normalization, scores);
                scores.iter_mut().for_each(|score| *score = scale.score(*score));
            }
        }
        let weight = self.profile.weight(plugin);
        for score in scores {
            check_score(name, *score)?;
            *score *= weight;
        }
        Ok(())
    }

    fn score_plugin(&self, plugin: PluginIdx) -> Option<(&'a PluginName, &'a dyn Score)> {
        let entry = self.profile.plugin(plugin)?;
        Some((&entry.name, entry.plugin.as_score()?))
    }
}

/// Anything but success as an error.
fn ok(status: Status) -> Result<(), Status> {
    if status.is_success() { Ok(()) } else { Err(status) }
}

fn filter_failure(status: Status, name: &PluginName) -> Status {
    if status.is_rejected() {
        status.from_plugin(name)
    } else {
        status.wrapped(format!("running \"{name}\" filter plugin")).from_plugin(name)
    }
}
