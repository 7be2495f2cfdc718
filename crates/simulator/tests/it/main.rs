//! Tests of whole simulations.

#![expect(clippy::unwrap_used, reason = "tests panic on surprises")]

mod accounting;
mod devices;
mod scenarios;
