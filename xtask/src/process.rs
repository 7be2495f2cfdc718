//! Starting other programs: cargo without the variables that `cargo run` leaves behind, and how a program ended.
//!
//! Output is inherited unless the caller asks for it as the result, so that users see it while the program runs.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result, bail};

/// How a program ended, as far as its caller's exit code is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitOutcome {
    /// Exit code 0.
    Well,
    /// Any other exit code; 1 when a signal ended the program.
    Badly(u8),
}

impl From<ExitStatus> for ExitOutcome {
    fn from(status: ExitStatus) -> Self {
        match status.code() {
            Some(0) => Self::Well,
            Some(code) => Self::Badly(u8::try_from(code).unwrap_or(1)),
            None => Self::Badly(1),
        }
    }
}

/// The top of the repository.
///
/// Read at run time first: a target directory shared by two clones may hold a binary that was built for the other.
pub(crate) fn root() -> Result<PathBuf> {
    let xtask = std::env::var_os("CARGO_MANIFEST_DIR")
        .unwrap_or_else(|| OsString::from(env!("CARGO_MANIFEST_DIR")));
    let mut root = PathBuf::from(xtask);
    if !root.pop() {
        bail!("the directory of xtask has no parent");
    }
    Ok(root)
}

/// A cargo command that runs as if it had been typed.
///
/// `cargo run` describes the package it runs in the environment. Build scripts that watch those variables (ring's does)
/// would be run again, and everything above them rebuilt, at every switch between xtask and plain cargo.
pub(crate) fn cargo(subcommand: &str) -> Command {
    let mut command =
        Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    for (name, _) in std::env::vars_os() {
        if describes_running_package(&name) {
            command.env_remove(name);
        }
    }
    command.arg(subcommand);
    command
}

fn describes_running_package(variable: &OsStr) -> bool {
    let name = variable.to_string_lossy();
    [
        "CARGO_PKG_",
        "CARGO_MANIFEST_",
        "CARGO_BIN_",
        "CARGO_CRATE_NAME",
        "CARGO_PRIMARY_PACKAGE",
        "OUT_DIR",
    ]
    .iter()
    .any(|prefix| name.starts_with(prefix))
}

/// Runs a program to its end, its output where ours goes.
pub(crate) fn run(command: &mut Command) -> Result<ExitOutcome> {
    // Flush, so that our output does not appear after the program's.
    io::stdout().flush().context("standard output")?;
    let status = command.status().with_context(|| format!("cannot start `{}`", shown(command)))?;
    Ok(status.into())
}

/// Runs a program that must succeed and returns what it printed.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>> {
    let output = command
        .stderr(std::process::Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start `{}`", shown(command)))?;
    if !output.status.success() {
        bail!("`{}` ended with {}", shown(command), output.status);
    }
    Ok(output.stdout)
}

/// Whether a program can be started and succeeds, with nothing printed.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    use std::process::Stdio;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The command line, for people.
pub(crate) fn shown(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program()).to_string_lossy().into_owned();
    command.get_args().fold(name, |line, arg| line + " " + &arg.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_the_running_package_are_not_inherited() {
        for name in
            ["CARGO_PKG_NAME", "CARGO_MANIFEST_DIR", "CARGO_BIN_NAME", "CARGO_PRIMARY_PACKAGE"]
        {
            assert!(describes_running_package(OsStr::new(name)), "{name}");
        }
        for name in ["CARGO_HOME", "CARGO_TARGET_DIR", "CARGO_INCREMENTAL", "RUSTFLAGS", "PATH"] {
            assert!(!describes_running_package(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn the_shown_command_is_the_one_that_runs() {
        let mut command = Command::new("/some/where/cargo");
        command.args(["test", "--workspace"]);
        assert_eq!(shown(&command), "cargo test --workspace");
    }

    #[test]
    fn a_program_that_is_missing_does_not_succeed() {
        assert!(!succeeds(&mut Command::new("no-such-program-here")));
        assert!(run(&mut Command::new("no-such-program-here")).is_err());
    }
}
