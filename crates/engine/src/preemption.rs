//! Carrying preemptions out: victims go, nominations that no longer hold are cleared, the preemptor waits.
//!
//! A preemption is a [`Task`] of steps; the next one starts when every write of the one before has been answered. In the
//! background, the default, the attempt ends at once with its nomination, and the pod is not tried again while its task
//! runs: nominations first, then all victims but the last, then the last. In the foreground (gate
//! `SchedulerAsyncPreemption` off) the attempt itself waits for its victims, and nobody is tried meanwhile.
//!
//! Invariants: a task ends, with or without error, once everything it sent out is answered; a victim is told of its
//! eviction only when that has succeeded; a pod is held back exactly while [`RunningPreemptions`] says so.
//!
//! Behaviour: `spec/preemption.md` §7.

mod table;

use std::sync::Arc;

use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_framework::{Commands, EventKind, FitError, NominatedPods, PluginName};
use kube_scheduler_queue::QueuedPod;

use self::table::{Errand, Step, Task};
use crate::condition::{Condition, changed_condition};
use crate::effect::{Effect, PodRef, StatusPatch, Token};
use crate::engine::Engine;
use crate::failure::{Failure, Nominating};
use crate::input::Evicted;
use crate::policy::Entry;

pub(crate) use self::table::Preemptions;

const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// What an attempt found out that makes room by preemption.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) node: Arc<str>,
    /// Most important first, without those that are going already.
    victims: Vec<Arc<Pod>>,
    n_victims: usize,
    plugin: PluginName,
}

impl Plan {
    /// `None` when there is nothing to do: no victims, or in the background none that is not going already.
    pub(crate) fn new(
        nominating: &Nominating,
        victims: Vec<Arc<Pod>>,
        plugin: Option<PluginName>,
        is_in_background: bool,
    ) -> Option<Self> {
        let Nominating::To(node) = nominating else { return None };
        let n_victims = victims.len();
        let victims: Vec<_> =
            victims.into_iter().filter(|victim| victim.deletion_requested.is_none()).collect();
        let plugin = plugin.unwrap_or_default();
        let n_to_do = if is_in_background { victims.len() } else { n_victims };
        (n_to_do > 0).then(|| Self { node: node.clone(), victims, n_victims, plugin })
    }
}

/// An attempt that waits for the end of its own preemption.
#[derive(Debug)]
pub(crate) struct HeldAttempt {
    pub(crate) queued: QueuedPod<Entry>,
    pub(crate) profile: usize,
    pub(crate) error: Box<FitError>,
    pub(crate) commands: Commands,
}

impl Engine {
    /// Registers a preemption; [`advance`](Self::advance_preemption) sets it going. From here on the pod is held back,
    /// unless its attempt is `held`.
    pub(crate) fn begin_preemption(
        &mut self,
        preemptor: Arc<Pod>,
        plan: Plan,
        held: Option<HeldAttempt>,
        now: Timestamp,
    ) -> u64 {
        let Plan { node, victims, n_victims, plugin } = plan;
        self.counts.preemption_begun(n_victims);
        self.preemptions.insert(Task {
            preemptor,
            plugin,
            node,
            victims,
            step: if held.is_some() { Step::BegunHeld } else { Step::Begun },
            n_out: 0,
            error: None,
            has_failed_to_evict: false,
            is_last_going: false,
            begun: now,
            held,
        })
    }

    /// Takes a preemption's next steps until one has to be waited for.
    pub(crate) fn advance_preemption(&mut self, id: u64, now: Timestamp) {
        while let Some(task) = self.preemptions.idle(id) {
            let step = task.next_step();
            let victims = task.victims_of(step);
            match step {
                Step::Nominations | Step::NominationsAfter => self.clear_nominations(id),
                Step::Others | Step::Everybody => {
                    for victim in victims {
                        self.evict(id, &victim, now);
                    }
                }
                Step::Last => {
                    let Some(victim) = victims.first() else { continue };
                    if self.bindings.is_evictable_in_memory(&victim.uid) {
                        // What it gives back is told to a preemptor that is not held back any more: nothing else would
                        // bring the pod back.
                        self.preemptions.release(id);
                    }
                    self.evict(id, victim, now);
                }
                Step::Begun | Step::BegunHeld | Step::Done => return self.end_preemption(id, now),
            }
        }
    }

    /// A victim's eviction was answered.
    pub(crate) fn pod_evicted(
        &mut self,
        token: Token,
        result: Result<Evicted, String>,
        now: Timestamp,
    ) {
        let Some((id, Errand::Evict(victim))) = self.preemptions.redeem(token) else { return };
        match result {
            Ok(Evicted::Deleted) => self.tell_victim(id, &victim, ""),
            Ok(Evicted::AlreadyGone) => {}
            Err(error) => self.preemptions.failed(id, error, true),
        }
        self.advance_preemption(id, now);
    }

