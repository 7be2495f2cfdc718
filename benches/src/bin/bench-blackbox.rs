//! Times a scheduler binary from outside, and the API server alone, in turn if wanted.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use kube_scheduler_benches::blackbox::{
    Backend, Figures, Pair, Round, ServeDevcluster, Shape, Soak, Subject, bind_all, table,
};
use kube_scheduler_benches::exit_code;
use kube_scheduler_daemon::Endpoint;
use kube_scheduler_tests::control_plane::{Api, Assets};
use serde_json::json;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Time any scheduler binary from outside: all pods are pending before it starts, a watch sees them being bound.
///
/// The scheduler's command comes after `--`; {kubeconfig} in it stands for the kubeconfig to use. Without a command the
/// kube-scheduler-rs beside this program is taken. With --kubeconfig the cluster is one that has no nodes, and what is
/// created is taken away again; otherwise each round has an API server of its own.
#[derive(Debug, Parser)]
#[command(name = "bench-blackbox", args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    part: Option<Part>,
    #[command(flatten)]
    args: Args,
}

/// What this program is in processes of its own.
#[derive(Debug, Subcommand)]
enum Part {
    /// The API server in memory
    #[command(hide = true)]
    ServeDevcluster(ServeDevcluster),
    /// The ceiling
    #[command(hide = true)]
    BindAll { kubeconfig: PathBuf, round: String, n_nodes: usize, n_pods: usize, shape: Shape },
}

#[derive(Debug, clap::Args)]
struct Args {
    /// Use the API server of this kubeconfig, which must have no nodes
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Start kube-apiserver and etcd (without fsync) of this directory; KUBEBUILDER_ASSETS is taken otherwise
    #[arg(long, value_name = "DIR", conflicts_with = "kubeconfig")]
    assets: Option<PathBuf>,
    /// Use the API server in memory even if KUBEBUILDER_ASSETS is set
    #[arg(long, conflicts_with_all = ["kubeconfig", "assets"])]
    devcluster: bool,
    /// The API server in memory does without TLS and roles
    #[arg(long, conflicts_with_all = ["kubeconfig", "assets"])]
    plain_http: bool,
    /// How many nodes
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    nodes: u32,
    /// How many pods
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pods: u32,
    /// What the pods ask for; several are played one after the other
    #[arg(long, value_enum, value_delimiter = ',', default_value = "plain")]
    shape: Vec<Shape>,
    /// Let pods that are all different come and go for so many minutes instead, --rate in a second and --pods of them there at
    /// once, and look at memory and waiting times all the while
    #[arg(long, value_name = "MINUTES", conflicts_with_all = ["kubeconfig", "ceiling", "pairs", "shape"])]
    soak: Option<u64>,
    /// How many pods come in a second with --soak
    #[arg(long, value_name = "N", default_value_t = 20, requires = "soak", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,
    /// With --soak: fail if the scheduler holds so many MiB more once all pods are gone than before the first. It also fails if
    /// pods wait more than 1.5 times as long at the end as at the beginning
    #[arg(long, value_name = "MIB", default_value_t = 64, requires = "soak")]
    soak_growth: u32,
    /// Time binding without deciding, round robin, 64 at a time, in place of a scheduler
    #[arg(long, conflicts_with_all = ["pairs", "command"])]
    ceiling: bool,
    /// Time ceiling and scheduler in turn, so many times, and compare the medians
    #[arg(long, value_name = "N")]
    pairs: Option<u32>,
    /// Give up after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    timeout: u64,
    /// Wait so many seconds for the events after the last binding
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    grace: u64,
    /// Add what the scheduler writes to this file
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// How the results are printed
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Output::Table)]
    output: Output,
    /// The scheduler and its arguments
    #[arg(last = true, value_name = "SCHEDULER ARGS")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Table,
    Json,
}

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.part {
        Some(Part::ServeDevcluster(server)) => server.run().await.map(|()| true),
        Some(Part::BindAll { kubeconfig, round, n_nodes, n_pods, shape }) => {
            run_ceiling(&kubeconfig, &round, n_nodes, n_pods, shape).await.map(|()| true)
        }
        None => measure(cli.args).await,
    };
    exit_code(done)
}

async fn run_ceiling(
    kubeconfig: &Path,
    round: &str,
    n_nodes: usize,
    n_pods: usize,
    shape: Shape,
) -> Result<()> {
    // The scheduler's own kind of connection: what it costs is not what is to be compared.
    let endpoint = Endpoint::from_kubeconfig(kubeconfig, None).await?;
    bind_all(&Api::of_client(endpoint.kube_client()?), round, n_nodes, n_pods, shape).await
}

