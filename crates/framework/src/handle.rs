//! What a plugin gets from the engine when it is created.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::api_client::{ApiClient, NoApiServer};
use crate::args::{ArgsError, decode_args};
use crate::context::Commands;
use crate::parallel::{OneThread, Parallel};
use crate::plugin_metrics::PluginMetrics;
use crate::registry::PluginArgs;

/// Takes requests that plugins make outside of a call by the engine, from their asynchronous work.
pub trait CommandSink: Send + Sync {
    /// Passes the requests on. They are carried out in order, some time after.
    fn ask(&self, commands: Commands);
}

/// Discards all requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCommandSink;

impl CommandSink for NoCommandSink {
    fn ask(&self, _: Commands) {}
}

/// Services of the program around the engine that plugins may use. With the default, API requests fail, commands are
/// discarded, metrics are counted and not shown, and computations run on the calling thread.
#[derive(Clone)]
pub struct Services {
    /// The API server.
    pub api: Arc<dyn ApiClient>,
    /// Takes commands from asynchronous work.
    pub commands: Arc<dyn CommandSink>,
    /// Metrics.
    pub metrics: PluginMetrics,
    /// Threads.
    pub parallel: Arc<dyn Parallel>,
}

impl Default for Services {
    fn default() -> Self {
        Self {
            api: Arc::new(NoApiServer),
            commands: Arc::new(NoCommandSink),
            metrics: PluginMetrics::new(),
            parallel: Arc::new(OneThread),
        }
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services")
            .field("metrics", &self.metrics)
            .field("parallel", &self.parallel)
            .finish_non_exhaustive()
    }
}

/// What a plugin factory gets: the profile that the plugin belongs to, the feature gates, where its arguments are in the
/// configuration, and services that the plugin may use later.
///
/// What changes from call to call is passed to the call: [`Context`](crate::Context) to read the cluster, waiting pods,
/// nominations and pods, and [`Commands`] to make requests.
#[derive(Clone, Debug, Default)]
pub struct Handle {
    /// The scheduler name of the profile.
    pub scheduler_name: Arc<str>,
    /// The feature gates that are on, sorted.
    pub features: Arc<[Arc<str>]>,
    profile: usize,
    args_path: Arc<str>,
    services: Services,
}

impl Handle {
    /// A handle for `scheduler_name` with these feature gates on.
    pub fn new(
        scheduler_name: impl Into<Arc<str>>,
        features: impl IntoIterator<Item = Arc<str>>,
    ) -> Self {
        let mut features: Vec<Arc<str>> = features.into_iter().collect();
        features.sort();
        features.dedup();
        Self { scheduler_name: scheduler_name.into(), features: features.into(), ..Self::default() }
    }

    /// The same for the profile at this place of the configuration.
    #[must_use]
    pub fn for_profile(self, profile: usize) -> Self {
        Self { profile, ..self }
    }

    /// The same with these services.
    #[must_use]
    pub fn with_services(self, services: Services) -> Self {
        Self { services, ..self }
    }

    /// The same for a plugin whose arguments stand at this place of `pluginConfig`, or nowhere.
    pub(crate) fn for_plugin(&self, name: &str, at: Option<usize>) -> Self {
        let profile = self.profile;
        let args_path = match at {
            Some(at) => format!("profiles[{profile}].pluginConfig[{at}].args"),
            None => format!("profiles[{profile}].pluginConfig[name={name}].args"),
        };
        Self { args_path: args_path.into(), ..self.clone() }
    }

    /// Whether a feature gate is on. Unknown gates are off.
    pub fn is_enabled(&self, feature: &str) -> bool {
        self.features.binary_search_by(|name| (**name).cmp(feature)).is_ok()
    }

    /// The plugin's arguments as a `T`, read strictly; none are the same as empty ones.
    ///
    /// # Errors
    /// If a value has the wrong type, or fields are missing or unknown; the text names each field by its whole path.
    pub fn args<T: DeserializeOwned>(&self, args: &PluginArgs) -> Result<T, ArgsError> {
        decode_args(args, self.args_path())
    }

    /// The error text for a field of the arguments whose value has the right type but is not acceptable. `field` is a path
    /// such as `zones[0]`, empty for the arguments as a whole.
    pub fn invalid_arg(&self, field: &str, what: impl fmt::Display) -> String {
        ArgsError::new(self.args_path(), field, what).to_string()
    }

    /// Where the plugin's arguments stand in the configuration, for messages.
    pub fn args_path(&self) -> &str {
        if self.args_path.is_empty() { "args" } else { &self.args_path }
    }

    /// The API server. A request is sent when its future is awaited: in PreBind, Bind, and tasks that these spawn.
    pub fn api(&self) -> &Arc<dyn ApiClient> {
        &self.services.api
    }

    /// Makes requests from asynchronous work, where the engine passes no [`Commands`]. They are carried out some time later.
    pub fn ask(&self, commands: Commands) {
        self.services.commands.ask(commands);
    }

    /// Metrics that are shown beside the scheduler's own.
    pub fn metrics(&self) -> &PluginMetrics {
        &self.services.metrics
    }

    /// Threads to split long computations over. The engine splits Filter and Score over nodes itself.
    pub fn parallel(&self) -> &dyn Parallel {
        &*self.services.parallel
    }
}
