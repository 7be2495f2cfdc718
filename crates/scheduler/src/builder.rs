//! The builder of schedulers with other plugins than the in-tree ones.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use kube_scheduler_config::{Configuration, FeatureGates, LoadError, default, load};
use kube_scheduler_daemon::{Daemon, DaemonBuilder, Endpoint};
use kube_scheduler_framework::{Handle, Plugin, PluginArgs, PluginError};
use kube_scheduler_runtime::Registry;

use crate::cli::{self, Command, Request};
use crate::{commands, failure, logging};

/// A scheduler program with the in-tree plugins and optionally others.
///
/// Plugins that are added here are enabled, ordered, weighed and configured by the configuration, as the in-tree ones are,
/// under `multiPoint` too. The program has the flags and subcommands of `kube-scheduler-rs`.
#[derive(Debug)]
pub struct SchedulerBuilder {
    registry: Registry,
    /// Names of the plugins that the caller has added.
    added: BTreeSet<String>,
    errors: Vec<BuilderError>,
}

/// A plugin that cannot be added.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuilderError {
    /// There is an in-tree plugin of this name.
    #[error(
        "plugin \"{0}\" is one of the in-tree plugins: give yours another name, or call replace_plugin to put it in \
         the place of the in-tree one"
    )]
    InTree(String),
    /// The caller has added two plugins with one name.
    #[error("plugin \"{0}\" is added twice: every plugin needs a name of its own")]
    AddedTwice(String),
    /// There is no in-tree plugin of the name to replace.
    #[error("there is no in-tree plugin \"{name}\" to replace; there are: {}", known.join(", "))]
    NothingToReplace {
        /// The name given.
        name: String,
        /// The names of the in-tree plugins.
        known: Vec<String>,
    },
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] LoadError),
}

impl Default for SchedulerBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl SchedulerBuilder {
    /// A scheduler with the in-tree plugins only.
    pub fn new() -> Self {
        let registry = kube_scheduler_plugins_intree::registry();
        Self { registry, added: BTreeSet::new(), errors: Vec::new() }
    }

    /// Adds a plugin that the configuration can then enable by `name`. The factory is called once for every profile that
    /// enables it. If the name is taken, [`run`](Self::run) and [`registry`](Self::registry) report it.
    pub fn with_plugin<F>(mut self, name: &str, factory: F) -> Self
    where
        F: Fn(&PluginArgs, &Handle) -> Result<Arc<dyn Plugin>, PluginError> + Send + Sync + 'static,
    {
        if self.registry.register(name, factory).is_ok() {
            self.added.insert(name.to_owned());
        } else if self.added.contains(name) {
            self.errors.push(BuilderError::AddedTwice(name.to_owned()));
        } else {
            self.errors.push(BuilderError::InTree(name.to_owned()));
        }
        self
    }

    /// Replaces the in-tree plugin of this name. Profiles that enable that one, also by default, enable this one instead.
    /// Its arguments have the type that the configuration defines for the name.
    pub fn replace_plugin<F>(mut self, name: &str, factory: F) -> Self
    where
        F: Fn(&PluginArgs, &Handle) -> Result<Arc<dyn Plugin>, PluginError> + Send + Sync + 'static,
    {
        if self.added.contains(name) {
            self.errors.push(BuilderError::AddedTwice(name.to_owned()));
        } else if self.registry.replace(name, factory).is_ok() {
            self.added.insert(name.to_owned());
        } else {
            let in_tree = self.registry.names().filter(|known| !self.added.contains(&***known));
            let known = in_tree.map(|known| known.to_string()).collect();
            let name = name.to_owned();
            self.errors.push(BuilderError::NothingToReplace { name, known });
        }
        self
    }

    /// All plugins, for callers that run an engine, a simulation or a daemon themselves.
    ///
    /// # Errors
    /// If a plugin could not be added; the first one.
    pub fn registry(self) -> Result<Registry, BuilderError> {
        match self.errors.into_iter().next() {
            Some(error) => Err(error),
            None => Ok(self.registry),
        }
    }

    /// A scheduler inside of this process, with a `KubeSchedulerConfiguration` in YAML or JSON; an empty text means the
    /// default configuration.
    ///
    /// # Errors
    /// If a plugin could not be added, or the configuration is invalid. Plugins check their arguments only when the daemon
    /// is started.
    pub fn daemon(self, endpoint: Endpoint, config: &str) -> Result<DaemonBuilder, BuilderError> {
        let config = config_of(config, &FeatureGates::default())?;
        Ok(Daemon::builder(endpoint, self.registry()?).config(config))
    }

