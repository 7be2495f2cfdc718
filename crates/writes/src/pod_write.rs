//! One write about a pod, and which writes go first.

use std::sync::Arc;

use kube_scheduler_engine::{PodRef, StatusPatch, Token};
use kube_scheduler_framework::ObjectWrite;

/// A write about a pod. The token of each ties the answer to what the engine waits with.
#[derive(Clone, Debug, PartialEq)]
pub enum PodWrite {
    /// Bind the pod.
    Bind {
        /// Names the binding to the engine.
        token: Token,
        /// Which pod.
        pod: PodRef,
        /// To which node.
        node: Arc<str>,
    },
    /// Mark a victim of preemption, then delete it.
    Evict {
        /// Names the preemption to the engine.
        token: Token,
        /// The victim.
        pod: PodRef,
        /// How to mark it; `None` when it is marked already.
        patch: Option<StatusPatch>,
    },
    /// Remove the nomination from the status of a pod.
    ClearNomination {
        /// Names the preemption to the engine.
        token: Token,
        /// Which pod.
        pod: PodRef,
    },
    /// Change the pod's status. The engine waits for no answer.
    Patch {
        /// Which pod.
        pod: PodRef,
        /// What to change.
        patch: StatusPatch,
        /// Whether it only says to which node the pod is being bound.
        is_announcement: bool,
    },
    /// Carry out a plugin's request about another object.
    Object {
        /// Names the binding that waits for the answer to the engine, if one does.
        token: Option<Token>,
        /// For which pod.
        pod: PodRef,
        /// The request.
        write: ObjectWrite,
    },
}

impl PodWrite {
    /// The pod that the write is about.
    pub const fn pod(&self) -> &PodRef {
        match self {
            Self::Bind { pod, .. }
            | Self::Evict { pod, .. }
            | Self::ClearNomination { pod, .. }
            | Self::Patch { pod, .. }
            | Self::Object { pod, .. } => pod,
        }
    }

    /// The HTTP method of its request, or of the last one.
    pub const fn method(&self) -> &'static str {
        match self {
            Self::Bind { .. } => "POST",
            Self::Evict { .. } => "DELETE",
            Self::ClearNomination { .. } | Self::Patch { .. } => "PATCH",
            Self::Object { write, .. } => write.method(),
        }
    }

    /// The reference's name for calls of this type, where it dispatches them asynchronously; `None` where it does not.
    pub const fn async_call_type(&self) -> Option<&'static str> {
        match self {
            Self::Bind { .. } => Some("pod_binding"),
            Self::Patch { .. } | Self::ClearNomination { .. } => Some("pod_status_patch"),
            Self::Evict { .. } | Self::Object { .. } => None,
        }
    }

    /// How many requests it takes at least: a victim is marked first.
    pub(crate) const fn n_requests(&self) -> u32 {
        match self {
            Self::Evict { patch: Some(_), .. } => 2,
            _ => 1,
        }
    }

    /// Whether an announcement that waits is not to be written after this: the pod is bound, or its binding has ended otherwise.
    pub(crate) const fn ends_announcement(&self) -> bool {
        !matches!(
            self,
            Self::Object { token: Some(_), .. } | Self::Patch { is_announcement: true, .. }
        )
    }

    /// Which writes it goes with.
    pub(crate) const fn urgency(&self) -> Urgency {
        match self {
            Self::Bind { .. }
            | Self::Evict { .. }
            | Self::ClearNomination { .. }
            | Self::Object { .. } => Urgency::Now,
            Self::Patch { .. } => Urgency::Soon,
        }
    }
}

/// The class of a write: which writes go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Writes that a binding or a preemption waits for: bindings, evictions, objects.
    Now,
    /// Status patches, which only people read.
    Soon,
}
