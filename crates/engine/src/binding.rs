//! From a chosen node to a written binding: assume, reserve, permit, prebind, bind, and the way back.
//!
//! [`Bindings`] owns every pod on its way to its node. Each is one [`Binding`] whose [`Stage`] says what it waits for.
//! Nothing blocks: what takes time leaves as an effect, and its result comes back through a verb
//! ([`work_finished`](Bindings::work_finished), [`object_written`](Bindings::object_written)). While a verb works on a
//! binding, the binding is out of the table and goes from step to step by value; it is put back when it has to wait.
//!
//! Behaviour: `docs/spec/core.md` §5 to §7.
//!
//! Invariant: every assumed pod has a binding until its result is known; a binding that ends without success has
//! unreserved and forgotten its pod.

mod commands;
mod expect;
mod outside;
mod permit;
mod reserve;
mod steps;
mod table;
mod tasks;
mod together;
mod trial;

use std::sync::Arc;

use crate::diagnosis::FitError;
use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_framework::{
    ClusterEvent, Code, Commands, CycleState, EventKind, EventObject, NominatingInfo, PluginName,
    Status,
};
use kube_scheduler_queue::{ProfileId, QueuedPod};
use kube_scheduler_runtime::{MeteredPoint, PluginIdx};
use smallvec::SmallVec;

use self::commands::Requests;
use self::table::BindingTable;
use self::tasks::RunningTask;
use crate::attempt::Choice;
use crate::core::{Core, PodEvent};
use crate::effect::{PodRef, Token};
use crate::failure::{Failure, send_back};
use crate::guard::guarded;
use crate::measures::FailedBinding;
use crate::notice::{Notice, RejectionStage};
use crate::policy::Entry;
use crate::turn::AttemptResult;

pub(crate) use self::permit::PermitWaits;
pub(crate) use self::table::Serial;
pub(crate) use self::trial::Trial;

/// A pod for which a node was chosen.
#[derive(Debug)]
pub(crate) struct Placement {
    pub(crate) queued: QueuedPod<Entry>,
    pub(crate) profile: ProfileId,
    pub(crate) choice: Choice,
}

/// One pod on its way to its node.
#[derive(Debug)]
struct Binding {
    /// The record that goes back to the queue if this fails.
    queued: QueuedPod<Entry>,
    /// The pod with its node filled in.
    pod: Arc<Pod>,
    node: Arc<str>,
    profile: ProfileId,
    state: CycleState,
    started: Timestamp,
    /// The meter's reading when the current extension point started, if it is measured.
    point_start: Option<u64>,
    /// The meter's reading when the current Bind plugin started, if it is measured.
    plugin_start: Option<u64>,
    /// The number of this binding in the order in which bindings were started.
    serial: Serial,
    stage: Stage,
    /// How many nodes were looked at, and how many of them fit.
    n_evaluated: usize,
    n_feasible: usize,
    /// PreBind plugins without work, as they said when they looked ahead.
    idle_pre_bind: SmallVec<[PluginIdx; 4]>,
    parallel_pre_bind: SmallVec<[PluginIdx; 4]>,
}

/// How far a binding is. Stages follow each other in the order in which they stand here; from each of them a binding may
/// fail, which ends it.
#[derive(Debug)]
enum Stage {
    /// Waits on Permit; the plugins that it waits for are in [`PermitWaits`]. Next: `PreBind`, when the last has allowed it.
    Permit,
    /// PreBind plugins from `next` on are still to be started; `running` are under way. After a `failure` none is started,
    /// and the binding fails when `running` is empty. Next: a Bind stage, when all have ended well.
    PreBind { next: usize, running: SmallVec<[RunningTask; 2]>, failure: Option<Status> },
    /// The extender at position `at` binds. Next: the end, or if it fails and may be ignored, another extender or `Bind`.
    BindOutside { at: usize, awaited: Token },
    /// Bind plugin `plugin` binds; those from `next` on are asked if it skips the pod. Next: the end.
    Bind { next: usize, awaited: Token, plugin: PluginName },
}

impl Stage {
    /// Permit is through, and nothing of PreBind has been started.
    fn before_pre_bind() -> Self {
        Self::PreBind { next: 0, running: SmallVec::new(), failure: None }
    }
}

/// All pods on their way, and what plugins asked for that is not carried out yet.
#[derive(Debug)]
pub(crate) struct Bindings {
    table: BindingTable,
    requests: Requests,
    /// Whether pods are nominated to their node early.
    announces: bool,
}

impl Bindings {
    /// No pods. With `announces`, pods whose binding will take time are nominated to their node when they set off.
    pub(crate) fn new(announces: bool) -> Self {
        Self { table: BindingTable::default(), requests: Requests::default(), announces }
    }

    /// The table of a copy of the engine, in which no pod is on its way to a node.
    pub(crate) fn fork(&self) -> Self {
        Self { table: self.table.fork(), ..Self::new(self.announces) }
    }

    /// The pods that only have to be bound, with their nodes, in the order in which they set off.
    pub(crate) fn past_permit(&self) -> Vec<Arc<Pod>> {
        let past = |binding: &&Binding| !matches!(binding.stage, Stage::Permit);
        self.table.iter().filter(past).map(|binding| binding.pod.clone()).collect()
    }

