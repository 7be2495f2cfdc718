//! A node as a plugin sees it: as it is, or as it would be.

use std::sync::Arc;

use kube_scheduler_api_types::{
    HostPort, Labels, Node, NonZeroRequest, Pod, Resources, Source, Taint,
    node_satisfies_required_affinity,
};
use kube_scheduler_cache::columns::NodeVolumes;
use kube_scheduler_cache::reads::{DISCARDED, ReadSet, Reads};
use kube_scheduler_cache::{ClusterState, NodeIdx, NodeOverlay};

use crate::cluster_view::{ClusterView, Scope};

/// Readers of parts of the node object, each with what is noted.
macro_rules! parts_of_node {
    ($($(#[$doc:meta])* $name:ident -> $value:ty, $reads:expr, |$node:ident| $part:expr;)*) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $name(&self) -> $value {
            self.read($reads);
            let $node = self.node;
            $part
        }
    )*};
}

/// One node, with hypothetical pods added or removed if there is an overlay. Copying copies references.
///
/// An answer depends on what was read for it: prefer the narrow readers to [`node`](Self::node).
#[derive(Clone, Copy)]
pub struct NodeView<'a> {
    cluster: ClusterView<'a>,
    node: &'a Arc<Node>,
    idx: NodeIdx,
    overlay: Option<&'a NodeOverlay>,
}

impl<'a> NodeView<'a> {
    /// The node in slot `idx`, `None` when there is no node.
    #[inline]
    pub(crate) fn new(cluster: ClusterView<'a>, idx: NodeIdx) -> Option<Self> {
        Some(Self { cluster, node: cluster.state().node(idx)?, idx, overlay: None })
    }

    /// The node behind `overlay`, as it would be.
    #[inline]
    pub fn hypothetical(cluster: &'a ClusterState, overlay: &'a NodeOverlay) -> Option<Self> {
        let view = ClusterView::recorded_by(cluster, &DISCARDED, Scope::Asked);
        Some(Self { overlay: Some(overlay), ..Self::new(view, overlay.node())? })
    }