    /// Runs the command line of this process.
    pub fn run(self) -> ExitCode {
        let code = self.run_with(std::env::args_os());
        logging::flush();
        code
    }

    /// Runs a command line; the first argument is the program's name.
    pub fn run_with(self, args: impl IntoIterator<Item = impl Into<OsString>>) -> ExitCode {
        let args: Vec<OsString> = args.into_iter().map(Into::into).collect();
        let program = cli::program_name(&args);
        let first = args.get(1).map(|arg| arg.to_string_lossy().into_owned()).unwrap_or_default();
        let request = match cli::parse(args) {
            Ok(request) => request,
            Err(error) => return failure::usage(&error, &program, &first),
        };
        let registry = match self.registry() {
            Ok(registry) => registry,
            Err(error) => return failure::report(&error.into()),
        };
        let command = match request {
            Request::Schedule(flags) => return commands::schedule::run(*flags, registry),
            Request::Help => return commands::help::run(&program),
            Request::Questions => return commands::help::questions(),
            Request::Command(command) => *command,
        };
        let result = match command {
            Command::Demo(args) => commands::demo::run(args),
            Command::Devcluster(args) => commands::devcluster::run(args),
            Command::Simulate(args) => commands::simulate::run(args, registry),
            Command::Explain(args) => return commands::answers::run_explain(&args, registry),
            Command::Preempt(args) => return commands::answers::run_preempt(&args, registry),
            Command::WhatIf(args) => return commands::answers::run_what_if(&args, registry),
            Command::Drain(args) => return commands::answers::run_drain(&args, registry),
            Command::Capacity(args) => return commands::answers::run_capacity(&args, registry),
            Command::Queue(args) => return commands::answers::run_queue(&args, registry),
            Command::Fragmentation(args) => {
                return commands::answers::run_fragmentation(&args, registry);
            }
            Command::Mcp(args) => commands::mcp::run(args, registry),
            Command::AnswersSchema(_) => commands::answers_schema::run(),
            Command::Config(args) => commands::config::run(args, &registry),
            Command::Man(args) => commands::man::run(args, &program),
            Command::Completions(args) => commands::completions::run(&args, &program),
            Command::Version => commands::version::run(),
        };
        result.unwrap_or_else(|error| failure::report(&error))
    }
}

/// The configuration in a text; the default one if the text is empty.
pub(crate) fn config_of(text: &str, gates: &FeatureGates) -> Result<Configuration, LoadError> {
    if !text.trim().is_empty() {
        return load(text, gates);
    }
    let mut config = Configuration::default();
    default(&mut config, gates);
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl Plugin for Nothing {
        fn name(&self) -> &str {
            "Nothing"
        }
    }

    fn nothing(_: &PluginArgs, _: &Handle) -> Result<Arc<dyn Plugin>, PluginError> {
        Ok(Arc::new(Nothing))
    }

    fn error(builder: SchedulerBuilder) -> String {
        builder.registry().unwrap_err().to_string()
    }

    #[test]
    fn an_added_plugin_is_registered_with_the_in_tree_ones() {
        let registry = SchedulerBuilder::new().with_plugin("Nothing", nothing).registry().unwrap();
        assert!(registry.get("Nothing").is_some() && registry.get("NodeName").is_some());
    }

    #[test]
    fn an_in_tree_plugin_is_not_replaced_by_accident() {
        assert_eq!(
            error(SchedulerBuilder::new().with_plugin("NodeName", nothing)),
            "plugin \"NodeName\" is one of the in-tree plugins: give yours another name, or call replace_plugin to \
             put it in the place of the in-tree one"
        );
        assert!(SchedulerBuilder::new().replace_plugin("NodeName", nothing).registry().is_ok());
    }

    #[test]
    fn a_name_is_used_once_and_only_what_is_there_is_replaced() {
        let twice = "plugin \"Nothing\" is added twice: every plugin needs a name of its own";
        let once = || SchedulerBuilder::new().with_plugin("Nothing", nothing);
        assert_eq!(error(once().with_plugin("Nothing", nothing)), twice);
        assert_eq!(error(once().replace_plugin("Nothing", nothing)), twice);
        let text = error(SchedulerBuilder::new().replace_plugin("Nodename", nothing));
        assert!(
            text.starts_with(
                "there is no in-tree plugin \"Nodename\" to replace; there are: Coscheduling,"
            ),
            "{text}"
        );
    }
}
