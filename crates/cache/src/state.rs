//! The cluster state and how it is read.
//!
//! Invariants: one writer; every reader returns the state as of [`ClusterState::sequence`]; readers look up and compute
//! nothing, unless their documentation says so.

use std::sync::Arc;

use kube_scheduler_api_types::{Node, Pod};

use crate::affinity_terms::{AffinityTerms, AffinityTermsVersion};
use crate::change_log::{ChangeKinds, ChangeLog, Changes};
use crate::domains::CounterTable;
use crate::fork::Column;
use crate::headroom::Headroom;
use crate::images::{ImageState, ImageTable};
use crate::label_index::{LabelColumn, LabelIndex};
use crate::node_group::NodeGroup;
use crate::node_set::NodeSet;
use crate::node_storage::NodeStorage;
use crate::node_table::{NodeIdx, NodeTable};
use crate::objects::ObjectStore;
use crate::pod_groups::PodGroups;
use crate::pod_table::PodTable;
use crate::ports::HostPorts;
use crate::requests::Requests;
use crate::resource_columns::{NodeColumns, ResourceColumns};
use crate::store_size::StoreSize;
use crate::taint_sets::{TaintSetId, TaintSets};
use crate::volume_counts::VolumeCounts;
use crate::volumes_in_use::{NodeVolumes, VolumesInUse};

/// What nodes without host ports have.
static NO_PORTS: HostPorts = HostPorts::new();

/// The cluster as columns: nodes, the pods on them, and all other objects.
///
/// `clone` is a fork: it copies pointers, and either side copies what it writes to, chunk by chunk. A fork goes on
/// counting from the sequence of its origin, so an answer cached by sequence is valid for one of the two only.
#[derive(Clone, Default)]
pub struct ClusterState {
    pub(crate) nodes: NodeTable,
    pub(crate) columns: NodeColumns,
    pub(crate) taint_ids: Column<TaintSetId>,
    /// Behind an `Arc` because it changes with taints alone.
    pub(crate) taint_sets: Arc<TaintSets>,
    pub(crate) labels: LabelIndex,
    pub(crate) pods: PodTable,
    pub(crate) groups: PodGroups,
    pub(crate) images: ImageTable,
    pub(crate) volumes: VolumesInUse,
    pub(crate) affinity_terms: AffinityTerms,
    pub(crate) log: ChangeLog,
    pub(crate) membership_sequence: u64,
    pub(crate) image_sequence: u64,
    pub(crate) objects: ObjectStore,
    pub(crate) storage: NodeStorage,
    pub(crate) counters: CounterTable,
    pub(crate) requests: Requests,
}

/// # Nodes
impl ClusterState {
    /// An empty cluster.
    pub fn new() -> Self {
        Self::default()
    }

    /// The slot of a node that has an object; ghosts are not found.
    pub fn node_idx(&self, name: &str) -> Option<NodeIdx> {
        self.nodes.slot_of(name).filter(|node| self.nodes.live().contains(*node))
    }

    /// The object in a slot; `None` for ghosts and free slots.
    #[inline]
    pub fn node(&self, node: NodeIdx) -> Option<&Arc<Node>> {
        self.nodes.node(node)
    }

    /// The name that a slot belongs to, also for ghosts; `None` for free slots.
    pub fn node_name(&self, node: NodeIdx) -> Option<&Arc<str>> {
        self.nodes.name(node)
    }

    /// Number of nodes that have an object.
    pub fn n_nodes(&self) -> usize {
        self.nodes.live().len()
    }

    /// What the nodes take in memory beside what they may share with each other, about, in bytes. O(1).
    pub fn n_bytes_of_nodes(&self) -> usize {
        self.nodes.n_bytes()
    }

    /// Number of names that have pods but no node object.
    pub fn n_ghosts(&self) -> usize {
        self.nodes.n_ghosts()
    }

    /// The slots of nodes that have an object.
    pub fn live_nodes(&self) -> &NodeSet {
        self.nodes.live()
    }

    /// Number of slots: the length of every column. It may be more than the number of nodes, because of nodes that pods name and that
    /// do not exist.
    pub fn capacity(&self) -> usize {
        self.nodes.capacity()
    }

