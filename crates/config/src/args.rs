//! Typed plugin arguments.
//!
//! Invariants: a plugin named here never has raw arguments after [`decode`](crate::decode); every other plugin's
//! arguments stay as they were written, for the plugin to read. An absent field stays absent until
//! defaulting.

mod core;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value as Json;

pub use self::core::{
    LabelSelectorJson, LabelSelectorRequirementJson, NodeAffinityJson, TopologySpreadConstraintJson,
};
use crate::duration::Duration;
use crate::v1::API_VERSION;

macro_rules! plugin_args {
    ($($(#[$doc:meta])* $variant:ident($args:ident) $plugin:literal $kind:literal;)*) => {
        /// The arguments of one plugin.
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub enum ConfiguredArgs {
            $($(#[$doc])* $variant($args),)*
            /// Arguments of a plugin this crate has no type for, as JSON; `null` when there were none.
            Raw(Json),
        }

        impl ConfiguredArgs {
            /// Empty arguments of the type that belongs to `plugin`; nothing if it has none.
            #[must_use]
            pub(crate) fn empty_for(plugin: &str) -> Option<Self> {
                match plugin {
                    $($plugin => Some(Self::$variant($args::default())),)*
                    _ => None,
                }
            }

            /// The kind of these arguments in the configuration API; nothing for raw ones.
            #[must_use]
            pub fn kind(&self) -> Option<&'static str> {
                match self {
                    $(Self::$variant(_) => Some($kind),)*
                    Self::Raw(_) => None,
                }
            }

            /// The plugin these arguments are for; nothing for raw ones.
            #[must_use]
            pub fn plugin(&self) -> Option<&'static str> {
                match self {
                    $(Self::$variant(_) => Some($plugin),)*
                    Self::Raw(_) => None,
                }
            }

            /// The kinds that can stand in `args`.
            pub(crate) const KINDS: &[&str] = &[$($kind,)*];

            /// Reads the arguments of `plugin` with a reader of any type; nothing if the plugin has none.
            pub(crate) fn read_for<R: ReadArgs>(plugin: &str, reader: R) -> Result<Option<Self>, R::Error> {
                match plugin {
                    $($plugin => reader.read::<$args>().map(|args| Some(Self::$variant(args))),)*
                    _ => Ok(None),
                }
            }
        }

        impl Serialize for ConfiguredArgs {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$variant(args) => TypedArgs { kind: $kind, api_version: API_VERSION, args }.serialize(serializer),)*
                    Self::Raw(json) => json.serialize(serializer),
                }
            }
        }
    };
}

plugin_args! {
    /// For `Coscheduling`, which is no plugin of the reference.
    Coscheduling(CoschedulingArgs) "Coscheduling" "CoschedulingArgs";
    /// For `DefaultPreemption`.
    DefaultPreemption(DefaultPreemptionArgs) "DefaultPreemption" "DefaultPreemptionArgs";
    /// For `DynamicResources`.
    DynamicResources(DynamicResourcesArgs) "DynamicResources" "DynamicResourcesArgs";
    /// For `InterPodAffinity`.
    InterPodAffinity(InterPodAffinityArgs) "InterPodAffinity" "InterPodAffinityArgs";
    /// For `NodeAffinity`.
    NodeAffinity(NodeAffinityArgs) "NodeAffinity" "NodeAffinityArgs";
    /// For `NodeResourcesBalancedAllocation`.
    NodeResourcesBalancedAllocation(NodeResourcesBalancedAllocationArgs)
        "NodeResourcesBalancedAllocation" "NodeResourcesBalancedAllocationArgs";
    /// For `NodeResourcesFit`.
    NodeResourcesFit(NodeResourcesFitArgs) "NodeResourcesFit" "NodeResourcesFitArgs";
    /// For `PodTopologySpread`.
    PodTopologySpread(PodTopologySpreadArgs) "PodTopologySpread" "PodTopologySpreadArgs";
    /// For `VolumeBinding`.
    VolumeBinding(VolumeBindingArgs) "VolumeBinding" "VolumeBindingArgs";
}

/// Something that can be read as any arguments type.
pub(crate) trait ReadArgs {
    type Error;

