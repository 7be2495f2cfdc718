//! From a chosen node to a written binding: assume, reserve, permit, prebind, bind, and the way back.
//!
//! Each pod on its way is one [`Binding`] whose stage says what it waits for. Nothing blocks: what takes time leaves as
//! an effect and comes back as an input.
//!
//! Behaviour: `spec/core.md` §5 to §7.
//!
//! Invariant: every assumed pod has a binding until its result is known; a binding that ends without success has
//! unreserved and forgotten its pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_framework::{
    BindOutcome, ClusterEvent, Code, Commands, Completion, CycleState, EventObject, FitError,
    MAX_PERMIT_WAIT, PluginIdx, PluginName, Reason, Status, WaitingPod, WaitingPods,
};
use kube_scheduler_queue::QueuedPod;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::attempt::Choice;
use crate::duration::go_duration;
use crate::effect::{Effect, EventKind, PodRef, StatusPatch, Token};
use crate::engine::Engine;
use crate::failure::{Failure, Nominating};
use crate::policy::Entry;
use crate::turn::AttemptResult;

/// One pod on its way to its node.
#[derive(Debug)]
pub(crate) struct Binding {
    /// The record that goes back to the queue if this fails.
    queued: QueuedPod<Entry>,
    /// The pod with its node filled in.
    pod: Arc<Pod>,
    node: Arc<str>,
    profile: usize,
    state: CycleState,
    started: Timestamp,
    /// When it began to wait, as a running number: the order of [`WaitingPods::waiting_pods`].
    serial: u64,
    stage: Stage,
    /// PreBind plugins without work, from their look ahead.
    idle_pre_bind: SmallVec<[PluginIdx; 4]>,
    parallel_pre_bind: SmallVec<[PluginIdx; 4]>,
}

/// Waits on Permit: who waits, until when, and for how long in all.
type Waits = SmallVec<[(PluginName, Timestamp, std::time::Duration); 2]>;

#[derive(Debug)]
enum Stage {
    /// Waits on Permit: until when, per plugin.
    Permit(Waits),
    /// PreBind plugins from `next` on are still to be started; `running` are awaited.
    PreBind { next: usize, running: SmallVec<[(Token, PluginName); 2]>, failure: Option<Status> },
    /// Bind plugins from `next` on are still to be asked; one is awaited.
    Bind { next: usize, awaited: Token, plugin: PluginName },
}

/// All pods on their way, by UID.
///
/// Invariant: `waiting` holds exactly the pods in the Permit stage, by serial.
#[derive(Debug, Default)]
pub(crate) struct Bindings {
    by_uid: FxHashMap<Arc<str>, Binding>,
    by_token: FxHashMap<Token, Arc<str>>,
    waiting: BTreeMap<u64, Arc<str>>,
    next_token: u64,
    next_serial: u64,
}

impl Bindings {
    /// How many pods are on their way.
    pub(crate) fn len(&self) -> usize {
        self.by_uid.len()
    }

    fn token(&mut self, uid: &Arc<str>) -> Token {
        self.next_token += 1;
        let token = Token(self.next_token);
        self.by_token.insert(token, uid.clone());
        token
    }

    /// The first time at which a wait on Permit ends.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        let deadlines =
            self.waiting.values().filter_map(|uid| match &self.by_uid.get(uid)?.stage {
                Stage::Permit(waits) => waits.iter().map(|(_, deadline, _)| *deadline).min(),
                _ => None,
            });
        deadlines.min()
    }

    /// Whether the pod waits on Permit.
    pub(crate) fn is_waiting(&self, uid: &str) -> bool {
        self.by_uid.get(uid).is_some_and(|binding| matches!(binding.stage, Stage::Permit(_)))
    }
}

impl WaitingPods for Bindings {
    fn waiting_pod(&self, uid: &str) -> Option<WaitingPod> {
        let binding = self.by_uid.get(uid)?;
        let Stage::Permit(waits) = &binding.stage else { return None };
        let mut pending_plugins: Vec<PluginName> =
            waits.iter().map(|(name, _, _)| name.clone()).collect();
        pending_plugins.sort();
        Some(WaitingPod { pod: binding.pod.clone(), pending_plugins })
    }

    fn waiting_pods(&self) -> Vec<WaitingPod> {
        self.waiting.values().filter_map(|uid| self.waiting_pod(uid)).collect()
    }
}

