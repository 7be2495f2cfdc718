//! Measures everything that the documentation reports about the core and writes it there: figures as JSON, tables between the
//! markers of the page, and a chart of the time per decision over the number of nodes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use kube_scheduler_benches::campaign::{Campaign, memories};
use kube_scheduler_benches::catalogue::WORKLOADS;
use kube_scheduler_benches::chart::{Chart, Series};
use kube_scheduler_benches::exit_code;
use kube_scheduler_benches::figures::{Figures, REFERENCE_NODES};
use kube_scheduler_benches::measure::Conditions;
use kube_scheduler_benches::memory::{Detail, Memory};
use kube_scheduler_benches::page::with_generated;
use kube_scheduler_benches::table::{Table, count, micros};
use kube_scheduler_benches::workload::Workload;
use serde::{Deserialize, Serialize};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measure the core on all workloads, and on growing clusters, and write figures, tables and chart.
#[derive(Debug, Parser)]
struct Args {
    /// The directory of README.md, core.json and scale.svg
    #[arg(long, value_name = "DIR", default_value = "docs/performance")]
    dir: PathBuf,
    /// How often to run each workload with 5,000 nodes; figures are medians
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Numbers of nodes of the curve
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        default_value = "1000,5000,15000,50000,100000"
    )]
    nodes: Vec<usize>,
    /// Measure each point of the curve for so many seconds at most
    #[arg(long, value_name = "SECONDS", default_value_t = 3)]
    limit: u64,
    /// Only draw and write again what core.json has
    #[arg(long)]
    redraw: bool,
}

/// The workloads of the curve: those of the reference's figures, and the one that shares nothing.
const ON_CURVE: [&str; 9] = [
    "SchedulingBasic",
    "SchedulingNodeAffinity",
    "Unschedulable",
    "SchedulingPodAntiAffinity",
    "TopologySpreading",
    "PreferredTopologySpreading",
    "SchedulingPodAffinity",
    "SchedulingPreferredPodAffinity",
    "EveryPodDifferent",
];

/// Pods that are placed before a point of the curve is measured.
const INIT_ON_CURVE: usize = 1_000;

/// Everything that was measured.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    machine: String,
    core: Vec<Figures>,
    scale: Vec<Figures>,
    /// By workload, of nodes and pods as in real clusters.
    real_memory: BTreeMap<String, Memory>,
}

fn write(args: &Args) -> Result<()> {
    if args.runs == 0 || args.nodes.is_empty() || args.nodes.contains(&0) {
        bail!("--runs and --nodes: at least 1 is allowed");
    }
    let path = args.dir.join("core.json");
    let report = if args.redraw {
        let text = std::fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("read {}", path.display()))?
    } else {
        let report = measure(args)?;
        let text = serde_json::to_string_pretty(&report)? + "\n";
        std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        report
    };
    let path = args.dir.join("scale.svg");
    std::fs::write(&path, chart(&report.scale).to_string())
        .with_context(|| format!("write {}", path.display()))?;
    let path = args.dir.join("README.md");
    let mut page =
        std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    for (name, text) in [
        ("machine", format!("Measured on {}.\n", report.machine)),
        ("core", goals(&report.core).markdown()),
        ("scale", scale(&report.scale).markdown()),
        ("memory", memory(&report).markdown()),
    ] {
        page = with_generated(&page, name, &text).with_context(|| path.display().to_string())?;
    }
    std::fs::write(&path, page).with_context(|| format!("write {}", path.display()))
}

fn measure(args: &Args) -> Result<Report> {
    let all: Vec<&Workload> = WORKLOADS.iter().collect();
    let on_curve: Vec<&Workload> =
        WORKLOADS.iter().filter(|workload| ON_CURVE.contains(&workload.name)).collect();
    // A limit keeps the whole within minutes, whatever a workload costs.
    let conditions =
        Conditions { limit: Duration::from_secs(10), ..Conditions::new(REFERENCE_NODES) };
    let campaign = Campaign { workloads: &all, n_runs: args.runs, conditions, verifies: false };
    let mut core = campaign.figures()?;
    let memory = memories(&all, REFERENCE_NODES, Detail::Template)?;
    for figures in &mut core {
        figures.memory = memory.get(&figures.workload).copied();
    }
    let mut scale = Vec::new();
    for n_nodes in &args.nodes {
        let conditions = Conditions {
            limit: Duration::from_secs(args.limit),
            max_init: INIT_ON_CURVE,
            ..Conditions::new(*n_nodes)
        };
        let campaign = Campaign { workloads: &on_curve, n_runs: 1, conditions, verifies: false };
        scale.extend(campaign.figures()?);
    }
    let real_memory = memories(&all, REFERENCE_NODES, Detail::Real)?;
    Ok(Report { machine: machine(), core, scale, real_memory })
}

