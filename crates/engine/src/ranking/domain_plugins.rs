//! Plugins that are asked about groups of nodes instead of nodes, because their answers follow pods on other nodes.
//!
//! Such a plugin got counters of pods in PreFilter or PreScore. What it was shown of them about a node ([`CounterReads`]) says by
//! which of their numbers nodes *stand* apart; nodes that stand alike get equal answers. As long as the plugin's counters are
//! the same ones, a group keeps its meaning, and asking once per group takes the place of asking about each node. What
//! PreFilter and PreScore prepared is used again unless it was made from numbers, or from something that has changed since.
//!
//! Invariants: a plugin that read anything else about nodes is not asked so; no standing is used that was made with fewer
//! looks than the answers have taken.

use std::sync::Arc;

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::counters::{CounterReads, PodCounter};
use kube_scheduler_cache::reads::{PluginReads, ReadSet, Reads};
use kube_scheduler_cache::{ClusterState, Versions};
use kube_scheduler_framework::{
    Code, CycleState, FeasibleNodes, NodeIdx, Normalization, Plugin, PluginName,
};
use kube_scheduler_runtime::{EvaluationReads, PluginIdx, Runner, SkipSet, check_score};

use super::groups::Standing;

/// A plugin with what it prepared for one kind of pods.
struct DomainPlugin {
    idx: PluginIdx,
    name: PluginName,
    plugin: Arc<dyn Plugin>,
    weight: i64,
    has_pre_filter: bool,
    has_pre_score: bool,
    filters: bool,
    scores: bool,
    /// What PreFilter left, and behind that what PreScore left.
    state: CycleState,
    reads: PluginReads,
    /// Those of PreFilter, then those of PreScore.
    counters: Vec<PodCounter>,
    n_of_pre_filter: usize,
    versions: Versions,
    /// Whether terms came or went between the last two runs of PreFilter.
    has_other_terms: bool,
    skips_filter: bool,
    skips_score: bool,
    /// Whether PreScore has run since PreFilter did, and whether it has ever.
    is_scored: bool,
    was_scored: bool,
}

/// Whether counters stand for the same as `others` did.
fn are_same(counters: &[PodCounter], others: &[PodCounter], has_other_terms: bool) -> bool {
    let is_same = |(one, other): (&PodCounter, &PodCounter)| {
        one.is_same(other) && !(has_other_terms && one.is_of_carriers())
    };
    let same = counters.len() == others.len() && counters.iter().zip(others).all(is_same);
    if same {
        // What was looked at will be looked at again.
        counters.iter().zip(others).for_each(|(one, other)| one.note(other.looks()));
    }
    same
}

impl DomainPlugin {
    fn new(runner: &Runner<'_>, idx: PluginIdx, pod: &Pod) -> Option<Self> {
        let profile = runner.profile;
        let entry = profile.plugin(idx)?;
        let mut plugin = Self {
            idx,
            name: entry.name.clone(),
            plugin: entry.plugin.clone(),
            weight: profile.weight(idx),
            has_pre_filter: profile.pre_filter().any(|(other, ..)| other == idx),
            has_pre_score: profile.pre_score().any(|(other, ..)| other == idx),
            filters: profile.filter().any(|(other, ..)| other == idx),
            scores: profile.score().any(|(other, ..)| other == idx),
            state: CycleState::new(),
            reads: PluginReads {
                pre_filter: ReadSet::with_counters(),
                pre_score: ReadSet::with_counters(),
                per_node: ReadSet::new(),
            },
            counters: Vec::new(),
            n_of_pre_filter: 0,
            versions: Versions::of(runner.cx.cluster),
            has_other_terms: false,
            skips_filter: false,
            skips_score: false,
            is_scored: false,
            was_scored: false,
        };
        plugin.pre_filter(runner, pod)?;
        Some(plugin)
    }

    /// `None` when it does not leave all nodes.
    fn pre_filter(&mut self, runner: &Runner<'_>, pod: &Pod) -> Option<()> {
        self.state = CycleState::new();
        self.is_scored = false;
        self.skips_filter = false;
        if let Some(point) = self.plugin.as_pre_filter().filter(|_| self.has_pre_filter) {
            let cx = runner.cx.recorded_by(&self.reads.pre_filter);
            let outcome = point.pre_filter(&cx, &mut self.state, pod);
            match outcome.status.code() {
                Code::Skip => self.skips_filter = true,
                Code::Success if outcome.node_names.is_none() => {}
                _ => return None,
            }
        }
        self.state.seal();
        self.counters = self.reads.pre_filter.take_counters();
        self.n_of_pre_filter = self.counters.len();
        Some(())
    }

