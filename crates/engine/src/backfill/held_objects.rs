//! What a gang that waits holds besides room on nodes: what plugins choose for its members, such as devices.
//!
//! Plugins say so in objects, which are shown to them as about to be written while a pod is looked at that must leave room
//! for the gang: one of the same priority or less, and no member. They are not shown for others. Both are changes of these
//! objects, as any other that plugins follow, and nothing changes as long as pods of one kind come one after the other, or
//! pods for which no plugin has anything to choose.
//!
//! Members that share something name the same object. Each of them holds it: it is pending as often.
//!
//! Invariant: the objects of the head's plan are pending if, and only if, they are shown; those of other plans never are.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::sync::Arc;

use kube_scheduler_api_types::{Object, Pod};
use kube_scheduler_queue::ProfileId;

use crate::backfill::Backfill;
use crate::core::Core;
use crate::group::incomplete::GroupKey;
use crate::guard::guarded;

/// Whether a pod must leave room for a gang that holds some with this priority.
fn must_leave_room(pod: &Pod, (namespace, name): &GroupKey, priority: i32) -> bool {
    let is_member = pod.namespace == *namespace && pod.spec.pod_group.as_ref() == Some(name);
    !is_member && pod.priority() <= priority
}

/// Before a pod is looked at, or the pods of a group, the first of which is the most important one: shows what the head holds
/// if that one must leave room for it. Whatever is shown makes no difference to pods for which nothing is reserved.
pub(crate) fn show_held_to(core: &mut Core, profile: ProfileId, first: &Pod, others: &[Arc<Pod>]) {
    let Some(head) = &core.backfill.head else { return };
    if head.plan.objects.is_empty() {
        return;
    }
    let must_leave_room = must_leave_room(first, &head.group, head.priority);
    let profile = &core.plans.profiles[profile];
    let are_idle = guarded(|| {
        let mut pods = iter::once(first).chain(others.iter().map(|pod| &**pod));
        pods.all(|pod| profile.reserve().all(|(_, _, plugin)| plugin.is_idle_for(pod)))
    });
    match are_idle {
        Ok(true) => {}
        _ => set_shown(core, must_leave_room),
    }
}

/// Before the head, or what it holds, changes.
pub(crate) fn hide_held(core: &mut Core) {
    set_shown(core, false);
}

fn set_shown(core: &mut Core, is_shown: bool) {
    let Core { backfill: Backfill { head, shows_objects, .. }, cluster, .. } = core;
    if std::mem::replace(shows_objects, is_shown) == is_shown {
        return;
    }
    for (_, object) in head.iter().flat_map(|head| &head.plan.objects) {
        if is_shown {
            cluster.objects_mut().add_pending(object.clone());
        } else {
            let Object { group, kind, uid, .. } = &**object;
            cluster.objects_mut().remove_pending(group, kind, uid, false);
        }
    }
}

/// Wakes pods if some of `objects`, which the group held with this priority, are not held any more: those that had to leave
/// room for it. Which of the objects it is does not matter to those who wait for devices that are free again.
pub(crate) fn give_back_objects(
    core: &mut Core,
    objects: &[(Arc<str>, Arc<Object>)],
    group: &GroupKey,
    priority: i32,
) {
    let free = {
        // What members share is taken with the first of them.
        let is_placed = |member: &Arc<str>| core.cluster.pod(member).is_some();
        let placed = objects.iter().filter(|(member, _)| is_placed(member));
        let taken: BTreeSet<&str> = placed.map(|(_, object)| &*object.uid).collect();
        let head = core.backfill.head.iter().flat_map(|head| &head.plan.objects);
        let held: BTreeMap<&str, &Object> =
            head.map(|(_, object)| (&*object.uid, &**object)).collect();
        let free = objects.iter().map(|(_, object)| object).find(|object| {
            let is_held = held.get(&*object.uid).is_some_and(|it| it.json == object.json);
            !is_held && !taken.contains(&*object.uid)
        });
        free.cloned()
    };
    if let Some(object) = free {
        core.report_released_object(object, |pod| must_leave_room(pod, group, priority));
    }
}
