//! Runs benchmark definitions in the reference's scheduler_perf format, with our scheduler.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use kube_scheduler_benches::blackbox::{Backend, ServeDevcluster};
use kube_scheduler_benches::exit_code;
use kube_scheduler_benches::scheduler_perf::{
    DataItems, Definitions, LabelFilter, RunOptions, is_meant, run_workload,
};
use kube_scheduler_tests::control_plane::Assets;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Run benchmark definitions in the reference's scheduler_perf format, with our scheduler.
///
/// Each workload gets an API server of its own: the one in memory, or kube-apiserver with etcd. With --kubeconfig all use
/// the one that is named, which must have no nodes; what they create is taken away again.
#[derive(Debug, Parser)]
#[command(name = "bench-scheduler-perf", args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    part: Option<Part>,
    #[command(flatten)]
    args: Args,
}

/// What this program is in a process of its own.
#[derive(Debug, Subcommand)]
enum Part {
    /// The API server in memory
    #[command(hide = true)]
    ServeDevcluster(ServeDevcluster),
}

#[derive(Debug, clap::Args)]
struct Args {
    /// The file with the definitions; may be given several times
    #[arg(long, value_name = "FILE", required = true)]
    config: Vec<PathBuf>,
    /// Only workloads with this in `TestCase/Workload`
    #[arg(long, value_name = "TEXT", default_value = "")]
    name: String,
    /// Only workloads with these labels (`label`, `+label`) and without those (`-label`), commas between them
    #[arg(long, value_name = "LABELS", default_value = "", allow_hyphen_values = true)]
    labels: String,
    /// Show which workloads there are, with their labels, and run none
    #[arg(long)]
    list: bool,
    /// Use the API server of this kubeconfig, which must have no nodes
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Start kube-apiserver and etcd (without fsync) of this directory for each workload
    #[arg(long, value_name = "DIR", conflicts_with = "kubeconfig")]
    assets: Option<PathBuf>,
    /// End with exit code 1 if a result misses its threshold
    #[arg(long)]
    check_thresholds: bool,
    /// Which threshold to take where a file has several
    #[arg(long, default_value = "")]
    topic: String,
    /// How long an operation may wait for its pods, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    patience: u64,
    /// How long a workload may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1800)]
    timeout: u64,
    /// The scheduler's seed; other than 0 it draws one of several equally good nodes
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Feature gates beside those of the definitions, and instead of what these say of them
    #[arg(long, value_name = "GATE=BOOL,...", default_value = "", value_parser = parse_gates)]
    feature_gates: BTreeMap<String, bool>,
    /// How the results are printed; `wide` is a table with the scheduler's own metrics
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Output::Json)]
    output: Output,
}

/// Gates as the scheduler's own flag has them.
fn parse_gates(text: &str) -> Result<BTreeMap<String, bool>, String> {
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    let gates = pairs.map(|pair| match pair.split_once('=') {
        Some((gate, on)) => match on.parse() {
            Ok(on) => Ok((gate.to_owned(), on)),
            Err(_) => Err(format!("{gate}={on}: true and false are allowed")),
        },
        None => Err(format!("{pair}: GATE=true and GATE=false are allowed")),
    });
    gates.collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Json,
    Table,
    Wide,
}

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.part {
        Some(Part::ServeDevcluster(server)) => server.run().await.map(|()| true),
        None => measure(cli.args).await,
    };
    exit_code(done)
}

/// Whether everything that was requested was measured, and is good enough.
async fn measure(args: Args) -> Result<bool> {
    let labels = LabelFilter::parse(&args.labels);
    let mut files = Vec::new();
    for path in &args.config {
        files.push(Definitions::read(path)?);
    }
    let wanted: Vec<(&Definitions, &str, &str, Vec<&str>)> = files
        .iter()
        .flat_map(|file| {
            file.workloads().map(move |(case, workload, labels)| (file, case, workload, labels))
        })
        .filter(|(_, case, workload, own)| {
            is_meant(&args.name, case, workload) && labels.lets_through(own.iter().copied())
        })
        .collect();
    if wanted.is_empty() {
        bail!(
            "no workload has {:?} in its name and fits the labels {:?}; --list shows all",
            args.name,
            args.labels
        );
    }
    if args.list {
        let lines = wanted.iter().map(|(_, case, workload, labels)| {
            format!("{case}/{workload}  [{}]\n", labels.join(", "))
        });
        return print(&lines.collect::<String>()).map(|()| true);
    }
    let backend = match (&args.kubeconfig, &args.assets) {
        (Some(path), _) => Backend::Given(path.clone()),
        (None, Some(directory)) => Backend::Real(Assets::of_directory(directory.clone())?),
        (None, None) => Backend::Devcluster { is_plain: true },
    };
    let options = RunOptions {
        backend,
        program: std::env::current_exe().context("the path of this program")?,
        topic: args.topic,
        patience: Duration::from_secs(args.patience),
        timeout: Duration::from_secs(args.timeout),
        seed: args.seed,
        gates: args.feature_gates,
    };
    let mut items = Vec::new();
    let (mut n_failed, mut n_missed) = (0, 0);
    for (file, case, workload, _) in wanted {
        match run_workload(file, case, workload, &options).await {
            Ok(outcome) => {
                for missed in &outcome.missed {
                    eprintln!("threshold: {missed}");
                }
                n_missed += outcome.missed.len();
                items.extend(outcome.items);
            }
            // The other workloads are measured nevertheless.
            Err(error) => {
                n_failed += 1;
                eprintln!("FAILED {error:#}");
            }
        }
    }
    let items = DataItems::new(items);
    match args.output {
        Output::Json => print(&(serde_json::to_string_pretty(&items)? + "\n"))?,
        Output::Table => print(&items.table(false))?,
        Output::Wide => print(&items.table(true))?,
    }
    Ok(n_failed == 0 && !(args.check_thresholds && n_missed > 0))
}

/// A closed pipe ends the program without an error: the reader has seen enough.
fn print(text: &str) -> Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn labels_may_begin_with_a_hyphen() {
        let line = "bench-scheduler-perf --config f --labels -short,performance";
        let args = Cli::try_parse_from(line.split(' ')).unwrap().args;
        assert_eq!(args.labels, "-short,performance");
    }

    #[test]
    fn gates_are_written_as_for_the_scheduler() {
        let gates = [("A".to_owned(), true), ("B".to_owned(), false)];
        assert_eq!(parse_gates("A=true, B=false"), Ok(gates.into()));
        assert_eq!(parse_gates(""), Ok(BTreeMap::new()));
        assert_eq!(parse_gates("A=yes"), Err("A=yes: true and false are allowed".to_owned()));
        assert!(parse_gates("A").is_err());
    }
}