    /// The nodes in the order in which a cycle goes through them (`docs/spec/core.md` §14.1 and §14.2), as of the last
    /// [`refresh_order`](Self::refresh_order).
    pub fn order(&self) -> &[NodeIdx] {
        self.nodes.order()
    }

    /// [`order`](Self::order), to keep: unless nodes come or go, all who keep it share one list.
    pub fn shared_order(&self) -> Arc<[NodeIdx]> {
        self.nodes.order().clone()
    }

    /// Brings [`order`](Self::order) up to date. To be called at the start of each cycle; O(1) unless nodes came or
    /// went since, O(nodes) then.
    pub fn refresh_order(&mut self) {
        self.nodes.refresh_order();
        self.drop_free_slots();
    }

    /// Whether nodes came or went since the last [`refresh_order`](Self::refresh_order).
    pub fn order_is_stale(&self) -> bool {
        self.nodes.order_is_stale()
    }

    /// The rank of a node in [`order`](Self::order).
    pub fn position(&self, node: NodeIdx) -> Option<usize> {
        self.nodes.position(node)
    }
}

/// # Columns, by node slot
impl ClusterState {
    /// The resources that nodes have for pods (`status.allocatable`).
    pub fn allocatable(&self) -> &ResourceColumns {
        &self.columns.allocatable
    }

    /// The sum of the requests of the pods on a node, as
    /// [`PodRequests::accounted`](kube_scheduler_api_types::PodRequests::accounted).
    pub fn requested(&self) -> &ResourceColumns {
        &self.columns.requested
    }

    /// CPU, in milli-CPU, that the pods on a node ask for, with a default for containers that ask for none.
    pub fn non_zero_milli_cpu(&self) -> &Column<i64> {
        &self.columns.non_zero_milli_cpu
    }

    /// Memory, in bytes, that the pods on a node ask for, with a default for containers that ask for none.
    pub fn non_zero_memory(&self) -> &Column<i64> {
        &self.columns.non_zero_memory
    }

    /// The number of pods that a node may run (`status.allocatable.pods`).
    pub fn allowed_pods(&self) -> &Column<i64> {
        &self.columns.allowed_pods
    }

    /// How many pods are on each node, by slot.
    pub fn pod_count(&self) -> &Column<i64> {
        &self.columns.pod_count
    }

    /// What is free on a node for pods, CPU, memory and ephemeral storage, rounded down.
    pub fn headroom(&self) -> &Column<Headroom> {
        &self.columns.headroom
    }

    /// The slots of nodes that are cordoned.
    pub fn unschedulable(&self) -> &NodeSet {
        &self.columns.unschedulable
    }

    /// The list of taints of a node, by number.
    #[inline]
    pub(crate) fn taint_set(&self, node: NodeIdx) -> TaintSetId {
        self.taint_ids.get(node)
    }

    /// The lists of taints of all nodes, by number.
    pub fn taint_set_ids(&self) -> &Column<TaintSetId> {
        &self.taint_ids
    }

    /// The list of taints that each number stands for.
    pub fn taint_sets(&self) -> &TaintSets {
        &self.taint_sets
    }

    /// The column of a label key: an empty one if no node has the key, `None` if nodes have it and no plugin has read it
    /// before; [`follow_requested`](Self::follow_requested) makes it then.
    pub fn label_column(&self, key: &str) -> Option<&LabelColumn> {
        let column = self.labels.read(key);
        if column.is_none() {
            self.requests.label(key);
        }
        column
    }

    /// Makes a column for a label key, which follows the nodes from then on. O(nodes) the first time. Not a change:
    /// it is in no log.
    pub fn ensure_label_column(&mut self, key: &str) {
        let Self { nodes, labels, .. } = self;
        let live = nodes.live().iter().filter_map(|idx| nodes.node(idx).map(|node| (idx, &**node)));
        labels.ensure(key, nodes.capacity(), live);
    }

    /// As [`ensure_label_column`](Self::ensure_label_column) for a key that pods name: nothing is made of one that no node
    /// has. The column is made with the first node that has the key, as long as a counter or a term needs it.
    pub(crate) fn want_label_column(&mut self, key: &str) {
        if self.labels.is_on_nodes(key) {
            self.ensure_label_column(key);
        }
    }

