//! From the `spec` of a question to what is computed.

use std::sync::Arc;

use kube_scheduler_api_types::{CompileOptions, Node, Pod, Taint, TaintEffect};
use serde_json::Value;

use super::objects::Objects;
use super::rules::{check_key, check_pair};
use super::specs::{
    AddPodsSpec, CapacitySpec, ChangeSpec, DrainSpec, EffectSpec, FragmentationSpec, ObjectsSpec,
    PodQuestionSpec, PodReferenceSpec, QueueSpec, WhatIfSpec,
};
use super::{Question, QuestionKind, RequestError, in_namespace, typed};
use crate::ExplainOptions;
use crate::capacity::CapacityOptions;
use crate::explanation::{Subject, Visibility};
use crate::fragmentation::FragmentationOptions;
use crate::manifests::{Place, manifest, pod_group, uid};
use crate::pod_name::{PodName, generated_name};
use crate::queue::QueueOptions;
use crate::what_if::{Change, QuestionLimits, Workload};

/// How far a question over HTTP may have pods counted.
const MAX_CAPACITY: usize = 100_000;
/// The largest number that the first of several pods may have.
const MAX_FIRST: usize = 1_000_000;
/// How many shapes one may have tried.
const MAX_SHAPES: usize = 200;
/// How many pods and groups of a queue one may have listed.
const MAX_LISTED: usize = 10_000;

/// What is to be computed.
#[derive(Clone, Debug)]
pub(crate) enum Computation {
    Explanation { subject: Subject, suggest: bool },
    Preemption { subject: Subject },
    WhatIf { changes: Vec<Change> },
    Capacity { template: Arc<Pod>, options: CapacityOptions },
    Queue { options: QueueOptions },
    Fragmentation { options: FragmentationOptions },
}

impl Question {
    /// Whether its answer takes no longer than a few attempts at a pod or its group: nothing is tried again and again for it.
    pub fn is_brief(&self) -> bool {
        match &self.asked {
            Computation::Explanation { suggest, .. } => !suggest,
            Computation::Preemption { .. } => true,
            Computation::Queue { options } => !options.from_objects,
            Computation::WhatIf { .. }
            | Computation::Capacity { .. }
            | Computation::Fragmentation { .. } => false,
        }
    }
}

/// What is asked, what its reader has to see to ask it, and what comes with its pods.
pub(super) struct ParsedRequest {
    pub(super) asked: Computation,
    pub(super) demands: Visibility,
    pub(super) objects: Objects,
}

const SUBJECT: Place = Place {
    object: "spec.pod",
    priority: "spec.pod.spec.priority",
    how: "send the pod as an API server would store it, for example from kubectl create --dry-run=server -o json",
};
const ADDED: Place = Place {
    object: "spec.changes.addPods.pod",
    priority: "spec.changes.addPods.pod.spec.priority",
    ..SUBJECT
};

const ANYBODY: Visibility = Visibility { nodes: false, all_pods: false };

impl ParsedRequest {
    /// Reads the `spec` of a question; the namespace is empty for the whole cluster. Pods in it are read with `options`.
    pub(super) fn from_spec(
        kind: QuestionKind,
        namespace: &Arc<str>,
        spec: &Value,
        options: &CompileOptions,
    ) -> Result<Self, RequestError> {
        match kind {
            QuestionKind::Explanation | QuestionKind::Preemption => {
                about_pod(kind, namespace, spec, options)
            }
            QuestionKind::WhatIf => what_if(namespace, spec, options),
            QuestionKind::Drain => {
                let DrainSpec { nodes, disable_eviction } = typed("spec", spec)?;
                if nodes.is_empty() {
                    return Err(field("spec.nodes", "expected one node or more"));
                }
                let changes = Change::draining(&nodes, disable_eviction);
                // A caller who may ask about the whole cluster may name its nodes.
                Ok(Self::of(Computation::WhatIf { changes }))
            }
            QuestionKind::Capacity => {
                let CapacitySpec { pod, max, steps, objects } = typed("spec", spec)?;
                let template = Arc::new(subject(pod, namespace, options)?);
                let defaults = CapacityOptions::default();
                let max = at_least_one("spec.max", max)?;
                let max = bounded("spec.max", max, defaults.max, MAX_CAPACITY)?;
                let explain = ExplainOptions::ALL;
                let options = CapacityOptions { max, steps, explain, ..defaults };
                Self::of(Computation::Capacity { template, options })
                    .with_objects(objects, namespace)
            }
            QuestionKind::Queue => {
                let QueueSpec { limit } = typed("spec", spec)?;
                let defaults = QueueOptions::default();
                let max_listed = bounded("spec.limit", limit, defaults.max_listed, MAX_LISTED)?;
                let options = QueueOptions { max_listed, ..defaults };
                Ok(Self::of(Computation::Queue { options }))
            }
            QuestionKind::Fragmentation => {
                let FragmentationSpec { by, max_shapes } = typed("spec", spec)?;
                by.as_deref()
                    .map_or(Ok(()), check_key)
                    .map_err(|error| field("spec.by", error.to_string()))?;
                let defaults = FragmentationOptions::default();
                let max_shapes =
                    bounded("spec.maxShapes", max_shapes, defaults.max_shapes, MAX_SHAPES)?;
                let options = FragmentationOptions { by, max_shapes, ..defaults };
                Ok(Self::of(Computation::Fragmentation { options }))
            }
        }
    }

