//! What the plugins of a profile read for one evaluation.

use std::sync::Arc;

use kube_scheduler_cache::reads::{PhaseReads, PluginReads};

use crate::profile::PluginIdx;
use crate::skip_set::SkipSet;

/// What the plugins of a profile read for one evaluation. Clones share the sets.
#[derive(Clone, Debug)]
pub struct EvaluationReads(Arc<[PluginReads]>);

impl Default for EvaluationReads {
    fn default() -> Self {
        Self(Arc::new([]))
    }
}

impl EvaluationReads {
    /// Sets for so many plugins.
    pub(crate) fn new(n_plugins: usize) -> Self {
        Self((0..n_plugins).map(|_| PluginReads::default()).collect())
    }

    /// What a plugin read.
    pub fn of_plugin(&self, plugin: PluginIdx) -> Option<&PluginReads> {
        self.0.get(plugin.index())
    }

    /// What all plugins read but `left_out`.
    pub fn without(&self, left_out: &SkipSet) -> PhaseReads {
        let plugins = self.0.iter().enumerate();
        let plugins = plugins.filter(|(at, _)| !left_out.contains(PluginIdx::from_index(*at)));
        plugins.map(|(_, plugin)| plugin.get()).fold(PhaseReads::default(), |all, one| PhaseReads {
            once: all.once.union(one.once),
            per_node: all.per_node.union(one.per_node),
        })
    }
}
