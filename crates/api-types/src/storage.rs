//! Volumes of a pod as far as scheduling can care about them.

use std::sync::Arc;

/// One volume of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Volume {
    /// Name within the pod.
    pub name: Arc<str>,
    /// Where it comes from.
    pub source: VolumeSource,
}

/// Where a volume comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum VolumeSource {
    /// `persistentVolumeClaim`.
    Claim {
        /// Claim name in the pod's namespace.
        claim: Arc<str>,
        /// Mounted read-only.
        is_read_only: bool,
    },
    /// `ephemeral`: a claim named after the pod and the volume.
    Ephemeral {
        /// `volumeClaimTemplate.spec.storageClassName`.
        storage_class: Option<Arc<str>>,
    },
    /// `csi`: an inline CSI volume.
    Csi {
        /// Driver name.
        driver: Arc<str>,
    },
    /// `gcePersistentDisk`.
    GcePersistentDisk {
        /// Disk name.
        disk: Arc<str>,
        /// Mounted read-only.
        is_read_only: bool,
    },
    /// `awsElasticBlockStore`.
    AwsElasticBlockStore {
        /// Volume id.
        volume_id: Arc<str>,
    },
    /// `rbd`.
    Rbd {
        /// Monitors, in order.
        monitors: Arc<[Arc<str>]>,
        /// Pool name.
        pool: Arc<str>,
        /// Image name.
        image: Arc<str>,
        /// Mounted read-only.
        is_read_only: bool,
    },
    /// `iscsi`.
    Iscsi {
        /// Qualified name of the target.
        iqn: Arc<str>,
        /// Mounted read-only.
        is_read_only: bool,
    },
    /// Any other source: its API field name and canonical JSON, for signatures and migration.
    Other {
        /// Field name, such as `azureDisk`.
        kind: Arc<str>,
        /// The source as JSON with sorted keys.
        json: Arc<str>,
    },
}