impl Engine {
    /// Assumes the pod on the chosen node, reserves, asks Permit, and sets off towards the binding.
    pub(crate) fn start_binding(
        &mut self,
        queued: QueuedPod<Entry>,
        profile: usize,
        choice: Choice,
        now: Timestamp,
    ) -> AttemptResult {
        let Some(node) = self.cluster.node(choice.node).map(|node| node.name.clone()) else {
            let status = Status::error("the chosen node is gone");
            return self.fail(queued, None, profile, Failure::from(status), now);
        };
        let pod = Arc::new(queued.entry().0.with_node_name(&node));
        if let Err(error) = self.cluster.assume_pod(pod.clone()) {
            return self.fail(
                queued,
                None,
                profile,
                Failure::from(Status::error(error.to_string())),
                now,
            );
        }
        self.queue.withdraw_nomination(&pod.uid);
        let serial = self.bindings.next_serial;
        self.bindings.next_serial += 1;
        let mut binding = Binding {
            queued,
            pod,
            node,
            profile,
            state: choice.state,
            started: now,
            serial,
            stage: Stage::PreBind { next: 0, running: SmallVec::new(), failure: None },
            idle_pre_bind: SmallVec::new(),
            parallel_pre_bind: SmallVec::new(),
        };
        let mut commands = Commands::default();
        let status = self.reserve_and_permit(&mut binding, &mut commands, now);
        let waits = match status {
            Ok(waits) => waits,
            Err(status) => {
                self.undo(&mut binding, now);
                let failure = Failure::on_chosen_node(status);
                let Binding { queued, pod, .. } = binding;
                let result = self.fail(queued, Some(pod), profile, failure, now);
                self.carry_out(commands, now);
                return result;
            }
        };
        let is_waiting = !waits.is_empty();
        if is_waiting {
            binding.stage = Stage::Permit(waits);
            self.bindings.waiting.insert(serial, binding.pod.uid.clone());
        }
        let uid = binding.pod.uid.clone();
        let node = binding.node.clone();
        match self.pre_flight(&mut binding, now) {
            Ok(has_work) => {
                if has_work || is_waiting {
                    self.announce(&binding);
                }
                self.bindings.by_uid.insert(uid.clone(), binding);
                self.carry_out(commands, now);
                if !is_waiting {
                    self.after_permit(&uid, now);
                }
            }
            Err(status) => {
                self.bindings.by_uid.insert(uid.clone(), binding);
                self.carry_out(commands, now);
                self.binding_failed(&uid, status, now);
            }
        }
        AttemptResult::Assumed(node)
    }

    fn reserve_and_permit(
        &self,
        binding: &mut Binding,
        commands: &mut Commands,
        now: Timestamp,
    ) -> Result<Waits, Status> {
        let profile = &self.plans.profiles[binding.profile];
        let cx = self.context(now);
        for (_, name, plugin) in profile.reserve() {
            let status = plugin.reserve(&cx, &mut binding.state, &binding.pod, &binding.node);
            if status.is_rejected() {
                return Err(status.from_plugin(name));
            }
            if !status.is_success() {
                return Err(status
                    .wrapped(format!("running Reserve plugin \"{name}\""))
                    .from_plugin(name));
            }
        }
        let mut waits = SmallVec::new();
        for (_, name, plugin) in profile.permit() {
            let decision =
                plugin.permit(&cx, &mut binding.state, &binding.pod, &binding.node, commands);
            match decision.status.code() {
                Code::Success => {}
                Code::Wait => {
                    let timeout = decision.timeout.min(MAX_PERMIT_WAIT);
                    waits.push((name.clone(), now + timeout, timeout));
                }
                code if code.is_rejected() => return Err(decision.status.from_plugin(name)),
                _ => {
                    let context = format!("running Permit plugin \"{name}\"");
                    return Err(decision.status.wrapped(context).from_plugin(name));
                }
            }
        }
        Ok(waits)
    }

    /// Lets PreBind plugins look ahead; says whether any has work (`spec/core.md` §10.10).
    fn pre_flight(&self, binding: &mut Binding, now: Timestamp) -> Result<bool, Status> {
        let profile = &self.plans.profiles[binding.profile];
        let cx = self.context(now);
        let mut has_work = false;
        for (idx, name, plugin) in profile.pre_bind() {
            let flight =
                plugin.pre_bind_pre_flight(&cx, &binding.state, &binding.pod, &binding.node);
            if flight.may_run_in_parallel {
                binding.parallel_pre_bind.push(idx);
            }
            match flight.status.code() {
                Code::Success => has_work = true,
                Code::Skip => binding.idle_pre_bind.push(idx),
                Code::Error => {
                    return Err(flight
                        .status
                        .wrapped(format!("running PreBindPreFlight \"{name}\"")));
                }
                code => {
                    return Err(Status::error(format!(
                        "PreBindPreFlight {name} returned \"{code}\", which is unsupported. \
                         It is supposed to return Success, Skip, or Error status"
                    )));
                }
            }
        }
        Ok(has_work)
    }

