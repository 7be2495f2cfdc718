//! Checks over the whole workspace: recorded decisions of the reference, end-to-end runs, faults.
//!
//! The library half holds what several tests, the `conformance` program and the benchmarks share. It is never published.

pub mod conformance;
pub mod control_plane;
pub mod cost;
pub mod crowd;
pub mod fault;
pub mod fuzz;
pub mod history;
pub mod tenants;
