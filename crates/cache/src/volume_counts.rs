//! A bound for the volumes of a node's pods, for scans over many nodes: what exactly they are is in `volumes_in_use.rs`.

use kube_scheduler_api_types::{Pod, VolumeSource};

/// How many volumes the pods of a node have that may take one of a CSI driver's places there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeCounts {
    /// Volumes with a named claim, one for each volume.
    pub n_claims: u32,
    /// All others that may: what they stand for takes a closer look, which can fail.
    pub n_others: u32,
}

impl VolumeCounts {
    /// The volumes of one pod. Volumes that live with the pod or are known to count nowhere are left out.
    pub(crate) fn of(pod: &Pod) -> Self {
        let mut counts = Self::default();
        for volume in pod.volumes.iter() {
            match &volume.source {
                VolumeSource::Claim { claim, .. } if !claim.is_empty() => counts.n_claims += 1,
                VolumeSource::Csi { .. }
                | VolumeSource::Rbd { .. }
                | VolumeSource::Iscsi { .. } => {}
                VolumeSource::Other { kind, .. } if is_local(kind) => {}
                _ => counts.n_others += 1,
            }
        }
        counts
    }

    pub(crate) fn add(&mut self, more: Self) {
        self.n_claims += more.n_claims;
        self.n_others += more.n_others;
    }

    pub(crate) fn subtract(&mut self, less: Self) {
        self.n_claims -= less.n_claims;
        self.n_others -= less.n_others;
    }
}

/// Whether a kind of volume, by its field in a pod, is never attached to a node. Which of the other kinds are is not known
/// here.
pub(crate) fn is_local(kind: &str) -> bool {
    matches!(
        kind,
        "emptyDir"
            | "configMap"
            | "secret"
            | "projected"
            | "downwardAPI"
            | "hostPath"
            | "nfs"
            | "image"
    )
}