    /// The withdrawal of a nomination was answered.
    pub(crate) fn nomination_cleared(
        &mut self,
        token: Token,
        result: Result<(), String>,
        now: Timestamp,
    ) {
        let Some((id, Errand::ClearNomination)) = self.preemptions.redeem(token) else { return };
        if let Err(error) = result {
            self.note(format!(
                "cannot clear the nominatedNodeName of a lower priority pod on the same node: {error}"
            ));
            self.preemptions.failed(id, error, false);
        }
        self.advance_preemption(id, now);
    }

    /// Pods of lower priority that are nominated to the node may not fit there any more; without their nomination they
    /// look for another place (`spec/preemption.md` §7.4).
    fn clear_nominations(&mut self, id: u64) {
        let Some(task) = self.preemptions.get(id) else { return };
        let priority = task.preemptor.priority();
        let mut nominated = self.queue.nominated_pods(&task.node);
        nominated.retain(|pod| {
            pod.priority() < priority
                && pod.nominated_node_name().is_some_and(|node| !node.is_empty())
        });
        for pod in nominated {
            let token = self.preemptions.send(id, Errand::ClearNomination);
            self.effects.push(Effect::ClearNomination { token, pod: PodRef::from(&*pod) });
        }
    }

    /// Evicts one victim: in memory if it is not bound yet, else through the API server.
    fn evict(&mut self, id: u64, victim: &Arc<Pod>, now: Timestamp) {
        let Some(task) = self.preemptions.get(id) else { return };
        let plugin = task.plugin.clone();
        let scheduler = task.preemptor.spec.scheduler_name.clone();
        if self.preempt_waiting(&victim.uid, now) || self.cancel_pre_bind(&victim.uid, &plugin, now)
        {
            return self.tell_victim(id, victim, " (in kube-scheduler memory).");
        }
        let message = format!("{scheduler}: preempting to accommodate a higher priority pod");
        let condition = Condition {
            kind: DISRUPTION_TARGET,
            status: "True",
            reason: "PreemptionByScheduler",
            message: &message,
        };
        let patch = changed_condition(victim, &condition, now).map(|condition| StatusPatch {
            condition: Some(condition),
            nominated_node_name: None,
            has_conditions: !victim.status.conditions.is_empty(),
        });
        let token = self.preemptions.send(id, Errand::Evict(victim.clone()));
        self.effects.push(Effect::EvictPod { token, pod: PodRef::from(&**victim), patch });
    }

    fn tell_victim(&mut self, id: u64, victim: &Pod, how: &str) {
        let Some(task) = self.preemptions.get(id) else { return };
        // The preemptor's UID, where one would expect its name.
        let note = format!("Preempted by pod {} on node {}{how}", task.preemptor.uid, task.node);
        let reporting = task.preemptor.spec.scheduler_name.clone();
        self.effects.push(Effect::RecordEvent {
            pod: PodRef::from(victim),
            resource_version: victim.resource_version.clone(),
            kind: EventKind::Normal,
            reason: "Preempted".into(),
            action: "Preempting".into(),
            note,
            reporting,
        });
    }

    fn end_preemption(&mut self, id: u64, now: Timestamp) {
        let Some(task) = self.preemptions.remove(id) else { return };
        let preemptor = task.preemptor;
        match (task.held, task.error) {
            (Some(held), error) => {
                let HeldAttempt { queued, profile, error: mut unfit, commands } = held;
                let nominating = match error.filter(|_| task.has_failed_to_evict) {
                    Some(error) => {
                        unfit.diagnosis.post_filter_message = format!("preemption: {error}");
                        Nominating::Keep
                    }
                    None => Nominating::To(task.node),
                };
                self.fail(queued, None, profile, Failure::Unfit(unfit, nominating), now);
                self.carry_out(commands, now);
            }
            (None, Some(error)) => {
                self.counts.preemption_ended(true, now.saturating_since(task.begun));
                self.note(format!(
                    "error occurred during async preemption for pod {}: {error}",
                    preemptor.key()
                ));
                // Without this the pod might wait for an event that never comes.
                self.activate(preemptor, now);
            }
            (None, None) => {
                self.counts.preemption_ended(false, now.saturating_since(task.begun));
                // Parity: when the last victims went before it was their turn, their events found the pod held back, and
                // the reference leaves it parked until the next event. Nothing else has to be waited for, so it is tried.
                let is_held = self
                    .queue
                    .get(&preemptor.namespace, &preemptor.name)
                    .is_some_and(QueuedPod::is_gated);
                let is_gone = |victim: &Arc<Pod>| self.cluster.pod(&victim.uid).is_none();
                if is_held && task.victims.iter().all(is_gone) {
                    self.activate(preemptor, now);
                }
            }
        }
    }

    fn activate(&mut self, pod: Arc<Pod>, now: Timestamp) {
        self.with_queue(now, |queue, policy| queue.activate(&[Entry(pod)], now, policy));
    }
}
