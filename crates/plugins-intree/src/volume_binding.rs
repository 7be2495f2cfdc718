//! VolumeBinding: nodes where a pod's claims are, or can be, bound to volumes, and the binding itself.
//!
//! Answers to `plugins/volumebinding` of the reference; behaviour in `docs/spec/plugins-storage.md` §2.2 to §2.5 and §3.
//!
//! Filter stores nothing: the state of the cluster does not change within an attempt, so Reserve repeats the search for the
//! chosen node and finds the same.

mod affinity;
mod bind;
mod check;
mod claims;
mod delayed;
mod find;
mod hints;
mod log;
mod matching;
mod provisioning;
mod reach;
mod reservation;
mod score;
mod state;
mod volume_form;

use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_config::{FeatureGates, Gate};
use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::{
    Code, Commands, Completion, Context, CycleState, FeasibleNodes, Filter, FilterSink, Handle,
    NodeIdx, NodeView, Plugin, PluginArgs, PluginError, PreBind, PreBindFlight, PreFilter,
    PreFilterOutcome, PreScore, Reserve, Score, Sign, SignatureWriter, Status,
};
use tracing::{debug, trace};

use self::bind::BindVolumes;
use self::claims::{PodClaims, all_bound};
use self::log::SearchLog;
use self::reservation::Reservation;
use self::state::PodVolumes;
use crate::plugin_args::checked_args;
use crate::resources::shape::Shape;
use crate::volumes::{has_claims, write_volumes};

pub(crate) const NAME: &str = "VolumeBinding";

const NO_STATE: &str = "not found";

pub(crate) fn new(args: &PluginArgs, handle: &Handle) -> Result<Arc<dyn Plugin>, PluginError> {
    // Which arguments there are depends on whether capacity is scored.
    let scores_capacity = handle.is_enabled("StorageCapacityScoring");
    let gates = FeatureGates::default().with(Gate::StorageCapacityScoring, scores_capacity);
    let args = checked_args!(VolumeBinding, args, &gates)?;
    let timeout = u64::try_from(args.bind_timeout_seconds.unwrap_or_default());
    Ok(Arc::new(VolumeBinding {
        timeout: Duration::from_secs(timeout.unwrap_or_default()),
        shape: scores_capacity.then(|| Shape::configured(&args.shape.unwrap_or_default())),
    }))
}

struct VolumeBinding {
    /// How long to wait for bindings.
    timeout: Duration,
    /// How use of capacity becomes a score; `None` when it is not scored.
    shape: Option<Shape>,
}

fn no_state() -> Status {
    Status::error(NO_STATE)
}

plugin!(
    VolumeBinding,
    PreFilter,
    Filter,
    PreScore,
    Score,
    Reserve,
    PreBind,
    EnqueueExtensions,
    Sign
);

impl PreFilter for VolumeBinding {
    fn pre_filter(&self, cx: &Context<'_>, state: &mut CycleState, pod: &Pod) -> PreFilterOutcome {
        if !has_claims(pod) {
            state.insert(PodVolumes::default());
            return PreFilterOutcome::skip();
        }
        match PodClaims::new(cx.cluster(), pod) {
            Ok(claims) => {
                state.insert(PodVolumes::new(claims));
                PreFilterOutcome::success()
            }
            Err(status) => status.into(),
        }
    }
}

impl Filter for VolumeBinding {
    fn filter(
        &self,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &Pod,
        node: &NodeView<'_>,
    ) -> Status {
        let Some(volumes) = state.get::<PodVolumes>() else { return no_state() };
        let log = SearchLog::start(pod, node.name());
        match volumes.claims.find(cx.cluster(), node, log) {
            Err(error) => Status::error(error),
            Ok(found) if found.obstacles.is_empty() => Status::SUCCESS,
            Ok(mut found) => {
                found.obstacles.sort_unstable();
                let reasons = found.obstacles.iter().map(|obstacle| obstacle.as_str().into());
                Status::new(Code::UnschedulableAndUnresolvable, reasons)
            }
        }
    }

    fn filter_all(
        &self,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &Pod,
        nodes: &[NodeIdx],
        sink: &mut FilterSink<'_>,
    ) -> Result<(), Status> {
        if state.get::<PodVolumes>().is_some_and(|volumes| volumes.claims.are_everywhere()) {
            return Ok(());
        }
        sink.reject_each(cx, nodes, |cx, node| self.filter(cx, state, pod, node))
    }
}

