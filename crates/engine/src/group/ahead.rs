//! Plans for a gang that does not fit: where it goes once pods have ended that may end by themselves, as few as possible.
//!
//! The pods that may end are taken off on trial, with the devices that [come free](crate::trial_claims) when they end, then put
//! back one after the other, those first that are expected to run on for longest, as long as the gang fits. The others are
//! those that it waits for. A plan that still holds is kept to: the gang never waits for a pod that it did not wait for before.
//!
//! Invariant: with the pods gone that a plan waits for, and nothing else changed, the gang fits.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_api_types::{Object, Pod, Timestamp};
use kube_scheduler_framework::groups::GroupTrial;
use kube_scheduler_framework::{ClusterView, Status};

use crate::backfill::hold::{end_hold, hold_nothing, hold_room, keep_holding};
use crate::backfill::{HeldObjects, Plan};
use crate::core::Core;
use crate::cycle::SchedulingCycle;
use crate::group::incomplete::GroupKey;
use crate::group::preemption::Rehearsal;
use crate::group::{Group, GroupWork, Outcome, PlacementOutcome};
use crate::guard::guarded;
use crate::trial_claims::{may_need_devices, n_claims, work_of_claims};

/// How many times a member is placed on trial one after the other for a plan at most, where members cannot be counted, and how
/// many times the gang is tried all the same.
const MAX_TRIALS: usize = 10_000;
const MIN_TRIES: usize = 8;
/// How many times they are counted at most where they can be.
const MAX_COUNTS: usize = 20_000;

/// Kinds of owners of pods that do not end by themselves; a static pod belongs to its node.
const ENDLESS: [&str; 5] =
    ["DaemonSet", "Node", "ReplicaSet", "ReplicationController", "StatefulSet"];

/// How many bytes the objects of a plan may take. Of a plan with more the first members' are held.
const MAX_BYTES: usize = 4 << 20;

impl SchedulingCycle {
    /// Plans ahead for a group that was tried, where that is asked for; gives what changes about the room that is held.
    pub(crate) fn look_ahead(
        &mut self,
        cx: &mut GroupWork<'_>,
        group: &Group,
        tried: &PlacementOutcome,
    ) -> Option<Outlook> {
        group.exact.as_ref()?;
        let key = (group.namespace.clone(), group.name.clone());
        if tried.waits {
            // Before the members are nominated to where pods are evicted for them, which may be the same nodes.
            end_hold(cx.core, &key);
            return None;
        }
        if tried.status.is_success() {
            return Some(Outlook { group: key, next: PlanUpdate::Ends });
        }
        let priority = group.pods.first()?.priority();
        // An error says nothing about room.
        if !tried.status.is_rejected() {
            return Some(Outlook { group: key, next: PlanUpdate::Stays });
        }
        // With extenders each trial is a request.
        if !cx.core.extenders.is_empty() || !cx.core.backfill.admits(&key, priority, cx.core.now) {
            return None;
        }
        // However often the group is tried for it, what comes later draws the same numbers.
        let number = self.number;
        cx.effort.begin_stage();
        let found = self.plan_again(cx, group, &key);
        self.number = number;
        let next = match found {
            Ok(Some(plan)) => PlanUpdate::Holds(priority, plan),
            Err(_) if cx.core.backfill.plan_of(&key).is_some() => PlanUpdate::Stays,
            Ok(None) | Err(_) => PlanUpdate::HoldsNothing,
        };
        Some(Outlook { group: key, next })
    }

    /// A plan among the pods that the gang waits for, or among all. `None` if it would not fit.
    fn plan_again(
        &mut self,
        cx: &mut GroupWork<'_>,
        group: &Group,
        key: &GroupKey,
    ) -> Result<Option<Plan>, Status> {
        let known = cx.core.backfill.plan_of(key).map(|plan| plan.waits_for.clone());
        if let Some(known) = known
            && let Some(plan) = self.find_plan(cx, group, Some(&known))?
        {
            return Ok(Some(plan));
        }
        self.find_plan(cx, group, None)
    }

    /// The plan that waits for the fewest of the pods that may end, or of those in `among`. An error if it is not known whether
    /// there is one.
    fn find_plan(
        &mut self,
        cx: &mut GroupWork<'_>,
        group: &Group,
        among: Option<&BTreeSet<Arc<str>>>,
    ) -> Result<Option<Plan>, Status> {
        let cluster = &cx.core.cluster;
        let limits = self.limits_of(cx, group);
        let mut work = (cluster.n_pods() + cluster.n_nodes() + n_claims(cluster)) as u64;
        // Looks at each claim, which is for nothing if there are too many already.
        if work <= limits.hard && group.pods.iter().any(|pod| may_need_devices(pod)) {
            work = work.saturating_add(work_of_claims(cluster));
        }
        if work > limits.hard {
            return Err(Status::error("planning ahead would cost too much"));
        }
        cx.effort.as_a_whole = cx.effort.as_a_whole.saturating_add(work);
        let found = self.rehearse(cx, group, false, |trial| {
            let now = trial.context().now();
            let pods = may_end(trial.context().cluster(), group, among, now);
            trial.follow_claims();
            trial.take_off(&pods);
            let status = trial.try_group();
            if !status.is_success() {
                return Err(status);
            }
            let n_tries = if trial.counts() {
                MAX_COUNTS
            } else {
                (MAX_TRIALS / group.pods.len().max(1)).max(MIN_TRIES)
            };
            Ok(put_back(trial, &pods, n_tries))
        });
        let (waits_for, outcomes) = match found {
            Ok((waits_for, Some(outcomes))) => (waits_for, outcomes),
            Ok((_, None)) => return Err(Status::error("a plan could not be repeated")),
            Err(status) if status.is_rejected() => return Ok(None),
            Err(status) => return Err(status),
        };
        let objects = chosen_for(cx.core, group, &outcomes);
        let members = group.pods.iter().zip(outcomes);
        let places =
            members.filter_map(|(pod, it)| Some((pod.clone(), it.fit()?.node_name.clone())));
        Ok(Some(Plan { places: places.collect(), objects, waits_for }))
    }
}

