//! DefaultPreemption: finds the node where evicting pods of lower priority does the least harm.
//!
//! All of the analysis is here: eligibility, candidate nodes, the dry run with nominated pods and disruption budgets, the
//! chain of tie-breaks. **Not here**: evicting. The outcome names the node and the victims, and the engine carries it
//! out; while it does so in the background, PreEnqueue holds the pod back.
//!
//! Answers to `plugins/defaultpreemption/default_preemption.go` and `framework/preemption/preemption.go` of the
//! reference; behaviour in `docs/spec/preemption.md` §2 to §6.

mod candidates;
mod choose;
mod disruption;
mod group;
mod victims;

use std::sync::Arc;

use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::api::well_known::DISRUPTION_TARGET;
use kube_scheduler_framework::groups::PodGroupPostFilter;
use kube_scheduler_framework::preemption::PreemptionReport;
use kube_scheduler_framework::{
    ActionType, Code, Context, CycleState, EnqueueExtensions, EventRegistration, EventResource,
    Handle, NominatingInfo, Plugin, PluginArgs, PluginError, PostFilter, PostFilterContext,
    PostFilterOutcome, PreEnqueue, Status, extension_points,
};

use self::candidates::Search;
use self::choose::harm;
use crate::plugin_args::checked_args;

pub(crate) const NAME: &str = "DefaultPreemption";

const NEVER: &str = "not eligible due to preemptionPolicy=Never.";
const TERMINATING: &str = "not eligible due to a terminating pod on the nominated node.";
const STILL_PREEMPTING: &str = "waiting for the preemption for this pod to be finished";
const GROUP_STILL_PREEMPTING: &str = "waiting for the preemption for this pod group to be finished";
const NO_GROUP: &str = "pod group for pod not found";
const PLACED_GROUP: &str = "not eligible due to placement-based pod group scheduling limitation";
const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";
const NO_CANDIDATE: &str = "no candidate node for preemption";
const WORKLOAD_AWARE: &str = "not eligible due to workload aware preemption enabled";

pub(crate) fn new(args: &PluginArgs, handle: &Handle) -> Result<Arc<dyn Plugin>, PluginError> {
    let args = checked_args!(DefaultPreemption, args)?;
    Ok(Arc::new(DefaultPreemption {
        search: Search {
            percentage: args.min_candidate_nodes_percentage.unwrap_or_default().into(),
            absolute: args.min_candidate_nodes_absolute.unwrap_or_default().into(),
        },
        places_groups: handle.is_enabled("TopologyAwareWorkloadScheduling"),
        preempts_for_groups: handle.is_enabled("WorkloadAwarePreemption"),
        is_in_background: handle.is_enabled("SchedulerAsyncPreemption"),
    }))
}

struct DefaultPreemption {
    search: Search,
    places_groups: bool,
    preempts_for_groups: bool,
    /// Whether victims are evicted after the attempt has ended.
    is_in_background: bool,
}

impl Plugin for DefaultPreemption {
    fn name(&self) -> &str {
        NAME
    }

    fn reads_objects(&self) -> Vec<EventResource> {
        vec![EventResource::Custom("poddisruptionbudgets.v1.policy".into())]
    }

    fn as_pod_group_post_filter(&self) -> Option<&dyn PodGroupPostFilter> {
        self.preempts_for_groups.then_some(self)
    }

    extension_points!(PreEnqueue, EnqueueExtensions, PostFilter);
}

impl PreEnqueue for DefaultPreemption {
    fn pre_enqueue(&self, cx: &Context<'_>, pod: &Pod) -> Status {
        if !self.is_in_background {
            return Status::SUCCESS;
        }
        if let Some(name) = pod.spec.pod_group.as_ref().filter(|_| self.preempts_for_groups) {
            let group = cx.cluster().pod_group_object(&pod.namespace, name);
            if group.is_ok_and(|group| cx.preemptions().is_preempting(&group.uid)) {
                return Status::unresolvable(GROUP_STILL_PREEMPTING);
            }
        } else if cx.preemptions().is_preempting(&pod.uid) {
            return Status::unresolvable(STILL_PREEMPTING);
        }
        Status::SUCCESS
    }
}

impl EnqueueExtensions for DefaultPreemption {
    /// The hints of this plugin never bring a pod back. But without the registration, a pod that it holds back would not be
    /// looked at again when a victim is deleted.
    fn events_to_register(&self) -> Vec<EventRegistration> {
        if !self.is_in_background {
            return Vec::new();
        }
        vec![EventRegistration::on_pod(ActionType::DELETE, |_, _, _, _| false)]
    }
}

