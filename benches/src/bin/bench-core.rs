//! Times the scheduling core on the workloads of the reference figures and more, without any API server.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use kube_scheduler_benches::campaign::{Campaign, memories};
use kube_scheduler_benches::catalogue::WORKLOADS;
use kube_scheduler_benches::exit_code;
use kube_scheduler_benches::figures::Figures;
use kube_scheduler_benches::measure::Conditions;
use kube_scheduler_benches::memory::Detail;
use kube_scheduler_benches::table;
use kube_scheduler_benches::workload::Workload;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Time the scheduling core, every node scored, on the workloads of the reference figures and more.
#[derive(Debug, Parser)]
struct Args {
    /// How many nodes
    #[arg(long, default_value_t = 5_000)]
    nodes: usize,
    /// Workloads to run; all if none is named
    #[arg(long, value_name = "NAME")]
    workload: Vec<String>,
    /// How often to run each; figures are medians
    #[arg(long, default_value_t = 1)]
    runs: usize,
    /// Evaluate every pod from scratch instead of sharing evaluations between equal pods
    #[arg(long)]
    no_class_cache: bool,
    /// Measure plugins for metrics meanwhile, as the daemon does
    #[arg(long)]
    metered: bool,
    /// Turn the gates of pod groups on, also where no pod belongs to one
    #[arg(long)]
    group_gates: bool,
    /// Plan gangs as a whole
    #[arg(long)]
    exact_gangs: bool,
    /// Report every bound pod to the engine again, unmeasured, as a watch would
    #[arg(long)]
    watched: bool,
    /// Place so many times the pods first that the workload says; there must be room for them
    #[arg(long, value_name = "TIMES", default_value_t = 1)]
    init_factor: usize,
    /// Stop a run after so many seconds of scheduling
    #[arg(long, value_name = "SECONDS")]
    limit: Option<u64>,
    /// Run once more from scratch and fail if anything was decided differently
    #[arg(long, conflicts_with = "limit")]
    verify: bool,
    /// Do not measure memory
    #[arg(long)]
    no_memory: bool,
    /// What to print
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    /// Also write the figures to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Say what there is to run
    #[arg(long)]
    list: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    Table,
    Json,
    Markdown,
}

#[expect(clippy::print_stdout, reason = "the figures are what the program is for")]
fn measure(args: &Args) -> Result<()> {
    let names: Vec<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
    if let Some(unknown) = args.workload.iter().find(|name| !names.contains(&name.as_str())) {
        bail!("unknown workload {unknown:?}: allowed are {}", names.join(", "));
    }
    if args.list {
        for workload in &WORKLOADS {
            println!("{:<46} {}", workload.name, workload.question);
        }
        return Ok(());
    }
    let counts = [("nodes", args.nodes), ("runs", args.runs), ("init-factor", args.init_factor)];
    for (flag, value) in counts {
        if value == 0 {
            bail!("--{flag} 0: at least 1 is allowed");
        }
    }
    let workloads: Vec<&Workload> = WORKLOADS
        .iter()
        .filter(|w| args.workload.is_empty() || args.workload.iter().any(|n| n == w.name))
        .collect();
    let all = figures(args, &workloads)?;
    let json = serde_json::to_string_pretty(&all)?;
    match args.output {
        Output::Table => print!("{}", table::figures(&all).plain()),
        Output::Markdown => print!("{}", table::figures(&all).markdown()),
        Output::Json => println!("{json}"),
    }
    if let Some(path) = &args.json {
        std::fs::write(path, json + "\n").with_context(|| format!("write {}", path.display()))?;
    }
    if let Some(figures) = all.iter().find(|figures| figures.verified == Some(false)) {
        bail!("{}: decided differently without the class cache", figures.workload);
    }
    Ok(())
}

fn figures(args: &Args, workloads: &[&Workload]) -> Result<Vec<Figures>> {
    let conditions = Conditions {
        uses_class_cache: !args.no_class_cache,
        is_metered: args.metered,
        has_group_gates: args.group_gates,
        plans_gangs_exactly: args.exact_gangs,
        is_watched: args.watched,
        init_factor: args.init_factor,
        limit: args.limit.map_or(Duration::MAX, Duration::from_secs),
        ..Conditions::new(args.nodes)
    };
    let campaign = Campaign { workloads, n_runs: args.runs, conditions, verifies: args.verify };
    let mut all = campaign.figures()?;
    if !args.no_memory {
        let memory = memories(workloads, args.nodes, Detail::Template)?;
        for figures in &mut all {
            figures.memory = memory.get(&figures.workload).copied();
        }
    }
    Ok(all)
}

fn main() -> ExitCode {
    exit_code(measure(&Args::parse()).map(|()| true))
}
