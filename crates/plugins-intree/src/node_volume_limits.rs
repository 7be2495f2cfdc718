//! NodeVolumeLimits: how many volumes of each CSI driver a node can attach.
//!
//! Answers to `plugins/nodevolumelimits/csi.go` of the reference; behaviour in `docs/spec/plugins-storage.md` §6.
//!
//! Parity: the reference marks volumes that do not exist yet by a random prefix of their name; here they are another
//! kind of volume ([`UsedVolume::Future`](kube_scheduler_framework::columns::UsedVolume::Future)), which no existing one can be either.

mod counted;
mod hints;
mod scan;

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_framework::api::{InTreePlugin, Pod, VolumeSource};
use kube_scheduler_framework::columns::CsiLimits;
use kube_scheduler_framework::{
    ClusterView, Context, CycleState, EventResource, Filter, FilterSink, Handle, NodeIdx, NodeView,
    Plugin, PluginArgs, PluginError, PreFilter, PreFilterOutcome, Sign, SignatureWriter, Status,
    extension_points,
};

use self::counted::{NewVolumes, attached_besides};
use self::scan::Scan;
use crate::volumes::{csi_driver, write_volumes};

pub(crate) const NAME: &str = "NodeVolumeLimits";

const REASON: &str = "node(s) exceed max volume count";

pub(crate) fn new(_: &PluginArgs, handle: &Handle) -> Result<Arc<dyn Plugin>, PluginError> {
    Ok(Arc::new(NodeVolumeLimits {
        wants_drivers: handle.is_enabled("VolumeLimitScaling"),
        rejection: Status::unschedulable(REASON).from_plugin(&NAME.into()),
    }))
}

struct NodeVolumeLimits {
    /// Whether nodes without a driver that asks for it are rejected.
    wants_drivers: bool,
    rejection: Status,
}

/// Whether a volume can count against a limit.
fn can_count(source: &VolumeSource) -> bool {
    matches!(source, VolumeSource::Claim { .. } | VolumeSource::Ephemeral { .. })
        || InTreePlugin::of_inline(source).is_some()
}

fn has_countable(pod: &Pod) -> bool {
    pod.volumes.iter().any(|volume| can_count(&volume.source))
}

impl NodeVolumeLimits {
    /// The first driver of the pod's volumes that wants to be on its nodes and is not on this one.
    fn missing_driver<'v>(
        &self,
        cluster: ClusterView<'_>,
        new: &'v NewVolumes,
        csi_node: Option<&CsiLimits>,
    ) -> Option<&'v str> {
        if !self.wants_drivers {
            return None;
        }
        new.volumes.iter().map(|volume| &*volume.driver).find(|driver| {
            csi_driver(cluster, driver).is_some_and(|object| object.is_required_on_nodes())
                && !csi_node.is_some_and(|node| node.has_driver(driver))
        })
    }

    fn check(
        &self,
        cluster: ClusterView<'_>,
        node: &NodeView<'_>,
        new: &Result<NewVolumes, Status>,
    ) -> Result<(), Status> {
        let csi_node = cluster.csi_limits(node.idx());
        let new = new.as_ref().map_err(Clone::clone)?;
        if new.volumes.is_empty() {
            return Ok(());
        }
        if let Some(driver) = self.missing_driver(cluster, new, csi_node) {
            return Err(Status::unschedulable(format!(
                "{driver} CSI driver is not installed on the node"
            )));
        }
        let Some(csi_node) = csi_node.filter(|node| node.has_limits()) else { return Ok(()) };
        let there = node.volumes();
        if there.has_broken_pods()
            && let Some(pod) = node.pods().find(|pod| there.is_broken(&pod.uid))
        {
            let fault = counted::fault_of(cluster, pod);
            return Err(fault.unwrap_or_else(|| Status::error("")));
        }
        // The same volume twice on a node is attached once.
        let mut n_new: BTreeMap<&str, usize> = BTreeMap::new();
        for volume in new.volumes.iter().filter(|volume| !there.contains(&volume.volume)) {
            *n_new.entry(&volume.driver).or_default() += 1;
        }
        // Quirk: a volume that is still attached for a pod that is gone counts both as there and as new. Pinned by
        // `an_own_volume_that_is_still_attached_counts_twice`.
        let attached = attached_besides(cluster, node.name(), &there);
        for (driver, n_new) in n_new {
            let n_attached = attached.get(driver).copied().unwrap_or(0);
            let n = n_new + n_attached + new.n_taken(driver, &there);
            if csi_node.limit(driver).is_some_and(|limit| n as i64 > limit) {
                return Err(self.rejection.clone());
            }
        }
        Ok(())
    }
}

impl Plugin for NodeVolumeLimits {
    fn name(&self) -> &str {
        NAME
    }

    fn reads_objects(&self) -> Vec<EventResource> {
        vec![EventResource::PersistentVolume, EventResource::StorageClass, EventResource::CsiDriver]
    }

    extension_points!(PreFilter, Filter, EnqueueExtensions, Sign);
}

impl PreFilter for NodeVolumeLimits {
    fn pre_filter(&self, _: &Context<'_>, _: &mut CycleState, pod: &Pod) -> PreFilterOutcome {
        if !has_countable(pod) {
            return PreFilterOutcome::skip();
        }
        PreFilterOutcome::success()
    }
}

impl Filter for NodeVolumeLimits {
    fn filter(&self, cx: &Context<'_>, _: &CycleState, pod: &Pod, node: &NodeView<'_>) -> Status {
        let has_csi_node = cx.cluster().csi_limits(node.idx()).is_some();
        let new = NewVolumes::of(cx.cluster(), pod, has_csi_node);
        self.check(cx.cluster(), node, &new).err().unwrap_or_default()
    }

    fn filter_all(
        &self,
        cx: &Context<'_>,
        _: &CycleState,
        pod: &Pod,
        nodes: &[NodeIdx],
        sink: &mut FilterSink<'_>,
    ) -> Result<(), Status> {
        let mut scan = Scan::new(self, cx.cluster(), pod);
        sink.reject_each(cx, nodes, |_, node| scan.filter(node))
    }
}

impl Sign for NodeVolumeLimits {
    fn sign(&self, pod: &Pod, signature: &mut SignatureWriter) -> bool {
        write_volumes(pod, signature)
    }
}

#[cfg(test)]
mod tests;
