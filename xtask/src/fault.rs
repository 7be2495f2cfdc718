//! `fault`: builds and runs the fault simulation, which lives in the package of the workspace tests.

use std::ffi::OsString;

use anyhow::Result;

use crate::process::{self, ExitOutcome};

/// Builds the program in the release profile and runs it.
pub(crate) fn run(args: &[OsString]) -> Result<ExitOutcome> {
    let mut command = process::cargo("run");
    command.args([
        "--quiet",
        "--release",
        "--package",
        "kube-scheduler-tests",
        "--bin",
        "fault",
        "--",
    ]);
    process::run(command.args(args))
}
