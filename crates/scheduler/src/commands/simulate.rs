//! `simulate`: schedules what is in files, without a server.
//!
//! All files are read before the simulation starts; a mistake in any of them gives one error and no output.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::ArgGroup;
use indicatif::{ProgressBar, ProgressStyle};
use kube_scheduler_config::FeatureGates;
use kube_scheduler_runtime::Registry;
use kube_scheduler_simulator::{
    ClusterInput, Format, PodName, RenderOptions, Report, Simulation, SimulationOptions,
    SimulationProgress, render,
};

use super::print;
use super::sources::{self, gate, text_of};
use crate::settings::exact_gangs_in_vain;
use crate::text_file::MAX_DUMP;

const REDRAW_INTERVAL: Duration = Duration::from_millis(100);

/// Schedule pods without a cluster, and report where they go, or why not.
///
/// The pods go through the same engine as in a cluster. Pods without a node are pending and are scheduled in the order
/// of their creation; those without a creation time come last, in the order of the input. Pods with a node are running
/// there from the start. Deployments, StatefulSets, DaemonSets, Jobs and their like of which the input has no pods get those
/// that their controllers would create. Pods are deleted only by preemption, or by --timeline at the end of their time.
///
/// Exit code: 0 when the simulation has ended, whether or not all pods found a node; 1 on an error; 2 on wrong usage.
#[derive(Clone, Debug, clap::Args)]
#[command(group = ArgGroup::new("input").required(true).multiple(true).args(["filename", "nodes_csv", "pods_csv"]))]
pub(crate) struct Args {
    /// Manifests or lists in YAML or JSON, such as a dump by `kubectl get nodes,pods,… -A -o json`. A directory stands
    /// for its *.yaml, *.yml and *.json files, `-` for standard input. May be repeated.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) filename: Vec<PathBuf>,

    /// Nodes of a trace: CSV with the columns sn, cpu_milli, memory_mib, gpu, model. A node takes 110 pods; its GPUs are
    /// nvidia.com/gpu, their model is its label gpu-model.
    #[arg(long, value_name = "FILE")]
    pub(crate) nodes_csv: Option<PathBuf>,

    /// Pods of a trace: CSV with the columns name, cpu_milli, memory_mib, num_gpu and optionally creation_time (without it,
    /// the order of the lines counts), gpu_milli, gpu_spec, deletion_time. A share of a GPU counts as one. All pods exist from the
    /// start to the end unless --timeline is given.
    #[arg(long, value_name = "FILE")]
    pub(crate) pods_csv: Option<PathBuf>,

    /// Let pods without a node come when they were created, and pods of a trace go at their deletion_time. The report has
    /// waiting times and use over time.
    #[arg(long)]
    pub(crate) timeline: bool,

    /// A KubeSchedulerConfiguration to schedule with.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Feature gates, as in kube-scheduler, such as GenericWorkload=true,GangScheduling=true.
    #[arg(long, value_name = "GATE=BOOL", value_delimiter = ',', value_parser = gate)]
    pub(crate) feature_gates: Vec<(String, bool)>,

    /// Seed of all random choices, such as where preemption starts to look for victims. Other than 0 it draws one of several
    /// equally good nodes.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) seed: u64,

    /// Plan gangs as a whole, as the scheduler's flag of the same name does. Needs the feature gate GangScheduling
    /// or the plugin Coscheduling.
    #[arg(long)]
    pub(crate) exact_gangs: bool,

    /// Output format: table, wide, json or yaml.
    #[arg(short, long, default_value = "table", value_name = "FORMAT")]
    pub(crate) output: Format,

    /// Explain the last decision about a pod: every node's verdict and scores. May be repeated.
    #[arg(long, value_name = "NAMESPACE/POD")]
    pub(crate) explain: Vec<PodName>,

    /// In the table, list every pending pod instead of counting them by reason.
    #[arg(long)]
    pub(crate) show_pending: bool,

    /// Leave out the speed, so that the output is the same on every run.
    #[arg(long)]
    pub(crate) no_timing: bool,
}

/// Runs the command.
///
/// # Errors
/// If something cannot be read, or no scheduler can be built from the configuration.
pub(crate) fn run(args: Args, registry: Registry) -> Result<ExitCode> {
    let options = options(&args, registry)?;
    let gates = options.gates.clone();
    let in_vain = exact_gangs_in_vain(&gates, &[&options.config]).filter(|_| args.exact_gangs);
    let mut simulation = Simulation::new(options).with_context(|| match &args.config {
        Some(path) => path.display().to_string(),
        None => "default configuration".to_owned(),
    })?;
    simulation.load(input(&args, &gates)?.finish()?);
    let mut report = simulate(&simulation)?;
    report.warnings.extend(in_vain);
    if args.no_timing {
        report.decisions_per_second = None;
    }
    for warning in &report.warnings {
        eprintln!("warning: {warning}");
    }
    let options = RenderOptions { format: args.output, shows_pending: args.show_pending };
    print(&render(&report, options)?)?;
    Ok(ExitCode::SUCCESS)
}

fn options(args: &Args, registry: Registry) -> Result<SimulationOptions> {
    let options = sources::options(&args.feature_gates, args.config.as_deref(), registry)?;
    Ok(SimulationOptions {
        seed: args.seed,
        exact_gangs: args.exact_gangs,
        timeline: args.timeline,
        explain: args.explain.clone(),
        ..options
    })
}

fn input(args: &Args, gates: &FeatureGates) -> Result<ClusterInput> {
    let mut input = ClusterInput::under(gates);
    sources::add_files(&mut input, &args.filename)?;
    if let Some(path) = &args.nodes_csv {
        input.add_nodes_csv(&path.display().to_string(), &text_of(path, MAX_DUMP)?)?;
    }
    if let Some(path) = &args.pods_csv {
        input.add_pods_csv(&path.display().to_string(), &text_of(path, MAX_DUMP)?)?;
    }
    Ok(input)
}

/// Runs the simulation with a progress bar on terminals, and measures the time from the first attempt to the last.
fn simulate(simulation: &Simulation) -> Result<Report> {
    let bar = ProgressBar::new(simulation.n_pending() as u64);
    let style = ProgressStyle::with_template(
        "scheduling {wide_bar} {pos}/{len} pods, {msg} decisions, {elapsed}",
    );
    bar.set_style(style.context("progress bar")?);
    let mut start = None;
    let mut last_drawn = None;
    let mut elapsed = Duration::ZERO;
    let mut observe = |progress: SimulationProgress| {
        // Reading the clock can cost more than a decision.
        if !progress.n_decisions.is_multiple_of(64) && !progress.is_over {
            return;
        }
        let now = Instant::now();
        elapsed = now.duration_since(*start.get_or_insert(now));
        if now.duration_since(*last_drawn.get_or_insert(now)) >= REDRAW_INTERVAL {
            last_drawn = Some(now);
            bar.set_position(progress.n_tried as u64);
            bar.set_message(progress.n_decisions.to_string());
        }
    };
    let mut report = simulation.run_observed(&mut observe)?;
    bar.finish_and_clear();
    report.decisions_per_second = speed(report.decisions, elapsed);
    Ok(report)
}

fn speed(n_decisions: u64, elapsed: Duration) -> Option<f64> {
    (n_decisions > 0 && !elapsed.is_zero())
        .then(|| (n_decisions as f64 / elapsed.as_secs_f64()).round())
}
