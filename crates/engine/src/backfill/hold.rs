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

use crate::backfill::{Demand, Head, Plan};
use crate::core::Core;
use crate::deadlines::WakeUp;
use crate::group::incomplete::GroupKey;
use crate::policy::Entry;

/// For how long a gang is not planned ahead again that would not fit even if all pods that may end had ended.
const UNPLANNED: Duration = Duration::from_secs(60);

/// How many kinds of members are reported one by one when their nominations end.
const MAX_WAKES: usize = 32;

/// # Room that is held
impl Core {
    /// A gang that does not fit holds what its plan says from now on, in the place of what was held before.
    pub(crate) fn hold_room(&mut self, group: GroupKey, priority: i32, plan: Plan) {
        let Some(demand) = demand_of(self, &group) else { return self.stop_holding(&group) };
        self.hide_held();
        let before = self.backfill.head.take();
        let same = before.as_ref().filter(|it| it.group == group && it.demand == demand);
        // A hold that ended in between goes on.
        let earlier = self.backfill.earlier.remove(&group).filter(|until| *until > self.now);
        let until = same.map(|it| it.until).or(earlier);
        let until = until.unwrap_or(self.now + self.backfill.longest);
        self.nominate_to(&plan);
        self.backfill.head = Some(Head { group, demand, priority, until, plan });
        self.deadlines.set(WakeUp::HoldEnds, until);
        if let Some(before) = before {
            self.lose_head(before);
        }
    }

    /// An attempt at the gang has ended the nominations of its members, but it holds what it held.
    pub(crate) fn keep_holding(&mut self, group: &GroupKey) {
        if let Some(plan) = self.backfill.plan_of(group).cloned() {
            self.nominate_to(&plan);
        }
    }

    fn nominate_to(&mut self, plan: &Plan) {
        for (pod, node) in &plan.places {
            let known = self.pods.get(&pod.namespace, &pod.name).filter(|it| it.uid == pod.uid);
            let Some(pod) = known.filter(|it| !it.is_assigned()).cloned() else { continue };
            self.with_queue(|queue, policy| {
                queue.nominate(&Entry(pod), Nomination::Override(node), policy);
            });
        }
    }

    /// The gang does not fit, and would not if all pods ended that may: it holds nothing.
    pub(crate) fn hold_nothing(&mut self, group: GroupKey) {
        self.stop_holding(&group);
        let until = self.now + UNPLANNED.min(self.backfill.longest);
        self.backfill.resting.insert(group, until);
    }

    /// The gang is placed, or gone: it holds nothing any more, if it did.
    pub(crate) fn end_hold(&mut self, group: &GroupKey) {
        self.stop_holding(group);
        self.backfill.resting.remove(group);
        self.backfill.earlier.remove(group);
    }

    fn stop_holding(&mut self, group: &GroupKey) {
        if self.backfill.plan_of(group).is_some() {
            self.hide_held();
        }
        if let Some(head) = self.backfill.head.take_if(|head| head.group == *group) {
            self.deadlines.clear(WakeUp::HoldEnds, head.until);
            self.lose_head(head);
        }
    }

    /// A gang is not the head any more. How long it may hold room is remembered.
    fn lose_head(&mut self, head: Head) {
        let Head { group, priority, until, plan, .. } = head;
        self.give_back(plan, &group, priority);
        let is_head = self.backfill.plan_of(&group).is_some();
        if !is_head {
            self.backfill.earlier.insert(group, until);
        }
    }

    /// The head has held room for as long as it may. Now no gang may hold any for the same time, and this one not for twice that
    /// time.
    pub(crate) fn expire_hold(&mut self) {
        let Some(head) = &self.backfill.head else { return };
        let group = head.group.clone();
        self.end_hold(&group);
        let longest = self.backfill.longest;
        self.backfill.pause = self.now + longest;
        self.backfill.resting.insert(group, self.now + longest.saturating_mul(2));
    }

    /// A group has changed or is gone, or one of its pods is.
    pub(crate) fn check_hold(&mut self, group: &GroupKey, lost: Option<&Pod>) {
        let n_known = self.cluster.pod_group(&group.0, &group.1).map_or(0, PodGroupState::n_known);
        if n_known == 0 {
            return self.end_hold(group);
        }
        let Some(head) = self.backfill.head.as_ref().filter(|head| head.group == *group) else {
            return;
        };
        let min_count = head.demand.min_count.and_then(|n| usize::try_from(n).ok());
        let is_complete = min_count.is_none_or(|min_count| n_known >= min_count);
        if !is_complete || demand_of(self, group).as_ref() != Some(&head.demand) {
            return self.stop_holding(group);
        }
        // The others go on waiting.
        let Some(pod) = lost else { return };
        self.hide_held();
        if let Some(head) = &mut self.backfill.head {
            let Plan { places, objects, .. } = &mut head.plan;
            let places = places.extract_if(.., |(other, _)| other.uid == pod.uid).collect();
            let objects = objects.extract_if(.., |(member, _)| *member == pod.uid).collect();
            let priority = head.priority;
            let plan = Plan { places, objects, waits_for: BTreeSet::new() };
            self.give_back(plan, group, priority);
        }
    }

    /// Ends the nominations of a plan that are not those of the head, and wakes pods for the room, and for whatever else, that is
    /// free again: what the group held with this priority.
    fn give_back(&mut self, plan: Plan, group: &GroupKey, priority: i32) {
        let head = self.backfill.head.iter().flat_map(|head| &head.plan.places);
        let held: BTreeMap<Arc<str>, Arc<str>> =
            head.map(|(pod, node)| (pod.uid.clone(), node.clone())).collect();
        let mut woken: Vec<Arc<Pod>> = Vec::new();
        for (pod, node) in plan.places {
            match held.get(&pod.uid) {
                Some(now) if *now == node => continue,
                None if self.queue().nomination(&pod.uid) == Some(&*node) => {
                    self.with_queue(|queue, _| queue.withdraw_nomination(&pod.uid));
                }
                _ => {}
            }
            let has_come =
                self.cluster.pod(&pod.uid).is_some_and(|it| it.node_name.as_ref() == Some(&node));
            // Where the room is does not matter to those who wait for some.
            if !has_come
                && woken.len() <= MAX_WAKES
                && !woken.iter().any(|other| gives_the_same(other, &pod))
            {
                if woken.len() < MAX_WAKES {
                    self.nomination_ended(&Arc::new(pod.with_node_name(&node)));
                } else {
                    // Without an object the event may always help.
                    self.move_all(&ClusterEvent::ASSIGNED_POD_DELETE, None, None);
                }
                woken.push(pod);
            }
        }
        self.give_back_objects(&plan.objects, group, priority);
    }
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
