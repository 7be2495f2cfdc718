//! Everything that can come into the engine.

use std::sync::Arc;

use kube_scheduler_api_types::{Node, Object, Pod};
use kube_scheduler_framework::{ApiError, Commands, Status};

use crate::effect::Token;

/// How an eviction ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionOutcome {
    /// The pod was deleted, or is on its way out.
    Deleted,
    /// There was no such pod any more.
    AlreadyGone,
}

/// Something that happened outside.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Input {
    /// A pod exists, in this state. Added or changed: the engine knows what it saw last.
    PodApplied(Arc<Pod>),
    /// A pod is gone: deleted, or out of the selection because it has ended.
    PodDeleted {
        /// Its namespace.
        namespace: Arc<str>,
        /// Its name.
        name: Arc<str>,
    },
    /// A node exists, in this state.
    NodeApplied(Arc<Node>),
    /// A node is gone.
    NodeDeleted {
        /// Its name.
        name: Arc<str>,
    },
    /// An object of any other kind exists, in this state.
    ObjectApplied(Arc<Object>),
    /// An object of any other kind is gone. The last known state is enough.
    ObjectDeleted(Arc<Object>),
    /// The API server answered a [`WriteBinding`](crate::Effect::WriteBinding).
    BindingWritten {
        /// Which.
        token: Token,
        /// Why it failed, if it did.
        result: Result<(), ApiError>,
    },
    /// The API server answered a [`WriteObject`](crate::Effect::WriteObject). What was written comes again as
    /// [`ObjectApplied`](Self::ObjectApplied), as everything else that changes.
    ObjectWritten {
        /// Which.
        token: Token,
        /// The object as it is stored now, or why it was not taken.
        result: Result<Arc<Object>, ApiError>,
    },
    /// A plugin's [`Await`](crate::Effect::Await) ended.
    WorkFinished {
        /// Which.
        token: Token,
        /// How.
        status: Status,
    },
    /// A victim of preemption was [evicted](crate::Effect::EvictPod), or not.
    PodEvicted {
        /// Which.
        token: Token,
        /// How it ended, or why it failed.
        result: Result<EvictionOutcome, ApiError>,
    },
    /// The API server answered a [`ClearNomination`](crate::Effect::ClearNomination).
    NominationCleared {
        /// Which.
        token: Token,
        /// Why it failed, if it did.
        result: Result<(), ApiError>,
    },
    /// Work of a plugin that goes on outside of the engine asks for something.
    PluginAsked(Commands),
    /// Time has passed and nothing else has happened.
    TimePassed,
}
