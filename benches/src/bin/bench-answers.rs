//! Times questions about scheduling while pods are scheduled, and what they take from the scheduling.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use kube_scheduler_answers::QuestionKind;
use kube_scheduler_api_types::Timestamp;
use kube_scheduler_benches::blackbox::Usage;
use kube_scheduler_benches::exit_code;
use kube_scheduler_benches::questions::{Core, Latency, Load, Size, engine, manifest, question};
use kube_scheduler_benches::table::Table;
use kube_scheduler_engine::Engine;
use serde_json::{Value, json};

/// How many questions a daemon has under way at most.
const N_AT_ONCE: usize = 4;

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

    let answers = [("none", 0), ("answers", 100), ("answers", 1_000), ("none", 0)];
    println!("{}", under_questions(args, &first, start, Load::PerSecond(args.rate), &answers)?);
    // On few processors an answer takes time from the scheduling by being computed at all, so copies are timed alone, too.
    let copies = [("none", 0), ("copies alone", 100), ("copies alone", 1_000)];
    let loads: Vec<_> = copies.into_iter().chain(answers.into_iter().skip(1)).collect();
    println!("{}", under_questions(args, &first, start, Load::All, &loads)?);
    println!("{}", memory(args, &first, start)?);
    Ok(())
}

/// What becomes of the scheduling while this many questions are asked each second.
fn under_questions(
    args: &Args,
    first: &Engine,
    start: Timestamp,
    load: Load,
    questions: &[(&str, u32)],
) -> Result<String> {
    let time = Duration::from_secs(args.seconds);
    let spec = json!({"changes": [{"addPods": {"pod": manifest("asked", 3)}}]});
    let offered = match load {
        Load::PerSecond(rate) => format!("{rate} pods/s come"),
        Load::All => "pods come as they are scheduled".to_owned(),
    };
    let mut table = Table::new([
        &*format!("questions/s, {offered}"),
        "asked/s",
        "attempts/s",
        "placed/s",
        "p50 µs",
        "p99 µs",
        "max µs",
    ]);
    for (name, per_second) in questions {
        let core = Core::start(first.fork(start), start, load);
        let n = match per_second {
            0 => {
                std::thread::sleep(time);
                0
            }
            n => {
                core.ask_for(question(QuestionKind::WhatIf, &spec)?, *n, time, *name == "answers")?
            }
        };
        let scheduled = core.stop()?;
        let mut row = vec![
            format!("{per_second}, {name}"),
            format!("{:.0}", n as f64 / time.as_secs_f64()),
            format!("{:.0}", scheduled.per_second()),
            format!("{:.0}", scheduled.placed_per_second()),
        ];
        row.extend(scheduled.latency.map(|micros| micros.to_string()));
        table.push(row);
    }
    Ok(table.plain())
}

fn used() -> Result<Usage> {
    Usage::of(std::process::id()).context("what this process uses is not to be read in /proc")
}

/// What four answers at once take in memory, by kind of question.
fn memory(args: &Args, first: &Engine, start: Timestamp) -> Result<String> {
    let mut table = Table::new(["four at once of", "resident before MiB", "most MiB", "more MiB"]);
    for (name, kind, spec, _) in questions() {
        let core = Core::start(first.fork(start), start, Load::PerSecond(args.rate));
        let question = Arc::new(question(kind, &spec)?);
        std::thread::sleep(Duration::from_millis(200));
        // The peak of the process begins anew.
        std::fs::write("/proc/self/clear_refs", "5").context("/proc/self/clear_refs")?;
        let before = used()?.memory_bytes;
        core.ask_at_once(&question, N_AT_ONCE)?;
        let most = used()?.peak_memory_bytes;
        core.stop()?;
        let mib = |bytes: u64| format!("{:.0}", bytes as f64 / f64::from(1 << 20));
        table.push(vec![name.to_owned(), mib(before), mib(most), mib(most.saturating_sub(before))]);
    }
    Ok(table.plain())
}

fn main() -> ExitCode {
    exit_code(measure(&Args::parse()).map(|()| true))
}
