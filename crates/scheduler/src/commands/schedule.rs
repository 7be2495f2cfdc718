//! Without a subcommand: schedule, until a signal says otherwise.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use kube_scheduler_config::to_yaml;
use kube_scheduler_daemon::{Daemon, DaemonBuilder, Endpoint, StartError};
use kube_scheduler_framework::Registry;

use super::{print, runtime, version};
use crate::flags::Flags;
use crate::logging;
use crate::settings::Settings;
use crate::signals::Signals;

/// Runs the scheduler. `ignored` are flags that were given and have no effect.
pub(crate) fn run(flags: Flags, ignored: &[&str], registry: Registry) -> Result<ExitCode> {
    if flags.version {
        print(&format!("Kubernetes {}\n", version::KUBERNETES))?;
        return Ok(ExitCode::SUCCESS);
    }
    logging::start(flags.logging_format, flags.verbosity);
    let settings = Settings::load(&flags, ignored)?;
    runtime()?.block_on(async {
        let signals = Signals::listen().context("cannot listen for signals")?;
        let endpoint =
            Endpoint::resolve(settings.kubeconfig.as_deref(), flags.master.as_deref()).await?;
        let builder = builder(endpoint, registry, &settings).seed(flags.seed);
        if let Some(path) = &flags.write_config_to {
            builder.check().map_err(|error| located(error, &settings.source))?;
            return write_config(&settings, path);
        }
        // In the order in which a user wants to read them: before anything that waits.
        for warning in &settings.warnings {
            tracing::warn!("{warning}");
        }
        let shutdown = signals.first();
        tokio::pin!(shutdown);
        let daemon = tokio::select! {
            daemon = builder.start() => daemon.map_err(|error| located(error, &settings.source))?,
            () = &mut shutdown => return Ok(ExitCode::SUCCESS),
        };
        tracing::info!(
            version = concat!("v", env!("CARGO_PKG_VERSION")),
            kubernetes = version::KUBERNETES,
            address = daemon.handle().address().map(tracing::field::display),
            "Starting Kubernetes Scheduler"
        );
        daemon.run(shutdown).await?;
        tracing::info!("Requested to terminate, exiting");
        Ok(ExitCode::SUCCESS)
    })
}

fn builder(endpoint: Endpoint, registry: Registry, settings: &Settings) -> DaemonBuilder {
    let n_cores = std::thread::available_parallelism().map_or(1, usize::from);
    let parallelism = usize::try_from(settings.config.parallelism()).unwrap_or(1);
    Daemon::builder(endpoint, registry)
        .config(settings.config.clone())
        .gates(settings.gates.clone())
        .threads(n_cores.min(parallelism))
        .serve_on(settings.serve_on)
        .rate_limit(settings.rate)
        .max_in_unschedulable(settings.max_in_unschedulable)
}

/// Mistakes in a configuration are reported with the file they are in.
fn located(error: StartError, source: &str) -> anyhow::Error {
    match error {
        StartError::Build(error) => anyhow::Error::new(error).context(source.to_owned()),
        other => other.into(),
    }
}

fn write_config(settings: &Settings, path: &Path) -> Result<ExitCode> {
    std::fs::write(path, to_yaml(&settings.config)?).with_context(|| path.display().to_string())?;
    tracing::info!(file = %path.display(), "Wrote configuration");
    Ok(ExitCode::SUCCESS)
}
