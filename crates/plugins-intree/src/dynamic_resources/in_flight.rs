//! Claims between Reserve and the write of their allocation (`docs/spec/plugins-dra.md` §5.2).

use std::sync::Arc;

use kube_scheduler_framework::api::Object;
use kube_scheduler_framework::{ClusterView, Commands};

/// The claim with this UID, with the allocation that it is about to get.
pub(super) fn get<'a>(_cluster: ClusterView<'a>, _uid: &str) -> Option<&'a Arc<Object>> {
    None
}

/// All such claims.
pub(super) fn all(_cluster: ClusterView<'_>) -> impl Iterator<Item = &Arc<Object>> {
    std::iter::empty()
}

/// Puts a claim in flight, or adds a sharer if it is.
pub(super) fn add(_object: Arc<Object>, _commands: &mut Commands) {}
