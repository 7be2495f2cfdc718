//! What a plugin gets from the engine when it is created.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::args::{decode_args, invalid};
use crate::context::Commands;
use crate::plugin_error::PluginError;
use crate::plugin_metrics::PluginMetrics;
use crate::services::{ApiError, ApiRequest, BoxFuture, NoServices, Services};

/// A plugin's arguments as configuration gives them, defaults filled in: a tree of maps, lists and scalars.
/// `Null` when there are none.
pub type PluginArgs = Value;

/// What a plugin factory gets: the profile that the plugin belongs to, the feature gates, where its arguments are in the
/// configuration, and services that the plugin may use later.
///
/// What changes from call to call is passed to the call: [`Context`](crate::Context) to read the cluster, waiting pods,
/// nominations and pods, and [`Commands`] to make requests.
///
/// By default API requests fail, commands are discarded, and metrics are counted and not shown.
#[derive(Clone)]
pub struct Handle {
    /// The scheduler name of the profile.
    pub scheduler_name: Arc<str>,
    /// The feature gates that are on, sorted.
    pub features: Arc<[Arc<str>]>,
    args_path: Arc<str>,
    services: Arc<dyn Services>,
    metrics: PluginMetrics,
}

impl Default for Handle {
    fn default() -> Self {
        Self {
            scheduler_name: Arc::default(),
            features: Arc::default(),
            args_path: Arc::default(),
            services: Arc::new(NoServices),
            metrics: PluginMetrics::new(),
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("scheduler_name", &self.scheduler_name)
            .field("features", &self.features)
            .field("metrics", &self.metrics)
            .finish_non_exhaustive()
    }
}

impl Handle {
    /// This handle, with these feature gates on and all others off.
    #[must_use]
    pub fn with_features(self, features: impl IntoIterator<Item = Arc<str>>) -> Self {
        let mut features: Vec<Arc<str>> = features.into_iter().collect();
        features.sort();
        features.dedup();
        Self { features: features.into(), ..self }
    }

    /// This handle, with `services` in the place of those that it has.
    #[must_use]
    pub fn with_services(self, services: Arc<dyn Services>) -> Self {
        Self { services, ..self }
    }

    /// This handle, with `metrics` that are shown to somebody.
    #[must_use]
    pub fn with_metrics(self, metrics: PluginMetrics) -> Self {
        Self { metrics, ..self }
    }

    /// This handle, for a plugin of the profile with this name. Its arguments stand at `args_path` in the configuration: for
    /// messages, such as `profiles[0].pluginConfig[2].args`.
    #[must_use]
    pub fn for_plugin(&self, scheduler_name: &Arc<str>, args_path: &str) -> Self {
        Self { scheduler_name: scheduler_name.clone(), args_path: args_path.into(), ..self.clone() }
    }

    /// Whether a feature gate is on. Unknown gates are off.
    pub fn is_enabled(&self, feature: &str) -> bool {
        self.features.binary_search_by(|name| (**name).cmp(feature)).is_ok()
    }

    /// The plugin's arguments as a `T`, read strictly; none are the same as empty ones.
    ///
    /// # Errors
    /// If a value has the wrong type, or fields are missing or unknown; the text names each field by its whole path.
    pub fn args<T: DeserializeOwned>(&self, args: &PluginArgs) -> Result<T, PluginError> {
        decode_args(args, self.args_path())
    }

    /// The error text for a field of the arguments whose value has the right type but is not acceptable. `field` is a path
    /// such as `zones[0]`, empty for the arguments as a whole.
    pub fn invalid_arg(&self, field: &str, what: impl fmt::Display) -> PluginError {
        invalid(self.args_path(), field, what)
    }

    /// Where the plugin's arguments stand in the configuration, for messages.
    fn args_path(&self) -> &str {
        if self.args_path.is_empty() { "args" } else { &self.args_path }
    }

    /// Makes a request to the API server. It is sent when the future is awaited: in PreBind, Bind, and tasks that these spawn.
    pub fn send(&self, request: ApiRequest) -> BoxFuture<Result<Value, ApiError>> {
        self.services.send(request)
    }

    /// Makes requests from asynchronous work, where the engine passes no [`Commands`]. The engine carries them out later, in
    /// order.
    pub fn ask(&self, commands: Commands) {
        self.services.ask(commands);
    }

    /// Metrics that are shown beside the scheduler's own.
    pub fn metrics(&self) -> &PluginMetrics {
        &self.metrics
    }
}
