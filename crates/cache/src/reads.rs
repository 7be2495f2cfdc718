//! What of the cluster is read for an answer, recorded while it is read: with the kinds of change in the log, this says
//! which cached answers are still valid.
//!
//! The views through which plugins look at the cluster note in a [`ReadSet`] what they look at. A set only grows, so it
//! covers every answer that was given since it was made.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use kube_scheduler_api_types::lock;

use crate::change_log::ChangeKinds;
use crate::domains::PodCounter;
use crate::objects::ObjectClass;

pub use crate::memo::Memo;
pub use crate::objects::ObjectVersions;

/// A set of aspects of the cluster that an answer depends on, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads(u32);

impl ObjectVersions {
    /// Whether the objects that `reads` are about are the same in both versions.
    pub fn agree(&self, now: &Self, reads: Reads) -> bool {
        let is_same = |class: &ObjectClass| self.of(*class) == now.of(*class);
        let read = |class: &&ObjectClass| reads.intersects(Reads::of_class(**class));
        ObjectClass::ALL.iter().filter(read).all(is_same)
    }
}

/// Bits about the node in question, with the kinds of change that concern them.
const OF_NODE: [(Reads, ChangeKinds); 12] = [
    (Reads::LABELS, ChangeKinds::LABELS),
    (Reads::TAINTS, ChangeKinds::TAINTS),
    (Reads::ALLOCATABLE, ChangeKinds::ALLOCATABLE),
    (Reads::UNSCHEDULABLE, ChangeKinds::UNSCHEDULABLE),
    (Reads::FEATURES, ChangeKinds::FEATURES),
    (Reads::ANNOTATIONS, ChangeKinds::ANNOTATIONS),
    (Reads::CONDITIONS, ChangeKinds::CONDITIONS),
    (Reads::IDENTITY, ChangeKinds::IDENTITY),
    (Reads::IMAGES, ChangeKinds::IMAGES),
    (Reads::POD_SUMS, ChangeKinds::PODS),
    (Reads::POD_USES, ChangeKinds::PODS),
    (Reads::POD_OBJECTS, ChangeKinds::PODS.union(ChangeKinds::POD_STATUS)),
];

impl Reads {
    /// The pod that is to be placed, and nothing of the cluster.
    pub const NOTHING: Self = Self(0);
    /// The node's labels.
    pub const LABELS: Self = Self(1);
    /// The node's taints.
    pub const TAINTS: Self = Self(1 << 1);
    /// What the node has for pods, the number of pods included.
    pub const ALLOCATABLE: Self = Self(1 << 2);
    /// Whether the node is cordoned.
    pub const UNSCHEDULABLE: Self = Self(1 << 3);
    /// The features that the node declares.
    pub const FEATURES: Self = Self(1 << 4);
    /// The node's annotations.
    pub const ANNOTATIONS: Self = Self(1 << 5);
    /// The node's conditions.
    pub const CONDITIONS: Self = Self(1 << 6);
    /// The node's UID and creation time.
    pub const IDENTITY: Self = Self(1 << 7);
    /// The images on the node.
    pub const IMAGES: Self = Self(1 << 8);
    /// How many pods the node has, and what they request in sum.
    pub const POD_SUMS: Self = Self(1 << 9);
    /// What else the node's pods use: host ports, volumes, priorities.
    pub const POD_USES: Self = Self(1 << 10);
    /// The pods on the node, as whole objects.
    pub const POD_OBJECTS: Self = Self(1 << 11);
    /// Every aspect of the node object.
    pub const NODE_OBJECT: Self = Self((1 << 9) - 1);
    /// Which nodes exist, or how many.
    pub const MEMBERSHIP: Self = Self(1 << 12);
    /// How large images are and how many nodes have them.
    pub const IMAGE_STATES: Self = Self(1 << 13);
    /// Objects that are neither pods nor nodes, except for those that have a bit of their own: claims, slices and classes of
    /// devices, [`POD_GROUPS`](Self::POD_GROUPS), and services and controllers that select pods.
    pub const OBJECTS: Self = Self(1 << 14);
    /// Which distinct affinity terms pods on nodes carry, and which pods they mean.
    pub const AFFINITY_TERMS: Self = Self(1 << 15);
    /// What counters of pods by topology domain show.
    pub const COUNTERS: Self = Self(1 << 16);
    /// Nodes other than the one in question, or any node before one is in question.
    pub const OTHER_NODES: Self = Self(1 << 17);
    /// Anything else: pods wherever they are, nominations, the time.
    pub const ANYTHING: Self = Self(1 << 18);
    /// Claims and slices of devices. They have their own bit because claims change with every pod that has some.
    const DEVICE_OBJECTS: Self = Self(1 << 22);
    /// Classes of devices, which change rarely: plugins that look at no claim ask which class serves a resource.
    const DEVICE_CLASSES: Self = Self(1 << 24);
    /// Pod groups. They have their own bit because one comes with every few pods, and its status changes with them.
    pub const POD_GROUPS: Self = Self(1 << 23);
    /// Services, replication controllers, replica sets and stateful sets.
    const POD_SELECTORS: Self = Self(1 << 25);
    /// All objects that are neither pods nor nodes.
    pub const ALL_OBJECTS: Self = Self(
        Self::OBJECTS.0
            | Self::DEVICE_OBJECTS.0
            | Self::DEVICE_CLASSES.0
            | Self::POD_GROUPS.0
            | Self::POD_SELECTORS.0,
    );

