//! Reserve, Permit, PreBind, Bind and PostBind.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::{Object, Pod, Timestamp};
use kube_scheduler_cache::ObjectKey;

use crate::context::{Commands, Context};
use crate::cycle_state::CycleState;
use crate::status::Status;

/// Work that ends in a status, to be awaited outside the core.
pub type StatusFuture = Pin<Box<dyn Future<Output = Status> + Send>>;

/// Book-keeping once a node is chosen.
///
/// What is asked for about objects is done before the next plugin is called, everything else after the last one.
pub trait Reserve: Send + Sync {
    /// Called once per attempt, after the pod was assumed on `node`. A failure undoes all reservations.
    fn reserve(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &Arc<Pod>,
        node: &str,
        commands: &mut Commands,
    ) -> Status;

    /// Undoes a reservation. Called for every Reserve plugin, in reverse order, whenever the pod does not make it to
    /// its node, even if its own `reserve` never ran; must be idempotent and cannot fail.
    fn unreserve(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &Arc<Pod>,
        node: &str,
        commands: &mut Commands,
    );

    /// Whether this plugin reads for this pod what earlier extension points stored. Saying no saves keeping it.
    fn reads_cycle_state(&self, pod: &Pod) -> bool {
        let _ = pod;
        true
    }
}

/// What Permit decided.
#[derive(Clone, Debug)]
pub struct PermitDecision {
    /// Success, `Wait` or a rejection.
    pub status: Status,
    /// With `Wait`: how long, at most 15 minutes.
    pub timeout: Duration,
}

impl PermitDecision {
    /// Go on.
    pub fn allow() -> Self {
        Self { status: Status::SUCCESS, timeout: Duration::ZERO }
    }

    /// Wait until this plugin allows the pod, for `timeout` at most.
    pub fn wait(timeout: Duration) -> Self {
        Self { status: Status::new(crate::status::Code::Wait, []), timeout }
    }

    /// Turn the pod down, or fail.
    pub fn deny(status: Status) -> Self {
        Self { status, timeout: Duration::ZERO }
    }
}

/// Approve, deny or delay the binding.
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
}

/// A status now, or later.
pub enum Completion {
    /// Done.
    Ready(Status),
    /// Awaited outside the core; the pod's binding goes on when it ends.
    Pending(StatusFuture),
    /// Done step by step inside the core, which writes objects for it and wakes it; the pod's binding goes on when it
    /// ends.
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

/// Why the API server did not do what a write asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteError {
    /// The machine-readable reason, such as `Conflict` or `NotFound`; empty when the server did not say.
    pub reason: Arc<str>,
    /// The text for people.
    pub message: Arc<str>,
}

impl WriteError {
    /// An error with this reason, or none, and this text.
    pub fn new(reason: impl Into<Arc<str>>, message: impl Into<Arc<str>>) -> Self {
        Self { reason: reason.into(), message: message.into() }
    }
}

impl std::error::Error for WriteError {}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Why a [`PreBindTask`] is asked to go on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TaskEvent {
    /// It has just been handed over.
    Started,
    /// The API server answered the write that it asked for: with the object as it is stored now, or with a refusal.
    Written(Result<Arc<Object>, WriteError>),
    /// What it waited for may have come: its time, a change of one of its objects, or the end of its pod.
    Woken,
}

/// What a [`PreBindTask`] needs next.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TaskStep {
    /// This object to be written in place of the revision that it carries; a newer one at the server is a conflict.
    Write(Arc<Object>),
    /// To be asked again at `until`, when any of `objects` has changed, or when the pod is gone, whatever comes first.
    Wait {
        /// When; none for no time of its own.
        until: Option<Timestamp>,
        /// Which objects; they need not exist.
        objects: Vec<ObjectKey>,
    },
    /// Nothing.
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
    /// What the plugin asks for; objects first, and before the step's own write.
    pub commands: &'a mut Commands,
}

impl fmt::Debug for TaskContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskContext").field("pod", &self.pod.key()).finish_non_exhaustive()
    }
}

/// Work before the binding that needs the API server or has to wait, as a state machine without IO.
///
/// The engine asks it for one step after the other. It is dropped without notice when the pod's binding ends in another
/// way; undoing what it did is up to [`Reserve::unreserve`]. A panic ends it with an error.
pub trait PreBindTask: Send + Sync {
    /// Goes on as far as possible.
    fn step(&mut self, cx: &mut TaskContext<'_>, event: TaskEvent) -> TaskStep;
}

impl fmt::Debug for dyn PreBindTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PreBindTask")
    }
}

/// Whether PreBind has anything to do.
#[derive(Clone, Debug)]
pub struct PreBindFlight {
    /// Success when PreBind must run, `Skip` when it need not, or an error.
    pub status: Status,
    /// PreBind may run beside other PreBind plugins that say the same.
    pub may_run_in_parallel: bool,
}

/// Work that must be done before the binding is written.
pub trait PreBind: Send + Sync {
    /// Quick look ahead: is there work? No side effects.
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

/// What Bind did.
pub enum BindOutcome {
    /// Write the standard binding through the API server; the shell does it.
    WriteBinding,
    /// Done, failed, or `Skip`: not mine.
    Ready(Status),
    /// Awaited outside the core.
    Pending(StatusFuture),
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

/// Write the binding.
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

/// Told about a finished binding.
pub trait PostBind: Send + Sync {
    /// Purely informational.
    fn post_bind(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &Arc<Pod>,
        node: &str,
        commands: &mut Commands,
    );
}
