//! From the `spec` of a question to what is computed.

use std::sync::Arc;

use kube_scheduler_api_types::{CompileOptions, Node, Object, Pod, PodGroup, Taint, TaintEffect};
use serde_json::Value;

use super::claims::Claims;
use super::specs::{
    AddPodsSpec, CapacitySpec, ChangeSpec, ClaimsSpec, DrainSpec, EffectSpec, FragmentationSpec,
    PodQuestionSpec, PodReferenceSpec, QueueSpec, WhatIfSpec,
};
use super::{QuestionKind, RequestError, typed, uid};
use crate::ExplainOptions;
use crate::capacity::CapacityOptions;
use crate::explanation::{Subject, Visibility};
use crate::fragmentation::FragmentationOptions;
use crate::pod_name::{PodName, generated_name};
use crate::queue::QueueOptions;
use crate::what_if::{Change, QuestionLimits};

const DEFAULT_SCHEDULER: &str = "default-scheduler";
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
pub(crate) enum Asked {
    Explanation { subject: Subject, suggest: bool },
    Preemption { subject: Subject },
    WhatIf { changes: Vec<Change> },
    Capacity { template: Arc<Pod>, options: CapacityOptions },
    Queue { options: QueueOptions },
    Fragmentation { options: FragmentationOptions },
}

/// What is asked, what its reader has to see to ask it, and the claims that come with it.
pub(super) struct Read {
    pub(super) asked: Asked,
    pub(super) demands: Visibility,
    pub(super) claims: Claims,
}

const ANYBODY: Visibility = Visibility { nodes: false, all_pods: false };

impl Read {
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
                Ok(Self::of(Asked::WhatIf { changes }))
            }
            QuestionKind::Capacity => {
                let CapacitySpec { pod, max, steps, claims } = typed("spec", spec)?;
                let template = Arc::new(manifest(pod, namespace, &SUBJECT, options)?);
                let defaults = CapacityOptions::default();
                let max = bounded("spec.max", max, defaults.max, MAX_CAPACITY)?;
                let explain = ExplainOptions::ALL;
                let options = CapacityOptions { max, steps, explain, ..defaults };
                Self::of(Asked::Capacity { template, options }).with_claims(claims, namespace)
            }
            QuestionKind::Queue => {
                let QueueSpec { limit } = typed("spec", spec)?;
                let defaults = QueueOptions::default();
                let max_listed = bounded("spec.limit", limit, defaults.max_listed, MAX_LISTED)?;
                let options = QueueOptions { max_listed, ..defaults };
                Ok(Self::of(Asked::Queue { options }))
            }
            QuestionKind::Fragmentation => {
                let FragmentationSpec { by, max_shapes } = typed("spec", spec)?;
                let defaults = FragmentationOptions::default();
                let max_shapes =
                    bounded("spec.maxShapes", max_shapes, defaults.max_shapes, MAX_SHAPES)?;
                let options = FragmentationOptions { by, max_shapes, ..defaults };
                Ok(Self::of(Asked::Fragmentation { options }))
            }
        }
    }

    /// What anybody may ask who may ask at all.
    fn of(asked: Asked) -> Self {
        Self { asked, demands: ANYBODY, claims: Claims::default() }
    }

    fn with_claims(self, given: ClaimsSpec, namespace: &Arc<str>) -> Result<Self, RequestError> {
        let claims = Claims::read(given.0, namespace)?;
        let nodes = self.demands.nodes || claims.are_bound;
        Ok(Self { claims, demands: Visibility { nodes, ..self.demands }, ..self })
    }
}

fn field(field: &'static str, problem: impl Into<String>) -> RequestError {
    RequestError::Field { field: field.into(), problem: problem.into() }
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
) -> Result<Read, RequestError> {
    let PodQuestionSpec { pod_name, pod, suggest, claims } = typed("spec", spec)?;
    if suggest && kind != QuestionKind::Explanation {
        let problem = format!("a question of kind {} has no suggestions", kind.kind());
        return Err(field("spec.suggest", problem));
    }
    let subject = match (pod_name, pod) {
        (Some(name), None) if !name.is_empty() => {
            Subject::Known(PodName { namespace: namespace.clone(), name: name.into() })
        }
        (None, Some(pod)) => {
            Subject::Manifest(Arc::new(manifest(pod, namespace, &SUBJECT, options)?))
        }
        _ => return Err(field("spec", "expected either podName or pod")),
    };
    let asked = match kind {
        QuestionKind::Preemption => Asked::Preemption { subject },
        _ => Asked::Explanation { subject, suggest },
    };
    Read::of(asked).with_claims(claims, namespace)
}

