//! Reports errors of commands: one line, and an exit code.

use std::process::ExitCode;

use crate::cli::{self, ParseError};
use crate::commands::help;
use crate::flags::{self, CommandLineError};
use crate::similar::most_like;

/// Prints why the command line of `program`, with this `first` argument, is rejected, or the help of a subcommand.
pub(crate) fn usage(error: &ParseError, program: &str, first: &str) -> ExitCode {
    match error {
        ParseError::Command(error) => {
            // If the stream is closed, no one reads the message.
            let _ = error.print();
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
        }
        ParseError::Flags(error) => {
            if let CommandLineError::Flag(_) = error {
                eprintln!("{}", flags::usage(program, &cli::commands(), help::columns()));
            }
            eprintln!("Error: {error}");
            // The message and the exit code are the reference's, which has no commands.
            let wrong = match error {
                CommandLineError::Arguments(args) => args.first().map(String::as_str),
                CommandLineError::Flag(_) => Some(first).filter(|first| !first.starts_with('-')),
            };
            if let Some(hint) = wrong.map(hint_about_command) {
                eprintln!("{hint}");
            }
            ExitCode::FAILURE
        }
        ParseError::NoQuestion(given) => {
            if !given.is_empty() {
                eprintln!("error: expected a command first, found {given}\n");
            }
            eprint!("{}", cli::questions());
            ExitCode::from(2)
        }
    }
}

/// What a user may have meant by a word that is no command.
fn hint_about_command(wrong: &str) -> String {
    let commands = cli::commands();
    match most_like(wrong, commands.iter().map(String::as_str)) {
        Some(command) => format!("Do you mean the command {command}? A command comes first."),
        None => format!("A command comes first, and is one of: {}", commands.join(", ")),
    }
}

/// Logs the error that ended the scheduler, with all causes.
pub(crate) fn command_failed(error: &anyhow::Error) -> ExitCode {
    tracing::error!(error = chain(error), "command failed");
    ExitCode::FAILURE
}

/// Prints `error: …` with all causes, and returns the exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {}", chain(error));
    ExitCode::FAILURE
}

/// The error and its causes, each once: some errors repeat the text of their cause.
pub(crate) fn chain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let this = cause.to_string();
        if text.ends_with(&this) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&this);
    }
    text
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn causes_are_printed_once() {
        let error =
            anyhow!("no such file").context("reading x: no such file").context("configuration");
        assert_eq!(chain(&error), "configuration: reading x: no such file");
    }
}