    /// The bit of the objects of a kind of an API group.
    pub fn of_kind(group: &str, kind: &str) -> Self {
        Self::of_class(ObjectClass::of(group, kind))
    }

    const fn of_class(class: ObjectClass) -> Self {
        match class {
            ObjectClass::Devices => Self::DEVICE_OBJECTS,
            ObjectClass::DeviceClasses => Self::DEVICE_CLASSES,
            ObjectClass::PodGroups => Self::POD_GROUPS,
            ObjectClass::PodSelectors => Self::POD_SELECTORS,
            ObjectClass::Others => Self::OBJECTS,
        }
    }

    /// Which counters there are to read from; what they show is [`COUNTERS`](Self::COUNTERS).
    pub const COUNTER_HANDLES: Self = Self(1 << 19);
    /// Which nodes pass all filters.
    pub const FEASIBLE_NODES: Self = Self(1 << 20);
    /// The name of the node in question.
    pub const NODE_NAME: Self = Self(1 << 21);
    /// What is computed again for each attempt about groups of nodes that counters show alike.
    const OF_GROUPS: Self =
        Self(Self::COUNTERS.0 | Self::COUNTER_HANDLES.0 | Self::FEASIBLE_NODES.0);

    /// The aspects that are in one of the two sets or in both.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether there is an aspect that is in both sets.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether nothing was read but objects that are neither pods nor nodes.
    pub(crate) const fn are_of_objects(self) -> bool {
        self.0 & !Self::ALL_OBJECTS.0 == 0
    }

    /// Whether the engine can detect a change of everything that was read: per node, or by a version of the whole cluster.
    pub const fn can_be_followed(self) -> bool {
        !self.intersects(Self::OF_GROUPS.union(Self::OTHER_NODES).union(Self::ANYTHING))
    }

    /// Whether it takes [groups](PhaseReads::can_be_grouped) to cache such answers.
    pub const fn needs_groups(self) -> bool {
        self.intersects(Self::OF_GROUPS)
    }

    /// Whether it changes with the pods on nodes, or with the nodes that pass.
    pub const fn has_numbers(self) -> bool {
        self.intersects(Self::COUNTERS.union(Self::FEASIBLE_NODES))
    }

    /// Whether single pods on the node were looked at, as opposed to their sums.
    pub const fn has_single_pods(self) -> bool {
        self.intersects(Self::POD_USES.union(Self::POD_OBJECTS))
    }

    /// Whether the answer about a node stays what it is if other pods are there, as far as the node shows them.
    pub const fn are_apart_from_pods(self) -> bool {
        let may_show_pods = Self::OTHER_NODES.union(Self::ANYTHING).union(Self::POD_SUMS);
        !self.has_single_pods() && !self.intersects(may_show_pods)
    }

