//! The help of the program itself, as kube-scheduler prints it: all flags by section.

use std::process::ExitCode;

use super::print;
use crate::{cli, failure, flags};

/// Prints it.
pub(crate) fn run() -> ExitCode {
    match print(&flags::help(&cli::commands(), columns())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report(&error),
    }
}

/// How wide the terminal is; 0, which wraps nothing, where there is none.
pub(crate) fn columns() -> usize {
    terminal_size::terminal_size().map_or(0, |(width, _)| usize::from(width.0))
}
