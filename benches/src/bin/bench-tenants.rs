//! Measures what the worst pods of one tenant cost the core: time, live heap, what stays of them, and how long others wait.

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
    /// Measure instead how long pods of others wait while the tenant does its worst for so many minutes of virtual time
    #[arg(long, value_name = "MINUTES", conflicts_with_all = ["kind", "units"])]
    beside: Option<u64>,
}

#[expect(clippy::print_stdout, reason = "the figures are what the program is for")]
fn measure(args: &Args) -> Result<()> {
    let Args { nodes, kind, units, beside } = args;
    let table = match (beside, units) {
        (Some(minutes), _) => tenants::beside(*nodes, *minutes)?,
        (None, true) => tenants::units(*nodes)?,
        (None, false) => tenants::rows(*nodes, kind, &ALLOCATOR)?,
    };
    print!("{}", table.plain());
    Ok(())
}

fn main() -> ExitCode {
    exit_code(measure(&Args::parse()).map(|()| true))
}
