//! Whether allocated devices are ready for a pod (`docs/spec/plugins-dra.md` §10.1).

use std::time::Duration;

use kube_scheduler_api_types::Timestamp;

use crate::api::{AllocatedDeviceStatus, DeviceResult, ResourceClaim};

/// Whether a pod that uses a claim may be bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// All binding conditions of the devices are true.
    Ready,
    /// Some binding conditions are not true yet.
    NotReady,
    /// A device cannot be made ready; the reason in the reference's words.
    Failed(String),
}

impl ResourceClaim {
    /// Whether the devices of the claim are ready. A claim without devices that have binding conditions is.
    pub fn readiness(&self) -> Readiness {
        let Some(allocation) = &self.status.allocation else { return Readiness::NotReady };
        for result in &allocation.results {
            match self.device_readiness(result) {
                Readiness::Ready => {}
                other => return other,
            }
        }
        Readiness::Ready
    }

    fn device_readiness(&self, result: &DeviceResult) -> Readiness {
        let Some(wanted) = result.binding_conditions.as_ref().filter(|all| !all.is_empty()) else {
            return Readiness::Ready;
        };
        let is_this = |status: &&AllocatedDeviceStatus| {
            status.driver == result.driver
                && status.pool == result.pool
                && status.device == result.device
        };
        let Some(status) = self.status.devices.iter().find(is_this) else {
            return Readiness::NotReady;
        };
        let find = |name: &str| {
            let mut true_ones = status.conditions.iter().filter(|c| &*c.status == "True");
            true_ones.find(|condition| *condition.condition_type == *name)
        };
        // Failures first: one of them counts even if all binding conditions are true.
        let failures = result.binding_failure_conditions.as_deref().unwrap_or_default();
        if let Some(failure) = failures.iter().find_map(|name| find(name)) {
            return Readiness::Failed(format!(
                "device binding failed: claim={}, reason={}, message={:?}",
                self.name, failure.reason, failure.message
            ));
        }
        if wanted.iter().all(|name| find(name).is_some()) {
            Readiness::Ready
        } else {
            Readiness::NotReady
        }
    }

    /// Whether waiting for the devices has taken longer than `timeout` since they were allocated. Never for devices
    /// without binding conditions, or if it is unknown when they were allocated.
    pub fn is_binding_overdue(&self, timeout: Duration, now: Timestamp) -> bool {
        let Some(allocation) = &self.status.allocation else { return false };
        allocation.results.iter().any(|result| result.binding_conditions.is_some())
            && allocation.allocated_at.is_some_and(|at| at + timeout < now)
    }
}
