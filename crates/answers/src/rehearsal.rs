//! A simulated API server that exists only while a question is answered. It carries out the engine's effects at once and without
//! faults, and reports the results as a watch would.

mod claims;
mod volumes;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use kube_scheduler_api_types::well_known::POD_SCHEDULED;
use kube_scheduler_api_types::{Pod, PodStatus, Timestamp};
use kube_scheduler_engine::{Effect, Engine, EvictionOutcome, Input, PodRef, StatusPatch, Token};
use kube_scheduler_framework::{ApiError, BoxFuture, PluginName, Status};

pub(crate) use self::volumes::edited;

/// Something that happened to a pod while effects were carried out.
#[derive(Clone, Debug)]
pub enum RehearsalEvent {
    /// It was bound to its node; the pod with that node.
    Bound(Arc<Pod>),
    /// It was evicted; the pod as it was before.
    Evicted(Arc<Pod>),
    /// Its status was patched; the pod with the new status.
    Changed(Arc<Pod>),
    /// An attempt at scheduling it failed.
    Failed {
        /// Which pod.
        pod: PodRef,
        /// Whether that was an error, and not a rejection.
        is_error: bool,
        /// The message of the condition.
        message: String,
    },
}

/// The API server. The pods and objects on it are those that the engine knows.
#[derive(Debug, Default)]
pub struct Rehearsal {
    revision: u64,
}

impl Rehearsal {
    /// Carries out all pending effects of the engine, and those that follow from them. Returns what happened to pods, in order.
    pub fn carry_out(&mut self, engine: &mut Engine, now: Timestamp) -> Vec<RehearsalEvent> {
        let mut server = Server { engine, now, revision: &mut self.revision, seen: Vec::new() };
        loop {
            let effects: Vec<Effect> = server.engine.drain_effects().collect();
            if effects.is_empty() {
                return server.seen;
            }
            for effect in effects {
                server.carry_out(effect);
            }
        }
    }

    /// Deletes a pod at once, and releases its claims.
    pub fn delete(&mut self, engine: &mut Engine, pod: &Pod, now: Timestamp) {
        let mut server = Server { engine, now, revision: &mut self.revision, seen: Vec::new() };
        server.delete(pod);
    }
}

struct Server<'a> {
    engine: &'a mut Engine,
    now: Timestamp,
    revision: &'a mut u64,
    seen: Vec<RehearsalEvent>,
}

impl Server<'_> {
    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::WriteBinding { token, pod, node } => self.bind(token, &pod, &node),
            Effect::PatchStatus { pod, patch, .. } => self.patch(&pod, &patch),
            Effect::EvictPod { token, pod, patch } => {
                if let Some(patch) = &patch {
                    self.patch(&pod, patch);
                }
                let result = Ok(self.evict(&pod));
                self.handle(Input::PodEvicted { token, result });
            }
            Effect::ClearNomination { token, pod } => {
                self.patch(&pod, &StatusPatch::NO_NOMINATION);
                self.handle(Input::NominationCleared { token, result: Ok(()) });
            }
            Effect::WriteObject { write, awaited_by, .. } => {
                let written = volumes::write(self.engine.cluster(), &write);
                // First the answer, then what a watch reports, as the engine expects of an API server.
                if let Some((token, _)) = awaited_by {
                    self.handle(Input::ObjectWritten { token, result: written.result });
                }
                for object in written.changed {
                    self.handle(Input::ObjectApplied(object));
                }
                if let Some(object) = written.removed {
                    self.handle(Input::ObjectDeleted(object));
                }
            }
            Effect::Await { token, plugin, work } => {
                let status = outcome(work).unwrap_or_else(|| waits_outside(&plugin));
                self.handle(Input::WorkFinished { token, status });
            }
            _ => {}
        }
    }

    fn handle(&mut self, input: Input) {
        self.engine.handle(input, self.now);
    }

    fn known(&self, pod: &PodRef) -> Option<Arc<Pod>> {
        let known = self.engine.known_pod(&pod.namespace, &pod.name)?;
        (known.uid == pod.uid).then(|| known.clone())
    }

    fn bind(&mut self, token: Token, pod: &PodRef, node: &Arc<str>) {
        let result = match self.known(pod) {
            None => {
                let message = format!("pods \"{}\" not found", pod.name);
                Err(ApiError::new("NotFound", message))
            }
            Some(known) => match &known.node_name {
                Some(other) => {
                    let message =
                        format!("pod {} is already assigned to node \"{other}\"", pod.name);
                    Err(ApiError::new("Conflict", message))
                }
                None => Ok(known.with_node_name(node)),
            },
        };
        match result {
            Ok(placed) => {
                self.seen.push(RehearsalEvent::Bound(Arc::new(placed.clone())));
                self.handle(Input::BindingWritten { token, result: Ok(()) });
                self.announce(placed);
            }
            Err(error) => self.handle(Input::BindingWritten { token, result: Err(error) }),
        }
    }

    fn patch(&mut self, pod: &PodRef, patch: &StatusPatch) {
        let Some(known) = self.known(pod) else { return };
        let mut status: PodStatus = (*known.status).clone();
        if let Some(condition) = &patch.condition {
            if *condition.kind == *POD_SCHEDULED {
                self.seen.push(RehearsalEvent::Failed {
                    pod: pod.clone(),
                    is_error: *condition.reason == *"SchedulerError",
                    message: condition.message.to_string(),
                });
            }
            let mut conditions = status.conditions.to_vec();
            match conditions.iter_mut().find(|known| known.kind == condition.kind) {
                Some(known) => *known = condition.clone(),
                None => conditions.push(condition.clone()),
            }
            status.conditions = conditions.into();
        }
        if let Some(nominated) = &patch.nominated_node_name {
            status.nominated_node_name.clone_from(nominated);
        }
        self.announce(Pod { status: Arc::new(status), ..(*known).clone() });
    }

    fn evict(&mut self, pod: &PodRef) -> EvictionOutcome {
        let Some(known) = self.known(pod) else { return EvictionOutcome::AlreadyGone };
        self.seen.push(RehearsalEvent::Evicted(known.clone()));
        self.delete(&known);
        EvictionOutcome::Deleted
    }

    fn delete(&mut self, pod: &Pod) {
        let objects = self.engine.cluster().objects();
        let released = claims::release(objects, &pod.namespace, &pod.uid);
        let (namespace, name) = (pod.namespace.clone(), pod.name.clone());
        self.handle(Input::PodDeleted { namespace, name });
        for claim in released.changed {
            self.handle(Input::ObjectApplied(claim));
        }
        for claim in released.removed {
            self.handle(Input::ObjectDeleted(claim));
        }
    }

    /// Gives the engine a pod's new state, as a watch would.
    fn announce(&mut self, pod: Pod) {
        *self.revision += 1;
        let resource_version: Arc<str> = format!("simulated-{}", self.revision).into();
        let pod = Arc::new(Pod { resource_version, ..pod });
        self.seen.push(RehearsalEvent::Changed(pod.clone()));
        self.handle(Input::PodApplied(pod));
    }
}

fn waits_outside(plugin: &PluginName) -> Status {
    Status::error(format!(
        "{plugin} waits for an answer from outside, which a simulation does not have"
    ))
}

/// The result of a plugin's work, if it ends without waiting for anything.
fn outcome(mut work: BoxFuture<Status>) -> Option<Status> {
    let mut context = Context::from_waker(Waker::noop());
    match Pin::as_mut(&mut work).poll(&mut context) {
        Poll::Ready(status) => Some(status),
        Poll::Pending => None,
    }
}
