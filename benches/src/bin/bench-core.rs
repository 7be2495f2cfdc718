//! Times the scheduling core on the workloads of the reference figures, without any API server.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use kube_scheduler_benches::measure::{Figures, run};
use kube_scheduler_benches::workload::WORKLOADS;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Time the scheduling core, every node scored, on the workloads of the reference figures.
#[derive(Debug, Parser)]
struct Args {
    /// How many nodes
    #[arg(long, default_value_t = 5_000)]
    nodes: usize,
    /// Workloads to run; all if none is named
    #[arg(long, value_name = "NAME")]
    workload: Vec<String>,
    /// Evaluate every pod from scratch instead of sharing evaluations between equal pods
    #[arg(long)]
    no_class_cache: bool,
    /// Measure plugins for metrics meanwhile, as the daemon does
    #[arg(long)]
    metered: bool,
    /// Also write the figures to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[expect(clippy::print_stdout, reason = "the figures are what the program is for")]
fn measure(args: &Args) -> Result<()> {
    let names: Vec<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
    if let Some(unknown) = args.workload.iter().find(|name| !names.contains(&name.as_str())) {
        bail!("unknown workload {unknown:?}: allowed are {}", names.join(", "));
    }
    let mut all: Vec<Figures> = Vec::new();
    for workload in WORKLOADS
        .iter()
        .filter(|w| args.workload.is_empty() || args.workload.iter().any(|n| n == w.name))
    {
        let figures = run(workload, args.nodes, !args.no_class_cache, args.metered)?;
        println!(
            "{} nodes={} measured={} bound={} pods/s={:.0} p50={:.1}us p99={:.1}us",
            figures.workload,
            figures.nodes,
            figures.measured,
            figures.bound,
            figures.pods_per_second,
            figures.p50_micros,
            figures.p99_micros
        );
        let wanted = if workload.is_schedulable { figures.measured } else { 0 };
        if figures.bound != wanted {
            bail!("{}: {} pods bound, {wanted} expected", workload.name, figures.bound);
        }
        all.push(figures);
    }
    if let Some(path) = &args.json {
        let json = serde_json::to_string_pretty(&all)?;
        std::fs::write(path, json).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

fn main() -> ExitCode {
    match measure(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
