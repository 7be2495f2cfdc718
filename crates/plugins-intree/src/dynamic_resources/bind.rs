//! PreBind: allocations and reservations are written, claim by claim, and what they take of the node; then devices that
//! have to be made ready are waited for (`docs/spec/plugins-dra.md` §7.8, §11.4, §11.5, §12).
//!
//! If a claim was changed in between, it is read and written again, a few times. A write without an answer may have been carried
//! out: the claim is read until that is clear ([`unclear`](super::unclear)), and stays in flight until then. Whatever the
//! outcome, a claim whose binding has ended is no longer in flight.

use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_framework::api::Object;
use kube_scheduler_framework::{
    ApiError, ObjectWrite, PreBindTask, Status, TaskContext, TaskEvent, TaskStep,
};

use super::binding::{self, Binding};
use super::kinds::is_allocated;
use super::pod_tries::PodTries;
use super::shared::PluginData;
use super::state::{PodClaim, PodDevices, UnconfirmedWrite};
use super::unclear::{UnclearWrite, WriteEvidence};
use super::waiting::DeviceWait;
use super::{decoded, extended, writes};

const NO_STATE: &str = "not found";

/// How often a claim that others change at the same time is written, and how long it takes to try again.
const CLAIM_TRIES: u32 = 5;
const CLAIM_PAUSE: Duration = Duration::from_millis(10);

/// How long it may take until a claim that was created is seen; then it is read, to know whether it is there.
const KNOWN_TIMEOUT: Duration = Duration::from_secs(120);

/// The PreBind task that writes the claims of a pod; see the module.
pub(super) struct BindClaims {
    shared: Arc<PluginData>,
    stage: Stage,
}

enum Stage {
    /// The claim at this place is next.
    Claim(usize),
    /// A claim is being bound.
    Binding(Binding, ClaimBindingStep),
    /// All claims are bound, and what they take of the node is being written.
    NodeResources(PodTries),
    /// All is written.
    Waiting(DeviceWait),
}

/// What a claim's binding waits for: the answer to a request, or the end of the pause before it.
enum ClaimBindingStep {
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
    /// Waiting until the claim that was created is seen; then the binding ends like this.
    Known(Result<(), String>),
    /// Reading it, after it was not seen for long.
    Unseen(Result<(), String>),
}

impl BindClaims {
    pub(super) fn new(shared: Arc<PluginData>) -> Self {
        Self { shared, stage: Stage::Claim(0) }
    }

    /// Goes on with the first claim from `at` on that has to be bound, or with waiting.
    fn start(&mut self, cx: &mut TaskContext<'_>, at: usize) -> TaskStep {
        let Some(devices) = cx.state.get::<PodDevices>() else { return failed(NO_STATE.into()) };
        let needs_binding = |claim: &PodClaim| {
            let is_needed =
                !claim.is_special || claim.reserved.is_some() || !claim.claim.requests.is_empty();
            let is_certain = claim.given_back == UnconfirmedWrite::Nothing;
            is_needed && !(is_certain && claim.may_be_used(&cx.pod.uid, devices.group.as_ref()))
        };
        let mut rest = devices.claims.iter().enumerate().skip(at);
        let Some((at, claim)) = rest.find(|(_, claim)| needs_binding(claim)) else {
            return self.write_node_resources(cx, PodTries::default());
        };
        let binding = Binding {
            at,
            claim: claim.clone(),
            object: binding::latest(cx, claim),
            consumer: claim.group.clone().unwrap_or_else(|| Arc::new(writes::consumer(cx.pod))),
            special: devices.special.clone().filter(|_| claim.is_special),
            is_changed: false,
            n_tries: 0,
            unclear: None,
            pod_tries: PodTries::default(),
            deadline: None,
        };
        if !claim.is_in_memory() {
            return self.write(cx, binding);
        }
        let Some(special) = &binding.special else {
            let text = format!("extended resource claim not found for node {}", cx.node);
            return self.end(cx, binding, Err(text));
        };
        let object = writes::to_create(&extended::variant_object(&binding.object, special));
        self.ask(binding, ClaimBindingStep::Create, ObjectWrite::Create(Arc::new(object)))
    }

