//! What follows from it that a gang holds room, or does not any more: nominations, and pods that wake up.
//!
//! Invariant: the members of the head that are not placed are nominated to their places, except during an attempt at the head.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::{Pod, PodGroup};
use kube_scheduler_cache::PodGroupState;
use kube_scheduler_queue::Nomination;

use crate::backfill::{Backfill, Demand, Head, Plan};
use crate::core::Core;
use crate::deadlines::WakeUp;
use crate::incomplete::GroupKey;
use crate::policy::Entry;

/// For how long a gang is not planned ahead again that would not fit even if all pods that may end had ended.
const HOPELESS: Duration = Duration::from_secs(60);

/// # Room that is held
impl Core {
    /// The same with a [patience](Self::with_patience), and gangs that may hold room for so long at most.
    pub(crate) fn with_times(mut self, patience: Option<Duration>, longest: Duration) -> Self {
        self.backfill = Backfill::new(longest);
        self.with_patience(patience)
    }

    /// A gang that does not fit holds what its plan says from now on, in the place of what was held before.
    pub(crate) fn hold_room(&mut self, group: GroupKey, priority: i32, plan: Plan) {
        let Some(demand) = demand_of(self, &group) else { return self.end_hold(&group) };
        let before = self.backfill.head.take();
        let same = before.as_ref().filter(|it| it.group == group && it.demand == demand);
        let until = same.map_or(self.now + self.backfill.longest, |it| it.until);
        self.nominate_to(&plan);
        self.backfill.head = Some(Head { group, demand, priority, until, plan });
        self.deadlines.set(WakeUp::HoldEnds, until);
        if let Some(before) = before {
            self.give_back(before.plan);
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
    pub(crate) fn is_hopeless(&mut self, group: GroupKey) {
        self.end_hold(&group);
        let until = self.now + HOPELESS.min(self.backfill.longest);
        self.backfill.resting.insert(group, until);
    }

    /// The gang holds nothing any more, if it did.
    pub(crate) fn end_hold(&mut self, group: &GroupKey) {
        self.backfill.resting.remove(group);
        if let Some(head) = self.backfill.head.take_if(|head| head.group == *group) {
            self.deadlines.clear(WakeUp::HoldEnds, head.until);
            self.give_back(head.plan);
        }
    }

    /// The head has held room for as long as it may. For as long again nobody does, and then, for as long again, only others.
    pub(crate) fn hold_is_over(&mut self) {
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
            return self.end_hold(group);
        }
        // The others go on waiting.
        if let Some(pod) = lost
            && let Some(head) = &mut self.backfill.head
        {
            let places = std::mem::take(&mut head.plan.places);
            let (gone, left) = places.into_iter().partition(|(other, _)| other.uid == pod.uid);
            head.plan.places = left;
            self.give_back(Plan { places: gone, waits_for: BTreeSet::new() });
        }
    }

    /// Ends the nominations of a plan that are not those of the head, and wakes pods for the room that is free again.
    fn give_back(&mut self, plan: Plan) {
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
            if !has_come && !woken.iter().any(|other| gives_the_same(other, &pod)) {
                self.nomination_ended(&Arc::new(pod.with_node_name(&node)));
                woken.push(pod);
            }
        }
    }
}

/// What a gang asks for; `None` if it does not exist, or cannot be read.
fn demand_of(core: &Core, (namespace, name): &GroupKey) -> Option<Demand> {
    let objects = core.cluster.objects();
    let object = objects.get(PodGroup::GROUP, PodGroup::KIND, namespace, name)?;
    let group = PodGroup::from_object(object).ok()?;
    let min_count = group.min_count();
    Some(Demand { uid: group.uid, min_count, topology_keys: group.topology_keys })
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
