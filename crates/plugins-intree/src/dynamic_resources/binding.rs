//! One claim on its way to the API server, and what later attempts see of it.

use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_devices::ExtendedClaim;
use kube_scheduler_devices::api::Consumer;
use kube_scheduler_framework::api::{Object, Timestamp};
use kube_scheduler_framework::{ApiError, ObjectWrite, TaskContext};

use super::kinds::{self, is_allocated};
use super::pod_tries::PodTries;
use super::shared::PluginData;
use super::state::{PodClaim, PodDevices, UnconfirmedWrite};
use super::unclear::{UnclearWrite, WriteEvidence};
use super::{extended, in_flight, writes};

/// How often a claim that others change at the same time is written, and how long it takes to try again.
const CLAIM_TRIES: u32 = 5;
const CLAIM_PAUSE: Duration = Duration::from_millis(10);

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
    /// The request that reads the claim.
    pub(super) fn read(&self) -> ObjectWrite {
        ObjectWrite::Get((&*self.object).into())
    }

    /// Whether the claim was made for the pod and has its devices: to a pod that is tried before the claim is seen they look free.
    pub(super) fn is_special_with_devices(&self) -> bool {
        self.claim.is_special && is_allocated(&self.object)
    }

    /// Whether a reservation that the claim shows may yet be taken away by what an earlier attempt has asked for. For a group that is a
    /// patch of a revision which was known when the node was chosen: a later one stays, and other members may rely on it already.
    fn may_be_taken_away(&self) -> bool {
        let is_for_group = !self.consumer.api_group.is_empty();
        !is_for_group || self.object.resource_version == self.claim.object.resource_version
    }

    /// Whether an earlier attempt of the pod has given it back, and this one cannot know what came of that.
    fn was_given_back(&self) -> bool {
        self.claim.given_back != UnconfirmedWrite::Nothing
    }

    /// Whether the claim has other devices than those for which the node was chosen.
    fn has_other_devices(&self) -> bool {
        let decided = &self.claim.object;
        self.claim.reserved.is_none()
            && self.object.resource_version != decided.resource_version
            && writes::are_devices_exchanged(decided, &self.object)
    }
}

/// What a claim's binding waits for: the answer to a request, or the end of the pause before it.
pub(super) enum BindingWait {
    Create,
    /// Reading the claim after a conflict.
    Get,
    /// Reading the claim to see whether a write without an answer was carried out.
    LookUp,
    Finalizer,
    /// Taking away what an earlier attempt was to take away.
    Withdrawal,
    Status,
    PodStatus,
}

/// What comes next for a claim.
pub(super) enum NextStep {
    Ask(BindingWait, ObjectWrite),
    Pause(BindingWait, Duration),
    /// The claim is as it should be.
    Bound,
}

use NextStep::{Ask, Pause};

/// Binds one claim, step by step. An error says why it cannot be bound.
pub(super) struct ClaimBinder<'a, 'b> {
    pub(super) shared: &'a PluginData,
    pub(super) cx: &'a mut TaskContext<'b>,
    pub(super) binding: &'a mut Binding,
}

impl ClaimBinder<'_, '_> {
    pub(super) fn begin(&mut self) -> Result<NextStep, String> {
        if !self.binding.claim.is_in_memory() {
            return self.write();
        }
        let Some(special) = &self.binding.special else {
            return Err(format!("extended resource claim not found for node {}", self.cx.node));
        };
        let object = writes::to_create(&extended::variant_object(&self.binding.object, special));
        Ok(Ask(BindingWait::Create, ObjectWrite::Create(Arc::new(object))))
    }

    /// One try at writing the claim.
    fn write(&mut self) -> Result<NextStep, String> {
        let binding = &mut *self.binding;
        let key = binding.object.key();
        if !binding.object.json["metadata"]["deletionTimestamp"].is_null() {
            return Err(format!("claim {key} got deleted in the meantime"));
        }
        if binding.claim.may_be_shared
            && let Some(allocation) = &binding.claim.reserved
            && writes::has_allocation(&binding.object, allocation)
        {
            // Another member of the group was first.
            binding.claim.reserved = None;
            binding.is_changed = true;
            if writes::is_reserved_for(&binding.object, &binding.consumer.uid) {
                return self.written();
            }
        }
        let is_to_allocate = binding.claim.reserved.is_some();
        if binding.has_other_devices() || is_to_allocate && is_allocated(&binding.object) {
            return Err(format!("claim {key} got allocated elsewhere in the meantime"));
        }
        binding.n_tries += 1;
        if is_to_allocate && !writes::has_finalizer(&binding.object) {
            let mut object = (*binding.object).clone();
            writes::add_finalizer(&mut object);
            return Ok(Ask(BindingWait::Finalizer, ObjectWrite::Replace(Arc::new(object))));
        }
        if binding.was_given_back()
            && binding.may_be_taken_away()
            && writes::is_reserved_for(&binding.object, &binding.consumer.uid)
        {
            // The reservation that an earlier attempt gave back is taken away. To write it unchanged would have no effect, and
            // leave the claim in the revision in which it may yet be taken away.
            let mut object = (*binding.object).clone();
            writes::remove_reservation(&mut object, &binding.consumer.uid);
            return Ok(Ask(BindingWait::Withdrawal, ObjectWrite::ReplaceStatus(Arc::new(object))));
        }
        self.write_status()
    }

