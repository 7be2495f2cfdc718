//! Waiting for devices that have to be made ready before the pod is bound (`docs/spec/plugins-dra.md` §10.2).
//!
//! Parity: the reference looks every five seconds. Here the claims are looked at whenever one of them changes, too; the
//! answers are the same, but sooner.

use std::time::Duration;

use kube_scheduler_devices::Readiness;
use kube_scheduler_devices::api::ResourceClaim;
use kube_scheduler_framework::api::{Object, Timestamp};
use kube_scheduler_framework::{EventKind, Status, TaskContext, TaskStep};

use super::metrics::Outcome;
use super::shared::PluginData;
use super::state::PodDevices;

const TICK: Duration = Duration::from_secs(5);

/// Claims whose devices are waited for.
pub(super) struct DeviceWait {
    started: Timestamp,
    timeout: Duration,
}

impl DeviceWait {
    /// `None` if no device has to be waited for. Otherwise an event on the pod says so.
    pub(super) fn new(shared: &PluginData, cx: &mut TaskContext<'_>) -> Option<Self> {
        let timeout = shared.settings.binding_timeout?;
        let devices = cx.state.get::<PodDevices>()?;
        devices.claims.iter().any(|claim| has_conditions(&claim.claim)).then_some(())?;
        let note = format!("waiting for binding conditions for device on node {}", cx.node);
        let reason = "BindingConditionsPending";
        cx.commands.record_event(cx.pod, EventKind::Normal, reason, "Scheduling", note);
        Some(Self { started: cx.cx.now(), timeout })
    }

    /// Looks at all claims.
    pub(super) fn check(&self, shared: &PluginData, cx: &TaskContext<'_>) -> TaskStep {
        let Some(devices) = cx.state.get::<PodDevices>() else {
            return TaskStep::Done(Status::SUCCESS);
        };
        let now = cx.cx.now();
        let deadline = self.started + self.timeout;
        let (outcome, result) = match self.look(shared, cx, devices) {
            Ok(true) => (Outcome::Success, Ok(())),
            Ok(false) if now < deadline => {
                let objects = devices.claims.iter().map(|claim| (&*claim.object).into()).collect();
                return TaskStep::Wait { until: Some(deadline.min(now + TICK)), objects };
            }
            Ok(false) => {
                let text = "device binding timeout: context deadline exceeded".to_owned();
                (Outcome::Timeout, Err(text))
            }
            Err((outcome, text)) => (outcome, Err(text)),
        };
        let claims = devices.claims.iter().map(|claim| &*claim.claim);
        shared.metrics.waited(claims, now.saturating_since(self.started), outcome);
        TaskStep::Done(result.map_or_else(Status::error, |()| Status::SUCCESS))
    }

    /// Whether all claims are ready.
    fn look(
        &self,
        shared: &PluginData,
        cx: &TaskContext<'_>,
        devices: &PodDevices,
    ) -> Result<bool, (Outcome, String)> {
        let cluster = cx.cx.cluster();
        for claim in &devices.claims {
            let Object { namespace, name, .. } = &*claim.object;
            let (_, claim) = shared
                .claim(cluster.objects(), namespace, name)
                .map_err(|text| (Outcome::Error, text))?;
            match claim.readiness() {
                Readiness::Ready => {}
                Readiness::Failed(text) => return Err((Outcome::Failure, text)),
                Readiness::NotReady if claim.is_binding_overdue(self.timeout, cx.cx.now()) => {
                    let text = format!("device binding timeout: claim={}", claim.name);
                    return Err((Outcome::Timeout, text));
                }
                Readiness::NotReady => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// Whether the claim has devices with binding conditions.
fn has_conditions(claim: &ResourceClaim) -> bool {
    let allocation = claim.status.allocation.as_ref();
    allocation.is_some_and(|allocation| {
        allocation.results.iter().any(|result| {
            result.binding_conditions.as_ref().is_some_and(|conditions| !conditions.is_empty())
        })
    })
}
