//! The room that a gang holds while it waits: nominates its members, and wakes other pods when it holds nothing any more.
//!
//! Invariant: the members of the head that are not placed are nominated to their places, except during an attempt at the head.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::PodGroupState;
use kube_scheduler_framework::ClusterEvent;
use kube_scheduler_queue::Nomination;

use crate::backfill::held_objects::{give_back_objects, hide_held};
use crate::backfill::{Demand, Head, Plan};
use crate::core::Core;
use crate::deadlines::WakeUp;
use crate::group::incomplete::GroupKey;
use crate::policy::Entry;

/// For how long a gang is not planned ahead again that would not fit even if all pods that may end had ended.
const UNPLANNED: Duration = Duration::from_secs(60);

/// How many kinds of members are reported one by one when their nominations end.
const MAX_WAKES: usize = 32;

/// A gang that does not fit holds what its plan says from now on, in the place of what was held before.
pub(crate) fn hold_room(core: &mut Core, group: GroupKey, priority: i32, plan: Plan) {
    let Some(demand) = demand_of(core, &group) else { return stop_holding(core, &group) };
    hide_held(core);
    let before = core.backfill.head.take();
    let same = before.as_ref().filter(|it| it.group == group && it.demand == demand);
    // A hold that ended in between goes on.
    let earlier = core.backfill.earlier.remove(&group).filter(|until| *until > core.now);
    let until = same.map(|it| it.until).or(earlier);
    let until = until.unwrap_or(core.now + core.backfill.longest);
    nominate_to(core, &plan);
    core.backfill.head = Some(Head { group, demand, priority, until, plan });
    core.deadlines.set(WakeUp::HoldEnds, until);
    if let Some(before) = before {
        lose_head(core, before);
    }
}

/// An attempt at the gang has ended the nominations of its members, but it holds what it held.
pub(crate) fn keep_holding(core: &mut Core, group: &GroupKey) {
    if let Some(plan) = core.backfill.plan_of(group).cloned() {
        nominate_to(core, &plan);
    }
}

fn nominate_to(core: &mut Core, plan: &Plan) {
    for (pod, node) in &plan.places {
        let known = core.pods.get(&pod.namespace, &pod.name).filter(|it| it.uid == pod.uid);
        let Some(pod) = known.filter(|it| !it.is_assigned()).cloned() else { continue };
        core.with_queue(|queue, policy| {
            queue.nominate(&Entry(pod), Nomination::Override(node), policy);
        });
    }
}

/// The gang does not fit, and would not if all pods ended that may: it holds nothing.
pub(crate) fn hold_nothing(core: &mut Core, group: GroupKey) {
    stop_holding(core, &group);
    let until = core.now + UNPLANNED.min(core.backfill.longest);
    core.backfill.resting.insert(group, until);
}

/// The gang is placed, or gone: it holds nothing any more, if it did.
pub(crate) fn end_hold(core: &mut Core, group: &GroupKey) {
    stop_holding(core, group);
    core.backfill.resting.remove(group);
    core.backfill.earlier.remove(group);
}

fn stop_holding(core: &mut Core, group: &GroupKey) {
    if core.backfill.plan_of(group).is_some() {
        hide_held(core);
    }
    if let Some(head) = core.backfill.head.take_if(|head| head.group == *group) {
        core.deadlines.clear(WakeUp::HoldEnds, head.until);
        lose_head(core, head);
    }
}

/// A gang is not the head any more. How long it may hold room is remembered.
fn lose_head(core: &mut Core, head: Head) {
    let Head { group, priority, until, plan, .. } = head;
    give_back(core, plan, &group, priority);
    let is_head = core.backfill.plan_of(&group).is_some();
    if !is_head {
        core.backfill.earlier.insert(group, until);
    }
}