    /// The node that the pod is on its way to, and how many attempts that took; `None` if it is not on its way.
    pub(crate) fn destination(&self, uid: &str) -> Option<(Arc<str>, u32)> {
        self.table.get(uid).map(|binding| (binding.node.clone(), binding.queued.attempts()))
    }

    /// How many pods are on their way.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// What is in which table, and how much of it.
    pub(crate) fn table_sizes(&self) -> [(&'static str, usize); 4] {
        self.table.sizes()
    }

    /// Assumes the pod on the chosen node, reserves, asks Permit, and sets off towards the binding.
    pub(crate) fn start(&mut self, core: &mut Core, placement: Placement) -> AttemptResult {
        let profile = placement.profile;
        match self.assume(core, placement) {
            Ok(binding) => self.set_off(core, binding),
            Err((queued, status)) => {
                let failure = Failure::from(status);
                send_back(core, *queued, profile, None, failure)
            }
        }
    }

    /// Reserves a pod that is assumed, asks Permit, and sets off towards the binding.
    fn set_off(&mut self, core: &mut Core, mut binding: Box<Binding>) -> AttemptResult {
        let profile = binding.profile;
        let mut commands = Commands::default();
        let waits = match binding.reserve_and_permit(core, &mut commands) {
            Ok(waits) => waits,
            Err(status) => {
                binding.notice_rejection(core, RejectionStage::BeforeBinding, &status);
                // No other pod was tried while these were reserved.
                let n_released = core.released.len();
                self.undo(core, &mut binding);
                core.released.truncate(n_released);
                let Binding { queued, pod, .. } = *binding;
                let failure = Failure::on_chosen_node(status);
                let result = send_back(core, queued, profile, Some(pod), failure);
                self.carry_out(core, commands);
                return result;
            }
        };
        let is_waiting = !waits.is_empty();
        let node = binding.node.clone();
        // PreBind looks ahead before the pod can be seen waiting, and its answer counts after what Permit asked for.
        let flight = if self.announces { binding.pre_flight(core) } else { Ok(false) };
        if self.announces && flight.as_ref().is_ok_and(|has_work| *has_work || is_waiting) {
            binding.announce(core);
        }
        if is_waiting {
            core.notices.add(4, || Notice::WaitsOnPermit(PodRef::from(&*binding.pod)));
            binding.stage = Stage::Permit;
            core.permits.add(binding.serial, &binding.pod, waits, &mut core.deadlines);
        }
        if let Some(binding) = self.carry_out_beside(core, binding, commands) {
            match flight {
                Err(status) => self.fail(core, binding, status),
                Ok(_) if is_waiting => self.table.put(binding, &mut core.deadlines),
                Ok(_) => self.after_permit(core, binding),
            }
        }
        AttemptResult::Assumed(node)
    }

    /// Carries out what plugins asked for while the binding is in the table, because that may be about it. Takes it out again;
    /// `None` if that has ended it.
    fn carry_out_beside(
        &mut self,
        core: &mut Core,
        binding: Box<Binding>,
        commands: Commands,
    ) -> Option<Box<Binding>> {
        if commands.is_empty() {
            return Some(binding);
        }
        let uid = binding.pod.uid.clone();
        self.table.put(binding, &mut core.deadlines);
        self.carry_out(core, commands);
        self.table.take(&uid, &mut core.deadlines)
    }

    /// Assumes the pod on its node, which ends its nomination.
    fn assume(
        &mut self,
        core: &mut Core,
        placement: Placement,
    ) -> Result<Box<Binding>, (Box<QueuedPod<Entry>>, Status)> {
        let Placement { queued, profile, choice } = placement;
        let Choice { node, state, n_evaluated, n_feasible } = choice;
        let claims = reserve::node_resource_claims(core, profile, &state, &queued.entry().0, node);
        let Some(node) = core.cluster.node(node).map(|node| node.name.clone()) else {
            return Err((Box::new(queued), Status::error("the chosen node is gone")));
        };
        let mut pod = queued.entry().0.with_node_name(&node);
        if let Some(claims) = claims {
            pod = pod.with_node_resource_claims(claims);
        }
        let pod = Arc::new(pod);
        if let Err(error) = core.cluster.assume_pod(pod.clone()) {
            return Err((Box::new(queued), Status::error(error.to_string())));
        }
        Self::end_nomination(core, &pod.uid);
        Ok(Box::new(Binding {
            queued,
            pod,
            node,
            profile,
            state,
            started: core.now,
            point_start: None,
            plugin_start: None,
            serial: self.table.next_serial(),
            stage: Stage::before_pre_bind(),
            n_evaluated,
            n_feasible,
            idle_pre_bind: SmallVec::new(),
            parallel_pre_bind: SmallVec::new(),
        }))
    }

    fn end_nomination(core: &mut Core, uid: &str) {
        if core.queue().nomination(uid).is_some() {
            core.with_queue(|queue, _| queue.withdraw_nomination(uid));
        }
    }

    /// The binding is written: reports it and asks PostBind.
    fn bound(&mut self, core: &mut Core, mut binding: Box<Binding>) {
        // What it was about to write is written.
        core.released.clear();
        let plans = core.plans.clone();
        let profile = &plans.profiles[binding.profile];
        let Pod { namespace, name, .. } = &*binding.pod;
        let note = format!("Successfully assigned {namespace}/{name} to {}", binding.node);
        let event = PodEvent {
            kind: EventKind::Normal,
            reason: "Scheduled".into(),
            action: "Binding".into(),
            note,
            reporting: profile.scheduler_name.clone(),
            related: None,
        };
        core.record(&binding.pod, event);
        core.notices.add(2, || Notice::Bound {
            pod: PodRef::from(&*binding.pod),
            node: binding.node.clone(),
            n_evaluated: binding.n_evaluated,
            n_feasible: binding.n_feasible,
        });
        core.counts.bound(&binding.queued, binding.profile, binding.started, core.now);
        let mut commands = Commands::default();
        let start = profile.point_ended(MeteredPoint::Bind, Code::Success, binding.point_start);
        for (_, name, plugin) in profile.post_bind() {
            let Binding { state, pod, node, .. } = &mut *binding;
            let cx = core.context();
            if let Err(status) = guarded(|| plugin.post_bind(&cx, state, pod, node, &mut commands))
            {
                core.note(format!("PostBind of {name}: {}", status.message()));
            }
        }
        profile.point_ended(MeteredPoint::PostBind, Code::Success, start);
        self.carry_out(core, commands);
    }

    /// The way back: unreserve, forget, requeue (`docs/spec/core.md` §7.1).
    fn fail(&mut self, core: &mut Core, mut binding: Box<Binding>, status: Status) {
        let was_waiting = core.permits.take(&binding.pod.uid, &mut core.deadlines).is_some();
        let length = core.now.saturating_since(binding.started);
        if was_waiting {
            if status.is_rejected() {
                core.notices.add(4, || Notice::RejectedOnPermit {
                    pod: PodRef::from(&*binding.pod),
                    status: status.message(),
                });
            }
            core.measures.waited(status.code(), length);
        } else if matches!(binding.stage, Stage::Bind { .. }) {
            let profile = &core.plans.profiles[binding.profile];
            profile.point_ended(MeteredPoint::Bind, status.code(), binding.point_start);
        }
        let is_forgotten = self.undo(core, &mut binding);
        let is_rejected = status.is_rejected();
        let failed = FailedBinding { profile: binding.profile, is_rejected, length };
        core.measures.binding_failed(failed);
        let freed = EventObject::Pod(binding.pod.clone());
        // What the pod gives back may help others. A rejected pod goes back to the queue before that event and is left out
        // of it: while it is in flight, its own end would count as an event that it missed, and bring it back for nothing.
        if is_forgotten && !is_rejected {
            core.move_all(&ClusterEvent::ASSIGNED_POD_DELETE, Some(&freed), None);
        }
        let failure = if was_waiting && is_rejected {
            Failure::Unfit(
                Box::new(rejected_while_waiting(&status)),
                NominatingInfo::Override(None),
            )
        } else {
            Failure::from(status)
        };
        let Binding { queued, pod, profile, .. } = *binding;
        let uid = pod.uid.clone();
        send_back(core, queued, profile, Some(pod), failure);
        if is_forgotten && is_rejected {
            core.move_all_if(&ClusterEvent::ASSIGNED_POD_DELETE, &freed, None, |other| {
                other.uid != uid
            });
        }
        // What is not about to be written any more may help others, too.
        for released in std::mem::take(&mut core.released) {
            core.report_released_object(released, |other| other.uid != uid);
        }
    }

    /// Unreserves in reverse order and forgets the pod; says whether that worked.
    fn undo(&mut self, core: &mut Core, binding: &mut Binding) -> bool {
        let later = binding.unreserve(core);
        self.carry_out(core, later);
        match core.cluster.forget_pod_as(&binding.pod) {
            Ok(_) => true,
            Err(error) => {
                core.note(format!("ForgetPod failed: {error}"));
                false
            }
        }
    }
}

impl Binding {
    /// For the log, if the status is a rejection and not an error.
    fn notice_rejection(&self, core: &mut Core, at: RejectionStage, status: &Status) {
        if status.is_rejected() {
            core.notices.add(4, || Notice::RejectedByPlugin {
                pod: PodRef::from(&*self.pod),
                node: self.node.clone(),
                plugin: status.plugin().cloned().unwrap_or_default(),
                at,
                status: status.message(),
            });
        }
    }
}

/// The error of a pod that was rejected while it waited. The plugin that did it is to blame, by name; a pod that was
/// rejected for another reason is blamed on a plugin without a name, so that no event brings it back.
fn rejected_while_waiting(status: &Status) -> FitError {
    let mut error = FitError::on_chosen_node(status);
    let blamed = status.plugin().cloned().unwrap_or_default();
    error.diagnosis.unschedulable_plugins = [blamed].into();
    error.diagnosis.pending_plugins.clear();
    error
}