    /// Tells the API server early where the pod is expected to go.
    fn announce(&mut self, binding: &Binding) {
        if binding.pod.nominated_node_name() == Some(&*binding.node) {
            return;
        }
        let patch = StatusPatch {
            condition: None,
            nominated_node_name: Some(Some(binding.node.clone())),
            has_conditions: !binding.pod.status.conditions.is_empty(),
        };
        self.effects.push(Effect::PatchStatus { pod: PodRef::from(&*binding.pod), patch });
    }

    /// A plugin takes back its wait.
    pub(crate) fn allow(&mut self, uid: &str, plugin: &str, now: Timestamp) {
        let Some(binding) = self.bindings.by_uid.get_mut(uid) else { return };
        let Stage::Permit(waits) = &mut binding.stage else { return };
        waits.retain(|(name, _, _)| **name != *plugin);
        if waits.is_empty() {
            let uid = binding.pod.uid.clone();
            self.after_permit(&uid, now);
        }
    }

    /// Turns a waiting pod down.
    pub(crate) fn reject_waiting(
        &mut self,
        uid: &str,
        plugin: &PluginName,
        message: Reason,
        now: Timestamp,
    ) -> bool {
        if !self.bindings.is_waiting(uid) {
            return false;
        }
        self.binding_failed(
            &Arc::from(uid),
            Status::unschedulable(message).from_plugin(plugin),
            now,
        );
        true
    }

    /// Fails a waiting pod whose place somebody more important needs.
    pub(crate) fn preempt_waiting(&mut self, uid: &str, now: Timestamp) -> bool {
        if !self.bindings.is_waiting(uid) {
            return false;
        }
        self.binding_failed(
            &Arc::from(uid),
            Status::error("waiting on permit for pod: preempted"),
            now,
        );
        true
    }

    /// Ends the waits whose time is up.
    pub(crate) fn expire_waits(&mut self, now: Timestamp) {
        while let Some((uid, plugin, timeout)) = self.expired_wait(now) {
            let text = format!(
                "rejected due to timeout after waiting {} at plugin {plugin}",
                go_duration(timeout)
            );
            self.reject_waiting(&uid, &plugin, text.into(), now);
        }
    }

    fn expired_wait(&self, now: Timestamp) -> Option<(Arc<str>, PluginName, std::time::Duration)> {
        let expired = self.bindings.waiting.values().filter_map(|uid| {
            let binding = self.bindings.by_uid.get(uid)?;
            let Stage::Permit(waits) = &binding.stage else { return None };
            let (name, deadline, timeout) =
                waits.iter().min_by_key(|(_, deadline, _)| *deadline)?;
            (*deadline <= now)
                .then(|| (*deadline, binding.serial, uid.clone(), name.clone(), *timeout))
        });
        let (_, _, uid, name, timeout) =
            expired.min_by_key(|(deadline, serial, ..)| (*deadline, *serial))?;
        Some((uid, name, timeout))
    }

    /// Nobody objects any more: events cannot help or hurt the attempt from here on.
    fn after_permit(&mut self, uid: &Arc<str>, now: Timestamp) {
        self.queue.done(uid);
        if let Some(binding) = self.bindings.by_uid.get_mut(uid) {
            self.bindings.waiting.remove(&binding.serial);
            binding.stage = Stage::PreBind { next: 0, running: SmallVec::new(), failure: None };
        }
        self.run_pre_bind(uid, now);
    }