    /// The kinds of change to the node in question after which the answer may be another one.
    pub fn node_kinds(self) -> ChangeKinds {
        let read = OF_NODE.iter().filter(|(bit, _)| self.intersects(*bit));
        read.fold(ChangeKinds::NONE, |kinds, (_, kind)| kinds | *kind)
    }
}

/// A growing set of [`Reads`], shared by the threads that ask one plugin.
#[derive(Debug, Default)]
pub struct ReadSet {
    reads: AtomicU32,
    /// The counters that were asked for, if they are wanted.
    counters: Option<Box<Mutex<Vec<PodCounter>>>>,
}

/// Where reads are recorded that no cached answer depends on.
pub static DISCARDED: ReadSet = ReadSet::new();

impl ReadSet {
    /// A set in which nothing is noted yet.
    pub const fn new() -> Self {
        Self { reads: AtomicU32::new(0), counters: None }
    }

    /// A set in which nothing is noted yet, and which keeps the counters that are asked for.
    pub fn with_counters() -> Self {
        Self { counters: Some(Box::default()), ..Self::new() }
    }

    /// Notes that these counters were handed out to be read.
    pub fn note_counters(&self, counters: &[PodCounter]) {
        if !counters.is_empty() {
            self.note(Reads::COUNTER_HANDLES);
        }
        if let Some(all) = &self.counters {
            lock(all).extend_from_slice(counters);
        }
    }

    /// The counters that were asked for since the last call.
    pub fn take_counters(&mut self) -> Vec<PodCounter> {
        let all = self.counters.as_mut().map(|all| all.get_mut());
        all.map(|all| std::mem::take(all.unwrap_or_else(PoisonError::into_inner)))
            .unwrap_or_default()
    }

    /// Notes `reads`. Once noted, noting the same again is a load: threads do not take the line from each other.
    #[inline]
    pub fn note(&self, reads: Reads) {
        if self.reads.load(Ordering::Relaxed) & reads.0 != reads.0 {
            self.reads.fetch_or(reads.0, Ordering::Relaxed);
        }
    }

    /// The reads that were noted so far.
    pub fn get(&self) -> Reads {
        Reads(self.reads.load(Ordering::Relaxed))
    }
}

/// What one plugin read for one evaluation.
#[derive(Debug, Default)]
pub struct PluginReads {
    /// What PreFilter read.
    pub pre_filter: ReadSet,
    /// What PreScore read.
    pub pre_score: ReadSet,
    /// What Filter and Score read.
    pub per_node: ReadSet,
}

impl PluginReads {
    /// The reads that were noted so far, by phase.
    pub fn get(&self) -> PhaseReads {
        let once = self.pre_filter.get().union(self.pre_score.get());
        PhaseReads { once, per_node: self.per_node.get() }
    }
}

/// What was read so far, by phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseReads {
    /// PreFilter and PreScore: computed once for all nodes.
    pub once: Reads,
    /// Filter and raw scores: computed per node.
    pub per_node: Reads,
}

impl PhaseReads {
    /// What was read in one of the phases or in both.
    pub fn union(self) -> Reads {
        self.once.union(self.per_node)
    }

    /// Whether all that was read about nodes is what counters show, so that nodes which look alike to the counters' reader get
    /// equal answers, and one of them can be asked for all.
    pub fn can_be_grouped(self) -> bool {
        let read = self.union();
        let not_for_groups = Reads::OTHER_NODES.union(Reads::ANYTHING).union(Reads::NODE_NAME);
        let once_alone = Reads::COUNTER_HANDLES.union(Reads::FEASIBLE_NODES);
        read.node_kinds().is_empty()
            && !read.intersects(not_for_groups)
            && !self.per_node.intersects(once_alone)
    }

    /// Whether answers can be cached: what was computed once stays valid while versions are equal, and the rest can be
    /// checked node by node.
    pub fn can_be_cached(self) -> bool {
        self.once.node_kinds().is_empty()
            && self.once.can_be_followed()
            && self.per_node.can_be_followed()
    }
}
