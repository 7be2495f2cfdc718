//! What all extension points of the plugin share.

use std::sync::Arc;

use kube_scheduler_devices::api::ResourceClaim;
use kube_scheduler_framework::ObjectStore;
use kube_scheduler_framework::api::{Object, Pod};

use super::inventory::Devices;
use super::metrics::Metrics;
use super::settings::Settings;
use super::{decoded, kinds};
use crate::resources::device_classes;

/// Settings, devices and metrics of one plugin.
pub(super) struct PluginData {
    pub(super) settings: Settings,
    pub(super) devices: Devices,
    pub(super) metrics: Metrics,
}

impl PluginData {
    /// Whether the pod may need a claim for extended resources. Errs on the side of yes: this is asked for every pod.
    pub(super) fn may_need_special_claim(&self, pod: &Pod) -> bool {
        self.settings.serves_extended && device_classes::may_serve(pod)
    }

    /// The name of the group whose claims a pod may use: its own, where groups have claims at all.
    pub(super) fn group_of<'p>(&self, pod: &'p Pod) -> Option<&'p Arc<str>> {
        pod.spec.pod_group.as_ref().filter(|_| self.settings.group_claims)
    }

    /// A claim as it is expected to be, and the same decoded.
    ///
    /// # Errors
    /// That it is not there, or what is wrong with it.
    pub(super) fn claim<'a>(
        &self,
        objects: &'a ObjectStore,
        namespace: &str,
        name: &str,
    ) -> Result<(&'a Arc<Object>, Arc<ResourceClaim>), String> {
        let object = kinds::claim(objects, namespace, name)
            .ok_or_else(|| format!("could not find ResourceClaim \"{namespace}/{name}\""))?;
        let claim = decoded::claim(object).map_err(|error| error.to_string())?;
        Ok((object, claim))
    }
}
