//! One claim on its way to the API server, and what later attempts see of it.

use std::sync::Arc;

use kube_scheduler_devices::ExtendedClaim;
use kube_scheduler_devices::api::Consumer;
use kube_scheduler_framework::TaskContext;
use kube_scheduler_framework::api::{Object, Timestamp};

use super::pod_tries::PodTries;
use super::state::{PodClaim, PodDevices, UnconfirmedWrite};
use super::unclear::UnclearWrite;
use super::{in_flight, kinds, writes};

/// One claim on its way.
pub(super) struct Binding {
    pub(super) at: usize,
    /// As it was when the node was chosen, with the allocation that is left to write.
    pub(super) claim: PodClaim,
    /// As the API server has it, as far as is known.
    pub(super) object: Arc<Object>,
    /// The pod or pod group that it is reserved for.
    pub(super) consumer: Arc<Consumer>,
    pub(super) special: Option<Arc<ExtendedClaim>>,
    pub(super) is_changed: bool,
    pub(super) n_tries: u32,
    /// Set while the server may still have carried out a write of the allocation, or may yet do so.
    pub(super) unclear: Option<UnclearWrite>,
    pub(super) pod_tries: PodTries,
    /// When a claim that was created is read, if it has not been seen by then.
    pub(super) deadline: Option<Timestamp>,
}

impl Binding {
    /// Whether the claim was made for the pod and has its devices: to a pod that is tried before the claim is seen they look free.
    pub(super) fn is_special_with_devices(&self) -> bool {
        self.claim.is_special && kinds::is_allocated(&self.object)
    }

    /// Whether a reservation that the claim shows may yet be taken away by what an earlier attempt has asked for. For a group that is a
    /// patch of a revision which was known when the node was chosen: a later one stays, and other members may rely on it already.
    pub(super) fn may_be_taken_away(&self) -> bool {
        let is_for_group = !self.consumer.api_group.is_empty();
        !is_for_group || self.object.resource_version == self.claim.object.resource_version
    }

    /// Whether an earlier attempt of the pod has given it back, and this one cannot know what came of that.
    pub(super) fn was_given_back(&self) -> bool {
        self.claim.given_back != UnconfirmedWrite::Nothing
    }

    /// Whether the claim has other devices than those for which the node was chosen.
    pub(super) fn has_other_devices(&self) -> bool {
        let decided = &self.claim.object;
        self.claim.reserved.is_none()
            && self.object.resource_version != decided.resource_version
            && writes::are_devices_exchanged(decided, &self.object)
    }
}

/// Later attempts see the claim as it is, and no longer as one in flight.
pub(super) fn settle(cx: &mut TaskContext<'_>, binding: &Binding) {
    if binding.is_changed {
        cx.commands.confirm_object(binding.object.clone());
    }
    let devices = cx.state.get_mut::<PodDevices>();
    let claim = devices.and_then(|devices| devices.claims.get_mut(binding.at));
    if let Some(claim) = claim
        && claim.reserved.take().is_some()
    {
        // Others may still be about to write the same allocation, unless it is seen from now on.
        let is_over = binding.is_changed && kinds::is_allocated(&binding.object);
        in_flight::remove(&claim.flight, is_over, cx.commands);
    }
}

/// The claim to begin with: what other members of the group have written of it meanwhile counts.
pub(super) fn latest(cx: &TaskContext<'_>, claim: &PodClaim) -> Arc<Object> {
    let Object { namespace, name, uid, .. } = &*claim.object;
    let known = kinds::claim(cx.cx.cluster().objects(), namespace, name);
    let known = known.filter(|known| claim.may_be_shared && known.uid == *uid);
    known.unwrap_or(&claim.object).clone()
}

/// Whether the claim is seen.
pub(super) fn is_known(cx: &TaskContext<'_>, binding: &Binding) -> bool {
    let Object { namespace, name, uid, .. } = &*binding.object;
    let known = kinds::claim(cx.cx.cluster().objects(), namespace, name);
    known.is_some_and(|known| known.uid == *uid)
}

/// From now on there is a claim that has to be deleted if the pod is not bound.
pub(super) fn remember_created(cx: &mut TaskContext<'_>, at: usize, created: &Arc<Object>) {
    let devices = cx.state.get_mut::<PodDevices>();
    if let Some(claim) = devices.and_then(|devices| devices.claims.get_mut(at)) {
        claim.object = created.clone();
    }
}
