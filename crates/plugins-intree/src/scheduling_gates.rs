//! SchedulingGates: a pod with gates stays out of the active queue until the last gate is gone.
//!
//! Answers to `plugins/schedulinggates/scheduling_gates.go` of the reference; behaviour in `docs/spec/plugins-node.md` §4.1.

use std::sync::Arc;

use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::{
    ActionType, Context, EnqueueExtensions, EventRegistration, Handle, Plugin, PluginArgs,
    PluginError, PreEnqueue, Status,
};

pub(crate) const NAME: &str = "SchedulingGates";

pub(crate) fn new(_: &PluginArgs, _: &Handle) -> Result<Arc<dyn Plugin>, PluginError> {
    Ok(Arc::new(SchedulingGates))
}

struct SchedulingGates;

plugin!(SchedulingGates, PreEnqueue, EnqueueExtensions);

impl PreEnqueue for SchedulingGates {
    fn pre_enqueue(&self, _: &Context<'_>, pod: &Pod) -> Status {
        let gates = &pod.spec.scheduling_gates;
        if gates.is_empty() {
            return Status::SUCCESS;
        }
        Status::unresolvable(format!("waiting for scheduling gates: [{}]", gates.join(" ")))
    }
}

impl EnqueueExtensions for SchedulingGates {
    fn events_to_register(&self) -> Vec<EventRegistration> {
        // Removing some but not all gates is no such event, so the pod stays where it is.
        let eliminated = ActionType::UPDATE_POD_SCHEDULING_GATES_ELIMINATED;
        vec![EventRegistration::on_pod(eliminated, |_, pod, _, updated| {
            updated.is_some_and(|updated| updated.uid == pod.uid)
        })]
    }
}
