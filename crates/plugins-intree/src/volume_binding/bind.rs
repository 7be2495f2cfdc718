//! PreBind: volumes and claims are written, then their binding is waited for (`docs/spec/plugins-storage.md` §3.11).
//!
//! Parity: the reference looks once a second, for the first time after a second. Here the binding is looked at as soon as
//! the writes are done and whenever one of the objects changes, and every second for all else; the answers are the same,
//! but sooner.

use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_framework::api::{Object, Timestamp};
use kube_scheduler_framework::{
    ObjectKey, ObjectWrite, PreBindTask, Status, TaskContext, TaskEvent, TaskStep,
};
use tracing::{debug, trace};

use super::check::WatchedVolumes;
use super::find::StaticBinding;
use super::reservation::Reservation;
use super::state::PodVolumes;

const TICK: Duration = Duration::from_secs(1);
const NO_BINDINGS: &str = "the volumes of the pod are not reserved";

#[derive(Debug)]
enum Stage {
    /// The `at`th object is being written: bindings first, then provisions.
    Write { at: usize },
    /// Everything is written.
    Wait { deadline: Timestamp },
}

/// The PreBind task that writes volumes and claims and waits for their binding; see the module.
#[derive(Debug)]
pub(super) struct BindVolumes {
    timeout: Duration,
    stage: Stage,
    /// The claims to provision as the API server has them. What is reserved keeps the revision that was changed.
    claims: Vec<Arc<Object>>,
}

impl BindVolumes {
    pub(super) fn new(timeout: Duration, reservation: &Reservation) -> Self {
        let claims = reservation.provisions.clone();
        Self { timeout, stage: Stage::Write { at: 0 }, claims }
    }

    /// Goes on with the object after the ones that are written.
    fn write(&mut self, cx: &mut TaskContext<'_>, at: usize) -> TaskStep {
        let pod = cx.pod;
        let Some(reservation) = reservation(cx) else { return failed(NO_BINDINGS) };
        let n_bound = reservation.bindings.len();
        let next = if let Some(StaticBinding { claim, volume }) = reservation.bindings.get(at) {
            let text = "Updating PersistentVolume: binding to claim";
            let name = &*volume.name;
            trace!(target: "V5", pod = pod.key(), PV = name, PVC = claim.key(), "{text}");
            Some(volume.clone())
        } else if let Some(claim) = reservation.provisions.get(at - n_bound) {
            let text = "Updating claims objects to trigger volume provisioning";
            trace!(target: "V5", pod = pod.key(), PVC = claim.key(), "{text}");
            Some(claim.clone())
        } else {
            None
        };
        if let Some(object) = next {
            self.stage = Stage::Write { at };
            return TaskStep::Write(ObjectWrite::Replace(object));
        }
        let deadline = cx.cx.now() + self.timeout;
        self.stage = Stage::Wait { deadline };
        // Quirk: without any time to wait, nothing is ever bound in time.
        if self.timeout.is_zero() { out_of_time() } else { self.check(cx, deadline) }
    }

    /// Remembers what the API server has stored.
    fn written(&mut self, cx: &mut TaskContext<'_>, at: usize, object: Arc<Object>) {
        let pod = cx.pod;
        let Some(reservation) = reservation(cx) else { return };
        let n_bound = reservation.bindings.len();
        if let Some(binding) = reservation.bindings.get_mut(at) {
            let text = "Updated PersistentVolume with claim. Waiting for binding to complete";
            let volume = &*object.name;
            debug!(target: "V2", pod = pod.key(), PV = volume, PVC = binding.claim.key(), "{text}");
            binding.volume = object;
        } else if let Some(claim) = self.claims.get_mut(at - n_bound) {
            *claim = object;
        }
    }

    /// Gives up after a failed write: what has not been written is no longer assumed.
    fn give_up(cx: &mut TaskContext<'_>, at: usize, error: &str) {
        let volumes = cx.state.get::<PodVolumes>();
        if let Some(reservation) = volumes.and_then(|volumes| volumes.reserved_on(cx.node)) {
            let n_bound = reservation.bindings.len();
            if let Some(StaticBinding { claim, volume }) = reservation.bindings.get(at) {
                debug!(
                    target: "V4",
                    pod = cx.pod.key(),
                    PV = &*volume.name,
                    PVC = claim.key(),
                    err = error,
                    "Updating PersistentVolume: binding to claim failed"
                );
            } else if let Some(claim) = reservation.provisions.get(at - n_bound) {
                let text = "Updating PersistentVolumeClaim: binding to volume failed";
                debug!(target: "V4", PVC = claim.key(), err = error, "{text}");
            }
            reservation.give_back(at, cx.commands);
        }
    }

    fn check(&self, cx: &TaskContext<'_>, deadline: Timestamp) -> TaskStep {
        let Some(volumes) = cx.state.get::<PodVolumes>() else { return failed(NO_BINDINGS) };
        let Some(reservation) = volumes.reserved_on(cx.node) else { return failed(NO_BINDINGS) };
        let watched = WatchedVolumes {
            cluster: cx.cx.cluster(),
            pod: &cx.pod.name,
            pod_exists: cx.pod_exists,
            node: cx.node,
            bindings: &reservation.bindings,
            claims: &self.claims,
        };
        match watched.check() {
            Err(error) => failed(&format!("binding volumes: {error}")),
            Ok(true) => TaskStep::Done(Status::SUCCESS),
            Ok(false) if cx.cx.now() >= deadline => out_of_time(),
            Ok(false) => {
                let objects: Vec<ObjectKey> = watched.keys();
                TaskStep::Wait { until: Some(deadline.min(cx.cx.now() + TICK)), objects }
            }
        }
    }
}

impl PreBindTask for BindVolumes {
    fn step(&mut self, cx: &mut TaskContext<'_>, event: TaskEvent) -> TaskStep {
        let step = match (&self.stage, event) {
            (Stage::Write { at }, TaskEvent::Written(Ok(object))) => {
                let at = *at;
                self.written(cx, at, object);
                self.write(cx, at + 1)
            }
            (Stage::Write { at }, TaskEvent::Written(Err(error))) => {
                Self::give_up(cx, *at, &error.message);
                failed(&error.message)
            }
            (Stage::Write { at }, _) => {
                let at = *at;
                self.write(cx, at)
            }
            (Stage::Wait { deadline }, _) => self.check(cx, *deadline),
        };
        if let TaskStep::Done(status) = &step {
            let pod = cx.pod;
            if status.is_success() {
                debug!(target: "V2", pod = pod.key(), "All PVCs for pod are bound");
                trace!(target: "V5", pod = pod.key(), "Success binding volumes for pod");
            } else {
                let text = "Failed to bind volumes for pod";
                trace!(target: "V5", pod = pod.key(), err = status.message(), "{text}");
            }
        }
        step
    }
}

fn reservation<'a>(cx: &'a mut TaskContext<'_>) -> Option<&'a mut Reservation> {
    let (on, reservation) = cx.state.get_mut::<PodVolumes>()?.reserved.as_mut()?;
    (**on == *cx.node).then_some(reservation)
}

fn failed(text: &str) -> TaskStep {
    TaskStep::Done(Status::error(text))
}

fn out_of_time() -> TaskStep {
    failed("binding volumes: context deadline exceeded")
}
