//! `demo`: a cluster, its nodes, a workload and the scheduler, all at work in one command.
//!
//! The scheduler is the real one in its usual role: a client that talks HTTP to an API server it knows nothing about.

mod report;
mod screen;
mod watcher;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use kube_scheduler_daemon::{Daemon, DaemonHandle, Endpoint, resident_memory_bytes};
use kube_scheduler_devcluster::{ApiError, DevCluster, NODES, PODS, Selection};
use kube_scheduler_plugins_intree::registry;
use tokio::sync::oneshot;
use tokio::time::timeout_at;

use super::devcluster::temporary_kubeconfig;
use super::{print, runtime};
use crate::logging;
use crate::signals::Signals;
use report::{Report, Run};
use screen::Screen;
use watcher::PodWatcher;
use workload::{GATE, Workload};

/// Pods created at a time.
const CHUNK: usize = 200;

/// How the result is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Table,
    Json,
}

/// Show a whole cluster at work: API server, hollow nodes, a workload of several shapes, and this scheduler.
///
/// Everything runs in this process; scheduler and API server talk HTTP over loopback as they would anywhere. The pods ask
/// for node labels and zones, tolerate taints, hold host ports, have priorities, wait behind gates, want large images or
/// GPUs. Nothing outside is touched.
///
/// Exit code: 0 when all pods were bound, 1 when not or on an error, 2 on wrong usage.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Nodes of the cluster
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(4..=50_000))]
    nodes: u32,

    /// Pods to schedule
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pods: u32,

    /// Decides the workload and whatever is random in scheduling it
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,

    /// Leave cluster and scheduler running afterwards, so that kubectl can look around, until Ctrl-C
    #[arg(long)]
    keep_running: bool,

    /// Where to write the result as JSON; by default a file in the directory for temporary files
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// How to print the result
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Output::Table)]
    output: Output,

    /// Give up after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout: u64,

    /// How much to log
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 0)]
    verbosity: u8,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> Result<ExitCode> {
    logging::start_quietly(args.verbosity);
    let (n_nodes, n_pods) = (usize::try_from(args.nodes)?, usize::try_from(args.pods)?);
    runtime()?.block_on(async {
        let signals = Signals::listen().context("cannot listen for signals")?;
        let interrupted = signals.first();
        tokio::pin!(interrupted);

        let mut demo = Demo::start(&args, n_nodes, n_pods).await?;
        let report = tokio::select! {
            report = demo.show(&args) => report?,
            () = &mut interrupted => bail!("interrupted"),
        };
        let path = args.report.clone().unwrap_or_else(|| std::env::temp_dir().join("kube-scheduler-rs-demo.json"));
        let json = serde_json::to_string_pretty(&report)?;
        std::fs::write(&path, format!("{json}\n")).with_context(|| path.display().to_string())?;
        print(&match args.output {
            Output::Table => format!("{}REPORT                {}\n", report.table(), path.display()),
            Output::Json => format!("{json}\n"),
        })?;
        if args.keep_running {
            let kubeconfig = temporary_kubeconfig(&demo.cluster);
            demo.cluster.write_kubeconfig(&kubeconfig)?;
            let shown = kubeconfig.display();
            eprintln!("\nThe cluster goes on until Ctrl-C. To look around:\n\n  kubectl --kubeconfig {shown} get nodes,pods\n");
            interrupted.await;
            // It points nowhere from now on.
            let _ = std::fs::remove_file(&kubeconfig);
        }
        demo.end().await?;
        Ok(if report.pods.bound == n_pods { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// Everything that runs during a demo.
struct Demo {
    cluster: DevCluster,
    watcher: PodWatcher,
    workload: Workload,
    scheduler: DaemonHandle,
    stop: oneshot::Sender<()>,
    stopped: tokio::task::JoinHandle<Result<()>>,
    screen: Screen,
    n_pods: usize,
}

impl Demo {
    async fn start(args: &Args, n_nodes: usize, n_pods: usize) -> Result<Self> {
        let screen = Screen::new(n_pods);
        // A pod changes some times on its way; watches must not fall behind further than that.
        let history = (n_pods * 8).max(65_536);
        let cluster = DevCluster::builder().seed(args.seed).history(history).start().await?;
        let workload = Workload::new(n_nodes, n_pods, args.seed);
        workload.build_cluster(&cluster).map_err(refused).context("cluster")?;
        screen.step(&format!("API server at {}, {n_nodes} hollow nodes", cluster.url()));

        let daemon = Daemon::builder(Endpoint::from_url(&cluster.url())?, registry())
            .seed(args.seed)
            .start()
            .await?;
        let scheduler = daemon.handle();
        let (stop, stop_asked) = oneshot::channel();
        let stopped =
            tokio::spawn(async move { Ok(daemon.run(async { drop(stop_asked.await) }).await?) });
        if !scheduler.synced().await {
            bail!("the scheduler ended before it had seen the cluster");
        }
        let watcher = PodWatcher::start(&cluster).map_err(refused)?;
        Ok(Self { cluster, watcher, workload, scheduler, stop, stopped, screen, n_pods })
    }

    /// Creates the workload and waits for it to be bound.
    async fn show(&mut self, args: &Args) -> Result<Report> {
        self.screen.step(&format!("creating {} pods", self.n_pods));
        let begun = Instant::now();
        let give_up = tokio::time::Instant::now() + Duration::from_secs(args.timeout);
        let mut pods = self.workload.pods();
        loop {
            let chunk: Vec<_> = pods.by_ref().take(CHUNK).collect();
            if chunk.is_empty() {
                break;
            }
            self.cluster.bulk_create(chunk).map_err(refused).context("workload")?;
            self.screen.show(*self.watcher.n_bound.borrow());
            tokio::task::yield_now().await;
        }
        drop(pods);

        let mut n_bound = self.watcher.n_bound.clone();
        let mut is_released = false;
        let mut redraw = tokio::time::interval(Duration::from_millis(100));
        while *n_bound.borrow_and_update() < self.n_pods && tokio::time::Instant::now() < give_up {
            if !is_released && *n_bound.borrow() * 2 >= self.n_pods {
                is_released = true;
                self.release_gated().map_err(refused).context("gated pods")?;
            }
            redraw.tick().await;
            self.screen.show(*n_bound.borrow());
            match timeout_at(give_up, n_bound.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => bail!("the demo lost sight of its pods"),
                Err(_) => break,
            }
        }
        self.screen.show(*n_bound.borrow());
        self.screen.clear();
        Ok(self.report(args.seed, begun))
    }

    /// Lets the pods go that wait behind a gate.
    fn release_gated(&self) -> std::result::Result<(), ApiError> {
        let gated: Vec<String> = {
            let seen = self.watcher.sightings.lock();
            seen.iter().filter(|(_, pod)| pod.is_gated()).map(|(name, _)| name.clone()).collect()
        };
        self.screen.step(&format!("releasing {} gated pods", gated.len()));
        for name in gated {
            self.cluster.edit(PODS, "default", &name, |pod| {
                if let Some(gates) = pod["spec"]["schedulingGates"].as_array_mut() {
                    gates.retain(|gate| gate["name"] != GATE);
                }
            })?;
        }
        Ok(())
    }

    fn report(&self, seed: u64, begun: Instant) -> Report {
        let seen = self.watcher.sightings.lock();
        let last = seen.values().filter_map(watcher::Seen::bound_at).max();
        let progress = self.scheduler.progress();
        let nodes = self.cluster.list(NODES, &Selection::all()).items;
        let run = Run {
            seed,
            nodes: nodes.iter().map(|node| node.name().to_owned()).collect(),
            n_pods: self.n_pods,
            elapsed: last
                .map_or_else(|| begun.elapsed(), |last| last.saturating_duration_since(begun)),
            n_decisions: progress.n_decisions,
            deciding: progress.deciding,
            memory_bytes: resident_memory_bytes(),
        };
        Report::new(&run, &seen)
    }

    /// Ends scheduler and cluster in order.
    async fn end(self) -> Result<()> {
        // The scheduler may have ended by itself; then its result says why.
        let _ = self.stop.send(());
        self.stopped.await.map_err(|error| anyhow!("the scheduler broke down: {error}"))??;
        drop(self.watcher);
        self.cluster.shutdown().await?;
        Ok(())
    }
}

fn refused(error: ApiError) -> anyhow::Error {
    anyhow!("the API server refused: {error}")
}
