//! What of the cluster is read for an answer, recorded while it is read: with the kinds of change in the log, this says
//! which cached answers are still valid.
//!
//! The views through which plugins look at the cluster note in a [`ReadSet`] what they look at. A set only grows, so it
//! covers every answer that was given since it was made.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::change_log::ChangeKinds;

/// A set of aspects of the cluster that an answer depends on, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads(u32);

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
    /// Nothing but the pod that is to be placed.
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
    /// The objects of the node's pods.
    pub const POD_OBJECTS: Self = Self(1 << 11);
    /// Every aspect of the node object.
    pub const NODE_OBJECT: Self = Self((1 << 9) - 1);
    /// Which nodes exist, or how many.
    pub const MEMBERSHIP: Self = Self(1 << 12);
    /// Image states across the cluster.
    pub const IMAGE_STATES: Self = Self(1 << 13);
    /// Objects that are neither pods nor nodes.
    pub const OBJECTS: Self = Self(1 << 14);
    /// The affinity terms that pods on nodes carry, where, and which pods they mean.
    pub const AFFINITY_TERMS: Self = Self(1 << 15);
    /// Counters of pods by topology domain.
    pub const COUNTERS: Self = Self(1 << 16);
    /// Nodes other than the one in question, or any node before one is in question.
    pub const OTHER_NODES: Self = Self(1 << 17);
    /// Anything else: pods wherever they are, nominations, the time.
    pub const ANYTHING: Self = Self(1 << 18);

    /// What is in either.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the two have anything in common.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether the engine can detect a change of everything that was read: per node, or by a version of the whole cluster.
    pub const fn can_be_followed(self) -> bool {
        !self.intersects(Self::COUNTERS.union(Self::OTHER_NODES).union(Self::ANYTHING))
    }

    /// Whether single pods on the node were looked at, as opposed to their sums.
    pub const fn has_single_pods(self) -> bool {
        self.intersects(Self::POD_USES.union(Self::POD_OBJECTS))
    }

    /// The kinds of change to the node in question after which the answer may be another one.
    pub fn node_kinds(self) -> ChangeKinds {
        let read = OF_NODE.iter().filter(|(bit, _)| self.intersects(*bit));
        read.fold(ChangeKinds::NONE, |kinds, (_, kind)| kinds | *kind)
    }
}

/// A growing set of [`Reads`], shared by the threads that ask one plugin.
#[derive(Debug, Default)]
pub struct ReadSet(AtomicU32);

/// Where reads are recorded that no cached answer depends on.
pub static DISCARDED: ReadSet = ReadSet::new();

impl ReadSet {
    /// Nothing has been read.
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Notes `reads`. Once noted, noting the same again is a load: threads do not take the line from each other.
    #[inline]
    pub fn note(&self, reads: Reads) {
        if self.0.load(Ordering::Relaxed) & reads.0 != reads.0 {
            self.0.fetch_or(reads.0, Ordering::Relaxed);
        }
    }

    /// What has been noted.
    pub fn get(&self) -> Reads {
        Reads(self.0.load(Ordering::Relaxed))
    }
}

/// What one plugin read for one evaluation.
#[derive(Debug, Default)]
pub struct PluginReads {
    /// In PreFilter and PreScore.
    pub once: ReadSet,
    /// In Filter and Score.
    pub per_node: ReadSet,
}

impl PluginReads {
    /// What has been noted.
    pub fn get(&self) -> PhaseReads {
        PhaseReads { once: self.once.get(), per_node: self.per_node.get() }
    }
}

/// What was read by phase, as it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseReads {
    /// PreFilter and PreScore: computed once for all nodes.
    pub once: Reads,
    /// Filter and raw scores: computed per node.
    pub per_node: Reads,
}

impl PhaseReads {
    /// What either phase read.
    pub fn union(self) -> Reads {
        self.once.union(self.per_node)
    }

    /// Whether answers can be cached: what was computed once stays valid while versions are equal, and the rest can be
    /// checked node by node.
    pub fn can_be_cached(self) -> bool {
        self.once.node_kinds().is_empty()
            && self.once.can_be_followed()
            && self.per_node.can_be_followed()
    }
}
