//! The cluster as plugins read it: every reader records what it looks at.

use std::sync::{Arc, LazyLock};

use kube_scheduler_api_types::{
    Labels, NodeSelector, NodeSelectorTerm, Object, Pod, PodAffinityTerm, PodGroup,
};
use kube_scheduler_cache::affinity::{TermId, TermKind};
use kube_scheduler_cache::columns::{
    Column, CsiLimits, CsiLimitsId, Headroom, LabelColumn, NodeGroup, NodeSet, ResourceColumns,
    TaintSetId, TaintSets, UsedVolume, VolumeCounts,
};
use kube_scheduler_cache::counters::{CounterSpec, PodCounter};
use kube_scheduler_cache::reads::{DISCARDED, ReadSet, Reads};
use kube_scheduler_cache::{
    Attachment, ClusterState, HostPorts, ImageState, NodeIdx, ObjectStore, PodGroupError,
    PodGroupState, nodes_matching, nodes_matching_term,
};

use crate::group_objects::GroupObjects;
use crate::pod_counts::PodCounts;
use crate::view::NodeView;

static NO_LABELS: LazyLock<Labels> = LazyLock::new(Labels::default);

/// Which nodes a call is about; decides whether a read by slot counts as a read of the node in question or of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// None, or one that comes as a [`NodeView`]: what is read by slot belongs to other nodes.
    OneNode,
    /// The nodes of a scan, each by its slot.
    Asked,
}

/// The cluster: nodes, the pods on them, and all other objects. Copying copies references.
///
/// An answer depends on what was read for it and is cached until that changes, so read no more than you need.
///
/// # Columns
///
/// The readers under this heading give values of all nodes by slot. They are for `filter_all` and `score_all`,
/// which must read no other slots than those they are asked about. Elsewhere, reading a column means that the answer
/// depends on other nodes, and such an answer cannot be cached; a node's own values are in its [`NodeView`].
#[derive(Clone, Copy)]
pub struct ClusterView<'a> {
    state: &'a ClusterState,
    reads: &'a ReadSet,
    scope: Scope,
}

impl std::fmt::Debug for ClusterView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterView").field("reads", &self.reads).finish_non_exhaustive()
    }
}

impl<'a> ClusterView<'a> {
    /// A view for answers that are not cached: what is read is not recorded.
    pub fn unrecorded(state: &'a ClusterState) -> Self {
        Self { state, reads: &DISCARDED, scope: Scope::Asked }
    }

    #[inline]
    pub(crate) fn recorded_by(state: &'a ClusterState, reads: &'a ReadSet, scope: Scope) -> Self {
        Self { state, reads, scope }
    }

    /// This view of the cluster, with what is read noted in `reads`.
    #[inline]
    pub(crate) fn with_reads<'b>(self, reads: &'b ReadSet) -> ClusterView<'b>
    where
        'a: 'b,
    {
        ClusterView { reads, ..self }
    }

    /// Where what is read is noted.
    #[inline]
    pub(crate) fn reads(self) -> &'a ReadSet {
        self.reads
    }

    #[inline]
    pub(crate) fn state(self) -> &'a ClusterState {
        self.state
    }

    #[inline]
    pub(crate) fn all(self, reads: Reads) -> &'a ClusterState {
        self.reads.note(reads);
        self.state
    }

    /// Notes a look at an aspect of a node: the one in question, or another one.
    #[inline]
    pub(crate) fn at_node(self, reads: Reads) -> &'a ClusterState {
        self.reads.note(match self.scope {
            Scope::Asked => reads,
            Scope::OneNode => Reads::OTHER_NODES,
        });
        self.state
    }
}

/// # Nodes
impl<'a> ClusterView<'a> {
    /// The slot of a node.
    pub fn node_idx(self, name: &str) -> Option<NodeIdx> {
        self.all(Reads::MEMBERSHIP).node_idx(name)
    }

    /// The node in a slot, `None` when there is none.
    #[inline]
    pub fn node(self, node: NodeIdx) -> Option<NodeView<'a>> {
        NodeView::new(self, node)
    }

    /// Number of nodes.
    pub fn n_nodes(self) -> usize {
        self.all(Reads::MEMBERSHIP).n_nodes()
    }

    /// All nodes, in the order in which attempts go through them.
    pub fn order(self) -> &'a [NodeIdx] {
        self.all(Reads::MEMBERSHIP).order()
    }
}

