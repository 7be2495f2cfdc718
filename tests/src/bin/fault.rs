//! Runs fault simulations by the seed, many or one, and shows how one went that violates what must hold.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Result, bail};
use clap::{Parser, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use kube_scheduler_api_types::lock;
use kube_scheduler_tests::fault::{Counts, Fault, Options, Outcome, run, shrink};
use serde_json::json;

/// Run schedulers against a simulated API server in virtual time while everything goes wrong that can.
#[derive(Debug, Parser)]
struct Args {
    /// How many seeds to run [default: 100, or 1 with --seed]
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// The first seed; alone, only this one is run and its trace is shown
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Steps with faults per seed
    #[arg(long, value_name = "M", default_value_t = 100)]
    steps: u64,
    /// Faults to leave out
    #[arg(long, value_name = "FAULT", value_delimiter = ',', value_parser = Fault::parse)]
    without: Vec<Fault>,
    /// Evaluate every pod from scratch; the traces must stay the same
    #[arg(long)]
    no_class_cache: bool,
    /// Ask the schedulers questions all the time, and run every seed without as well; the traces must be the same
    #[arg(long)]
    questions: bool,
    /// Show the whole trace of every seed
    #[arg(long)]
    verbose: bool,
    /// Do not look for a shorter way to a violation
    #[arg(long)]
    no_shrink: bool,
    /// Seeds run at the same time [default: one per processor]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// How to print the summary
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// One JSON object
    Json,
}

/// Everything that all seeds came to.
#[derive(Debug, Default)]
struct Tally {
    counts: Counts,
    n_seeds: u64,
    /// The hashes of all traces, in any order.
    hash: u64,
    violations: Vec<Outcome>,
}

fn options(args: &Args) -> Options {
    Options {
        n_steps: args.steps,
        without: args.without.iter().copied().collect(),
        shares_evaluations: !args.no_class_cache,
        asks_questions: args.questions,
        ..Options::default()
    }
}

/// Runs the seeds on some threads; stops at the first violation unless there is one seed only.
fn run_all(args: &Args, seeds: std::ops::Range<u64>, bar: &ProgressBar) -> Tally {
    let jobs = args.jobs.or_else(|| std::thread::available_parallelism().ok().map(Into::into));
    let options = Options { keeps_trace: args.verbose, ..options(args) };
    let next = AtomicU64::new(seeds.start);
    let has_failed = AtomicBool::new(false);
    let tally = Mutex::new(Tally::default());
    let work = || {
        while !has_failed.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let outcome = run(seed, &options);
            bar.inc(1);
            let mut tally = lock(&tally);
            tally.counts = tally.counts.plus(outcome.counts);
            tally.n_seeds += 1;
            tally.hash ^= outcome.hash.rotate_left((seed % 64) as u32);
            if outcome.violation.is_some() || args.verbose {
                has_failed.fetch_or(outcome.violation.is_some(), Ordering::Relaxed);
                tally.violations.push(outcome);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.unwrap_or(1).max(1) {
            scope.spawn(work);
        }
    });
    tally.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[expect(clippy::print_stdout, reason = "the report is what the program is for")]
fn show(outcome: &Outcome, args: &Args) {
    for line in &outcome.trace {
        println!("{line}");
    }
    let Some(violation) = &outcome.violation else {
        println!("seed {}: no violation, trace hash {:016x}", outcome.seed, outcome.hash);
        return;
    };
    println!("seed {}: {violation}", outcome.seed);
    if args.verbose {
        return;
    }
    let found = options(args);
    let shortest = if args.no_shrink { found } else { shrink(outcome.seed, &found) };
    let replayed = run(outcome.seed, &Options { keeps_trace: true, ..shortest.clone() });
    for line in &replayed.trace {
        println!("{line}");
    }
    let without: BTreeSet<&str> = shortest.without.iter().map(|fault| fault.as_str()).collect();
    let without = match without.is_empty() {
        true => String::new(),
        false => format!(" --without {}", without.into_iter().collect::<Vec<_>>().join(",")),
    };
    let questions = if shortest.asks_questions { " --questions" } else { "" };
    println!(
        "to see it again: --seed {} --steps {}{without}{questions}",
        outcome.seed, shortest.n_steps
    );
}

#[expect(clippy::print_stdout, reason = "the summary is what the program is for")]
fn summarise(tally: &Tally, args: &Args, started: Instant) {
    let Counts {
        n_steps,
        n_placed,
        n_turned_down,
        n_broken,
        n_judged,
        n_writes,
        n_ends,
        n_leaders,
        n_allocated,
        n_made,
        n_answers,
    } = tally.counts;
    let n_violations = tally.violations.iter().filter(|it| it.violation.is_some()).count();
    let seconds = started.elapsed().as_secs_f64();
    if args.output == Format::Json {
        let violations: Vec<_> = tally
            .violations
            .iter()
            .filter_map(|it| Some(json!({"seed": it.seed, "violation": it.violation.as_ref()?})))
            .collect();
        let summary = json!({
            "seeds": tally.n_seeds, "steps": n_steps, "placed": n_placed, "turnedDown": n_turned_down,
            "broken": n_broken, "judged": n_judged, "writes": n_writes, "schedulersEnded": n_ends,
            "leaders": n_leaders, "allocated": n_allocated, "claimsMade": n_made, "answers": n_answers,
            "traceHash": format!("{:016x}", tally.hash), "seconds": seconds,
            "violations": violations,
        });
        println!("{summary}");
        return;
    }
    println!(
        "seeds={} steps={n_steps} placed={n_placed} turned-down={n_turned_down} broken={n_broken} judged={n_judged} \
         writes={n_writes} ends={n_ends} leaders={n_leaders} allocated={n_allocated} made={n_made} answers={n_answers} hash={:016x} seconds={seconds:.1} violations={n_violations}",
        tally.n_seeds, tally.hash
    );
}

fn main_with(args: &mut Args) -> Result<bool> {
    let started = Instant::now();
    let n_seeds = args.seeds.unwrap_or(if args.seed.is_some() { 1 } else { 100 });
    let first = args.seed.unwrap_or(0);
    let Some(end) = first.checked_add(n_seeds) else { bail!("--seed and --seeds are too large") };
    if args.seed.is_some() && args.seeds.is_none() {
        args.verbose = true;
    }
    let bar = if std::io::stderr().is_terminal() {
        let style = ProgressStyle::with_template("{bar:40} {pos}/{len} seeds, {eta} left")?;
        ProgressBar::new(n_seeds).with_style(style)
    } else {
        ProgressBar::hidden()
    };
    let tally = run_all(args, first..end, &bar);
    bar.finish_and_clear();
    if args.output == Format::Text {
        tally.violations.iter().for_each(|outcome| show(outcome, args));
    }
    summarise(&tally, args, started);
    Ok(tally.violations.iter().all(|outcome| outcome.violation.is_none()))
}

fn main() -> ExitCode {
    match main_with(&mut Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
