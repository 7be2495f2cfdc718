//! Runs one extension point of a profile, skips, early ends and wrapping texts included.
//!
//! Behaviour: `spec/core.md` §10.4 to §10.9.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::{NodeIdx, NodeOverlay};
use smallvec::SmallVec;

use crate::context::Context;
use crate::cycle_state::CycleState;
use crate::dependencies::Dependencies;
use crate::following::Following;
use crate::points::{
    FilterSink, HypotheticalFilter, MAX_NODE_SCORE, MIN_NODE_SCORE, NominatingInfo, Normalization,
    PodsRead, PostFilterContext, PostFilterOutcome, PreFilterExtensions,
};
use crate::profile::{PluginIdx, Profile};
use crate::status::{Code, PluginName, Reason, Status};
use crate::verdicts::Verdicts;
use crate::view::NodeView;

/// Plugins that have nothing to say about a pod at one extension point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkipSet(Vec<bool>);

impl SkipSet {
    /// Whether the plugin is left out.
    pub fn contains(&self, plugin: PluginIdx) -> bool {
        self.0.get(plugin).copied().unwrap_or(false)
    }

    /// Leaves the plugin out.
    pub fn insert(&mut self, plugin: PluginIdx) {
        if self.0.len() <= plugin {
            self.0.resize(plugin + 1, false);
        }
        self.0[plugin] = true;
    }
}

/// What running PreFilter gave.
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
}

/// One profile together with what its plugins may look at.
#[derive(Clone, Copy, Debug)]
pub struct Runner<'a> {
    /// The profile.
    pub profile: &'a Profile,
    /// What plugins may look at.
    pub cx: Context<'a>,
}

fn go_list(names: &BTreeSet<PluginName>) -> String {
    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    format!("[{}]", names.join(" "))
}

impl<'a> Runner<'a> {
    /// What the plugins want followed before they are asked about a pod.
    pub fn following(&self, pod: &Pod) -> Following {
        let mut following = Following::new();
        for (_, _, plugin) in self.profile.pre_filter() {
            plugin.follows(&self.cx, pod, &mut following);
        }
        following
    }

