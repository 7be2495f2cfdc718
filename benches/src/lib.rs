//! Benchmarks of the scheduler's core. Each answers a written question; `bench-core` prints the answers.

pub mod measure;
pub mod workload;
