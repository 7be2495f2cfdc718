//! The operations that a workload is made of, as its file writes them.
//!
//! Field names and meanings are the reference's. What is wrong in an operation by itself is reported when it is read; what
//! depends on parameters when it is carried out.

use std::collections::BTreeMap;

use kube_scheduler_config::Duration;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::params::{ParamError, Params};

/// The operations: what each is called in files, in alphabetical order.
macro_rules! operations {
    ($($op:ident = $opcode:literal),* $(,)?) => {
        /// One operation.
        #[derive(Clone, Debug, PartialEq)]
        pub(crate) enum Op {
            $($op($op)),*
        }

        /// All opcodes, for errors.
        const OPCODES: &[&str] = &[$($opcode),*];

        impl Op {
            /// Its name in files.
            pub(crate) fn opcode(&self) -> &'static str {
                match self {
                    $(Self::$op(_) => $opcode),*
                }
            }

            fn of_fields(opcode: String, fields: Value) -> Result<Self, OpError> {
                // The reason is the whole message, so it is not a cause beside one.
                let read = match opcode.as_str() {
                    $($opcode => serde_json::from_value(fields).map(Self::$op),)*
                    _ => return Err(OpError::UnknownOpcode { opcode }),
                };
                read.map_err(|error| OpError::Invalid { opcode, what: error.to_string() })
            }
        }
    };
}

operations! {
    AllocResourceClaims = "allocResourceClaims",
    Barrier = "barrier",
    Churn = "churn",
    CreateAny = "createAny",
    CreateNamespaces = "createNamespaces",
    CreateNodes = "createNodes",
    CreatePodGroups = "createPodGroups",
    CreatePodSets = "createPodSets",
    CreatePods = "createPods",
    CreateResourceClaims = "createResourceClaims",
    CreateResourceDriver = "createResourceDriver",
    DeletePods = "deletePods",
    Sleep = "sleep",
    StartCollectingMetrics = "startCollectingMetrics",
    StopCollectingMetrics = "stopCollectingMetrics",
    UpdateAny = "updateAny",
    WaitForPodGroups = "waitForPodGroups",
}

