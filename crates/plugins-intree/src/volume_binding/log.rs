//! Log lines about the search for volumes (`docs/spec/observability.md` §5.4).
//!
//! Invariant: a line that is off costs one atomic load; no text is made for it.

use kube_scheduler_framework::api::{Object, Pod};
use tracing::{Level, enabled, trace};

use super::provisioning::Place;
use crate::volumes::VolumeClaim;

/// The search for volumes on one node, for a log that shows it.
#[derive(Clone, Copy)]
pub(super) struct SearchLog<'a> {
    pod: &'a Pod,
    node: &'a str,
}

impl<'a> SearchLog<'a> {
    /// `None` when such lines are off.
    pub(super) fn start(pod: &'a Pod, node: &'a str) -> Option<Self> {
        if !enabled!(target: "V5", Level::TRACE) {
            return None;
        }
        trace!(target: "V5", pod = pod.key(), node, "FindPodVolumes");
        Some(Self { pod, node })
    }

    /// Whether the node reaches a bound volume, and if not, why.
    pub(super) fn bound_volume(self, name: &str, answer: Result<(), String>) {
        let Self { pod, node } = self;
        match answer {
            Ok(()) => {
                let text = "PersistentVolume and node matches for pod";
                trace!(target: "V5", PV = name, node, pod = pod.key(), "{text}");
            }
            Err(err) => {
                let text = "PersistentVolume and node mismatch for pod";
                trace!(target: "V5", PV = name, node, pod = pod.key(), err, "{text}");
            }
        }
    }

    /// The node reaches all volumes of bound claims.
    pub(super) fn all_bound_match(self) {
        let Self { pod, node } = self;
        trace!(target: "V5", pod = pod.key(), node, "All bound volumes for pod match with node");
    }

    /// The volume that an unbound claim gets, if there is one.
    pub(super) fn matching(self, claim: &Object, volume: Option<&Object>) {
        let (Self { pod, node }, claim) = (self, claim.key());
        match volume {
            Some(volume) => trace!(
                target: "V5",
                PV = &*volume.name,
                PVC = claim,
                node,
                pod = pod.key(),
                "Found matching PV for PVC for pod"
            ),
            None => {
                trace!(target: "V5", pod = pod.key(), PVC = claim, node, "No matching volumes for pod");
            }
        }
    }

    /// Every unbound claim that could have an existing volume gets one.
    pub(super) fn all_matching(self) {
        let Self { pod, node } = self;
        trace!(target: "V5", pod = pod.key(), node, "Found matching volumes for pod");
    }

    /// No volume can be made for a claim on the node.
    pub(super) fn no_place(self, claim: &Object, place: Place<'_>) {
        let (claimed, key) = (VolumeClaim::new(claim), claim.key());
        match place {
            Place::Fits(_) => {}
            Place::Never => trace!(
                target: "V5",
                storageClassName = claimed.class(),
                PVC = key,
                "Storage class of claim does not support dynamic provisioning"
            ),
            Place::Unavailable => trace!(
                target: "V5",
                node = self.node,
                PVC = key,
                "Node cannot satisfy provisioning topology requirements of claim"
            ),
            Place::Full => trace!(
                target: "V5",
                node = self.node,
                PVC = key,
                size = claimed.requested_storage().unwrap_or_default().value(),
                storageClass = claimed.class(),
                "Node has no accessible CSIStorageCapacity with enough capacity for PVC"
            ),
        }
    }

    /// Volumes can be made for this many claims.
    pub(super) fn provisioned(self, n_claims: usize) {
        let Self { pod, node } = self;
        trace!(
            target: "V5",
            claimCount = n_claims,
            pod = pod.key(),
            node,
            "Provisioning for claims of pod that has no matching volumes..."
        );
    }
}
