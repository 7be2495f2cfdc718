//! Looks for what a tenant may write that costs the scheduler most, until the time is over.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Parser;
use kube_scheduler_tests::cost::{MAX_SIZE, Options, Search};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Look for objects of a tenant that cost too much for each byte of them; exits with 1 if there are any.
#[derive(Debug, Parser)]
struct Args {
    /// How long to look
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    minutes: f64,
    /// Decides which inputs are tried, and in which order
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// The largest input, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = MAX_SIZE)]
    max_size: usize,
    /// Try only this input, as a report describes it
    #[arg(long, value_name = "TEXT")]
    input: Option<String>,
    /// The longest that the core may be busy with one of them; 0 does not look at time
    #[arg(long, value_name = "MS", default_value_t = 0)]
    max_millis: u64,
}

fn search(args: &Args) -> Result<bool> {
    let Args { seed, max_size, .. } = *args;
    let max_millis = (args.max_millis > 0).then_some(args.max_millis);
    let mut search = Search::new(Options { seed, max_size, max_millis }, &ALLOCATOR)?;
    if let Some(text) = &args.input {
        search.try_described(text)?;
        return Ok(reported(&search));
    }
    let end = Instant::now() + Duration::try_from_secs_f64(args.minutes * 60.0)?;
    while Instant::now() < end {
        search.step()?;
    }
    Ok(reported(&search))
}

/// Whether there is no finding.
#[expect(clippy::print_stdout, reason = "the report is what the program is for")]
fn reported(search: &Search<'_>) -> bool {
    println!("{} inputs tried; the costliest:", search.n_tried());
    search.report().iter().for_each(|line| println!("  {line}"));
    let findings = search.findings();
    println!("{} findings", findings.len());
    findings.iter().for_each(|finding| println!("  {finding}"));
    findings.is_empty()
}

fn main() -> ExitCode {
    match search(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cost: {error:#}");
            ExitCode::from(2)
        }
    }
}
