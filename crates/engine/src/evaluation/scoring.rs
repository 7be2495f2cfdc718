//! The scores of all passing nodes and the best of them, kept up to date.

use std::collections::BTreeMap;

use kube_scheduler_api_types::Pod;
use kube_scheduler_framework::{
    ClusterState, Code, CycleState, Meter, MeteredPoint, NodeIdx, Normalization, PluginIdx,
    PluginName, Runner, Scale, SkipSet, Status, Verdicts, check_score,
};

use crate::score_tree::{NO_SCORE, ScoreTree};

/// One Score plugin's answers.
#[derive(Clone, Debug)]
struct PluginScores {
    idx: PluginIdx,
    name: PluginName,
    weight: i64,
    normalization: Normalization,
    /// Raw scores by slot; for [`Normalization::Custom`] the weighted normalised ones. Of meaning for passing nodes only.
    raw: Vec<i64>,
    /// How many passing nodes have which raw score; kept for plugins whose scores are scaled.
    counts: BTreeMap<i64, u32>,
    /// The raw scores that the totals were scaled by.
    scale: Scale,
}

impl PluginScores {
    fn is_scaled(&self) -> bool {
        matches!(
            self.normalization,
            Normalization::Proportional
                | Normalization::ReversedProportional
                | Normalization::MinMax
        )
    }

    fn scale_now(&self) -> Scale {
        let lowest = self.counts.first_key_value().map_or(0, |(score, _)| *score);
        let highest = self.counts.last_key_value().map_or(0, |(score, _)| *score);
        Scale::new(self.normalization, lowest, highest)
    }

    fn count(&mut self, idx: NodeIdx) {
        if self.is_scaled() {
            *self.counts.entry(self.raw[idx.index()]).or_default() += 1;
        }
    }

    fn uncount(&mut self, idx: NodeIdx) {
        if !self.is_scaled() {
            return;
        }
        let score = self.raw[idx.index()];
        if let Some(n) = self.counts.get_mut(&score) {
            *n -= 1;
            if *n == 0 {
                self.counts.remove(&score);
            }
        }
    }

    /// The weighted score of a passing node.
    fn weighted(&self, idx: NodeIdx) -> Result<i64, Status> {
        let raw = self.raw.get(idx.index()).copied().unwrap_or(0);
        if self.normalization == Normalization::Custom {
            return Ok(raw);
        }
        let score = self.scale.score(raw);
        check_score(&self.name, score)?;
        Ok(score * self.weight)
    }
}

/// The scores of one evaluation.
#[derive(Clone, Debug)]
pub(crate) struct Scoring {
    plugins: Vec<PluginScores>,
    tree: ScoreTree,
    /// The state of the node list that the tree's positions belong to.
    order_sequence: u64,
    /// Nodes whose totals must be computed again.
    stale: Vec<NodeIdx>,
}

impl Scoring {
    /// Scores `feasible` nodes, after PreScore.
    pub(crate) fn new(
        runner: &Runner<'_>,
        state: &mut CycleState,
        pod: &Pod,
        feasible: &[NodeIdx],
    ) -> Result<Self, Status> {
        let skip = runner.pre_score(state, pod, feasible)?;
        let begun = runner.profile.meter().map(Meter::nanos);
        let scored = Self::scored(runner, state, &skip, pod, feasible);
        let code = scored.as_ref().err().map_or(Code::Success, Status::code);
        runner.point_ended(MeteredPoint::Score, code, begun);
        scored
    }

    /// The same when PreScore has been asked; it said whom to `skip`.
    pub(super) fn scored(
        runner: &Runner<'_>,
        state: &CycleState,
        skip: &SkipSet,
        pod: &Pod,
        feasible: &[NodeIdx],
    ) -> Result<Self, Status> {
        let cluster = runner.cx.cluster;
        let mut plugins = Vec::new();
        for (idx, name, score) in runner.profile.score() {
            if skip.contains(idx) {
                continue;
            }
            let normalization = score.normalization();
            plugins.push(PluginScores {
                idx,
                name: name.clone(),
                weight: runner.profile.weight(idx),
                normalization,
                raw: vec![0; cluster.capacity()],
                counts: BTreeMap::new(),
                scale: Scale::new(normalization, 0, 0),
            });
        }
        let mut column = vec![0; feasible.len()];
        for plugin in &mut plugins {
            runner.raw_scores(plugin.idx, state, pod, feasible, &mut column)?;
            if plugin.normalization == Normalization::Custom {
                runner.normalize_and_weigh(plugin.idx, state, pod, feasible, &mut column)?;
            }
            for (idx, score) in feasible.iter().zip(&column) {
                plugin.raw[idx.index()] = *score;
                plugin.count(*idx);
            }
            plugin.scale = plugin.scale_now();
        }
        let mut scoring =
            Self { plugins, tree: ScoreTree::default(), order_sequence: 0, stale: Vec::new() };
        scoring.rebuild(cluster, feasible)?;
        Ok(scoring)
    }

