//! What Score plugins give: which of them take part, and their answers about a list of nodes.

use kube_scheduler_api_types::Pod;
use kube_scheduler_framework::{
    Code, CycleState, MAX_NODE_SCORE, NodeIdx, Normalization, PluginName, Score, Status,
};
use kube_scheduler_runtime::{MeteredPoint, PluginIdx, Runner, SkipSet};

/// One feasible node's scores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeScores {
    /// The score by which the node is chosen: the sum of the weighted scores.
    pub total: i64,
    /// Weighted, normalised scores by plugin, in plugin order; plugins that skipped the pod are not listed.
    pub by_plugin: Vec<(PluginName, i64)>,
}

/// A Score plugin that takes part in the choice of a node.
#[derive(Clone, Copy)]
pub(crate) struct Scorer<'a> {
    pub(crate) idx: PluginIdx,
    pub(crate) name: &'a PluginName,
    plugin: &'a dyn Score,
    pub(crate) weight: i64,
    pub(crate) normalization: Normalization,
    /// Whether every raw score is final and within bounds, and asking never fails.
    pub(crate) is_bounded: bool,
}

impl Scorer<'_> {
    /// The most that it adds to the total of a node: nothing if its weight is negative.
    pub(super) fn most(&self) -> i64 {
        self.weight.max(0) * MAX_NODE_SCORE
    }
}

/// The [`scorers`] whose scores may tell nodes apart.
pub(crate) fn deciding_scorers<'a>(
    runner: &Runner<'a>,
    skip: &SkipSet,
    state: &CycleState,
    pod: &Pod,
) -> impl Iterator<Item = Scorer<'a>> {
    scorers(runner, skip).filter(|scorer| {
        scorer.normalization == Normalization::Custom || !scorer.plugin.is_indifferent(state, pod)
    })
}

/// The Score plugins that are not to be skipped, in order.
pub(crate) fn scorers<'a>(runner: &Runner<'a>, skip: &SkipSet) -> impl Iterator<Item = Scorer<'a>> {
    let profile = runner.profile;
    profile.score().filter(|(idx, ..)| !skip.contains(*idx)).map(|(idx, name, plugin)| {
        let normalization = plugin.normalization();
        let is_bounded = normalization == Normalization::None && plugin.promises_bounds();
        Scorer { idx, name, plugin, weight: profile.weight(idx), normalization, is_bounded }
    })
}

/// The weighted, normalised scores of some nodes by plugin.
///
/// For callers that want to see all scores, and for choices between few nodes: every plugin is asked about every node, as
/// the reference does, so that an error is the reference's too.
#[derive(Debug)]
pub(crate) struct ScoreTable<'a> {
    columns: Vec<(&'a PluginName, Vec<i64>)>,
    /// The sum over all plugins, for each node.
    pub(crate) totals: Vec<i64>,
}

impl<'a> ScoreTable<'a> {
    /// Runs PreScore, and scores `nodes`.
    pub(crate) fn new(
        runner: &Runner<'a>,
        state: &mut CycleState,
        pod: &Pod,
        nodes: &[NodeIdx],
    ) -> Result<Self, Status> {
        let skip = runner.pre_score(state, pod, nodes, &SkipSet::default())?;
        let started = runner.profile.point_start();
        let table = Self::after_pre_score(runner, state, &skip, pod, nodes);
        let code = table.as_ref().err().map_or(Code::Success, Status::code);
        runner.profile.point_ended(MeteredPoint::Score, code, started);
        table
    }

    /// The scores of a pod for which PreScore has run already; `skip` are the plugins that it left out.
    pub(super) fn after_pre_score(
        runner: &Runner<'a>,
        state: &CycleState,
        skip: &SkipSet,
        pod: &Pod,
        nodes: &[NodeIdx],
    ) -> Result<Self, Status> {
        let mut table = Self { columns: Vec::new(), totals: vec![0; nodes.len()] };
        let scorers: Vec<Scorer<'a>> = scorers(runner, skip).collect();
        for scorer in &scorers {
            let mut column = vec![0; nodes.len()];
            runner.raw_scores(scorer.idx, state, pod, nodes, &mut column)?;
            table.columns.push((scorer.name, column));
        }
        for (scorer, (_, column)) in scorers.iter().zip(&mut table.columns) {
            runner.normalize_and_weigh(scorer.idx, state, pod, nodes, column)?;
            for (total, score) in table.totals.iter_mut().zip(column) {
                *total = total.wrapping_add(*score);
            }
        }
        Ok(table)
    }

    /// Whether no plugin took part.
    pub(crate) fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// The plugins that took part, in order.
    pub(crate) fn plugins(&self) -> impl Iterator<Item = &'a PluginName> {
        self.columns.iter().map(|(name, _)| *name)
    }

    /// What each node got, in the order of the nodes.
    pub(crate) fn by_node(&self) -> impl Iterator<Item = NodeScores> {
        self.totals.iter().enumerate().map(|(at, total)| {
            let scores = self.columns.iter().map(|(name, column)| ((*name).clone(), column[at]));
            NodeScores { total: *total, by_plugin: scores.collect() }
        })
    }
}
