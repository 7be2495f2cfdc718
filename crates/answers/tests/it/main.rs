//! Answers of an engine with the in-tree plugins.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops where it is")]

mod claiming;
mod cluster;
mod counting;
mod creating;
mod describing;
mod draining;
mod explaining;
mod foreseeing;
mod fragmenting;
mod grouping;
mod minimal;
mod preempting;
mod queueing;
mod suggesting;
