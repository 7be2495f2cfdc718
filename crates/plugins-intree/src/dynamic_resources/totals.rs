//! Scores of extended resources that device classes serve: how many devices nodes have, and how many are taken
//! (`docs/spec/plugins-node.md` §4.8.6).

use std::sync::Arc;

use kube_scheduler_devices::api::DeviceClass;
use kube_scheduler_devices::{DeviceState, NodeRef};
use kube_scheduler_framework::api::is_dra_extended_resource;
use kube_scheduler_framework::{ClusterView, Handle, NodeView};

use super::inventory::Devices;
use super::settings::InventorySettings;

/// The devices of the cluster, for plugins that score resources.
pub(crate) struct ScoredDevices(Devices);

impl ScoredDevices {
    /// `None` if device classes serve no extended resources.
    pub(crate) fn new(handle: &Handle) -> Option<Self> {
        let devices = || Self(Devices::new(InventorySettings::new(handle)));
        handle.is_enabled("DRAExtendedResource").then(devices)
    }

    /// The state of the devices of those of `resources` that classes serve; `None` if there are none. Reads no object
    /// unless one of them may be served.
    pub(crate) fn totals<'a>(
        &'a self,
        cluster: ClusterView<'_>,
        resources: impl Iterator<Item = &'a Arc<str>>,
    ) -> Option<DeviceTotals<'a>> {
        let resources: Vec<_> = resources.filter(|name| is_dra_extended_resource(name)).collect();
        if resources.is_empty() {
            return None;
        }
        let objects = cluster.objects();
        let classes = self.0.resources(objects);
        let served: Vec<_> = resources
            .into_iter()
            .filter_map(|name| Some((&**name, classes.class(name)?.clone())))
            .collect();
        if served.is_empty() {
            return None;
        }
        Some(DeviceTotals { devices: &self.0, state: self.0.state(objects), served })
    }
}

/// The devices behind the extended resources that a pod asks for.
pub(crate) struct DeviceTotals<'a> {
    devices: &'a Devices,
    state: Arc<DeviceState>,
    served: Vec<(&'a str, Arc<DeviceClass>)>,
}

impl DeviceTotals<'_> {
    /// How much of a resource devices provide on a node, which is above zero, and how much of that is taken; `None` if
    /// they provide nothing.
    pub(crate) fn on(&self, resource: &str, node: &NodeView<'_>) -> Option<(i64, i64)> {
        let (_, class) = self.served.iter().find(|(name, _)| *name == resource)?;
        let node = NodeRef { name: node.name(), labels: node.labels() };
        let selectors = &*self.devices.selectors;
        let totals = self.state.class_totals(node, class, selectors)?;
        (totals.n_devices > 0).then_some((totals.n_devices, totals.n_held))
    }
}
