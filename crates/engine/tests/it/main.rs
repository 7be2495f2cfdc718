//! Tests of the engine as a whole: inputs in, effects out, with plugins whose answers are closures.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops where it is")]

mod asking;
mod binding;
mod explaining;
mod extenders;
mod failures;
mod notices;
mod observing;
mod panics;
mod permit;
mod pre_bind;
mod preemption;
mod profiles;
mod races;
mod random;
mod searching;
mod tasks;
mod timing;
mod toy;
mod toy_scheduler;
