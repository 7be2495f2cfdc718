//! Placing a pod on trial: assume, Reserve and Permit, and then all of it is undone.
//!
//! A pod that is going to be bound where it was tried may stay on its node meanwhile, so that it is not taken out to be put in
//! again.
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

/// A pod that is placed on trial. Must be [taken back](Trial::take_back), or [unreserved](Trial::unreserve) and then be
/// [bound](Bindings::start_together) where it is, or [leave](Trial::leave).
#[derive(Debug)]
pub(crate) struct Trial {
    pub(super) binding: Box<Binding>,
    /// The node that the pod was nominated to.
    nomination: Option<Arc<str>>,
    /// Whether Reserve and Permit were asked, and Unreserve was not.
    is_asked: bool,
}

impl Bindings {
    /// Places a pod on trial, with what [Permit says](Trial::ask). What plugins ask for that is not about objects is added to
    /// `later`. If a plugin objects, everything is as it was.
    pub(crate) fn try_out(
        &mut self,
        core: &mut Core,
        placement: Placement,
        later: &mut Commands,
    ) -> Result<(Trial, Status), Status> {
        let mut trial = self.try_unasked(core, placement)?;
        match trial.ask(core, later) {
            Ok(permit) => Ok((trial, permit)),
            Err(status) => {
                trial.take_back(core, later);
                Err(status)
            }
        }
    }

    /// As [`try_out`](Self::try_out), but plugins are not asked.
    pub(crate) fn try_unasked(
        &mut self,
        core: &mut Core,
        placement: Placement,
    ) -> Result<Trial, Status> {
        let uid = &placement.queued.entry().0.uid;
        let nomination = core.queue().nomination(uid).map(Arc::from);
        let binding = self.assume(core, placement).map_err(|(_, status)| status)?;
        Ok(Trial { binding, nomination, is_asked: false })
    }
}

impl Trial {
    /// Asks Reserve, and Permit whether the pod may be bound: success, or `Wait` with the reasons.
    pub(crate) fn ask(&mut self, core: &mut Core, later: &mut Commands) -> Result<Status, Status> {
        self.is_asked = true;
        let waits = self.binding.reserve_and_permit(core, later)?;
        Ok(permit_status(&waits))
    }

    /// The name of the node.
    pub(crate) fn node_name(&self) -> &Arc<str> {
        &self.binding.node
    }

    /// How many nodes were looked at to find it, and how many of them fit.
    pub(crate) fn n_nodes(&self) -> (usize, usize) {
        (self.binding.n_evaluated, self.binding.n_feasible)
    }

    /// Whether plugins were asked about the pod that is on trial.
    pub(crate) const fn is_asked(&self) -> bool {
        self.is_asked
    }

    /// Undoes it; gives what plugins left for later extension points. What plugins want to write at the API server to undo
    /// more than a trial did is not written: the decision is still to come.
    pub(crate) fn take_back(mut self, core: &mut Core, later: &mut Commands) -> CycleState {
        self.unreserve(core, later);
        self.leave(core)
    }

    /// As [`take_back`](Self::take_back), but for the place on the node and the nomination that ended with it: the pod may stay
    /// there if neither plugin nor queue says anything of it before it is bound.
    pub(crate) fn unreserve(&mut self, core: &mut Core, later: &mut Commands) {
        if !std::mem::take(&mut self.is_asked) {
            return;
        }
        let n_released = core.released.len();
        let undone = self.binding.unreserve(core).into_vec().into_iter();
        later.extend(undone.filter(|command| !matches!(command, Command::WriteObject { .. })));
        core.released.truncate(n_released);
    }

    /// The pod that is unreserved leaves its node; gives what plugins left for later extension points.
    pub(crate) fn leave(self, core: &mut Core) -> CycleState {
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
