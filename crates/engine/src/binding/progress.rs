//! How far the binding of a pod is, for answers and plugins.

use std::sync::Arc;

use kube_scheduler_api_types::Pod;

use super::{Binding, Bindings, Stage};

/// A pod on its way to its node.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    pub(crate) node: Arc<str>,
    /// Whether it waits on Permit; else it is being bound.
    pub(crate) waits_on_permit: bool,
    pub(crate) n_attempts: u32,
}

impl Bindings {
    /// The table of a copy of the engine, in which no pod is on its way to a node.
    pub(crate) fn fork(&self) -> Self {
        Self { table: self.table.fork(), ..Self::new(self.announces) }
    }

    /// The pods that only have to be bound, with their nodes, in the order in which they set off.
    pub(crate) fn past_permit(&self) -> Vec<Arc<Pod>> {
        let past = |binding: &&Binding| !matches!(binding.stage, Stage::Permit);
        self.table.iter().filter(past).map(|binding| binding.pod.clone()).collect()
    }

    /// How far the pod is; `None` if it is not on its way.
    pub(crate) fn progress(&self, uid: &str) -> Option<Progress> {
        let binding = self.table.get(uid)?;
        Some(Progress {
            node: binding.node.clone(),
            waits_on_permit: matches!(binding.stage, Stage::Permit),
            n_attempts: binding.queued.attempts(),
        })
    }
}
