//! What one kind of pod means for every node when that depends on other pods: kept up to date by groups of nodes that
//! stand alike.
//!
//! Plugins that look at a node alone are asked about changed nodes. Plugins that look at topology domains are asked once
//! for each group (`spec/plugins-topology.md`; [`DomainAnswers`]), and groups that are turned down or get a better score
//! leave the order of the nodes within them alone. So placing one more pod costs a few groups and one node.
//!
//! Invariants: the best node, and the number of nodes that pass, are those of a fresh
//! [`Evaluation`](crate::evaluation::Evaluation); whenever something cannot be followed there is no answer at all, and
//! the caller starts over.

mod groups;
mod own_scores;

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::CounterId;
use kube_scheduler_framework::{
    Candidates, ChangeKinds, ClusterState, ClusterView, Code, CycleState, DomainAnswers,
    DomainScope, Meter, MeteredPoint, NodeIdx, PhaseReads, PluginIdx, PluginName, PreFilterRun,
    Runner, SkipSet, Standing, check_score,
};

use self::groups::{Groups, Place};
use self::own_scores::OwnScores;
use crate::evaluation::list_nodes_by_slot;
use crate::pool::Pool;

/// With more groups than this, looking at all of them takes as long as looking at all nodes.
const MANY_GROUPS: usize = 1_024;

/// What a change of a node must not be in for domains to be followed.
pub(crate) const STARTS_OVER: ChangeKinds = ChangeKinds::LABELS
    .union(ChangeKinds::TAINTS)
    .union(ChangeKinds::IDENTITY)
    .union(ChangeKinds::ADDED)
    .union(ChangeKinds::REMOVED);

/// A plugin that looks at topology domains.
struct Following {
    idx: PluginIdx,
    name: PluginName,
    weight: i64,
    filters: bool,
    scores: bool,
    answers: Box<dyn DomainAnswers>,
}

/// See the module.
pub(crate) struct Grouped {
    pub(crate) state: CycleState,
    pre_filter: PreFilterRun,
    /// Plugins whose reads do not matter, because others are asked in their place.
    left_out: SkipSet,
    /// Plugins that are not asked node by node.
    skip: SkipSet,
    following: Vec<Following>,
    counters: Vec<CounterId>,
    own_scores: OwnScores,
    groups: Groups,
    n_in_scope: usize,
    n_feasible: usize,
    moved: Vec<NodeIdx>,
    entering: Vec<NodeIdx>,
    candidates: Vec<Candidates>,
    scores: Vec<i64>,
}

impl std::fmt::Debug for Grouped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grouped")
            .field("groups", &self.groups.len())
            .field("n_feasible", &self.n_feasible)
            .finish_non_exhaustive()
    }
}

/// The plugins of a profile that follow domains for `pod`; `None` when one of them cannot, or none has to.
fn following(runner: &Runner<'_>, pod: &Pod) -> Option<Vec<Following>> {
    let profile = runner.profile;
    let mut all = Vec::new();
    for (idx, entry) in profile.plugins().iter().enumerate() {
        let Some(scoped) = entry.plugin.as_domain_scoped() else { continue };
        let filters = profile.filter().any(|(other, ..)| other == idx);
        let scores = profile.score().any(|(other, ..)| other == idx);
        if !filters && !scores {
            continue;
        }
        // Without its preparation a plugin answers with an error, which is not an answer to keep.
        let is_prepared = (!filters || profile.pre_filter().any(|(other, ..)| other == idx))
            && (!scores || profile.pre_score().any(|(other, ..)| other == idx));
        match scoped.domain_scope(&runner.cx.unrecorded(), pod) {
            DomainScope::NotFollowing => {}
            DomainScope::Followed(answers) if is_prepared => all.push(Following {
                idx,
                name: entry.name.clone(),
                weight: profile.weight(idx),
                filters,
                scores,
                answers,
            }),
            DomainScope::Followed(_) | DomainScope::Neither => return None,
        }
    }
    (!all.is_empty()).then_some(all)
}

