//! Benchmarks of the scheduler's core. Each answers a written question; `bench-core` prints the answers.

pub mod campaign;
pub mod catalogue;
pub mod chart;
mod churn;
mod different;
mod digest;
pub mod figures;
pub mod measure;
pub mod memory;
mod numbers;
pub mod page;
pub mod table;
pub mod template;
pub mod workload;
