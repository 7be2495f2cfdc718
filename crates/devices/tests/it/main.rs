//! Tests of the public API: recorded allocations, and objects as the API serves them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod conformance;
mod objects;
mod replay;
