//! Disks named by pods themselves, and when two pods cannot have the same one on one node.
//!
//! Namespaces do not matter to a disk; volumes behind claims are not looked at.

use kube_scheduler_framework::api::{Pod, VolumeSource};

/// Whether the pod names any such disk.
pub(super) fn uses_disks(pod: &Pod) -> bool {
    pod.volumes.iter().any(|volume| is_disk(&volume.source))
}

fn is_disk(source: &VolumeSource) -> bool {
    matches!(
        source,
        VolumeSource::GcePersistentDisk { .. }
            | VolumeSource::AwsElasticBlockStore { .. }
            | VolumeSource::Iscsi { .. }
            | VolumeSource::Rbd { .. }
    )
}

/// Whether any disk of one pod is in the way of any disk of the other.
pub(super) fn are_in_conflict(pod: &Pod, other: &Pod) -> bool {
    pod.volumes.iter().filter(|volume| is_disk(&volume.source)).any(|volume| {
        other.volumes.iter().any(|existing| is_same_disk(&volume.source, &existing.source))
    })
}

fn is_same_disk(new: &VolumeSource, existing: &VolumeSource) -> bool {
    use VolumeSource::{AwsElasticBlockStore, GcePersistentDisk, Iscsi, Rbd};
    match (new, existing) {
        (
            GcePersistentDisk { disk, is_read_only },
            GcePersistentDisk { disk: other, is_read_only: other_is_read_only },
        ) => disk == other && !(*is_read_only && *other_is_read_only),
        (AwsElasticBlockStore { volume_id }, AwsElasticBlockStore { volume_id: other }) => {
            volume_id == other
        }
        (Iscsi { iqn, is_read_only }, Iscsi { iqn: other, is_read_only: other_is_read_only }) => {
            iqn == other && !(*is_read_only && *other_is_read_only)
        }
        (
            Rbd { monitors, pool, image, is_read_only },
            Rbd {
                monitors: other_monitors,
                pool: other_pool,
                image: other_image,
                is_read_only: other_is_read_only,
            },
        ) => {
            monitors.iter().any(|monitor| other_monitors.contains(monitor))
                && pool == other_pool
                && image == other_image
                && !(*is_read_only && *other_is_read_only)
        }
        _ => false,
    }
}
