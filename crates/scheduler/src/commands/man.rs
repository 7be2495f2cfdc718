//! `man`: manual pages, from the same definitions as the help.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap_mangen::Man;

use super::print;

/// Print the manual page, or write the pages of the program and of all its subcommands.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// A directory to write all pages to, instead of printing the page of the program
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Runs the command for `program`.
pub(crate) fn run(args: Args, program: &str) -> Result<ExitCode> {
    let mut command = crate::cli::described(program);
    command.build();
    match args.out {
        Some(directory) => {
            fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
            clap_mangen::generate_to(command, &directory)
                .with_context(|| directory.display().to_string())?;
        }
        None => {
            let mut page = Vec::new();
            Man::new(command).render(&mut page).context("cannot write the manual page")?;
            print(&String::from_utf8_lossy(&page))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
