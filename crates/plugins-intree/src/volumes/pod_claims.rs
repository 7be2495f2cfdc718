//! Which claims the volumes of a pod stand for (`docs/spec/plugins-storage.md` §2.1).

use std::borrow::Cow;

use kube_scheduler_framework::api::{Pod, Volume, VolumeSource};

use super::VolumeClaim;

/// The claim behind a volume of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimOfVolume<'a> {
    /// Name of the claim, in the pod's namespace.
    pub(crate) name: Cow<'a, str>,
    /// Whether it is made for the pod and must be owned by it.
    pub(crate) is_ephemeral: bool,
}

/// The claim behind a volume; `None` when there is none.
pub(crate) fn claim_of<'a>(pod: &Pod, volume: &'a Volume) -> Option<ClaimOfVolume<'a>> {
    match &volume.source {
        VolumeSource::Claim { claim, .. } => {
            Some(ClaimOfVolume { name: Cow::Borrowed(claim), is_ephemeral: false })
        }
        VolumeSource::Ephemeral { .. } => Some(ClaimOfVolume {
            name: Cow::Owned(format!("{}-{}", pod.name, volume.name)),
            is_ephemeral: true,
        }),
        _ => None,
    }
}

/// Whether any volume of the pod has a claim behind it.
pub(crate) fn has_claims(pod: &Pod) -> bool {
    pod.volumes.iter().any(|volume| {
        matches!(volume.source, VolumeSource::Claim { .. } | VolumeSource::Ephemeral { .. })
    })
}

/// Checks that the claim of an ephemeral volume was made for this pod.
pub(crate) fn check_ownership(pod: &Pod, claim: VolumeClaim<'_>) -> Result<(), String> {
    let object = claim.object();
    if object.namespace == pod.namespace && claim.controller_uid() == Some(&*pod.uid) {
        return Ok(());
    }
    Err(format!(
        "PVC {}/{} was not created for pod {}/{} (pod is not owner)",
        object.namespace, object.name, pod.namespace, pod.name
    ))
}
