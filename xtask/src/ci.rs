//! `ci`: the list of steps that decide whether a change is sound, cheapest first.
//!
//! Every step can be run by hand with the command it prints. Lints, docs and tests each reuse one build over the whole
//! workspace; no step asks for another set of features or a release build.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::ValueEnum;

use crate::process::{self, ExitOutcome};
use crate::{conformance, package, public_api, suite, tidy};

/// How to run the steps.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run the remaining steps after one has failed
    #[arg(long)]
    keep_going: bool,
    /// Run only these steps
    #[arg(long, value_name = "STEP", value_delimiter = ',')]
    only: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Step {
    /// `cargo fmt --check`
    Format,
    /// `cargo xtask tidy`
    Tidy,
    /// clippy over all targets, warnings are errors
    Lint,
    /// rustdoc, warnings are errors
    Docs,
    /// `cargo xtask public-api`
    PublicApi,
    /// unit and integration tests
    Test,
    /// examples in doc comments
    DocTest,
    /// recorded decisions of the reference
    Conformance,
    /// `cargo xtask package`
    Package,
}

struct Outcome {
    step: Step,
    took: Duration,
    /// Why it failed; `None` when it passed.
    failure: Option<String>,
}

/// Runs the steps in order and reports how each ended.
pub(crate) fn run(args: &Args) -> Result<ExitOutcome> {
    let steps = Step::value_variants()
        .iter()
        .copied()
        .filter(|step| args.only.is_empty() || args.only.contains(step));
    let mut outcomes = Vec::new();
    for step in steps {
        println!("==> {}", name(step));
        let start = Instant::now();
        let failure = perform(step).unwrap_or_else(|error| Some(format!("{error:#}")));
        let outcome = Outcome { step, took: start.elapsed(), failure };
        println!("{}", line(&outcome));
        let failed = outcome.failure.is_some();
        outcomes.push(outcome);
        if failed && !args.keep_going {
            break;
        }
    }

    println!("\n{}", summary(&outcomes));
    Ok(if outcomes.iter().any(|outcome| outcome.failure.is_some()) {
        ExitOutcome::Badly(1)
    } else {
        ExitOutcome::Well
    })
}

/// Performs one step; what it returns is why it failed.
fn perform(step: Step) -> Result<Option<String>> {
    match step {
        Step::Tidy => Ok(failure("cargo xtask tidy", tidy::run(&tidy::Args::default())?)),
        Step::PublicApi => {
            Ok(failure("cargo xtask public-api", public_api::run(&public_api::Args::default())?))
        }
        Step::Package => Ok(failure("cargo xtask package", package::run()?)),
        Step::Conformance => Ok(failure(
            "the required families of cargo xtask conformance",
            conformance::run_required()?,
        )),
        Step::Format | Step::Lint | Step::Docs | Step::Test | Step::DocTest => {
            let mut command = command(step)?;
            command.stdin(std::process::Stdio::null());
            let shown = process::shown(&command);
            println!("    {shown}");
            Ok(failure(&shown, process::run(&mut command)?))
        }
    }
}

fn command(step: Step) -> Result<Command> {
    let mut command = match step {
        Step::Test => return suite::tests(&[]),
        Step::DocTest => return suite::doc_tests(),
        Step::Lint => {
            let mut command = process::cargo("clippy");
            command.args(["--workspace", "--all-targets", "--", "-D", "warnings"]);
            command
        }
        Step::Docs => {
            let mut command = process::cargo("doc");
            command.args(["--workspace", "--no-deps", "--all-features"]);
            command.env("RUSTDOCFLAGS", "-D warnings");
            command
        }
        Step::Format | Step::Tidy | Step::PublicApi | Step::Conformance | Step::Package => {
            let mut command = process::cargo("fmt");
            command.args(["--all", "--check"]);
            command
        }
    };
    command.current_dir(process::root()?);
    Ok(command)
}

fn failure(what: &str, ended: ExitOutcome) -> Option<String> {
    match ended {
        ExitOutcome::Well => None,
        ExitOutcome::Badly(code) => Some(format!("`{what}` ended with exit code {code}")),
    }
}

fn name(step: Step) -> String {
    step.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

fn line(outcome: &Outcome) -> String {
    let (step, took) = (name(outcome.step), outcome.took.as_secs_f64());
    match &outcome.failure {
        None => format!("<== {step}: ok in {took:.1} s"),
        Some(why) => format!("<== {step}: FAILED after {took:.1} s: {why}"),
    }
}

fn summary(outcomes: &[Outcome]) -> String {
    let mut lines = String::new();
    for outcome in outcomes {
        let verdict = if outcome.failure.is_none() { "ok" } else { "FAILED" };
        lines += &format!(
            "{:<12} {:>8.1} s  {verdict}\n",
            name(outcome.step),
            outcome.took.as_secs_f64()
        );
    }
    let total: Duration = outcomes.iter().map(|outcome| outcome.took).sum();
    let failed: Vec<_> = outcomes
        .iter()
        .filter(|outcome| outcome.failure.is_some())
        .map(|outcome| name(outcome.step))
        .collect();
    let verdict =
        if failed.is_empty() { "ok".to_owned() } else { format!("FAILED: {}", failed.join(", ")) };
    lines + &format!("ci: {verdict}, {:.1} s", total.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(step: Step, failure: Option<&str>) -> Outcome {
        Outcome { step, took: Duration::from_millis(1500), failure: failure.map(str::to_owned) }
    }

    #[test]
    fn a_failed_step_is_named_with_its_reason() {
        let line =
            line(&outcome(Step::Lint, failure("cargo clippy", ExitOutcome::Badly(101)).as_deref()));
        assert_eq!(line, "<== lint: FAILED after 1.5 s: `cargo clippy` ended with exit code 101");
    }

    #[test]
    fn the_summary_ends_with_one_verdict() {
        let all_well = summary(&[outcome(Step::Format, None), outcome(Step::Tidy, None)]);
        assert!(all_well.ends_with("ci: ok, 3.0 s"), "{all_well}");
        let broken = summary(&[
            outcome(Step::Format, None),
            outcome(Step::Tidy, Some("rules")),
            outcome(Step::Docs, Some("x")),
        ]);
        assert!(broken.ends_with("ci: FAILED: tidy, docs, 4.5 s"), "{broken}");
    }

    #[test]
    fn warnings_are_errors_in_lints_and_docs() {
        let lint = command(Step::Lint).unwrap();
        assert!(process::shown(&lint).ends_with("-- -D warnings"));
        let docs = command(Step::Docs).unwrap();
        assert!(
            docs.get_envs().any(
                |(name, value)| name == "RUSTDOCFLAGS" && value == Some("-D warnings".as_ref())
            )
        );
    }
}
