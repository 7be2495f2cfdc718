//! The whole state against slow and obvious versions of itself.

mod announced;
mod bounds;
mod counters;
mod fixtures;
mod follower;
mod model;
mod objects;
mod operations;
mod overlays;
mod semantics;

use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;

/// Property tests see the same cases on every run. To look further, change the seed for a while.
pub(crate) fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(14),
        ..ProptestConfig::default()
    }
}