    fn ask(&mut self, binding: Binding, doing: ClaimBindingStep, write: ObjectWrite) -> TaskStep {
        self.stage = Stage::Binding(binding, doing);
        TaskStep::Write(write)
    }

    /// One try at writing the claim.
    fn write(&mut self, cx: &mut TaskContext<'_>, mut binding: Binding) -> TaskStep {
        let key = binding.object.key();
        if !binding.object.json["metadata"]["deletionTimestamp"].is_null() {
            let text = format!("claim {key} got deleted in the meantime");
            return self.end(cx, binding, Err(text));
        }
        if binding.claim.may_be_shared
            && let Some(allocation) = &binding.claim.reserved
            && writes::has_allocation(&binding.object, allocation)
        {
            // Another member of the group was first.
            binding.claim.reserved = None;
            binding.is_changed = true;
            if writes::is_reserved_for(&binding.object, &binding.consumer.uid) {
                return self.written(cx, binding);
            }
        }
        let is_to_allocate = binding.claim.reserved.is_some();
        if binding.has_other_devices() || is_to_allocate && is_allocated(&binding.object) {
            let text = format!("claim {key} got allocated elsewhere in the meantime");
            return self.end(cx, binding, Err(text));
        }
        binding.n_tries += 1;
        if is_to_allocate && !writes::has_finalizer(&binding.object) {
            let mut object = (*binding.object).clone();
            writes::add_finalizer(&mut object);
            return self.ask(
                binding,
                ClaimBindingStep::Finalizer,
                ObjectWrite::Replace(Arc::new(object)),
            );
        }
        if binding.was_given_back()
            && binding.may_be_taken_away()
            && writes::is_reserved_for(&binding.object, &binding.consumer.uid)
        {
            return self.withdraw(binding);
        }
        self.write_status(cx, binding)
    }

    /// Takes away the reservation that an earlier attempt gave back. To write it unchanged would have no effect, and leave
    /// the claim in the revision in which it may yet be taken away.
    fn withdraw(&mut self, binding: Binding) -> TaskStep {
        let mut object = (*binding.object).clone();
        writes::remove_reservation(&mut object, &binding.consumer.uid);
        self.ask(
            binding,
            ClaimBindingStep::Withdrawal,
            ObjectWrite::ReplaceStatus(Arc::new(object)),
        )
    }

