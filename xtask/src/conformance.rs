//! `conformance`: builds and runs the program that compares the engine with recorded decisions of the reference.
//!
//! The program lives in the package of the workspace tests; here is only how it is built and called.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::artifact;
use crate::process::{self, Ended};

const PACKAGE: &str = "kube-scheduler-tests";
const BINARY: &str = "conformance";

/// The families that must conform with every case: what `ci` asks for. It only ever grows.
const REQUIRED: [&str; 38] = [
    "quantities",
    "cel",
    "queue",
    "resources",
    "strategies",
    "nodeaffinity",
    "taints",
    "ports-gates-names",
    "images",
    "topologyspread",
    "spread-defaults",
    "interpodaffinity",
    "preemption",
    "profiles",
    "volumes",
    "hints",
    "mixed",
    "config",
    "dra",
    "dra-admin",
    "dra-binding",
    "dra-cel",
    "dra-claims",
    "dra-constraints",
    "dra-consumable",
    "dra-extended",
    "dra-hints",
    "dra-mixed",
    "dra-partitionable",
    "dra-pools",
    "dra-preemption",
    "dra-scoring",
    "dra-taints",
    "podgroup-basic",
    "podgroup-gang",
    "podgroup-mixed",
    "podgroup-preemption",
    "podgroup-topology",
];

/// What to compare.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Directory with the recorded families, one FAMILY.jsonl.gz each [default: tests/data/conformance]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Families to compare; all that are there if none is named
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub(crate) family: Vec<String>,
    /// Show expected and actual of one case in full
    #[arg(long, value_name = "CASE")]
    pub(crate) explain: Option<String>,
}

/// Builds the program for itself and runs it.
pub(crate) fn run(args: &Args) -> Result<Ended> {
    // The test profile is optimised and shared with the tests; the plain dev profile would be a build of its own.
    let mut command = process::cargo("run");
    command.args(["--quiet", "--profile", "test", "--package", PACKAGE, "--bin", BINARY, "--"]);
    process::run(with_arguments(&mut command, args)?)
}

/// Runs the required families with the program as the tests just built it.
pub(crate) fn run_required() -> Result<Ended> {
    let args = Args { family: REQUIRED.map(String::from).into(), ..Args::default() };
    let mut command = Command::new(built_with_the_tests()?);
    process::run(with_arguments(&mut command, &args)?)
}

fn with_arguments<'a>(command: &'a mut Command, args: &Args) -> Result<&'a mut Command> {
    let data = match &args.data {
        Some(data) => data.clone(),
        None => process::root()?.join("tests/data/conformance"),
    };
    if !data.is_dir() {
        bail!("--data: {} is not a directory; it must hold FAMILY.jsonl.gz files", data.display());
    }
    command.arg("--data").arg(data);
    for family in &args.family {
        command.arg("--family").arg(family);
    }
    if let Some(case) = &args.explain {
        command.arg("--explain").arg(case);
    }
    Ok(command)
}

/// Builds the program in the same selection of packages and targets as the tests.
///
/// Cargo unifies features over what is built together. Built alone, the program would get its dependencies with fewer
/// features, and half the workspace would be compiled once more.
fn built_with_the_tests() -> Result<PathBuf> {
    let mut command = process::cargo("build");
    command
        .args(["--workspace", "--lib", "--tests", "--bin", BINARY, "--profile", "test"])
        .args(["--message-format", "json-render-diagnostics"])
        .current_dir(process::root()?);
    let messages = process::output(&mut command)?;
    artifact::executable(&messages, BINARY)
        .with_context(|| format!("package {PACKAGE} has no binary `{BINARY}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_reach_the_program() {
        let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let args = Args {
            data: Some(here.clone()),
            family: vec!["taints".into(), "images".into()],
            explain: Some("taints-7".into()),
        };
        let mut command = Command::new("conformance");
        let line = process::shown(with_arguments(&mut command, &args).unwrap());
        let expected = format!(
            "conformance --data {} --family taints --family images --explain taints-7",
            here.display()
        );
        assert_eq!(line, expected);
    }

    #[test]
    fn a_data_directory_that_is_missing_is_named() {
        let args = Args { data: Some("no/such/place".into()), ..Args::default() };
        let error = with_arguments(&mut Command::new("conformance"), &args).unwrap_err();
        assert!(error.to_string().contains("no/such/place"), "{error}");
    }
}
