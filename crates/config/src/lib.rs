//! KubeSchedulerConfiguration v1: read, defaulted, merged and validated as kube-scheduler 1.36 does.
//!
//! [`load`] does all of it for the text of a file. The steps are public too: [`decode`] (strict, with the path of every
//! error), [`default`], [`validate`], and [`to_yaml`] and [`to_json_value`] for the way back. What cannot be known without
//! the plugins — which of them exist, at which extension points they run, whether their constructors accept their
//! arguments — is up to the code that builds the profiles; [`validate_args`] and [`named_plugins`] help there.
//!
//! ```
//! use kube_scheduler_config::{FeatureGates, load};
//!
//! let text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: 4\n";
//! let config = load(text, &FeatureGates::default())?;
//! assert_eq!(config.parallelism(), 4);
//! assert_eq!(config.profiles[0].scheduler_name.as_deref(), Some("default-scheduler"));
//! # Ok::<(), kube_scheduler_config::LoadError>(())
//! ```
//!
//! Invariants: no file, no environment, no clock is touched; any text ends in a configuration or an error; decoding a
//! printed configuration gives it back; the same text and gates give the same result.

mod v1;

mod duration;
mod reader;
mod tree;

mod args;
mod decode;
mod defaults;
mod election;
mod gates;
mod load;
mod managed;
mod merge;
mod output;
mod retired;
mod validate;

pub use args::{
    ConfiguredArgs, CoschedulingArgs, DefaultPreemptionArgs, DynamicResourcesArgs,
    InterPodAffinityArgs, LabelSelectorJson, LabelSelectorRequirementJson, NodeAffinityArgs,
    NodeAffinityJson, NodeResourcesBalancedAllocationArgs, NodeResourcesFitArgs,
    PodTopologySpreadArgs, RequestedToCapacityRatio, ResourceSpec, ScoringStrategy,
    TopologySpreadConstraintJson, UtilizationShapePoint, VolumeBindingArgs,
};
pub use decode::{ArgsError, ConfigDecodeError, DecodeOutcome, decode, decode_as_far_as_possible};
pub use defaults::{DEFAULT_SCHEDULER_NAME, default, default_args};
pub use duration::{Duration, DurationError};
pub use election::LeaderElectionError;
pub use gates::{
    CURRENT_MINOR, FeatureGates, Gate, GateError, GateSpec, GateWarning, OLDEST_MINOR, Stage,
    parse_feature_gates,
};
pub use load::{LoadError, load};
pub use managed::{NoFitArgs, ignore_managed_resources};
pub use merge::{ALL_PLUGINS, NamedPlugin, default_plugins, named_plugins, overridden_defaults};
pub use output::{OutputError, to_json_value, to_yaml};
pub use reader::TypeError;
pub use retired::{RetiredKind, RetiredName, retired};
pub use tree::Position;
pub use v1::{
    ClientConnection, Configuration, ExtenderConfig, ExtenderTls, KubeSchedulerProfile,
    LeaderElection, ManagedResource, PluginConfig, PluginSet, Plugins, PluginsField,
    WeightedPlugin,
};
pub use validate::{ConfigurationError, validate, validate_args};
