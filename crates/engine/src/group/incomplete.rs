//! Groups with members that are held back, and when to look at them. What is found then is said by
//! [`group::waits`](crate::group::waits).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::Timestamp;

/// Namespace and name of a pod group.
pub(crate) type GroupKey = (Arc<str>, Arc<str>);

/// Groups with members that are held back, and when to look whether they still are.
#[derive(Clone, Debug, Default)]
pub(crate) struct IncompleteGroups {
    /// How long to wait before anything is said; `None` for ever.
    patience: Option<Duration>,
    due: BTreeMap<GroupKey, Timestamp>,
    by_time: BTreeSet<(Timestamp, GroupKey)>,
}

impl IncompleteGroups {
    /// No groups yet. Each that is added is looked at after `patience`; if that is `None`, none is ever added.
    pub(crate) fn new(patience: Option<Duration>) -> Self {
        Self { patience, ..Self::default() }
    }

    /// Whether anything is ever said of groups that the reference is silent about.
    pub(crate) const fn are_reported(&self) -> bool {
        self.patience.is_some()
    }

    /// How many groups are waited for.
    pub(crate) fn len(&self) -> usize {
        self.due.len()
    }

    /// When one is looked at first.
    pub(crate) fn first(&self) -> Option<Timestamp> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// The group is not looked at any more.
    pub(crate) fn forget(&mut self, group: &GroupKey) {
        if let Some(at) = self.due.remove(group) {
            self.by_time.remove(&(at, group.clone()));
        }
    }

    /// Has a group looked at after a while, unless that is going to happen anyway; says whether it was added.
    pub(crate) fn add(&mut self, group: GroupKey, now: Timestamp) -> bool {
        let Some(patience) = self.patience else { return false };
        if self.due.contains_key(&group) {
            return false;
        }
        let at = now + patience;
        self.due.insert(group.clone(), at);
        self.by_time.insert((at, group));
        true
    }

    /// Takes out a group that is to be looked at by `now`.
    pub(crate) fn take_due(&mut self, now: Timestamp) -> Option<GroupKey> {
        let (at, _) = self.by_time.first()?;
        if *at > now {
            return None;
        }
        let (_, group) = self.by_time.pop_first()?;
        self.due.remove(&group);
        Some(group)
    }
}