    /// The changes of nodes that are kept for [`changes_since`](Self::changes_since).
    pub fn size_of_log(&self) -> StoreSize {
        self.log.size()
    }

    /// How many label columns there are, for the sizes of tables.
    pub fn n_label_columns(&self) -> usize {
        self.labels.columns().count()
    }

    /// What they take in memory, about, in bytes. O(columns).
    pub fn n_bytes_of_label_columns(&self) -> usize {
        self.labels.columns().map(LabelColumn::n_bytes).sum()
    }

    /// Drops the column of a label key that is no longer used. It stays while a followed counter or an affinity term of a pod
    /// counts by it.
    pub(crate) fn drop_label_column(&mut self, key: &str) {
        if !self.counters.needs_label(key) && !self.affinity_terms.counts_by(key) {
            self.labels.drop_column(key);
        }
    }

    /// Everything a node's pods ask for, defaults filled in for CPU and memory, as plain numbers.
    pub(crate) fn non_zero_requested_on(
        &self,
        node: NodeIdx,
    ) -> kube_scheduler_api_types::NonZeroRequest {
        kube_scheduler_api_types::NonZeroRequest {
            milli_cpu: self.columns.non_zero_milli_cpu.get(node),
            memory: self.columns.non_zero_memory.get(node),
        }
    }
}

/// # Pods
impl ClusterState {
    /// Whether a pod is assumed: placed by the scheduler, not confirmed yet.
    pub fn is_assumed(&self, uid: &str) -> bool {
        self.pods.idx(uid).is_some_and(|pod| self.pods.is_assumed(pod))
    }

    /// A pod that has a node, assumed or not.
    pub fn pod(&self, uid: &str) -> Option<&Arc<Pod>> {
        self.pods.pod(self.pods.idx(uid)?)
    }

    /// The slot of the node that a pod is on; it may be a ghost.
    pub fn node_of_pod(&self, uid: &str) -> Option<NodeIdx> {
        self.pods.node_of(self.pods.idx(uid)?)
    }

    /// Number of pods that have a node, assumed ones included.
    pub fn n_pods(&self) -> usize {
        self.pods.len()
    }

    /// Number of pods of a namespace that have a node, assumed ones included. O(1).
    pub fn n_pods_in(&self, namespace: &str) -> usize {
        self.pods.n_in(namespace)
    }

    /// The lowest priority of any pod on a node. O(1).
    pub fn lowest_priority_on(&self, node: NodeIdx) -> Option<i32> {
        self.pods.held_by(node)?.levels.all().first().map(|level| level.priority)
    }

    /// Number of assumed pods.
    pub fn n_assumed(&self) -> usize {
        self.pods.n_assumed()
    }

