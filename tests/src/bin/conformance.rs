//! Compares our answers with recorded ones of the reference and says, per family, how many are the same.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use kube_scheduler_tests::conformance::{FAMILIES, Options, Report, run_family};

/// Compare our answers with recorded ones of the reference.
#[derive(Debug, Parser)]
struct Args {
    /// Directory with the recorded families, one FAMILY.jsonl.gz each
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Families to compare; all that are there if none is named
    #[arg(long, value_name = "NAME", num_args = 1..)]
    family: Vec<String>,
    /// Compare one case only and show what differs
    #[arg(long, value_name = "CASE")]
    explain: Option<String>,
    /// Evaluate every pod from scratch instead of sharing evaluations between equal pods
    #[arg(long)]
    no_class_cache: bool,
}

#[expect(clippy::print_stdout, reason = "the report is what the program is for")]
fn run(args: &Args) -> Result<bool> {
    if let Some(unknown) = args.family.iter().find(|family| !FAMILIES.contains(&family.as_str())) {
        bail!("unknown family {unknown:?}: allowed are {}", FAMILIES.join(", "));
    }
    let is_there = |family: &str| args.data.join(format!("{family}.jsonl.gz")).exists();
    let families: Vec<&str> = match args.family.as_slice() {
        [] => FAMILIES.into_iter().filter(|family| is_there(family)).collect(),
        named => named.iter().map(String::as_str).collect(),
    };
    if families.is_empty() {
        bail!("no FAMILY.jsonl.gz in {}", args.data.display());
    }
    let options = Options { uses_class_cache: !args.no_class_cache, only: args.explain.as_deref() };
    let mut conforms = true;
    let mut n_seen = 0;
    for family in families {
        let report: Report =
            run_family(&args.data, family, options).with_context(|| format!("family {family}"))?;
        if args.explain.is_some() && report.n_steps == 0 {
            continue;
        }
        n_seen += report.n_steps;
        conforms &= report.conforms();
        println!(
            "{family} steps={} conform={} cases={}/{}",
            report.n_steps, report.n_conforming, report.n_conforming_cases, report.n_cases
        );
        for difference in &report.differences {
            println!("  {difference}");
        }
    }
    if n_seen == 0 {
        bail!("no case named {:?}", args.explain.as_deref().unwrap_or_default());
    }
    Ok(conforms)
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
