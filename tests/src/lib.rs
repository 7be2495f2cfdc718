//! Checks over the whole workspace: recorded decisions of the reference, end-to-end runs, faults.
//!
//! The library half holds what several tests, the `conformance` program and the benchmarks share. It is never published.

pub mod conformance;
pub mod control_plane;
pub mod cost;
pub mod crowd;
pub mod fault;
pub mod fixtures;
pub mod fuzz;
pub mod history;
pub mod live_cluster;
pub mod questioner;
pub mod replies;
pub mod tenants;

// Used by the tests of other packages, and asked for here with the features that they have there: so the programs of this
// package are made of what the tests were made of, and the workspace is not built twice.
use criterion as _;
use num_bigint as _;
use proptest as _;