    fn write_status(&mut self) -> Result<NextStep, String> {
        let binding = &*self.binding;
        let mut object = (*binding.object).clone();
        if let Some(allocation) = &binding.claim.reserved {
            writes::set_allocation(&mut object, allocation);
        }
        // What was to be given back may be there still. Otherwise it is added without a look: a pod that names a claim twice gets two
        // reservations, as in the reference.
        let consumer = &*binding.consumer;
        if !(binding.was_given_back() && writes::is_reserved_for(&object, &consumer.uid)) {
            writes::add_reservation(&mut object, consumer);
        }
        if self.shared.settings.binding_timeout.is_some() {
            if !is_allocated(&object) {
                let key = binding.object.key();
                return Err(format!("claim {key} got deallocated elsewhere in the meantime"));
            }
            writes::set_allocation_time(&mut object, self.cx.cx.now());
        }
        Ok(Ask(BindingWait::Status, ObjectWrite::ReplaceStatus(Arc::new(object))))
    }

    /// Tries again after a conflict, unless it has been tried often enough.
    fn refused(&self, what: &str, error: &ApiError) -> Result<NextStep, String> {
        if *error.reason == *"Conflict" && self.binding.n_tries < CLAIM_TRIES {
            return Ok(Pause(BindingWait::Get, CLAIM_PAUSE));
        }
        Err(format!("{what} {}: {error}", self.binding.object.key()))
    }

    /// Handles an error of the write of the allocation or the reservation, which may have been carried out nevertheless.
    fn status_failed(&mut self, error: &ApiError) -> Result<NextStep, String> {
        let what = match self.binding.claim.reserved {
            Some(_) => "add allocation and reservation to claim",
            None => "add reservation to claim",
        };
        if error.is_outcome_unknown() {
            let text = format!("{what} {}: {error}", self.binding.object.key());
            self.binding.unclear.get_or_insert_with(|| UnclearWrite::new(text));
        }
        if self.binding.unclear.is_some() { self.look_up() } else { self.refused(what, error) }
    }

    /// Reads the claim to see whether a write was carried out, unless it was read often enough.
    fn look_up(&mut self) -> Result<NextStep, String> {
        let Some(unclear) = &mut self.binding.unclear else { return self.write() };
        match unclear.next_look() {
            Some(Duration::ZERO) => Ok(Ask(BindingWait::LookUp, self.binding.read())),
            Some(length) => Ok(Pause(BindingWait::LookUp, length)),
            None => Err(unclear.text.clone()),
        }
    }

    /// The claim was read, or was not, after a write without an answer.
    fn looked_up(&mut self, answer: Result<Arc<Object>, ApiError>) -> Result<NextStep, String> {
        let binding = &mut *self.binding;
        let object = match answer {
            Ok(object) if object.uid == binding.object.uid => object,
            Err(error) if error.code != Some(404) => return self.look_up(),
            // It is not there any more, and no late write can bring it back.
            Ok(_) | Err(_) => {
                let text = binding.unclear.take().map(|unclear| unclear.text);
                return Err(text.unwrap_or_default());
            }
        };
        let (allocation, consumer) = (binding.claim.reserved.as_deref(), &binding.consumer.uid);
        let found = WriteEvidence::of(&object, &binding.object, allocation, consumer);
        if found != WriteEvidence::Nothing {
            binding.is_changed = true;
            binding.unclear = None;
            binding.object = object;
        }
        match found {
            WriteEvidence::Ours => self.written(),
            // Of two writes of the same revision the first one wins: either this or what is still on its way.
            WriteEvidence::Nothing => self.write_status(),
            WriteEvidence::Other => self.write(),
        }
    }

    /// The claim is as it should be at the API server.
    fn written(&mut self) -> Result<NextStep, String> {
        if self.binding.claim.is_special { self.write_pod_status() } else { Ok(NextStep::Bound) }
    }

