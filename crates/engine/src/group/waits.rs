//! Gangs that cannot be tried yet, because pods of theirs are missing, or the group itself: after a while their members say what
//! they wait for.
//!
//! Parity: the reference says nothing of pods that a PreEnqueue plugin holds back. Recorded decisions are followed without
//! these reports ([`EngineOptions::group_patience`](crate::EngineOptions::group_patience)).
//!
//! Invariant: a group that is waited for has known pods, and [`Deadlines`](crate::deadlines::Deadlines) has the first time at
//! which one is looked at.

use std::fmt;
use std::sync::Arc;

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::{MemberPlace, PodGroupError, PodGroupState};
use kube_scheduler_framework::{ClusterEvent, EventObject, NominatingInfo, Status};

use crate::backfill::hold::check_hold;
use crate::core::{Core, PodEvent};
use crate::deadlines::WakeUp;
use crate::effect::{Effect, PodRef};
use crate::group::condition::write_condition;
use crate::group::incomplete::GroupKey;
use crate::status_change::status_patch;

/// What the condition of a member says. Not `Unschedulable`: more nodes would not help.
const REASON: &str = "WaitingForPodGroup";

/// What a pod group waits for before its pods can be tried.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IncompleteGroup {
    /// There is no such object.
    NoObject {
        /// The name that pods give.
        name: Arc<str>,
    },
    /// The object cannot be read.
    Unreadable {
        /// Why.
        error: String,
    },
    /// It has fewer pods than have to fit together.
    TooFewPods {
        /// The name that pods give.
        name: Arc<str>,
        /// How many have to fit together.
        min_count: usize,
        /// How many there are.
        n_known: usize,
    },
}

impl IncompleteGroup {
    /// What it comes to for programs: `NoPodGroup`, `UnreadablePodGroup` or `TooFewPods`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoObject { .. } => "NoPodGroup",
            Self::Unreadable { .. } => "UnreadablePodGroup",
            Self::TooFewPods { .. } => "TooFewPods",
        }
    }

    /// The text without how far the group has come, which changes with each pod.
    fn lasting_text(&self) -> String {
        match self {
            Self::NoObject { name } => {
                format!("waiting for the pod group \"{name}\", which does not exist")
            }
            Self::Unreadable { error } => format!("the pod group cannot be read: {error}"),
            Self::TooFewPods { name, min_count, .. } => {
                format!("waiting for pods of the pod group \"{name}\": it needs {min_count}")
            }
        }
    }
}

impl fmt::Display for IncompleteGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lasting_text())?;
        match self {
            Self::TooFewPods { n_known, .. } => write!(f, ", and {n_known} exist"),
            _ => Ok(()),
        }
    }
}

/// A pod without a node has come, and is in the queue: the one that completes a gang passes its own gate first, and then wakes
/// the others.
pub(crate) fn member_has_come(core: &mut Core, pod: &Arc<Pod>) {
    if core.plans.groups.has_gangs {
        // If the pod is held back, its group is looked at after a while, unless that is going to happen anyway.
        if let Some(name) = &pod.spec.pod_group
            && is_held_back(core, pod)
        {
            watch_group(core, (pod.namespace.clone(), name.clone()));
        }
        let object = EventObject::Pod(pod.clone());
        core.move_all(&ClusterEvent::UNSCHEDULABLE_POD_ADD, None, Some(&object));
    }
}

/// A group has changed, or is gone.
pub(crate) fn group_changed(core: &mut Core, namespace: &Arc<str>, name: &Arc<str>) {
    check_hold(core, &(namespace.clone(), name.clone()), None);
    let state = core.cluster.pod_group(namespace, name);
    if state.is_some_and(|state| state.n_unscheduled() > 0) {
        watch_group(core, (namespace.clone(), name.clone()));
    }
}

fn watch_group(core: &mut Core, group: GroupKey) {
    if core.incomplete.add(group, core.now) {
        set_group_deadline(core);
    }
}

/// A pod is gone; with the last one goes its group.
pub(crate) fn member_is_gone(core: &mut Core, pod: &Pod) {
    let Some(name) = &pod.spec.pod_group else { return };
    check_hold(core, &(pod.namespace.clone(), name.clone()), Some(pod));
    if core.cluster.pod_group(&pod.namespace, name).is_none() {
        core.incomplete.forget(&(pod.namespace.clone(), name.clone()));
        set_group_deadline(core);
    }
}

fn set_group_deadline(core: &mut Core) {
    match core.incomplete.first() {
        Some(at) => core.deadlines.set(WakeUp::GroupIsMissed, at),
        None => core.deadlines.clear(WakeUp::GroupIsMissed, core.now),
    }
}

/// Has the members of groups that are due say what they wait for.
pub(crate) fn report_incomplete_groups(core: &mut Core) {
    while let Some((namespace, name)) = core.incomplete.take_due(core.now) {
        let Some(missing) = what_is_missing(core, &namespace, &name) else { continue };
        let text = missing.lasting_text();
        let state = core.cluster.pod_group(&namespace, &name);
        let members = state.into_iter().flat_map(PodGroupState::members);
        let waiting = members.filter(|(_, place)| *place == MemberPlace::Unscheduled);
        let mut members: Vec<Arc<Pod>> = waiting.map(|(pod, _)| pod.clone()).collect();
        members.retain(|member| is_held_back(core, member));
        members.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        for member in &members {
            say(core, member, &text);
        }
        if let Some(first) = members.first() {
            let status = Status::unschedulable(missing.to_string());
            write_condition(core, PodRef::from(&**first), (&namespace, &name), &status);
        }
    }
    set_group_deadline(core);
}

/// Whether a PreEnqueue plugin does not let the pod be tried.
fn is_held_back(core: &Core, pod: &Pod) -> bool {
    let queued = core.queue().get(&pod.namespace, &pod.name);
    queued.is_some_and(|queued| queued.is_gated() && queued.entry().0.uid == pod.uid)
}

/// What a group waits for; `None` if it is complete.
pub(crate) fn what_is_missing(core: &Core, namespace: &str, name: &str) -> Option<IncompleteGroup> {
    let (group, state) = match core.cluster.pod_group_with_pods(namespace, name) {
        Ok(found) => found,
        Err(PodGroupError::NotFound) => {
            return Some(IncompleteGroup::NoObject { name: name.into() });
        }
        Err(PodGroupError::Unreadable(error)) => {
            return Some(IncompleteGroup::Unreadable { error: error.to_string() });
        }
    };
    let min_count = usize::try_from(group.min_count()?).unwrap_or(0);
    let n_known = state.map_or(0, PodGroupState::n_known);
    let name = name.into();
    (n_known < min_count).then_some(IncompleteGroup::TooFewPods { name, min_count, n_known })
}

/// Has an event and a condition of a member written, unless the condition says so already.
fn say(core: &mut Core, member: &Arc<Pod>, text: &str) {
    let Some(profile) = core.plans.profiles.of(member) else { return };
    let patch = status_patch(member, REASON, text, &NominatingInfo::Keep, core.now);
    // A member that has said so already does not say it again for each pod that joins its gang.
    let Some(patch) = patch else { return };
    let reporting = &core.plans.profiles[profile].scheduler_name;
    core.record(member, PodEvent::failed_scheduling(text, reporting));
    let pod = PodRef::from(&**member);
    core.effects.push(Effect::PatchStatus { pod, patch, is_announcement: false });
}
