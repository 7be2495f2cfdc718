//! How a command that failed says so: one line, and an exit code.

use std::fmt;
use std::process::ExitCode;

/// A mistake in how the program was called, found after the flags were parsed.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Prints why the command line cannot be understood, or the help it asked for.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    // Whoever closed the stream does not want to know.
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Prints `error: …` with all causes, and tells the exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {}", chain(error));
    if error.is::<UsageError>() { ExitCode::from(2) } else { ExitCode::FAILURE }
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
    fn causes_are_told_once() {
        let error =
            anyhow!("no such file").context("reading x: no such file").context("configuration");
        assert_eq!(chain(&error), "configuration: reading x: no such file");
    }
}
