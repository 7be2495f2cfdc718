//! A log of changes, so that cached answers about nodes can be brought up to date instead of being computed again.
//!
//! Invariants: entry number `n` is the `n`-th change of this state and its forebears, the first being 1; the ring
//! holds the last [`CAPACITY`] entries; a change is in the log before the changed state can be read.

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign};

use crate::fork::{COLUMN_CHUNK, Column};
use crate::node_table::NodeIdx;
use crate::store_size::StoreSize;

/// How many changes are kept, at eight bytes each. Callers that fall further behind read all nodes again.
const CAPACITY: usize = 16 * 1024;

/// A set of aspects of a node: what a change was about, or what an answer depends on.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ChangeKinds(u16);

impl ChangeKinds {
    /// The empty set: nothing has changed.
    pub const NONE: Self = Self(0);
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
    /// Types and statuses of the node's conditions.
    pub const CONDITIONS: Self = Self(1 << 6);
    /// The images on this node. What other nodes have shows in
    /// [`image_sequence`](crate::ClusterState::image_sequence).
    pub const IMAGES: Self = Self(1 << 7);
    /// The pods on the node, in anything that can matter to where another pod goes: requests, ports, claims, labels,
    /// affinity, priority, deletion.
    pub const PODS: Self = Self(1 << 8);
    /// A pod object was replaced by one that differs only in what cannot matter there, such as conditions.
    pub const POD_STATUS: Self = Self(1 << 9);
    /// A node was added in this slot.
    pub const ADDED: Self = Self(1 << 10);
    /// The node is gone. Its slot may go to another one.
    pub const REMOVED: Self = Self(1 << 11);
    /// The object is another one of the same name: UID or creation time.
    pub const IDENTITY: Self = Self(1 << 12);

    /// Labels, taints, cordon, allocatable and features.
    const NODE_SPEC: Self = Self(
        Self::LABELS.0
            | Self::TAINTS.0
            | Self::ALLOCATABLE.0
            | Self::UNSCHEDULABLE.0
            | Self::FEATURES.0,
    );
    /// The set of all aspects.
    pub const ALL: Self = Self((1 << 13) - 1);
    /// All aspects of the node object.
    pub(crate) const NODE: Self = Self(
        Self::NODE_SPEC.0
            | Self::ANNOTATIONS.0
            | Self::CONDITIONS.0
            | Self::IMAGES.0
            | Self::IDENTITY.0,
    );
    /// Whether the node exists.
    pub(crate) const MEMBERSHIP: Self = Self(Self::ADDED.0 | Self::REMOVED.0);

    /// The aspects that are in one of the two sets or in both.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether there is an aspect that is in both sets.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether every aspect of `other` is in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether no aspect is in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl BitOr for ChangeKinds {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.union(other)
    }
}

impl BitOrAssign for ChangeKinds {
    fn bitor_assign(&mut self, other: Self) {
        *self = self.union(other);
    }
}

impl BitAnd for ChangeKinds {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl fmt::Debug for ChangeKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [(ChangeKinds, &str); 13] = [
            (ChangeKinds::LABELS, "LABELS"),
            (ChangeKinds::TAINTS, "TAINTS"),
            (ChangeKinds::ALLOCATABLE, "ALLOCATABLE"),
            (ChangeKinds::UNSCHEDULABLE, "UNSCHEDULABLE"),
            (ChangeKinds::FEATURES, "FEATURES"),
            (ChangeKinds::ANNOTATIONS, "ANNOTATIONS"),
            (ChangeKinds::CONDITIONS, "CONDITIONS"),
            (ChangeKinds::IMAGES, "IMAGES"),
            (ChangeKinds::PODS, "PODS"),
            (ChangeKinds::POD_STATUS, "POD_STATUS"),
            (ChangeKinds::ADDED, "ADDED"),
            (ChangeKinds::REMOVED, "REMOVED"),
            (ChangeKinds::IDENTITY, "IDENTITY"),
        ];
        let mut names =
            NAMES.iter().filter(|(kind, _)| self.contains(*kind)).map(|(_, name)| *name);
        f.write_str(names.next().unwrap_or("NONE"))?;
        names.try_for_each(|name| write!(f, "|{name}"))
    }
}

