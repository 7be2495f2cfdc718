//! PrioritySort: higher priority first, then the pod that has been in the queue longer.
//!
//! Answers to `plugins/queuesort/priority_sort.go` of the reference; behaviour in `docs/spec/plugins-node.md` §4.2.

use std::cmp::Ordering;
use std::sync::Arc;

use kube_scheduler_framework::{Handle, Plugin, PluginArgs, PluginError, QueueSort, QueuedPodView};

pub(crate) const NAME: &str = "PrioritySort";

pub(crate) fn new(_: &PluginArgs, _: &Handle) -> Result<Arc<dyn Plugin>, PluginError> {
    Ok(Arc::new(PrioritySort))
}

pub(crate) struct PrioritySort;

plugin!(PrioritySort, QueueSort);

impl QueueSort for PrioritySort {
    fn compare(&self, a: QueuedPodView<'_>, b: QueuedPodView<'_>) -> Ordering {
        b.pod.priority().cmp(&a.pod.priority()).then(a.queued.cmp(&b.queued))
    }

    fn is_by_priority_then_age(&self) -> bool {
        true
    }
}