    /// This view of the node, with what is read noted in `reads`. An answer that was recorded so far counts as depending on
    /// everything.
    #[inline]
    pub fn with_reads<'b>(&self, reads: &'b ReadSet) -> NodeView<'b>
    where
        'a: 'b,
    {
        self.cluster.reads().note(Reads::ANYTHING);
        NodeView { cluster: self.cluster.with_reads(reads), ..*self }
    }

    #[inline]
    fn read(&self, reads: Reads) -> &'a ClusterState {
        self.cluster.at_node(reads)
    }

    parts_of_node! {
        /// The whole node object. The answer then depends on every aspect of the node, except for its resource version.
        node -> &'a Arc<Node>, Reads::NODE_OBJECT, |node| node;
        /// The node as the API server sent it, where a plugin [reads it](crate::Plugin::reads_node_sources). Changes of what the
        /// scheduler knows nothing of are not followed, so an answer that reads it is never cached.
        source -> Option<&'a Source>, Reads::ANYTHING, |node| node.source.as_deref();
        /// `metadata.name` of the node.
        name -> &'a Arc<str>, Reads::NODE_NAME, |node| &node.name;
        /// `metadata.labels` of the node.
        labels -> &'a Labels, Reads::LABELS, |node| &node.labels;
        /// `metadata.annotations` of the node.
        annotations -> &'a Labels, Reads::ANNOTATIONS, |node| &node.annotations;
        /// `spec.taints` of the node.
        taints -> &'a [Taint], Reads::TAINTS, |node| &node.taints;
        /// Whether the node is cordoned.
        is_unschedulable -> bool, Reads::UNSCHEDULABLE, |node| node.unschedulable;
        /// Known features that the node declares, one bit each.
        feature_bits -> u64, Reads::FEATURES, |node| node.feature_bits;
        /// What the node has for pods.
        allocatable -> &'a Resources, Reads::ALLOCATABLE, |node| &node.allocatable;
        /// How many pods the node takes.
        allowed_pods -> i64, Reads::ALLOCATABLE, |node| node.allowed_pods;
    }

    /// The slot of the node: its number in columns.
    #[inline]
    pub fn idx(&self) -> NodeIdx {
        self.idx
    }

    /// Whether the node has what the pod's node selector and required node affinity ask for.
    #[inline]
    pub fn satisfies_node_affinity(&self, pod: &Pod) -> bool {
        self.read(Reads::LABELS);
        node_satisfies_required_affinity(pod, self.node)
    }

    /// CPU that its pods ask for, in milli-CPU.
    #[inline]
    pub fn requested_milli_cpu(&self) -> i64 {
        let base = self.read(Reads::POD_SUMS).requested().milli_cpu().get(self.idx.index());
        self.overlay.map_or(base, |overlay| base.wrapping_add(overlay.requested_delta().milli_cpu))
    }

    /// Memory that its pods ask for, in bytes.
    #[inline]
    pub fn requested_memory(&self) -> i64 {
        let base = self.read(Reads::POD_SUMS).requested().memory().get(self.idx.index());
        self.overlay.map_or(base, |overlay| base.wrapping_add(overlay.requested_delta().memory))
    }

    /// Ephemeral storage that its pods ask for, in bytes.
    #[inline]
    pub fn requested_ephemeral_storage(&self) -> i64 {
        let base = self.read(Reads::POD_SUMS).requested().ephemeral_storage().get(self.idx.index());
        self.overlay
            .map_or(base, |overlay| base.wrapping_add(overlay.requested_delta().ephemeral_storage))
    }

    /// How much of a scalar resource its pods ask for; 0 of one that no node offers, of which no sums are kept.
    #[inline]
    pub fn requested_scalar(&self, name: &str) -> i64 {
        let column = self.read(Reads::POD_SUMS).requested().scalar(name);
        let Some(column) = column else { return 0 };
        let base = column.get(self.idx.index());
        let delta =
            self.overlay.and_then(|overlay| overlay.requested_delta().scalar(name)).unwrap_or(0);
        base.wrapping_add(delta)
    }

    /// CPU and memory that its pods ask for, defaults filled in.
    #[inline]
    pub fn non_zero_requested(&self) -> NonZeroRequest {
        let cluster = self.read(Reads::POD_SUMS);
        let base = NonZeroRequest {
            milli_cpu: cluster.non_zero_milli_cpu().get(self.idx.index()),
            memory: cluster.non_zero_memory().get(self.idx.index()),
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
    #[inline]
    pub fn n_pods(&self) -> i64 {
        let cluster = self.read(Reads::POD_SUMS);
        match self.overlay {
            Some(overlay) => overlay.pod_count(cluster),
            None => i64::try_from(cluster.n_pods_on(self.idx)).unwrap_or(i64::MAX),
        }
    }

    /// The pods on the node, in no particular but a deterministic order.
    pub fn pods(&self) -> Box<dyn Iterator<Item = &'a Arc<Pod>> + 'a> {
        let cluster = self.read(Reads::POD_OBJECTS);
        match self.overlay {
            Some(overlay) => Box::new(overlay.pods(cluster)),
            None => Box::new(cluster.pods_on(self.idx)),
        }
    }

    /// Whether a host port is taken.
    #[inline]
    pub fn is_port_in_use(&self, port: &HostPort) -> bool {
        let cluster = self.read(Reads::POD_USES);
        match self.overlay {
            Some(overlay) => overlay.used_ports(cluster).conflicts(port),
            None => cluster.used_ports(self.idx).conflicts(port),
        }
    }

    /// The volumes that the node's pods use. O(1) for a node as it is.
    pub fn volumes(&self) -> NodeVolumes<'a> {
        let cluster = self.read(Reads::POD_USES);
        self.cluster.all(Reads::OBJECTS);
        match self.overlay {
            Some(overlay) => overlay.volumes(cluster),
            None => cluster.volumes_on(self.idx),
        }
    }

    /// The cluster the node belongs to, with columns to be read at this node alone.
    #[inline]
    pub fn cluster(&self) -> ClusterView<'a> {
        self.cluster
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
