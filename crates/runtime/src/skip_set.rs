//! The plugins that an evaluation leaves out.

use crate::profile::PluginIdx;

/// Plugins that have nothing to say about a pod at one extension point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkipSet(Vec<bool>);

impl SkipSet {
    /// Whether the plugin is left out.
    pub fn contains(&self, plugin: PluginIdx) -> bool {
        self.0.get(plugin.index()).copied().unwrap_or(false)
    }

    /// Whether no plugin is left out.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Marks the plugin as left out.
    pub fn insert(&mut self, plugin: PluginIdx) {
        let at = plugin.index();
        if self.0.len() <= at {
            self.0.resize(at + 1, false);
        }
        self.0[at] = true;
    }
}