    /// Starts PreBind plugins until one has to be awaited, or all are through.
    fn run_pre_bind(&mut self, uid: &Arc<str>, now: Timestamp) {
        loop {
            let Some(mut binding) = self.bindings.by_uid.remove(uid) else { return };
            let Stage::PreBind { next, mut running, mut failure } = std::mem::replace(
                &mut binding.stage,
                Stage::PreBind { next: 0, running: SmallVec::new(), failure: None },
            ) else {
                self.bindings.by_uid.insert(uid.clone(), binding);
                return;
            };
            let pre_bind: Vec<(PluginIdx, PluginName)> = self.plans.profiles[binding.profile]
                .pre_bind()
                .map(|(idx, name, _)| (idx, name.clone()))
                .collect();
            let step = pre_bind.get(next).cloned();
            let is_parallel =
                step.as_ref().is_some_and(|(idx, _)| binding.parallel_pre_bind.contains(idx));
            // A plugin on its own waits for those before it, and a failure stops everything that has not started.
            let must_wait =
                !running.is_empty() && (step.is_none() || !is_parallel || failure.is_some());
            if must_wait {
                binding.stage = Stage::PreBind { next, running, failure };
                self.bindings.by_uid.insert(uid.clone(), binding);
                return;
            }
            if let Some(status) = failure {
                self.bindings.by_uid.insert(uid.clone(), binding);
                self.binding_failed(uid, status, now);
                return;
            }
            let Some((idx, name)) = step else {
                self.bindings.by_uid.insert(uid.clone(), binding);
                self.run_bind(uid, 0, now);
                return;
            };
            let mut awaits_alone = false;
            if !binding.idle_pre_bind.contains(&idx) {
                let completion = {
                    let cx = self.context(now);
                    let plugin = self.plans.profiles[binding.profile].plugins().get(idx);
                    plugin.and_then(|entry| entry.plugin.as_pre_bind()).map(|plugin| {
                        plugin.pre_bind(&cx, &mut binding.state, &binding.pod, &binding.node)
                    })
                };
                match completion {
                    Some(Completion::Pending(work)) => {
                        let token = self.bindings.token(uid);
                        self.effects.push(Effect::Await { token, plugin: name.clone(), work });
                        running.push((token, name));
                        awaits_alone = !is_parallel;
                    }
                    Some(Completion::Ready(status)) => failure = pre_bind_failure(status, &name),
                    None => {}
                }
            }
            let is_done_for_now = awaits_alone;
            binding.stage = Stage::PreBind { next: next + 1, running, failure };
            self.bindings.by_uid.insert(uid.clone(), binding);
            if is_done_for_now {
                return;
            }
        }
    }

    /// Asks Bind plugins from `next` on, until one takes the pod.
    fn run_bind(&mut self, uid: &Arc<str>, next: usize, now: Timestamp) {
        let Some(mut binding) = self.bindings.by_uid.remove(uid) else { return };
        let plugins: Vec<(usize, PluginIdx, PluginName)> = self.plans.profiles[binding.profile]
            .bind()
            .enumerate()
            .skip(next)
            .map(|(at, (idx, name, _))| (at, idx, name.clone()))
            .collect();
        for (at, idx, name) in plugins {
            let entry = self.plans.profiles[binding.profile].plugins().get(idx);
            let Some(plugin) = entry.and_then(|entry| entry.plugin.as_bind()) else { continue };
            let outcome =
                plugin.bind(&self.context(now), &mut binding.state, &binding.pod, &binding.node);
            let result = match outcome {
                BindOutcome::Ready(status) if status.is_skip() => continue,
                BindOutcome::Ready(status) => Some(bind_result(status, &name)),
                BindOutcome::WriteBinding => {
                    let token = self.bindings.token(uid);
                    let (pod, node) = (PodRef::from(&*binding.pod), binding.node.clone());
                    self.effects.push(Effect::WriteBinding { token, pod, node });
                    binding.stage = Stage::Bind { next: at + 1, awaited: token, plugin: name };
                    None
                }
                BindOutcome::Pending(work) => {
                    let token = self.bindings.token(uid);
                    self.effects.push(Effect::Await { token, plugin: name.clone(), work });
                    binding.stage = Stage::Bind { next: at + 1, awaited: token, plugin: name };
                    None
                }
            };
            self.bindings.by_uid.insert(uid.clone(), binding);
            match result {
                Some(Ok(())) => self.bound(uid, now),
                Some(Err(status)) => self.binding_failed(uid, status, now),
                None => {}
            }
            return;
        }
        self.bindings.by_uid.insert(uid.clone(), binding);
        // Parity: the reference ends here with an empty error, so the pod backs off without any event or condition.
        self.binding_failed(uid, Status::error("every bind plugin skipped the pod"), now);
    }

