//! Workload-aware preemption: a group that does not fit makes room for itself as a whole.
//!
//! Which pods have to go is for a plugin to say; here it gets a cluster to try it in. Members that are [alike](crate::group::alike)
//! are counted on sums, and the cluster stays as it is.
//!
//! Behaviour: `docs/spec/podgroups.md` §9.

use std::sync::Arc;

use kube_scheduler_api_types::{Pod, PodGroup};
use kube_scheduler_cache::{ClusterState, NodeOverlay};
use kube_scheduler_framework::groups::GroupTrial;
use kube_scheduler_framework::{Context, NodeIdx, NominatingInfo, PluginName, Status};
use kube_scheduler_runtime::PodChange;

use crate::apart::GIVEN_UP;
use crate::core::Core;
use crate::cycle::SchedulingCycle;
use crate::group::alike::AlikeGroup;
use crate::group::placement::placements;
use crate::group::report::GroupReport;
use crate::group::{Effort, Group, GroupWork, Outcome, PlacementOutcome, UNSCHEDULABLE};
use crate::guard::guarded;
use crate::observer::NoObserver;
use crate::preemption::{GROUP_TARGET, Preemptor};
use crate::trial_claims::{TrialClaims, may_need_devices};

const NO_PLUGIN: &str =
    "default preemption plugin is not registered, workload aware preemption is disabled";

/// The plugin that found victims, these, and what becomes of the members once they are gone, if the group is planned as a
/// whole.
type FoundVictims = (PluginName, Vec<Arc<Pod>>, Option<Vec<Outcome>>);

/// A group that is tried in a changed cluster.
pub(crate) struct Rehearsal<'r, 'w> {
    cycle: &'r mut SchedulingCycle,
    cx: &'r mut GroupWork<'w>,
    group: &'r Group,
    /// Instead of a changed cluster, if the members can be counted.
    recount: Option<Recount>,
    /// The claims of devices, if these come free with the pods that are taken off.
    claims: Option<TrialClaims>,
    /// Whether it is of interest why the group does not fit.
    explains: bool,
}

/// Where members fit that are counted, on nodes with other pods than they have.
#[derive(Debug)]
struct Recount {
    alike: AlikeGroup,
    /// By slot.
    nodes: Vec<RecountedNode>,
    /// What the placements have room for.
    rooms: Vec<Room>,
    /// The placement with enough room that was found last.
    latest: usize,
    /// The number of the latest change: a pod that went, or came back.
    n_changes: usize,
    /// The pods that are gone and are on no node that is known, as [`RecountedNode::gone`].
    elsewhere: Departures,
    /// Whether the group would be scheduled without the pods that went first.
    has_fitted: bool,
}

/// A node with other pods.
#[derive(Clone, Debug, Default)]
struct RecountedNode {
    /// The placement that it belongs to.
    room: Option<usize>,
    /// What the pods ask for, if they are others.
    overlay: Option<NodeOverlay>,
    /// How many members fit, but no more than are needed, if that was counted since the pods changed.
    n_fitting: Option<usize>,
    gone: Departures,
}

/// What a placement has room for.
#[derive(Clone, Debug)]
struct Room {
    /// How many members fit on the nodes that are counted.
    n_fitting: usize,
    /// The other nodes.
    uncounted: Vec<NodeIdx>,
}

/// Pods that are gone, each with the number of the change.
type Departures = Vec<(usize, Arc<Pod>)>;

/// Brings a list of pods that are gone up to date. Most come back, and few are gone from one node.
fn note(gone: &mut Departures, change: PodChange, number: usize, pod: &Arc<Pod>) {
    match change {
        PodChange::Removed => gone.push((number, pod.clone())),
        PodChange::Added => gone.retain(|(_, other)| other.uid != pod.uid),
    }
}

