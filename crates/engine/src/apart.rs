//! What copies of an engine keep to themselves: whatever is outside of it is not asked for them.
//!
//! Invariant: a copy sends no question to an extender and lets no work of a plugin begin that goes on outside of the engine.

use std::collections::BTreeSet;

use kube_scheduler_framework::PluginName;
use kube_scheduler_runtime::Extenders;

/// The part of a copy's state that its original does not have.
#[derive(Debug, Default)]
pub(crate) struct Apart {
    /// Those that a copy asks: none.
    pub(crate) extenders: Extenders,
    /// Plugins whose work outside of the engine was taken to have ended well.
    pub(crate) trusted: BTreeSet<PluginName>,
}
