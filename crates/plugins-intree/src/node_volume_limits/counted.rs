//! Which volumes of a pod count against the limits of which driver (`docs/spec/plugins-storage.md` §6.2).
//!
//! What the pods on a node use, the cluster keeps ([`NodeVolumes`]); here it is compared with what a pod brings.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_framework::api::{ClaimOfVolume, InTreePlugin, Pod, Volume};
use kube_scheduler_framework::columns::{NodeVolumes, UsedVolume};
use kube_scheduler_framework::{ClusterView, Status};

use crate::volumes::{VolumeClaim, check_ownership, claim, storage_class, storage_classes, volume};

/// A volume that takes one of the places of a driver.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CountedVolume {
    pub(super) driver: Arc<str>,
    pub(super) volume: UsedVolume,
}

/// What a pod brings to the nodes that have a CSINode, or to those that have none.
#[derive(Clone, Debug, Default)]
pub(super) struct NewVolumes {
    /// Each volume once, by driver.
    pub(super) volumes: BTreeSet<CountedVolume>,
    /// The classes that make volumes of these drivers.
    classes: BTreeMap<Arc<str>, Vec<Arc<str>>>,
}

impl NewVolumes {
    /// The volumes of a pod. Those of in-tree plugins count as those of their drivers where there is a CSINode. The error is the
    /// answer of every node: that something is not there yet is a rejection.
    pub(super) fn of(
        cluster: ClusterView<'_>,
        pod: &Pod,
        has_csi_node: bool,
    ) -> Result<Self, Status> {
        let mut new = Self::default();
        for volume in pod.volumes.iter() {
            let used = match volume.claim_in(&pod.name) {
                None => inline(volume, has_csi_node)?,
                Some(wanted) => {
                    let claim = usable_claim(cluster, pod, &wanted)?;
                    cluster.volume_of_claim(claim.object(), has_csi_node)
                }
            };
            let Some(volume) = used else { continue };
            if let Some(driver) = driver_of(cluster, &volume, has_csi_node) {
                new.volumes.insert(CountedVolume { driver, volume });
            }
        }
        if !new.volumes.is_empty() {
            new.find_classes(cluster, has_csi_node);
        }
        Ok(new)
    }

    fn find_classes(&mut self, cluster: ClusterView<'_>, has_csi_node: bool) {
        for volume in &self.volumes {
            self.classes.entry(volume.driver.clone()).or_default();
        }
        for class in storage_classes(cluster) {
            let driver = driver_of_provisioner(class.provisioner(), has_csi_node);
            if let Some(classes) = driver.and_then(|driver| self.classes.get_mut(driver)) {
                classes.push(class.name().into());
            }
        }
    }

    /// How many places of one of its drivers the pods of a node take.
    pub(super) fn n_taken(&self, driver: &str, there: &NodeVolumes<'_>) -> usize {
        let classes = self.classes.get(driver).into_iter().flatten();
        let n_future: usize = classes.map(|class| there.n_of_class(class)).sum();
        there.n_of_driver(driver) + n_future
    }
}

/// How many volumes are attached to a node that no pod there uses, by driver. Attachments of inline volumes, of volumes that are
/// gone and of volumes without a CSI source do not count.
pub(super) fn attached_besides(
    cluster: ClusterView<'_>,
    node: &str,
    there: &NodeVolumes<'_>,
) -> BTreeMap<Arc<str>, usize> {
    let attached = cluster.attachments_on(node).filter_map(|attachment| {
        let (_, handle) = volume(cluster, &attachment.volume).ok()?.csi_source()?;
        let driver = attachment.attacher.clone();
        Some(UsedVolume::Existing { driver, handle: handle.into() })
    });
    let besides: BTreeSet<UsedVolume> = attached.filter(|volume| !there.contains(volume)).collect();
    let mut counts = BTreeMap::new();
    for volume in besides {
        if let UsedVolume::Existing { driver, .. } = volume {
            *counts.entry(driver).or_default() += 1;
        }
    }
    counts
}

/// What is wrong with the volumes of a pod on a node, which is the same for whatever pod comes. Claims that are gone do not matter.
pub(super) fn fault_of(cluster: ClusterView<'_>, pod: &Pod) -> Option<Status> {
    pod.volumes.iter().find_map(|volume| match volume.claim_in(&pod.name) {
        None => inline(volume, true).err(),
        Some(wanted) => {
            let unusable = usable_claim(cluster, pod, &wanted).err();
            unusable.filter(|status| !status.is_rejected())
        }
    })
}

fn inline(volume: &Volume, has_csi_node: bool) -> Result<Option<UsedVolume>, Status> {
    UsedVolume::of_inline(&volume.source, has_csi_node).map_err(|error| {
        Status::error(format!("converting volume({}) from inline to csi: {error}", volume.name))
    })
}

fn usable_claim<'c>(
    cluster: ClusterView<'c>,
    pod: &Pod,
    wanted: &ClaimOfVolume<'_>,
) -> Result<VolumeClaim<'c>, Status> {
    if wanted.name.is_empty() {
        return Err(Status::error("PersistentVolumeClaim had no name"));
    }
    let claim = claim(cluster, &pod.namespace, &wanted.name).map_err(|missing| {
        let (namespace, name) = (&pod.namespace, &wanted.name);
        Status::unresolvable(format!("looking up PVC {namespace}/{name}: {missing}"))
    })?;
    if wanted.is_ephemeral {
        check_ownership(pod, claim).map_err(Status::error)?;
    }
    Ok(claim)
}

/// The driver of which a volume takes a place.
fn driver_of(
    cluster: ClusterView<'_>,
    volume: &UsedVolume,
    has_csi_node: bool,
) -> Option<Arc<str>> {
    match volume {
        UsedVolume::Existing { driver, .. } => Some(driver.clone()),
        UsedVolume::Future { class, .. } => {
            let class = storage_class(cluster, class).ok()?;
            driver_of_provisioner(class.provisioner(), has_csi_node).map(Arc::from)
        }
    }
}

/// The driver that makes the volumes of a provisioner.
///
/// Parity: what the node's CSINode lists as migrated does not matter here, unlike in VolumeBinding.
fn driver_of_provisioner(provisioner: &str, has_csi_node: bool) -> Option<&str> {
    match InTreePlugin::named(provisioner) {
        None => Some(provisioner).filter(|driver| !driver.is_empty()),
        Some(plugin) => (has_csi_node && plugin.is_migration_on()).then(|| plugin.driver()),
    }
}
