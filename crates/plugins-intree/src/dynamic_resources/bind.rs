//! PreBind: allocations and reservations are written, claim by claim, and what they take of the node; then devices that
//! have to be made ready are waited for (`docs/spec/plugins-dra.md` §7.8, §11.4, §11.5, §12).
//!
//! If a claim was changed in between, it is read and written again, a few times. A write without an answer may have been carried
//! out: the claim is read until that is clear ([`unclear`](super::unclear)), and stays in flight until then. Whatever the
//! outcome, a claim whose binding has ended is no longer in flight.

use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_framework::api::Object;
use kube_scheduler_framework::{ApiError, PreBindTask, Status, TaskContext, TaskEvent, TaskStep};

use super::binding::{self, Binding, BindingWait, ClaimBinder, NextStep};
use super::pod_tries::PodTries;
use super::shared::PluginData;
use super::state::{PodClaim, PodDevices, UnconfirmedWrite};
use super::waiting::DeviceWait;
use super::{decoded, no_state, writes};

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
    Binding(Binding, BindingWait),
    /// Waiting until the claim that was created is seen; then the binding ends like this.
    Known(Binding, Result<(), String>),
    /// Reading it, after it was not seen for long.
    Unseen(Binding, Result<(), String>),
    /// All claims are bound, and what they take of the node is being written.
    NodeResources(PodTries),
    /// All is written.
    Waiting(DeviceWait),
}

impl BindClaims {
    pub(super) fn new(shared: Arc<PluginData>) -> Self {
        Self { shared, stage: Stage::Claim(0) }
    }

    /// Goes on with the first claim from `at` on that has to be bound, or with waiting.
    fn start(&mut self, cx: &mut TaskContext<'_>, at: usize) -> TaskStep {
        let Some(devices) = cx.state.get::<PodDevices>() else { return TaskStep::Done(no_state()) };
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
        self.go_on(cx, binding, |it| it.begin())
    }

    /// Takes the next step for a claim.
    fn go_on(
        &mut self,
        cx: &mut TaskContext<'_>,
        mut binding: Binding,
        step: impl FnOnce(&mut ClaimBinder<'_, '_>) -> Result<NextStep, String>,
    ) -> TaskStep {
        let shared = &self.shared;
        match step(&mut ClaimBinder { shared, cx, binding: &mut binding }) {
            Ok(NextStep::Ask(awaited, write)) => {
                self.stage = Stage::Binding(binding, awaited);
                TaskStep::Write(write)
            }
            Ok(NextStep::Pause(awaited, length)) => {
                self.stage = Stage::Binding(binding, awaited);
                pause(cx, length)
            }
            Ok(NextStep::Bound) => self.end(cx, binding, Ok(())),
            Err(text) => self.end(cx, binding, Err(text)),
        }
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
        if !binding.is_special_with_devices() || binding::seen(cx, &binding.object).is_some() {
            return self.finish(cx, binding, result);
        }
        let now = cx.cx.now();
        // A failure may mean that pod and claim are gone, and that the claim was seen before: that is not waited for.
        let patience = if result.is_ok() { KNOWN_TIMEOUT } else { Duration::ZERO };
        let deadline = *binding.deadline.get_or_insert(now + patience);
        if deadline <= now {
            let read = binding.read();
            self.stage = Stage::Unseen(binding, result);
            return TaskStep::Write(read);
        }
        let objects = vec![(&*binding.object).into()];
        self.stage = Stage::Known(binding, result);
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
        match answer {
            Ok(object) if object.uid == binding.object.uid => {
                // The devices of a pod that is gone may be taken back before the watch shows that it had any. It may never show the claim:
                // what came and went while a watch was broken off is in no list.
                if result.is_err() {
                    binding.object = object;
                }
            }
            Err(error) if error.code != Some(404) => {}
            Ok(_) | Err(_) => {
                let text = format!("claim {} got deleted in the meantime", binding.object.key());
                return self.finish(cx, binding, result.and(Err(text)));
            }
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
                if let Some(known) = binding::claim_at(cx, binding.at) {
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
}

impl PreBindTask for BindClaims {
    fn step(&mut self, cx: &mut TaskContext<'_>, event: TaskEvent) -> TaskStep {
        match (std::mem::replace(&mut self.stage, Stage::Claim(usize::MAX)), event) {
            (Stage::Claim(at), _) => self.start(cx, at),
            (Stage::Binding(binding, awaited), TaskEvent::Written(answer)) => {
                self.go_on(cx, binding, |it| it.answered(awaited, answer))
            }
            (Stage::Binding(binding, awaited), _) => {
                self.go_on(cx, binding, |it| it.paused(awaited))
            }
            (Stage::Unseen(binding, result), TaskEvent::Written(answer)) => {
                self.read_unseen(cx, binding, result, answer)
            }
            (Stage::Known(binding, result) | Stage::Unseen(binding, result), _) => {
                self.end(cx, binding, result)
            }
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
        match &self.stage {
            Stage::Binding(binding, _) | Stage::Known(binding, _) | Stage::Unseen(binding, _) => {
                binding.unclear.is_some() || binding.is_special_with_devices()
            }
            _ => false,
        }
    }
}

fn pause(cx: &TaskContext<'_>, length: Duration) -> TaskStep {
    TaskStep::Wait { until: Some(cx.cx.now() + length), objects: Vec::new() }
}

fn failed(text: String) -> TaskStep {
    TaskStep::Done(Status::error(text))
}
