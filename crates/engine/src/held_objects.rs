//! What a gang that waits holds besides room on nodes: what plugins choose for its members, such as devices.
//!
//! Plugins say so in objects, which are shown to them as about to be written while a pod is looked at that must leave room for the
//! gang: one of the same priority or less, and no member. They are not shown for others. Both are changes of these objects, as any
//! other that plugins follow, and nothing changes as long as pods of one kind come one after the other.
//!
//! Invariant: the objects of the head's plan are pending if, and only if, they are shown; those of other plans never are.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_api_types::{Object, Pod};

use crate::backfill::Backfill;
use crate::binding::report_released_object;
use crate::core::Core;
use crate::group::{Group, Outcome};
use crate::guard::guarded;

/// How many bytes the objects of a plan may take. Of a plan with more the first members' are held.
const MAX_BYTES: usize = 4 << 20;

/// Objects, each with the UID of the member that it is about.
pub(crate) type HeldObjects = Vec<(Arc<str>, Arc<Object>)>;

/// What plugins have chosen for the members that fit.
pub(crate) fn chosen_for(core: &Core, group: &Group, outcomes: &[Outcome]) -> HeldObjects {
    let profile = &core.plans.profiles[group.profile];
    let (mut objects, mut n_bytes) = (HeldObjects::new(), 0);
    for (pod, outcome) in group.pods.iter().zip(outcomes) {
        let Some(state) = outcome.fit().and_then(|fit| fit.left.as_deref()) else { continue };
        for (_, _, plugin) in profile.reserve() {
            for object in guarded(|| plugin.planned(state)).unwrap_or_default() {
                n_bytes += object.n_bytes();
                if n_bytes > MAX_BYTES {
                    return objects;
                }
                objects.push((pod.uid.clone(), object));
            }
        }
    }
    objects
}

/// # Objects that are held
impl Core {
    /// Before a pod is looked at, or a group by its most important pod: shows what the head holds if the pod must leave room for it.
    pub(crate) fn show_held_to(&mut self, pod: &Pod) {
        let Some(head) = &self.backfill.head else { return };
        let (namespace, name) = &head.group;
        let is_member = pod.namespace == *namespace && pod.spec.pod_group.as_ref() == Some(name);
        if is_member || pod.priority() > head.priority {
            self.hide_held();
        } else {
            self.show_held();
        }
    }

    fn show_held(&mut self) {
        let Self { backfill: Backfill { head, shows_objects, .. }, cluster, .. } = self;
        if std::mem::replace(shows_objects, true) {
            return;
        }
        for (_, object) in head.iter().flat_map(|head| &head.plan.objects) {
            cluster.objects_mut().add_pending(object.clone());
        }
    }

    /// Before the head, or what it holds, changes.
    pub(crate) fn hide_held(&mut self) {
        let Self { backfill: Backfill { head, shows_objects, .. }, cluster, .. } = self;
        if !std::mem::take(shows_objects) {
            return;
        }
        for (_, object) in head.iter().flat_map(|head| &head.plan.objects) {
            let Object { group, kind, uid, .. } = &**object;
            cluster.objects_mut().remove_pending(group, kind, uid, false);
        }
    }

    /// Wakes pods if some of `objects`, which were held, are not held any more. Which of them it is does not matter to those who wait
    /// for devices that are free again.
    pub(crate) fn give_back_objects(&mut self, objects: HeldObjects) {
        let free = {
            let head = self.backfill.head.iter().flat_map(|head| &head.plan.objects);
            let held: BTreeMap<&str, &Object> =
                head.map(|(_, object)| (&*object.uid, &**object)).collect();
            objects.into_iter().find(|(member, object)| {
                let is_held = held.get(&*object.uid).is_some_and(|it| it.json == object.json);
                !is_held && self.cluster.pod(member).is_none()
            })
        };
        if let Some((_, object)) = free {
            report_released_object(self, object, "");
        }
    }
}
