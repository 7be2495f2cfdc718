//! Reserve, Permit, PreBind, Bind and PostBind.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::{NodeResourceClaim, Object, Pod, Timestamp};
use kube_scheduler_cache::{NodeIdx, ObjectKey};

use crate::context::{Commands, Context};
use crate::cycle_state::CycleState;
use crate::points::{Chooser, ObjectWrite, PlacedGroup};
use crate::services::{ApiError, BoxFuture};
use crate::status::Status;

/// Book-keeping once a node is chosen.
///
/// The [`Commands`] that a plugin gives about objects (assume, restore) are carried out before the next plugin is called,
/// all others after the last one.
pub trait Reserve: Send + Sync {
    /// What the pod's claims take of the resources of `node`, on which it is about to be assumed; `None` if this plugin
    /// does not know. It replaces what the pod's status says.
    fn node_resource_claims(
        &self,
        state: &CycleState,
        pod: &Pod,
        node: NodeIdx,
    ) -> Option<Arc<[NodeResourceClaim]>> {
        let _ = (state, pod, node);
        None
    }

    /// Called once per attempt, after the pod was assumed on `node`. A failure undoes all reservations.
    fn reserve(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &Arc<Pod>,
        node: &str,
        commands: &mut Commands,
    ) -> Status;

    /// Undoes a reservation. Called for every Reserve plugin, in reverse order, whenever the pod is not bound to the node
    /// after all, even if the plugin's own `reserve` never ran; must be idempotent and cannot fail.
    fn unreserve(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &Arc<Pod>,
        node: &str,
        commands: &mut Commands,
    );

    /// What a gang that holds room has to hold for the pod besides its place on a node, such as devices: objects that say what a
    /// `reserve` with this `state`, undone since, had taken. Pods that must leave room for the gang see them as
    /// [pending](kube_scheduler_cache::ObjectStore::pending), other pods do not see them.
    ///
    /// The UID of each must be no real object's. Objects of different pods need different UIDs, unless the pods share what the
    /// object stands for. When some are no longer held, queueing hints get one update event with one of these as the old object
    /// and without a new one.
    fn planned(&self, state: &CycleState) -> Vec<Arc<Object>> {
        let _ = state;
        Vec::new()
    }

    /// Whether this plugin reads for this pod what earlier extension points stored. Saying no saves keeping it.
    fn reads_cycle_state(&self, pod: &Pod) -> bool {
        let _ = pod;
        true
    }

    /// Whether this plugin has nothing to do for such a pod, wherever it goes: it accepts the pod, and asks for nothing. Saying
    /// so allows the members of a pod group to be counted instead of tried, and to stay on their nodes between trial and binding.
    /// It speaks for the plugin's PreBind as well.
    fn is_idle_for(&self, pod: &Pod) -> bool {
        let _ = pod;
        false
    }

    /// Whether `reserve` may pick one of several alternatives for this pod, such as volumes or devices. What remains for other
    /// pods then depends on the order of placement, and only one alternative is tried, unless there is a
    /// [chooser](Self::chooser). Must also be true for a plugin whose decision about the pod depends on that order: if another
    /// plugin has a chooser, pods on the same nodes with equal [marks](crate::groups::ChoiceOutcome::Made) count as the same
    /// state, whatever the order.
    fn chooses_for(&self, cx: &Context<'_>, pod: &Pod) -> bool {
        let _ = (cx, pod);
        false
    }

    /// What offers other choices for this pod when it is planned together with others. If several plugins of a profile choose for
    /// a pod, only the first one with a chooser is asked.
    fn chooser(&self, cx: &Context<'_>, pod: &Pod) -> Option<&dyn Chooser> {
        let _ = (cx, pod);
        None
    }
}

/// What Permit decided: the binding goes on, waits, or is rejected.
#[derive(Clone, Debug)]
pub struct PermitDecision {
    /// Success, `Wait` or a rejection.
    pub status: Status,
    /// With `Wait`: how long, at most 15 minutes.
    pub timeout: Duration,
}

impl PermitDecision {
    /// The binding may go on.
    pub fn allow() -> Self {
        Self { status: Status::SUCCESS, timeout: Duration::ZERO }
    }

    /// Wait until this plugin allows the pod, for `timeout` at most.
    pub fn wait(timeout: Duration) -> Self {
        Self { status: Status::new(crate::status::Code::Wait, []), timeout }
    }

    /// The pod is rejected, or the attempt fails, as `status` says.
    pub fn deny(status: Status) -> Self {
        Self { status, timeout: Duration::ZERO }
    }
}

/// Approves, denies or delays the binding.
pub trait Permit: Send + Sync {
    /// Called once per attempt, after all reservations.
    fn permit(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &Arc<Pod>,
        node: &str,
        commands: &mut Commands,
    ) -> PermitDecision;

    /// Whether this plugin reads for this pod what earlier extension points stored. Saying no saves keeping it.
    fn reads_cycle_state(&self, pod: &Pod) -> bool {
        let _ = pod;
        true
    }

    /// Whether this plugin allows every pod that is in no group, and asks for nothing then. Asked once for a profile; such pods may
    /// not be asked about.
    fn concerns_groups_alone(&self) -> bool {
        false
    }

    /// The number of further members, besides those that have a node, that must be placed before this plugin allows any of them
    /// to bind. `Some` only if the plugin decides by that number alone and never rejects; `None` otherwise. With `Some`, members
    /// may be counted instead of tried, and may keep their nodes between trial and binding. If that many are placed together,
    /// `permit` is called for the last one only, and the others are allowed with it, in the order of their UIDs.
    fn members_needed(&self, cx: &Context<'_>, group: PlacedGroup<'_>) -> Option<usize> {
        let _ = (cx, group);
        None
    }
}

