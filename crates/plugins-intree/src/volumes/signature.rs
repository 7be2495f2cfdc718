//! How volumes are written into a pod's signature.
//!
//! Parity: the reference writes the sources of all volumes but ConfigMaps and Secrets and nothing else, so that two
//! pods with the same ephemeral volume count as equal although their claims differ. Here equal bytes mean equal
//! answers: claims are written with their namespace, and a pod with an ephemeral volume, whose claim is its own, is
//! like no other.

use std::sync::Arc;

use kube_scheduler_framework::SignatureWriter;
use kube_scheduler_framework::api::{Pod, VolumeSource};

use crate::signature::write_texts;

/// Writes all volumes of a pod. `false` when no other pod can be like this one.
pub(crate) fn write_volumes(pod: &Pod, signature: &mut SignatureWriter) -> bool {
    signature.len(pod.volumes.len());
    for volume in pod.volumes.iter() {
        match &volume.source {
            // The claim of an ephemeral volume is made for this pod alone, so that no other pod gets the same answers.
            VolumeSource::Ephemeral { .. } => return false,
            VolumeSource::Claim { claim, .. } => {
                signature.text("claim");
                signature.text(&pod.namespace);
                signature.text(claim);
            }
            VolumeSource::Csi { driver } => {
                signature.text("csi");
                signature.text(driver);
            }
            VolumeSource::GcePersistentDisk { disk, is_read_only } => {
                write_disk("gcePersistentDisk", disk, *is_read_only, signature);
            }
            VolumeSource::AwsElasticBlockStore { volume_id } => {
                write_disk("awsElasticBlockStore", volume_id, false, signature);
            }
            VolumeSource::Iscsi { iqn, is_read_only } => {
                write_disk("iscsi", iqn, *is_read_only, signature);
            }
            VolumeSource::Rbd { monitors, pool, image, is_read_only } => {
                write_disk("rbd", image, *is_read_only, signature);
                signature.text(pool);
                write_texts(monitors, signature);
            }
            VolumeSource::Other { kind, json } => {
                signature.text(kind);
                signature.text(json);
            }
            other => {
                signature.text("?");
                signature.debug(other);
            }
        }
    }
    true
}

fn write_disk(kind: &str, disk: &Arc<str>, is_read_only: bool, signature: &mut SignatureWriter) {
    signature.text(kind);
    signature.text(disk);
    signature.present(is_read_only);
}
