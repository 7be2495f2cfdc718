//! What is counted about claims (`docs/spec/plugins-dra.md` §17).
//!
//! A family is shown from its first observation on, as in the reference.

use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_devices::api::ResourceClaim;
use kube_scheduler_framework::api::named_enum;
use kube_scheduler_framework::{Handle, PluginMetrics};

const CREATED: &str = "scheduler_resourceclaim_creates_total";
const CREATED_HELP: &str = "[ALPHA] ResourceClaims created for extended resources, by status.";
const ALLOCATIONS: &str = "scheduler_dra_bindingconditions_allocations_total";
const ALLOCATIONS_HELP: &str =
    "[ALPHA] Allocated devices with binding conditions, by how waiting for them ended.";
const WAITS: &str = "scheduler_dra_bindingconditions_wait_duration_seconds";
const WAITS_HELP: &str = "[ALPHA] How long binding conditions of devices were waited for.";
const LABELS: [&str; 3] = ["profile", "driver", "status"];
const N_BUCKETS: u32 = 14;

named_enum! {
    /// How waiting for binding conditions ended.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Outcome {
        Success = "success",
        Timeout = "timeout",
        Failure = "failure",
        Error = "error",
    }
}

/// The metrics of one profile.
pub(super) struct Metrics {
    profile: Arc<str>,
    metrics: PluginMetrics,
}

impl Metrics {
    pub(super) fn new(handle: &Handle) -> Self {
        Self { profile: handle.scheduler_name.clone(), metrics: handle.metrics().clone() }
    }

    /// A claim for extended resources was created, or was not.
    pub(super) fn claim_created(&self, is_success: bool) {
        if let Ok(family) = self.metrics.counter(CREATED, CREATED_HELP, &["status"]) {
            family.with(&[if is_success { "success" } else { "failure" }]).inc();
        }
    }

    /// Waiting for the devices of these claims ended.
    pub(super) fn waited<'a>(
        &self,
        claims: impl IntoIterator<Item = &'a ResourceClaim>,
        waited: Duration,
        outcome: Outcome,
    ) {
        let bounds: Vec<f64> = (0..N_BUCKETS).map(|i| 0.1 * f64::from(1_u32 << i)).collect();
        let waits = self.metrics.histogram(WAITS, WAITS_HELP, &LABELS, &bounds);
        let allocations = self.metrics.counter(ALLOCATIONS, ALLOCATIONS_HELP, &LABELS);
        let (Ok(waits), Ok(allocations)) = (waits, allocations) else { return };
        let results = claims.into_iter().filter_map(|claim| claim.status.allocation.as_ref());
        for result in results.flat_map(|allocation| &allocation.results) {
            let labels = [&*self.profile, &*result.driver, outcome.as_str()];
            waits.with(&labels).add(waited.as_secs_f64());
            if result.binding_conditions.as_ref().is_some_and(|conditions| !conditions.is_empty()) {
                allocations.with(&labels).inc();
            }
        }
    }
}
