//! Tests of the benchmark programs against the API server in memory.

mod blackbox;
mod scheduler_perf;