/// The head has held room for as long as it may. Now no gang may hold any for the same time, and this one not for twice that
/// time.
pub(crate) fn expire_hold(core: &mut Core) {
    let Some(head) = &core.backfill.head else { return };
    let group = head.group.clone();
    end_hold(core, &group);
    let longest = core.backfill.longest;
    core.backfill.pause = core.now + longest;
    core.backfill.resting.insert(group, core.now + longest.saturating_mul(2));
}

/// A group has changed or is gone, or one of its pods is.
pub(crate) fn check_hold(core: &mut Core, group: &GroupKey, lost: Option<&Pod>) {
    let n_known = core.cluster.pod_group(&group.0, &group.1).map_or(0, PodGroupState::n_known);
    if n_known == 0 {
        return end_hold(core, group);
    }
    let Some(head) = core.backfill.head.as_ref().filter(|head| head.group == *group) else {
        return;
    };
    let min_count = head.demand.min_count.and_then(|n| usize::try_from(n).ok());
    let is_complete = min_count.is_none_or(|min_count| n_known >= min_count);
    if !is_complete || demand_of(core, group).as_ref() != Some(&head.demand) {
        return stop_holding(core, group);
    }
    // The others go on waiting.
    let Some(pod) = lost else { return };
    hide_held(core);
    if let Some(head) = &mut core.backfill.head {
        let Plan { places, objects, .. } = &mut head.plan;
        let places = places.extract_if(.., |(other, _)| other.uid == pod.uid).collect();
        let objects = objects.extract_if(.., |(member, _)| *member == pod.uid).collect();
        let priority = head.priority;
        let plan = Plan { places, objects, waits_for: BTreeSet::new() };
        give_back(core, plan, group, priority);
    }
}

/// Ends the nominations of a plan that are not those of the head, and wakes pods for the room, and for whatever else, that is
/// free again: what the group held with this priority.
fn give_back(core: &mut Core, plan: Plan, group: &GroupKey, priority: i32) {
    let head = core.backfill.head.iter().flat_map(|head| &head.plan.places);
    let held: BTreeMap<Arc<str>, Arc<str>> =
        head.map(|(pod, node)| (pod.uid.clone(), node.clone())).collect();
    let mut woken: Vec<Arc<Pod>> = Vec::new();
    for (pod, node) in plan.places {
        match held.get(&pod.uid) {
            Some(now) if *now == node => continue,
            None if core.queue().nomination(&pod.uid) == Some(&*node) => {
                core.with_queue(|queue, _| queue.withdraw_nomination(&pod.uid));
            }
            _ => {}
        }
        let has_come =
            core.cluster.pod(&pod.uid).is_some_and(|it| it.node_name.as_ref() == Some(&node));
        // Where the room is does not matter to those who wait for some.
        if !has_come
            && woken.len() <= MAX_WAKES
            && !woken.iter().any(|other| gives_the_same(other, &pod))
        {
            if woken.len() < MAX_WAKES {
                core.nomination_ended(&Arc::new(pod.with_node_name(&node)));
            } else {
                // Without an object the event may always help.
                core.move_all(&ClusterEvent::ASSIGNED_POD_DELETE, None, None);
            }
            woken.push(pod);
        }
    }
    give_back_objects(core, &plan.objects, group, priority);
}

/// What a gang asks for; `None` if it does not exist, or cannot be read.
fn demand_of(core: &Core, (namespace, name): &GroupKey) -> Option<Demand> {
    let group = core.cluster.pod_group_object(namespace, name).ok()?;
    let (uid, min_count) = (group.uid.clone(), group.min_count());
    Some(Demand { uid, min_count, topology_keys: group.topology_keys.clone() })
}

/// Whether the ends of two nominations help the same pods.
fn gives_the_same(a: &Pod, b: &Pod) -> bool {
    a.volumes.is_empty()
        && b.volumes.is_empty()
        && a.namespace == b.namespace
        && a.labels == b.labels
        && a.priority() == b.priority()
        && a.requests == b.requests
        && a.spec == b.spec
}
