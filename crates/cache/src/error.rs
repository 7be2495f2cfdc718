//! Why the cluster state refused a change, in the reference's words (`docs/spec/core.md` §14).

use std::sync::Arc;

use kube_scheduler_api_types::Pod;
use thiserror::Error;

/// A pod as messages write it: `uid(namespace/name)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodIdentity {
    /// The UID of the pod.
    pub uid: Arc<str>,
    /// Namespace; not written when empty.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl From<&Pod> for PodIdentity {
    fn from(pod: &Pod) -> Self {
        Self { uid: pod.uid.clone(), namespace: pod.namespace.clone(), name: pod.name.clone() }
    }
}

impl std::fmt::Display for PodIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let separator = if self.namespace.is_empty() { "" } else { "/" };
        write!(f, "{}({}{separator}{})", self.uid, self.namespace, self.name)
    }
}

/// Why a change of the cluster state was refused. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The pod has no UID, by which pods are known here.
    #[error("cannot get cache key for pod with empty UID")]
    EmptyUid,
    /// Only pods that have a node are kept here.
    #[error("pod {0} has no node name")]
    Unassigned(PodIdentity),
    /// Assuming a pod that is assumed or running.
    #[error("pod {0} is in the cache, so can't be assumed")]
    AlreadyKnown(PodIdentity),
    /// Forgetting a pod that is somewhere else by now.
    #[error("pod {pod} was assumed on {assumed} but assigned to {assigned}")]
    AssignedElsewhere {
        /// Which pod.
        pod: PodIdentity,
        /// Where the caller believes it to be.
        assumed: Arc<str>,
        /// Where it is.
        assigned: Arc<str>,
    },
    /// Forgetting a pod that was not assumed but reported with its node.
    #[error("pod {0} wasn't assumed so cannot be forgotten")]
    NotAssumed(PodIdentity),
    /// Adding a pod that the API server has already reported with its node.
    #[error("pod {0} was already in added state")]
    AlreadyAdded(PodIdentity),
    /// Updating a pod that is not known.
    #[error("pod {0} is not added to scheduler cache, so cannot be updated")]
    NotAdded(PodIdentity),
    /// Updating a pod that is assumed, and not yet reported with its node.
    #[error("assumed pod {0} should not be updated")]
    Assumed(PodIdentity),
    /// Removing an unknown pod, of which only the UID is known.
    #[error("pod {uid} is not found in scheduler cache, so cannot be removed from it")]
    PodNotFound {
        /// Its UID.
        uid: Arc<str>,
    },
    /// Removing a node that is not known.
    #[error("node {name} is not found")]
    NodeNotFound {
        /// Its name.
        name: Arc<str>,
    },
    /// Taking a pod off a node where it is not.
    #[error("no corresponding pod {pod} in pods of node {node}")]
    PodNotOnNode {
        /// Name or UID of the pod.
        pod: Arc<str>,
        /// Name of the node.
        node: Arc<str>,
    },
}