/// # Columns
impl<'a> ClusterView<'a> {
    /// The slots that have a node.
    pub fn live_nodes(self) -> &'a NodeSet {
        self.at_node(Reads::NOTHING).live_nodes()
    }

    /// The name of a node.
    pub fn node_name(self, node: NodeIdx) -> Option<&'a Arc<str>> {
        self.at_node(Reads::NODE_NAME).node_name(node)
    }

    /// The allocatable resources of nodes.
    pub fn allocatable(self) -> &'a ResourceColumns {
        self.at_node(Reads::ALLOCATABLE).allocatable()
    }

    /// What the pods on a node request.
    pub fn requested(self) -> &'a ResourceColumns {
        self.at_node(Reads::POD_SUMS).requested()
    }

    /// CPU, in milli-CPU, that the pods on a node request, with a default for containers that request none.
    pub fn non_zero_milli_cpu(self) -> &'a Column<i64> {
        self.at_node(Reads::POD_SUMS).non_zero_milli_cpu()
    }

    /// Memory, in bytes, that the pods on a node request, with a default for containers that request none.
    pub fn non_zero_memory(self) -> &'a Column<i64> {
        self.at_node(Reads::POD_SUMS).non_zero_memory()
    }

    /// The greatest number of pods that a node accepts.
    pub fn allowed_pods(self) -> &'a Column<i64> {
        self.at_node(Reads::ALLOCATABLE).allowed_pods()
    }

    /// How many pods are on a node.
    pub fn pod_count(self) -> &'a Column<i64> {
        self.at_node(Reads::POD_SUMS).pod_count()
    }

    /// What is free on a node for pods, CPU, memory and ephemeral storage, rounded down.
    pub fn headroom(self) -> &'a Column<Headroom> {
        self.at_node(Reads::ALLOCATABLE.union(Reads::POD_SUMS)).headroom()
    }

    /// The cordoned nodes.
    pub fn unschedulable(self) -> &'a NodeSet {
        self.at_node(Reads::UNSCHEDULABLE).unschedulable()
    }

    /// Known features that a node declares, one bit each.
    pub fn feature_bits(self) -> &'a Column<u64> {
        self.at_node(Reads::FEATURES).feature_bits()
    }

    /// The distinct taint list of each node, as an id for [`taint_sets`](Self::taint_sets).
    pub fn taint_set_ids(self) -> &'a Column<TaintSetId> {
        self.at_node(Reads::TAINTS).taint_set_ids()
    }

    /// The distinct taint lists behind the ids of [`taint_set_ids`](Self::taint_set_ids).
    pub fn taint_sets(self) -> &'a TaintSets {
        self.at_node(Reads::TAINTS).taint_sets()
    }

    /// The nodes that have an image; `None` when there are none.
    pub fn nodes_with_image(self, name: &str) -> Option<&'a NodeGroup> {
        self.at_node(Reads::IMAGES).nodes_with_image(name)
    }

    /// The values of a label on all nodes; `None` when the cluster keeps no column for the label yet. It will be there for
    /// the next pod.
    pub fn label_column(self, key: &str) -> Option<&'a LabelColumn> {
        self.at_node(Reads::LABELS).label_column(key)
    }

    /// The host ports in use on a node.
    pub fn used_ports(self, node: NodeIdx) -> &'a HostPorts {
        self.at_node(Reads::POD_USES).used_ports(node)
    }

    /// The nodes with host ports in use, and perhaps others.
    pub fn nodes_with_ports(self) -> &'a NodeSet {
        self.at_node(Reads::POD_USES).nodes_with_ports()
    }

    /// How many volumes of the pods on a node may take one of a CSI driver's places there.
    pub fn volume_counts(self) -> &'a Column<VolumeCounts> {
        self.at_node(Reads::POD_USES).volume_counts()
    }

    /// The nodes that have all labels of `pairs` and match the selector.
    pub fn nodes_matching(
        self,
        pairs: Option<&Labels>,
        selector: Option<&NodeSelector>,
    ) -> NodeSet {
        nodes_matching(self.at_node(Reads::LABELS), pairs, selector)
    }

    /// The nodes that match one term of a node affinity.
    pub fn nodes_matching_term(self, term: &NodeSelectorTerm) -> NodeSet {
        nodes_matching_term(self.at_node(Reads::LABELS), term)
    }

    /// The pods on a node.
    pub fn pods_on(self, node: NodeIdx) -> impl Iterator<Item = &'a Arc<Pod>> {
        self.at_node(Reads::POD_OBJECTS).pods_on(node)
    }

    /// The lowest priority of any pod on a node. O(1).
    pub fn lowest_priority_on(self, node: NodeIdx) -> Option<i32> {
        self.at_node(Reads::POD_USES).lowest_priority_on(node)
    }
}

