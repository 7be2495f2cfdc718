//! Whether everything that was written for a pod's volumes has come true (`docs/spec/plugins-storage.md` §3.12).
//!
//! Only what the API server has reported counts here, never what is assumed.

use std::sync::Arc;

use kube_scheduler_framework::api::{Fields, Labels, Object};
use kube_scheduler_framework::{ClusterView, ObjectKey};

use super::affinity::BoundAffinity;
use super::claims::{reported_claim, reported_volume};
use super::find::StaticBinding;
use crate::volumes::{PersistentVolume, VolumeClaim, csi_node};

/// What is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct WatchedVolumes<'a> {
    pub(super) cluster: ClusterView<'a>,
    pub(super) pod: &'a str,
    pub(super) pod_exists: bool,
    pub(super) node: &'a str,
    pub(super) bindings: &'a [StaticBinding],
    /// Claims to provision, as they were written.
    pub(super) claims: &'a [Arc<Object>],
}

impl WatchedVolumes<'_> {
    /// Checks the node, the pod, the bindings, and the claims to provision, in order: whether all is done. The error says what has
    /// gone wrong.
    pub(super) fn check(&self) -> Result<bool, String> {
        let node = self.cluster.node_idx(self.node).and_then(|idx| self.cluster.node(idx));
        let Some(node) = node else {
            let name = self.node;
            return Err(format!("failed to get node \"{name}\": node \"{name}\" not found"));
        };
        if !self.pod_exists {
            return Err(format!("pod does not exist any more: pod \"{}\" not found", self.pod));
        }
        for binding in self.bindings {
            let failed = |error: String| format!("failed to check binding: {error}");
            let volume = reported_volume(self.cluster, &binding.volume.name).map_err(failed)?;
            let (namespace, name) = (&binding.claim.namespace, &binding.claim.name);
            let claim = reported_claim(self.cluster, namespace, name).map_err(failed)?;
            // The watch may lag behind the write: an older revision does not show its outcome yet.
            if is_newer(&binding.volume, volume)? {
                return Ok(false);
            }
            self.check_affinity(volume, node.labels())?
                .map_err(|error| format!("failed to translate pv to csi: {error}"))?;
            let reference = PersistentVolume::new(volume).claim_ref();
            let uid = reference.and_then(|reference| reference["uid"].as_str());
            if uid.is_none_or(str::is_empty) {
                return Err(format!("ClaimRef got reset for pv \"{}\"", volume.name));
            }
            if !VolumeClaim::new(claim).is_fully_bound() {
                return Ok(false);
            }
        }
        for written in self.claims {
            let (namespace, name) = (&written.namespace, &written.name);
            let claim = reported_claim(self.cluster, namespace, name)
                .map_err(|error| format!("failed to check provisioning pvc: {error}"))?;
            if is_newer(written, claim)? {
                return Ok(false);
            }
            let annotations = claim.json["metadata"]["annotations"].as_object();
            if annotations.is_none_or(Fields::is_empty) {
                return Err(format!("selectedNode annotation reset for PVC \"{name}\""));
            }
            if VolumeClaim::new(claim).selected_node() != Some(self.node) {
                return Err(format!("provisioning failed for PVC \"{name}\""));
            }
            let volume_name = VolumeClaim::new(claim).volume_name();
            if !volume_name.is_empty() {
                // The claim may be reported before the volume that was made for it.
                let Ok(volume) = reported_volume(self.cluster, volume_name) else {
                    return Ok(false);
                };
                self.check_affinity(volume, node.labels())??;
            }
            if !VolumeClaim::new(claim).is_fully_bound() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The outer error is a volume that the node cannot reach, the inner one a volume that cannot be translated.
    fn check_affinity(
        &self,
        volume: &Object,
        labels: &Labels,
    ) -> Result<Result<(), String>, String> {
        let affinity = BoundAffinity::new(PersistentVolume::new(volume));
        match affinity.on(|| csi_node(self.cluster, self.node)) {
            Err(error) => Ok(Err(error)),
            Ok(affinity) => affinity.check(labels).map(Ok).map_err(|error| {
                format!(
                    "pv \"{}\" node affinity doesn't match node \"{}\": {error}",
                    volume.name, self.node
                )
            }),
        }
    }

    /// The objects whose changes can make a difference.
    pub(super) fn keys(&self) -> Vec<ObjectKey> {
        let mut keys = Vec::new();
        for StaticBinding { claim, volume } in self.bindings {
            keys.extend([ObjectKey::from(&**volume), ObjectKey::from(&**claim)]);
        }
        for written in self.claims {
            let key = ObjectKey::from(&**written);
            if let Ok(claim) = reported_claim(self.cluster, &written.namespace, &written.name) {
                let name = VolumeClaim::new(claim).volume_name();
                if !name.is_empty() {
                    let (kind, namespace) = ("PersistentVolume".into(), "".into());
                    keys.push(ObjectKey { kind, namespace, name: name.into(), ..key.clone() });
                }
            }
            keys.push(key);
        }
        keys
    }
}

/// Whether the API server has not reported back yet what was written.
fn is_newer(written: &Object, reported: &Object) -> Result<bool, String> {
    Ok(revision(written)? > revision(reported)?)
}

fn revision(object: &Object) -> Result<u64, String> {
    match &*object.resource_version {
        "" => Ok(0),
        text => text.parse().map_err(|_| format!("illegal resource version \"{text}\"")),
    }
}
