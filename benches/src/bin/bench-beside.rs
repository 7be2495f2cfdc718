//! Measures how long pods of others wait while one tenant creates the worst pods that it may.

use std::process::ExitCode;

use clap::Parser;
use kube_scheduler_benches::{exit_code, tenants};

// The scheduler's own: much of what large pods cost is memory that is taken and given back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measure how long pods of others wait while a tenant does its worst: one pod a second, ten, and none.
#[derive(Debug, Parser)]
struct Args {
    /// How many nodes
    #[arg(long, default_value_t = 2_000)]
    nodes: usize,
    /// How many minutes of virtual time
    #[arg(long, value_name = "N", default_value_t = 10)]
    minutes: u64,
}

#[expect(clippy::print_stdout, reason = "the figures are what the program is for")]
fn main() -> ExitCode {
    let Args { nodes, minutes } = Args::parse();
    let measured = tenants::beside(nodes, minutes);
    exit_code(measured.map(|table| {
        print!("{}", table.plain());
        true
    }))
}
