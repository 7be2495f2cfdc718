//! The nodes that pass in the order in which they are chosen, kept up to date for one class of pods.
//!
//! Plugins that look at a node alone are asked about changed nodes. Plugins that count pods elsewhere are asked once for each
//! group of nodes that their counters show alike ([`DomainPlugins`]): a group that is rejected or gets a better score leaves
//! the order of the nodes within it alone. So placing one more pod costs a few groups and one node. Where no plugin looks at domains, all standings are equal, and there is one group.
//!
//! Invariants: the best node, and the number of nodes that pass, are those of a fresh [`Evaluation`]; whenever something
//! cannot be followed there is no answer at all, and the caller starts over.

mod domain_plugins;
mod groups;
mod own_scores;

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::{ChangeKinds, ClusterState, Versions};
use kube_scheduler_framework::{Code, CycleState, NodeIdx};
use kube_scheduler_runtime::{MeteredPoint, Runner, SkipSet};

pub(crate) use self::domain_plugins::DomainPlugins;
use self::groups::{Groups, Standing};
use self::own_scores::OwnScores;
use crate::buffers::Buffers;
use crate::evaluation::Evaluation;
use crate::preference::TieBreak;

/// With more groups than this, looking at all of them takes as long as looking at all nodes. `bench core` does not reach it: without
/// groups SchedulingPodAntiAffinity takes seven times as long.
const MANY_GROUPS: usize = 1_024;

/// What a change of a node must not be in for domains to be followed.
pub(crate) const DOMAINS_START_OVER: ChangeKinds = ChangeKinds::LABELS
    .union(ChangeKinds::TAINTS)
    .union(ChangeKinds::IDENTITY)
    .union(ChangeKinds::ADDED)
    .union(ChangeKinds::REMOVED);

/// The nodes that pass, in the order in which they are chosen, for one class of pods; see the module.
pub(crate) struct Ranking {
    domains: DomainPlugins,
    own_scores: OwnScores,
    groups: Groups,
    n_feasible: usize,
    /// Memory for single calls.
    moved: Vec<NodeIdx>,
    standing: Standing,
    firsts: Vec<NodeIdx>,
    numbers: Vec<usize>,
    scores: Vec<i64>,
    sums: Vec<i64>,
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
    /// Runs PreScore and ranks the nodes that pass in `evaluation`, which is by all plugins but `domains`; `by_name` is how ties
    /// are going to fall most often. `None` when
    /// scores cannot be kept up to date node by node, or one of them is out of bounds.
    pub(crate) fn new(
        runner: &Runner<'_>,
        pod: &Pod,
        buffers: &Buffers,
        evaluation: &mut Evaluation,
        (domains, by_name): (DomainPlugins, bool),
    ) -> Option<Self> {
        let reads = evaluation.pre_filter.reads.clone();
        let runner = &runner.recording(&reads);
        let cluster = runner.cx.cluster;
        let mut passing = buffers.list(evaluation.verdicts.n_passing() + 1);
        evaluation.verdicts.passing(&mut passing);
        let mut left_out = SkipSet::default();
        domains.add_to(&mut left_out);
        let skip = runner.pre_score(&mut evaluation.state, pod, &passing, &left_out).ok()?;
        let started = runner.profile.point_start();
        let mut own_scores = OwnScores::new(runner, &skip, &evaluation.state, pod)?;
        own_scores.ask(runner, &evaluation.state, pod, &passing)?;
        let groups = Groups::new(own_scores.n_scaled(), by_name);
        let mut ranking = Self {
            domains,
            own_scores,
            groups,
            n_feasible: 0,
            moved: Vec::new(),
            standing: Standing::new(),
            firsts: Vec::new(),
            numbers: Vec::new(),
            scores: Vec::new(),
            sums: Vec::new(),
        };
        if let Some(first) = passing.first() {
            // What is looked at about one node is most of what is looked at about any.
            ranking.probe(runner, pod, *first, passing.len())?;
        }
        ranking.regroup(cluster, passing.iter().copied())?;
        ranking.settle(runner, pod)?;
        runner.profile.point_ended(MeteredPoint::Score, Code::Success, started);
        Some(ranking)
    }

