//! The Kubernetes API objects that a scheduler reads, in a compact form that is compiled once.
//!
//! Pods and nodes arrive as JSON, are decoded into the lean types of [`wire`] and compiled into [`Pod`] and [`Node`]:
//! quantities parsed, requests totalled, selectors and tolerations ready to match, strings shared. Nothing a decision
//! does not need survives, and nothing needs to be parsed again while scheduling.
//!
//! The crate stands alone: no I/O, no clock, no threads, and no randomness except for the key of [`KeyedState`]; time is an
//! argument. No input panics. Where
//! upstream has an exact behaviour (rounding, overflow, error texts) this crate has the same, and recorded answers of
//! the reference pin it.
//!
//! ```
//! use kube_scheduler_api_types::{Node, Pod, required_node_affinity_matches, untolerated_taint};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pod = Pod::from_json(
//!     r#"{"metadata": {"namespace": "default", "name": "web"},
//!         "spec": {"nodeSelector": {"disk": "ssd"},
//!                  "containers": [{"name": "a", "resources": {"requests": {"cpu": "250m", "memory": "1.5Gi"}}},
//!                                 {"name": "b", "resources": {"requests": {"cpu": "0.5m"}}}]}}"#,
//! )?;
//! assert_eq!(pod.requests.accounted.milli_cpu, 251); // exact sum, rounded up once
//! assert_eq!(pod.requests.accounted.memory, 1_610_612_736);
//!
//! let node = Node::from_json(
//!     r#"{"metadata": {"name": "n1", "labels": {"disk": "ssd"}},
//!         "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}}"#,
//! )?;
//! assert!(required_node_affinity_matches(&pod, &node)?);
//! assert!(untolerated_taint(&node.taints, &pod.spec.tolerations, false).is_some());
//!
//! let error = Pod::from_json(r#"{"metadata": {"name": "p"}, "spec": {"overhead": {"cpu": "1 core"}}}"#);
//! assert!(error.is_err_and(|error| error.to_string().starts_with("pod p: spec.overhead[cpu]: quantities must match")));
//! # Ok(())
//! # }
//! ```

#[doc(hidden)]
pub mod numbers;
pub mod protobuf;
pub mod quantity;
pub mod selector;
pub mod validation;
pub mod well_known;
pub mod wire;

mod affinity;
mod claim_defaults;
mod compile;
mod csi_migration;
mod features;
mod float_text;
mod images;
mod json;
mod labels;
mod lazy_json;
mod names;
mod node;
mod node_claims;
mod object;
mod options;
mod pod;
mod pod_group;
mod requests;
mod resources;
mod source;
mod storage;
mod taint;
mod topology;

pub use affinity::{
    NodeAffinity, PodAffinity, PodAffinityTerm, PreferredNodeTerms, WeightedPodAffinityTerm,
    node_satisfies_required_affinity, required_node_affinity_matches,
};
pub use kube_scheduler_primitives::{
    KeyedMap, KeyedSet, KeyedState, Timestamp, WorkMeter, lock, named_enum,
};

pub use claim_defaults::default_device_requests;
pub use compile::DecodeError;
pub use csi_migration::{CsiTranslationError, CsiVolume, InTreePlugin};
pub use float_text::float_text;
pub use json::{Fields, Json, JsonError};
pub use labels::Labels;
pub use lazy_json::LazyJson;
pub use names::{
    CPU, DEVICE_CLASS_PREFIX, EPHEMERAL_STORAGE, MEMORY, PODS, is_dra_extended_resource,
    is_extended_resource, is_scalar_resource, may_be_dra_extended_resource,
};
pub use node::{Node, NodeImage};
pub use node_claims::NodeResourceClaim;
pub use object::Object;
pub use options::CompileOptions;
pub use pod::{
    ClaimOfPod, ConditionText, ContainerResources, ControllerRef, ExtendedResourceClaim, HostPort,
    Pod, PodCondition, PodImages, PodResourceClaim, PodSpec, PodStatus, RequestMapping,
    ResourceClaimName,
};
pub use pod_group::{DisruptionMode, GroupPolicy, PodGroup};
pub use quantity::{Quantity, QuantityError};
pub use requests::PodRequests;
pub use resources::{NonZeroRequest, ResourceName, Resources};
pub use selector::{
    FieldComparison, FieldRequirement, FieldSelector, LabelSelector, NodeNames, NodeSelector,
    NodeSelectorTerm, Operator, PreferredNodeTerm, Requirement, SelectorError,
};
pub use source::{Source, SourceError};
pub use storage::{ClaimOfVolume, Volume, VolumeSource};
pub use taint::{Taint, TaintEffect, Toleration, TolerationOperator, untolerated_taint};
pub use topology::{NodeInclusionPolicy, TopologySpreadConstraint, WhenUnsatisfiable};