    /// Whether a changed node can be scored without looking at the others.
    pub(crate) fn is_incremental(&self) -> bool {
        self.plugins.iter().all(|plugin| plugin.normalization != Normalization::Custom)
    }

    /// The list position of the best node.
    pub(crate) fn first_best(&self) -> Option<usize> {
        self.tree.first_best()
    }

    /// The weighted scores of a passing node, by plugin, in order.
    pub(crate) fn by_plugin(&self, idx: NodeIdx) -> Result<Vec<(PluginName, i64)>, Status> {
        self.plugins.iter().map(|plugin| Ok((plugin.name.clone(), plugin.weighted(idx)?))).collect()
    }

    /// The total score of a passing node.
    pub(crate) fn total(&self, idx: NodeIdx) -> Result<i64, Status> {
        let mut total: i64 = 0;
        for plugin in &self.plugins {
            total = total.wrapping_add(plugin.weighted(idx)?);
        }
        Ok(total)
    }

    /// Takes note that a node's answer changed; [`settle`](Self::settle) must follow.
    pub(crate) fn update(
        &mut self,
        runner: &Runner<'_>,
        state: &CycleState,
        pod: &Pod,
        idx: NodeIdx,
        passed: bool,
        passes: bool,
    ) -> Result<(), Status> {
        for plugin in &mut self.plugins {
            if plugin.raw.len() <= idx.index() {
                plugin.raw.resize(runner.cx.cluster.capacity().max(idx.index() + 1), 0);
            }
            if passed {
                plugin.uncount(idx);
            }
            if passes {
                let slot = &mut plugin.raw[idx.index()..=idx.index()];
                runner.raw_scores(plugin.idx, state, pod, &[idx], slot)?;
                plugin.count(idx);
            }
        }
        if passed || passes {
            self.stale.push(idx);
        }
        Ok(())
    }

    /// Brings totals up to date after updates: of the changed nodes only, unless a scale or the list changed.
    pub(crate) fn settle(
        &mut self,
        cluster: &ClusterState,
        verdicts: &Verdicts,
    ) -> Result<(), Status> {
        let mut is_rescaled = false;
        for plugin in self.plugins.iter_mut().filter(|plugin| plugin.is_scaled()) {
            let scale = plugin.scale_now();
            is_rescaled |= scale != plugin.scale;
            plugin.scale = scale;
        }
        if is_rescaled || self.order_sequence != cluster.membership_sequence() {
            self.stale.clear();
            let feasible: Vec<NodeIdx> =
                cluster.order().iter().copied().filter(|idx| verdicts.passes(*idx)).collect();
            return self.rebuild(cluster, &feasible);
        }
        for at in 0..self.stale.len() {
            let idx = self.stale[at];
            let Some(position) = cluster.position(idx) else { continue };
            let score = if verdicts.passes(idx) { self.total(idx)? } else { NO_SCORE };
            self.tree.set(position, score);
        }
        self.stale.clear();
        Ok(())
    }

    fn rebuild(&mut self, cluster: &ClusterState, feasible: &[NodeIdx]) -> Result<(), Status> {
        let mut scores = vec![NO_SCORE; cluster.order().len()];
        for &idx in feasible {
            if let Some(place) = cluster.position(idx).and_then(|at| scores.get_mut(at)) {
                *place = self.total(idx)?;
            }
        }
        self.tree = ScoreTree::new(scores);
        self.order_sequence = cluster.membership_sequence();
        Ok(())
    }
}

/// One plugin's weighted, normalised scores.
pub(crate) type ScoreColumn = (PluginName, Vec<i64>);

/// What the plugins give to `nodes` in their order, for a sample of the cluster.
pub(crate) fn columns_of_sample(
    runner: &Runner<'_>,
    state: &CycleState,
    skip: &SkipSet,
    pod: &Pod,
    nodes: &[NodeIdx],
) -> Result<Vec<ScoreColumn>, Status> {
    let mut columns = Vec::new();
    for (idx, name, _) in runner.profile.score() {
        if skip.contains(idx) {
            continue;
        }
        let mut column = vec![0; nodes.len()];
        runner.raw_scores(idx, state, pod, nodes, &mut column)?;
        runner.normalize_and_weigh(idx, state, pod, nodes, &mut column)?;
        columns.push((name.clone(), column));
    }
    Ok(columns)
}

/// The sums over all plugins for `n` nodes.
pub(crate) fn totals_of(columns: &[ScoreColumn], n: usize) -> Vec<i64> {
    let mut totals = vec![0_i64; n];
    for (_, column) in columns {
        for (total, score) in totals.iter_mut().zip(column) {
            *total = total.wrapping_add(*score);
        }
    }
    totals
}
