//! Reserve, Permit, PreBind, Bind and PostBind.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::Pod;

use crate::context::{Commands, Context};
use crate::cycle_state::CycleState;
use crate::status::Status;

/// Work that ends in a status, to be awaited outside the core.
pub type StatusFuture = Pin<Box<dyn Future<Output = Status> + Send>>;

/// Book-keeping once a node is chosen.
pub trait Reserve: Send + Sync {
    /// Called once per attempt, after the pod was assumed on `node`. A failure undoes all reservations.
    fn reserve(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &Arc<Pod>,
        node: &str,
    ) -> Status;

    /// Undoes a reservation. Called for every Reserve plugin, in reverse order, whenever the pod does not make it to
    /// its node, even if its own `reserve` never ran; must be idempotent and cannot fail.
    fn unreserve(&self, cx: &Context<'_>, state: &mut CycleState, pod: &Arc<Pod>, node: &str);
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
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready(status) => f.debug_tuple("Ready").field(status).finish(),
            Self::Pending(_) => f.write_str("Pending"),
        }
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