    /// What anybody may ask who may ask at all.
    fn of(asked: Computation) -> Self {
        Self { asked, demands: ANYBODY, objects: Objects::default() }
    }

    fn with_objects(self, given: ObjectsSpec, namespace: &Arc<str>) -> Result<Self, RequestError> {
        let objects = Objects::read(given.0, namespace)?;
        let nodes = self.demands.nodes || objects.are_bound;
        let all_pods = self.demands.all_pods || objects.are_elsewhere;
        Ok(Self { objects, demands: Visibility { nodes, all_pods }, ..self })
    }
}

fn field(field: &'static str, problem: impl Into<String>) -> RequestError {
    RequestError::Field { field: field.into(), problem: problem.into() }
}

/// The pod that a question is about: of the question's namespace.
fn subject(
    pod: Value,
    namespace: &Arc<str>,
    options: &CompileOptions,
) -> Result<Pod, RequestError> {
    let given = pod.get("metadata").and_then(|meta| meta.get("namespace"));
    in_namespace(given, namespace, "spec.pod.metadata.namespace")?;
    Ok(manifest(pod, namespace, &SUBJECT, options)?)
}

/// A number that is not 0 if it is given.
fn at_least_one(name: &'static str, given: Option<usize>) -> Result<Option<usize>, RequestError> {
    match given {
        Some(0) => Err(field(name, "0: expected 1 or more")),
        given => Ok(given),
    }
}

fn bounded(
    name: &'static str,
    given: Option<usize>,
    default: usize,
    max: usize,
) -> Result<usize, RequestError> {
    match given.unwrap_or(default) {
        n if n > max => Err(field(name, format!("{n}: at most {max} is allowed"))),
        n => Ok(n),
    }
}

fn about_pod(
    kind: QuestionKind,
    namespace: &Arc<str>,
    spec: &Value,
    options: &CompileOptions,
) -> Result<ParsedRequest, RequestError> {
    let PodQuestionSpec { pod_name, pod, suggest, objects } = typed("spec", spec)?;
    if suggest && kind != QuestionKind::Explanation {
        let problem = format!("a question of kind {} has no suggestions", kind.kind());
        return Err(field("spec.suggest", problem));
    }
    let subject = match (pod_name, pod) {
        (Some(name), None) if !name.is_empty() => {
            Subject::Known(PodName { namespace: namespace.clone(), name: name.into() })
        }
        (None, Some(pod)) => Subject::Manifest(Arc::new(subject(pod, namespace, options)?)),
        _ => return Err(field("spec", "expected either podName or pod")),
    };
    let asked = match kind {
        QuestionKind::Preemption => Computation::Preemption { subject },
        _ => Computation::Explanation { subject, suggest },
    };
    ParsedRequest::of(asked).with_objects(objects, namespace)
}

fn what_if(
    namespace: &Arc<str>,
    spec: &Value,
    options: &CompileOptions,
) -> Result<ParsedRequest, RequestError> {
    let WhatIfSpec { changes: specs, objects } = typed("spec", spec)?;
    if specs.is_empty() {
        return Err(field("spec.changes", "expected one change or more"));
    }
    let (mut changes, mut demands) = (Vec::new(), ANYBODY);
    let max = QuestionLimits::default().max_changes;
    for spec in specs {
        let (of_pods, n) = match &spec {
            ChangeSpec::AddPods(added) => (true, added.count.unwrap_or(1)),
            ChangeSpec::AddPodGroup(_)
            | ChangeSpec::AddWorkload(_)
            | ChangeSpec::DeletePod(_)
            | ChangeSpec::EvictPod(_) => (true, 1),
            _ => (false, 1),
        };
        if n > max.saturating_sub(changes.len()) {
            let problem = format!("too many changes: at most {max} are allowed");
            return Err(field("spec.changes", problem));
        }
        demands.nodes |= !of_pods;
        add_changes(spec, namespace, options, &mut changes)?;
    }
    demands.nodes |= changes
        .iter()
        .any(|change| matches!(change, Change::AddWorkload(workload) if workload.names_volumes()));
    demands.all_pods = changes.iter().any(|change| match change {
        Change::AddPod(pod) => pod.namespace != *namespace,
        Change::AddPodGroup(group) => group.namespace != *namespace,
        Change::AddWorkload(workload) => workload.namespace() != &**namespace,
        Change::DeletePod(name) | Change::EvictPod(name) => name.namespace != *namespace,
        _ => false,
    });
    ParsedRequest { demands, ..ParsedRequest::of(Computation::WhatIf { changes }) }
        .with_objects(objects, namespace)
}