    /// Prepares for another attempt. `None` when its counters are others than before.
    fn catch_up(&mut self, runner: &Runner<'_>, pod: &Pod, now: &Versions) -> Option<()> {
        let cluster = runner.cx.cluster;
        let is_followed = |counter: &PodCounter| counter.is_followed(cluster);
        if !self.counters.iter().all(is_followed) {
            return None;
        }
        if self.versions.agree(now, self.reads.get().once)
            && !self.reads.pre_filter.get().has_numbers()
        {
            return Some(());
        }
        let (mut before, n) = (std::mem::take(&mut self.counters), self.n_of_pre_filter);
        self.has_other_terms = !self.versions.has_terms_of(now);
        self.pre_filter(runner, pod)?;
        if !are_same(&self.counters, before.get(..n)?, self.has_other_terms)
            || !self.counters.iter().all(is_followed)
        {
            return None;
        }
        self.counters.extend(before.drain(n..));
        self.versions = *now;
        Some(())
    }

    /// Whether nodes that stand like `node` pass. `None` after an error.
    fn fits(&self, runner: &Runner<'_>, pod: &Pod, node: NodeIdx) -> Option<bool> {
        let Some(point) = self.plugin.as_filter().filter(|_| self.filters && !self.skips_filter)
        else {
            return Some(true);
        };
        let reads = &self.reads.per_node;
        let view = runner.node(node)?;
        let cx = runner.cx.recorded_by(reads);
        let status = point.filter(&cx, &self.state, pod, &view.with_reads(reads));
        let is_answer = status.is_success() || status.is_rejected();
        is_answer.then(|| status.is_success())
    }

    /// PreScore for `nodes`, one of each group; `numbers` has the size of each node's group. `None` after an error, or when the
    /// plugin now reads other counters than before.
    fn pre_score(
        &mut self,
        runner: &Runner<'_>,
        pod: &Pod,
        nodes: &[NodeIdx],
        numbers: &[usize],
    ) -> Option<()> {
        if self.is_scored && !self.reads.pre_score.get().has_numbers() {
            return Some(());
        }
        if !self.state.unwind() {
            return None;
        }
        self.skips_score = false;
        if let Some(point) = self.plugin.as_pre_score().filter(|_| self.has_pre_score) {
            let cx = runner.cx.recorded_by(&self.reads.pre_score);
            let nodes = FeasibleNodes::grouped(nodes, numbers, &self.reads.pre_score);
            let status = point.pre_score(&cx, &mut self.state, pod, &nodes);
            self.skips_score = status.is_skip();
            if !status.is_success() && !self.skips_score {
                return None;
            }
        }
        let counters = self.reads.pre_score.take_counters();
        let before = self.counters.split_off(self.n_of_pre_filter);
        if self.was_scored && !are_same(&counters, &before, self.has_other_terms) {
            return None;
        }
        self.counters.extend(counters);
        (self.is_scored, self.was_scored) = (true, true);
        Some(())
    }

    /// Fills `scores[i]` with the weighted score of `nodes[i]`. `None` after an error, or if a score is out of bounds.
    fn score(
        &self,
        runner: &Runner<'_>,
        pod: &Pod,
        nodes: &[NodeIdx],
        scores: &mut [i64],
    ) -> Option<()> {
        let Some(point) = self.plugin.as_score().filter(|_| !self.skips_score) else {
            scores.fill(0);
            return Some(());
        };
        let cx = runner.cx.scan_recorded_by(&self.reads.per_node);
        point.score_all(&cx, &self.state, pod, nodes, scores).ok()?;
        match point.normalization() {
            Normalization::Custom => {
                let status = point.normalize(&cx, &self.state, pod, nodes, scores);
                status.is_success().then_some(())?;
            }
            normalization => normalization.apply(scores),
        }
        for score in scores {
            check_score(&self.name, *score).ok()?;
            *score = score.wrapping_mul(self.weight);
        }
        Some(())
    }
}

/// The plugins that are asked about groups of nodes instead of nodes.
#[derive(Default)]
pub(crate) struct DomainPlugins {
    plugins: Vec<DomainPlugin>,
    /// The numbers that standings consist of at present: counters, with the looks at each.
    standing_by: Vec<(PodCounter, CounterReads)>,
}

impl DomainPlugins {
    /// Those of `idxs`, which have prepared for `pod`; `None` when one of them has more to say than which nodes pass.
    pub(crate) fn new(runner: &Runner<'_>, pod: &Pod, idxs: &SkipSet) -> Option<Self> {
        let wanted = runner.profile.indexes().filter(|idx| idxs.contains(*idx));
        let plugins = wanted.map(|idx| DomainPlugin::new(runner, idx, pod));
        Some(Self { plugins: plugins.collect::<Option<_>>()?, standing_by: Vec::new() })
    }

