//! Measures what nodes and running pods cost in memory, with an allocator that counts. Started by `bench-core`, because
//! counting would slow its figures down.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Parser;
use kube_scheduler_benches::catalogue::WORKLOADS;
use kube_scheduler_benches::exit_code;
use kube_scheduler_benches::memory::{Detail, Memory, memory};
use peak_alloc::PeakAlloc;
use serde::Serialize;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Measure the live heap per node and per running pod; prints JSON.
#[derive(Debug, Parser)]
struct Args {
    /// How many nodes; ten times as many pods run on them
    #[arg(long, default_value_t = 5_000)]
    nodes: usize,
    /// Workloads to measure; all if none is named
    #[arg(long, value_name = "NAME")]
    workload: Vec<String>,
    /// Nodes and pods as in a real cluster: with owners, conditions, images and all
    #[arg(long)]
    real: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    workload: &'a str,
    #[serde(flatten)]
    memory: Memory,
}

#[expect(clippy::print_stdout, reason = "the figures are what the program is for")]
fn measure(args: &Args) -> Result<()> {
    if args.nodes == 0 {
        bail!("--nodes 0: at least 1 is allowed");
    }
    let detail = if args.real { Detail::Real } else { Detail::Template };
    for workload in WORKLOADS.iter().filter(|workload| {
        args.workload.is_empty() || args.workload.iter().any(|name| name == workload.name)
    }) {
        let memory = memory(workload, args.nodes, detail, &|| ALLOCATOR.current_usage())?;
        println!("{}", serde_json::to_string(&Line { workload: workload.name, memory })?);
    }
    Ok(())
}

fn main() -> ExitCode {
    exit_code(measure(&Args::parse()).map(|()| true))
}
