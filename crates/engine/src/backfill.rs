//! Room that is kept for one gang, so that smaller work does not keep it waiting for ever.
//!
//! Of the gangs that are planned as a whole and do not fit, one at a time is the head: it holds the places that it gets once
//! certain pods have ended. Its members are nominated to them in the queue, and nowhere else: pods of the same priority or less
//! may take what is left beside these members, so that they do not delay the gang. What plugins choose for members, such as
//! devices, is [held](held_objects) from the same pods. The head is overtaken by a gang of higher priority, and ends with
//! its pods, with a change of what it asks for, or after a while; then it waits its turn.
//!
//! Invariants: no more than one group holds room; a group that holds room or rests has known pods, and
//! [`Deadlines`](crate::deadlines::Deadlines) has the time at which the head ends. [`group::ahead`](crate::group::ahead) finds
//! plans, [`hold`] carries out what follows from them.
//!
//! Behaviour: `docs/groups.md`, "Who goes first".

pub(crate) mod held_objects;
pub(crate) mod hold;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::{Object, Pod, Timestamp};

use crate::group::incomplete::GroupKey;

/// Objects, each with the UID of the member that it is about.
pub(crate) type HeldObjects = Vec<(Arc<str>, Arc<Object>)>;

/// Where the members of a gang go once some pods have ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// Members and their nodes.
    pub(crate) places: Vec<(Arc<Pod>, Arc<str>)>,
    /// What plugins choose for members besides, such as devices.
    pub(crate) objects: HeldObjects,
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
    /// Whether the objects of the head's plan are [shown](held_objects) to plugins at the moment.
    shows_objects: bool,
    /// Before this time no gang may hold room, so that other pods get a chance at what the last one held in vain.
    pause: Timestamp,
    /// Gangs that may not hold room before these times.
    resting: BTreeMap<GroupKey, Timestamp>,
    /// Gangs that were the head before and are not placed yet, each with the time until which it might have held room: that stays
    /// its limit if it becomes the head again.
    earlier: BTreeMap<GroupKey, Timestamp>,
}

impl Backfill {
    /// No gang holds room yet. Each may hold it for `longest` at a time.
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

    /// For how many gangs something is remembered.
    pub(crate) fn len(&self) -> usize {
        self.resting.len() + self.earlier.len() + usize::from(self.head.is_some())
    }
}
