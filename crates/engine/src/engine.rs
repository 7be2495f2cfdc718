//! The engine itself: one value that owns all state, fed with inputs and time, giving effects.
//!
//! Four kinds of methods: [`handle`](Engine::handle) takes what happened; [`schedule_next`](Engine::schedule_next) decides
//! about one pod; [`drain_effects`](Engine::drain_effects) gives what must be done; everything else only reads. `now`
//! must never go back from one call to the next.
//!
//! The work is done by the parts, each of which owns its state: [`SchedulingCycle`] finds nodes, [`Bindings`] leads pods to
//! them, [`Preemptions`] makes room, [`Intake`] applies changes of the cluster. All of them work on the [`Core`]. A part may
//! call those that stand before it in this list: core, bindings, preemptions, then intake and cycle.

use std::sync::Arc;

use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_cache::ClusterState;
use kube_scheduler_framework::Status;
use kube_scheduler_queue::PendingCounts;
use kube_scheduler_runtime::Profile;

use crate::backfill::hold::expire_hold;
use crate::binding::Bindings;
use crate::core::Core;
use crate::counts::{BoundPod, PreemptionCounts, ProfileCounts};
use crate::cycle::{ClassCacheCounts, SchedulingCycle};
use crate::deadlines::WakeUp;
use crate::effect::Effect;
use crate::group::membership::group_of;
use crate::group::waits::report_incomplete_groups;
use crate::group::waits::{IncompleteGroup, what_is_missing};
use crate::input::Input;
use crate::intake::Intake;
use crate::measures::Measurements;
use crate::notice::Notice;
use crate::observer::{NoObserver, Observer};
use crate::policy::Queue;
use crate::preemption::Preemptions;
use crate::readers::ObjectReaders;
use crate::turn::Turn;

/// The scheduler without its shell.
#[derive(Debug)]
pub struct Engine {
    pub(crate) core: Core,
    pub(crate) cycle: SchedulingCycle,
    pub(crate) bindings: Bindings,
    pub(crate) preemptions: Preemptions,
}

impl Engine {
    /// Handles one input: brings a change of the cluster to all parts, or the result of an effect to the work that waits for it.
    /// Deadlines that have passed by `now` are handled before. What has to be done outside is in
    /// [`drain_effects`](Self::drain_effects) afterwards.
    pub fn handle(&mut self, input: Input, now: Timestamp) {
        self.let_time_pass(now);
        self.core.measures.input_started();
        let Self { core, bindings, preemptions, .. } = self;
        let mut intake = Intake { core, bindings, preemptions };
        match input {
            Input::PodApplied(pod) => intake.pod_applied(pod),
            Input::PodDeleted { namespace, name } => intake.pod_deleted(&namespace, &name),
            Input::NodeApplied(node) => intake.node_applied(node),
            Input::NodeDeleted { name } => intake.node_deleted(&name),
            Input::ObjectApplied(object) => intake.object_applied(object),
            Input::ObjectDeleted(object) => intake.object_deleted(&object),
            Input::BindingWritten { token, result } => {
                let status = match result {
                    Ok(()) => Status::SUCCESS,
                    Err(error) => Status::error(error.to_string()),
                };
                bindings.work_finished(core, token, status);
            }
            Input::WorkFinished { token, status } => bindings.work_finished(core, token, status),
            Input::ObjectWritten { token, result } => bindings.object_written(core, token, result),
            Input::PodEvicted { token, result } => {
                preemptions.pod_evicted(core, bindings, token, result);
            }
            Input::NominationCleared { token, result } => {
                preemptions.nomination_cleared(core, bindings, token, result);
            }
            Input::PluginAsked(commands) => bindings.carry_out(core, commands),
            Input::TimePassed => {}
        }
        self.take_in_confirmed();
    }

    /// Takes in the objects with which the API server answered writes. That may let tasks continue, which write and confirm more.
    fn take_in_confirmed(&mut self) {
        let Self { core, bindings, preemptions, .. } = self;
        while !core.confirmed.is_empty() {
            for object in std::mem::take(&mut core.confirmed) {
                Intake { core, bindings, preemptions }.object_confirmed(object);
            }
        }
    }

    /// Decides about the next pod; `None` when none is ready, or when the last attempt still waits for its victims.
    pub fn schedule_next(&mut self, now: Timestamp) -> Option<Turn> {
        self.next_turn(None, &mut NoObserver, now)
    }

    /// As [`schedule_next`](Self::schedule_next), and reports the steps to `observer` while they happen.
    pub fn schedule_next_observed(
        &mut self,
        observer: &mut dyn Observer,
        now: Timestamp,
    ) -> Option<Turn> {
        self.next_turn(None, observer, now)
    }

    /// As [`schedule_next`](Self::schedule_next), but follows a recorded decision: a pod that fits anywhere is placed on
    /// `node`, whatever the engine itself would have chosen, which [`Turn::chosen`] shows. Whether the pod fits there is
    /// not checked. A node that does not exist is not followed.
    pub fn schedule_next_onto(&mut self, node: &str, now: Timestamp) -> Option<Turn> {
        self.next_turn(Some(node), &mut NoObserver, now)
    }

    fn next_turn(
        &mut self,
        recorded: Option<&str>,
        observer: &mut dyn Observer,
        now: Timestamp,
    ) -> Option<Turn> {
        self.let_time_pass(now);
        let Self { core, cycle, bindings, preemptions } = self;
        let turn = cycle.next(core, bindings, preemptions, recorded, observer);
        core.memo.clear();
        core.record_ignored_terms();
        self.take_in_confirmed();
        turn
    }

