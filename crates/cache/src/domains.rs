//! Counters of pods per node and per topology domain, kept up to date by every change of the state.
//!
//! A [`CounterSpec`] says which pods count, on which nodes, and by which topology key. To have its
//! [`DomainCounts`] kept up to date, [follow](crate::ClusterState::follow) it; pods of one deployment need equal
//! specifications and share one counter. What is not followed is computed in one scan with [`DomainCounts::count`].
//!
//! Invariants: a followed counter equals the one computed from scratch after every change (`check` compares them);
//! ghosts count nowhere, and their pods count again as soon as the node is back; the number of followed counters is
//! bounded, the one unused for longest is dropped.

mod cluster;
mod counts;
mod eligible;
mod pod_counter;
mod spec;
mod table;

pub use counts::{Domain, DomainCounts};
#[cfg(test)]
pub(crate) use eligible::SharedEligibility;
pub use pod_counter::{CounterReads, DomainNumbers, PodCounter};
pub use spec::{
    CountedNodes, CountedPods, CounterSpec, PodTerm, PodTolerations, RequiredNodeAffinity,
};
pub(crate) use table::CounterTable;
