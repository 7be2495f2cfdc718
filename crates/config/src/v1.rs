//! The configuration file, field by field: `kubescheduler.config.k8s.io/v1`, kind `KubeSchedulerConfiguration`.
//!
//! Invariants: field names and meanings are upstream's; an absent field is `None`, zero or empty, exactly where upstream
//! cannot tell the difference either; nothing here defaults or validates.

use serde::{Deserialize, Serialize, Serializer};

use crate::args::ConfiguredArgs;
use crate::duration::Duration;

/// The group and version of everything in this crate.
pub(crate) const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";
/// The kind of a configuration file.
pub(crate) const KIND: &str = "KubeSchedulerConfiguration";

pub(crate) const PARALLELISM: i32 = 16;
pub(crate) const POD_INITIAL_BACKOFF_SECONDS: i64 = 1;
pub(crate) const POD_MAX_BACKOFF_SECONDS: i64 = 10;

/// A KubeSchedulerConfiguration: the whole file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Configuration {
    /// How many threads the reference uses for one scheduling step. Checked, and without effect here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<i32>,
    /// Which of several schedulers is active.
    pub leader_election: LeaderElection,
    /// How to reach the API server.
    pub client_connection: ClientConnection,
    /// Whether profiles of the process can be fetched over HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_profiling: Option<bool>,
    /// Whether lock contention is profiled too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_contention_profiling: Option<bool>,
    /// How many percent of the nodes are scored once that many are feasible; 0 adapts to the cluster's size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentage_of_nodes_to_score: Option<i32>,
    /// Seconds before a pod that failed once is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_initial_backoff_seconds: Option<i64>,
    /// The longest wait before a pod is tried again, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_max_backoff_seconds: Option<i64>,
    /// One entry per scheduler name that is served.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<KubeSchedulerProfile>,
    /// Processes asked over HTTP, in this order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extenders: Vec<ExtenderConfig>,
    /// Whether a standby leaves its caches empty until it leads.
    #[serde(skip_serializing_if = "is_false")]
    pub delay_cache_until_active: bool,
}

impl Configuration {
    /// The reference's number of threads; its default when not set.
    #[must_use]
    pub fn parallelism(&self) -> i32 {
        self.parallelism.unwrap_or(PARALLELISM)
    }

    /// The first wait after a failure in seconds; upstream's default when not set.
    #[must_use]
    pub fn pod_initial_backoff_seconds(&self) -> i64 {
        self.pod_initial_backoff_seconds.unwrap_or(POD_INITIAL_BACKOFF_SECONDS)
    }

    /// The longest wait in seconds; upstream's default when not set.
    #[must_use]
    pub fn pod_max_backoff_seconds(&self) -> i64 {
        self.pod_max_backoff_seconds.unwrap_or(POD_MAX_BACKOFF_SECONDS)
    }

    /// The percentage of nodes a profile scores: its own, else the global one, else 0 for adaptive.
    #[must_use]
    pub fn percentage_of_nodes_to_score(&self, profile: &KubeSchedulerProfile) -> i32 {
        let percentage = profile.percentage_of_nodes_to_score;
        percentage.or(self.percentage_of_nodes_to_score).unwrap_or_default()
    }
}

/// Leader election through a lease.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LeaderElection {
    /// Whether to wait for the lease before scheduling.
    pub leader_elect: Option<bool>,
    /// How long others wait after the last renewal before they take the lease.
    pub lease_duration: Duration,
    /// How long the leader tries to renew before it gives up.
    pub renew_deadline: Duration,
    /// The pause between two tries to take or renew the lease.
    pub retry_period: Duration,
    /// The kind of lock; only `leases` exists.
    pub resource_lock: String,
    /// The name of the lease.
    pub resource_name: String,
    /// The namespace of the lease.
    pub resource_namespace: String,
}

/// The connection to the API server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClientConnection {
    /// Path of a kubeconfig file; empty looks for the cluster this process runs in.
    pub kubeconfig: String,
    /// What to ask for in `Accept`; empty follows `content_type`. Read and printed, without effect.
    pub(crate) accept_content_types: String,
    /// The media type of request bodies.
    pub content_type: String,
    /// Requests per second; negative means no limit.
    #[serde(serialize_with = "shortest")]
    pub qps: f32,
    /// Requests that may be sent at once after a pause.
    pub burst: i32,
}

/// How pods of one scheduler name are scheduled.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct KubeSchedulerProfile {
    /// The `spec.schedulerName` of the pods this profile is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler_name: Option<String>,
    /// Overrides the percentage of the whole configuration for this profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentage_of_nodes_to_score: Option<i32>,
    /// Which plugins run where. As read, what the user wants changed; after defaulting, the merged result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugins: Option<Plugins>,
    /// The arguments of plugins, by plugin.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plugin_config: Vec<PluginConfig>,
}

/// One plugin's arguments.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PluginConfig {
    /// The plugin's name.
    pub name: String,
    /// Its arguments. Deserialized alone they stay raw; [`decode`](crate::decode) types them by plugin name.
    pub args: ConfiguredArgs,
}

/// What is enabled and disabled at one extension point.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PluginSet {
    /// Plugins that run, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub enabled: Vec<WeightedPlugin>,
    /// Default plugins that do not run; `*` means all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disabled: Vec<WeightedPlugin>,
}

/// A plugin in a set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WeightedPlugin {
    /// The plugin's name.
    pub name: String,
    /// How much its score counts; 0 is the same as not given and means 1 where a weight is used.
    pub weight: i32,
}