    /// Something that a binding waited for has ended.
    pub(crate) fn work_finished(&mut self, token: Token, status: Status, now: Timestamp) {
        let Some(uid) = self.bindings.by_token.remove(&token) else { return };
        let Some(binding) = self.bindings.by_uid.get_mut(&uid) else { return };
        match &mut binding.stage {
            Stage::PreBind { running, failure, .. } => {
                let Some(at) = running.iter().position(|(running, _)| *running == token) else {
                    return;
                };
                let (_, name) = running.remove(at);
                if failure.is_none() {
                    *failure = pre_bind_failure(status, &name);
                }
                self.run_pre_bind(&uid, now);
            }
            Stage::Bind { next, awaited, plugin } if *awaited == token => {
                let (next, plugin) = (*next, plugin.clone());
                if status.is_skip() {
                    self.run_bind(&uid, next, now);
                    return;
                }
                match bind_result(status, &plugin) {
                    Ok(()) => self.bound(&uid, now),
                    Err(status) => self.binding_failed(&uid, status, now),
                }
            }
            Stage::Bind { .. } | Stage::Permit(_) => {}
        }
    }

    fn bound(&mut self, uid: &Arc<str>, now: Timestamp) {
        let Some(mut binding) = self.bindings.by_uid.remove(uid) else { return };
        let profile = &self.plans.profiles[binding.profile];
        let mut commands = Commands::default();
        {
            let cx = self.context(now);
            for (_, _, plugin) in profile.post_bind() {
                plugin.post_bind(
                    &cx,
                    &mut binding.state,
                    &binding.pod,
                    &binding.node,
                    &mut commands,
                );
            }
        }
        let reporting = profile.scheduler_name.clone();
        self.effects.push(Effect::RecordEvent {
            pod: PodRef::from(&*binding.pod),
            kind: EventKind::Normal,
            reason: "Scheduled",
            action: "Binding",
            note: format!(
                "Successfully assigned {}/{} to {}",
                binding.pod.namespace, binding.pod.name, binding.node
            ),
            reporting,
        });
        self.counts.bound(&binding.queued, binding.profile, binding.started, now);
        self.carry_out(commands, now);
    }

    /// The way back: unreserve, forget, requeue (`spec/core.md` §7.1).
    pub(crate) fn binding_failed(&mut self, uid: &Arc<str>, status: Status, now: Timestamp) {
        let Some(mut binding) = self.bindings.by_uid.remove(uid) else { return };
        let was_waiting = self.bindings.waiting.remove(&binding.serial).is_some();
        let is_forgotten = self.undo(&mut binding, now);
        let is_rejected = status.is_rejected();
        let freed = EventObject::Pod(binding.pod.clone());
        if is_forgotten && !is_rejected {
            self.move_all(&ClusterEvent::ASSIGNED_POD_DELETE, Some(&freed), None, now);
        }
        let failure = if was_waiting && is_rejected {
            Failure::Unfit(Box::new(FitError::on_chosen_node(&status)), Nominating::Clear)
        } else {
            Failure::from(status)
        };
        let Binding { queued, pod, profile, .. } = binding;
        self.fail(queued, Some(pod.clone()), profile, failure, now);
        if is_forgotten && is_rejected {
            self.move_all_but(&ClusterEvent::ASSIGNED_POD_DELETE, &freed, &pod.uid, now);
        }
    }

    /// Unreserves in reverse order and forgets the pod; says whether that worked.
    fn undo(&mut self, binding: &mut Binding, now: Timestamp) -> bool {
        {
            let cx = self.context(now);
            let reserve: Vec<_> = self.plans.profiles[binding.profile].reserve().collect();
            for (_, _, plugin) in reserve.into_iter().rev() {
                plugin.unreserve(&cx, &mut binding.state, &binding.pod, &binding.node);
            }
        }
        self.cluster.forget_pod(&binding.pod.uid).is_ok()
    }
}

fn pre_bind_failure(status: Status, name: &PluginName) -> Option<Status> {
    if status.is_success() {
        None
    } else if status.is_rejected() {
        Some(status.from_plugin(name))
    } else {
        Some(status.wrapped(format!("running PreBind plugin \"{name}\"")).from_plugin(name))
    }
}

fn bind_result(status: Status, name: &PluginName) -> Result<(), Status> {
    if status.is_success() {
        Ok(())
    } else if status.is_rejected() {
        Err(status.from_plugin(name))
    } else {
        Err(status.wrapped(format!("running Bind plugin \"{name}\"")).from_plugin(name))
    }
}
