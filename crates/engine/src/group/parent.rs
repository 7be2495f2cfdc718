//! Groups that are parts of a larger one. CompositePodGroups are not known here: a group is scheduled as if it had no parent, and
//! the log says so once for each.

use std::sync::Arc;

use kube_scheduler_api_types::{Object, PodGroup};

use crate::core::Core;

/// The UID of a group, and the name of its parent.
type Parent = (Arc<str>, Arc<str>);

/// The parent of the group that this is an object of, as far as the cluster state has it; `None` for objects of other kinds.
pub(crate) fn parent_of(core: &Core, object: &Object) -> Option<Parent> {
    let is_group = *object.kind == *PodGroup::KIND && *object.group == *PodGroup::GROUP;
    if !is_group {
        return None;
    }
    let group = core.cluster.pod_group_object(&object.namespace, &object.name).ok()?;
    Some((group.uid.clone(), group.parent.clone()?))
}

/// Says of a group that its parent does not count, unless it is the one from `before` it changed.
pub(crate) fn remark_on_parent(core: &mut Core, object: &Object, before: Option<&Parent>) {
    if !core.plans.groups.reads_groups {
        return;
    }
    let parent = parent_of(core, object);
    let Some((_, parent)) = parent.as_ref().filter(|parent| Some(*parent) != before) else {
        return;
    };
    core.note(format!(
        "pod group {}: its parent \"{parent}\" (parentCompositePodGroupName) is not considered: the group is scheduled as if it \
         had none, and the parent's constraints do not hold",
        object.key()
    ));
}
