//! Disks named by pods themselves, and when two pods cannot have the same one on one node.
//!
//! Namespaces do not matter to a disk; volumes behind claims are not looked at.
//!
//! A pod may name thousands of disks, and running pods as many. So those of the pod that is asked about are filed once, and each
//! of the others is a look-up.

use std::sync::Arc;

use kube_scheduler_framework::api::{KeyedMap, Pod, VolumeSource};

/// Disks of a pod by name, and whether all uses of one are read-only.
type ByName = KeyedMap<Arc<str>, bool>;

/// The disks that a pod names.
#[derive(Clone, Debug, Default)]
pub(super) struct Disks {
    gce: ByName,
    ebs: ByName,
    iscsi: ByName,
    /// RBD images by image, then pool, then monitor: two pods mean the same image if they name at least one monitor that is the same.
    rbd: KeyedMap<Arc<str>, KeyedMap<Arc<str>, ByName>>,
}

impl Disks {
    pub(super) fn of(pod: &Pod) -> Self {
        let mut disks = Self::default();
        pod.volumes.iter().for_each(|volume| disks.add(&volume.source));
        disks
    }

    pub(super) fn is_empty(&self) -> bool {
        let by_name = [&self.gce, &self.ebs, &self.iscsi];
        by_name.iter().all(|all| all.is_empty()) && self.rbd.is_empty()
    }

    fn add(&mut self, source: &VolumeSource) {
        let add = |all: &mut ByName, name: &Arc<str>, is_read_only: bool| {
            *all.entry(name.clone()).or_insert(true) &= is_read_only;
        };
        match source {
            VolumeSource::GcePersistentDisk { disk, is_read_only } => {
                add(&mut self.gce, disk, *is_read_only);
            }
            // Two pods on one node cannot have the same one, even if both only read it.
            VolumeSource::AwsElasticBlockStore { volume_id } => {
                add(&mut self.ebs, volume_id, false);
            }
            VolumeSource::Iscsi { iqn, is_read_only } => add(&mut self.iscsi, iqn, *is_read_only),
            VolumeSource::Rbd { monitors, pool, image, is_read_only } => {
                let pools = self.rbd.entry(image.clone()).or_default();
                let known = pools.entry(pool.clone()).or_default();
                monitors.iter().for_each(|monitor| add(known, monitor, *is_read_only));
            }
            _ => {}
        }
    }

    /// Whether any of them is in the way of any disk of the other pod.
    pub(super) fn are_in_conflict_with(&self, other: &Pod) -> bool {
        other.volumes.iter().any(|volume| self.are_in_way_of(&volume.source))
    }

    fn are_in_way_of(&self, existing: &VolumeSource) -> bool {
        let is_in_way = |all: &ByName, name: &Arc<str>, is_read_only: bool| {
            all.get(name).is_some_and(|all_read_only| !(*all_read_only && is_read_only))
        };
        match existing {
            VolumeSource::GcePersistentDisk { disk, is_read_only } => {
                is_in_way(&self.gce, disk, *is_read_only)
            }
            VolumeSource::AwsElasticBlockStore { volume_id } => {
                is_in_way(&self.ebs, volume_id, false)
            }
            VolumeSource::Iscsi { iqn, is_read_only } => is_in_way(&self.iscsi, iqn, *is_read_only),
            VolumeSource::Rbd { monitors, pool, image, is_read_only } => {
                let known = self.rbd.get(image).and_then(|pools| pools.get(pool));
                known.is_some_and(|known| {
                    monitors.iter().any(|monitor| is_in_way(known, monitor, *is_read_only))
                })
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
