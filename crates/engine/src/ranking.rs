//! The nodes that pass in the order in which they are chosen, kept up to date for one class of pods.
//!
//! Plugins that look at a node alone are asked about changed nodes. Plugins that look at topology domains are asked once
//! for each group of nodes with equal standings (`docs/spec/plugins-topology.md`; [`DomainAnswers`]): a group that is rejected or
//! gets a better score leaves the order of the nodes within it alone. So placing one more pod costs a few groups and one
//! node. Where no plugin looks at domains, all standings are equal, and there is one group.
//!
//! Invariants: the best node, and the number of nodes that pass, are those of a fresh [`Evaluation`]; whenever something
//! cannot be followed there is no answer at all, and the caller starts over.

mod groups;
mod own_scores;

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::{ChangeKinds, ClusterState};
use kube_scheduler_framework::{
    Candidates, ClusterView, Code, DomainAnswers, GroupKey, NodeIdx, PluginName,
};
use kube_scheduler_runtime::{Meter, MeteredPoint, PluginIdx, Runner, SkipSet, check_score};

use self::groups::Groups;
use self::own_scores::OwnScores;
use crate::evaluation::Evaluation;
use crate::pool::Pool;
use crate::preference::TieBreak;

/// With more groups than this, looking at all of them takes as long as looking at all nodes.
const MANY_GROUPS: usize = 1_024;

/// What a change of a node must not be in for domains to be followed.
pub(crate) const DOMAINS_START_OVER: ChangeKinds = ChangeKinds::LABELS
    .union(ChangeKinds::TAINTS)
    .union(ChangeKinds::IDENTITY)
    .union(ChangeKinds::ADDED)
    .union(ChangeKinds::REMOVED);

/// A plugin that looks at topology domains.
struct DomainPlugin {
    idx: PluginIdx,
    name: PluginName,
    weight: i64,
    filters: bool,
    scores: bool,
    answers: Box<dyn DomainAnswers>,
}

/// The plugins that are asked about groups of nodes instead of nodes.
#[derive(Default)]
pub(crate) struct DomainPlugins(Vec<DomainPlugin>);

impl DomainPlugins {
    /// Those of a profile that can be asked so about `pod`. What the others answer is cached by what they
    /// read.
    pub(crate) fn new(runner: &Runner<'_>, pod: &Pod) -> Self {
        let profile = runner.profile;
        let mut all = Vec::new();
        for (idx, entry) in profile.plugins().iter().enumerate() {
            let Some(scoped) = entry.plugin.as_domain_scoped() else { continue };
            let filters = profile.filter().any(|(other, ..)| other == idx);
            let scores = profile.score().any(|(other, ..)| other == idx);
            // Without its preparation a plugin answers with an error, which is not an answer to keep.
            let is_prepared = (!filters || profile.pre_filter().any(|(other, ..)| other == idx))
                && (!scores || profile.pre_score().any(|(other, ..)| other == idx));
            if (filters || scores)
                && is_prepared
                && let Some(answers) = scoped.domain_answers(&runner.cx.unrecorded(), pod)
            {
                let (name, weight) = (entry.name.clone(), profile.weight(idx));
                all.push(DomainPlugin { idx, name, weight, filters, scores, answers });
            }
        }
        Self(all)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Has `skip` leave all of them out.
    pub(crate) fn add_to(&self, skip: &mut SkipSet) {
        self.0.iter().for_each(|plugin| skip.insert(plugin.idx));
    }

    /// Updates the answers after the pods on `changed` nodes have changed. Adds to `moved` the other nodes whose standing
    /// may have changed; `None` when that cannot be found out.
    fn catch_up(
        &mut self,
        runner: &Runner<'_>,
        pod: &Pod,
        changed: &[NodeIdx],
        moved: &mut Vec<NodeIdx>,
    ) -> Option<()> {
        let cx = runner.cx.unrecorded();
        let mut all = self.0.iter_mut();
        all.all(|plugin| plugin.answers.catch_up(&cx, pod, changed, moved)).then_some(())
    }

    fn stand(&self, cluster: &ClusterState, node: NodeIdx, standing: &mut GroupKey) {
        standing.clear();
        let view = ClusterView::unrecorded(cluster);
        self.0.iter().for_each(|plugin| plugin.answers.stand(view, node, standing));
    }

    /// Whether the group of `node` passes.
    fn fit(&self, cluster: &ClusterState, node: NodeIdx) -> bool {
        let view = ClusterView::unrecorded(cluster);
        let mut filters = self.0.iter().filter(|plugin| plugin.filters);
        filters.all(|plugin| plugin.answers.fits(view, node))
    }
}

/// See the module.
pub(crate) struct Ranking {
    domains: DomainPlugins,
    own_scores: OwnScores,
    groups: Groups,
    n_feasible: usize,
    /// Memory for single calls.
    moved: Vec<NodeIdx>,
    standing: GroupKey,
    candidates: Vec<Candidates>,
    scores: Vec<i64>,
}

impl std::fmt::Debug for Ranking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ranking")
            .field("groups", &self.groups.len())
            .field("n_feasible", &self.n_feasible)
            .finish_non_exhaustive()
    }
}

