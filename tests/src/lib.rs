//! Checks over the whole workspace: recorded decisions of the reference, end-to-end runs, faults.
//!
//! The library half holds what several tests and the `conformance` program share. It is never published.

pub mod conformance;
pub mod fault;
pub mod history;