impl Grouped {
    /// Looks at every node; `None` when the pod's answers cannot be kept in this way.
    pub(crate) fn new(runner: &Runner<'_>, pod: &Pod, pool: &Pool) -> Option<Self> {
        let following = following(runner, pod)?;
        let mut left_out = SkipSet::default();
        following.iter().for_each(|plugin| left_out.insert(plugin.idx));
        let mut state = CycleState::new();
        let pre_filter = runner.pre_filter(&mut state, pod);
        let reads = pre_filter.reads.clone();
        let runner = &runner.recording(&reads);
        // What PreFilter read is enough to give up before any node is looked at.
        if !pre_filter.status.is_success() || !reads.without(&left_out).can_be_cached() {
            return None;
        }
        let mut skip = pre_filter.skip.clone();
        following.iter().for_each(|plugin| skip.insert(plugin.idx));
        let cluster = runner.cx.cluster;
        let mut nodes = pool.list(cluster.capacity());
        list_nodes_by_slot(cluster, &pre_filter, &mut nodes);
        let mut verdicts = pool.verdicts(cluster.capacity());
        pool.filter(runner, &state, pod, &nodes, &skip, &mut verdicts).ok()?;
        let mut passing = pool.list(nodes.len() + 1);
        verdicts.passing(&mut passing);
        let mut unasked = runner.pre_score(&mut state, pod, &passing).ok()?;
        following.iter().for_each(|plugin| unasked.insert(plugin.idx));
        let mut own_scores = OwnScores::new(runner, &unasked)?;
        own_scores.ask(runner, &state, pod, &passing)?;
        if !reads.without(&left_out).can_be_cached() {
            return None;
        }
        let counters =
            following.iter().flat_map(|plugin| plugin.answers.counters()).copied().collect();
        let groups = Groups::new(cluster, own_scores.n_scaled());
        let mut grouped = Self {
            state,
            pre_filter,
            left_out,
            skip,
            following,
            counters,
            own_scores,
            groups,
            n_in_scope: nodes.len(),
            n_feasible: 0,
            moved: Vec::new(),
            entering: Vec::new(),
            candidates: Vec::new(),
            scores: Vec::new(),
        };
        for plugin in &mut grouped.following {
            if !plugin.answers.catch_up(&runner.cx.unrecorded(), pod, &[], &mut grouped.moved) {
                return None;
            }
        }
        grouped.moved.clear();
        for &idx in passing.iter() {
            grouped.enter(runner, idx);
            if grouped.groups.len() > MANY_GROUPS {
                return None;
            }
        }
        for plugin in &grouped.following {
            let plugin = &runner.profile.plugins()[plugin.idx].plugin;
            if let Some(scoped) = plugin.as_domain_scoped() {
                scoped.forget(&mut grouped.state);
            }
        }
        // Nothing is in order yet: totals follow from scales, which follow from groups.
        grouped.judge(runner, true)?;
        Some(grouped)
    }

    /// What the plugins have read that are asked node by node.
    pub(crate) fn reads(&self) -> PhaseReads {
        self.pre_filter.reads.without(&self.left_out)
    }

    /// The counters that it reads.
    pub(crate) fn counters(&self) -> &[CounterId] {
        &self.counters
    }

    /// How many nodes pass.
    pub(crate) fn n_feasible(&self) -> usize {
        self.n_feasible
    }

    /// How many nodes were looked at.
    pub(crate) fn n_in_scope(&self) -> usize {
        self.n_in_scope
    }

    /// The best node that passes.
    pub(crate) fn best(&self, cluster: &ClusterState) -> Option<NodeIdx> {
        self.groups.best(cluster)
    }

