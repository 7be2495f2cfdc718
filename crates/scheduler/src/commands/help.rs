//! The help of the program, in the format of kube-scheduler: all flags by section.

use std::process::ExitCode;

use super::print;
use crate::{cli, failure, flags};

/// Prints the help of `program`.
pub(crate) fn run(program: &str) -> ExitCode {
    match print(&flags::help(program, &cli::commands(), columns())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report(&error),
    }
}

/// Prints which questions there are.
pub(crate) fn questions() -> ExitCode {
    match print(&cli::questions()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report(&error),
    }
}

/// The width of the terminal; 0, which means that lines are not wrapped, if there is no terminal.
pub(crate) fn columns() -> usize {
    terminal_size::terminal_size().map_or(0, |(width, _)| usize::from(width.0))
}
