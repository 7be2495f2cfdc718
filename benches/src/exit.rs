//! How the benchmark programs end.

use std::process::ExitCode;

/// Success if all that was requested was done; otherwise failure, with what went wrong on standard error.
pub fn exit_code(done: anyhow::Result<bool>) -> ExitCode {
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