fn what_if(
    namespace: &Arc<str>,
    spec: &Value,
    options: &CompileOptions,
) -> Result<Read, RequestError> {
    let WhatIfSpec { changes: specs, claims } = typed("spec", spec)?;
    if specs.is_empty() {
        return Err(field("spec.changes", "expected one change or more"));
    }
    let (mut changes, mut demands) = (Vec::new(), ANYBODY);
    let max = QuestionLimits::default().max_changes;
    for spec in specs {
        let (of_pods, n) = match &spec {
            ChangeSpec::AddPods(added) => (true, added.count.unwrap_or(1)),
            ChangeSpec::AddPodGroup(_) | ChangeSpec::DeletePod(_) | ChangeSpec::EvictPod(_) => {
                (true, 1)
            }
            _ => (false, 1),
        };
        if n > max.saturating_sub(changes.len()) {
            let problem = format!("too many changes: at most {max} are allowed");
            return Err(field("spec.changes", problem));
        }
        demands.nodes |= !of_pods;
        add_changes(spec, namespace, options, &mut changes)?;
    }
    demands.all_pods = changes.iter().any(|change| match change {
        Change::AddPod(pod) => pod.namespace != *namespace,
        Change::AddPodGroup(group) => group.namespace != *namespace,
        Change::DeletePod(name) | Change::EvictPod(name) => name.namespace != *namespace,
        _ => false,
    });
    Read { demands, ..Read::of(Asked::WhatIf { changes }) }.with_claims(claims, namespace)
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
            Change::AddPodGroup(pod_group(added.pod_group, namespace)?)
        }
        ChangeSpec::DeletePod(pod) => Change::DeletePod(pod.name_in(namespace)),
        ChangeSpec::EvictPod(pod) => Change::EvictPod(pod.name_in(namespace)),
        ChangeSpec::AddNode(added) => {
            let node = Node::from_json(added.node.to_string())
                .map_err(|error| field("spec.changes.addNode.node", error.to_string()))?;
            Change::AddNode(Arc::new(node))
        }
        ChangeSpec::AddNodesLike(like) => {
            Change::AddNodesLike { node: like.name.into(), count: like.count }
        }
        ChangeSpec::RemoveNode(node) => Change::RemoveNode(node.name.into()),
        ChangeSpec::Cordon(node) => Change::Cordon(node.name.into()),
        ChangeSpec::Uncordon(node) => Change::Uncordon(node.name.into()),
        ChangeSpec::Drain(node) if node.disable_eviction => Change::DrainAtOnce(node.name.into()),
        ChangeSpec::Drain(node) => Change::Drain(node.name.into()),
        ChangeSpec::Taint(taint) => {
            let effect = match taint.effect {
                EffectSpec::NoSchedule => TaintEffect::NoSchedule,
                EffectSpec::PreferNoSchedule => TaintEffect::PreferNoSchedule,
                EffectSpec::NoExecute => TaintEffect::NoExecute,
            };
            let (key, value) = (taint.key.into(), taint.value.into());
            Change::Taint { node: taint.name.into(), taint: Taint { key, value, effect } }
        }
        ChangeSpec::Label(label) => {
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

/// A pod group of a question, in the question's namespace unless it names another one.
fn pod_group(mut group: Value, namespace: &Arc<str>) -> Result<Arc<Object>, RequestError> {
    const AT: &str = "spec.changes.addPodGroup.podGroup";

    let refused = |problem: String| field(AT, problem);
    if group["metadata"].is_object() && group["metadata"]["namespace"].is_null() {
        group["metadata"]["namespace"] = Value::from(&**namespace);
    }
    let mut group = Object::from_value(group).map_err(|error| refused(error.to_string()))?;
    if (&*group.group, &*group.kind) != (PodGroup::GROUP, PodGroup::KIND) || group.name.is_empty() {
        let expected = format!("expected a {} of {} with a name", PodGroup::KIND, PodGroup::GROUP);
        return Err(refused(expected));
    }
    PodGroup::from_object(&group).map_err(|error| refused(error.to_string()))?;
    group.uid = uid(&group.namespace, &group.name);
    Ok(Arc::new(group))
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
    let Some(count) = count else {
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

/// Where a manifest stands in a question, for messages.
struct Place {
    pod: &'static str,
    priority: &'static str,
    /// The field that may name no other namespace than that of the question, if it may not.
    namespace: Option<&'static str>,
}

const SUBJECT: Place = Place {
    pod: "spec.pod",
    priority: "spec.pod.spec.priority",
    namespace: Some("spec.pod.metadata.namespace"),
};
const ADDED: Place = Place {
    pod: "spec.changes.addPods.pod",
    priority: "spec.changes.addPods.pod.spec.priority",
    namespace: None,
};

/// A pod of a question, in the question's namespace unless it names another one and may.
fn manifest(
    mut pod: Value,
    namespace: &Arc<str>,
    at: &Place,
    options: &CompileOptions,
) -> Result<Pod, RequestError> {
    let meta = pod.get("metadata").and_then(|meta| meta.get("namespace"));
    if let Some(field) = at.namespace {
        super::in_namespace(meta, namespace, field)?;
    }
    let given = meta.and_then(Value::as_str).filter(|given| !given.is_empty());
    let namespace: Arc<str> = given.map_or_else(|| namespace.clone(), Arc::from);
    if pod["spec"]["priority"].is_null() && !pod["spec"]["priorityClassName"].is_null() {
        let problem = "is not set although there is a priorityClassName: send the pod as an API server would store it, \
                       for example from kubectl create --dry-run=server -o json";
        return Err(field(at.priority, problem));
    }
    if pod["spec"].is_object() && pod["spec"]["schedulerName"].is_null() {
        pod["spec"]["schedulerName"] = DEFAULT_SCHEDULER.into();
    }
    let pod = Pod::from_json_with(pod.to_string(), options)
        .map_err(|error| field(at.pod, error.to_string()))?;
    let name: Arc<str> = if pod.name.is_empty() { "pod".into() } else { pod.name.clone() };
    let uid = uid(&namespace, &name);
    Ok(Pod { namespace, name, uid, ..pod })
}
