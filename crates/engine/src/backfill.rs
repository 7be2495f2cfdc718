//! Room that is kept for one gang, so that smaller work does not keep it waiting for ever.
//!
//! Of the gangs that are planned as a whole and do not fit, one at a time is the head: it holds the places that it gets once
//! certain pods have ended. Its members are nominated to them in the queue, and nowhere else: pods of the same priority or less
//! may take what is left beside these members, so that they do not delay the gang. The head is overtaken by a gang of higher
//! priority, and ends with its pods, with a change of what it asks for, or after a while; then it waits its turn.
//!
//! Invariants: no more than one group holds room; a group that holds room or rests has known pods, and
//! [`Deadlines`](crate::deadlines::Deadlines) has the time at which the head ends. [`group_ahead`](crate::group_ahead) finds plans.
//!
//! Behaviour: `docs/groups.md`, "Who goes first".

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::{Pod, PodGroup, Timestamp};
use kube_scheduler_cache::PodGroupState;
use kube_scheduler_queue::Nomination;

use crate::core::Core;
use crate::deadlines::WakeUp;
use crate::incomplete::GroupKey;
use crate::policy::Entry;

/// For how long a gang is not planned ahead again that would not fit even if all pods that may end had ended.
const HOPELESS: Duration = Duration::from_secs(60);

/// Where the members of a gang go once some pods have ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// Members and their nodes.
    pub(crate) places: Vec<(Arc<Pod>, Arc<str>)>,
    /// The pods that have to end, by UID.
    pub(crate) waits_for: BTreeSet<Arc<str>>,
}

/// What a gang asks for; a gang that asks for something else is another one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Demand {
    uid: Arc<str>,
    min_count: Option<i32>,
    topology_keys: Option<Vec<Arc<str>>>,
}

impl Demand {
    fn of(core: &Core, (namespace, name): &GroupKey) -> Option<Self> {
        let objects = core.cluster.objects();
        let object = objects.get(PodGroup::GROUP, PodGroup::KIND, namespace, name)?;
        let group = PodGroup::from_object(object).ok()?;
        let min_count = group.min_count();
        Some(Self { uid: group.uid, min_count, topology_keys: group.topology_keys })
    }
}

/// The gang that holds room.
#[derive(Clone, Debug)]
struct Head {
    group: GroupKey,
    demand: Demand,
    priority: i32,
    until: Timestamp,
    plan: Plan,
}

/// Who holds room, and who may not for a while.
#[derive(Clone, Debug, Default)]
pub(crate) struct Backfill {
    /// How long a gang may hold room at a time; zero for not at all.
    longest: Duration,
    head: Option<Head>,
    /// Nobody holds room before this time: others have a chance at what a gang held in vain.
    pause: Timestamp,
    resting: BTreeMap<GroupKey, Timestamp>,
}

impl Backfill {
    /// Nobody holds room yet; each may for so long.
    pub(crate) fn new(longest: Duration) -> Self {
        Self { longest, ..Self::default() }
    }

    /// Whether a gang of this priority may hold room now.
    pub(crate) fn admits(&self, group: &GroupKey, priority: i32, now: Timestamp) -> bool {
        !self.longest.is_zero()
            && self.pause <= now
            && self.resting.get(group).is_none_or(|until| *until <= now)
            && self.head.as_ref().is_none_or(|it| it.group == *group || it.priority < priority)
    }

    /// What the gang holds.
    pub(crate) fn plan_of(&self, group: &GroupKey) -> Option<&Plan> {
        self.head.as_ref().filter(|head| head.group == *group).map(|head| &head.plan)
    }

    /// How many gangs hold room or rest.
    pub(crate) fn len(&self) -> usize {
        self.resting.len() + usize::from(self.head.is_some())
    }

    fn rest(&mut self, group: GroupKey, until: Timestamp) {
        self.resting.insert(group, until);
    }
}

/// # Room that is held
impl Core {
    /// Has gangs hold room for so long at most.
    pub(crate) fn with_longest_hold(mut self, longest: Duration) -> Self {
        self.backfill = Backfill::new(longest);
        self
    }

    /// A gang that does not fit holds what its plan says from now on, in the place of what was held before.
    pub(crate) fn hold_room(&mut self, group: GroupKey, priority: i32, plan: Plan) {
        let Some(demand) = Demand::of(self, &group) else { return self.end_hold(&group) };
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
        self.backfill.rest(group, until);
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
        self.backfill.rest(group, self.now + longest.saturating_mul(2));
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
        if !is_complete || Demand::of(self, group).as_ref() != Some(&head.demand) {
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