impl Recount {
    /// `None` if the members have to be tried.
    fn of(cycle: &SchedulingCycle, core: &Core, group: &Group) -> Option<Self> {
        let alike = AlikeGroup::of(cycle, core, group)?;
        if group.pods.len() < alike.needed {
            return None;
        }
        let placements = if core.plans.groups.places_groups {
            let placements = placements(core, group).ok()?.into_iter();
            placements.map(|placement| placement.nodes.to_vec()).collect()
        } else {
            vec![core.cluster.order().to_vec()]
        };
        let mut nodes = vec![RecountedNode::default(); core.cluster.capacity()];
        for (room, placement) in placements.iter().enumerate() {
            for node in placement {
                // A node of several placements would have to be counted for each.
                if nodes.get_mut(node.index())?.room.replace(room).is_some() {
                    return None;
                }
            }
        }
        let rooms = placements.into_iter().map(|uncounted| Room { n_fitting: 0, uncounted });
        let (rooms, elsewhere) = (rooms.collect(), Vec::new());
        Some(Self { alike, nodes, rooms, latest: 0, n_changes: 0, elsewhere, has_fitted: false })
    }

    fn change(&mut self, cluster: &ClusterState, change: PodChange, pods: &[Arc<Pod>]) {
        for pod in pods {
            self.n_changes += 1;
            let node = pod.node_name.as_ref().and_then(|name| cluster.node_idx(name));
            let on_node = node.and_then(|node| Some((node, self.nodes.get_mut(node.index())?)));
            let Some((node, on_node)) = on_node else {
                note(&mut self.elsewhere, change, self.n_changes, pod);
                continue;
            };
            note(&mut on_node.gone, change, self.n_changes, pod);
            let overlay = on_node.overlay.get_or_insert_with(|| NodeOverlay::new(node));
            match change {
                PodChange::Removed => overlay.remove_sums(cluster, pod),
                PodChange::Added => overlay.add_sums(cluster, pod),
            }
            if let Some(n) = on_node.n_fitting.take()
                && let Some(room) = on_node.room.and_then(|room| self.rooms.get_mut(room))
            {
                room.n_fitting -= n;
                room.uncounted.push(node);
            }
        }
    }

    /// Whether enough members fit in a placement now; `None` if that cannot be counted.
    fn fits(&mut self, core: &Core, group: &Group) -> Option<bool> {
        let Self { alike, nodes, rooms, latest, .. } = self;
        let needed = alike.needed;
        let n_rooms = rooms.len();
        for at in (0..n_rooms).map(|more| (*latest + more) % n_rooms) {
            let Room { n_fitting, uncounted } = rooms.get_mut(at)?;
            if *n_fitting < needed && !uncounted.is_empty() {
                alike.with_filters(core, group, |filters| {
                    while *n_fitting < needed
                        && let Some(node) = uncounted.pop()
                    {
                        let on_node = nodes.get_mut(node.index())?;
                        let overlay = on_node.overlay.clone();
                        let overlay = overlay.unwrap_or_else(|| NodeOverlay::new(node));
                        let n = filters.n_fitting(overlay, needed)?;
                        on_node.n_fitting = Some(n);
                        *n_fitting += n;
                    }
                    Some(())
                })?;
            }
            if *n_fitting >= needed {
                *latest = at;
                return Some(true);
            }
        }
        Some(false)
    }
}

impl Rehearsal<'_, '_> {
    /// Whether the members are counted instead of tried.
    pub(crate) const fn counts(&self) -> bool {
        self.recount.is_some()
    }

    /// From now on, devices come free with the pods that are taken off, as when these end, if any member may need some. Those that are
    /// counted need none.
    pub(crate) fn follow_claims(&mut self) {
        let may_need = || self.group.pods.iter().any(|pod| may_need_devices(pod));
        if self.recount.is_none() && may_need() {
            self.claims = Some(TrialClaims::of(self.cx.core));
        }
    }

    /// Whether the group would be scheduled, by counting; `None` when it has to be tried.
    fn count(&mut self) -> Option<bool> {
        let recount = self.recount.as_mut()?;
        match recount.fits(self.cx.core, self.group) {
            Some(fits) if fits || recount.has_fitted || !self.explains => {
                recount.has_fitted |= fits;
                return Some(fits);
            }
            // Why it does not fit at all is for others to read.
            _ => {}
        }
        self.take_over();
        None
    }

