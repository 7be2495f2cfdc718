//! NodeVolumeLimits: how many volumes of each CSI driver a node can attach.
//!
//! Answers to `plugins/nodevolumelimits/csi.go` of the reference; behaviour in `docs/spec/plugins-storage.md` §6.
//!
//! Parity: the reference marks volumes that do not exist yet by a random prefix of their name; here they are another
//! kind of name ([`counted::Handle::Unbound`]), which no existing volume can have either.

mod counted;
mod hints;
mod scan;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_framework::api::{Pod, VolumeSource};
use kube_scheduler_framework::columns::CsiLimits;
use kube_scheduler_framework::{
    ClusterView, Context, CycleState, EnqueueExtensions, EventRegistration, EventResource, Filter,
    FilterScan, Handle, NodeView, Plugin, PluginArgs, PluginError, PreFilter, PreFilterOutcome,
    Sign, SignatureWriter, Status, extension_points,
};

use self::counted::{Collector, CountedVolume, Failure};
use self::scan::Scan;
use crate::volumes::{InTreePlugin, csi_driver, write_volumes};

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
        new: &'v BTreeSet<CountedVolume<'_>>,
        csi_node: Option<&CsiLimits>,
    ) -> Option<&'v str> {
        if !self.wants_drivers {
            return None;
        }
        new.iter().map(|volume| &*volume.driver).find(|driver| {
            csi_driver(cluster, driver).is_some_and(|object| object.is_required_on_nodes())
                && !csi_node.is_some_and(|node| node.has_driver(driver))
        })
    }

    fn check<'c>(
        &self,
        cluster: ClusterView<'c>,
        node: &NodeView<'_>,
        new: &NewVolumes<'c>,
    ) -> Result<(), Status> {
        let csi_node = cluster.csi_limits(node.idx());
        let collector = Collector { cluster, has_csi_node: csi_node.is_some() };
        let new = new.as_ref().map_err(Clone::clone)?;
        if new.is_empty() {
            return Ok(());
        }
        if let Some(driver) = self.missing_driver(cluster, new, csi_node) {
            return Err(Status::unschedulable(format!(
                "{driver} CSI driver is not installed on the node"
            )));
        }
        let Some(csi_node) = csi_node.filter(|node| node.has_limits()) else { return Ok(()) };
        let n_attached = cluster.n_attachments().get(node.idx()) as usize;
        if let Some(most) = most_in_use(node).map(|most| most + n_attached + new.len())
            && new
                .iter()
                .all(|volume| csi_node.limit(&volume.driver).is_none_or(|n| n >= most as i64))
        {
            return Ok(());
        }
        let mut new = new.clone();
        let mut attached = BTreeSet::new();
        for other in node.pods() {
            collector.collect_existing(other, &mut attached).map_err(Status::error)?;
        }
        // The same volume twice on a node is attached once.
        new.retain(|volume| !attached.contains(volume));
        // Quirk: a volume that is still attached for a pod that is gone counts both as there and as new. Pinned by
        // `an_own_volume_that_is_still_attached_counts_twice`.
        collector.collect_attached(node.name(), &mut attached);
        let current = per_driver(&attached);
        for (driver, n_new) in per_driver(&new) {
            let n_current = current.get(driver).copied().unwrap_or(0);
            if csi_node.limit(driver).is_some_and(|limit| n_current + n_new > limit) {
                return Err(self.rejection.clone());
            }
        }
        Ok(())
    }
}

/// What a pod brings; the error is the answer of every node.
type NewVolumes<'c> = Result<BTreeSet<CountedVolume<'c>>, Status>;

fn new_volumes<'c>(cluster: ClusterView<'c>, pod: &Pod, has_csi_node: bool) -> NewVolumes<'c> {
    let mut new = BTreeSet::new();
    let collector = Collector { cluster, has_csi_node };
    collector.collect_new(pod, &mut new).map_err(Failure::into_status)?;
    Ok(new)
}

/// How many volumes the pods of a node can have in use at most; `None` when they have to be looked at one by one, because
/// that can fail.
fn most_in_use(node: &NodeView<'_>) -> Option<usize> {
    let volumes = node.pods().flat_map(|pod| pod.volumes.iter());
    let countable = volumes.map(|volume| &volume.source).filter(|source| can_count(source));
    let is_plain = |source: &VolumeSource| matches!(source, VolumeSource::Claim { claim, .. } if !claim.is_empty());
    countable.map(|source| is_plain(source).then_some(1)).sum()
}

fn per_driver<'v>(volumes: &'v BTreeSet<CountedVolume<'_>>) -> BTreeMap<&'v str, i64> {
    let mut counts = BTreeMap::new();
    for volume in volumes {
        *counts.entry(&*volume.driver).or_default() += 1;
    }
    counts
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
        let new = new_volumes(cx.cluster(), pod, has_csi_node);
        self.check(cx.cluster(), node, &new).err().unwrap_or_default()
    }

    fn scan<'a>(&'a self, cx: &Context<'a>, _: &'a CycleState, pod: &'a Pod) -> FilterScan<'a> {
        FilterScan::Prepared(Box::new(Scan::new(self, cx.cluster(), pod)))
    }
}

impl Sign for NodeVolumeLimits {
    fn sign(&self, pod: &Pod, signature: &mut SignatureWriter) -> bool {
        write_volumes(pod, signature)
    }
}

impl EnqueueExtensions for NodeVolumeLimits {
    fn events_to_register(&self) -> Vec<EventRegistration> {
        hints::events()
    }
}

#[cfg(test)]
mod tests;