    /// Catches up: the answers of `changed` nodes may differ for themselves, the pods on `with_pods` are others. `None`
    /// when that cannot be followed; nothing of this is of use then.
    pub(crate) fn catch_up(
        &mut self,
        runner: &Runner<'_>,
        pod: &Pod,
        changed: &[NodeIdx],
        with_pods: &[NodeIdx],
    ) -> Option<()> {
        let reads = self.pre_filter.reads.clone();
        let runner = &runner.recording(&reads);
        let begun = runner.profile.meter().map(Meter::nanos);
        self.moved.clear();
        self.moved.extend_from_slice(with_pods);
        for plugin in &mut self.following {
            if !plugin.answers.catch_up(&runner.cx.unrecorded(), pod, with_pods, &mut self.moved) {
                return None;
            }
        }
        self.entering.clear();
        for &idx in changed {
            self.groups.leave(runner.cx.cluster, idx, &self.own_scores.raw(idx));
            if self.passes_alone(runner, pod, idx)? {
                self.entering.push(idx);
            }
        }
        self.own_scores.ask(runner, &self.state, pod, &self.entering)?;
        for at in 0..self.entering.len() {
            self.enter(runner, self.entering[at]);
        }
        let mut moved = std::mem::take(&mut self.moved);
        moved.sort_unstable();
        moved.dedup();
        for &idx in &moved {
            if self.groups.contains(idx) && !changed.contains(&idx) {
                self.groups.leave(runner.cx.cluster, idx, &self.own_scores.raw(idx));
                self.enter(runner, idx);
            }
        }
        self.moved = moved;
        if self.groups.len() > MANY_GROUPS {
            return None;
        }
        self.judge(runner, false)?;
        // Filters and scores are asked together; the time is put down to the filters.
        runner.point_ended(MeteredPoint::Filter, Code::Success, begun);
        if self.n_feasible > 1 {
            runner.point_ended(
                MeteredPoint::Score,
                Code::Success,
                runner.profile.meter().map(Meter::nanos),
            );
        }
        // Plugins may have read more than the first time.
        self.reads().can_be_cached().then_some(())
    }

    fn passes_alone(&self, runner: &Runner<'_>, pod: &Pod, idx: NodeIdx) -> Option<bool> {
        let Some(view) = runner.node(idx) else { return Some(false) };
        let names = &self.pre_filter.node_names;
        if names.as_ref().is_some_and(|names| !names.contains(view.name())) {
            return Some(false);
        }
        let status = runner.filter(&self.state, pod, &view, &self.skip);
        (status.is_success() || status.is_rejected()).then(|| status.is_success())
    }

    /// Puts a node that passes by itself where it stands.
    fn enter(&mut self, runner: &Runner<'_>, idx: NodeIdx) {
        let mut standing = Standing::new();
        let view = ClusterView::unrecorded(runner.cx.cluster);
        for plugin in &self.following {
            plugin.answers.stand(view, idx, &mut standing);
        }
        let (total, raw) = (self.own_scores.total(idx), self.own_scores.raw(idx));
        self.groups.enter(runner.cx.cluster, idx, standing, Place { total, raw });
    }

    /// Asks about every group. `None` when a score is out of bounds.
    fn judge(&mut self, runner: &Runner<'_>, is_new: bool) -> Option<()> {
        let cluster = runner.cx.cluster;
        let view = ClusterView::unrecorded(cluster);
        self.candidates.clear();
        self.n_feasible = 0;
        for group in self.groups.iter_mut() {
            let filters = self.following.iter().filter(|plugin| plugin.filters);
            let Some(node) = group.first(cluster) else { continue };
            let passes = filters.into_iter().all(|plugin| plugin.answers.fits(view, node));
            group.passes = passes;
            group.score = 0;
            if passes {
                self.n_feasible += group.n_nodes();
                self.candidates.push(Candidates { node, n_nodes: group.n_nodes() });
            }
        }
        let is_rescaled = self.own_scores.rescale(|at| self.groups.bounds(at));
        if is_rescaled || is_new {
            self.groups.set_totals(cluster, |idx| self.own_scores.total(idx));
        }
        if self.groups.has_bad_total() {
            return None;
        }
        for plugin in self.following.iter_mut().filter(|plugin| plugin.scores) {
            self.scores.clear();
            self.scores.resize(self.candidates.len(), 0);
            if !plugin.answers.score(view, &self.candidates, &mut self.scores) {
                continue;
            }
            let passing = self.groups.iter_mut().filter(|group| group.passes);
            for (group, score) in passing.zip(&self.scores) {
                check_score(&plugin.name, *score).ok()?;
                group.score = group.score.wrapping_add(score.wrapping_mul(plugin.weight));
            }
        }
        Some(())
    }
}
