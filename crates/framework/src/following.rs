//! The counters and label columns that the cluster state keeps up to date for plugins.

use std::sync::Arc;

use kube_scheduler_cache::{ClusterState, CounterSpec};

/// Counters and label columns that a plugin will read.
///
/// The cluster state keeps them up to date from the first or second request on, as long as pods keep asking for them.
/// They only affect speed: a plugin must give the same answers when they are missing, as they are for a cluster that is
/// borrowed read-only.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Following {
    counters: Vec<CounterSpec>,
    labels: Vec<Arc<str>>,
}

impl Following {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for a counter and the label column of its topology key.
    pub fn counter(&mut self, spec: CounterSpec) {
        self.counters.push(spec);
    }

    /// Asks for the column of a label key.
    pub fn label(&mut self, key: &Arc<str>) {
        self.labels.push(key.clone());
    }

    /// Whether nothing was asked for.
    pub fn is_empty(&self) -> bool {
        self.counters.is_empty() && self.labels.is_empty()
    }

    /// Has `cluster` keep everything that was asked for.
    pub fn apply(&self, cluster: &mut ClusterState) {
        cluster.follow_for_pod(&self.counters);
        self.labels.iter().for_each(|key| cluster.follow_label(key));
    }
}
