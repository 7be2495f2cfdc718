//! Times questions about scheduling while pods are scheduled, and what they take from the scheduling.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use kube_scheduler_answers::QuestionKind;
use kube_scheduler_benches::exit_code;
use kube_scheduler_benches::questions::{Core, Latency, Load, Size, engine, manifest, question};
use kube_scheduler_benches::table::Table;
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Time questions about scheduling while pods are scheduled, and what they take from the scheduling.
#[derive(Debug, Parser)]
struct Args {
    /// How many nodes
    #[arg(long, default_value_t = 5_000)]
    nodes: usize,
    /// How many pods run
    #[arg(long, default_value_t = 50_000)]
    pods: usize,
    /// How many pods come each second while questions are timed
    #[arg(long, default_value_t = 1_000)]
    rate: u32,
    /// How often each question is asked
    #[arg(long, default_value_t = 200)]
    questions: u64,
    /// How long scheduling is timed with and without questions, in seconds
    #[arg(long, default_value_t = 5)]
    seconds: u64,
}

/// A pod of which few fit on a node.
fn large_pod(cpus: u64) -> Value {
    let mut pod = manifest("asked", 3);
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!(cpus.to_string());
    pod
}

/// The questions that are timed, and how much more seldom than the others.
fn questions() -> Vec<(&'static str, QuestionKind, Value, u64)> {
    let pod = manifest("asked", 3);
    let add = |count: u64| json!({"changes": [{"addPods": {"pod": pod, "count": count}}]});
    vec![
        ("what-if, 1 pod", QuestionKind::WhatIf, add(1), 1),
        ("what-if, 100 replicas", QuestionKind::WhatIf, add(100), 1),
        ("explain, fits", QuestionKind::Explanation, json!({"pod": pod}), 1),
        ("explain, pending", QuestionKind::Explanation, json!({"podName": "large"}), 1),
        (
            "smallest change",
            QuestionKind::Explanation,
            json!({"podName": "large", "suggest": true}),
            4,
        ),
        ("preempt", QuestionKind::Preemption, json!({"podName": "large"}), 1),
        ("queue", QuestionKind::Queue, json!({}), 1),
        ("drain, 1 node", QuestionKind::Drain, json!({"nodes": ["node-7"]}), 4),
        (
            "capacity until full, of pods with 4 CPUs",
            QuestionKind::Capacity,
            json!({"pod": large_pod(4), "max": 100_000}),
            u64::MAX,
        ),
        (
            "capacity, 100,000 pods",
            QuestionKind::Capacity,
            json!({"pod": pod, "max": 100_000}),
            u64::MAX,
        ),
    ]
}

#[expect(clippy::print_stdout, reason = "the figures are what the program is for")]
fn measure(args: &Args) -> Result<()> {
    let size = Size { n_nodes: args.nodes, n_pods: args.pods };
    let (first, start) = engine(size)?;
    let core = Core::start(first.fork(start), start, Load::PerSecond(args.rate));
    let mut table = Table::new([
        "question",
        "n",
        "p50 ms",
        "p99 ms",
        "max ms",
        "copy p50 ms",
        "copy p99 ms",
        "copy max ms",
    ]);
    for (name, kind, spec, seldom) in questions() {
        let n = (args.questions / seldom).max(2);
        let Latency { n, answer, copy } = core.latency(question(kind, &spec)?, n)?;
        let mut row = vec![name.to_owned(), n.to_string()];
        row.extend(answer.iter().chain(&copy).map(|micros| format!("{:.2}", *micros as f64 / 1e3)));
        table.push(row);
    }
    println!("{}", table.plain());
    println!("{:.0} attempts/s meanwhile", core.stop()?.per_second());

    let time = Duration::from_secs(args.seconds);
    let spec = json!({"changes": [{"addPods": {"pod": manifest("asked", 3)}}]});
    let mut table = Table::new(["questions/s", "asked/s", "attempts/s"]);
    // On few processors an answer takes time from the scheduling by being computed at all, so copies are timed alone, too.
    let loads = [("none", 0), ("copies alone", 100), ("copies alone", 1_000)];
    for (name, per_second) in
        loads.into_iter().chain([("answers", 100), ("answers", 1_000), ("none", 0)])
    {
        let core = Core::start(first.fork(start), start, Load::All);
        let n = match per_second {
            0 => {
                std::thread::sleep(time);
                0
            }
            n => {
                core.ask_for(question(QuestionKind::WhatIf, &spec)?, n, time, name == "answers")?
            }
        };
        let asked = n as f64 / time.as_secs_f64();
        let attempts = core.stop()?.per_second();
        let asks = format!("{per_second}, {name}");
        table.push(vec![asks, format!("{asked:.0}"), format!("{attempts:.0}")]);
    }
    println!("{}", table.plain());
    Ok(())
}

fn main() -> ExitCode {
    exit_code(measure(&Args::parse()).map(|()| true))
}