    /// All assumed pods, in an order that depends on the history of the state alone.
    pub fn assumed_pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.assumed()
    }

    /// All pods that have a node, with its slot, in an order that depends on the history of the state alone.
    pub fn all_pods(&self) -> impl Iterator<Item = (&Arc<Pod>, NodeIdx)> {
        self.pods.iter()
    }

    /// The pods on a node, in the order the reference keeps them in.
    pub fn pods_on(&self, node: NodeIdx) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.on_node(node)
    }

    /// Number of pods on a node.
    pub fn n_pods_on(&self, node: NodeIdx) -> usize {
        self.pods.list(node).len()
    }

    /// The distinct affinity terms that the pods on nodes carry, and where.
    pub fn affinity_terms(&self) -> &AffinityTerms {
        &self.affinity_terms
    }

    /// Terms of pods that come from now on count as [not listed](crate::affinity::CarriedTerm::is_listed) unless their node
    /// carries such terms already (`docs/spec/podgroups.md` §7.5). False if that is so already.
    pub fn freeze_affinity_lists(&mut self) -> bool {
        self.affinity_terms.freeze_lists()
    }

    /// Ends [`freeze_affinity_lists`](Self::freeze_affinity_lists). The pods that came in between must have left again.
    pub fn thaw_affinity_lists(&mut self) {
        self.affinity_terms.thaw_lists();
    }

    /// A version that changes whenever the answer to "which terms of pods on nodes match this pod" may change, for any pod:
    /// with the terms, and with namespaces as long as a term selects some by their labels.
    pub fn affinity_terms_version(&self) -> AffinityTermsVersion {
        self.affinity_terms.version(self.objects.kind_sequence("", "Namespace"))
    }

    /// The host ports in use by the pods on a node.
    pub fn used_ports(&self, node: NodeIdx) -> &HostPorts {
        self.pods.held_by(node).map_or(&NO_PORTS, |pods| &pods.ports)
    }

    /// The nodes with host ports in use, and perhaps others.
    pub fn nodes_with_ports(&self) -> &NodeSet {
        &self.pods.with_ports
    }

    /// How many volumes of the pods on a node may take one of a CSI driver's places there.
    pub fn volume_counts(&self) -> &Column<VolumeCounts> {
        &self.pods.volumes
    }

    /// The volumes that the pods on a node use. O(1).
    pub fn volumes_on(&self, node: NodeIdx) -> NodeVolumes<'_> {
        NodeVolumes::new(&self.volumes, node)
    }

    /// How many entries the table of the volumes in use has.
    pub fn n_volumes_in_use(&self) -> usize {
        self.volumes.len()
    }

    /// What they take in memory, about, in bytes. O(1).
    pub fn n_bytes_of_volumes_in_use(&self) -> usize {
        self.volumes.n_bytes()
    }

    /// How many volumes of pods on live nodes use a claim.
    pub fn pvc_ref_count(&self, namespace: &str, claim: &str) -> u32 {
        self.volumes.n_on_live_nodes(namespace, claim)
    }
}

/// # Images
impl ClusterState {
    /// What is known of an image; `None` when no node has it.
    pub fn image(&self, name: &str) -> Option<ImageState> {
        self.images.state(name)
    }

    /// The nodes that have an image; `None` when there are none.
    pub fn nodes_with_image(&self, name: &str) -> Option<&NodeGroup> {
        self.images.nodes(name)
    }
}

/// # Other objects
impl ClusterState {
    /// All objects that are neither pods nor nodes. They count their changes themselves.
    pub fn objects(&self) -> &ObjectStore {
        &self.objects
    }

    /// All objects that are neither pods nor nodes, to assume changes of them. What the API server reports comes in by
    /// [`upsert_object`](Self::upsert_object) and [`remove_object`](Self::remove_object).
    pub fn objects_mut(&mut self) -> &mut ObjectStore {
        &mut self.objects
    }
}

/// # Changes
impl ClusterState {
    /// The number of the last change. Every change of a node or its pods has one, except updates of a node in nothing
    /// that is listed in [`ChangeKinds`] (a new resource version).
    pub fn sequence(&self) -> u64 {
        self.log.sequence()
    }

    /// The sequence number of the last addition or removal of a node. The order changes with the first refresh after that.
    pub fn membership_sequence(&self) -> u64 {
        self.membership_sequence
    }

    /// The sequence number of the last change of the state of any image.
    pub fn image_sequence(&self) -> u64 {
        self.image_sequence
    }

    /// The changes after `sequence`, which must be a [`sequence`](Self::sequence) of this state or of the state that it was
    /// forked from.
    pub fn changes_since(&self, sequence: u64) -> Changes<'_> {
        self.log.since(sequence)
    }

    pub(crate) fn record(&mut self, node: NodeIdx, kinds: ChangeKinds) {
        let sequence = self.log.append(node, kinds);
        if kinds.intersects(ChangeKinds::PODS | ChangeKinds::NODE) {
            let headroom = self.columns.headroom_of(node);
            self.columns.headroom.set(node, headroom);
        }
        if kinds.intersects(ChangeKinds::MEMBERSHIP) {
            self.membership_sequence = sequence;
        }
    }
}

impl std::fmt::Debug for ClusterState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterState")
            .field("sequence", &self.sequence())
            .field("n_nodes", &self.n_nodes())
            .field("n_ghosts", &self.n_ghosts())
            .field("n_pods", &self.n_pods())
            .field("n_assumed", &self.n_assumed())
            .finish_non_exhaustive()
    }
}
