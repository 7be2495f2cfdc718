//! Separates a copy of an engine from the world outside, which must not notice the copy.
//!
//! Invariant: a copy sends no question to an extender and lets no work of a plugin begin that goes on outside of the engine.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use kube_scheduler_framework::PluginName;

/// The error of each search of a copy whose work is not wanted any more.
pub(crate) const GIVEN_UP: &str = "the question was given up";

/// State that only a copy of an engine has.
#[derive(Debug, Default)]
pub(crate) struct ForkState {
    /// Plugins whose outside work was assumed to have succeeded, without being started.
    pub(crate) trusted: BTreeSet<PluginName>,
    /// Set once the copy's work is not wanted any more.
    pub(crate) is_given_up: Arc<AtomicBool>,
}
