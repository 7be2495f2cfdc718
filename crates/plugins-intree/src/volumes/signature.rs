//! How volumes are written into a pod's signature.
//!
//! Parity: the reference writes the sources of all volumes but ConfigMaps and Secrets and nothing else, so that two
//! pods with the same ephemeral volume count as equal although their claims differ. Here equal bytes mean equal
//! answers: claims are written with their namespace, and a pod with an ephemeral volume, whose claim is its own, is
//! like no other.

use kube_scheduler_framework::SignatureWriter;
use kube_scheduler_framework::api::{Pod, VolumeSource};

use crate::signature::write;

/// Writes all volumes of a pod. `false` when no other pod can be like this one.
pub(crate) fn write_volumes(pod: &Pod, signature: &mut SignatureWriter) -> bool {
    signature.len(pod.volumes.len());
    pod.volumes.iter().all(|volume| {
        write(&volume.source, signature);
        if let VolumeSource::Claim { .. } = volume.source {
            write(&pod.namespace, signature);
        }
        // The claim of an ephemeral volume is made for this pod alone, so that no other pod gets the same answers.
        !matches!(volume.source, VolumeSource::Ephemeral { .. })
    })
}
