//! Claims between Reserve and the write of their allocation (`docs/spec/plugins-dra.md` §5.2), and those that stand for devices which
//! are kept for a gang that waits (`docs/groups.md`, "Who goes first").

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

/// What the UIDs of planned claims begin with, which are no claims of the API server: its UIDs have no slash.
const PLANNED: &str = "planned/";

/// The UID of the claim that stands for what one with `uid` is planned to get.
pub(super) fn planned_uid(uid: &str) -> String {
    format!("{PLANNED}{uid}")
}

/// Whether a claim in flight only stands for devices that are kept for a gang, which waits for them.
pub(super) fn is_planned(claim: &Object) -> bool {
    claim.uid.starts_with(PLANNED)
}

/// Puts a claim in flight, or adds a sharer if it is.
pub(super) fn add(claim: Arc<Object>, commands: &mut Commands) {
    commands.add_pending_object(claim);
}

/// Removes one sharer, or `all` of them.
pub(super) fn remove(uid: &Arc<str>, all: bool, commands: &mut Commands) {
    commands.remove_pending_object(kinds::GROUP, kinds::CLAIM, uid, all);
}