/// # Pods of the whole cluster
impl<'a> ClusterView<'a> {
    /// A pod that has a node, assumed or not.
    pub fn pod(self, uid: &str) -> Option<&'a Arc<Pod>> {
        self.all(Reads::ANYTHING).pod(uid)
    }

    /// All pods that have a node, with its slot, in an order that depends on the history of the state alone.
    pub fn all_pods(self) -> impl Iterator<Item = (&'a Arc<Pod>, NodeIdx)> {
        self.all(Reads::ANYTHING).all_pods()
    }

    /// The known pods of a pod group: those that the scheduler is responsible for, and those that have a node. `None` if there
    /// are none, or without the gate `GenericWorkload`.
    pub fn pod_group(self, namespace: &str, name: &str) -> Option<&'a PodGroupState> {
        self.all(Reads::ANYTHING).pod_group(namespace, name)
    }

    /// What the object of a pod group says. O(1).
    ///
    /// # Errors
    /// If there is no such object, or it cannot be read.
    pub fn pod_group_object(
        self,
        namespace: &str,
        name: &str,
    ) -> Result<&'a PodGroup, PodGroupError> {
        self.all(Reads::POD_GROUPS).pod_group_object(namespace, name)
    }

    /// What the object of a pod group says, and [its known pods](Self::pod_group). O(1).
    ///
    /// # Errors
    /// If there is no such object, or it cannot be read.
    pub fn pod_group_with_pods(
        self,
        namespace: &str,
        name: &str,
    ) -> Result<(&'a PodGroup, Option<&'a PodGroupState>), PodGroupError> {
        self.all(Reads::ANYTHING).pod_group_with_pods(namespace, name)
    }

    /// How many volumes of pods on nodes use a claim.
    pub fn pvc_ref_count(self, namespace: &str, claim: &str) -> u32 {
        self.all(Reads::ANYTHING).pvc_ref_count(namespace, claim)
    }

    /// Counts pods by topology domain, now and later, as `spec` says which of them. O(1) if pods asked for the same before,
    /// for the cluster keeps the numbers up to date from then on; O(nodes + pods) otherwise. Read the counter by
    /// [`counts`](Self::counts).
    pub fn count_pods(self, spec: &CounterSpec) -> PodCounter {
        self.count_pods_of_each([spec]).remove(0)
    }

    /// [`count_pods`](Self::count_pods) for several counters, in their order: what they have in common is worked out once.
    pub fn count_pods_of_each<'s>(
        self,
        specs: impl IntoIterator<Item = &'s CounterSpec>,
    ) -> Vec<PodCounter> {
        let counters = PodCounter::of_each(self.state, specs);
        self.reads.note_counters(&counters);
        counters
    }

    /// The domains of nodes by a label key, without counting anything.
    pub fn domains(self, key: &Arc<str>) -> PodCounter {
        self.noted(PodCounter::of_label(key))
    }

    /// Whether any node has a label.
    pub fn is_on_nodes(self, key: &str) -> bool {
        // Which labels nodes have is what counters count by.
        self.all(Reads::COUNTER_HANDLES).is_on_nodes(key)
    }

    fn noted(self, counter: PodCounter) -> PodCounter {
        self.reads.note_counters(std::slice::from_ref(&counter));
        counter
    }

    /// What a counter shows; `None` when the cluster no longer follows it, which does not happen within an attempt. O(1).
    #[inline]
    pub fn counts<'c>(self, counter: &'c PodCounter) -> Option<PodCounts<'c>>
    where
        'a: 'c,
    {
        PodCounts::new(self, counter)
    }

    /// The distinct terms of `wanted` kinds on nodes that select `pod`; those that are not
    /// [listed](crate::affinity::CarriedTerm::is_listed) only if `with_unlisted`. O(labels + terms found). The order depends on the
    /// history of the state alone. [`carriers`](Self::carriers) says where they are.
    pub fn affinity_terms_about(
        self,
        pod: &'a Pod,
        with_unlisted: bool,
        wanted: impl Fn(TermKind) -> bool + 'a,
    ) -> impl Iterator<Item = (TermId, TermKind, &'a PodAffinityTerm)> {
        let state = self.all(Reads::AFFINITY_TERMS);
        // The version of the terms covers the labels of namespaces, as far as terms look at them.
        let namespace_labels = state.objects().namespace_labels(&pod.namespace);
        let labels = namespace_labels.unwrap_or(&NO_LABELS);
        let terms = state.affinity_terms();
        let is_any = TermKind::ALL.into_iter().any(|kind| terms.n_terms(kind) > 0 && wanted(kind));
        let found = is_any.then(|| terms.about(pod, labels, wanted));
        let found = found.into_iter().flatten();
        let found = found.filter(move |(_, carried)| with_unlisted || carried.is_listed());
        found.map(|(id, carried)| (id, carried.kind(), carried.term()))
    }

    /// Counts the pods that carry a term, by the term's topology key.
    pub fn carriers(self, id: TermId, term: &PodAffinityTerm) -> PodCounter {
        self.noted(PodCounter::of_carriers(id, &term.topology_key))
    }
}

