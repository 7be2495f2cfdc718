//! DynamicResources: pods get the devices that their resource claims ask for.
//!
//! Answers to `plugins/dynamicresources` of the reference; behaviour in `docs/spec/plugins-dra.md`. Which devices a claim
//! gets on a node is found by `kube-scheduler-devices`; here is what goes before and after it: which claims a pod has,
//! what other pods hold, and the writes.

mod answers;
mod attempt;
mod bind;
mod binding;
mod choosing;
mod consumers;
mod counting;
mod decoded;
mod extended;
mod following;
mod group;
mod hints;
mod in_flight;
mod inventory;
mod kinds;
mod members;
mod metrics;
mod node;
mod node_resources;
mod pod_tries;
mod reading;
mod release;
mod reserve;
mod resolve;
mod scan;
mod settings;
mod shared;
mod shortages;
mod state;
#[cfg(test)]
mod tests;
pub(crate) mod totals;
mod unclear;
mod usage;
mod waiting;
mod writes;

use std::sync::Arc;

use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::following::PreFilterFollower;
use kube_scheduler_framework::groups::{GroupDemand, PlacementBound, PlannedMember};
use kube_scheduler_framework::{
    Completion, Context, CycleState, Handle, NodeView, Normalization, Plugin, PluginArgs,
    PluginError, PostFilter, PostFilterContext, PostFilterOutcome, PreBind, PreBindFlight,
    PreEnqueue, PreFilter, PreFilterOutcome, Score, Sign, SignatureWriter, Status,
    extension_points,
};

use self::attempt::Preparation;
use self::bind::BindClaims;
use self::inventory::Devices;
use self::metrics::Metrics;
use self::node::Trials;
use self::settings::Settings;
use self::shared::PluginData;
use self::state::PodDevices;
use crate::signature::write;

pub(crate) const NAME: &str = "DynamicResources";

const NO_CLAIMS: &str = "no new claims to deallocate";
const NO_STATE: &str = "not found";

pub(crate) fn new(args: &PluginArgs, handle: &Handle) -> Result<Arc<dyn Plugin>, PluginError> {
    let settings = Settings::new(args, handle)?;
    let devices = Devices::new(settings.inventory);
    let shared = PluginData { settings, devices, metrics: Metrics::new(handle) };
    Ok(Arc::new(DynamicResources {
        shared: Arc::new(shared),
        no_claims: Status::unschedulable(NO_CLAIMS).from_plugin(&NAME.into()),
    }))
}

struct DynamicResources {
    shared: Arc<PluginData>,
    no_claims: Status,
}

impl DynamicResources {
    /// Whether a pod may have something to do with devices. Errs on the side of yes, without looking at any object.
    fn may_concern(&self, pod: &Pod) -> bool {
        !pod.spec.resource_claims.is_empty() || self.shared.may_need_special_claim(pod)
    }

    fn sign_requests(&self, pod: &Pod, signature: &mut SignatureWriter) {
        write(&pod.requests.fit, signature);
        // It is looked up for every member.
        let group = self.shared.group_of(pod);
        write(group.map(|group| (&pod.namespace, group)), signature);
    }
}

fn no_state() -> Status {
    Status::error(NO_STATE)
}

impl Plugin for DynamicResources {
    fn name(&self) -> &str {
        NAME
    }

    fn kept_bytes(&self) -> usize {
        self.shared.devices.kept_bytes()
    }

    extension_points!(
        PreEnqueue,
        PreFilter,
        Filter,
        PostFilter,
        Score,
        Reserve,
        PreBind,
        PlacementBound,
        EnqueueExtensions,
        ObjectReader,
        Sign
    );
}

impl PreEnqueue for DynamicResources {
    fn pre_enqueue(&self, cx: &Context<'_>, pod: &Pod) -> Status {
        if pod.spec.resource_claims.is_empty() {
            return Status::SUCCESS;
        }
        self.shared.devices.follow(cx.cluster().objects());
        match self.shared.claims_of(cx.cluster().objects(), pod) {
            Ok(_) => Status::SUCCESS,
            Err(why) => Status::unresolvable(why),
        }
    }
}