/// One change of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeChange {
    /// The number of the change, counted from the start of the log.
    pub sequence: u64,
    /// The slot of the node that changed.
    pub node: NodeIdx,
    /// In which aspects it changed.
    pub kinds: ChangeKinds,
}

/// The changes since a sequence number; see [`ClusterState::changes_since`](crate::ClusterState::changes_since).
#[derive(Clone, Debug)]
pub enum Changes<'a> {
    /// These changes, oldest first. A node may come up more than once.
    Entries(ChangeEntries<'a>),
    /// More changes than the log keeps, or the number belongs to another fork: everything may have changed.
    Lost,
}

/// An iterator over changes, oldest first.
#[derive(Clone, Debug)]
pub struct ChangeEntries<'a> {
    ring: &'a Column<(NodeIdx, ChangeKinds)>,
    next: u64,
    last: u64,
}

impl Iterator for ChangeEntries<'_> {
    type Item = NodeChange;

    fn next(&mut self) -> Option<NodeChange> {
        if self.next > self.last {
            return None;
        }
        let sequence = self.next;
        self.next += 1;
        let (node, kinds) = self.ring.get(place_of(sequence));
        Some(NodeChange { sequence, node, kinds })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.last + 1).saturating_sub(self.next) as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for ChangeEntries<'_> {}

fn place_of(sequence: u64) -> usize {
    (sequence % CAPACITY as u64) as usize
}

/// The ring of the latest changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangeLog {
    sequence: u64,
    ring: Column<(NodeIdx, ChangeKinds)>,
}

impl ChangeLog {
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The changes that are kept, and the chunks that they take.
    pub(crate) fn size(&self) -> StoreSize {
        let room = self.ring.len().next_multiple_of(COLUMN_CHUNK);
        let n_bytes = room * size_of::<(NodeIdx, ChangeKinds)>();
        StoreSize { n_entries: self.ring.len(), n_bytes }
    }

    pub(crate) fn append(&mut self, node: NodeIdx, kinds: ChangeKinds) -> u64 {
        self.sequence += 1;
        let place = place_of(self.sequence);
        self.ring.grow(place + 1);
        self.ring.set(place, (node, kinds));
        self.sequence
    }

    pub(crate) fn since(&self, sequence: u64) -> Changes<'_> {
        match self.sequence.checked_sub(sequence) {
            Some(n_missed) if n_missed <= CAPACITY as u64 => Changes::Entries(ChangeEntries {
                ring: &self.ring,
                next: sequence + 1,
                last: self.sequence,
            }),
            // A number from the future belongs to another fork.
            _ => Changes::Lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(log: &ChangeLog, since: u64) -> Option<Vec<(u64, usize)>> {
        match log.since(since) {
            Changes::Entries(entries) => {
                Some(entries.map(|change| (change.sequence, change.node.index())).collect())
            }
            Changes::Lost => None,
        }
    }

    #[test]
    fn remembers_the_latest_changes_only() {
        let mut log = ChangeLog::default();
        assert_eq!(numbers(&log, 0), Some(vec![]));
        for idx in 1..=CAPACITY {
            log.append(NodeIdx::from_index(idx), ChangeKinds::PODS);
        }
        let expected: Vec<_> = (1..=CAPACITY).map(|idx| (idx as u64, idx)).collect();
        assert_eq!(numbers(&log, 0), Some(expected));
        log.append(NodeIdx::from_index(7), ChangeKinds::LABELS);
        assert_eq!(numbers(&log, 0), None);
        assert_eq!(numbers(&log, CAPACITY as u64), Some(vec![(CAPACITY as u64 + 1, 7)]));
        assert_eq!(numbers(&log, log.sequence()), Some(vec![]));
        assert_eq!(numbers(&log, log.sequence() + 1), None);
    }

    #[test]
    fn kinds_print_by_name() {
        assert_eq!(format!("{:?}", ChangeKinds::NONE), "NONE");
        assert_eq!(format!("{:?}", ChangeKinds::LABELS | ChangeKinds::PODS), "LABELS|PODS");
        assert!(
            ChangeKinds::ALL.contains(ChangeKinds::IDENTITY)
                && !ChangeKinds::NODE.intersects(ChangeKinds::PODS)
        );
    }
}