    fn write_pod_status(&mut self) -> Result<NextStep, String> {
        let mappings = self.binding.special.as_ref().map(|special| &special.mappings[..]);
        let Some(mappings) = mappings.filter(|mappings| !mappings.is_empty()) else {
            return Err(format!(
                "nil or empty request mappings, no update of pod {} ExtendedResourceClaimStatus",
                self.cx.pod.key()
            ));
        };
        let write = writes::special_status(self.cx.pod, &self.binding.object.name, mappings);
        self.binding.pod_tries.count();
        Ok(Ask(BindingWait::PodStatus, write))
    }

    /// The API server answered.
    pub(super) fn answered(
        &mut self,
        awaited: BindingWait,
        answer: Result<Arc<Object>, ApiError>,
    ) -> Result<NextStep, String> {
        if let BindingWait::Create = awaited {
            self.shared.metrics.claim_created(answer.is_ok());
        }
        match (awaited, answer) {
            (BindingWait::LookUp, answer) => self.looked_up(answer),
            (BindingWait::PodStatus, Ok(_)) => Ok(NextStep::Bound),
            (awaited, Ok(object)) => {
                self.binding.is_changed |= !matches!(awaited, BindingWait::Get);
                if let BindingWait::Create = awaited
                    && let Some(claim) = claim_at(self.cx, self.binding.at)
                {
                    // From now on there is a claim that has to be deleted if the pod is not bound.
                    claim.object = object.clone();
                }
                self.binding.object = object;
                match awaited {
                    BindingWait::Finalizer | BindingWait::Withdrawal => self.write_status(),
                    BindingWait::Status => {
                        self.binding.unclear = None;
                        self.written()
                    }
                    _ => self.write(),
                }
            }
            (BindingWait::Status, Err(error)) => self.status_failed(&error),
            (BindingWait::Finalizer, Err(error)) => self.refused("add finalizer to claim", &error),
            (BindingWait::Withdrawal, Err(error)) => {
                self.refused("add reservation to claim", &error)
            }
            (BindingWait::Create, Err(error)) => {
                // Quirk: the name of the claim is cleared by then.
                let namespace = &self.cx.pod.namespace;
                Err(format!("create claim for extended resources {namespace}/: {error}"))
            }
            (BindingWait::Get, Err(error)) => {
                let key = self.binding.object.key();
                Err(format!("get updated claim {key} after conflict: {error}"))
            }
            (BindingWait::PodStatus, Err(error)) => {
                if let Some(length) = self.binding.pod_tries.pause_after(&error) {
                    return Ok(Pause(BindingWait::PodStatus, length));
                }
                let key = self.cx.pod.key();
                Err(format!("update pod {key} ExtendedResourceClaimStatus: {error}"))
            }
        }
    }

    /// A pause is over.
    pub(super) fn paused(&mut self, awaited: BindingWait) -> Result<NextStep, String> {
        match awaited {
            BindingWait::PodStatus => self.write_pod_status(),
            BindingWait::LookUp => Ok(Ask(BindingWait::LookUp, self.binding.read())),
            _ => Ok(Ask(BindingWait::Get, self.binding.read())),
        }
    }
}

/// Later attempts see the claim as it is, and no longer as one in flight.
pub(super) fn settle(cx: &mut TaskContext<'_>, binding: &Binding) {
    if binding.is_changed {
        cx.commands.confirm_object(binding.object.clone());
    }
    let reserved = claim_at(cx, binding.at).and_then(|claim| claim.reserved.take());
    if reserved.is_some() {
        // Others may still be about to write the same allocation, unless it is seen from now on.
        let is_over = binding.is_changed && is_allocated(&binding.object);
        in_flight::remove(&binding.claim.flight, is_over, cx.commands);
    }
}

/// The claim of the pod at a place.
pub(super) fn claim_at<'a>(cx: &'a mut TaskContext<'_>, at: usize) -> Option<&'a mut PodClaim> {
    cx.state.get_mut::<PodDevices>()?.claims.get_mut(at)
}

/// The claim to begin with: what other members of the group have written of it meanwhile counts.
pub(super) fn latest(cx: &TaskContext<'_>, claim: &PodClaim) -> Arc<Object> {
    let known = seen(cx, &claim.object).filter(|_| claim.may_be_shared);
    known.unwrap_or(&claim.object).clone()
}

/// The claim as it is seen, if it is.
pub(super) fn seen<'a>(cx: &TaskContext<'a>, claim: &Object) -> Option<&'a Arc<Object>> {
    let Object { namespace, name, uid, .. } = claim;
    kinds::claim(cx.cx.cluster().objects(), namespace, name).filter(|known| known.uid == *uid)
}
