//! One resource, and how much of it nodes have and pods take.

use std::sync::Arc;

use kube_scheduler_framework::api::{CPU, EPHEMERAL_STORAGE, MEMORY, Quantity, Resources};
use kube_scheduler_framework::columns::{Column, ResourceColumns};
use kube_scheduler_framework::{ClusterView, NodeIdx, NodeView};

/// A resource. Amounts of CPU are in milli-CPU, others in bytes or units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    Cpu,
    Memory,
    EphemeralStorage,
    Scalar(Arc<str>),
}

/// The resources that every node has, in the order in which they are reported.
pub(super) static COMPUTE: [Resource; 3] =
    [Resource::Cpu, Resource::Memory, Resource::EphemeralStorage];

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

    /// How much of it all nodes have, or their pods ask for; `None` if no node has any.
    pub(super) fn column<'a>(&self, columns: &'a ResourceColumns) -> Option<&'a Column<i64>> {
        match self {
            Self::Cpu => Some(columns.milli_cpu()),
            Self::Memory => Some(columns.memory()),
            Self::EphemeralStorage => Some(columns.ephemeral_storage()),
            Self::Scalar(name) => columns.scalar(name),
        }
    }

    /// How much of it the pods on a node ask for.
    pub(super) fn requested_on(&self, node: &NodeView<'_>) -> i64 {
        match self {
            Self::Cpu => node.requested_milli_cpu(),
            Self::Memory => node.requested_memory(),
            Self::EphemeralStorage => node.requested_ephemeral_storage(),
            Self::Scalar(name) => node.requested_scalar(name),
        }
    }

    /// What is free on the node. A node on which more is requested than it has does not take from others.
    pub(crate) fn free(&self, cluster: ClusterView<'_>, node: NodeIdx) -> i64 {
        let [has, used] = [cluster.allocatable(), cluster.requested()]
            .map(|columns| self.column(columns).map_or(0, |column| column.get(node)));
        has.saturating_sub(used).max(0)
    }
}
