//! The claims of a pod: what PreFilter finds out about them, and what makes it reject the pod at once
//! (`docs/spec/plugins-storage.md` §3.3).

use std::sync::Arc;

use kube_scheduler_framework::api::{Object, Pod};
use kube_scheduler_framework::{ClusterView, Status};

use super::affinity::BoundAffinity;
use super::delayed::DelayedClaims;
use crate::volumes::{self, PersistentVolume, VolumeClaim, check_ownership, is_delay_binding};

const CLAIM: &str = "PersistentVolumeClaim";
const VOLUME: &str = "PersistentVolume";
const UNBOUND_IMMEDIATE: &str = "pod has unbound immediate PersistentVolumeClaims";

/// A claim as it is assumed to be, or as the API server last reported it if nothing is assumed.
pub(super) fn latest_claim<'a>(
    cluster: ClusterView<'a>,
    namespace: &str,
    name: &str,
) -> Option<&'a Arc<Object>> {
    cluster.objects_of("").latest(CLAIM, namespace, name)
}

/// A claim as the API server last reported it. The error for a missing one is worded as in the reference's cache.
pub(super) fn reported_claim<'a>(
    cluster: ClusterView<'a>,
    namespace: &str,
    name: &str,
) -> Result<&'a Arc<Object>, String> {
    let reported = cluster.objects_of("").get(CLAIM, namespace, name);
    reported.ok_or_else(|| format!("persistentvolumeclaims \"{namespace}/{name}\" not found"))
}

/// A volume as the API server last reported it. The error for a missing one is worded as in the reference's cache.
pub(super) fn reported_volume<'a>(
    cluster: ClusterView<'a>,
    name: &str,
) -> Result<&'a Arc<Object>, String> {
    let reported = cluster.objects_of("").get(VOLUME, "", name);
    reported.ok_or_else(|| format!("persistentvolumes \"{name}\" not found"))
}

/// What PreFilter knows of a pod's claims.
#[derive(Clone, Debug, Default)]
pub(super) struct PodClaims {
    /// The volumes of bound claims, in the order of the pod's volumes; `None` for those that do not exist.
    pub(super) bound: Vec<Option<BoundAffinity>>,
    /// All other claims.
    pub(super) delayed: DelayedClaims,
}

impl PodClaims {
    /// Looks at the claims of a pod; the status is that of PreFilter if it ends here. A pod without claims has none.
    pub(super) fn new(cluster: ClusterView<'_>, pod: &Pod) -> Result<Self, Status> {
        let mut claims = Vec::new();
        for volume in pod.volumes.iter() {
            let Some(claim) = volume.claim_in(&pod.name) else { continue };
            let unusable = |text: String| Status::unresolvable(text);
            let name = &*claim.name;
            let reported = match volumes::claim(cluster, &pod.namespace, name) {
                Ok(reported) => reported,
                Err(_) if claim.is_ephemeral => {
                    return Err(unusable(format!(
                        "waiting for ephemeral volume controller to create the persistentvolumeclaim \"{name}\""
                    )));
                }
                Err(not_found) => return Err(unusable(not_found)),
            };
            if reported.phase() == "Lost" {
                return Err(unusable(format!(
                    "persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \"{}\"",
                    reported.volume_name()
                )));
            }
            if reported.is_being_deleted() {
                return Err(unusable(format!("persistentvolumeclaim \"{name}\" is being deleted")));
            }
            if claim.is_ephemeral {
                check_ownership(pod, reported).map_err(unusable)?;
            }
            claims.push(claim);
        }
        let mut sorted = Self::default();
        let mut delayed = Vec::new();
        let mut has_immediate = false;
        for claim in claims {
            // What exists also has a latest form, so there is no other error to report.
            let Some(object) = latest_claim(cluster, &pod.namespace, &claim.name) else { continue };
            let claim = VolumeClaim::new(object);
            if claim.is_fully_bound() {
                let volume = cluster.objects_of("").latest(VOLUME, "", claim.volume_name());
                sorted
                    .bound
                    .push(volume.map(|volume| BoundAffinity::new(PersistentVolume::new(volume))));
            } else if is_delay_binding(cluster, claim).map_err(Status::error)?
                && claim.volume_name().is_empty()
            {
                delayed.push(object);
            } else {
                has_immediate = true;
            }
        }
        if has_immediate {
            return Err(Status::unresolvable(UNBOUND_IMMEDIATE));
        }
        sorted.delayed = DelayedClaims::of(cluster, delayed);
        Ok(sorted)
    }

    /// Whether every claim is bound to a volume that can be reached from any node.
    pub(super) fn are_everywhere(&self) -> bool {
        self.delayed.claims.is_empty()
            && self.bound.iter().all(|volume| volume.as_ref().is_some_and(BoundAffinity::is_none))
    }
}

/// Whether every claim of the pod is bound, as far as is known; an unusable claim is not.
pub(super) fn all_bound(cluster: ClusterView<'_>, pod: &Pod) -> bool {
    pod.volumes.iter().filter_map(|volume| volume.claim_in(&pod.name)).all(|claim| {
        latest_claim(cluster, &pod.namespace, &claim.name).is_some_and(|object| {
            let bound = VolumeClaim::new(object);
            bound.is_fully_bound() && (!claim.is_ephemeral || check_ownership(pod, bound).is_ok())
        })
    })
}
