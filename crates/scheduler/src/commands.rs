//! The subcommands, one module each, and `schedule`, which runs without one.

pub(crate) mod answers;
pub(crate) mod answers_schema;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod devcluster;
pub(crate) mod help;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod schedule;
pub(crate) mod simulate;
mod sources;
mod terminal;
pub(crate) mod version;

use std::io::{self, ErrorKind, Write};

use anyhow::{Context, Result};
use tokio::runtime::{Builder, Runtime};

/// The runtime for everything that uses the network.
fn runtime() -> Result<Runtime> {
    Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")
}

/// Writes to standard output at once.
fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // The reader has closed the pipe, as `head` does; that is not an error.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}
