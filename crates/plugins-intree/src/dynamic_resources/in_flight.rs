//! Claims between Reserve and the write of their allocation (`docs/spec/plugins-dra.md` §5.2).

use std::sync::Arc;

use kube_scheduler_framework::api::Object;
use kube_scheduler_framework::{Commands, ObjectStore};

use super::kinds;

/// The claim with this UID with the allocation that it is about to get, if one is under way.
pub(super) fn get<'a>(objects: &'a ObjectStore, uid: &str) -> Option<&'a Arc<Object>> {
    objects.pending(kinds::GROUP, kinds::CLAIM, uid)
}

/// All such claims, with the allocation that they are about to get.
pub(super) fn all(objects: &ObjectStore) -> impl Iterator<Item = &Arc<Object>> {
    objects.list_pending(kinds::GROUP, kinds::CLAIM)
}

/// Puts a claim in flight, or adds a sharer if it is.
pub(super) fn add(claim: Arc<Object>, commands: &mut Commands) {
    commands.add_pending_object(claim);
}

/// Removes one sharer, or `all` of them.
pub(super) fn remove(uid: &Arc<str>, all: bool, commands: &mut Commands) {
    commands.remove_pending_object(kinds::GROUP, kinds::CLAIM, uid, all);
}
