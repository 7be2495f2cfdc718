//! Placing a pod on trial: assume, Reserve and Permit, and then all of it is undone.
//!
//! A pod that is going to be bound where it was tried may stay on its node meanwhile ([`Trial::keep`]): it is unreserved, and
//! its group does not count it, but the cluster does, so that it is not taken out to be put in again.
//!
//! Behaviour: `docs/spec/podgroups.md` §5.1.

use std::sync::Arc;

use kube_scheduler_framework::{Code, Command, Commands, CycleState, Reason, Status};
use kube_scheduler_queue::Nomination;

use super::permit::Waits;
use super::{Binding, Bindings, Placement};
use crate::core::Core;
use crate::policy::Entry;
use crate::turn::AttemptResult;

/// What the reference adds when a plugin wants a pod to wait.
const ASKED_TO_WAIT: &str = "one or more plugins asked to wait and no plugin rejected pod";

/// A pod that is placed on trial. Must be [taken back](Trial::take_back) or [kept](Trial::keep).
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
        self.unreserve(core, later);
        self.leave(core)
    }

    /// As [`take_back`](Self::take_back), but for the place on the node and the nomination that ended with it. It is for pods
    /// of which neither plugin nor queue says anything before they are bound there.
    pub(crate) fn keep(mut self, core: &mut Core, later: &mut Commands) -> KeptTrial {
        self.unreserve(core, later);
        core.cluster.group_member_assumed(&self.binding.pod, false);
        KeptTrial(self)
    }

    fn unreserve(&mut self, core: &mut Core, later: &mut Commands) {
        let n_released = core.released.len();
        let undone = self.binding.unreserve(core).into_vec().into_iter();
        for command in undone.filter(|command| !matches!(command, Command::WriteObject { .. })) {
            later.push(command);
        }
        core.released.truncate(n_released);
    }

    fn leave(self, core: &mut Core) -> CycleState {
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

/// A pod that is on its node after its trial. Must be [bound](Bindings::start_kept) there, or [leave](KeptTrial::leave).
#[derive(Debug)]
pub(crate) struct KeptTrial(Trial);

impl KeptTrial {
    /// Takes the pod off its node after all; gives what plugins left for later extension points.
    pub(crate) fn leave(self, core: &mut Core) -> CycleState {
        self.0.leave(core)
    }
}

impl Bindings {
    /// As [`start`](Self::start) for a pod that has stayed on its node.
    pub(crate) fn start_kept(&mut self, core: &mut Core, kept: KeptTrial) -> AttemptResult {
        let KeptTrial(Trial { mut binding, .. }) = kept;
        core.cluster.group_member_assumed(&binding.pod, true);
        // It may have been given back since.
        Self::end_nomination(core, &binding.pod.uid);
        binding.serial = self.table.next_serial();
        self.set_off(core, binding)
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