/// Whether all pods were bound in all rounds, or memory and waits stayed as they were in a soak.
#[expect(clippy::print_stdout, reason = "the figures are what the program is for")]
async fn measure(args: Args) -> Result<bool> {
    let program = std::env::current_exe().context("the path of this program")?;
    let backend = backend(&args)?;
    let scheduler = Subject::Scheduler(if args.command.is_empty() {
        default_scheduler(&program)?
    } else {
        args.command.clone()
    });
    if let (Some(minutes), Subject::Scheduler(command)) = (args.soak, &scheduler) {
        let soak = Soak {
            backend,
            n_nodes: usize::try_from(args.nodes)?,
            length: Duration::from_secs(60 * minutes),
            pods_per_second: args.rate,
            n_pods: usize::try_from(args.pods)?,
            max_growth: u64::from(args.soak_growth) << 20,
            program,
            command: command.iter().map(|arg| arg.to_string_lossy().into_owned()).collect(),
        };
        let (table, verdict) = soak.play().await?;
        print!("{}", table.plain());
        eprintln!("{verdict}");
        return Ok(verdict.problems().is_empty());
    }
    let mut rounds: Vec<Figures> = Vec::new();
    let mut pairs = Vec::new();
    for shape in args.shape {
        let round = Round {
            backend: backend.clone(),
            n_nodes: usize::try_from(args.nodes)?,
            n_pods: usize::try_from(args.pods)?,
            shape,
            timeout: Duration::from_secs(args.timeout),
            grace: Duration::from_secs(args.grace),
            program: program.clone(),
            log: args.log.clone(),
        };
        let mut rates = [Vec::new(), Vec::new()];
        let subjects = match (args.ceiling, args.pairs) {
            (true, _) => vec![Subject::Ceiling],
            (false, None) => vec![scheduler.clone()],
            // In turn, so that a machine that becomes slower or faster meanwhile affects both equally.
            (false, Some(n)) => {
                (0..n).flat_map(|_| [Subject::Ceiling, scheduler.clone()]).collect()
            }
        };
        for subject in &subjects {
            let figures = round.play(subject).await?;
            rates[usize::from(*subject != Subject::Ceiling)].push(figures.pods_per_second);
            eprint!("{}", table(std::slice::from_ref(&figures), &[]));
            rounds.push(figures);
        }
        pairs.extend(Pair::of(shape.name(), &rates[0], &rates[1]));
    }
    match args.output {
        Output::Table => print!("{}", table(&rounds, &pairs)),
        Output::Json => {
            let all = json!({"rounds": rounds, "pairs": pairs});
            println!("{}", serde_json::to_string_pretty(&all)?);
        }
    }
    Ok(rounds.iter().all(|round| round.bound == round.pods))
}

fn backend(args: &Args) -> Result<Backend> {
    if let Some(path) = &args.kubeconfig {
        return Ok(Backend::Given(path.clone()));
    }
    if let Some(directory) = &args.assets {
        return Ok(Backend::Real(Assets::of_directory(directory.clone())?));
    }
    let devcluster = Backend::Devcluster { is_plain: args.plain_http };
    if args.devcluster || args.plain_http {
        return Ok(devcluster);
    }
    Ok(Assets::from_environment()?.map_or(devcluster, Backend::Real))
}

/// The command for our scheduler, from the directory of this program, without a limit on requests and without its secure port.
fn default_scheduler(program: &Path) -> Result<Vec<OsString>> {
    let scheduler = program.with_file_name("kube-scheduler-rs");
    if !scheduler.is_file() {
        bail!("there is no {}: name a scheduler after `--`, or build ours", scheduler.display());
    }
    let mut command = vec![scheduler.into_os_string()];
    command.extend(
        [
            "--kubeconfig={kubeconfig}",
            "--leader-elect=false",
            "--secure-port=0",
            "--kube-api-qps=100000",
            "--kube-api-burst=100000",
        ]
        .map(OsString::from),
    );
    Ok(command)
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
    fn the_schedulers_own_flags_stay_its_own() {
        let line =
            "bench-blackbox --nodes 5 --shape plain,spread -- kube-scheduler --nodes {kubeconfig}";
        let args = Cli::try_parse_from(line.split(' ')).unwrap().args;
        assert_eq!(args.command, ["kube-scheduler", "--nodes", "{kubeconfig}"]);
        assert_eq!(args.shape, [Shape::Plain, Shape::Spread]);
        assert_eq!(args.nodes, 5);
    }

    #[test]
    fn ceiling_and_scheduler_exclude_each_other() {
        assert!(Cli::try_parse_from(["b", "--ceiling", "--", "x"]).is_err());
    }
}
