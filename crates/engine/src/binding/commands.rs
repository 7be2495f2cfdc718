//! Carrying out what plugins ask for.

use std::collections::VecDeque;

use kube_scheduler_framework::{Command, Commands};

use super::Bindings;
use super::expect::{expect_object, note_unanswered, write_object};
use crate::core::truncated;
use crate::core::{Core, PodEvent};

/// Memory for so many requests is kept.
const N_KEPT: usize = 64;

/// What plugins asked for and is not carried out yet, first come, first served.
#[derive(Debug, Default)]
pub(super) struct Requests {
    pending: VecDeque<Command>,
    is_busy: bool,
}

impl Bindings {
    /// Does what plugins asked for. What this makes plugins ask for in turn comes after it, not inside of it: a plugin that
    /// rejects a thousand pods because one failed must not need a thousand frames of the stack.
    pub(crate) fn carry_out(&mut self, core: &mut Core, commands: Commands) {
        if commands.is_empty() {
            return;
        }
        self.requests.pending.extend(commands.into_vec());
        if std::mem::replace(&mut self.requests.is_busy, true) {
            return;
        }
        while let Some(command) = self.requests.pending.pop_front() {
            self.carry_out_one(core, command);
        }
        self.requests.is_busy = false;
        self.requests.pending.shrink_to(N_KEPT);
    }

    fn carry_out_one(&mut self, core: &mut Core, command: Command) {
        let Some(command) = expect_object(core, command) else { return };
        match command {
            Command::Allow { uid, plugin } => self.allow(core, &uid, &plugin),
            Command::Reject { uid, plugin, message } => {
                self.reject(core, &uid, &plugin, message.into());
            }
            Command::WriteObject { pod, write } => {
                note_unanswered(core, &pod, &write);
                write_object(core, &pod, write, None);
            }
            Command::Activate(pods) => core.activate(pods),
            Command::ActivateGroup { namespace, name, except } => {
                core.activate_group((namespace, name), &except);
            }
            Command::RecordEvent { pod, kind, reason, action, note } => {
                let event = PodEvent {
                    kind,
                    reason: reason.to_string().into(),
                    action: action.to_string().into(),
                    note: truncated(&note),
                    reporting: pod.spec.scheduler_name.clone(),
                    related: None,
                };
                core.record(&pod, event);
            }
            Command::CountPreemptionAttempts(n) => core.counts.preemptions.n_attempts += n,
            other => core.note(format!("command not understood: {other:?}")),
        }
    }
}
