//! The scheduler as something to build upon.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use kube_scheduler_framework::{Handle, Plugin, PluginArgs, Registry, RegistryError};

use crate::cli::{self, Command, Request};
use crate::{commands, failure, logging};

/// A scheduler program with the in-tree plugins and, if wanted, others.
#[derive(Debug)]
pub struct SchedulerBuilder {
    registry: Registry,
    error: Option<RegistryError>,
}

impl Default for SchedulerBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl SchedulerBuilder {
    /// The in-tree plugins.
    pub fn new() -> Self {
        Self { registry: kube_scheduler_plugins_intree::registry(), error: None }
    }

    /// Adds a plugin that configuration can then enable by `name`. A name that is taken is reported by
    /// [`run`](Self::run).
    pub fn with_plugin<F>(mut self, name: &str, factory: F) -> Self
    where
        F: Fn(&PluginArgs, &Handle) -> Result<Arc<dyn Plugin>, String> + Send + Sync + 'static,
    {
        if let Err(error) = self.registry.register(name, factory) {
            self.error.get_or_insert(error);
        }
        self
    }

    /// Does what the command line of this process asks for.
    pub fn run(self) -> ExitCode {
        let code = self.run_with(std::env::args_os());
        logging::flush();
        code
    }

    /// Does what `args` ask for; the first is the program's name.
    pub fn run_with(self, args: impl IntoIterator<Item = impl Into<OsString>>) -> ExitCode {
        let request = match cli::parse(args) {
            Ok(request) => request,
            Err(error) => return failure::usage(&error),
        };
        if let Some(error) = self.error {
            return failure::report(&error.into());
        }
        let command = match request {
            Request::Schedule(flags) => return commands::schedule::run(*flags, self.registry),
            Request::Help => return commands::help::run(),
            Request::Command(command) => *command,
        };
        let result = match command {
            Command::Demo(args) => commands::demo::run(args),
            Command::Devcluster(args) => commands::devcluster::run(args),
            Command::Simulate(args) => commands::simulate::run(args),
            Command::Config(args) => commands::config::run(args, &self.registry),
            Command::Man(args) => commands::man::run(args),
            Command::Completions(args) => commands::completions::run(args),
            Command::Version => commands::version::run(),
        };
        result.unwrap_or_else(|error| failure::report(&error))
    }
}
