//! Tests of the example schedulers.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops where it is")]

mod e2e;
mod virtual_time;
