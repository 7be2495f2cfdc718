//! What all extension points of the plugin share.

use kube_scheduler_framework::ObjectStore;
use kube_scheduler_framework::api::Pod;

use super::group;
use super::inventory::Devices;
use super::metrics::Metrics;
use super::resolve::{self, Resolved};
use super::settings::Settings;

/// Settings, devices and metrics of one plugin.
pub(super) struct Shared {
    pub(super) settings: Settings,
    pub(super) devices: Devices,
    pub(super) metrics: Metrics,
}

impl Shared {
    /// The claims of a pod; see [`resolve::claims_of`].
    pub(super) fn claims_of(
        &self,
        objects: &ObjectStore,
        pod: &Pod,
    ) -> Result<Vec<Resolved>, String> {
        let group = group::name_of(pod, self.settings.group_claims);
        resolve::claims_of(objects, &self.devices.claims, pod, group)
    }
}
