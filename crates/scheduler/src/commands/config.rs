//! `config`: checking, comparing, printing and migrating configuration files.

mod check;
mod diff;
mod lint;
mod migrate;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use clap::{Subcommand, ValueEnum};
use kube_scheduler_api_types::validation::aggregate;
use kube_scheduler_config::{
    Configuration, FeatureGates, default, ignore_managed_resources, to_json_value, to_yaml,
};
use kube_scheduler_engine::{Engine, EngineOptions};
use kube_scheduler_runtime::Registry;
use serde::Serialize;

use super::print;
use crate::flags::feature_gates::FeatureGateFlags;
use crate::flags::value::FlagValue as _;
use crate::text_file::{self, MAX_CONFIG};

/// Check, compare, print and migrate configurations of the scheduler. Needs no cluster.
#[derive(Clone, Debug, clap::Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    Check(check::Args),
    PrintDefaults(DefaultsArgs),
    Diff(diff::Args),
    Migrate(migrate::Args),
}

/// The feature gates that a configuration is checked with.
#[derive(Clone, Debug, clap::Args)]
struct GateArgs {
    /// Feature gates, as Name=true,Name=false; may be repeated
    #[arg(long, value_name = "GATES")]
    feature_gates: Vec<String>,

    /// The Kubernetes version whose defaults apply
    #[arg(long, value_name = "VERSION")]
    emulated_version: Option<String>,
}

impl GateArgs {
    fn gates(&self) -> Result<FeatureGates> {
        let mut flags = FeatureGateFlags {
            emulated_version: self.emulated_version.iter().cloned().collect(),
            ..FeatureGateFlags::default()
        };
        for gates in &self.feature_gates {
            flags.feature_gates.set(gates, false).map_err(|error| anyhow!(error))?;
        }
        let applied = flags.apply().map_err(|error| anyhow!(error))?;
        if !applied.errors.is_empty() {
            return Err(anyhow!(aggregate(applied.errors)));
        }
        Ok(applied.gates)
    }
}

/// The format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// For people
    Text,
    /// One JSON object
    Json,
    /// The same in YAML
    Yaml,
}

/// Print the default configuration, which is in force without a file.
#[derive(Clone, Debug, clap::Args)]
struct DefaultsArgs {
    #[command(flatten)]
    gates: GateArgs,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = DefaultsForm::Yaml)]
    output: DefaultsForm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DefaultsForm {
    /// YAML, as configuration files are usually written
    Yaml,
    /// One JSON object
    Json,
}

/// Runs the command with the plugins of this program.
pub(crate) fn run(args: Args, registry: &Registry) -> Result<ExitCode> {
    match args.command {
        Command::Check(args) => check::run(args, registry),
        Command::PrintDefaults(args) => print_defaults(&args),
        Command::Diff(args) => diff::run(args, registry),
        Command::Migrate(args) => migrate::run(&args),
    }
}

fn print_defaults(args: &DefaultsArgs) -> Result<ExitCode> {
    let mut config = Configuration::default();
    default(&mut config, &args.gates.gates()?);
    let text = match args.output {
        DefaultsForm::Yaml => to_yaml(&config)?,
        DefaultsForm::Json => {
            format!("{}\n", serde_json::to_string_pretty(&to_json_value(&config)?)?)
        }
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The text of a file, or of standard input for `-`.
fn read_or_stdin(path: &Path) -> Result<String> {
    if path.as_os_str() == "-" {
        return text_file::read_from(std::io::stdin(), MAX_CONFIG).context("standard input");
    }
    text_file::read(path, MAX_CONFIG).with_context(|| path.display().to_string())
}

/// Builds the profiles of a configuration with defaults filled in, as the scheduler would.
fn build(config: &Configuration, registry: &Registry, gates: &FeatureGates) -> Result<Engine> {
    let mut config = config.clone();
    ignore_managed_resources(&mut config)
        .map_err(|error| anyhow!("couldn't build extenders: {error}"))?;
    // Extenders are addresses: nothing has to be built for them before they are called.
    config.extenders.clear();
    let options = EngineOptions { gates: gates.clone(), ..EngineOptions::default() };
    Ok(Engine::new(&config, registry, options)?)
}

/// Prints an answer as JSON or YAML.
fn print_tree(form: Form, answer: &impl Serialize) -> Result<()> {
    match form {
        Form::Yaml => print(&serde_saphyr::to_string(answer)?),
        Form::Text | Form::Json => print(&format!("{}\n", serde_json::to_string_pretty(answer)?)),
    }
}