/// An operation that cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpError {
    #[error("an operation is a mapping with an opcode, not {0}")]
    NoMapping(Value),
    #[error("no opcode; allowed are {}", OPCODES.join(", "))]
    NoOpcode,
    #[error("unknown opcode {opcode:?}; allowed are {}", OPCODES.join(", "))]
    UnknownOpcode { opcode: String },
    #[error("{opcode}: {what}")]
    Invalid { opcode: String, what: String },
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct AllocResourceClaims {
    pub(crate) namespace: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum Stage {
    #[default]
    Scheduled,
    Attempted,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Barrier {
    pub(crate) namespaces: Vec<String>,
    pub(crate) label_selector: BTreeMap<String, String>,
    pub(crate) stage_requirement: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ChurnMode {
    Create,
    Recreate,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Churn {
    pub(crate) mode: ChurnMode,
    /// How many cycles to create for; 0 means without end.
    #[serde(default)]
    pub(crate) number: usize,
    #[serde(default)]
    pub(crate) interval_milliseconds: u64,
    #[serde(default)]
    pub(crate) namespace: Option<String>,
    #[serde(default)]
    pub(crate) template_paths: Vec<String>,
}

/// What templates know besides the number of the object: numbers, or parameters of the workload as `$name`.
pub(crate) type TemplateParams = BTreeMap<String, Value>;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct CreateAny {
    #[serde(default)]
    pub(crate) namespace: String,
    pub(crate) template_path: String,
    #[serde(default)]
    pub(crate) count: Option<usize>,
    #[serde(default)]
    pub(crate) count_param: String,
    #[serde(default)]
    pub(crate) template_params: TemplateParams,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct CreateNamespaces {
    pub(crate) prefix: String,
    pub(crate) count: usize,
    pub(crate) count_param: String,
    pub(crate) namespace_template_path: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct CreateNodes {
    pub(crate) count: usize,
    pub(crate) count_param: String,
    pub(crate) node_template_path: Option<String>,
    pub(crate) node_allocatable_strategy: Option<NodeAllocatableStrategy>,
    pub(crate) label_node_prepare_strategy: Option<LabelNodePrepareStrategy>,
    pub(crate) unique_node_label_strategy: Option<UniqueNodeLabelStrategy>,
    pub(crate) template_params: TemplateParams,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct NodeAllocatableStrategy {
    pub(crate) node_allocatable: BTreeMap<String, String>,
    pub(crate) csi_node_allocatable: BTreeMap<String, Value>,
    pub(crate) migrated_plugins: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct LabelNodePrepareStrategy {
    pub(crate) label_key: String,
    pub(crate) label_values: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct UniqueNodeLabelStrategy {
    pub(crate) label_key: String,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct CreatePodGroups {
    #[serde(default)]
    pub(crate) count: usize,
    #[serde(default)]
    pub(crate) count_param: String,
    pub(crate) namespace: String,
    pub(crate) template_path: String,
    #[serde(default)]
    pub(crate) template_params: TemplateParams,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct CreatePods {
    pub(crate) count: usize,
    pub(crate) count_param: String,
    pub(crate) count_multiplier_param: String,
    pub(crate) steady_state: bool,
    pub(crate) steady_state_param: String,
    pub(crate) duration: Duration,
    pub(crate) duration_param: String,
    pub(crate) collect_metrics: bool,
    pub(crate) namespace: Option<String>,
    pub(crate) pod_template_path: Option<String>,
    pub(crate) skip_wait_to_completion: bool,
    pub(crate) persistent_volume_template_path: Option<String>,
    pub(crate) persistent_volume_claim_template_path: Option<String>,
    pub(crate) template_params: TemplateParams,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct CreatePodSets {
    #[serde(default)]
    pub(crate) count: usize,
    #[serde(default)]
    pub(crate) count_param: String,
    #[serde(default)]
    pub(crate) namespace_prefix: String,
    #[serde(deserialize_with = "create_pods")]
    pub(crate) create_pods_op: CreatePods,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct CreateResourceClaims {
    #[serde(default)]
    pub(crate) count: usize,
    #[serde(default)]
    pub(crate) count_param: String,
    pub(crate) namespace: String,
    pub(crate) template_path: String,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct CreateResourceDriver {
    pub(crate) driver_name: String,
    #[serde(default)]
    pub(crate) max_claims_per_node: usize,
    #[serde(default)]
    pub(crate) max_claims_per_node_param: String,
    pub(crate) nodes: String,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct DeletePods {
    pub(crate) namespace: String,
    #[serde(default)]
    pub(crate) label_selector: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) skip_wait_to_completion: bool,
    #[serde(default)]
    pub(crate) delete_pods_per_second: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Sleep {
    pub(crate) duration: Duration,
    pub(crate) duration_param: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct StartCollectingMetrics {
    pub(crate) name: String,
    pub(crate) namespaces: Vec<String>,
    pub(crate) label_selector: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StopCollectingMetrics {}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct UpdateAny {
    #[serde(default)]
    pub(crate) namespace: String,
    pub(crate) template_path: String,
    #[serde(default)]
    pub(crate) count: Option<usize>,
    #[serde(default)]
    pub(crate) count_param: String,
    #[serde(default)]
    pub(crate) update_per_second: u32,
    #[serde(default)]
    pub(crate) subresources: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct WaitForPodGroups {
    #[serde(default)]
    pub(crate) count: usize,
    #[serde(default)]
    pub(crate) count_param: String,
    pub(crate) namespace: String,
}

impl Op {
    /// Reads an operation.
    pub(crate) fn read(value: Value) -> Result<Self, OpError> {
        let Value::Object(mut fields) = value else { return Err(OpError::NoMapping(value)) };
        let opcode = match fields.remove("opcode") {
            Some(Value::String(opcode)) => opcode,
            Some(other) => return Err(OpError::UnknownOpcode { opcode: other.to_string() }),
            None => return Err(OpError::NoOpcode),
        };
        let op = Self::of_fields(opcode, Value::Object(fields))?;
        match op.fault() {
            Some(what) => Err(OpError::Invalid { opcode: op.opcode().to_owned(), what }),
            None => Ok(op),
        }
    }

    /// Whether results come out of it.
    pub(crate) fn collects_metrics(&self) -> bool {
        match self {
            Self::CreatePods(op) => op.collect_metrics,
            Self::CreatePodSets(op) => op.create_pods_op.collect_metrics,
            Self::StopCollectingMetrics(_) => true,
            _ => false,
        }
    }

    fn fault(&self) -> Option<String> {
        match self {
            Self::Churn(op) if op.mode == ChurnMode::Recreate && op.number == 0 => {
                Some("number cannot be 0 when mode is recreate".to_owned())
            }
            Self::Churn(op) if op.template_paths.is_empty() => {
                Some("at least one template spec file needs to be specified".to_owned())
            }
            Self::CreateNodes(op)
                if op
                    .label_node_prepare_strategy
                    .as_ref()
                    .is_some_and(|labels| labels.label_values.is_empty()) =>
            {
                Some("labelNodePrepareStrategy: labelValues cannot be empty".to_owned())
            }
            Self::CreatePods(op) => op.fault(),
            Self::StartCollectingMetrics(op) if op.namespaces.is_empty() => {
                Some("namespaces cannot be empty".to_owned())
            }
            _ => None,
        }
    }
}

impl CreatePods {
    fn fault(&self) -> Option<String> {
        let what = if self.collect_metrics && self.skip_wait_to_completion {
            "collectMetrics and skipWaitToCompletion cannot be true at the same time"
        } else if self.skip_wait_to_completion && self.steady_state {
            "skipWaitToCompletion and steadyState cannot be true at the same time"
        } else if self.persistent_volume_template_path.is_some()
            != self.persistent_volume_claim_template_path.is_some()
        {
            "persistentVolumeTemplatePath and persistentVolumeClaimTemplatePath need each other"
        } else {
            return None;
        };
        Some(what.to_owned())
    }
}

/// A count: the parameter's if one is named, else the one that is written.
pub(crate) fn counted(
    field: &'static str,
    written: usize,
    param: &str,
    params: &mut Params,
) -> Result<usize, ParamError> {
    if param.is_empty() { Ok(written) } else { params.count(field, param) }
}

/// The operation inside another has an opcode too.
fn create_pods<'de, D: Deserializer<'de>>(deserializer: D) -> Result<CreatePods, D::Error> {
    match Op::read(Value::deserialize(deserializer)?) {
        Ok(Op::CreatePods(op)) => Ok(op),
        Ok(_) => Err(D::Error::custom("createPodsOp must have the opcode createPods")),
        Err(error) => Err(D::Error::custom(error)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(value: Value) -> String {
        Op::read(value).unwrap_err().to_string()
    }

    #[test]
    fn fields_have_the_references_names_and_defaults() {
        let op = Op::read(json!({"opcode": "createPods", "countParam": "$n", "duration": "10s",
            "collectMetrics": true}))
        .unwrap();
        let Op::CreatePods(pods) = &op else { panic!("{op:?}") };
        assert_eq!((pods.count, pods.count_param.as_str()), (0, "$n"));
        assert_eq!(pods.duration, Duration::from_secs(10));
        assert!(op.collects_metrics());
        assert_eq!(op.opcode(), "createPods");
        let op = Op::read(json!({"opcode": "barrier"})).unwrap();
        assert_eq!(op, Op::Barrier(Barrier::default()));
    }

    #[test]
    fn every_opcode_is_known_by_its_name() {
        for opcode in OPCODES {
            let error = Op::read(json!({"opcode": opcode, "nonsense": 1})).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("unknown field `nonsense`"), "{opcode}: {text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_what_is_allowed() {
        let text = refused(json!({"opcode": "createPod"}));
        assert!(
            text.starts_with(
                "unknown opcode \"createPod\"; allowed are allocResourceClaims, barrier"
            )
        );
        let text = refused(json!({"opcode": "sleep", "time": "1s"}));
        assert_eq!(text, "sleep: unknown field `time`, expected `duration` or `durationParam`");
        assert_eq!(
            refused(json!({"opcode": "churn", "mode": "recreate", "templatePaths": ["a"]})),
            "churn: number cannot be 0 when mode is recreate"
        );
        assert_eq!(
            refused(json!({"opcode": "barrier", "stageRequirement": "Bound"})),
            "barrier: unknown variant `Bound`, expected `Scheduled` or `Attempted`"
        );
        assert_eq!(
            refused(json!({"opcode": "createPodSets", "createPodsOp": {"opcode": "createPods",
                "collectMetrics": true, "skipWaitToCompletion": true}})),
            "createPodSets: createPods: collectMetrics and skipWaitToCompletion cannot be true at the same time"
        );
        assert_eq!(
            refused(json!({"opcode": "createPodSets", "createPodsOp": {"opcode": "barrier"}})),
            "createPodSets: createPodsOp must have the opcode createPods"
        );
    }
}
