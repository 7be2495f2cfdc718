//! One resource, and how much of it nodes have and pods take.

use std::sync::Arc;

use kube_scheduler_framework::api::{CPU, EPHEMERAL_STORAGE, MEMORY, Quantity, Resources};
use kube_scheduler_framework::{ClusterView, NodeIdx};

/// A resource. Amounts of CPU are in milli-CPU, others in bytes or units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    Cpu,
    Memory,
    EphemeralStorage,
    Scalar(Arc<str>),
}

impl Resource {
    /// The resource of this name.
    pub(crate) fn named(name: &str) -> Self {
        match name {
            CPU => Self::Cpu,
            MEMORY => Self::Memory,
            EPHEMERAL_STORAGE => Self::EphemeralStorage,
            other => Self::Scalar(other.into()),
        }
    }

    /// The name for users, with the unit.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Cpu => "cpu (milli)",
            Self::Memory => "memory (bytes)",
            Self::EphemeralStorage => "ephemeral-storage (bytes)",
            Self::Scalar(name) => name,
        }
    }

    /// As much of it as `quantity` says.
    pub(crate) fn amount(&self, quantity: &Quantity) -> i64 {
        match self {
            Self::Cpu => quantity.milli_value(),
            _ => quantity.value(),
        }
    }

    /// How much of it `resources` are.
    pub(crate) fn of(&self, resources: &Resources) -> i64 {
        match self {
            Self::Cpu => resources.milli_cpu,
            Self::Memory => resources.memory,
            Self::EphemeralStorage => resources.ephemeral_storage,
            Self::Scalar(name) => resources.scalar(name).unwrap_or(0),
        }
    }

    /// What the node has, and what of it its pods ask for.
    pub(super) fn on_node(&self, cluster: ClusterView<'_>, node: NodeIdx) -> (i64, i64) {
        let (allocatable, requested) = (cluster.allocatable(), cluster.requested());
        match self {
            Self::Cpu => (allocatable.milli_cpu().get(node), requested.milli_cpu().get(node)),
            Self::Memory => (allocatable.memory().get(node), requested.memory().get(node)),
            Self::EphemeralStorage => {
                (allocatable.ephemeral_storage().get(node), requested.ephemeral_storage().get(node))
            }
            Self::Scalar(name) => (
                allocatable.scalar_at(name, node).unwrap_or(0),
                requested.scalar_at(name, node).unwrap_or(0),
            ),
        }
    }

    /// What is free on the node. A node on which more is requested than it has does not take from others.
    pub(crate) fn free(&self, cluster: ClusterView<'_>, node: NodeIdx) -> i64 {
        let (has, used) = self.on_node(cluster, node);
        has.saturating_sub(used).max(0)
    }
}
