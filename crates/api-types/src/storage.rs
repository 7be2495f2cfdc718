//! Volumes of a pod as far as scheduling can care about them.

use std::borrow::Cow;
use std::sync::Arc;

/// One volume of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Volume {
    /// Name within the pod.
    pub name: Arc<str>,
    /// Where the volume comes from.
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

/// The claim behind a volume of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimOfVolume<'a> {
    /// Name of the claim, in the pod's namespace.
    pub name: Cow<'a, str>,
    /// Whether it is made for the pod and must be owned by it.
    pub is_ephemeral: bool,
}

impl Volume {
    /// The claim behind the volume, which is one of the pod of this name; `None` when there is none.
    pub fn claim_in(&self, pod_name: &str) -> Option<ClaimOfVolume<'_>> {
        match &self.source {
            VolumeSource::Claim { claim, .. } => {
                Some(ClaimOfVolume { name: Cow::Borrowed(claim), is_ephemeral: false })
            }
            VolumeSource::Ephemeral { .. } => Some(ClaimOfVolume {
                name: Cow::Owned(format!("{pod_name}-{}", self.name)),
                is_ephemeral: true,
            }),
            _ => None,
        }
    }
}
