//! The cluster as a scheduler sees it: nodes and the pods on them as columns, with a change log and cheap forks.
//!
//! [`ClusterState`] holds every node, every pod that has a node (running or assumed), and all other objects that a
//! decision may read. It is laid out for scans over all nodes: a node is a small number ([`NodeIdx`]), and every property
//! that nodes are compared by is a [`Column`](columns::Column) over these numbers. Strings are compared once: labels become dictionary
//! columns ([`LabelColumn`](columns::LabelColumn)), lists of taints become ids ([`TaintSetId`](columns::TaintSetId)).
//!
//! ```
//! use std::sync::Arc;
//!
//! use kube_scheduler_api_types::{Node, Pod};
//! use kube_scheduler_cache::{Changes, ClusterState};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut cluster = ClusterState::new();
//! let node = cluster.add_node(Arc::new(Node::from_json(
//!     r#"{"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4", "pods": "110"}}}"#,
//! )?));
//! cluster.refresh_order();
//! let seen_to = cluster.sequence();
//!
//! let pod = Pod::from_json(
//!     r#"{"metadata": {"uid": "u1", "namespace": "default", "name": "web"},
//!         "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": {"cpu": "250m"}}}]}}"#,
//! )?;
//! let before = cluster.clone(); // a fork: pointers only
//! cluster.assume_pod(Arc::new(pod))?;
//! assert_eq!(cluster.requested().milli_cpu().get(node), 250);
//! assert_eq!(before.requested().milli_cpu().get(node), 0);
//!
//! // A caller that caches answers per node computes them again for the nodes that changed, and for no others.
//! let Changes::Entries(changes) = cluster.changes_since(seen_to) else { unreachable!() };
//! assert_eq!(changes.map(|change| change.node).collect::<Vec<_>>(), [node]);
//! # Ok(())
//! # }
//! ```
//!
//! # Invariants
//!
//! - One writer, no clock, no I/O, no threads, no randomness; the same operations in the same order give the same
//!   state, slot numbers and orders included. Hash maps cannot be iterated.
//! - Whatever is maintained can be recomputed: [`check`] does so from the plain lists of nodes and pods and reports
//!   every difference.
//! - Every change of a node or its pods is in the change log before it can be read.
//! - A fork and its origin never see each other's later writes.
//! - Refused operations change nothing.
//!
//! # Cost
//!
//! | operation | time |
//! | --- | --- |
//! | assume, add, forget, remove a pod | O(pod); no allocation beyond its record after warm-up |
//! | update a node | O(what differs + label columns + images) |
//! | add or remove a node | the same; the next [`ClusterState::refresh_order`] is O(nodes) |
//! | fork | O(nodes × columns ÷ 1024 + pods ÷ 64) pointer copies |
//! | first write to a chunk after a fork | one copy of the chunk |
//! | catch up | O(changes), up to 16,384 of them |

mod fingerprint;
mod fork;

mod node_group;
mod node_set;
mod node_storage;

mod headroom;
mod interner;
mod label_index;
mod matching_nodes;
mod node_table;
mod node_tree;
mod resource_columns;
mod spare;
mod taint_sets;

mod affinity_terms;
mod freeable;
mod images;
mod memo;
mod pod_groups;
mod pod_table;
mod ports;
mod volume_counts;
mod volumes_in_use;

mod change_log;
mod error;
mod objects;
pub mod reads;

mod domains;

mod assume;
mod check;
mod delta;
mod overlay;
mod requested;
mod requests;
mod room;
mod state;
mod store_size;
mod versions;

pub use change_log::{ChangeEntries, ChangeKinds, Changes, NodeChange};
pub use check::{Difference, check};
pub use error::{CacheError, PodIdentity};
pub use fork::CowMap;
pub use images::ImageState;
pub use matching_nodes::{nodes_matching, nodes_matching_term};
pub use node_storage::Attachment;
pub use node_table::NodeIdx;
pub use objects::{
    AssumeObjectError, ObjectChange, ObjectKey, ObjectStore, ServiceSelectors, UnansweredWrite,
    storage_class_of,
};
pub use overlay::NodeOverlay;
pub use pod_groups::{MemberPlace, PodGroupError, PodGroupState};
pub use ports::HostPorts;
pub use state::ClusterState;
pub use store_size::StoreSize;
pub use versions::Versions;

/// Values of all nodes by slot, for scans over many nodes.
pub mod columns {
    pub use crate::fork::{COLUMN_CHUNK, Column};
    pub use crate::headroom::{Headroom, RequiredHeadroom};
    pub use crate::label_index::{LabelColumn, ValueId};
    pub use crate::node_group::NodeGroup;
    pub use crate::node_set::NodeSet;
    pub use crate::node_storage::{CsiLimits, CsiLimitsId};
    pub use crate::node_table::runs_by_chunk;
    pub use crate::resource_columns::ResourceColumns;
    pub use crate::spare::{PooledVec, VecPool};
    pub use crate::taint_sets::{TaintSetId, TaintSets};
    pub use crate::volume_counts::VolumeCounts;
    pub use crate::volumes_in_use::{NodeVolumes, UsedVolume};
}

/// Pods counted by topology domain.
pub mod counters {
    pub use crate::domains::{
        CountedNodes, CountedPods, CounterReads, CounterSpec, Domain, DomainCounts, DomainNumbers,
        PodCounter, PodTerm, PodTolerations, RequiredNodeAffinity,
    };
}

/// The affinity terms that pods on nodes carry.
pub mod affinity {
    pub use crate::affinity_terms::{
        AffinityTerms, AffinityTermsVersion, CarriedTerm, TermCount, TermCounts, TermId, TermKind,
    };
}

#[cfg(test)]
mod tests;
