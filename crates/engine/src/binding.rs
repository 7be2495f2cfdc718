//! From a chosen node to a written binding: assume, reserve, permit, prebind, bind, and the way back.
//!
//! Each pod on its way is one [`Binding`] whose stage says what it waits for. Nothing blocks: what takes time leaves as
//! an effect and comes back as an input.
//!
//! Behaviour: `spec/core.md` §5 to §7.
//!
//! Invariant: every assumed pod has a binding until its result is known; a binding that ends without success has
//! unreserved and forgotten its pod.

mod expect;
mod outside;
mod permit;
mod steps;
mod table;
mod tasks;

use std::sync::Arc;

use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_framework::{
    ClusterEvent, Code, Commands, CycleState, EventKind, EventObject, FitError, MAX_PERMIT_WAIT,
    Meter, MeteredPoint, PermitDecision, PluginIdx, PluginName, Sources, Status,
};
use kube_scheduler_queue::QueuedPod;
use smallvec::SmallVec;

use self::expect::expect_at_once;
use self::table::{Wait, Waits};
use self::tasks::Running;
use crate::attempt::Choice;
use crate::effect::{Effect, PodRef, Token};
use crate::engine::Engine;
use crate::failure::{Failure, Nominating};
use crate::guard::guarded;
use crate::measures::FailedBinding;
use crate::policy::Entry;
use crate::turn::AttemptResult;

pub(crate) use self::expect::expect_objects;
pub(crate) use self::table::Bindings;

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
    /// The reading from which the extension point at hand is measured.
    point_begun: Option<u64>,
    /// The same for the Bind plugin at hand, if it is measured.
    plugin_begun: Option<u64>,
    /// When it set off, as a running number: the order in which waiting pods are listed.
    serial: u64,
    stage: Stage,
    /// PreBind plugins without work, from their look ahead.
    idle_pre_bind: SmallVec<[PluginIdx; 4]>,
    parallel_pre_bind: SmallVec<[PluginIdx; 4]>,
}

#[derive(Debug)]
enum Stage {
    /// Waits on Permit.
    Permit(Waits),
    /// PreBind plugins from `next` on are still to be started; `running` are under way.
    PreBind { next: usize, running: SmallVec<[Running; 2]>, failure: Option<Status> },
    /// The extender at position `at` binds; if it fails and may be ignored, others are asked.
    BindOutside { at: usize, awaited: Token },
    /// Bind plugins from `next` on are still to be asked; one is awaited.
    Bind { next: usize, awaited: Token, plugin: PluginName },
}

impl Stage {
    /// Permit is through, and nothing of PreBind has been started.
    fn before_pre_bind() -> Self {
        Self::PreBind { next: 0, running: SmallVec::new(), failure: None }
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
        let serial = self.bindings.serial();
        let mut binding = Binding {
            queued,
            pod,
            node,
            profile,
            state: choice.state,
            started: now,
            point_begun: None,
            plugin_begun: None,
            serial,
            stage: Stage::before_pre_bind(),
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
        }
        let (uid, node) = (binding.pod.uid.clone(), binding.node.clone());
        let flight = if self.announces { self.pre_flight(&mut binding, now) } else { Ok(false) };
        if self.announces && flight.as_ref().is_ok_and(|has_work| *has_work || is_waiting) {
            self.announce(&binding);
        }
        self.bindings.insert(binding);
        self.carry_out(commands, now);
        match flight {
            Err(status) => self.binding_failed(&uid, status, now),
            Ok(_) if !is_waiting => self.after_permit(&uid, now),
            Ok(_) => {}
        }
        AttemptResult::Assumed(node)
    }

