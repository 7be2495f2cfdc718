//! Which group a pod belongs to: its own `schedulingGroup`, or what a plugin says of it.

use std::sync::Arc;

use kube_scheduler_api_types::{Pod, PodGroup};

use crate::core::Core;
use crate::group::waits::member_is_gone;

/// The group that a pod belongs to, by the name under which it is known here, given the pod as the API server has it.
pub(crate) fn group_of(core: &Core, pod: &Pod) -> Option<Arc<str>> {
    let own = pod.spec.pod_group.as_ref().filter(|_| core.plans.groups.reads_groups);
    let foreign = || core.foreign.exist().then(|| core.foreign.group_of(pod)).flatten();
    own.cloned().or_else(foreign)
}

/// Puts a pod into the group that it belongs to.
pub(crate) fn put_into_group(core: &mut Core, pod: &mut Arc<Pod>) {
    let group = group_of(core, pod);
    core.foreign.join(pod, group);
}

/// The same for a pod that was being bound and is not any more: what its labels say counts again, as it does for others all
/// the time.
pub(crate) fn regroup(core: &mut Core, pod: Arc<Pod>) -> Arc<Pod> {
    let known = &pod.spec.pod_group;
    let is_own = known.as_ref().is_some_and(|name| PodGroup::foreign_parts(name).is_none());
    if is_own || !core.foreign.exist() {
        return pod;
    }
    let group = core.foreign.group_of(&pod);
    if group == *known {
        return pod;
    }
    let mut member = pod.clone();
    core.foreign.join(&mut member, group);
    core.pods.insert(member.clone());
    core.cluster.group_member_gone(&pod);
    member_is_gone(core, &pod);
    core.cluster.group_member_known(&member);
    member
}
