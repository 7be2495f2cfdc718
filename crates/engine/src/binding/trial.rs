//! Placing a pod on trial: assume, Reserve and Permit, and then all of it is undone.
//!
//! Behaviour: `docs/spec/podgroups.md` §5.1.

use std::sync::Arc;

use kube_scheduler_framework::{Code, Command, Commands, CycleState, Reason, Status};
use kube_scheduler_queue::Nomination;

use super::permit::Waits;
use super::{Binding, Bindings, Placement};
use crate::core::Core;
use crate::policy::Entry;

/// What the reference adds when a plugin wants a pod to wait.
const ASKED_TO_WAIT: &str = "one or more plugins asked to wait and no plugin rejected pod";

/// A pod that is placed on trial. Must be [taken back](Trial::take_back).
#[derive(Debug)]
pub(crate) struct Trial {
    binding: Box<Binding>,
    /// The node that the pod was nominated to.
    nomination: Option<Arc<str>>,
    /// Whether Permit would let the pod be bound: success, or `Wait` with the reasons.
    pub(crate) permit: Status,
}

impl Bindings {
    /// Places a pod on trial. What plugins ask for that is not about objects is added to `later`. If a plugin objects,
    /// everything is as it was.
    pub(crate) fn try_out(
        &mut self,
        core: &mut Core,
        placement: Placement,
        later: &mut Commands,
    ) -> Result<Trial, Status> {
        let uid = placement.queued.entry().0.uid.clone();
        let nomination = core.queue().nomination(&uid).map(Arc::from);
        let mut binding = self.assume(core, placement).map_err(|(_, status)| status)?;
        let permitted = binding.reserve_and_permit(core, later);
        let mut trial = Trial { binding, nomination, permit: Status::SUCCESS };
        match permitted {
            Ok(waits) => {
                trial.permit = permit_status(&waits);
                Ok(trial)
            }
            Err(status) => {
                trial.take_back(core, later);
                Err(status)
            }
        }
    }
}

impl Trial {
    /// Undoes it; gives what plugins left for later extension points. What plugins want to write at the API server to undo
    /// more than a trial did is not written: the decision is still to come.
    pub(crate) fn take_back(mut self, core: &mut Core, later: &mut Commands) -> CycleState {
        let n_released = core.released.len();
        let undone = self.binding.unreserve(core).into_vec().into_iter();
        for command in undone.filter(|command| !matches!(command, Command::WriteObject { .. })) {
            later.push(command);
        }
        core.released.truncate(n_released);
        if let Err(error) = core.cluster.forget_pod_as(&self.binding.pod) {
            core.note(format!("ForgetPod failed: {error}"));
        }
        if let Some(node) = self.nomination {
            let entry: &Entry = self.binding.queued.entry();
            core.with_queue(|queue, policy| {
                queue.nominate(entry, Nomination::Override(&node), policy);
            });
        }
        self.binding.state
    }
}

fn permit_status(waits: &Waits) -> Status {
    if waits.is_empty() {
        return Status::SUCCESS;
    }
    let reasons = waits.iter().flat_map(|wait| wait.status.reasons().map(str::to_owned));
    let reasons = reasons.map(Reason::from).chain([Reason::from(ASKED_TO_WAIT)]);
    Status::new(Code::Wait, reasons)
}