impl WeightedPlugin {
    /// A plugin with a weight, or with 0 for none.
    #[must_use]
    pub fn new(name: impl Into<String>, weight: i32) -> Self {
        Self { name: name.into(), weight }
    }
}

macro_rules! extension_points {
    ($($(#[$doc:meta])* $variant:ident $field:ident $name:literal;)*) => {
        /// A field of `plugins` in a profile: an extension point, or `multiPoint`, which stands for all of them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum PluginsField {
            $($(#[$doc])* $variant,)*
        }

        impl PluginsField {
            /// All of them, in the order in which the file lists them.
            pub const ALL: [Self; 15] = [$(Self::$variant,)*];

            /// The name of the field in `plugins`.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }

        /// Which plugins a profile enables and disables, by extension point.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        pub struct Plugins {
            $($(#[$doc])* pub $field: PluginSet,)*
        }

        impl Plugins {
            /// The plugins that are enabled and disabled in one field.
            #[must_use]
            pub fn set(&self, point: PluginsField) -> &PluginSet {
                match point { $(PluginsField::$variant => &self.$field,)* }
            }

            /// The set of one field, to change it.
            pub(crate) fn set_mut(&mut self, point: PluginsField) -> &mut PluginSet {
                match point { $(PluginsField::$variant => &mut self.$field,)* }
            }
        }
    };
}

extension_points! {
    /// Before a pod may enter the active queue.
    PreEnqueue pre_enqueue "preEnqueue";
    /// Which pod is next.
    QueueSort queue_sort "queueSort";
    /// Once per pod, before nodes are looked at.
    PreFilter pre_filter "preFilter";
    /// Whether a node can run the pod.
    Filter filter "filter";
    /// When no node can.
    PostFilter post_filter "postFilter";
    /// Once per pod, before nodes are scored.
    PreScore pre_score "preScore";
    /// How good a node is.
    Score score "score";
    /// Claims resources for the pod on its node.
    Reserve reserve "reserve";
    /// Approves, denies or delays the binding.
    Permit permit "permit";
    /// Work that must be done before binding.
    PreBind pre_bind "preBind";
    /// The binding itself.
    Bind bind "bind";
    /// After a pod is bound.
    PostBind post_bind "postBind";
    /// Every point a plugin implements, unless that point says otherwise.
    MultiPoint multi_point "multiPoint";
    /// Proposes placements for groups of pods.
    PlacementGenerate placement_generate "placementGenerate";
    /// How good a placement is.
    PlacementScore placement_score "placementScore";
}

impl Plugins {
    /// Every set with its field, in file order.
    pub fn sets(&self) -> impl Iterator<Item = (PluginsField, &PluginSet)> {
        PluginsField::ALL.into_iter().map(|point| (point, self.set(point)))
    }
}

/// A process that is asked over HTTP.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExtenderConfig {
    /// The URL its verbs are appended to; also its name.
    pub url_prefix: String,
    /// Path of the filter call; empty when not supported.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub filter_verb: String,
    /// Path of the preemption call; empty when not supported.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub preempt_verb: String,
    /// Path of the scoring call; empty when not supported.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub prioritize_verb: String,
    /// The factor for its scores.
    #[serde(skip_serializing_if = "is_zero")]
    pub weight: i64,
    /// Path of the binding call; empty when not supported.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bind_verb: String,
    /// Quirk: only turns certificate checks off when no CA is given; the URL decides whether TLS is used.
    #[serde(rename = "enableHTTPS", skip_serializing_if = "is_false")]
    pub enable_https: bool,
    /// Certificates for calls over HTTPS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_config: Option<ExtenderTls>,
    /// Limit for one call; zero means five seconds.
    #[serde(rename = "httpTimeout")]
    pub http_timeout: Duration,
    /// Whether it knows the nodes itself, so that names are sent instead of objects.
    #[serde(skip_serializing_if = "is_false")]
    pub node_cache_capable: bool,
    /// Only pods that ask for one of these concern it; empty means every pod does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub managed_resources: Vec<ManagedResource>,
    /// Whether pods are scheduled without it when it fails.
    #[serde(skip_serializing_if = "is_false")]
    pub ignorable: bool,
}

/// Certificates for calls to an extender.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExtenderTls {
    /// Whether the server's certificate is left unchecked.
    #[serde(skip_serializing_if = "is_false")]
    pub insecure: bool,
    /// The name the server certificate must be for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub server_name: String,
    /// Path of the client certificate.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cert_file: String,
    /// Path of the client key.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key_file: String,
    /// Path of the CA certificates.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ca_file: String,
    /// The client certificate in base64; wins over the file.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cert_data: String,
    /// The client key in base64; wins over the file.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key_data: String,
    /// The CA certificates in base64; win over the file.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ca_data: String,
}

/// An extended resource that an extender manages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ManagedResource {
    /// The name of the extended resource.
    pub name: String,
    /// Whether the scheduler leaves counting it to the extender.
    #[serde(skip_serializing_if = "is_false")]
    pub ignored_by_scheduler: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_false(value: &bool) -> bool {
    !value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_zero(value: &i64) -> bool {
    *value == 0
}

/// Prints a 32-bit float with the fewest digits that give it back, whole ones as integers: `50`, `99.1`.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn shortest<S: Serializer>(value: &f32, serializer: S) -> Result<S::Ok, S::Error> {
    let text = value.to_string();
    match (text.parse::<i64>(), text.parse::<f64>()) {
        (Ok(whole), _) => serializer.serialize_i64(whole),
        (_, Ok(wide)) => serializer.serialize_f64(wide),
        _ => serializer.serialize_f32(*value),
    }
}
