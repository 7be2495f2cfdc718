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

/// Runs the command for `program`.
pub(crate) fn run(args: &Args, program: &str) -> Result<ExitCode> {
    print(&script(args.shell, program))?;
    Ok(ExitCode::SUCCESS)
}

/// The script for a shell.
fn script(shell: Shell, program: &str) -> String {
    // Behind subcommands the script for bash finds nothing when the program's name has a hyphen: it is made for a name without
    // one, and tied to the program in its last lines.
    let name = if shell == Shell::Bash { program.replace('-', "_") } else { program.to_owned() };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut crate::cli::described(&name), &*name, &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    if shell != Shell::Bash {
        return script;
    }
    let lines = script.lines().map(|line| match line.strip_suffix(&format!(" {name}")) {
        Some(start) if start.trim_start().starts_with("complete -F") => {
            format!("{start} {program}\n")
        }
        _ => format!("{line}\n"),
    });
    lines.collect()
}
