//! `demo`: a cluster, its nodes, a workload and the scheduler in one command.
//!
//! The scheduler is the real one in its usual role: an HTTP client of an API server that it knows nothing about.

mod devices;
mod gangs;
mod report;
mod screen;
mod watcher;
mod workload;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use kube_scheduler_daemon::{Daemon, DaemonHandle, Endpoint, resident_memory_bytes};
use kube_scheduler_devcluster::{DevCluster, NODES, PODS, Selection, StatusError};
use kube_scheduler_plugins_intree::registry;
use tokio::sync::oneshot;
use tokio::time::timeout_at;

use super::devcluster::temporary_kubeconfig;
use super::{print, runtime};
use crate::logging;
use crate::signals::Signals;
use report::{Report, Run, UrgentGang};
use screen::Screen;
use watcher::PodWatcher;
use workload::{GATE, Theme, Workload};

/// Pods created at a time.
const CHUNK: usize = 200;

/// How the result is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Table,
    Json,
}

/// Run a whole cluster in this process: API server, hollow nodes, a workload of several shapes, and this scheduler.
///
/// Scheduler and API server communicate by HTTP over loopback, as in a real cluster. The pods of the workload select node
/// labels and zones, tolerate taints, use host ports, have priorities, wait behind gates, and need large images or GPUs.
/// Nothing outside of this process is changed.
///
/// With --devices, pods have claims instead (Dynamic Resource Allocation): for one GPU, two at the same NUMA node, a large
/// one, half of one, or a device in the network. Some ask for more GPUs than any node has; the report says why they wait.
///
/// With --gangs, most pods belong to groups of four that start together or not at all, some of them within one zone. One pod
/// of some groups asks for more than any node has; the report says why none of its group runs. In the end comes a group that is
/// more important than all others and needs whole nodes: pods are evicted for it, as few as possible.
///
/// Exit code: 0 when all pods that fit were bound, 1 when not or on an error, 2 on wrong usage.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(4..=50_000))]
    nodes: u32,

    /// Number of pods to schedule
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pods: u32,

    /// Nodes with sample devices, and pods with claims from templates
    #[arg(long)]
    devices: bool,

    /// Pods in groups that are scheduled together (alpha: PodGroups, which kube-apiserver serves with their gate on)
    #[arg(long, conflicts_with = "devices")]
    gangs: bool,

    /// Seed of the workload and of all random choices in scheduling it
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,

    /// Keep cluster and scheduler running afterwards, for use with kubectl, until Ctrl-C
    #[arg(long)]
    keep_running: bool,

    /// Where to write the result as JSON; by default a new file in the directory for temporary files
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// How to print the result
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Output::Table)]
    output: Output,

    /// Stop waiting for pods to be bound after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout: u64,

    /// Log verbosity
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
            report = demo.play(&args) => report?,
            () = &mut interrupted => bail!("interrupted"),
        };
        let path = match &args.report {
            Some(path) => path.clone(),
            None => report_path()?,
        };
        let json = serde_json::to_string_pretty(&report)?;
        std::fs::write(&path, format!("{json}\n")).with_context(|| path.display().to_string())?;
        print(&match args.output {
            Output::Table => format!("{}REPORT                {}\n", report.table(), path.display()),
            Output::Json => format!("{json}\n"),
        })?;
        if args.keep_running {
            // Removed when it goes out of scope, since the cluster ends then.
            let kubeconfig = temporary_kubeconfig()?;
            demo.cluster.write_kubeconfig(&kubeconfig)?;
            let shown = kubeconfig.display();
            eprintln!("\nThe cluster keeps running until Ctrl-C. Try:\n\n  kubectl --kubeconfig {shown} get nodes,pods\n");
            interrupted.await;
        }
        let n_fitting = demo.n_fitting;
        demo.end().await?;
        let is_urgent_done = report.urgent_gang.is_none_or(|gang| gang.bound == gang.pods);
        let is_done = report.pods.bound == n_fitting && is_urgent_done;
        Ok(if is_done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// A new file in the directory for temporary files, which stays after the demo.
fn report_path() -> Result<PathBuf> {
    let file =
        tempfile::Builder::new().prefix("kube-scheduler-rs-demo-").suffix(".json").tempfile();
    let (_, path) =
        file.and_then(|file| Ok(file.keep()?)).context("cannot create a file for the report")?;
    Ok(path)
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
    /// The pods that find a node.
    n_fitting: usize,
}

impl Demo {
    async fn start(args: &Args, n_nodes: usize, n_pods: usize) -> Result<Self> {
        let theme = match (args.devices, args.gangs) {
            (true, _) => Theme::Devices,
            (_, true) => Theme::Gangs,
            _ => Theme::Usual,
        };
        let workload = Workload::new(n_nodes, n_pods, args.seed, theme);
        let n_fitting = n_pods - workload.n_too_large();
        let screen = Screen::new(n_fitting);
        // Each pod changes a few times; the history has to be long enough for the slowest watch.
        let history = (n_pods * 8).max(65_536);
        let builder = DevCluster::builder().seed(args.seed).history(history);
        let cluster = builder.devices(workload.devices()).start().await?;
        workload.build_cluster(&cluster).map_err(rejected).context("cluster")?;
        screen.step(&format!("API server at {}, {n_nodes} hollow nodes", cluster.url()));

        let mut builder = Daemon::builder(Endpoint::from_url(&cluster.url())?, registry());
        if theme == Theme::Gangs {
            let (gates, config) = gangs::configuration()?;
            builder = builder.gates(gates).config(config);
        }
        let daemon = builder.seed(args.seed).start().await?;
        let scheduler = daemon.handle();
        let (stop, stop_asked) = oneshot::channel();
        let stopped =
            tokio::spawn(async move { Ok(daemon.run(async { drop(stop_asked.await) }).await?) });
        if !scheduler.synced().await {
            bail!("the scheduler ended before its caches were synced");
        }
        let watcher = PodWatcher::start(&cluster).map_err(rejected)?;
        Ok(Self { cluster, watcher, workload, scheduler, stop, stopped, screen, n_pods, n_fitting })
    }

    /// Everything that there is to see.
    async fn play(&mut self, args: &Args) -> Result<Report> {
        let mut report = self.show(args).await?;
        if args.gangs {
            report.urgent_gang = Some(self.make_room(args).await?);
        }
        Ok(report)
    }

    /// Creates a gang for which others have to go, and waits for it to be bound.
    async fn make_room(&self, args: &Args) -> Result<UrgentGang> {
        let nodes = self.cluster.list(NODES, &Selection::all()).items;
        let node = nodes.first().context("there are no nodes")?.value();
        let cpus = node["status"]["allocatable"]["cpu"].as_str().context("nodes have no CPUs")?;
        let names = || -> BTreeSet<String> {
            let pods = self.cluster.list(PODS, &Selection::all()).items;
            pods.iter().map(|pod| pod.name().to_owned()).collect()
        };
        let before = names();
        self.screen
            .step(&format!("creating a gang of {} that takes the place of others", gangs::SIZE));
        let start = Instant::now();
        let give_up = start + Duration::from_secs(args.timeout);
        let objects = gangs::urgent(cpus);
        self.cluster.bulk_create(objects).map_err(rejected).context("urgent gang")?;
        let mut look = tokio::time::interval(Duration::from_millis(5));
        loop {
            look.tick().await;
            let n_bound = {
                let pods = self.watcher.pods.lock();
                let members = pods.values().filter(|pod| pod.shape == gangs::URGENT);
                members.filter(|pod| pod.node.is_some()).count()
            };
            if n_bound < gangs::SIZE && Instant::now() < give_up {
                continue;
            }
            let seconds = start.elapsed().as_secs_f64();
            let evicted = before.difference(&names()).count();
            return Ok(UrgentGang { pods: gangs::SIZE, bound: n_bound, evicted, seconds });
        }
    }

    /// Creates the workload and waits for it to be bound.
    async fn show(&mut self, args: &Args) -> Result<Report> {
        self.screen.step(&format!("creating {} pods", self.n_pods));
        let start = Instant::now();
        let give_up = tokio::time::Instant::now() + Duration::from_secs(args.timeout);
        let mut pods = self.workload.pods();
        loop {
            let chunk: Vec<_> = pods.by_ref().take(CHUNK).collect();
            if chunk.is_empty() {
                break;
            }
            self.cluster.bulk_create(chunk).map_err(rejected).context("workload")?;
            self.screen.show(*self.watcher.n_bound.borrow());
            tokio::task::yield_now().await;
        }
        drop(pods);

        let mut n_bound = self.watcher.n_bound.clone();
        let mut is_released = false;
        let mut redraw = tokio::time::interval(Duration::from_millis(100));
        while *n_bound.borrow_and_update() < self.n_fitting && tokio::time::Instant::now() < give_up
        {
            if !is_released && *n_bound.borrow() * 2 >= self.n_pods {
                is_released = true;
                self.release_gated().map_err(rejected).context("gated pods")?;
            }
            redraw.tick().await;
            self.screen.show(*n_bound.borrow());
            match timeout_at(give_up, n_bound.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => bail!("the watch of the demo's pods ended"),
                Err(_) => break,
            }
        }
        self.screen.show(*n_bound.borrow());
        // What is left fits nowhere; the report says why.
        while self.n_decided() < self.n_pods && tokio::time::Instant::now() < give_up {
            redraw.tick().await;
        }
        self.screen.clear();
        Ok(self.report(args.seed, start))
    }

    /// How many pods are bound, or know why not.
    fn n_decided(&self) -> usize {
        let pods = self.watcher.pods.lock();
        pods.values().filter(|pod| pod.node.is_some() || !pod.message.is_empty()).count()
    }

    /// Removes the gate of all gated pods.
    fn release_gated(&self) -> std::result::Result<(), StatusError> {
        let gated: Vec<String> = {
            let pods = self.watcher.pods.lock();
            pods.iter().filter(|(_, pod)| pod.is_gated()).map(|(name, _)| name.clone()).collect()
        };
        if gated.is_empty() {
            return Ok(());
        }
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

    fn report(&self, seed: u64, start: Instant) -> Report {
        let pods = self.watcher.pods.lock();
        let last = pods.values().filter_map(watcher::PodRecord::bound_at).max();
        let progress = self.scheduler.progress();
        let nodes = self.cluster.list(NODES, &Selection::all()).items;
        let run = Run {
            seed,
            nodes: nodes.iter().map(|node| node.name().to_owned()).collect(),
            n_pods: self.n_pods,
            elapsed: last
                .map_or_else(|| start.elapsed(), |last| last.saturating_duration_since(start)),
            n_decisions: progress.n_decisions,
            deciding: progress.deciding,
            memory_bytes: resident_memory_bytes(),
            devices: devices::count(&self.cluster),
        };
        Report::new(&run, &pods)
    }

    /// Ends scheduler and cluster in order.
    async fn end(self) -> Result<()> {
        // If the scheduler has ended by itself, its result says why.
        let _ = self.stop.send(());
        self.stopped.await.map_err(|error| anyhow!("the scheduler failed: {error}"))??;
        drop(self.watcher);
        self.cluster.shutdown().await?;
        Ok(())
    }
}

fn rejected(error: StatusError) -> anyhow::Error {
    anyhow!("rejected by the API server: {error}")
}