    fn reserve_and_permit(
        &mut self,
        binding: &mut Binding,
        commands: &mut Commands,
        now: Timestamp,
    ) -> Result<Waits, Status> {
        let begun = self.plans.profiles[binding.profile].meter().map(Meter::nanos);
        let reserved = self.reserve(binding, commands, now);
        let code = reserved.as_ref().err().map_or(Code::Success, Status::code);
        let begun = self.point_ended(binding.profile, MeteredPoint::Reserve, code, begun);
        reserved?;
        let permitted = self.permit(binding, commands, now);
        let code = match &permitted {
            Ok(waits) if waits.is_empty() => Code::Success,
            Ok(_) => Code::Wait,
            Err(status) => status.code(),
        };
        binding.point_begun = self.point_ended(binding.profile, MeteredPoint::Permit, code, begun);
        permitted
    }

    /// Permit, plugin by plugin.
    fn permit(
        &self,
        binding: &mut Binding,
        commands: &mut Commands,
        now: Timestamp,
    ) -> Result<Waits, Status> {
        let profile = &self.plans.profiles[binding.profile];
        let cx = self.context(now);
        let mut waits = SmallVec::new();
        for (idx, name, plugin) in profile.permit() {
            let begun = profile.meter().and_then(Meter::plugin_start);
            let decision = guarded(|| {
                plugin.permit(&cx, &mut binding.state, &binding.pod, &binding.node, commands)
            })
            .unwrap_or_else(PermitDecision::deny);
            if let Some(meter) = profile.meter() {
                meter.plugin_ended(idx, MeteredPoint::Permit, decision.status.code(), begun);
            }
            match decision.status.code() {
                Code::Success => {}
                Code::Wait => {
                    let timeout = decision.timeout.min(MAX_PERMIT_WAIT);
                    waits.push(Wait { plugin: name.clone(), deadline: now + timeout, timeout });
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

    /// Reserve, plugin by plugin. Each sees what those before it asked for about objects.
    fn reserve(
        &mut self,
        binding: &mut Binding,
        commands: &mut Commands,
        now: Timestamp,
    ) -> Result<(), Status> {
        let Self { plans, cluster, pods, bindings, queue, preemptions, .. } = self;
        let mut refused = Vec::new();
        let mut result = Ok(());
        let profile = &plans.profiles[binding.profile];
        for (idx, name, plugin) in profile.reserve() {
            let begun = profile.meter().and_then(Meter::plugin_start);
            let cx =
                Sources { cluster, pods, waiting: bindings, nominated: queue, preemptions, now }
                    .unrecorded();
            let mut asked = Commands::default();
            let Binding { state, pod, node, .. } = &mut *binding;
            let answer = guarded(|| plugin.reserve(&cx, state, pod, node, &mut asked));
            // Half of what a plugin wanted may be worse than nothing.
            let status = answer.unwrap_or_else(|panic| {
                asked = Commands::default();
                panic
            });
            if let Some(meter) = profile.meter() {
                meter.plugin_ended(idx, MeteredPoint::Reserve, status.code(), begun);
            }
            refused.extend(expect_at_once(cluster, asked, commands));
            if status.is_rejected() {
                result = Err(status.from_plugin(name));
            } else if !status.is_success() {
                let context = format!("running Reserve plugin \"{name}\"");
                result = Err(status.wrapped(context).from_plugin(name));
            }
            if result.is_err() {
                break;
            }
        }
        refused.into_iter().for_each(|refused| self.note(refused));
        result
    }

    /// A run of a whole extension point has ended, if it was measured; gives the reading to measure the next one from.
    fn point_ended(
        &self,
        profile: usize,
        point: MeteredPoint,
        code: Code,
        begun: Option<u64>,
    ) -> Option<u64> {
        let meter = self.plans.profiles.get(profile)?.meter()?;
        Some(meter.point_ended(point, code, begun?))
    }

    fn bound(&mut self, uid: &str, now: Timestamp) {
        let Some(mut binding) = self.bindings.remove(uid) else { return };
        self.effects.push(Effect::RecordEvent {
            pod: PodRef::from(&*binding.pod),
            resource_version: binding.pod.resource_version.clone(),
            kind: EventKind::Normal,
            reason: "Scheduled".into(),
            action: "Binding".into(),
            note: format!(
                "Successfully assigned {}/{} to {}",
                binding.pod.namespace, binding.pod.name, binding.node
            ),
            reporting: self.plans.profiles[binding.profile].scheduler_name.clone(),
        });
        self.counts.bound(&binding.queued, binding.profile, binding.started, now);
        let mut commands = Commands::default();
        let mut panics = Vec::new();
        let begun = self.point_ended(
            binding.profile,
            MeteredPoint::Bind,
            Code::Success,
            binding.point_begun,
        );
        let cx = self.context(now);
        for (_, name, plugin) in self.plans.profiles[binding.profile].post_bind() {
            let Binding { state, pod, node, .. } = &mut binding;
            if let Err(status) = guarded(|| plugin.post_bind(&cx, state, pod, node, &mut commands))
            {
                panics.push(format!("PostBind of {name}: {}", status.message()));
            }
        }
        self.point_ended(binding.profile, MeteredPoint::PostBind, Code::Success, begun);
        panics.into_iter().for_each(|panic| self.note(panic));
        self.carry_out(commands, now);
    }

    /// The way back: unreserve, forget, requeue (`spec/core.md` §7.1).
    pub(crate) fn binding_failed(&mut self, uid: &str, status: Status, now: Timestamp) {
        let Some(mut binding) = self.bindings.remove(uid) else { return };
        let was_waiting = matches!(binding.stage, Stage::Permit(_));
        let length = now.saturating_since(binding.started);
        if was_waiting {
            self.measures.waited(status.code(), length);
        } else if matches!(binding.stage, Stage::Bind { .. }) {
            let begun = binding.point_begun.take();
            self.point_ended(binding.profile, MeteredPoint::Bind, status.code(), begun);
        }
        let is_forgotten = self.undo(&mut binding, now);
        let is_rejected = status.is_rejected();
        let failed = FailedBinding { profile: binding.profile, is_rejected, length };
        self.measures.binding_failed(failed);
        let freed = EventObject::Pod(binding.pod.clone());
        if is_forgotten && !is_rejected {
            self.move_all(&ClusterEvent::ASSIGNED_POD_DELETE, Some(&freed), None, now);
        }
        let failure = if was_waiting && is_rejected {
            Failure::Unfit(Box::new(rejected_while_waiting(&status)), Nominating::Clear)
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
        let mut notes = Vec::new();
        let mut later = Commands::default();
        let Self { plans, cluster, pods, bindings, queue, preemptions, .. } = &mut *self;
        let meter = plans.profiles[binding.profile].meter();
        let begun = meter.map(Meter::nanos);
        let reserve: Vec<_> = plans.profiles[binding.profile].reserve().collect();
        for (_, name, plugin) in reserve.into_iter().rev() {
            let cx =
                Sources { cluster, pods, waiting: bindings, nominated: queue, preemptions, now }
                    .unrecorded();
            let mut asked = Commands::default();
            let Binding { state, pod, node, .. } = &mut *binding;
            if let Err(status) = guarded(|| plugin.unreserve(&cx, state, pod, node, &mut asked)) {
                notes.push(format!("Unreserve of {name}: {}", status.message()));
            }
            notes.extend(expect_at_once(cluster, asked, &mut later));
        }
        if let (Some(meter), Some(begun)) = (meter, begun) {
            meter.point_ended(MeteredPoint::Unreserve, Code::Success, begun);
        }
        notes.into_iter().for_each(|note| self.note(note));
        self.carry_out(later, now);
        match self.cluster.forget_pod_as(&binding.pod) {
            Ok(_) => true,
            Err(error) => {
                self.note(format!("ForgetPod failed: {error}"));
                false
            }
        }
    }
}

/// The error of a pod that was turned down while it waited. Whoever did it is to blame, by name; a pod that was turned
/// down by nobody in particular is blamed on a plugin without a name, so that no event brings it back.
fn rejected_while_waiting(status: &Status) -> FitError {
    let mut error = FitError::on_chosen_node(status);
    let blamed = status.plugin().cloned().unwrap_or_default();
    error.diagnosis.unschedulable_plugins = [blamed].into();
    error.diagnosis.pending_plugins.clear();
    error
}