impl PreFilter for DynamicResources {
    fn pre_filter(&self, cx: &Context<'_>, state: &mut CycleState, pod: &Pod) -> PreFilterOutcome {
        // Parity: what is stored when the pod is rejected has no claims.
        state.insert(PodDevices::default());
        // Where no class serves what the pod asks for, its evaluation depends on no objects but its group.
        let has_claims = !pod.spec.resource_claims.is_empty();
        if !self.may_concern(pod) || !has_claims && !extended::is_served(cx.cluster(), pod) {
            let group = self.shared.group_of(pod);
            return match group.map(|name| group::find(cx.cluster(), pod, name)) {
                Some(Err(why)) => Status::unresolvable(why).into(),
                _ => PreFilterOutcome::skip(),
            };
        }
        match (Preparation { shared: &self.shared, cx, state, pod }).prepare() {
            Err(status) => status.into(),
            Ok(devices) if devices.claims.is_empty() => PreFilterOutcome::skip(),
            Ok(mut devices) => {
                // What is found depends on what other pods hold, and on the time: unless it is followed, it holds for this
                // attempt alone.
                let _ = cx.now();
                // Members of a group use what their group has reserved in the same cycle.
                let is_member = pod.spec.pod_group.is_some();
                devices.followed = if is_member { None } else { self.answers_of(cx, &devices) };
                state.insert(devices);
                PreFilterOutcome::success()
            }
        }
    }

    fn follower(&self) -> Option<&dyn PreFilterFollower> {
        Some(self)
    }
}

impl PostFilter for DynamicResources {
    fn post_filter(
        &self,
        cx: &mut PostFilterContext<'_>,
        state: &CycleState,
        pod: &Arc<Pod>,
    ) -> PostFilterOutcome {
        // Parity: when another plugin's PreFilter ended the attempt, this one's never ran, and the reference's search
        // for its own state fails.
        let status = match state.get::<PodDevices>() {
            Some(devices) if devices.claims.is_empty() => self.no_claims.clone(),
            Some(devices) => release::deallocate(&self.shared, devices, pod, cx),
            None => no_state(),
        };
        PostFilterOutcome::without_nomination(status)
    }
}

impl Score for DynamicResources {
    fn score(
        &self,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &Pod,
        node: &NodeView<'_>,
    ) -> Result<i64, Status> {
        match state.get::<PodDevices>() {
            Some(devices) if !self.is_indifferent(state, pod) => {
                Ok(Trials { shared: &self.shared, cx, devices, pod }.score(node))
            }
            _ => Ok(0),
        }
    }

    fn is_indifferent(&self, state: &CycleState, _: &Pod) -> bool {
        let has_choice = state.get::<PodDevices>().is_some_and(PodDevices::has_alternatives);
        !has_choice || !self.shared.settings.inventory.features.prioritized_list
    }

    fn normalization(&self) -> Normalization {
        Normalization::Proportional
    }
}

impl PreBind for DynamicResources {
    fn pre_bind_pre_flight(
        &self,
        _: &Context<'_>,
        state: &CycleState,
        _: &Arc<Pod>,
        _: &str,
    ) -> PreBindFlight {
        let status = match state.get::<PodDevices>() {
            Some(devices) if !devices.claims.is_empty() => Status::SUCCESS,
            _ => Status::skip(),
        };
        PreBindFlight { status, may_run_in_parallel: true }
    }

    fn pre_bind(&self, _: &Context<'_>, _: &mut CycleState, pod: &Arc<Pod>, _: &str) -> Completion {
        // Without the look ahead (a gate), all pods come here.
        if !self.may_concern(pod) {
            return Completion::Ready(Status::SUCCESS);
        }
        Completion::Task(Box::new(BindClaims::new(self.shared.clone())))
    }

    fn reads_cycle_state(&self, pod: &Pod) -> bool {
        self.may_concern(pod)
    }
}

impl PlacementBound for DynamicResources {
    fn rules_out(&self, cx: &Context<'_>, demand: GroupDemand<'_>) -> Option<String> {
        // That there are too few members to be placed has nothing to do with claims.
        if demand.needed > demand.members.len() {
            return None;
        }
        let crowded = consumers::rules_out(&self.shared, cx, demand);
        crowded.or_else(|| counting::rules_out(&self.shared, cx, demand))
    }
}

impl Sign for DynamicResources {
    fn sign(&self, pod: &Pod, signature: &mut SignatureWriter) -> bool {
        self.sign_requests(pod, signature);
        !self.may_concern(pod) || following::sign(pod, signature)
    }

    fn sign_member(
        &self,
        cx: &Context<'_>,
        member: PlannedMember<'_>,
        signature: &mut SignatureWriter,
    ) -> bool {
        self.sign_requests(member.pod, signature);
        !self.may_concern(member.pod) || members::sign(&self.shared, cx, member, signature)
    }
}
