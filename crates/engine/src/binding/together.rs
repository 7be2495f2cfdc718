//! The members of a gang that stayed on their nodes after their trial set off together.
//!
//! Permit has [promised](kube_scheduler_framework::Permit::members_needed) to go by the number of members that are placed, and to
//! let none be bound before all of these are; Reserve and PreBind have
//! [nothing to do](kube_scheduler_framework::Reserve::is_idle_for) for them. So one member is asked about, when all are there. The
//! others would have waited until then, which takes no time.
//!
//! Invariant: what comes out is what setting off one after the other gives: members that wait for others are let through when the
//! last one is, in the order of UIDs.

use kube_scheduler_framework::{Code, Commands};

use super::{Binding, Bindings, Trial};
use crate::core::Core;
use crate::effect::PodRef;
use crate::notice::Notice;
use crate::turn::AttemptResult;

impl Bindings {
    /// Asks about the last of the members, all of which are on their nodes and counted in their group; gives what plugins want done.
    /// `None` if a plugin does not keep to what it has promised, so that each has to be asked about.
    pub(crate) fn ask_together(
        &self,
        core: &mut Core,
        members: &mut [&mut Trial],
    ) -> Option<Commands> {
        let mut commands = Commands::default();
        let permitted = members.last_mut()?.binding.reserve_and_permit(core, &mut commands);
        let is_through = permitted.is_ok_and(|waits| waits.is_empty());
        // Plugins look ahead at PreBind where it is announced, before a pod can be seen waiting.
        let mut is_idle = |member: &mut &mut Trial| {
            !self.announces || member.binding.pre_flight(core) == Ok(false)
        };
        (is_through && members.iter_mut().all(&mut is_idle)).then_some(commands)
    }

    /// Starts the bindings of members that were [asked about](Self::ask_together), and carries out what plugins want done; says how
    /// it ended for each.
    pub(crate) fn start_together(
        &mut self,
        core: &mut Core,
        members: impl Iterator<Item = Trial>,
        commands: Commands,
    ) -> Vec<(PodRef, AttemptResult)> {
        let mut bindings: Vec<Box<Binding>> = members.map(|trial| trial.binding).collect();
        for binding in &mut bindings {
            // It may have been given back since the trial.
            Self::end_nomination(core, &binding.pod.uid);
            binding.serial = self.table.next_serial();
        }
        let started = bindings.iter().map(|binding| {
            (PodRef::from(&*binding.pod), AttemptResult::Assumed(binding.node.clone()))
        });
        let started = started.collect();
        let Some(last) = bindings.pop() else { return started };
        for binding in &bindings {
            if self.announces {
                binding.announce(core);
            }
            core.notices.add(4, || Notice::WaitsOnPermit(PodRef::from(&*binding.pod)));
        }
        bindings.sort_unstable_by(|a, b| a.pod.uid.cmp(&b.pod.uid));
        for binding in bindings {
            core.measures.waited(Code::Success, core.now.saturating_since(binding.started));
            self.after_permit(core, binding);
        }
        if let Some(last) = self.carry_out_beside(core, last, commands) {
            self.after_permit(core, last);
        }
        started
    }
}