    /// Handles every deadline that has come.
    fn let_time_pass(&mut self, now: Timestamp) {
        let Self { core, bindings, .. } = self;
        core.now = now;
        while let Some(wake_up) = core.deadlines.take_due(now) {
            match wake_up {
                WakeUp::PermitEnds(serial) => bindings.permit_ended(core, serial),
                WakeUp::TaskGoesOn(serial) => bindings.wake_due_tasks(core, serial),
                WakeUp::GroupIsMissed => report_incomplete_groups(core),
                WakeUp::HoldEnds => expire_hold(core),
                // Once is enough, after all others: pods that the queue moves become ready and set no new deadline that is due.
                WakeUp::QueueMoves => {
                    return core.with_queue(|queue, policy| queue.flush_due(policy.now, policy));
                }
            }
        }
    }

    /// Whether a pod is ready to be tried.
    pub fn has_ready(&self) -> bool {
        !self.preemptions.holds_an_attempt() && self.core.queue().has_ready()
    }

    /// When something will happen by itself; hand in [`Input::TimePassed`] then.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.core.deadlines.next()
    }

    /// What must be done, in order.
    pub fn drain_effects(&mut self) -> impl Iterator<Item = Effect> + '_ {
        self.core.effects.drain(..)
    }

    /// Unexpected things that are worth a line in a log, oldest first.
    pub fn drain_notes(&mut self) -> impl Iterator<Item = String> + '_ {
        self.core.notes.drain(..)
    }

    /// Keeps for [`drain_notices`](Self::drain_notices) from now on what a log of this verbosity has lines for; nothing at
    /// 0, as at the beginning.
    pub fn set_verbosity(&mut self, verbosity: u8) {
        self.core.set_verbosity(verbosity);
    }

    /// What is worth a line in the log, oldest first. Must be fetched after each call while the verbosity is not 0.
    pub fn drain_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.core.notices.waiting)
    }

    /// A pod as last seen from the API server.
    pub fn known_pod(&self, namespace: &str, name: &str) -> Option<&Arc<Pod>> {
        self.core.pods.get(namespace, name)
    }

    /// The cluster as the engine knows it.
    pub fn cluster(&self) -> &ClusterState {
        &self.core.cluster
    }

    /// The profiles in the order of configuration.
    pub fn profiles(&self) -> &[Profile] {
        &self.core.plans.profiles.0
    }

    /// The queue, to look at.
    pub fn queue(&self) -> &Queue {
        self.core.queue()
    }

    /// The queued pods in the order in which they come to their turn: active ones as QueueSort has it, those in backoff by
    /// when it ends, then unschedulable and gated ones in the order in which they were parked. Pods in flight are not
    /// queued. O(n log n) in the number of pods.
    pub fn pending_in_order(&self) -> Vec<Arc<Pod>> {
        self.core.pending_in_order()
    }

    /// How many pods are where in the queue.
    pub fn pending_counts(&self) -> PendingCounts {
        self.core.queue().pending_counts()
    }

    /// How many pods are on their way to their node.
    pub fn n_binding(&self) -> usize {
        self.bindings.len()
    }

    /// How many preemptions are being carried out.
    pub fn n_preempting(&self) -> usize {
        self.preemptions.len()
    }

    /// How many pods the engine knows, pending and assigned.
    pub fn n_known_pods(&self) -> usize {
        self.core.pods.len()
    }

    /// Every pod as last seen from the API server, in no particular order: a caller that shows them sorts them.
    pub fn known_pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.core.pods.iter()
    }

    /// Attempts by profile and outcome, in the order of configuration.
    pub fn profile_counts(&self) -> &[ProfileCounts] {
        &self.core.counts.profiles
    }

    /// Pods bound since the last call, if the engine keeps them.
    pub fn drain_bound(&mut self) -> impl Iterator<Item = BoundPod> + '_ {
        self.core.counts.bound.drain(..)
    }

    /// Attempts at preemption so far, and the preemptions since the last call, if the engine keeps them.
    pub fn drain_preemption_counts(&mut self) -> PreemptionCounts {
        self.core.counts.drain_preemptions()
    }

    /// What was measured since the last call, in a fixed order.
    pub fn drain_measurements(&mut self) -> Measurements {
        self.core.measures.drain(&self.core.plans)
    }

    /// What reads objects before they are fed to the engine, where that saves it work.
    pub fn object_readers(&self) -> ObjectReaders {
        self.core.readers.clone()
    }

    /// How often pods that are alike shared the work of their evaluation.
    pub fn class_cache_counts(&self) -> ClassCacheCounts {
        let classes = &self.cycle.classes;
        ClassCacheCounts { hits: classes.hits, misses: classes.misses }
    }
}

/// # Groups
impl Engine {
    /// Whether pods of a pod group are tried together, rather than as if they had none.
    pub fn schedules_groups(&self) -> bool {
        let gates = &self.core.plans.groups;
        gates.reads_groups || gates.has_gangs
    }

    /// Whether the pods of a group of this name wait for each other, if it is a gang: by the gate `GangScheduling`, or by a plugin
    /// with groups of its own.
    pub fn schedules_gangs_like(&self, name: &str) -> bool {
        self.core.plans.groups.has_gangs_like(name)
    }

    /// The pod group that a pod belongs to, if groups are scheduled: by its `schedulingGroup`, or by what a plugin says of it. A group
    /// of another kind is known as [`foreign_name`](kube_scheduler_api_types::PodGroup::foreign_name).
    pub fn group_of(&self, pod: &Pod) -> Option<Arc<str>> {
        group_of(&self.core, pod)
    }

    /// What a pod group waits for before its pods can be tried; `None` if nothing is missing.
    pub fn missing_of_group(&self, namespace: &str, name: &str) -> Option<IncompleteGroup> {
        let gates = &self.core.plans.groups;
        gates.has_gangs_like(name).then(|| what_is_missing(&self.core, namespace, name))?
    }
}
