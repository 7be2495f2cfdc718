//! `config check`: whether the scheduler would start with a file, and which settings in it have no effect.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use kube_scheduler_config::{
    ConfigDecodeError, DecodeOutcome, decode_as_far_as_possible, default, validate,
};
use kube_scheduler_runtime::Registry;
use serde::Serialize;

use super::lint::{self, Finding, Severity};
use super::{Form, GateArgs, build, print_tree, read_or_stdin};
use crate::commands::print;

/// Check a configuration file: the rules of kube-scheduler, whether all profiles can be built, and what has no effect.
///
/// Ends with 0 when the scheduler would start with it, with 1 when it would not (with --strict: or when there is any
/// warning), with 2 when the check itself is impossible.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The file, at most 16 MiB; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Treat warnings as errors
    #[arg(long)]
    strict: bool,

    #[command(flatten)]
    gates: GateArgs,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = Form::Text)]
    output: Form,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    file: String,
    valid: bool,
    findings: Vec<Finding>,
}

pub(super) fn run(args: Args, registry: &Registry) -> Result<ExitCode> {
    let (gates, text) = match (args.gates.gates(), read_or_stdin(&args.file)) {
        (Ok(gates), Ok(text)) => (gates, text),
        (Err(error), _) | (_, Err(error)) => {
            crate::failure::report(&error);
            return Ok(ExitCode::from(2));
        }
    };
    let findings = findings(&text, registry, &gates);
    let worst = findings.iter().map(|finding| finding.severity).max();
    let file = args.file.display().to_string();
    let answer = Answer { file, valid: worst != Some(Severity::Error), findings };
    match args.output {
        Form::Text => print(&text_of(&answer))?,
        form => print_tree(form, &answer)?,
    }
    let limit = if args.strict { Severity::Warning } else { Severity::Error };
    Ok(if worst >= Some(limit) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// All findings about a file, errors first.
pub(super) fn findings(
    text: &str,
    registry: &Registry,
    gates: &kube_scheduler_config::FeatureGates,
) -> Vec<Finding> {
    let DecodeOutcome { configuration, errors } = decode_as_far_as_possible(text);
    let mut findings: Vec<Finding> = errors.into_iter().flat_map(of_decoding).collect();
    let Some(read) = configuration else { return findings };
    findings.extend(lint::unknown_plugins(&read, registry));
    findings.extend(lint::repeated(&read));
    let mut config = read.clone();
    default(&mut config, gates);
    let broken = validate(&config, gates);
    findings.extend(broken.iter().map(|error| Finding::error("", error.to_string())));
    if let Err(error) = config.leader_election.check()
        && broken.is_empty()
    {
        findings.push(Finding::error("leaderElection", error.to_string()));
    }
    // Building would only report the same errors again.
    if findings.is_empty() {
        match build(&config, registry, gates) {
            Ok(engine) => {
                findings.extend(lint::without_effect(&read, &config, gates, engine.profiles()));
            }
            Err(error) => findings.push(Finding::error("profiles", crate::failure::chain(&error))),
        }
    }
    findings.extend(lint::args_of_nobody(&read, registry));
    findings.extend(lint::beside_the_defaults(&read, gates));
    findings.extend(lint::worth_knowing(&read, &config));
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// One finding for each thing that is wrong with a text.
fn of_decoding(error: ConfigDecodeError) -> Vec<Finding> {
    match error {
        ConfigDecodeError::Strict(complaints) => complaints
            .into_iter()
            .map(|complaint| {
                Finding::error("", ConfigDecodeError::Strict(vec![complaint]).to_string())
            })
            .collect(),
        other => vec![Finding::error("", crate::failure::chain(&anyhow::Error::new(other)))],
    }
}

fn text_of(answer: &Answer) -> String {
    let mut text = String::new();
    for finding in &answer.findings {
        let path =
            if finding.path.is_empty() { String::new() } else { format!("{}: ", finding.path) };
        text.push_str(&format!("{}: {path}{}\n", finding.severity.as_str(), finding.message));
    }
    let count =
        |severity| answer.findings.iter().filter(|finding| finding.severity == severity).count();
    text.push_str(&format!(
        "{}: {}; errors: {}, warnings: {}, notes: {}\n",
        answer.file,
        if answer.valid { "valid" } else { "not valid" },
        count(Severity::Error),
        count(Severity::Warning),
        count(Severity::Note)
    ));
    text
}
