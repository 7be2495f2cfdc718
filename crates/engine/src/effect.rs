//! Everything that can go out of the engine.
//!
//! Effects are data, except for futures that plugins want awaited. They come out in the order in which they were decided;
//! the shell may carry them out concurrently, one pod's in order.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use kube_scheduler_api_types::{Pod, PodCondition};
use kube_scheduler_framework::{BoxFuture, EventKind, ObjectWrite, PluginName, Status};

/// Ties the result of an effect to the binding or preemption that waits for it. Unique among effects of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// Which pod an effect is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodRef {
    /// The namespace of the pod.
    pub namespace: Arc<str>,
    /// The name of the pod in its namespace.
    pub name: Arc<str>,
    /// Identity; the API server must refuse a pod of the same name with another one.
    pub uid: Arc<str>,
}

impl From<&Pod> for PodRef {
    fn from(pod: &Pod) -> Self {
        Self { namespace: pod.namespace.clone(), name: pod.name.clone(), uid: pod.uid.clone() }
    }
}

impl fmt::Display for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Which object an event is related to, and the revision of it that counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectRef {
    /// API group and version, such as `scheduling.k8s.io/v1alpha2`.
    pub api_version: Arc<str>,
    /// The kind of the object.
    pub kind: Arc<str>,
    /// The namespace of the object; empty for cluster-wide kinds.
    pub namespace: Arc<str>,
    /// The name of the object.
    pub name: Arc<str>,
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`.
    pub resource_version: Arc<str>,
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { api_version, kind, namespace, name, .. } = self;
        write!(f, "{api_version} {kind} {namespace}/{name}")
    }
}

/// A change to a pod's status. Sent as one patch.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusPatch {
    /// The condition to set, complete.
    pub condition: Option<PodCondition>,
    /// The nomination to set, or to clear.
    pub nominated_node_name: Option<Option<Arc<str>>>,
    /// Whether the pod had conditions before: the patch then names the merge key's order.
    pub has_conditions: bool,
}

impl StatusPatch {
    /// A patch that clears `nominatedNodeName` and changes nothing else.
    pub const NO_NOMINATION: Self =
        Self { condition: None, nominated_node_name: Some(None), has_conditions: false };

    /// Makes this patch, which is not written yet, do what `newer` does as well: what is newer wins. Returns whether it
    /// could: conditions of different kinds are written one by one.
    #[must_use]
    pub fn absorb(&mut self, newer: &Self) -> bool {
        if let (Some(waiting), Some(newer)) = (&self.condition, &newer.condition)
            && waiting.kind != newer.kind
        {
            return false;
        }
        if newer.condition.is_some() {
            self.condition.clone_from(&newer.condition);
        }
        if newer.nominated_node_name.is_some() {
            self.nominated_node_name.clone_from(&newer.nominated_node_name);
        }
        true
    }
}

impl fmt::Display for StatusPatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.nominated_node_name {
            Some(Some(node)) => write!(f, " nominated={node}")?,
            Some(None) => write!(f, " nominated-cleared")?,
            None => {}
        }
        let Some(c) = &self.condition else { return Ok(()) };
        write!(f, " {}={} reason={} message={:?}", c.kind, c.status, c.reason, c.message)
    }
}

/// The reason of events that say why an attempt failed, its binding included.
pub const FAILED_SCHEDULING: &str = "FailedScheduling";

/// Something the shell must do.
#[non_exhaustive]
pub enum Effect {
    /// Write the standard binding. The result comes back as [`Input::BindingWritten`](crate::Input::BindingWritten).
    WriteBinding {
        /// Ties the result to the binding.
        token: Token,
        /// Which pod.
        pod: PodRef,
        /// Onto which node.
        node: Arc<str>,
    },
    /// Patch the status of a pod. No result is expected; retries are the shell's.
    PatchStatus {
        /// Which pod.
        pod: PodRef,
        /// What to change.
        patch: StatusPatch,
        /// Whether it only says to which node the pod is being bound. It is not needed any more when the binding is written.
        is_announcement: bool,
    },
    /// Record an event that users see.
    RecordEvent {
        /// About which pod.
        pod: PodRef,
        /// The version of the pod that was decided about.
        resource_version: Arc<str>,
        /// What else it is about.
        related: Option<Arc<ObjectRef>>,
        /// Whether something went as planned or not.
        kind: EventKind,
        /// Machine-readable cause.
        reason: Cow<'static, str>,
        /// What was being done.
        action: Cow<'static, str>,
        /// Human-readable text.
        note: String,
        /// The name of the profile that reports it.
        reporting: Arc<str>,
    },
    /// Mark a victim of preemption, then delete it with its own grace period. The result comes back as
    /// [`Input::PodEvicted`](crate::Input::PodEvicted); a pod that is not found by either call is gone already.
    EvictPod {
        /// Ties the result to the preemption.
        token: Token,
        /// Which pod.
        pod: PodRef,
        /// How to mark it; `None` when it is marked already.
        patch: Option<StatusPatch>,
    },
    /// Clear a pod's nomination, since a more important pod needs the room. The result comes back as
    /// [`Input::NominationCleared`](crate::Input::NominationCleared).
    ClearNomination {
        /// Ties the result to the preemption.
        token: Token,
        /// Which pod.
        pod: PodRef,
    },
    /// Cancel an [`Await`](Self::Await) whose result is not needed any more. The result still comes back.
    CancelWork {
        /// Which work.
        token: Token,
    },
    /// Carry out a plugin's request about another object.
    WriteObject {
        /// The pod for which it is carried out; writes of one pod are carried out one after the other.
        pod: PodRef,
        /// The request.
        write: ObjectWrite,
        /// Ties the answer to the binding, and the plugin whose work it is: the answer comes back as
        /// [`Input::ObjectWritten`](crate::Input::ObjectWritten). `None` if the answer is not used.
        awaited_by: Option<(Token, PluginName)>,
    },
    /// Await a plugin's work. The result comes back as [`Input::WorkFinished`](crate::Input::WorkFinished).
    Await {
        /// Ties the result to the binding.
        token: Token,
        /// The plugin whose work it is.
        plugin: PluginName,
        /// The work.
        work: BoxFuture<Status>,
    },
}

impl fmt::Debug for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One line per effect, the same for the same effect: what decision logs and determinism tests compare.
impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WriteBinding { token, pod, node } => {
                write!(f, "bind #{} {pod} uid={} node={node}", token.0, pod.uid)
            }
            Self::PatchStatus { pod, patch, .. } => {
                write!(f, "patch {pod} uid={}{patch}", pod.uid)
            }
            Self::RecordEvent { pod, kind, reason, action, note, related, .. } => {
                write!(f, "event {pod} {} {reason} {action} {note:?}", kind.as_str())?;
                related.as_ref().map_or(Ok(()), |object| write!(f, " related={object}"))
            }
            Self::WriteObject { write, awaited_by, pod } => {
                match awaited_by {
                    Some((token, plugin)) => write!(f, "write #{} {plugin} ", token.0)?,
                    None => write!(f, "write for {pod} ")?,
                }
                display_write(write, f)
            }
            Self::EvictPod { token, pod, patch } => {
                write!(f, "evict #{} {pod} uid={}", token.0, pod.uid)?;
                patch.as_ref().map_or(Ok(()), |patch| patch.fmt(f))
            }
            Self::ClearNomination { token, pod } => {
                write!(f, "clear-nomination #{} {pod} uid={}", token.0, pod.uid)
            }
            Self::CancelWork { token } => write!(f, "cancel #{}", token.0),
            Self::Await { token, plugin, .. } => write!(f, "await #{} {plugin}", token.0),
        }
    }
}

fn display_write(write: &ObjectWrite, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let key = write.key();
    let (kind, name) = (&key.kind, &key.name);
    match &*key.namespace {
        "" => write!(f, "{kind} {name}")?,
        namespace => write!(f, "{kind} {namespace}/{name}")?,
    }
    match write {
        ObjectWrite::Replace(object) => write!(f, " revision={}", object.resource_version),
        ObjectWrite::ReplaceStatus(object) => {
            write!(f, " status revision={}", object.resource_version)
        }
        ObjectWrite::Create(_) => f.write_str(" created"),
        ObjectWrite::PatchStatus { patch, .. } => write!(f, " status patch={patch}"),
        ObjectWrite::Delete { .. } => f.write_str(" deleted"),
        ObjectWrite::Get(_) => f.write_str(" read"),
        other => write!(f, " {}", other.method()),
    }
}
