//! A node as a plugin sees it: as it is, or as it would be.

use std::sync::Arc;

use kube_scheduler_api_types::{HostPort, Labels, Node, NonZeroRequest, Pod, Resources};
use kube_scheduler_cache::{ClusterState, NodeIdx, NodeOverlay};

/// One node, with hypothetical pods added or removed if there is an overlay. Copying copies references.
#[derive(Clone, Copy)]
pub struct NodeView<'a> {
    cluster: &'a ClusterState,
    node: &'a Arc<Node>,
    idx: NodeIdx,
    overlay: Option<&'a NodeOverlay>,
}

impl<'a> NodeView<'a> {
    /// The node in slot `idx`, `None` when there is no node object.
    pub fn new(cluster: &'a ClusterState, idx: NodeIdx) -> Option<Self> {
        Some(Self { cluster, node: cluster.node(idx)?, idx, overlay: None })
    }

    /// The node behind `overlay`, as it would be.
    pub fn hypothetical(cluster: &'a ClusterState, overlay: &'a NodeOverlay) -> Option<Self> {
        let idx = overlay.node();
        Some(Self { cluster, node: cluster.node(idx)?, idx, overlay: Some(overlay) })
    }

    /// The node object.
    pub fn node(&self) -> &'a Arc<Node> {
        self.node
    }

    /// The slot.
    pub fn idx(&self) -> NodeIdx {
        self.idx
    }

    /// The name.
    pub fn name(&self) -> &'a Arc<str> {
        &self.node.name
    }

    /// The labels.
    pub fn labels(&self) -> &'a Labels {
        &self.node.labels
    }

    /// What the node has for pods.
    pub fn allocatable(&self) -> &'a Resources {
        &self.node.allocatable
    }

    /// How many pods the node takes.
    pub fn allowed_pods(&self) -> i64 {
        self.node.allowed_pods
    }

    /// CPU that its pods ask for, in milli-CPU.
    pub fn requested_milli_cpu(&self) -> i64 {
        let base = self.cluster.requested().milli_cpu().get(self.idx.index());
        self.overlay.map_or(base, |overlay| base.wrapping_add(overlay.requested_delta().milli_cpu))
    }

    /// Memory that its pods ask for, in bytes.
    pub fn requested_memory(&self) -> i64 {
        let base = self.cluster.requested().memory().get(self.idx.index());
        self.overlay.map_or(base, |overlay| base.wrapping_add(overlay.requested_delta().memory))
    }

    /// Ephemeral storage that its pods ask for, in bytes.
    pub fn requested_ephemeral_storage(&self) -> i64 {
        let base = self.cluster.requested().ephemeral_storage().get(self.idx.index());
        self.overlay
            .map_or(base, |overlay| base.wrapping_add(overlay.requested_delta().ephemeral_storage))
    }

    /// How much of a scalar resource its pods ask for.
    pub fn requested_scalar(&self, name: &str) -> i64 {
        let base =
            self.cluster.requested().scalar(name).map_or(0, |column| column.get(self.idx.index()));
        let delta =
            self.overlay.and_then(|overlay| overlay.requested_delta().scalar(name)).unwrap_or(0);
        base.wrapping_add(delta)
    }

    /// CPU and memory that its pods ask for, defaults filled in.
    pub fn non_zero_requested(&self) -> NonZeroRequest {
        let (milli_cpu, memory) = self.cluster.non_zero_requested();
        let base = NonZeroRequest {
            milli_cpu: milli_cpu.get(self.idx.index()),
            memory: memory.get(self.idx.index()),
        };
        self.overlay.map_or(base, |overlay| {
            let delta = overlay.non_zero_delta();
            NonZeroRequest {
                milli_cpu: base.milli_cpu.wrapping_add(delta.milli_cpu),
                memory: base.memory.wrapping_add(delta.memory),
            }
        })
    }

    /// How many pods are on the node.
    pub fn n_pods(&self) -> i64 {
        match self.overlay {
            Some(overlay) => overlay.pod_count(self.cluster),
            None => i64::try_from(self.cluster.n_pods_on(self.idx)).unwrap_or(i64::MAX),
        }
    }

    /// The pods on the node, in no particular but a deterministic order.
    pub fn pods(&self) -> Box<dyn Iterator<Item = &'a Arc<Pod>> + 'a> {
        match self.overlay {
            Some(overlay) => Box::new(overlay.pods(self.cluster)),
            None => Box::new(self.cluster.pods_on(self.idx)),
        }
    }

    /// Whether a host port is taken.
    pub fn is_port_in_use(&self, port: &HostPort) -> bool {
        match self.overlay {
            Some(overlay) => overlay.used_ports(self.cluster).conflicts(port),
            None => self.cluster.used_ports(self.idx).conflicts(port),
        }
    }

    /// The cluster the node belongs to.
    pub fn cluster(&self) -> &'a ClusterState {
        self.cluster
    }

    /// The hypothetical changes, if there are any.
    pub fn overlay(&self) -> Option<&'a NodeOverlay> {
        self.overlay
    }
}

impl std::fmt::Debug for NodeView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeView")
            .field("name", &self.node.name)
            .field("is_hypothetical", &self.overlay.is_some())
            .finish_non_exhaustive()
    }
}