fn add_changes(
    spec: ChangeSpec,
    namespace: &Arc<str>,
    options: &CompileOptions,
    changes: &mut Vec<Change>,
) -> Result<(), RequestError> {
    let change = match spec {
        ChangeSpec::AddPods(added) => {
            changes.extend(pods(added, namespace, options)?.into_iter().map(Change::AddPod));
            return Ok(());
        }
        ChangeSpec::AddPodGroup(added) => {
            const AT: &str = "spec.changes.addPodGroup.podGroup";
            Change::AddPodGroup(pod_group(added.pod_group, namespace, AT)?)
        }
        ChangeSpec::AddWorkload(added) => {
            let workload = Workload::read(added.workload, namespace, options)?;
            Change::AddWorkload(Arc::new(workload))
        }
        ChangeSpec::DeletePod(pod) => Change::DeletePod(pod.name_in(namespace)),
        ChangeSpec::EvictPod(pod) => Change::EvictPod(pod.name_in(namespace)),
        ChangeSpec::AddNode(added) => {
            let node = Node::from_json(added.node.to_string())
                .map_err(|error| field("spec.changes.addNode.node", error.to_string()))?;
            Change::AddNode(Arc::new(node))
        }
        ChangeSpec::AddNodesLike(like) => {
            at_least_one("spec.changes.addNodesLike.count", Some(like.count))?;
            Change::AddNodesLike { node: like.name.into(), count: like.count }
        }
        ChangeSpec::RemoveNode(node) => Change::RemoveNode(node.name.into()),
        ChangeSpec::Cordon(node) => Change::Cordon(node.name.into()),
        ChangeSpec::Uncordon(node) => Change::Uncordon(node.name.into()),
        ChangeSpec::Drain(node) if node.disable_eviction => Change::DrainAtOnce(node.name.into()),
        ChangeSpec::Drain(node) => Change::Drain(node.name.into()),
        ChangeSpec::Taint(taint) => {
            check_pair(&taint.key, &taint.value)
                .map_err(|error| field("spec.changes.taint", error.to_string()))?;
            let effect = match taint.effect {
                EffectSpec::NoSchedule => TaintEffect::NoSchedule,
                EffectSpec::PreferNoSchedule => TaintEffect::PreferNoSchedule,
                EffectSpec::NoExecute => TaintEffect::NoExecute,
            };
            let (key, value) = (taint.key.into(), taint.value.into());
            Change::Taint { node: taint.name.into(), taint: Taint { key, value, effect } }
        }
        ChangeSpec::Label(label) => {
            check_pair(&label.key, &label.value)
                .map_err(|error| field("spec.changes.label", error.to_string()))?;
            let (key, value) = (label.key.into(), label.value.into());
            Change::Label { node: label.name.into(), key, value }
        }
    };
    changes.push(change);
    Ok(())
}

impl PodReferenceSpec {
    /// The pod's name, in the question's namespace unless it names another one.
    fn name_in(self, namespace: &Arc<str>) -> PodName {
        let namespace = self.namespace.map_or_else(|| namespace.clone(), Arc::from);
        PodName { namespace, name: self.name.into() }
    }
}

/// Pods that are alike except for their names.
fn pods(
    added: AddPodsSpec,
    namespace: &Arc<str>,
    options: &CompileOptions,
) -> Result<Vec<Arc<Pod>>, RequestError> {
    const FIRST: &str = "spec.changes.addPods.first";

    let AddPodsSpec { pod, count, first } = added;
    let text = |name: &str| pod["metadata"][name].as_str().filter(|text| !text.is_empty());
    let prefix = text("generateName").filter(|_| text("name").is_none()).map(str::to_owned);
    let pod = manifest(pod, namespace, &ADDED, options)?;
    let Some(count) = at_least_one("spec.changes.addPods.count", count)? else {
        return match first {
            Some(_) => Err(field(FIRST, "is the number of the first of several: expected a count")),
            None => Ok(vec![Arc::new(pod)]),
        };
    };
    let first = bounded(FIRST, first, 1, MAX_FIRST)?;
    let numbered = (first..first.saturating_add(count)).map(|number| {
        let name: Arc<str> = match &prefix {
            Some(prefix) => generated_name(prefix, number).into(),
            None => format!("{}-{number}", pod.name).into(),
        };
        let uid = uid(&pod.namespace, &name);
        Arc::new(Pod { name, uid, ..pod.clone() })
    });
    Ok(numbered.collect())
}