    fn read<T: serde::de::DeserializeOwned>(self) -> Result<T, Self::Error>;
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TypedArgs<'a, T> {
    kind: &'static str,
    api_version: &'static str,
    #[serde(flatten)]
    args: &'a T,
}

impl Default for ConfiguredArgs {
    fn default() -> Self {
        Self::Raw(Json::Null)
    }
}

impl<'de> Deserialize<'de> for ConfiguredArgs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Json::deserialize(deserializer).map(Self::Raw)
    }
}

/// Arguments of Coscheduling: how PodGroups of scheduler-plugins are scheduled.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CoschedulingArgs {
    /// How long a pod waits for the others of its group once it has a node, in seconds, unless the group says how long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permit_waiting_time_seconds: Option<i64>,
    /// How long a group that was refused is left alone, in seconds. Without effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_group_backoff_seconds: Option<i64>,
    /// How many of a group's pods may be missing before the others are sent back, in percent. Without effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_group_reject_percentage: Option<i32>,
}

/// Arguments of DefaultPreemption: how many candidate nodes preemption looks at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DefaultPreemptionArgs {
    /// At least this share of the nodes, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_candidate_nodes_percentage: Option<i32>,
    /// At least this number of nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_candidate_nodes_absolute: Option<i32>,
}

/// Arguments of DynamicResources: its time limits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DynamicResourcesArgs {
    /// Limit for one node's Filter call; zero means none. Printed even when absent, as upstream does.
    pub filter_timeout: Option<Duration>,
    /// How long binding waits at most for the binding conditions of devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binding_timeout: Option<Duration>,
}

/// Arguments of InterPodAffinity.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct InterPodAffinityArgs {
    /// The weight in scores of a required affinity of another pod for the new pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hard_pod_affinity_weight: Option<i32>,
    /// Whether preferences of running pods are left out when the new pod has none.
    pub ignore_preferred_terms_of_existing_pods: bool,
}

/// Node affinity for every pod of the profile.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeAffinityArgs {
    /// Node affinity that applies to every pod, besides its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added_affinity: Option<NodeAffinityJson>,
}

/// Arguments of NodeResourcesBalancedAllocation: the resources to keep in balance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeResourcesBalancedAllocationArgs {
    /// The resources; their weight must be 1.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ResourceSpec>,
}

/// What must fit, and how fitting nodes compare.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeResourcesFitArgs {
    /// Names of extended resources that are not checked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored_resources: Vec<String>,
    /// Groups of extended resources (the part before the `/`) that are not checked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored_resource_groups: Vec<String>,
    /// By what nodes are scored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scoring_strategy: Option<ScoringStrategy>,
}

/// How NodeResourcesFit scores nodes by the use of their resources.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ScoringStrategy {
    /// `LeastAllocated`, `MostAllocated` or `RequestedToCapacityRatio`; anything else fails validation.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Which resources count, and with which weights.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ResourceSpec>,
    /// The curve, for `RequestedToCapacityRatio` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_to_capacity_ratio: Option<RequestedToCapacityRatio>,
}

/// A curve that gives the score for a utilization, linear between its points.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RequestedToCapacityRatio {
    /// Points of the curve, by increasing utilization.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shape: Vec<UtilizationShapePoint>,
}

/// A resource and its weight in the score.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceSpec {
    /// The resource's name.
    pub name: String,
    /// Its weight; 0 is the same as absent.
    #[serde(skip_serializing_if = "is_zero")]
    pub weight: i64,
}

/// A point of a curve from utilization to score.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct UtilizationShapePoint {
    /// Utilization in percent, 0 to 100.
    pub utilization: i32,
    /// Score, 0 to 10.
    pub score: i32,
}

/// Spreading for pods that ask for none themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodTopologySpreadArgs {
    /// The constraints; their selectors are found per pod.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub default_constraints: Vec<TopologySpreadConstraintJson>,
    /// `System` (built-in constraints) or `List` (the ones above).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub defaulting_type: String,
}

/// Arguments of VolumeBinding.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeBindingArgs {
    /// Limit for binding all volumes of a pod; 0 means no wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bind_timeout_seconds: Option<i64>,
    /// How capacity use turns into a score; needs the gate StorageCapacityScoring. An empty list is not the same as none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<Vec<UtilizationShapePoint>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_zero(value: &i64) -> bool {
    *value == 0
}