    /// Adds to `idxs` the plugins that have to be asked about groups, going by what they read in PreFilter and PreScore.
    /// Returns whether there are any that were not in it.
    pub(crate) fn find(runner: &Runner<'_>, reads: &EvaluationReads, idxs: &mut SkipSet) -> bool {
        let terms = runner.cx.cluster.affinity_terms();
        let mut is_any = false;
        for idx in runner.profile.indexes() {
            let once = reads.of_plugin(idx).map(|reads| reads.get().once).unwrap_or_default();
            // Which terms there are changes with the pods of others, unless there are none.
            let follows_terms = once.intersects(Reads::AFFINITY_TERMS) && !terms.is_empty();
            if (once.needs_groups() || follows_terms) && !idxs.contains(idx) {
                idxs.insert(idx);
                is_any = true;
            }
        }
        is_any
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.plugins.is_empty()
    }

    /// Has `skip` leave all of them out.
    pub(crate) fn add_to(&self, skip: &mut SkipSet) {
        self.plugins.iter().for_each(|plugin| skip.insert(plugin.idx));
    }

    /// Adds what they prepared to `state`.
    pub(super) fn add_state_to(&self, state: &mut CycleState) {
        self.plugins.iter().for_each(|plugin| state.extend_from(&plugin.state));
    }

    /// Prepares for another attempt, after the pods on `changed` nodes have changed. Adds to `moved` the other nodes whose
    /// standing may have changed; `None` when that cannot be found out.
    pub(super) fn catch_up(
        &mut self,
        runner: &Runner<'_>,
        pod: &Pod,
        now: &Versions,
        changed: &[NodeIdx],
        moved: &mut Vec<NodeIdx>,
    ) -> Option<()> {
        self.plugins.iter_mut().try_for_each(|plugin| plugin.catch_up(runner, pod, now))?;
        for (counter, looks) in &self.standing_by {
            counter.add_neighbours(runner.cx.cluster, *looks, changed, moved);
        }
        Some(())
    }

    pub(super) fn stand(&self, cluster: &ClusterState, node: NodeIdx, standing: &mut Standing) {
        standing.clear();
        for (counter, looks) in &self.standing_by {
            counter.stand(cluster, *looks, node, standing);
        }
    }

    /// Whether the group of `node` passes. `None` after an error.
    pub(super) fn fits(&self, runner: &Runner<'_>, pod: &Pod, node: NodeIdx) -> Option<bool> {
        for plugin in &self.plugins {
            if !plugin.fits(runner, pod, node)? {
                return Some(false);
            }
        }
        Some(true)
    }

    /// Adds to `sums[i]` the weighted scores of `nodes[i]`. `nodes` has one node of each group that passes, and `numbers` the
    /// size of each group; `scores` is memory to use. `None` after an error.
    pub(super) fn score(
        &mut self,
        runner: &Runner<'_>,
        pod: &Pod,
        (nodes, numbers): (&[NodeIdx], &[usize]),
        scores: &mut Vec<i64>,
        sums: &mut [i64],
    ) -> Option<()> {
        for plugin in self.plugins.iter_mut().filter(|plugin| plugin.scores) {
            plugin.pre_score(runner, pod, nodes, numbers)?;
            scores.clear();
            scores.resize(nodes.len(), 0);
            plugin.score(runner, pod, nodes, scores)?;
            for (sum, score) in sums.iter_mut().zip(scores.iter()) {
                *sum = sum.wrapping_add(*score);
            }
        }
        Some(())
    }

    /// Whether all that they read of nodes is what counters show.
    pub(super) fn can_be_grouped(&self) -> bool {
        self.plugins.iter().all(|plugin| plugin.reads.get().can_be_grouped())
    }

    /// Lets nodes stand by all that was looked at. Returns whether that is not what they stood by before.
    pub(super) fn stand_by_looks(&mut self) -> bool {
        let counters = || self.plugins.iter().flat_map(|plugin| &plugin.counters);
        let n = counters().count();
        let is_same = n == self.standing_by.len()
            && counters().zip(&self.standing_by).all(|(one, (_, looks))| one.looks() == *looks);
        self.standing_by.clear();
        let counters = self.plugins.iter().flat_map(|plugin| &plugin.counters);
        self.standing_by.extend(counters.map(|counter| (counter.clone(), counter.looks())));
        !is_same
    }
}
