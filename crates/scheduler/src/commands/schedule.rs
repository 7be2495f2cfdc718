//! Without a subcommand: runs the scheduler until a signal ends it.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use kube_scheduler_api_types::validation::aggregate;
use kube_scheduler_config::to_yaml;
use kube_scheduler_daemon::{
    Daemon, DaemonBuilder, Endpoint, LeaderElectionOptions, MetricsOptions, RunError, StartError,
    VerbositySetter,
};
use kube_scheduler_runtime::Registry;

use super::{runtime, version};
use crate::flags::Flags;
use crate::flags::feature_gates::Gates;
use crate::flags::logs::Logs;
use crate::settings::Settings;
use crate::signals::{self, Signals};
use crate::version::KUBERNETES;
use crate::{failure, logging, serving};

/// Runs the scheduler; errors are logged, as in the reference.
pub(crate) fn run(flags: Flags, registry: Registry) -> ExitCode {
    let logs = flags.logs.clone();
    let gates = match flags.feature_gates.apply() {
        Ok(gates) => gates,
        Err(error) => {
            logging::start(&Logs::default());
            return failure::command_failed(&anyhow!(error));
        }
    };
    match version::asked_for(&flags) {
        Ok(true) => return ExitCode::SUCCESS,
        Ok(false) => {}
        Err(error) => return failure::report(&error),
    }
    let errors = logs.validate(&gates.gates);
    if !errors.is_empty() {
        eprintln!("{}", aggregate(errors));
        return ExitCode::FAILURE;
    }
    logging::start(&logs);
    for warning in &gates.warnings {
        tracing::info!(featureGate = warning.gate, value = warning.value, "{}", warning.message());
    }
    logging::log_flags(&flags);
    schedule(flags, gates, registry).unwrap_or_else(|error| failure::command_failed(&error))
}

fn schedule(flags: Flags, gates: Gates, registry: Registry) -> Result<ExitCode> {
    let settings = Settings::load(flags, gates)?;
    runtime()?.block_on(async {
        let signals = Signals::listen().context("cannot listen for signals")?;
        let endpoint =
            Endpoint::resolve(settings.kubeconfig.as_deref(), settings.master.as_deref()).await?;
        let election = LeaderElectionOptions::of(&settings.config)?;
        let is_elected = election.is_some();
        let builder = builder(endpoint, registry, &settings)?.leader_election(election);
        log_config(&settings)?;
        let write_config_to = &settings.flags.misc.write_config_to;
        if !write_config_to.is_empty() {
            builder.check().map_err(|error| located(error, &settings.source))?;
            return write_config(&settings, write_config_to.as_ref());
        }
        // Before anything that waits, such as connecting to an API server that does not answer.
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
            version = settings.flags.reported_version().unwrap_or(KUBERNETES),
            implementation = concat!("kube-scheduler-rs v", env!("CARGO_PKG_VERSION")),
            address = daemon.handle().address().map(tracing::field::display),
            "Starting Kubernetes Scheduler"
        );
        signals::on_debug_request(daemon.handle()).context("cannot listen for signals")?;
        match daemon.run(shutdown).await {
            Ok(()) if is_elected => {
                tracing::info!("Requested to terminate, exiting");
                Ok(ExitCode::SUCCESS)
            }
            // As in the reference, where running without an election never ends in an orderly way.
            Ok(()) => Err(anyhow!("finished without leader elect")),
            Err(RunError::LeaseLost) => {
                tracing::error!("Leaderelection lost");
                Ok(ExitCode::FAILURE)
            }
            Err(error) => Err(error.into()),
        }
    })
}

fn builder(endpoint: Endpoint, registry: Registry, settings: &Settings) -> Result<DaemonBuilder> {
    let flags = &settings.flags;
    let metrics = MetricsOptions {
        disabled: flags.metrics.disabled_metrics.clone(),
        allow_labels: flags.metrics.allowed_labels().map_err(anyhow::Error::msg)?,
    };
    Ok(Daemon::builder(endpoint, registry)
        .config(settings.config.clone())
        .gates(settings.gates.clone())
        .serving(serving::options(settings, Some(VerbositySetter::new(logging::set_verbosity))))
        .rate_limit(settings.rate)
        .max_in_unschedulable(settings.max_in_unschedulable)
        .seed(flags.ours.seed)
        .work_limits(flags.ours.work_limits())
        .exact_gangs(flags.ours.exact_gangs)
        .longest_hold(flags.ours.exact_gangs_hold.to_std().unwrap_or_default())
        // A negative duration counts as none.
        .hang_timeout(flags.ours.core_hang_timeout.to_std().unwrap_or_default())
        .metrics(metrics)
        .tracing(flags.ours.tracing()))
}

/// Adds the name of the configuration file to errors that are due to its content.
fn located(error: StartError, source: &str) -> anyhow::Error {
    match error {
        StartError::Build(error) => anyhow::Error::new(error).context(source.to_owned()),
        StartError::Extenders(error) => anyhow::Error::new(error).context(source.to_owned()),
        other => other.into(),
    }
}

/// Logs the configuration in force, at verbosity 2.
fn log_config(settings: &Settings) -> Result<()> {
    if tracing::enabled!(target: "V2", tracing::Level::DEBUG) {
        let config = to_yaml(&settings.config)?;
        tracing::debug!(target: "V2", config, "Using component config");
    }
    Ok(())
}

fn write_config(settings: &Settings, path: &Path) -> Result<ExitCode> {
    std::fs::write(path, to_yaml(&settings.config)?).with_context(|| path.display().to_string())?;
    tracing::info!(file = %path.display(), "Wrote configuration");
    Ok(ExitCode::SUCCESS)
}