/// # Images and other objects
impl<'a> ClusterView<'a> {
    /// Size and spread of an image; `None` when no node has it.
    pub fn image(self, name: &str) -> Option<ImageState> {
        self.all(Reads::IMAGE_STATES).image(name)
    }

    /// All objects that are neither pods nor nodes. An answer that needs one API group alone stays valid longer if it reads
    /// [`objects_of`](Self::objects_of).
    pub fn objects(self) -> &'a ObjectStore {
        self.all(Reads::ALL_OBJECTS).objects()
    }

    /// The objects of one API group, empty for the core group.
    pub fn objects_of(self, group: &'static str) -> GroupObjects<'a> {
        GroupObjects::new(self.state.objects(), self.reads, group)
    }

    /// The volumes of a storage class by name, each as it is expected to be.
    pub fn latest_volumes_of_class(self, class: &str) -> impl Iterator<Item = &'a Arc<Object>> {
        self.all(Reads::OBJECTS).objects().latest_volumes_of_class(class)
    }

    /// Which place of a CSI driver the volume of a claim takes; see [`UsedVolume::of_claim`].
    pub fn volume_of_claim(self, claim: &Object, with_migration: bool) -> Option<UsedVolume> {
        UsedVolume::of_claim(self.all(Reads::OBJECTS).objects(), claim, with_migration)
    }

    /// The volume limits from the CSINode object of a node.
    pub fn csi_limits(self, node: NodeIdx) -> Option<&'a CsiLimits> {
        self.all(Reads::OBJECTS).csi_limits(node)
    }

    /// The distinct volume limits of each node, as an id: nodes with equal limits have equal ids.
    pub fn csi_limits_ids(self) -> &'a Column<CsiLimitsId> {
        self.all(Reads::OBJECTS).csi_limits_ids()
    }

    /// Number of distinct ids in [`csi_limits_ids`](Self::csi_limits_ids).
    pub fn n_csi_limits_ids(self) -> usize {
        self.all(Reads::OBJECTS).n_csi_limits_ids()
    }

    /// How many volumes are attached to a node.
    pub fn n_attachments(self) -> &'a Column<u32> {
        self.all(Reads::OBJECTS).n_attachments()
    }

    /// The volumes that are attached to a node.
    pub fn attachments_on(self, node: &str) -> impl Iterator<Item = &'a Attachment> {
        self.all(Reads::OBJECTS).attachments_on(node)
    }
}
