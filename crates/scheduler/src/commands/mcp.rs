//! `mcp`: the questions of `explain`, `preempt`, `what-if`, `drain`, `capacity`, `queue` and `fragmentation` as tools of the Model
//! Context Protocol, over standard input and output.
//!
//! Invariants: no tool changes anything; standard output carries messages of the protocol only; a message, a question and an
//! answer are of limited size, and so is the number of questions at once; whatever a client sends, the next message is read.

mod desk;
mod lines;
mod service;
mod tools;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube_scheduler_runtime::Registry;
use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;

use self::desk::Desk;
use self::lines::Lines;
use self::service::Service;
use super::runtime;
use super::sources::Source;

/// How long work under way may take to notice that the client is gone.
const GRACE: Duration = Duration::from_secs(2);

/// Answer questions of an assistant: `explain`, `preempt`, `what-if`, `drain`, `capacity`, `queue` and `fragmentation` as read-only
/// tools of the Model Context Protocol, over standard input and output.
///
/// Each question is answered from the cluster as it is then: by a running scheduler, or here from the files or the API server
/// that the flags name. The process ends when its input does.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
}

/// Runs `mcp`.
pub(crate) fn run(args: Args, registry: Registry) -> Result<ExitCode> {
    if args.source.reads_stdin() {
        bail!(
            "--filename -: standard input carries the questions, so that no cluster can be read from it"
        );
    }
    let gates = args.source.gates()?;
    let runtime = runtime()?;
    let ended = runtime.block_on(async {
        let service =
            Service::new(Desk::new(args.source.keeping_input(), registry, gates.compile_options()));
        match service.serve(Lines::new(rmcp::transport::stdio())).await {
            Ok(running) => {
                running.waiting().await.context("the service broke down")?;
                Ok(())
            }
            // Nobody has asked anything.
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    });
    runtime.shutdown_timeout(GRACE);
    ended.map(|()| ExitCode::SUCCESS)
}