/// Processors and memory, as far as the system reports them.
fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let processor = field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown".into());
    let n_processors = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = field(&read("/proc/meminfo"), "MemTotal")
        .and_then(|text| text.trim_end_matches(" kB").parse::<f64>().ok())
        .map(|kib| format!(", {:.0} GiB", kib / 1_048_576.0));
    format!("{n_processors} processors ({processor}){}", memory.unwrap_or_default())
}

/// Goal, figure and reference of each workload.
fn goals(all: &[Figures]) -> Table {
    let mut table = Table::new([
        "workload, 5,000 nodes",
        "init + measured",
        "goal, pods/s",
        "pods/s",
        "from – to",
        "p50",
        "p99",
        "longest",
        "reference, pods/s",
        "ratio",
        "missed by",
    ]);
    for figures in all {
        let rate = figures.pods_per_second;
        let missed = figures.goal.filter(|goal| rate < *goal);
        let or_empty = |text: Option<String>| text.unwrap_or_default();
        table.push(vec![
            figures.workload.clone(),
            format!("{} + {}", count(figures.init as f64), count(figures.measured as f64)),
            or_empty(figures.goal.map(count)),
            count(rate),
            format!(
                "{} – {}",
                count(figures.least_pods_per_second),
                count(figures.most_pods_per_second)
            ),
            micros(figures.p50_micros),
            micros(figures.p99_micros),
            micros(figures.max_micros),
            or_empty(figures.reference.map(count)),
            or_empty(figures.reference.map(|reference| format!("{:.0}×", rate / reference))),
            or_empty(missed.map(|goal| format!("{:.0} %", (1.0 - rate / goal) * 100.0))),
        ]);
    }
    table
}

/// Mean time per decision by number of nodes.
fn scale(all: &[Figures]) -> Table {
    let mut nodes: Vec<usize> = all.iter().map(|figures| figures.nodes).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let head = ["workload".to_owned()]
        .into_iter()
        .chain(nodes.iter().map(|n| format!("{} nodes", count(*n as f64))))
        .chain(["100,000 : 5,000".to_owned()]);
    let mut table = Table::new(head);
    for name in ON_CURVE {
        let mean = |n: usize| {
            let found = all.iter().find(|figures| figures.workload == name && figures.nodes == n);
            found.map(|figures| 1e6 / figures.pods_per_second)
        };
        let ratio = mean(100_000).zip(mean(5_000)).map(|(large, small)| large / small);
        let row = [name.to_owned()]
            .into_iter()
            .chain(nodes.iter().map(|n| mean(*n).map(micros).unwrap_or_default()))
            .chain([ratio.map(|ratio| format!("{ratio:.1}")).unwrap_or_default()]);
        table.push(row.collect());
    }
    table
}

fn chart(all: &[Figures]) -> Chart {
    let series = ON_CURVE.iter().map(|name| Series {
        name: (*name).to_owned(),
        points: all
            .iter()
            .filter(|figures| figures.workload == *name)
            .map(|figures| (figures.nodes as f64, 1e6 / figures.pods_per_second))
            .collect(),
    });
    Chart {
        title: "Time per decision, every node scored".into(),
        x_label: "nodes".into(),
        y_label: "mean time per decision, µs".into(),
        series: series.filter(|series| !series.points.is_empty()).collect(),
    }
}

/// Bytes per node and per running pod, of templates and of objects as in real clusters.
fn memory(report: &Report) -> Table {
    let mut table = Table::new([
        "workload",
        "bytes per node",
        "per pod",
        "per node, real objects",
        "per pod, real objects",
    ]);
    for figures in &report.core {
        let cells = |memory: Option<&Memory>| {
            let cell = |bytes: Option<f64>| bytes.map(count).unwrap_or_default();
            [cell(memory.map(|m| m.bytes_per_node)), cell(memory.map(|m| m.bytes_per_pod))]
        };
        let row = [figures.workload.clone()]
            .into_iter()
            .chain(cells(figures.memory.as_ref()))
            .chain(cells(report.real_memory.get(&figures.workload)));
        table.push(row.collect());
    }
    table
}

#[expect(clippy::print_stdout, reason = "the figures are what the program is for")]
fn main() -> ExitCode {
    let args = Args::parse();
    exit_code(write(&args).map(|()| {
        println!("written: README.md, core.json and scale.svg in {}", args.dir.display());
        true
    }))
}