impl Ranking {
    /// Runs PreScore and ranks the nodes that pass in `evaluation`, which is by all plugins but `domains`. `None` when
    /// scores cannot be kept up to date node by node, or one of them is out of bounds.
    pub(crate) fn new(
        runner: &Runner<'_>,
        pod: &Pod,
        pool: &Pool,
        evaluation: &mut Evaluation,
        domains: DomainPlugins,
    ) -> Option<Self> {
        let reads = evaluation.pre_filter.reads.clone();
        let runner = &runner.recording(&reads);
        let cluster = runner.cx.cluster;
        let mut passing = pool.list(evaluation.verdicts.n_passing() + 1);
        evaluation.verdicts.passing(&mut passing);
        let mut skip = runner.pre_score(&mut evaluation.state, pod, &passing).ok()?;
        let started = runner.profile.meter().map(Meter::nanos);
        domains.add_to(&mut skip);
        let mut own_scores = OwnScores::new(runner, &skip)?;
        own_scores.ask(runner, &evaluation.state, pod, &passing)?;
        let groups = Groups::new(own_scores.n_scaled());
        let mut ranking = Self {
            domains,
            own_scores,
            groups,
            n_feasible: 0,
            moved: Vec::new(),
            standing: GroupKey::new(),
            candidates: Vec::new(),
            scores: Vec::new(),
        };
        ranking.domains.catch_up(runner, pod, &[], &mut ranking.moved)?;
        ranking.groups.begin_relisting(cluster);
        for &idx in passing.iter() {
            ranking.enter(cluster, idx);
            if ranking.groups.len() > MANY_GROUPS {
                return None;
            }
        }
        // What the domains' plugins prepared for being asked node by node is not read any more.
        for plugin in &ranking.domains.0 {
            let entry = &runner.profile.plugins()[plugin.idx];
            if let Some(scoped) = entry.plugin.as_domain_scoped() {
                scoped.forget(&mut evaluation.state);
            }
        }
        ranking.judge(cluster)?;
        runner.point_ended(MeteredPoint::Score, Code::Success, started);
        Some(ranking)
    }

    /// How many nodes pass.
    pub(crate) fn n_feasible(&self) -> usize {
        self.n_feasible
    }

    /// The best node that passes.
    pub(crate) fn best(&self, cluster: &ClusterState, ties: TieBreak) -> Option<NodeIdx> {
        self.groups.best(cluster, ties)
    }

    /// Whether some plugins are asked about groups of nodes.
    pub(crate) fn follows_domains(&self) -> bool {
        !self.domains.is_empty()
    }

    /// Updates the ranking for `evaluation`, in which the answers of `changed` nodes may differ, and for changed pods on the
    /// nodes `with_pods`. Both lists are sorted. `None` when that is not possible; the ranking is invalid then and must be
    /// discarded.
    pub(crate) fn catch_up(
        &mut self,
        runner: &Runner<'_>,
        pod: &Pod,
        evaluation: &Evaluation,
        changed: &[NodeIdx],
        with_pods: &[NodeIdx],
    ) -> Option<()> {
        let runner = &runner.recording(&evaluation.pre_filter.reads);
        let cluster = runner.cx.cluster;
        let mut moved = std::mem::take(&mut self.moved);
        moved.clear();
        moved.extend_from_slice(with_pods);
        self.domains.catch_up(runner, pod, with_pods, &mut moved)?;
        if !self.groups.has_order_of(cluster) {
            self.groups.begin_relisting(cluster);
            self.own_scores.grow(cluster.capacity());
        }
        // Nodes leave before they are scored again: their groups count them by the old raw scores.
        for &idx in changed {
            self.groups.leave(cluster, idx, &self.own_scores);
        }
        let entering: Vec<NodeIdx> =
            changed.iter().copied().filter(|idx| evaluation.verdicts.passes(*idx)).collect();
        self.own_scores.ask(runner, &evaluation.state, pod, &entering)?;
        for idx in entering {
            self.enter(cluster, idx);
        }
        moved.sort_unstable();
        moved.dedup();
        // The other nodes keep their own scores and only move to another group. Changed ones have just entered theirs.
        for &idx in &moved {
            if self.groups.contains(idx) && changed.binary_search(&idx).is_err() {
                self.groups.leave(cluster, idx, &self.own_scores);
                self.enter(cluster, idx);
            }
        }
        self.moved = moved;
        if self.groups.len() > MANY_GROUPS {
            return None;
        }
        self.judge(cluster)
    }

    /// Puts a node that passes by itself where it stands.
    fn enter(&mut self, cluster: &ClusterState, idx: NodeIdx) {
        self.domains.stand(cluster, idx, &mut self.standing);
        self.groups.enter(cluster, idx, &self.standing, &self.own_scores);
    }

    /// Scales by the raw scores of the groups that pass; whether any total may be another now.
    fn rescale(&mut self) -> bool {
        self.own_scores.rescale(|at| self.groups.bounds(at))
    }

    /// Asks about every group. `None` when a score is out of bounds.
    fn judge(&mut self, cluster: &ClusterState) -> Option<()> {
        if self.groups.is_relisting() {
            // A guess, which is right if all groups pass: then nothing has to be listed twice.
            self.rescale();
            self.groups.list(cluster, &self.own_scores);
        }
        self.candidates.clear();
        self.n_feasible = 0;
        for group in self.groups.iter_mut() {
            let Some(node) = group.first(cluster) else { continue };
            group.passes = self.domains.fit(cluster, node);
            group.score = 0;
            if group.passes {
                self.n_feasible += group.n_nodes();
                self.candidates.push(Candidates { node, n_nodes: group.n_nodes() });
            }
        }
        if self.rescale() {
            self.groups.list(cluster, &self.own_scores);
        }
        if self.groups.has_bad_total() {
            return None;
        }
        let view = ClusterView::unrecorded(cluster);
        for plugin in self.domains.0.iter_mut().filter(|plugin| plugin.scores) {
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
