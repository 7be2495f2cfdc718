//! `conformance`: builds and runs the program that compares the engine with recorded decisions of the reference.
//!
//! The program is part of the package of the workspace tests; this module only builds and calls it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::artifact;
use crate::process::{self, ExitOutcome};

const PACKAGE: &str = "kube-scheduler-tests";
const BINARY: &str = "conformance";

/// The families that must conform with every case: what `ci` asks for. It only ever grows.
const REQUIRED: [&str; 39] = [
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
    "dra-nodeallocatable",
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

/// Builds the program and runs it.
pub(crate) fn run(args: &Args) -> Result<ExitOutcome> {
    let mut command = Command::new(built()?);
    process::run(with_arguments(&mut command, args)?)
}

/// Runs the required families.
pub(crate) fn run_required() -> Result<ExitOutcome> {
    run(&Args { family: REQUIRED.map(String::from).into(), ..Args::default() })
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

/// The package and the program in it, chosen so that cargo takes what it has built for the tests.
///
/// Cargo unifies features over the packages that are chosen together. Chosen alone, this one would get its dependencies with
/// fewer features, and half the workspace would be compiled a second time.
const CHOSEN: [&str; 3] = ["--workspace", "--bin", BINARY];

/// Builds the program.
fn built() -> Result<PathBuf> {
    let mut command = process::cargo("build");
    command
        .args(CHOSEN)
        .args(["--profile", "test", "--message-format", "json-render-diagnostics"])
        .current_dir(process::root()?);
    let messages = process::output(&mut command)?;
    artifact::executable(&messages, BINARY)
        .with_context(|| format!("package {PACKAGE} has no binary `{BINARY}`"))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// The features of each crate when these are built, by name and version.
    fn features(chosen: &[&str]) -> BTreeMap<String, BTreeSet<String>> {
        let mut tree = process::cargo("tree");
        tree.args(chosen).args(["--prefix", "none", "--format", "{p}|{f}"]);
        tree.current_dir(process::root().unwrap());
        let lines = String::from_utf8(process::output(&mut tree).unwrap()).unwrap();
        let mut features: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for line in lines.lines().filter(|line| !line.is_empty()) {
            let (package, enabled) = line.trim_end_matches(" (*)").split_once('|').unwrap();
            features.entry(package.to_owned()).or_default().insert(enabled.to_owned());
        }
        features
    }

    /// If a test needs a feature of a dependency that this package does not ask for, the workspace is compiled twice.
    #[test]
    fn the_program_is_made_of_what_the_tests_are_made_of() {
        let of_tests = features(&["--workspace"]);
        let of_programs = features(&["--workspace", "--edges", "normal,build"]);
        let needed = features(&["--package", PACKAGE, "--edges", "normal,build"]);
        assert!(needed.len() > 100, "{}", needed.len());
        for package in needed.keys() {
            assert_eq!(of_programs[package], of_tests[package], "{package}");
        }
    }

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