    /// PreFilter, plugin by plugin (`spec/core.md` §10.4).
    pub fn pre_filter(&self, state: &mut CycleState, pod: &Pod) -> PreFilterRun {
        let mut run = PreFilterRun::default();
        for (idx, name, plugin) in self.profile.pre_filter() {
            let outcome = plugin.pre_filter(&self.cx, state, pod);
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
        for (idx, name, plugin) in self.profile.filter() {
            if skip.contains(idx) {
                continue;
            }
            let status = plugin.filter(&self.cx, state, pod, node);
            if status.is_success() {
                continue;
            }
            return filter_failure(status, name);
        }
        Status::SUCCESS
    }

    /// All filters on many nodes: marks each of `nodes` as passing or turned down. Returns the first error.
    ///
    /// Gives exactly what [`filter`](Self::filter) gives node by node.
    pub fn filter_all(
        &self,
        state: &CycleState,
        pod: &Pod,
        nodes: &[NodeIdx],
        skip: &SkipSet,
        verdicts: &mut Verdicts,
    ) -> Result<(), Status> {
        for &idx in nodes {
            verdicts.put(idx, &Status::SUCCESS);
        }
        for (idx, name, plugin) in self.profile.filter() {
            if skip.contains(idx) {
                continue;
            }
            let mut sink = FilterSink::new(verdicts, name);
            plugin
                .filter_all(&self.cx, state, pod, nodes, &mut sink)
                .map_err(|status| filter_failure(status, name))?;
        }
        Ok(())
    }

    /// The pods nominated to a node that `pod` must leave room for: others that are at least as important.
    pub fn nominated_that_count(&self, pod: &Pod, node: &str) -> Vec<Arc<Pod>> {
        let mut nominated = self.cx.nominated.nominated_pods(node);
        nominated.retain(|other| other.priority() >= pod.priority() && other.uid != pod.uid);
        nominated
    }

    /// All filters on one node with pods nominated to it taken into account (`spec/core.md` §10.6).
    ///
    /// `overlay` holds hypothetical changes to start from; pass an empty one for the node as it is.
    pub fn filter_with_nominated_pods(
        &self,
        state: &CycleState,
        pod: &Pod,
        overlay: &NodeOverlay,
        skip: &SkipSet,
    ) -> Status {
        let Some(plain) = NodeView::hypothetical(self.cx.cluster, overlay) else {
            return Status::SUCCESS;
        };
        let counted = self.nominated_that_count(pod, plain.name());
        if !counted.is_empty() {
            let mut with_them = overlay.clone();
            let mut state = state.clone();
            for other in &counted {
                with_them.add_pod(self.cx.cluster, other);
                let status = self.add_pod(&mut state, pod, other, &with_them, skip);
                if !status.is_success() {
                    return Status::error(status.error_text().unwrap_or_default());
                }
            }
            if let Some(view) = NodeView::hypothetical(self.cx.cluster, &with_them) {
                let status = self.filter(&state, pod, &view, skip);
                if !status.is_success() {
                    return status;
                }
            }
        }
        self.filter(state, pod, &plain, skip)
    }

    /// The answer of the filters for `node` without its pods of less than `priority`, if sums are enough to see that it
    /// would be a rejection.
    pub fn rejection_without_pods_below(
        &self,
        state: &CycleState,
        pod: &Pod,
        node: NodeIdx,
        priority: i32,
        skip: &SkipSet,
    ) -> Option<Status> {
        let overlay = NodeOverlay::sums_without_pods_below(self.cx.cluster, node, priority);
        let view = NodeView::hypothetical(self.cx.cluster, &overlay)?;
        // A plugin that fails when it is told of a pod decides instead of the filters.
        let extensions: SmallVec<[(PluginIdx, &dyn PreFilterExtensions); 4]> = self
            .profile
            .pre_filter()
            .filter(|(idx, ..)| !skip.contains(*idx))
            .filter_map(|(idx, _, plugin)| Some((idx, plugin.extensions()?)))
            .collect();
        let may_fail = extensions.iter().any(|(_, extensions)| extensions.may_fail(state));
        if may_fail || !self.nominated_that_count(pod, view.name()).is_empty() {
            return None;
        }
        for (idx, name, plugin) in self.profile.filter() {
            if skip.contains(idx) {
                continue;
            }
            let follows_pods = extensions.iter().any(|(other, _)| *other == idx);
            if follows_pods || plugin.reads_of_pods(pod) == PodsRead::Everything {
                return None;
            }
            let status = plugin.filter(&self.cx, state, pod, &view);
            if !status.is_success() {
                return Some(filter_failure(status, name));
            }
        }
        None
    }

    /// Tells the plugins that keep pod-dependent state about a hypothetical pod.
    pub fn add_pod(
        &self,
        state: &mut CycleState,
        pod: &Pod,
        added: &Pod,
        overlay: &NodeOverlay,
        skip: &SkipSet,
    ) -> Status {
        self.tell_extensions("AddPod", overlay, skip, |extensions, view| {
            extensions.add_pod(&self.cx, state, pod, added, view)
        })
    }

    /// Tells the plugins that keep pod-dependent state that a pod is hypothetically gone.
    pub fn remove_pod(
        &self,
        state: &mut CycleState,
        pod: &Pod,
        removed: &Pod,
        overlay: &NodeOverlay,
        skip: &SkipSet,
    ) -> Status {
        self.tell_extensions("RemovePod", overlay, skip, |extensions, view| {
            extensions.remove_pod(&self.cx, state, pod, removed, view)
        })
    }

    /// Calls `tell` for every plugin with pod extensions, in order; the first that does not accept decides
    /// (`spec/core.md` §10.5).
    fn tell_extensions(
        &self,
        what: &str,
        overlay: &NodeOverlay,
        skip: &SkipSet,
        mut tell: impl FnMut(&dyn PreFilterExtensions, &NodeView<'_>) -> Status,
    ) -> Status {
        let Some(view) = NodeView::hypothetical(self.cx.cluster, overlay) else {
            return Status::SUCCESS;
        };
        for (idx, name, plugin) in self.profile.pre_filter() {
            let Some(extensions) = plugin.extensions().filter(|_| !skip.contains(idx)) else {
                continue;
            };
            let status = tell(extensions, &view);
            if !status.is_success() {
                let context = format!("running {what} on PreFilter plugin \"{name}\"");
                return status.wrapped(context).from_plugin(name);
            }
        }
        Status::SUCCESS
    }

    /// PostFilter, plugin by plugin (`spec/core.md` §10.9).
    pub fn post_filter(
        &self,
        cx: &mut PostFilterContext<'_>,
        state: &CycleState,
        pod: &Arc<Pod>,
    ) -> PostFilterOutcome {
        let mut reasons: Vec<Reason> = Vec::new();
        let mut kept: Option<PostFilterOutcome> = None;
        let mut first: Option<PluginName> = None;
        for (_, name, plugin) in self.profile.post_filter() {
            let outcome = plugin.post_filter(cx, state, pod);
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

    /// PreScore, plugin by plugin; gives the plugins whose Score is left out (`spec/core.md` §10.7).
    pub fn pre_score(
        &self,
        state: &mut CycleState,
        pod: &Pod,
        nodes: &[NodeIdx],
    ) -> Result<SkipSet, Status> {
        let mut skip = SkipSet::default();
        for (idx, name, plugin) in self.profile.pre_score() {
            let status = plugin.pre_score(&self.cx, state, pod, nodes);
            if status.is_skip() {
                skip.insert(idx);
            } else if !status.is_success() {
                return Err(status
                    .wrapped(format!("running PreScore plugin \"{name}\""))
                    .from_plugin(name));
            }
        }
        Ok(skip)
    }

    /// The raw scores of one plugin for `nodes`.
    pub fn raw_scores(
        &self,
        plugin: PluginIdx,
        state: &CycleState,
        pod: &Pod,
        nodes: &[NodeIdx],
        scores: &mut [i64],
    ) -> Result<(), Status> {
        let Some((name, score)) = self.score_plugin(plugin) else { return Ok(()) };
        score.score_all(&self.cx, state, pod, nodes, scores).map_err(|status| {
            status
                .wrapped(format!("running Score plugins: plugin \"{name}\" failed with"))
                .from_plugin(name)
        })
    }

    /// Turns one plugin's raw scores into scores between 0 and 100, checks them, and multiplies by the weight.
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
            Normalization::None => {}
            Normalization::Proportional => normalize_proportionally(scores, false),
            Normalization::ReversedProportional => normalize_proportionally(scores, true),
            Normalization::MinMax => normalize_min_max(scores),
            Normalization::Custom => {
                let status = score.normalize(&self.cx, state, pod, nodes, scores);
                if !status.is_success() {
                    let text = format!(
                        "running Normalize on Score plugins: plugin \"{name}\" failed with"
                    );
                    return Err(status.wrapped(text).from_plugin(name));
                }
            }
        }
        let weight = self.profile.weight(plugin);
        for score in scores {
            check_score(name, *score)?;
            *score *= weight;
        }
        Ok(())
    }

    fn score_plugin(
        &self,
        plugin: PluginIdx,
    ) -> Option<(&'a PluginName, &'a dyn crate::points::Score)> {
        let entry = self.profile.plugins().get(plugin)?;
        Some((&entry.name, entry.plugin.as_score()?))
    }

    /// What everything up to and including raw scores depends on for this pod.
    pub fn dependencies(&self, pod: &Pod) -> RunDependencies {
        let mut all =
            RunDependencies { once: Dependencies::POD_ONLY, per_node: Dependencies::POD_ONLY };
        for (_, _, plugin) in self.profile.pre_filter() {
            all.once = all.once.union(plugin.pre_filter_depends_on(pod));
        }
        for (_, _, plugin) in self.profile.pre_score() {
            all.once = all.once.union(plugin.pre_score_depends_on_in(&self.cx, pod));
        }
        for (_, _, plugin) in self.profile.filter() {
            all.per_node = all.per_node.union(plugin.filter_depends_on(pod));
        }
        for (_, _, plugin) in self.profile.score() {
            all.per_node = all.per_node.union(plugin.score_depends_on_in(&self.cx, pod));
        }
        all
    }
}

/// What the answers of one pod's evaluation depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunDependencies {
    /// PreFilter and PreScore: computed once for all nodes.
    pub once: Dependencies,
    /// Filter and raw scores: computed per node.
    pub per_node: Dependencies,
}

fn filter_failure(status: Status, name: &PluginName) -> Status {
    if status.is_rejected() {
        status.from_plugin(name)
    } else {
        status.wrapped(format!("running \"{name}\" filter plugin")).from_plugin(name)
    }
}

/// Refuses a normalised score outside of 0..=100.
pub fn check_score(name: &PluginName, score: i64) -> Result<(), Status> {
    if (MIN_NODE_SCORE..=MAX_NODE_SCORE).contains(&score) {
        return Ok(());
    }
    Err(Status::error(format!(
        "applying score defaultWeights on Score plugins: plugin \"{name}\" returns an invalid score {score}, \
         it should in the range of [{MIN_NODE_SCORE}, {MAX_NODE_SCORE}] after normalizing"
    )))
}

/// Scales to 0..100 by the highest score, truncating; reversed if asked (`spec/plugins-node.md` §2.10).
pub(crate) fn normalize_proportionally(scores: &mut [i64], is_reversed: bool) {
    let highest = scores.iter().copied().fold(0, i64::max);
    for score in scores {
        *score = proportional(*score, highest, is_reversed);
    }
}

/// One score scaled by the highest one (`spec/plugins-node.md` §2.10).
pub fn proportional(score: i64, highest: i64, is_reversed: bool) -> i64 {
    if highest == 0 {
        return if is_reversed { MAX_NODE_SCORE } else { score };
    }
    let scaled = MAX_NODE_SCORE.wrapping_mul(score) / highest;
    if is_reversed { MAX_NODE_SCORE.wrapping_sub(scaled) } else { scaled }
}

/// Scales from 0 for the lowest score to 100 for the highest.
pub(crate) fn normalize_min_max(scores: &mut [i64]) {
    let lowest = scores.iter().copied().min().unwrap_or(0);
    let highest = scores.iter().copied().max().unwrap_or(0);
    for score in scores {
        *score = min_max(*score, lowest, highest);
    }
}

/// One score scaled by the lowest and the highest one (`spec/plugins-topology.md` §5.6).
///
/// Quirk: dividing floats first loses a unit here and there, such as 57 for 29 of 50. Pinned by
/// `min_max_truncates_the_float`.
pub fn min_max(score: i64, lowest: i64, highest: i64) -> i64 {
    let way = highest.wrapping_sub(lowest);
    if way <= 0 {
        return MIN_NODE_SCORE;
    }
    let share = score.wrapping_sub(lowest) as f64 / way as f64;
    (MAX_NODE_SCORE as f64 * share) as i64
}

/// A runner that knows which plugins to leave out, as PostFilter plugins need it.
#[derive(Debug)]
pub struct HypotheticalRunner<'a> {
    /// Profile; the context comes with every call.
    pub profile: &'a Profile,
    /// Plugins left out of filtering.
    pub skip: &'a SkipSet,
}

impl HypotheticalFilter for HypotheticalRunner<'_> {
    fn filter_with_nominated_pods(
        &self,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &Pod,
        overlay: &NodeOverlay,
    ) -> Status {
        Runner { profile: self.profile, cx: *cx }
            .filter_with_nominated_pods(state, pod, overlay, self.skip)
    }

    fn rejection_without_pods_below(
        &self,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &Pod,
        node: NodeIdx,
        priority: i32,
    ) -> Option<Status> {
        Runner { profile: self.profile, cx: *cx }
            .rejection_without_pods_below(state, pod, node, priority, self.skip)
    }

    fn add_pod(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &Pod,
        added: &Pod,
        overlay: &NodeOverlay,
    ) -> Status {
        Runner { profile: self.profile, cx: *cx }.add_pod(state, pod, added, overlay, self.skip)
    }

    fn remove_pod(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &Pod,
        removed: &Pod,
        overlay: &NodeOverlay,
    ) -> Status {
        Runner { profile: self.profile, cx: *cx }
            .remove_pod(state, pod, removed, overlay, self.skip)
    }
}