    /// Has the cluster changed in earnest from now on, as far as it was only counted.
    fn take_over(&mut self) {
        let Some(recount) = self.recount.take() else { return };
        let on_nodes = recount.nodes.into_iter().flat_map(|on_node| on_node.gone);
        let mut gone: Departures = on_nodes.chain(recount.elsewhere).collect();
        gone.sort_unstable_by_key(|(at, _)| *at);
        gone.into_iter().for_each(|(_, pod)| self.take_off(&[pod]));
    }

    /// Takes pods off their nodes, or puts them back, in the cluster or in what is counted.
    fn change(&mut self, change: PodChange, pods: &[Arc<Pod>]) {
        let core = &mut *self.cx.core;
        if let Some(recount) = &mut self.recount {
            return recount.change(&core.cluster, change, pods);
        }
        for pod in pods {
            let changed = match change {
                PodChange::Removed => core.cluster.remove_pod(&pod.uid).map(drop),
                PodChange::Added => core.cluster.add_pod(pod.clone()).map(drop),
            };
            match (changed, &mut self.claims) {
                (Err(error), _) => core.note(format!("preemption for a pod group: {error}")),
                (Ok(()), Some(claims)) => claims.pod_changed(&mut core.cluster, change, pod),
                (Ok(()), None) => {}
            }
        }
    }

    /// Tries the group as things stand. A search may cost what `until` says, if that is less than it may in any case.
    fn decide(&mut self, until: Option<u64>) -> PlacementOutcome {
        let GroupWork { core, bindings, preemptions, later, effort, .. } = &mut *self.cx;
        let mut cx = GroupWork {
            core,
            bindings,
            preemptions,
            observer: &mut NoObserver,
            later: std::mem::take(later),
            started: Vec::new(),
            effort: Effort { hit_limit: false, until, ..*effort },
            is_final: false,
            is_permitted: None,
        };
        let tried = self.cycle.decide(&mut cx, self.group, false, &mut GroupReport::default());
        (self.cx.later, self.cx.effort) = (cx.later, Effort { until: None, ..cx.effort });
        tried
    }
}

impl GroupTrial for Rehearsal<'_, '_> {
    fn context(&self) -> Context<'_> {
        self.cx.core.context()
    }

    fn plans_as_a_whole(&self) -> bool {
        self.group.exact.is_some()
    }

    fn take_off(&mut self, pods: &[Arc<Pod>]) {
        self.change(PodChange::Removed, pods);
    }

    fn put_back(&mut self, pods: &[Arc<Pod>]) {
        self.change(PodChange::Added, pods);
    }

    fn try_group(&mut self) -> Status {
        if self.cx.core.is_given_up() {
            return Status::error(GIVEN_UP);
        }
        match self.count() {
            Some(true) => return Status::SUCCESS,
            Some(false) => return Status::unschedulable(UNSCHEDULABLE),
            None => {}
        }
        let tried = self.decide(Some(self.cycle.try_limit(self.cx, self.group)));
        if !tried.status.is_rejected() || !self.cx.effort.hit_limit {
            return tried.status;
        }
        // With nothing left for searches, this says nothing of the pods that are there or not: they would go without need.
        Status::error(match self.group.exact {
            Some(_) => "preemption ended at its limit".to_owned(),
            None => format!("preemption ended at its limit: {}", tried.status.message()),
        })
    }
}

impl SchedulingCycle {
    /// Looks for pods to evict, and says in `tried` what came of it.
    pub(crate) fn preempt_for_group(
        &mut self,
        cx: &mut GroupWork<'_>,
        group: &Group,
        tried: &mut PlacementOutcome,
        report: &mut GroupReport,
    ) {
        // However often the group is tried for it, what comes later draws the same numbers.
        let number = self.number;
        cx.effort.begin_stage();
        let found = self.victims(cx, group);
        self.number = number;
        // That planning as a whole has cost as much as it may is no fault: the group does not fit, as far as is known.
        let is_at_limit = group.exact.is_some() && cx.effort.hit_limit;
        let status = match found {
            Ok((plugin, victims, plan)) => {
                tried.waits = true;
                if let Some(outcomes) = plan {
                    tried.outcomes = outcomes;
                }
                register(cx, group, victims, plugin);
                Status::SUCCESS
            }
            Err(status) if status.is_rejected() || is_at_limit => {
                tried.status = tried.status.clone().with_reason(status.message());
                status
            }
            Err(status) => {
                tried.status = status.clone();
                status
            }
        };
        report.preemption = Some(status);
    }