impl PostFilter for DefaultPreemption {
    fn post_filter(
        &self,
        cx: &mut PostFilterContext<'_>,
        state: &CycleState,
        pod: &Arc<Pod>,
    ) -> PostFilterOutcome {
        cx.commands.count_preemption_attempt();
        let outcome = match self.group_limitation(cx, pod).or_else(|| ineligibility(cx, pod)) {
            Some(reason) => {
                let text = "Pod is not eligible for preemption";
                tracing::trace!(target: "V5", pod = pod.key(), reason, "{text}");
                PostFilterOutcome::without_nomination(Status::unschedulable(reason))
            }
            None => {
                let report = cx.report.take();
                self.preempt(cx, state, pod, report)
            }
        };
        let message = outcome.status.message();
        if message.is_empty() {
            return outcome;
        }
        let status = Status::new(outcome.status.code(), [format!("preemption: {message}").into()]);
        PostFilterOutcome { status, ..outcome }
    }
}

impl DefaultPreemption {
    /// Why a member of a pod group does not preempt by itself.
    fn group_limitation(&self, cx: &PostFilterContext<'_>, pod: &Pod) -> Option<&'static str> {
        let group = pod.spec.pod_group.as_ref()?;
        if self.places_groups {
            match cx.cx.cluster().pod_group_object(&pod.namespace, group) {
                Err(_) => return Some(NO_GROUP),
                Ok(group) if group.topology_keys.is_some() => return Some(PLACED_GROUP),
                Ok(_) => {}
            }
        }
        self.preempts_for_groups.then_some(WORKLOAD_AWARE)
    }

    fn preempt(
        &self,
        cx: &PostFilterContext<'_>,
        state: &CycleState,
        pod: &Arc<Pod>,
        report: Option<&mut PreemptionReport>,
    ) -> PostFilterOutcome {
        let found = match self.search.run(cx, state, pod, report) {
            Ok(found) => found,
            Err(status) => return PostFilterOutcome::without_nomination(status),
        };
        let cluster = cx.cx.cluster();
        if found.candidates.is_empty() {
            let text = "No preemption candidate is found; preemption is not helpful for scheduling";
            tracing::debug!(target: "V2", pod = pod.key(), "{text}");
            // The status of nodes that were not tried.
            let absent = Status::unresolvable(NOT_HELPFUL);
            let text = Status::fits_nowhere(cluster.n_nodes(), &found.rejections, &absent);
            return PostFilterOutcome {
                nominating: Some(NominatingInfo::Override(None)),
                ..PostFilterOutcome::without_nomination(Status::unschedulable(text))
            };
        }
        let mut candidates = found.candidates;
        if let Some(preempt) = cx.extenders {
            candidates = match preempt(candidates) {
                Ok(left) => left,
                Err(status) => return PostFilterOutcome::without_nomination(status),
            };
        }
        // The first of equals.
        let now = cx.cx.now();
        let chosen = candidates.into_iter().min_by_key(|candidate| harm(candidate, now));
        let chosen = chosen.and_then(|it| Some((cluster.node(it.node)?, it.victims)));
        let Some((node, victims)) = chosen else {
            return PostFilterOutcome::without_nomination(Status::unschedulable(NO_CANDIDATE));
        };
        tracing::debug!(
            target: "V2",
            node = &**node.name(),
            pod = pod.key(),
            "the target node for the preemption is determined"
        );
        PostFilterOutcome {
            nominating: Some(NominatingInfo::Override(Some(node.name().clone()))),
            victims,
            ..PostFilterOutcome::without_nomination(Status::SUCCESS)
        }
    }
}

/// Why the pod must not preempt now (`docs/spec/preemption.md` §3.1).
fn ineligibility(cx: &PostFilterContext<'_>, pod: &Pod) -> Option<&'static str> {
    if pod.spec.never_preempts {
        return Some(NEVER);
    }
    let cluster = cx.cx.cluster();
    let nominated = cluster.node_idx(pod.nominated_node_name()?)?;
    if cx.status(nominated).code() == Code::UnschedulableAndUnresolvable {
        return None;
    }
    let makes_room =
        |other: &Arc<Pod>| other.priority() < pod.priority() && is_being_preempted(other);
    cluster.pods_on(nominated).any(makes_room).then_some(TERMINATING)
}

/// Whether the pod is terminating because a scheduler preempted it. Only the first such condition counts.
fn is_being_preempted(pod: &Pod) -> bool {
    pod.deletion_requested.is_some()
        && pod
            .status
            .conditions
            .iter()
            .find(|condition| *condition.kind == *DISRUPTION_TARGET)
            .is_some_and(|condition| {
                *condition.status == *"True" && *condition.reason == *"PreemptionByScheduler"
            })
}