    fn write_status(&mut self, cx: &mut TaskContext<'_>, binding: Binding) -> TaskStep {
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
                let text = format!(
                    "claim {} got deallocated elsewhere in the meantime",
                    binding.object.key()
                );
                return self.end(cx, binding, Err(text));
            }
            writes::set_allocation_time(&mut object, cx.cx.now());
        }
        self.ask(binding, ClaimBindingStep::Status, ObjectWrite::ReplaceStatus(Arc::new(object)))
    }

    /// Tries again after a conflict, unless it has been tried often enough.
    fn refused(
        &mut self,
        cx: &mut TaskContext<'_>,
        binding: Binding,
        what: &str,
        error: &ApiError,
    ) -> TaskStep {
        if *error.reason == *"Conflict" && binding.n_tries < CLAIM_TRIES {
            self.stage = Stage::Binding(binding, ClaimBindingStep::Get);
            return pause(cx, CLAIM_PAUSE);
        }
        let text = format!("{what} {}: {error}", binding.object.key());
        self.end(cx, binding, Err(text))
    }

    /// Handles an error of the write of the allocation or the reservation, which may have been carried out nevertheless.
    fn status_failed(
        &mut self,
        cx: &mut TaskContext<'_>,
        mut binding: Binding,
        error: &ApiError,
    ) -> TaskStep {
        let what = match binding.claim.reserved {
            Some(_) => "add allocation and reservation to claim",
            None => "add reservation to claim",
        };
        if error.is_outcome_unknown() {
            let text = format!("{what} {}: {error}", binding.object.key());
            binding.unclear.get_or_insert_with(|| UnclearWrite::new(text));
        }
        if binding.unclear.is_some() {
            self.look_up(cx, binding)
        } else {
            self.refused(cx, binding, what, error)
        }
    }

    /// Reads the claim to see whether a write was carried out, unless it was read often enough.
    fn look_up(&mut self, cx: &mut TaskContext<'_>, mut binding: Binding) -> TaskStep {
        let Some(unclear) = &mut binding.unclear else { return self.write(cx, binding) };
        match unclear.next_look() {
            Some(Duration::ZERO) => self.read(binding, ClaimBindingStep::LookUp),
            Some(length) => {
                self.stage = Stage::Binding(binding, ClaimBindingStep::LookUp);
                pause(cx, length)
            }
            None => {
                let text = unclear.text.clone();
                self.end(cx, binding, Err(text))
            }
        }
    }

    /// The claim was read, or was not, after a write without an answer.
    fn looked_up(
        &mut self,
        cx: &mut TaskContext<'_>,
        mut binding: Binding,
        answer: Result<Arc<Object>, ApiError>,
    ) -> TaskStep {
        let object = match answer {
            Ok(object) if object.uid == binding.object.uid => object,
            // It is not there any more, and no late write can bring it back.
            Ok(_) => return self.unwritten(cx, binding),
            Err(error) if error.code == Some(404) => return self.unwritten(cx, binding),
            Err(_) => return self.look_up(cx, binding),
        };
        let (allocation, consumer) = (binding.claim.reserved.as_deref(), &binding.consumer.uid);
        let found = WriteEvidence::of(&object, &binding.object, allocation, consumer);
        let is_changed = found != WriteEvidence::Nothing;
        binding.is_changed |= is_changed;
        if is_changed {
            binding.unclear = None;
            binding.object = object;
        }
        match found {
            WriteEvidence::Ours => self.written(cx, binding),
            // Of two writes of the same revision the first one wins: either this or what is still on its way.
            WriteEvidence::Nothing => self.write_status(cx, binding),
            WriteEvidence::Other => self.write(cx, binding),
        }
    }

    /// A write without an answer was not carried out, and cannot be any more.
    fn unwritten(&mut self, cx: &mut TaskContext<'_>, mut binding: Binding) -> TaskStep {
        let text = binding.unclear.take().map(|unclear| unclear.text);
        self.end(cx, binding, Err(text.unwrap_or_default()))
    }

    fn read(&mut self, binding: Binding, doing: ClaimBindingStep) -> TaskStep {
        let key = (&*binding.object).into();
        self.ask(binding, doing, ObjectWrite::Get(key))
    }

    /// The claim is as it should be at the API server.
    fn written(&mut self, cx: &mut TaskContext<'_>, binding: Binding) -> TaskStep {
        if binding.claim.is_special {
            self.write_pod_status(cx, binding)
        } else {
            self.end(cx, binding, Ok(()))
        }
    }

    fn write_pod_status(&mut self, cx: &mut TaskContext<'_>, mut binding: Binding) -> TaskStep {
        let mappings = binding.special.as_ref().map(|special| &special.mappings[..]);
        let Some(mappings) = mappings.filter(|mappings| !mappings.is_empty()) else {
            let text = format!(
                "nil or empty request mappings, no update of pod {} ExtendedResourceClaimStatus",
                cx.pod.key()
            );
            return self.end(cx, binding, Err(text));
        };
        let write = writes::special_status(cx.pod, &binding.object.name, mappings);
        binding.pod_tries.count();
        self.ask(binding, ClaimBindingStep::PodStatus, write)
    }

    fn pod_status_refused(
        &mut self,
        cx: &mut TaskContext<'_>,
        binding: Binding,
        error: &ApiError,
    ) -> TaskStep {
        if let Some(length) = binding.pod_tries.pause_after(error) {
            self.stage = Stage::Binding(binding, ClaimBindingStep::PodStatus);
            return pause(cx, length);
        }
        let key = cx.pod.key();
        let text = format!("update pod {key} ExtendedResourceClaimStatus: {error}");
        self.end(cx, binding, Err(text))
    }

    /// The claim is bound, or cannot be. A claim that was made for the pod has to be seen first if it has its devices, so that
    /// they do not look free between being in flight and being seen.
    ///
    /// Parity: the reference stops waiting after two minutes, whether the claim is there or not.
    fn end(
        &mut self,
        cx: &mut TaskContext<'_>,
        mut binding: Binding,
        result: Result<(), String>,
    ) -> TaskStep {
        if !binding.is_special_with_devices() || binding::is_known(cx, &binding) {
            return self.finish(cx, binding, result);
        }
        let now = cx.cx.now();
        // A failure may mean that pod and claim are gone, and that the claim was seen before: that is not waited for.
        let patience = if result.is_ok() { KNOWN_TIMEOUT } else { Duration::ZERO };
        let deadline = *binding.deadline.get_or_insert(now + patience);
        if deadline <= now {
            return self.read(binding, ClaimBindingStep::Unseen(result));
        }
        let objects = vec![(&*binding.object).into()];
        self.stage = Stage::Binding(binding, ClaimBindingStep::Known(result));
        TaskStep::Wait { until: Some(deadline), objects }
    }

    /// A claim that was not seen for long was read, or was not.
    fn read_unseen(
        &mut self,
        cx: &mut TaskContext<'_>,
        mut binding: Binding,
        result: Result<(), String>,
        answer: Result<Arc<Object>, ApiError>,
    ) -> TaskStep {
        let is_gone = match answer {
            Ok(object) => object.uid != binding.object.uid,
            Err(error) => error.code == Some(404),
        };
        if is_gone {
            let text = format!("claim {} got deleted in the meantime", binding.object.key());
            return self.finish(cx, binding, result.and(Err(text)));
        }
        binding.deadline = Some(cx.cx.now() + KNOWN_TIMEOUT);
        self.end(cx, binding, result)
    }

    /// Nothing of the claim is under way any more.
    fn finish(
        &mut self,
        cx: &mut TaskContext<'_>,
        binding: Binding,
        result: Result<(), String>,
    ) -> TaskStep {
        binding::settle(cx, &binding);
        let decoded = decoded::claim(&binding.object);
        match result.and_then(|()| decoded.map_err(|error| error.to_string())) {
            Err(text) => failed(text),
            Ok(claim) => {
                let devices = cx.state.get_mut::<PodDevices>();
                if let Some(known) = devices.and_then(|all| all.claims.get_mut(binding.at)) {
                    known.object = binding.object;
                    known.claim = claim;
                }
                self.start(cx, binding.at + 1)
            }
        }
    }

    /// Writes what the claims take of the node's resources, if they do.
    fn write_node_resources(&mut self, cx: &mut TaskContext<'_>, mut tries: PodTries) -> TaskStep {
        let devices = cx.state.get_mut::<PodDevices>();
        let Some(devices) = devices.filter(|devices| !devices.node_resources.is_empty()) else {
            return self.wait(cx);
        };
        devices.are_node_resources_written = true;
        let write = writes::node_resources(cx.pod, &devices.node_resources);
        tries.count();
        self.stage = Stage::NodeResources(tries);
        TaskStep::Write(write)
    }

    fn node_resources_answered(
        &mut self,
        cx: &mut TaskContext<'_>,
        tries: PodTries,
        answer: Result<Arc<Object>, ApiError>,
    ) -> TaskStep {
        let Err(error) = answer else { return self.wait(cx) };
        if let Some(length) = tries.pause_after(&error) {
            self.stage = Stage::NodeResources(tries);
            return pause(cx, length);
        }
        let key = cx.pod.key();
        failed(format!("updating pod {key} NodeAllocatableResourceClaimStatuses: {error}"))
    }

    fn wait(&mut self, cx: &mut TaskContext<'_>) -> TaskStep {
        match DeviceWait::new(&self.shared, cx) {
            None => TaskStep::Done(Status::SUCCESS),
            Some(waiting) => {
                let step = waiting.check(&self.shared, cx);
                self.stage = Stage::Waiting(waiting);
                step
            }
        }
    }

    /// The API server answered.
    fn answered(
        &mut self,
        cx: &mut TaskContext<'_>,
        mut binding: Binding,
        doing: ClaimBindingStep,
        answer: Result<Arc<Object>, ApiError>,
    ) -> TaskStep {
        let metrics = &self.shared.metrics;
        match (doing, answer) {
            (ClaimBindingStep::Create, Ok(created)) => {
                metrics.claim_created(true);
                binding::remember_created(cx, binding.at, &created);
                binding.object = created;
                binding.is_changed = true;
                self.write(cx, binding)
            }
            (ClaimBindingStep::Create, Err(error)) => {
                metrics.claim_created(false);
                // Quirk: the name of the claim is cleared by then.
                let namespace = &cx.pod.namespace;
                let text = format!("create claim for extended resources {namespace}/: {error}");
                self.end(cx, binding, Err(text))
            }
            (ClaimBindingStep::Get, Ok(object)) => {
                binding.object = object;
                self.write(cx, binding)
            }
            (ClaimBindingStep::Get, Err(error)) => {
                let text =
                    format!("get updated claim {} after conflict: {error}", binding.object.key());
                self.end(cx, binding, Err(text))
            }
            (ClaimBindingStep::Finalizer | ClaimBindingStep::Withdrawal, Ok(object)) => {
                binding.object = object;
                binding.is_changed = true;
                self.write_status(cx, binding)
            }
            (ClaimBindingStep::Finalizer, Err(error)) => {
                self.refused(cx, binding, "add finalizer to claim", &error)
            }
            (ClaimBindingStep::Withdrawal, Err(error)) => {
                self.refused(cx, binding, "add reservation to claim", &error)
            }
            (ClaimBindingStep::Status, Ok(object)) => {
                binding.unclear = None;
                binding.object = object;
                binding.is_changed = true;
                self.written(cx, binding)
            }
            (ClaimBindingStep::Status, Err(error)) => self.status_failed(cx, binding, &error),
            (ClaimBindingStep::LookUp, answer) => self.looked_up(cx, binding, answer),
            (ClaimBindingStep::Unseen(result), answer) => {
                self.read_unseen(cx, binding, result, answer)
            }
            (ClaimBindingStep::PodStatus, Ok(_)) => self.end(cx, binding, Ok(())),
            (ClaimBindingStep::PodStatus, Err(error)) => {
                self.pod_status_refused(cx, binding, &error)
            }
            (ClaimBindingStep::Known(result), _) => self.end(cx, binding, result),
        }
    }

    /// A pause is over.
    fn paused(
        &mut self,
        cx: &mut TaskContext<'_>,
        binding: Binding,
        doing: ClaimBindingStep,
    ) -> TaskStep {
        match doing {
            ClaimBindingStep::PodStatus => self.write_pod_status(cx, binding),
            ClaimBindingStep::Known(result) => self.end(cx, binding, result),
            ClaimBindingStep::LookUp => self.read(binding, ClaimBindingStep::LookUp),
            _ => self.read(binding, ClaimBindingStep::Get),
        }
    }
}

