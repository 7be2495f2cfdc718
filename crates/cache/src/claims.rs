//! Which persistent volume claims are used, and how often (`docs/spec/core.md` §15).
//!
//! Only `persistentVolumeClaim` volumes count, once per volume. The claims of generic ephemeral volumes do not.
//!
//! Invariants: counts are above zero; the cluster-wide table counts pods on live nodes only, as pods on nodes that are
//! gone are invisible to a cycle.

use std::sync::Arc;

use hashbrown::Equivalent;
use kube_scheduler_api_types::{Pod, VolumeSource};

use crate::fork::CowMap;

/// Namespace and name of a claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClaimKey {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
}

/// Lets a claim be looked up without allocating its key; field order and types hash like [`ClaimKey`].
#[derive(Hash)]
struct BorrowedKey<'a> {
    namespace: &'a str,
    name: &'a str,
}

impl Equivalent<ClaimKey> for BorrowedKey<'_> {
    fn equivalent(&self, key: &ClaimKey) -> bool {
        *self.namespace == *key.namespace && *self.name == *key.name
    }
}

/// The claims a pod mounts, one for each volume.
pub(crate) fn claims_of(pod: &Pod) -> impl Iterator<Item = ClaimKey> {
    pod.volumes.iter().filter_map(|volume| match &volume.source {
        VolumeSource::Claim { claim, .. } => {
            Some(ClaimKey { namespace: pod.namespace.clone(), name: claim.clone() })
        }
        _ => None,
    })
}

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

/// How many volumes use each claim, over all live nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClaimTable(CowMap<ClaimKey, u32>);

impl ClaimTable {
    pub(crate) fn count(&self, namespace: &str, name: &str) -> u32 {
        self.0.get(&BorrowedKey { namespace, name }).copied().unwrap_or(0)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn add(&mut self, key: &ClaimKey) {
        *self.0.get_or_insert_with(key, || 0) += 1;
    }

    pub(crate) fn subtract(&mut self, key: &ClaimKey) {
        if let Some(count) = self.0.get_mut(key) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(key);
            }
        }
    }
}
