//! Which claims a pod uses (`docs/spec/plugins-dra.md` §6).

use std::sync::Arc;

use kube_scheduler_devices::api::ResourceClaim;
use kube_scheduler_framework::ObjectStore;
use kube_scheduler_framework::api::{Object, Pod, PodResourceClaim, ResourceClaimName};

use super::group;
use super::shared::PluginData;

/// A claim that a pod uses.
pub(super) struct ResolvedClaim {
    pub(super) object: Arc<Object>,
    /// The same, decoded.
    pub(super) claim: Arc<ResourceClaim>,
    /// The entry of `spec.resourceClaims`; `None` for the claim that stands for extended resources.
    pub(super) entry: Option<Arc<str>>,
}

impl PluginData {
    /// The claims of `spec.resourceClaims` in order, without the entries that need none. Entries that name the same claim give
    /// it more than once. A claim that was generated may belong to the pod's group.
    ///
    /// # Errors
    /// Why the pod cannot be scheduled yet, in the reference's words.
    pub(super) fn claims_of(
        &self,
        objects: &ObjectStore,
        pod: &Pod,
    ) -> Result<Vec<ResolvedClaim>, String> {
        let group = self.group_of(pod);
        let mut claims = Vec::with_capacity(pod.spec.resource_claims.len());
        for entry in pod.spec.resource_claims.iter() {
            let Some((name, is_generated)) = claim_name(pod, entry)? else { continue };
            let (object, claim) = self.claim(objects, &pod.namespace, name)?;
            if claim.is_being_deleted {
                return Err(format!("resourceclaim \"{name}\" is being deleted"));
            }
            let is_owned = || {
                is_controlled_by(&claim, &pod.uid)
                    || group.is_some_and(|group| group::owns(&claim, group))
            };
            if is_generated && !is_owned() {
                let why = match group {
                    Some(group) => format!("neither Pod nor PodGroup {group} is the owner"),
                    None => "Pod is not owner".to_owned(),
                };
                return Err(format!(
                    "ResourceClaim {} was not created for Pod {} ({why})",
                    claim.key(),
                    pod.key()
                ));
            }
            let entry = Some(entry.name.clone());
            claims.push(ResolvedClaim { object: object.clone(), claim, entry });
        }
        Ok(claims)
    }
}

/// The name of the claim behind an entry, and whether it was generated for the pod; `None` if none is needed.
pub(super) fn claim_name<'a>(
    pod: &'a Pod,
    entry: &'a PodResourceClaim,
) -> Result<Option<(&'a str, bool)>, String> {
    let quoted = || (format!("pod \"{}\"", pod.key()), format!("\"{}\"", entry.name));
    let found = entry.claim_in(&pod.status.resource_claim_statuses);
    name_of_claim(found, entry.template.is_some(), quoted)
}

/// The same for what was `found` for an entry of a pod or a group; `quoted` is how errors call that and the entry.
pub(super) fn name_of_claim(
    found: ResourceClaimName<'_>,
    has_template: bool,
    quoted: impl Fn() -> (String, String),
) -> Result<Option<(&str, bool)>, String> {
    match found {
        ResourceClaimName::Existing(name) => Ok(Some((name, false))),
        _ if !has_template => {
            let (owner, entry) = quoted();
            let why = "none of the supported fields are set";
            Err(format!("{owner}, spec.resourceClaim {entry}: {why}"))
        }
        ResourceClaimName::Generated(name) => Ok(Some((name, true))),
        ResourceClaimName::Unneeded => Ok(None),
        ResourceClaimName::Pending => Err(format!("{}: ResourceClaim not created yet", quoted().0)),
    }
}

/// Whether the object with this UID, such as a pod, is the owner that manages the claim.
pub(super) fn is_controlled_by(claim: &ResourceClaim, uid: &str) -> bool {
    let controller = claim.owners.iter().find(|owner| owner.controller == Some(true));
    controller.is_some_and(|owner| *owner.uid == *uid)
}