/// The result of PreBind: available now, or later.
pub enum Completion {
    /// Done.
    Ready(Status),
    /// Awaited outside the core; the pod's binding goes on when it ends.
    Pending(BoxFuture<Status>),
    /// A state machine that the engine runs step by step, writing objects for it and waking it; the pod's binding goes
    /// on when it ends.
    Task(Box<dyn PreBindTask>),
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready(status) => f.debug_tuple("Ready").field(status).finish(),
            Self::Pending(_) => f.write_str("Pending"),
            Self::Task(_) => f.write_str("Task"),
        }
    }
}

/// Why [`PreBindTask::step`] is called.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TaskEvent {
    /// The task has just been handed to the engine: its first step.
    Started,
    /// The API server answered the write that the task asked for: the object as it is stored now, or as it was last if it
    /// was deleted; or the error.
    Written(Result<Arc<Object>, ApiError>),
    /// The wait may be over: its deadline passed, one of its objects changed, or its pod is gone.
    Woken,
}

/// What a [`PreBindTask`] asks the engine to do next.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TaskStep {
    /// Carry out this request. The answer comes as [`TaskEvent::Written`].
    Write(ObjectWrite),
    /// Call again at `until`, when any of `objects` has changed, or when the pod is gone, whichever comes first.
    Wait {
        /// The deadline; `None` to wait for changes alone.
        until: Option<Timestamp>,
        /// The objects whose changes end the wait; they need not exist.
        objects: Vec<ObjectKey>,
    },
    /// The task has ended with this status.
    Done(Status),
}

/// What a [`PreBindTask`] may look at and change in one step.
pub struct TaskContext<'a> {
    /// The usual context.
    pub cx: Context<'a>,
    /// What the plugin stored for this attempt.
    pub state: &'a mut CycleState,
    /// The pod, with its node filled in.
    pub pod: &'a Arc<Pod>,
    /// The node's name.
    pub node: &'a str,
    /// Whether the pod is still there; one that has ended is not.
    pub pod_exists: bool,
    /// Requests to the engine. Those about objects are carried out first, and before the step's own write.
    pub commands: &'a mut Commands,
}

impl fmt::Debug for TaskContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskContext").field("pod", &self.pod.key()).finish_non_exhaustive()
    }
}

/// Work before the binding that needs the API server or has to wait, as a state machine without IO.
///
/// The engine calls [`step`](Self::step) again and again until it returns [`TaskStep::Done`]. The task is dropped without
/// notice when the pod's binding ends in another way; undoing what it did is up to [`Reserve::unreserve`]. A panic ends
/// the task with an error.
pub trait PreBindTask: Send + Sync {
    /// Does what can be done without waiting, and returns what the task needs next.
    fn step(&mut self, cx: &mut TaskContext<'_>, event: TaskEvent) -> TaskStep;

    /// Whether the task has to go on although the binding has failed, because it is not known yet whether a write was carried
    /// out. If it ended now, [`Reserve::unreserve`] might undo too little. Asked after each step.
    fn must_finish(&self) -> bool {
        false
    }
}

impl fmt::Debug for dyn PreBindTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PreBindTask")
    }
}

/// The answer of [`PreBind::pre_bind_pre_flight`]: whether PreBind has anything to do for a pod.
#[derive(Clone, Debug)]
pub struct PreBindFlight {
    /// Success when PreBind must run, `Skip` when it need not, or an error.
    pub status: Status,
    /// PreBind may run beside other PreBind plugins that say the same.
    pub may_run_in_parallel: bool,
}

/// Work that must be done before the binding is written.
pub trait PreBind: Send + Sync {
    /// Says, quickly and without side effects, whether [`pre_bind`](Self::pre_bind) has work to do for this pod.
    fn pre_bind_pre_flight(
        &self,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &Arc<Pod>,
        node: &str,
    ) -> PreBindFlight;
    /// Does the work. Any failure sends the pod back with backoff.
    fn pre_bind(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &Arc<Pod>,
        node: &str,
    ) -> Completion;

    /// Whether this plugin reads for this pod what earlier extension points stored. Saying no saves keeping it.
    fn reads_cycle_state(&self, pod: &Pod) -> bool {
        let _ = pod;
        true
    }
}

/// The result of Bind: who writes the binding, or how it ended.
pub enum BindOutcome {
    /// The daemon is to write the standard binding through the API server.
    WriteBinding,
    /// The plugin has bound the pod itself, has failed, or leaves the pod to the next Bind plugin (`Skip`).
    Ready(Status),
    /// Asynchronous work that binds the pod, awaited outside the engine.
    Pending(BoxFuture<Status>),
}

impl fmt::Debug for BindOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WriteBinding => f.write_str("WriteBinding"),
            Self::Ready(status) => f.debug_tuple("Ready").field(status).finish(),
            Self::Pending(_) => f.write_str("Pending"),
        }
    }
}

/// Extension point Bind: binds the pod to the chosen node, or lets the daemon do so.
pub trait Bind: Send + Sync {
    /// Called once per attempt, after PreBind. The first plugin that does not skip decides.
    fn bind(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &Arc<Pod>,
        node: &str,
    ) -> BindOutcome;

    /// Whether `bind` reads what earlier extension points stored. Saying no saves keeping it.
    fn reads_cycle_state(&self) -> bool {
        true
    }
}

/// Notified about a finished binding.
pub trait PostBind: Send + Sync {
    /// Called once after the pod was bound. Purely informational: nothing the plugin does here affects the pod.
    fn post_bind(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &Arc<Pod>,
        node: &str,
        commands: &mut Commands,
    );
}
