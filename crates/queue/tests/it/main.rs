//! Tests of the queue as a whole: single behaviours, and random sequences against a naive model. Recorded sequences of the
//! reference are replayed by the workspace tests.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops where it is")]

mod behaviour;
mod gating;
mod model;
mod moves;
mod nominations;
mod random;
mod toy;