    /// Asks the domains' plugins about one node, to learn what they look at.
    fn probe(&mut self, runner: &Runner<'_>, pod: &Pod, node: NodeIdx, n: usize) -> Option<()> {
        self.domains.fits(runner, pod, node)?;
        self.domains.score(runner, pod, (&[node], &[n]), &mut self.scores, &mut [0])?;
        self.domains.stand_by_looks();
        Some(())
    }

    /// Rebuilds the groups from `nodes`, all that pass by themselves. `None` when there are too many groups.
    fn regroup(
        &mut self,
        cluster: &ClusterState,
        nodes: impl Iterator<Item = NodeIdx>,
    ) -> Option<()> {
        self.groups.clear();
        self.groups.begin_relisting(cluster);
        for idx in nodes {
            self.enter(cluster, idx);
            if self.groups.len() > MANY_GROUPS {
                return None;
            }
        }
        Some(())
    }

    /// Asks about every group, in groups that are as fine as the answers ask for. `None` when that is not possible.
    fn settle(&mut self, runner: &Runner<'_>, pod: &Pod) -> Option<()> {
        loop {
            self.judge(runner, pod)?;
            if !self.domains.can_be_grouped() {
                return None;
            }
            // The set of looks only grows, so this ends.
            if !self.domains.stand_by_looks() {
                return Some(());
            }
            let nodes: Vec<NodeIdx> = self.groups.nodes().collect();
            self.regroup(runner.cx.cluster, nodes.into_iter())?;
        }
    }

    /// What the groups take in memory at most, in bytes.
    pub(crate) fn n_bytes(&self) -> usize {
        self.groups.n_bytes()
    }

    /// What the domains' plugins prepared, added to `state`.
    pub(crate) fn add_state_to(&self, state: &mut CycleState) {
        self.domains.add_state_to(state);
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
    /// nodes `with_pods`, up to the versions `now`. Both lists are sorted. `None` when that is not possible; the ranking is invalid then and must be
    /// discarded.
    pub(crate) fn catch_up(
        &mut self,
        runner: &Runner<'_>,
        pod: &Pod,
        evaluation: &Evaluation,
        changed: &[NodeIdx],
        with_pods: &[NodeIdx],
        now: &Versions,
    ) -> Option<()> {
        let runner = &runner.recording(&evaluation.pre_filter.reads);
        let cluster = runner.cx.cluster;
        let mut moved = std::mem::take(&mut self.moved);
        moved.clear();
        moved.extend_from_slice(with_pods);
        self.domains.catch_up(runner, pod, now, with_pods, &mut moved)?;
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
        self.settle(runner, pod)
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

    /// Asks about every group. `None` after an error, or when a score is out of bounds.
    fn judge(&mut self, runner: &Runner<'_>, pod: &Pod) -> Option<()> {
        let cluster = runner.cx.cluster;
        if self.groups.is_relisting() {
            // Assumes that all groups pass. If they do, the list need not be made twice.
            self.rescale();
            self.groups.list(cluster, &self.own_scores);
        }
        self.firsts.clear();
        self.numbers.clear();
        for (node, group) in self.groups.firsts_mut(cluster) {
            group.passes = self.domains.fits(runner, pod, node)?;
            group.score = 0;
            if group.passes {
                self.firsts.push(node);
                self.numbers.push(group.n_nodes());
            }
        }
        self.n_feasible = self.numbers.iter().sum();
        if self.rescale() {
            self.groups.list(cluster, &self.own_scores);
        }
        if self.groups.has_bad_total() {
            return None;
        }
        if self.n_feasible > 1 && !self.domains.is_empty() {
            let Self { domains, firsts, numbers, scores, sums, .. } = self;
            sums.clear();
            sums.resize(firsts.len(), 0);
            domains.score(runner, pod, (&firsts[..], &numbers[..]), scores, sums)?;
            let passing = self.groups.iter_mut().filter(|group| group.passes);
            passing.zip(&self.sums).for_each(|(group, sum)| group.score = *sum);
        }
        Some(())
    }
}
