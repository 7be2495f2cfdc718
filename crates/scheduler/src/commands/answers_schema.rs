//! `answers-schema`: the form of questions and answers, for programs.

use std::process::ExitCode;

use anyhow::Result;
use kube_scheduler_answers::{Format, render, schema};

use super::print;

/// Print the JSON Schema of all answers, and of questions over HTTP.
///
/// It describes what `explain`, `preempt`, `what-if`, `drain`, `capacity`, `queue` and `fragmentation` print with -o json or yaml.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {}

/// Runs the command.
pub(crate) fn run() -> Result<ExitCode> {
    print(&render(&schema(), Format::Json, |_| String::new())?)?;
    Ok(ExitCode::SUCCESS)
}
