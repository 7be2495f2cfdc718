//! Benchmarks. Each answers a written question: `bench-core` about the core alone, `bench-answers` about
//! questions to it, `bench-blackbox` about whole programs,
//! `bench-scheduler-perf` about whole workloads in the reference's format.

pub mod blackbox;
pub mod campaign;
pub mod catalogue;
pub mod chart;
mod churn;
pub mod devices;
mod different;
mod digest;
mod exit;
pub mod figures;
pub mod measure;
pub mod memory;
pub mod page;
pub mod questions;
pub mod scheduler_perf;
pub mod table;
pub mod template;
pub mod tenants;
pub mod workload;

pub use exit::exit_code;
