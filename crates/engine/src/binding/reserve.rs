//! The plugins that are asked while the pod is being assumed: Reserve, Permit, and Unreserve on the way back.
//!
//! Behaviour: `docs/spec/core.md` §5 and §6.

use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::{NodeResourceClaim, Pod};
use kube_scheduler_framework::{Code, Commands, CycleState, NodeIdx, PermitDecision, Status};
use kube_scheduler_queue::ProfileId;
use kube_scheduler_runtime::{MeteredPoint, Profile};
use smallvec::SmallVec;

use super::Binding;
use super::expect::expect_at_once;
use super::permit::{Wait, Waits};
use super::steps::plugin_result;
use crate::core::Core;
use crate::guard::guarded;

/// The longest a pod may wait on Permit; longer requests are cut to it.
const MAX_PERMIT_WAIT: Duration = Duration::from_secs(15 * 60);

/// What the pod's claims take of the resources of the node chosen for it, if a plugin knows. A plugin that panics knows
/// nothing.
pub(super) fn node_resource_claims(
    core: &Core,
    profile: ProfileId,
    state: &CycleState,
    pod: &Pod,
    node: NodeIdx,
) -> Option<Arc<[NodeResourceClaim]>> {
    let mut plugins = core.plans.profiles[profile].reserve();
    plugins.find_map(|(_, _, plugin)| {
        guarded(|| plugin.node_resource_claims(state, pod, node)).unwrap_or_default()
    })
}

impl Binding {
    /// Asks Reserve and Permit; gives the waits of Permit, if it is not through at once.
    pub(super) fn reserve_and_permit(
        &mut self,
        core: &mut Core,
        commands: &mut Commands,
    ) -> Result<Waits, Status> {
        let plans = core.plans.clone();
        let profile = &plans.profiles[self.profile];
        let start = profile.point_start();
        let reserved = self.reserve(core, profile, commands);
        let code = reserved.as_ref().err().map_or(Code::Success, Status::code);
        let start = profile.point_ended(MeteredPoint::Reserve, code, start);
        reserved?;
        let permitted = self.permit(core, commands);
        let code = match &permitted {
            Ok(waits) if waits.is_empty() => Code::Success,
            Ok(_) => Code::Wait,
            Err(status) => status.code(),
        };
        self.point_start = profile.point_ended(MeteredPoint::Permit, code, start);
        permitted
    }

    /// Reserve, plugin by plugin. Each sees what those before it asked for about objects.
    fn reserve(
        &mut self,
        core: &mut Core,
        profile: &Profile,
        commands: &mut Commands,
    ) -> Result<(), Status> {
        for (idx, name, plugin) in profile.reserve() {
            let start = profile.plugin_start();
            let mut asked = Commands::default();
            let Self { state, pod, node, .. } = self;
            let cx = core.context();
            let answer = guarded(|| plugin.reserve(&cx, state, pod, node, &mut asked));
            // Carrying out only a part of what a failed plugin asked for may be worse than carrying out nothing.
            let status = answer.unwrap_or_else(|panic| {
                asked = Commands::default();
                panic
            });
            profile.plugin_ended(idx, MeteredPoint::Reserve, status.code(), start);
            expect_at_once(core, asked, commands);
            plugin_result(status, "Reserve", name)?;
        }
        Ok(())
    }

    /// Permit, plugin by plugin.
    fn permit(&mut self, core: &Core, commands: &mut Commands) -> Result<Waits, Status> {
        let Self { profile, state, pod, node, .. } = self;
        let profile = &core.plans.profiles[*profile];
        let cx = core.context();
        let mut waits = SmallVec::new();
        for (idx, name, plugin) in profile.permit_about(pod) {
            let start = profile.plugin_start();
            let decision = guarded(|| plugin.permit(&cx, state, pod, node, commands))
                .unwrap_or_else(PermitDecision::deny);
            profile.plugin_ended(idx, MeteredPoint::Permit, decision.status.code(), start);
            match decision.status.code() {
                Code::Wait => {
                    let timeout = decision.timeout.min(MAX_PERMIT_WAIT);
                    let deadline = core.now + timeout;
                    let (plugin, status) = (name.clone(), decision.status);
                    waits.push(Wait { plugin, deadline, timeout, status });
                }
                _ => plugin_result(decision.status, "Permit", name)?,
            }
        }
        Ok(waits)
    }

    /// Unreserve in reverse order; gives what plugins asked for beyond objects.
    pub(super) fn unreserve(&mut self, core: &mut Core) -> Commands {
        let mut later = Commands::default();
        let plans = core.plans.clone();
        let profile = &plans.profiles[self.profile];
        let start = profile.point_start();
        let plugins: Vec<_> = profile.reserve().collect();
        for (_, name, plugin) in plugins.into_iter().rev() {
            let mut asked = Commands::default();
            let Self { state, pod, node, .. } = self;
            let cx = core.context();
            if let Err(status) = guarded(|| plugin.unreserve(&cx, state, pod, node, &mut asked)) {
                core.note(format!("Unreserve of {name}: {}", status.message()));
            }
            expect_at_once(core, asked, &mut later);
        }
        profile.point_ended(MeteredPoint::Unreserve, Code::Success, start);
        later
    }
}
