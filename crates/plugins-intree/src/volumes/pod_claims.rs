//! What the claims of a pod are to it (`docs/spec/plugins-storage.md` §2.1).

use kube_scheduler_framework::api::{Pod, VolumeSource};

use super::VolumeClaim;

/// Whether any volume of the pod has a claim behind it.
pub(crate) fn has_claims(pod: &Pod) -> bool {
    pod.volumes.iter().any(|volume| {
        matches!(volume.source, VolumeSource::Claim { .. } | VolumeSource::Ephemeral { .. })
    })
}

/// Checks that the claim of an ephemeral volume was made for this pod.
pub(crate) fn check_ownership(pod: &Pod, claim: VolumeClaim<'_>) -> Result<(), String> {
    let object = claim.object();
    if object.namespace == pod.namespace && object.controller_uid() == Some(&*pod.uid) {
        return Ok(());
    }
    Err(format!(
        "PVC {}/{} was not created for pod {}/{} (pod is not owner)",
        object.namespace, object.name, pod.namespace, pod.name
    ))
}