    /// Which pods have to go.
    fn victims(&mut self, cx: &mut GroupWork<'_>, group: &Group) -> Result<FoundVictims, Status> {
        let plans = cx.core.plans.clone();
        let profile = &plans.profiles[group.profile];
        let Some((name, plugin)) = profile.post_filter().find_map(|(idx, name, _)| {
            Some((name, profile.plugin(idx)?.plugin.as_pod_group_post_filter()?))
        }) else {
            return Err(Status::unschedulable(NO_PLUGIN));
        };
        let (victims, plan) = self.rehearse(cx, group, true, |trial| {
            guarded(|| plugin.pod_group_post_filter(group.placed(), trial)).and_then(|found| found)
        })?;
        Ok((name.clone(), victims, plan))
    }

    /// Lets pods be taken off and put back on trial; gives what `ask` finds out so and, for a group that is planned as a
    /// whole, how the members fare in the cluster as it is left then. Only where it `explains` do the answers say why the group
    /// does not fit.
    pub(crate) fn rehearse<T>(
        &mut self,
        cx: &mut GroupWork<'_>,
        group: &Group,
        explains: bool,
        ask: impl FnOnce(&mut Rehearsal<'_, '_>) -> Result<T, Status>,
    ) -> Result<(T, Option<Vec<Outcome>>), Status> {
        let before = cx.core.cluster.clone();
        if group.exact.is_none() {
            cx.core.cluster.freeze_affinity_lists();
        }
        // What is found out about the changed cluster goes with it.
        let kept = std::mem::take(&mut self.classes);
        let recount = Recount::of(self, cx.core, group);
        // What plugins ask for while a gang is planned as a whole is dropped: it is about a cluster that does not exist.
        let later = group.exact.is_some().then(|| std::mem::take(&mut cx.later));
        let (cycle, claims) = (&mut *self, None);
        let mut trial = Rehearsal { cycle, cx: &mut *cx, group, recount, claims, explains };
        let found = ask(&mut trial);
        let mut plan = None;
        if found.is_ok() && group.exact.is_some() {
            trial.take_over();
            let planned = trial.decide(None);
            plan = planned.status.is_success().then_some(planned.outcomes);
        }
        cx.core.cluster = before;
        if let Some(later) = later {
            cx.later = later;
        }
        self.put_back_classes(kept);
        Ok((found?, plan))
    }
}

/// The victims are going to be evicted.
fn register(cx: &mut GroupWork<'_>, group: &Group, victims: Vec<Arc<Pod>>, plugin: PluginName) {
    let Some(preemptor) = preemptor(cx.core, group) else { return };
    // The victims may be on any nodes.
    let target = NominatingInfo::Override(Some(GROUP_TARGET.into()));
    let who = &preemptor.identity;
    if let Some(plan) = cx.preemptions.plan(cx.observer, who, &target, victims, Some(plugin)) {
        cx.started.push(cx.preemptions.register(cx.core, preemptor, plan, None));
    }
}

/// The group as the one for whom pods are evicted.
fn preemptor(core: &Core, group: &Group) -> Option<Preemptor> {
    let found = core.cluster.pod_group_object(&group.namespace, &group.name).ok()?;
    let mut identity = Pod::clone(group.pods.first()?);
    identity.uid = found.uid.clone();
    identity.name = found.name.clone();
    Arc::make_mut(&mut identity.spec).priority = Some(group.placed().priority(found));
    let (kind, namespace, name) = (PodGroup::KIND, &group.namespace, &group.name);
    let object = core.cluster.objects().get(PodGroup::GROUP, kind, namespace, name);
    Some(Preemptor {
        identity: Arc::new(identity),
        members: group.pods.clone(),
        object: object.map(|object| Arc::new(core.foreign.reference(object))),
    })
}
