//! What the plugins of a profile read for one evaluation.

use std::sync::Arc;

use kube_scheduler_cache::reads::{PhaseReads, PluginReads};

use crate::profile::PluginIdx;
use crate::skip_set::SkipSet;

/// What the plugins of a profile read for one evaluation. Clones share the sets.
#[derive(Clone, Debug, Default)]
pub struct EvaluationReads(Arc<[PluginReads]>);

impl EvaluationReads {
    /// Empty sets for this many plugins.
    pub(crate) fn new(n_plugins: usize) -> Self {
        Self((0..n_plugins).map(|_| PluginReads::default()).collect())
    }

    /// What one plugin read for the evaluation.
    pub fn of_plugin(&self, plugin: PluginIdx) -> Option<&PluginReads> {
        self.0.get(plugin.index())
    }

    /// What all plugins read but `left_out`, without what `following` read before nodes were looked at: they
    /// [follow](kube_scheduler_framework::following::PreFilterFollower) that themselves.
    pub fn without(&self, left_out: &SkipSet, following: &SkipSet) -> PhaseReads {
        let plugins =
            self.0.iter().enumerate().map(|(at, reads)| (PluginIdx::from_index(at), reads));
        let plugins = plugins.filter(|(idx, _)| !left_out.contains(*idx));
        plugins.fold(PhaseReads::default(), |all, (idx, plugin)| {
            let PhaseReads { once, per_node } = plugin.get();
            let once = if following.contains(idx) { plugin.pre_score.get() } else { once };
            PhaseReads { once: all.once.union(once), per_node: all.per_node.union(per_node) }
        })
    }
}
