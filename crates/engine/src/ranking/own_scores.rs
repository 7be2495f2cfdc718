//! The scores that nodes have by themselves, whatever is placed elsewhere.
//!
//! Clusters have many nodes and templates, and there is a number for each pair: scores that need no scaling are kept as
//! one sum, and raw scores that are 0 everywhere, as most are, take no memory.

use kube_scheduler_api_types::Pod;
use kube_scheduler_framework::{CycleState, NodeIdx, Normalization};
use kube_scheduler_runtime::{PluginIdx, Runner, Scale, SkipSet};

use super::groups::BAD;
use crate::evaluation::deciding_scorers;

/// Scores by slot, of meaning for nodes that were asked about and pass.
pub(super) struct OwnScores {
    unscaled_plugins: Vec<(PluginIdx, i64)>,
    /// The weighted sum of what the unscaled ones give.
    unscaled: Vec<i32>,
    scaled: Vec<ScaledScores>,
    column: Vec<i64>,
}

/// A plugin whose scores are scaled by those of all nodes that pass.
struct ScaledScores {
    idx: PluginIdx,
    weight: i64,
    normalization: Normalization,
    /// Empty while all are 0.
    raw: Vec<i64>,
    scale: Scale,
}

impl ScaledScores {
    fn raw(&self, idx: NodeIdx) -> i64 {
        self.raw.get(idx.index()).copied().unwrap_or(0)
    }

    fn set_raw(&mut self, idx: NodeIdx, score: i64, capacity: usize) {
        if self.raw.is_empty() && score != 0 {
            self.raw.resize(capacity, 0);
        }
        if let Some(place) = self.raw.get_mut(idx.index()) {
            *place = score;
        }
    }
}

impl OwnScores {
    /// For the Score plugins that are not to be skipped; `None` when one of them normalises by itself. `state` is what PreScore
    /// left.
    pub(super) fn new(
        runner: &Runner<'_>,
        skip: &SkipSet,
        state: &CycleState,
        pod: &Pod,
    ) -> Option<Self> {
        let mut scores = Self {
            unscaled_plugins: Vec::new(),
            unscaled: vec![0; runner.cx.cluster.capacity()],
            scaled: Vec::new(),
            column: Vec::new(),
        };
        for scorer in deciding_scorers(runner, skip, state, pod) {
            let (idx, weight, normalization) = (scorer.idx, scorer.weight, scorer.normalization);
            match normalization {
                Normalization::Custom => return None,
                Normalization::None => scores.unscaled_plugins.push((idx, weight)),
                _ => {
                    let scale = Scale::new(normalization, 0, 0);
                    let raw = Vec::new();
                    scores.scaled.push(ScaledScores { idx, weight, normalization, raw, scale });
                }
            }
        }
        Some(scores)
    }

    /// Makes room for new nodes.
    pub(super) fn grow(&mut self, capacity: usize) {
        let capacity = capacity.max(self.unscaled.len());
        self.unscaled.resize(capacity, 0);
        for plugin in self.scaled.iter_mut().filter(|plugin| !plugin.raw.is_empty()) {
            plugin.raw.resize(capacity, 0);
        }
    }

    /// Asks the plugins about `nodes`. `None` when one of them fails.
    pub(super) fn ask(
        &mut self,
        runner: &Runner<'_>,
        state: &CycleState,
        pod: &Pod,
        nodes: &[NodeIdx],
    ) -> Option<()> {
        let capacity = self.unscaled.len();
        self.column.resize(nodes.len(), 0);
        nodes.iter().try_for_each(|idx| self.unscaled.get_mut(idx.index()).map(|sum| *sum = 0))?;
        for &(plugin, weight) in &self.unscaled_plugins {
            runner.raw_scores(plugin, state, pod, nodes, &mut self.column).ok()?;
            for (idx, score) in nodes.iter().zip(&self.column) {
                let sum = &mut self.unscaled[idx.index()];
                *sum = plus(*sum, *score, weight).unwrap_or(BAD);
            }
        }
        for plugin in &mut self.scaled {
            runner.raw_scores(plugin.idx, state, pod, nodes, &mut self.column).ok()?;
            for (idx, score) in nodes.iter().zip(&self.column) {
                plugin.set_raw(*idx, *score, capacity);
            }
        }
        Some(())
    }

    /// How many plugins have their scores scaled.
    pub(super) fn n_scaled(&self) -> usize {
        self.scaled.len()
    }

    /// Calls `each` with the raw scores of a node that are scaled and not 0, by plugin.
    pub(super) fn each_raw(&self, idx: NodeIdx, mut each: impl FnMut(usize, i64)) {
        for (at, plugin) in self.scaled.iter().enumerate() {
            match plugin.raw(idx) {
                0 => {}
                raw => each(at, raw),
            }
        }
    }

    /// Scales by the lowest and the highest raw score of each plugin, by its number; whether any total may be another now.
    pub(super) fn rescale(&mut self, bounds: impl Fn(usize) -> (i64, i64)) -> bool {
        let mut is_any_other = false;
        for (at, plugin) in self.scaled.iter_mut().enumerate() {
            let (lowest, highest) = bounds(at);
            let scale = Scale::new(plugin.normalization, lowest, highest);
            is_any_other |= scale != plugin.scale;
            plugin.scale = scale;
        }
        is_any_other
    }

    /// The weighted sum of all scores of a node; `None` when one of them is out of bounds, or the sum too large to keep.
    pub(super) fn total(&self, idx: NodeIdx) -> Option<i32> {
        let unscaled = self.unscaled.get(idx.index()).copied().filter(|sum| *sum != BAD)?;
        let total = self.scaled.iter().try_fold(i64::from(unscaled), |sum, plugin| {
            sum.checked_add(plugin.scale.weighted(plugin.raw(idx), plugin.weight)?)
        })?;
        i32::try_from(total).ok()
    }
}

/// The sum with one more score; `None` when it is out of bounds, or was before.
fn plus(sum: i32, score: i64, weight: i64) -> Option<i32> {
    let score = Scale::IDENTITY.weighted(score, weight).filter(|_| sum != BAD)?;
    let sum = i64::from(sum).checked_add(score)?;
    i32::try_from(sum).ok().filter(|sum| *sum != BAD)
}