impl PreBindTask for BindClaims {
    fn step(&mut self, cx: &mut TaskContext<'_>, event: TaskEvent) -> TaskStep {
        match (std::mem::replace(&mut self.stage, Stage::Claim(usize::MAX)), event) {
            (Stage::Claim(at), _) => self.start(cx, at),
            (Stage::Binding(binding, doing), TaskEvent::Written(answer)) => {
                self.answered(cx, binding, doing, answer)
            }
            (Stage::Binding(binding, doing), _) => self.paused(cx, binding, doing),
            (Stage::NodeResources(tries), TaskEvent::Written(answer)) => {
                self.node_resources_answered(cx, tries, answer)
            }
            (Stage::NodeResources(tries), _) => self.write_node_resources(cx, tries),
            (Stage::Waiting(waiting), _) => {
                let step = waiting.check(&self.shared, cx);
                self.stage = Stage::Waiting(waiting);
                step
            }
        }
    }

    fn must_finish(&self) -> bool {
        let Stage::Binding(binding, _) = &self.stage else { return false };
        binding.unclear.is_some() || binding.is_special_with_devices()
    }
}

fn pause(cx: &TaskContext<'_>, length: Duration) -> TaskStep {
    TaskStep::Wait { until: Some(cx.cx.now() + length), objects: Vec::new() }
}

fn failed(text: String) -> TaskStep {
    TaskStep::Done(Status::error(text))
}
