//! Workload-aware preemption: a group that does not fit makes room for itself as a whole.
//!
//! Which pods have to go is for a plugin to say; here it gets a cluster to try it in.
//!
//! Behaviour: `docs/spec/podgroups.md` §9.

use std::sync::Arc;

use kube_scheduler_api_types::{Pod, PodGroup};
use kube_scheduler_framework::groups::GroupTrial;
use kube_scheduler_framework::{Context, PluginName, Status};

use crate::core::Core;
use crate::cycle::SchedulingCycle;
use crate::effect::PodRef;
use crate::group_cycle::{Effort, Group, GroupWork, PlacementOutcome};
use crate::group_placement::placed;
use crate::group_report::GroupReport;
use crate::guard::guarded;
use crate::observer::NoObserver;
use crate::preemption::{GROUP_TARGET, GroupPreemptor};

const NO_PLUGIN: &str =
    "default preemption plugin is not registered, workload aware preemption is disabled";

/// A group that is tried in a changed cluster.
struct Rehearsal<'r, 'w> {
    cycle: &'r mut SchedulingCycle,
    cx: &'r mut GroupWork<'w>,
    group: &'r Group,
}

impl GroupTrial for Rehearsal<'_, '_> {
    fn context(&self) -> Context<'_> {
        self.cx.core.context()
    }

    fn take_off(&mut self, pods: &[Arc<Pod>]) {
        for pod in pods {
            if let Err(error) = self.cx.core.cluster.remove_pod(&pod.uid) {
                self.cx.core.note(format!("preemption for a pod group: {error}"));
            }
        }
    }

    fn put_back(&mut self, pods: &[Arc<Pod>]) {
        for pod in pods {
            if let Err(error) = self.cx.core.cluster.add_pod(pod.clone()) {
                self.cx.core.note(format!("preemption for a pod group: {error}"));
            }
        }
    }

    fn try_group(&mut self) -> Status {
        let GroupWork { core, bindings, preemptions, later, effort, .. } = &mut *self.cx;
        let mut cx = GroupWork {
            core,
            bindings,
            preemptions,
            observer: &mut NoObserver,
            later: std::mem::take(later),
            started: Vec::new(),
            effort: Effort { hit_limit: false, ..*effort },
        };
        let tried = self.cycle.decide(&mut cx, self.group, false, &mut GroupReport::default());
        (self.cx.later, self.cx.effort) = (cx.later, cx.effort);
        // A search that was given up says nothing of the pods that are there or not: they would go without need.
        if tried.status.is_rejected() && self.cx.effort.hit_limit {
            return Status::error(format!(
                "preemption ended at its limit: {}",
                tried.status.message()
            ));
        }
        tried.status
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
        let found = self.victims(cx, group);
        let status = match found {
            Ok((plugin, victims)) => {
                tried.waits = true;
                register(cx, group, victims, plugin);
                Status::SUCCESS
            }
            Err(status) if status.is_rejected() => {
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

    fn victims(
        &mut self,
        cx: &mut GroupWork<'_>,
        group: &Group,
    ) -> Result<(PluginName, Vec<Arc<Pod>>), Status> {
        let plans = cx.core.plans.clone();
        let profile = &plans.profiles[group.profile];
        let Some((name, plugin)) = profile.post_filter().find_map(|(idx, name, _)| {
            Some((name, profile.plugin(idx)?.plugin.as_pod_group_post_filter()?))
        }) else {
            return Err(Status::unschedulable(NO_PLUGIN));
        };
        let before = cx.core.cluster.clone();
        if group.exact.is_none() {
            cx.core.cluster.freeze_affinity_lists();
        }
        // What is found out about the changed cluster goes with it.
        let kept = std::mem::take(&mut self.classes);
        let mut trial = Rehearsal { cycle: self, cx: &mut *cx, group };
        let found = guarded(|| plugin.pod_group_post_filter(placed(group), &mut trial));
        cx.core.cluster = before;
        self.put_back_classes(kept);
        Ok((name.clone(), found.and_then(|found| found)?))
    }
}

/// The victims are going to be evicted.
fn register(cx: &mut GroupWork<'_>, group: &Group, victims: Vec<Arc<Pod>>, plugin: PluginName) {
    let Some(preemptor) = preemptor(cx.core, group) else { return };
    let shown: Vec<PodRef> = victims.iter().map(|victim| PodRef::from(&**victim)).collect();
    cx.observer.preempting(&PodRef::from(&*preemptor.identity), GROUP_TARGET, &shown);
    if let Some(plan) = cx.preemptions.plan_for_group(victims, plugin) {
        cx.started.push(cx.preemptions.register_for_group(cx.core, preemptor, plan));
    }
}

/// The group as the one for whom pods are evicted.
fn preemptor(core: &Core, group: &Group) -> Option<GroupPreemptor> {
    let objects = core.cluster.objects();
    let object = objects.get(PodGroup::GROUP, PodGroup::KIND, &group.namespace, &group.name)?;
    let found = PodGroup::from_object(object).ok()?;
    let mut identity = Pod::clone(group.pods.first()?);
    identity.uid = found.uid;
    identity.name = found.name;
    Arc::make_mut(&mut identity.spec).priority = Some(found.priority);
    Some(GroupPreemptor { identity: Arc::new(identity), members: group.pods.clone() })
}