/// What changes about the room that a gang holds.
#[derive(Debug)]
pub(crate) struct Outlook {
    group: GroupKey,
    next: PlanUpdate,
}

#[derive(Debug)]
enum PlanUpdate {
    /// It needs none any more.
    Ends,
    /// Nothing, although its members are not nominated any more.
    Stays,
    /// It holds this, with this priority.
    Holds(i32, Plan),
    /// It holds none, and is not planned ahead again for a while.
    HoldsNothing,
}

impl Outlook {
    /// For when the members are back in the queue, which has a say in what their nominations are.
    pub(crate) fn carry_out(self, core: &mut Core) {
        let Self { group, next } = self;
        match next {
            PlanUpdate::Ends => end_hold(core, &group),
            PlanUpdate::Stays => keep_holding(core, &group),
            PlanUpdate::Holds(priority, plan) => hold_room(core, group, priority, plan),
            PlanUpdate::HoldsNothing => hold_nothing(core, group),
        }
    }
}

/// Puts pods back as long as the group fits, and tries it so many times at most; the UIDs of the others. In halves, because most
/// of them can be put back.
fn put_back(
    trial: &mut Rehearsal<'_, '_>,
    pods: &[Arc<Pod>],
    mut left: usize,
) -> BTreeSet<Arc<str>> {
    let (mut runs, mut waits_for) = (vec![pods], BTreeSet::new());
    while let Some(run) = runs.pop() {
        if left > 0 {
            left -= 1;
            trial.put_back(run);
            if trial.try_group().is_success() {
                continue;
            }
            trial.take_off(run);
        }
        match run {
            [] => {}
            [_] => waits_for.extend(run.iter().map(|pod| pod.uid.clone())),
            _ if left == 0 => waits_for.extend(run.iter().map(|pod| pod.uid.clone())),
            _ => {
                let (first, second) = run.split_at(run.len() / 2);
                runs.extend([second, first]);
            }
        }
    }
    waits_for
}

/// The pods that may end by themselves, other than those of the group; first those that are expected to run on for longest.
fn may_end(
    cluster: ClusterView<'_>,
    group: &Group,
    among: Option<&BTreeSet<Arc<str>>>,
    now: Timestamp,
) -> Vec<Arc<Pod>> {
    let is_own = |pod: &Pod| {
        pod.namespace == group.namespace && pod.spec.pod_group.as_ref() == Some(&group.name)
    };
    let ends = |pod: &Pod| {
        let owner = pod.controller.as_ref();
        pod.deletion_requested.is_some() || !owner.is_some_and(|it| ENDLESS.contains(&&*it.kind))
    };
    let all = cluster.order().iter().flat_map(|node| cluster.pods_on(*node));
    let all = all.filter(|pod| among.is_none_or(|among| among.contains(&pod.uid)));
    let mut pods: Vec<Arc<Pod>> = all.filter(|pod| !is_own(pod) && ends(pod)).cloned().collect();
    // What has run for longest is expected to end first: nothing else is known.
    pods.sort_by_cached_key(|pod| {
        let goes = pod.deletion_requested.is_some();
        let started = pod.status.started.unwrap_or(now);
        (goes, Reverse(pod.priority()), Reverse(started), pod.namespace.clone(), pod.name.clone())
    });
    pods
}

/// What plugins have chosen for the members that fit.
pub(crate) fn chosen_for(core: &Core, group: &Group, outcomes: &[Outcome]) -> HeldObjects {
    let profile = &core.plans.profiles[group.profile];
    let (mut objects, mut n_bytes) = (HeldObjects::new(), 0);
    let mut known: BTreeMap<Arc<str>, Arc<Object>> = BTreeMap::new();
    for (pod, outcome) in group.pods.iter().zip(outcomes) {
        let Some(state) = outcome.fit().and_then(|fit| fit.left.as_deref()) else { continue };
        for (_, _, plugin) in profile.reserve() {
            for object in guarded(|| plugin.planned(state)).unwrap_or_default() {
                // What members share is the same object, and takes its bytes once.
                let same = known.get(&object.uid).cloned();
                n_bytes += size_of::<(Arc<str>, Arc<Object>)>();
                n_bytes += if same.is_none() { object.n_bytes() } else { 0 };
                if n_bytes > MAX_BYTES {
                    return objects;
                }
                let object = same.unwrap_or(object);
                known.insert(object.uid.clone(), object.clone());
                objects.push((pod.uid.clone(), object));
            }
        }
    }
    objects
}
