//! What the claims of a pod are to it (`docs/spec/plugins-storage.md` §2.1).

use std::sync::Arc;

use kube_scheduler_framework::api::{Object, Pod, VolumeSource};

use super::VolumeClaim;

/// The names of the claims that the pod names itself. Those of ephemeral volumes are left out: no other pod can use them.
pub(crate) fn plain_claims(pod: &Pod) -> impl Iterator<Item = &Arc<str>> {
    pod.volumes.iter().filter_map(|volume| match &volume.source {
        VolumeSource::Claim { claim, .. } => Some(claim),
        _ => None,
    })
}

/// Whether the pod names the claim itself.
pub(crate) fn names_claim(pod: &Pod, claim: &Object) -> bool {
    claim.namespace == pod.namespace && plain_claims(pod).any(|name| *name == claim.name)
}

/// Whether the pod names the claim itself, or has an ephemeral volume whose claim has this name.
pub(crate) fn uses_claim(pod: &Pod, claim: &Object) -> bool {
    let mut own = pod.volumes.iter().filter_map(|volume| volume.claim_in(&pod.name));
    claim.namespace == pod.namespace && own.any(|own| *own.name == *claim.name)
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
    if object.namespace == pod.namespace && object.controller_uid() == Some(&*pod.uid) {
        return Ok(());
    }
    Err(format!(
        "PVC {}/{} was not created for pod {}/{} (pod is not owner)",
        object.namespace, object.name, pod.namespace, pod.name
    ))
}
