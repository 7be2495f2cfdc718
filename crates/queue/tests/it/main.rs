//! Tests of the queue as a whole: recorded sequences of the reference, single behaviours, and random sequences against a
//! naive model.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops where it is")]

mod behaviour;
mod conformance;
mod gating;
mod model;
mod moves;
mod nominations;
mod random;
mod toy;
