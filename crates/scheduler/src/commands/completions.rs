//! `completions`: scripts that make shells complete command lines.

use std::process::ExitCode;

use anyhow::Result;
use clap_complete::Shell;

use super::print;

/// Print a completion script for a shell.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(
        args.shell,
        &mut crate::cli::described(),
        "kube-scheduler-rs",
        &mut script,
    );
    print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
