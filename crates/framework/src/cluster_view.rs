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

/// Readers of what the cluster state calls the same, each with what is noted: of the whole cluster by `all`, of a node by `at_node`.
macro_rules! readers {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),*) -> $value:ty, $of:ident $reads:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name(self, $($arg: $type),*) -> $value {
            self.$of($reads).$name($($arg),*)
        }
    )*};
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
    readers! {
        /// The slot of a node.
        node_idx(name: &str) -> Option<NodeIdx>, all Reads::MEMBERSHIP;
        /// Number of nodes.
        n_nodes() -> usize, all Reads::MEMBERSHIP;
        /// All nodes, in the order in which attempts go through them.
        order() -> &'a [NodeIdx], all Reads::MEMBERSHIP;
    }

    /// The node in a slot, `None` when there is none.
    #[inline]
    pub fn node(self, node: NodeIdx) -> Option<NodeView<'a>> {
        NodeView::new(self, node)
    }
}

/// # Columns
impl<'a> ClusterView<'a> {
    readers! {
        /// The slots that have a node.
        live_nodes() -> &'a NodeSet, at_node Reads::NOTHING;
        /// The name of a node.
        node_name(node: NodeIdx) -> Option<&'a Arc<str>>, at_node Reads::NODE_NAME;
        /// The allocatable resources of nodes.
        allocatable() -> &'a ResourceColumns, at_node Reads::ALLOCATABLE;
        /// What the pods on a node request.
        requested() -> &'a ResourceColumns, at_node Reads::POD_SUMS;
        /// CPU, in milli-CPU, that the pods on a node request, with a default for containers that request none.
        non_zero_milli_cpu() -> &'a Column<i64>, at_node Reads::POD_SUMS;
        /// Memory, in bytes, that the pods on a node request, with a default for containers that request none.
        non_zero_memory() -> &'a Column<i64>, at_node Reads::POD_SUMS;
        /// The greatest number of pods that a node accepts.
        allowed_pods() -> &'a Column<i64>, at_node Reads::ALLOCATABLE;
        /// How many pods are on a node.
        pod_count() -> &'a Column<i64>, at_node Reads::POD_SUMS;
        /// What is free on a node for pods, CPU, memory and ephemeral storage, rounded down.
        headroom() -> &'a Column<Headroom>, at_node Reads::ALLOCATABLE.union(Reads::POD_SUMS);
        /// The cordoned nodes.
        unschedulable() -> &'a NodeSet, at_node Reads::UNSCHEDULABLE;
        /// The distinct taint list of each node, as an id for [`taint_sets`](Self::taint_sets).
        taint_set_ids() -> &'a Column<TaintSetId>, at_node Reads::TAINTS;
        /// The distinct taint lists behind the ids of [`taint_set_ids`](Self::taint_set_ids).
        taint_sets() -> &'a TaintSets, at_node Reads::TAINTS;
        /// The nodes that have an image; `None` when there are none.
        nodes_with_image(name: &str) -> Option<&'a NodeGroup>, at_node Reads::IMAGES;
        /// The values of a label on all nodes; `None` when the cluster keeps no column for the label yet. It will be there for
        /// the next pod.
        label_column(key: &str) -> Option<&'a LabelColumn>, at_node Reads::LABELS;
        /// The host ports in use on a node.
        used_ports(node: NodeIdx) -> &'a HostPorts, at_node Reads::POD_USES;
        /// The nodes with host ports in use, and perhaps others.
        nodes_with_ports() -> &'a NodeSet, at_node Reads::POD_USES;
        /// How many volumes of the pods on a node may take one of a CSI driver's places there.
        volume_counts() -> &'a Column<VolumeCounts>, at_node Reads::POD_USES;
        /// The pods on a node.
        pods_on(node: NodeIdx) -> impl Iterator<Item = &'a Arc<Pod>>, at_node Reads::POD_OBJECTS;
        /// The lowest priority of any pod on a node. O(1).
        lowest_priority_on(node: NodeIdx) -> Option<i32>, at_node Reads::POD_USES;
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
}

/// # Pods of the whole cluster
impl<'a> ClusterView<'a> {
    readers! {
        /// A pod that has a node, assumed or not.
        pod(uid: &str) -> Option<&'a Arc<Pod>>, all Reads::ANYTHING;
        /// All pods that have a node, with its slot, in an order that depends on the history of the state alone.
        all_pods() -> impl Iterator<Item = (&'a Arc<Pod>, NodeIdx)>, all Reads::ANYTHING;
        /// The known pods of a pod group: those that the scheduler is responsible for, and those that have a node. `None` if there
        /// are none, or without the gate `GenericWorkload`.
        pod_group(namespace: &str, name: &str) -> Option<&'a PodGroupState>, all Reads::ANYTHING;
        /// What the object of a pod group says. O(1).
        ///
        /// # Errors
        /// If there is no such object, or it cannot be read.
        pod_group_object(namespace: &str, name: &str) -> Result<&'a PodGroup, PodGroupError>,
            all Reads::POD_GROUPS;
        /// What the object of a pod group says, and [its known pods](Self::pod_group). O(1).
        ///
        /// # Errors
        /// If there is no such object, or it cannot be read.
        pod_group_with_pods(namespace: &str, name: &str)
            -> Result<(&'a PodGroup, Option<&'a PodGroupState>), PodGroupError>, all Reads::ANYTHING;
        /// How many volumes of pods on nodes use a claim.
        pvc_ref_count(namespace: &str, claim: &str) -> u32, all Reads::ANYTHING;
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
    readers! {
        /// Size and spread of an image; `None` when no node has it.
        image(name: &str) -> Option<ImageState>, all Reads::IMAGE_STATES;
        /// All objects that are neither pods nor nodes. An answer that needs one API group alone stays valid longer if it reads
        /// [`objects_of`](Self::objects_of).
        objects() -> &'a ObjectStore, all Reads::ALL_OBJECTS;
        /// The volume limits from the CSINode object of a node.
        csi_limits(node: NodeIdx) -> Option<&'a CsiLimits>, all Reads::OBJECTS;
        /// The distinct volume limits of each node, as an id: nodes with equal limits have equal ids.
        csi_limits_ids() -> &'a Column<CsiLimitsId>, all Reads::OBJECTS;
        /// Number of distinct ids in [`csi_limits_ids`](Self::csi_limits_ids).
        n_csi_limits_ids() -> usize, all Reads::OBJECTS;
        /// How many volumes are attached to a node.
        n_attachments() -> &'a Column<u32>, all Reads::OBJECTS;
        /// The volumes that are attached to a node.
        attachments_on(node: &str) -> impl Iterator<Item = &'a Attachment>, all Reads::OBJECTS;
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
}
