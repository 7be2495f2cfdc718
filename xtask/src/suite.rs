//! `test`: all tests of the workspace, with cargo-nextest where it is installed and with `cargo test` elsewhere.
//!
//! Both print their own closing lines, which CI reads. Both build with the test profile and the same features, so
//! that unit tests, doc tests and the conformance binary share one build.

use std::ffi::OsString;
use std::process::Command;

use anyhow::Result;

use crate::process::{self, ExitOutcome};

/// Runs the tests; with no extra arguments the doc tests too.
pub(crate) fn run(args: &[OsString]) -> Result<ExitOutcome> {
    let tests = process::run(&mut tests(args)?)?;
    if !args.is_empty() {
        return Ok(tests);
    }
    // Doc tests run even after a failure: one run should report all that is broken.
    let doc_tests = process::run(&mut doc_tests()?)?;
    Ok(if tests == ExitOutcome::Well { doc_tests } else { tests })
}

/// The command for unit and integration tests.
pub(crate) fn tests(args: &[OsString]) -> Result<Command> {
    let mut command;
    if has_nextest() {
        command = process::cargo("nextest");
        command.arg("run");
    } else {
        command = process::cargo("test");
        if args.is_empty() {
            // Not --all-targets: that would also run the benchmarks once.
            command.args(["--lib", "--bins", "--tests", "--no-fail-fast"]);
        }
    }
    if !args.iter().any(chooses_packages) {
        command.arg("--workspace");
    }
    command.args(args).current_dir(process::root()?);
    Ok(command)
}

/// The command for doc tests, which nextest does not run.
pub(crate) fn doc_tests() -> Result<Command> {
    let mut command = process::cargo("test");
    command.args(["--doc", "--workspace"]).current_dir(process::root()?);
    Ok(command)
}

fn has_nextest() -> bool {
    process::succeeds(process::cargo("nextest").arg("--version"))
}

fn chooses_packages(arg: &OsString) -> bool {
    let arg = arg.to_string_lossy();
    (arg.starts_with("-p") && !arg.starts_with("--"))
        || arg == "--workspace"
        || arg == "--package"
        || arg.starts_with("--package=")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chosen_package_is_not_widened_to_the_workspace() {
        for arg in ["-p", "-pxtask", "--package", "--package=xtask", "--workspace"] {
            assert!(chooses_packages(&arg.into()), "{arg}");
        }
        for arg in ["--profile=ci", "a_test_name", "--no-capture"] {
            assert!(!chooses_packages(&arg.into()), "{arg}");
        }
    }

    #[test]
    fn all_tests_means_the_workspace() {
        let command = tests(&[]).unwrap();
        assert!(command.get_args().any(|arg| arg == "--workspace"));
        let command = tests(&["-p".into(), "xtask".into()]).unwrap();
        assert!(!command.get_args().any(|arg| arg == "--workspace"));
    }
}
