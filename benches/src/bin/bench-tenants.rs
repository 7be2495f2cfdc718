//! Measures what the worst pods of one tenant cost the core: time, live heap, and what stays of them.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use kube_scheduler_benches::{exit_code, tenants};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Measure what pods that a tenant may create cost the core, one kind after the other.
#[derive(Debug, Parser)]
struct Args {
    /// How many nodes
    #[arg(long, default_value_t = 2_000)]
    nodes: usize,
    /// Kinds of pods to measure; all if none is named
    #[arg(long, value_name = "NAME")]
    kind: Vec<String>,
    /// Measure instead what a unit of work takes, by parts of a pod that are as large as the limit allows
    #[arg(long, conflicts_with = "kind")]
    units: bool,
}

#[expect(clippy::print_stdout, reason = "the figures are what the program is for")]
fn measure(args: &Args) -> Result<()> {
    let Args { nodes, kind, units } = args;
    let table = match units {
        true => tenants::units(*nodes)?,
        false => tenants::rows(*nodes, kind, &ALLOCATOR)?,
    };
    print!("{}", table.plain());
    Ok(())
}

fn main() -> ExitCode {
    exit_code(measure(&Args::parse()).map(|()| true))
}