impl PreScore for VolumeBinding {
    fn pre_score(
        &self,
        _: &Context<'_>,
        state: &mut CycleState,
        _: &Pod,
        _: &FeasibleNodes<'_>,
    ) -> Status {
        if self.shape.is_none() {
            Status::skip()
        } else if state.get::<PodVolumes>().is_none() {
            no_state()
        } else {
            Status::SUCCESS
        }
    }
}

impl Score for VolumeBinding {
    fn score(
        &self,
        cx: &Context<'_>,
        state: &CycleState,
        _: &Pod,
        node: &NodeView<'_>,
    ) -> Result<i64, Status> {
        let Some(shape) = &self.shape else { return Ok(0) };
        let volumes = state.get::<PodVolumes>().ok_or_else(no_state)?;
        // A node that Filter has not accepted has no volumes to score.
        let found = volumes.claims.served(cx.cluster(), node);
        Ok(found.map_or(0, |found| score::score(&found, shape)))
    }
}

impl Reserve for VolumeBinding {
    fn reserve(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &Arc<Pod>,
        node: &str,
        commands: &mut Commands,
    ) -> Status {
        if !has_claims(pod) {
            return Status::SUCCESS;
        }
        let Some(volumes) = state.get_mut::<PodVolumes>() else { return no_state() };
        debug!(target: "V4", pod = pod.key(), node, "AssumePodVolumes");
        let claims = volumes.claims.clone();
        let on = cx.cluster().node_idx(node).and_then(|idx| cx.cluster().node(idx));
        let found = on.and_then(|on| claims.served(cx.cluster(), &on));
        // Where Filter has found nothing, there is nothing to bind.
        let Some(found) = found.filter(|_| !all_bound(cx.cluster(), pod)) else {
            let text = "AssumePodVolumes: all PVCs bound and nothing to do";
            debug!(target: "V4", pod = pod.key(), node, "{text}");
            volumes.is_all_bound = true;
            return Status::SUCCESS;
        };
        match Reservation::new(cx.cluster().objects(), &found, node, commands) {
            Ok(reservation) => {
                volumes.reserve(node, reservation);
                Status::SUCCESS
            }
            Err(error) => Status::error(error),
        }
    }

    fn unreserve(
        &self,
        _: &Context<'_>,
        state: &mut CycleState,
        _: &Arc<Pod>,
        node: &str,
        commands: &mut Commands,
    ) {
        let reservation = state.get::<PodVolumes>().and_then(|volumes| volumes.reserved_on(node));
        if let Some(reservation) = reservation {
            reservation.give_back(0, commands);
        }
    }

    fn reads_cycle_state(&self, pod: &Pod) -> bool {
        has_claims(pod)
    }

    fn is_idle_for(&self, pod: &Pod) -> bool {
        !has_claims(pod)
    }

    fn chooses_for(&self, _: &Context<'_>, pod: &Pod) -> bool {
        has_claims(pod)
    }
}

impl PreBind for VolumeBinding {
    fn pre_bind_pre_flight(
        &self,
        _: &Context<'_>,
        state: &CycleState,
        pod: &Arc<Pod>,
        node: &str,
    ) -> PreBindFlight {
        let status = reserved(state, pod, node).err().unwrap_or_default();
        PreBindFlight { status, may_run_in_parallel: true }
    }

    fn pre_bind(
        &self,
        _: &Context<'_>,
        state: &mut CycleState,
        pod: &Arc<Pod>,
        node: &str,
    ) -> Completion {
        match reserved(state, pod, node) {
            Ok(reservation) => {
                trace!(target: "V5", pod = pod.key(), "Trying to bind volumes for pod");
                debug!(target: "V4", pod = pod.key(), node, "BindPodVolumes");
                Completion::Task(Box::new(BindVolumes::new(self.timeout, reservation)))
            }
            Err(status) if status.is_skip() => Completion::Ready(Status::SUCCESS),
            Err(status) => Completion::Ready(status),
        }
    }

    fn reads_cycle_state(&self, pod: &Pod) -> bool {
        has_claims(pod)
    }
}

/// What Reserve has left to be bound on the node; a skip if that is nothing.
fn reserved<'s>(state: &'s CycleState, pod: &Pod, node: &str) -> Result<&'s Reservation, Status> {
    if !has_claims(pod) {
        return Err(Status::skip());
    }
    let volumes = state.get::<PodVolumes>().ok_or_else(no_state)?;
    if volumes.is_all_bound {
        return Err(Status::skip());
    }
    let reservation = volumes.reserved_on(node);
    reservation.ok_or_else(|| Status::error(format!("no pod volume found for node \"{node}\"")))
}

impl Sign for VolumeBinding {
    fn sign(&self, pod: &Pod, signature: &mut SignatureWriter) -> bool {
        write_volumes(pod, signature)
    }
}
