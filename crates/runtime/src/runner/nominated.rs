//! Filters on a node that other pods are nominated to.
//!
//! Behaviour: `docs/spec/core.md` §10.6.

use std::ops::ControlFlow;
use std::sync::Arc;

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::NodeOverlay;
use kube_scheduler_framework::{CycleState, NodeView, Status};

use super::Runner;
use crate::skip_set::SkipSet;

impl Runner<'_> {
    /// The pods nominated to a node that `pod` must leave room for: others that are at least as important.
    pub(crate) fn nominated_that_count(&self, pod: &Pod, node: &str) -> Vec<Arc<Pod>> {
        let mut nominated = self.cx.nominated.nominated_pods(node);
        nominated.retain(|other| must_leave_room(pod, other));
        nominated
    }

    /// All filters on one node with pods nominated to it taken into account (`docs/spec/core.md` §10.6).
    ///
    /// `overlay` holds hypothetical changes to start from; pass an empty one for the node as it is.
    pub fn filter_with_nominated_pods(
        &self,
        state: &CycleState,
        pod: &Pod,
        overlay: &NodeOverlay,
        skip: &SkipSet,
    ) -> Status {
        let filter = |state: &CycleState, view: &NodeView<'_>| {
            let status = self.filter(state, pod, view, skip);
            if status.is_success() { ControlFlow::Continue(()) } else { ControlFlow::Break(status) }
        };
        match self.with_and_without_nominated_pods(state, pod, overlay, skip, filter) {
            ControlFlow::Continue(()) => Status::SUCCESS,
            ControlFlow::Break(status) => status,
        }
    }

    /// Calls `ask` about the node with the nominated pods that count, if there are any, and then about the node without
    /// them, until it breaks. An error of a plugin that is notified of these pods is a break, too.
    pub(super) fn with_and_without_nominated_pods(
        &self,
        state: &CycleState,
        pod: &Pod,
        overlay: &NodeOverlay,
        skip: &SkipSet,
        mut ask: impl FnMut(&CycleState, &NodeView<'_>) -> ControlFlow<Status>,
    ) -> ControlFlow<Status> {
        let Some(plain) = NodeView::hypothetical(self.cx.cluster, overlay) else {
            return ControlFlow::Continue(());
        };
        let counted = self.nominated_that_count(pod, plain.name());
        if !counted.is_empty() {
            let mut with_them = overlay.clone();
            let mut state = state.clone();
            for other in &counted {
                with_them.add_pod(self.cx.cluster, other);
                let status = self.add_pod(&mut state, pod, other, &with_them, skip);
                if !status.is_success() {
                    let text = status.error_text().unwrap_or_default();
                    return ControlFlow::Break(Status::error(text));
                }
            }
            if let Some(view) = NodeView::hypothetical(self.cx.cluster, &with_them) {
                ask(&state, &view)?;
            }
        }
        ask(state, &plain)
    }
}

/// Whether `pod` must leave room for `other`, where that one is nominated: it is another one and at least as important.
pub fn must_leave_room(pod: &Pod, other: &Pod) -> bool {
    other.priority() >= pod.priority() && other.uid != pod.uid
}
