//! Workloads that are created in a question: what their controllers would make of them.

use std::sync::Arc;

use kube_scheduler_api_types::{CompileOptions, Node, Object, Pod};
use kube_scheduler_engine::Input;
use kube_scheduler_workloads::Controller;
use kube_scheduler_workloads::defaults::complete_pod;
use kube_scheduler_workloads::json::{group_and_kind, list_at, meta_mut, text_at};
use serde_json::Value;

use super::changes::{AffectedPods, add_group, add_pod};
use crate::claims;
use crate::course::Course;
use crate::manifests::{FieldProblem, Place, manifest, pod_group, uid};
use crate::pod_name::generated_name;
use crate::typed::Mistake;
use crate::{API_GROUP, Refusal};

const AT: &str = "spec.changes.addWorkload.workload";
const POD: Place = Place {
    object: AT,
    priority: "spec.priority",
    how: "set it in the template, or ask with the command, which reads the cluster's classes of priority",
};
/// How many bytes of JSON the pods of a question's workloads may have: together, and only those that differ from the one before.
const MAX_LENGTH: usize = 64 << 20;
const MAX_DIFFERENT: usize = 4 << 20;

/// A workload that is created, with the objects and pods that its controller makes.
#[derive(Clone, Debug)]
pub struct Workload {
    value: Value,
    namespace: Arc<str>,
    options: CompileOptions,
}

impl Workload {
    /// Reads a workload, in `namespace` unless it names another one.
    pub(crate) fn read(
        mut value: Value,
        namespace: &Arc<str>,
        options: &CompileOptions,
    ) -> Result<Self, FieldProblem> {
        let is_known = Controller::KINDS.contains(&group_and_kind(&value));
        if !is_known || text_at(&value, &["metadata", "name"]).is_empty() {
            let kinds = Controller::KINDS.map(|(_, kind)| kind).join(", ");
            let problem = format!("expected one of {kinds}, with apiVersion and name");
            return Err(FieldProblem { field: AT, problem });
        }
        if let Some((field, count)) = Controller::new(&value).negative_count() {
            let problem = format!("spec.{field}: expected 0 or more, found {count}");
            return Err(FieldProblem { field: AT, problem });
        }
        let given = text_at(&value, &["metadata", "namespace"]);
        let namespace = if given.is_empty() { namespace.clone() } else { given.into() };
        meta_mut(&mut value).insert("namespace".to_owned(), Value::from(&*namespace));
        Ok(Self { value, namespace, options: *options })
    }

    /// The namespace that it is created in.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Whether its claims have their volumes already: these are objects of the whole cluster, as nodes are.
    pub(crate) fn names_volumes(&self) -> bool {
        let claims = list_at(&self.value, &["spec", "volumeClaimTemplates"]);
        claims.iter().any(|claim| !text_at(claim, &["spec", "volumeName"]).is_empty())
    }
}

/// The creation of all workloads of a question.
pub(super) struct Creation {
    /// How many pods there may be still.
    room: usize,
    /// How many changes a question may have.
    max: usize,
    n_generated: usize,
    /// Bytes of JSON, and of those of them that were read.
    length: usize,
    different: usize,
}

/// The creation of one of them.
struct Objects<'a> {
    creation: &'a mut Creation,
    course: &'a mut Course,
    touched: &'a mut AffectedPods,
    workload: &'a Workload,
    /// The nodes of the cluster, for a DaemonSet.
    nodes: Vec<Node>,
    /// Bytes of the workload, which each pod has at most.
    length: usize,
    /// A pod without its name, as JSON and as it was read.
    last: Option<(Value, Pod)>,
}

impl Creation {
    /// In a question with so many changes.
    pub(super) const fn new(n_changes: usize, max: usize) -> Self {
        let room = max.saturating_sub(n_changes);
        Self { room, max, n_generated: 0, length: 0, different: 0 }
    }

    /// Creates a workload.
    pub(super) fn carry_out(
        &mut self,
        course: &mut Course,
        workload: &Workload,
        touched: &mut AffectedPods,
    ) -> Result<(), Refusal> {
        let cluster = course.engine.cluster();
        let nodes = match group_and_kind(&workload.value) {
            (_, "DaemonSet") => {
                let nodes = cluster.live_nodes().iter().filter_map(|idx| cluster.node(idx));
                let mut nodes: Vec<Node> = nodes.map(|node| (**node).clone()).collect();
                nodes.sort_by(|a, b| a.name.cmp(&b.name));
                nodes
            }
            _ => Vec::new(),
        };
        let length = workload.value.to_string().len();
        let creation = self;
        let mut objects =
            Objects { creation, course, touched, workload, nodes, length, last: None };
        objects.add_dependents(&workload.value)
    }
}

impl Objects<'_> {
    /// Adds what a controller makes, and the controller itself if pods are spread by what it selects.
    fn add_dependents(&mut self, controller: &Value) -> Result<(), Refusal> {
        let (group, kind) = group_and_kind(controller);
        let controller = Controller::new(controller);
        if Object::selects_pods(group, kind) {
            self.add_object(controller.selecting())?;
        }
        let nodes = std::mem::take(&mut self.nodes);
        let mut dependents = controller.dependents(&nodes);
        let added = dependents.try_for_each(|dependent| self.add(dependent.value));
        drop(dependents);
        self.nodes = nodes;
        added
    }

    fn add(&mut self, value: Value) -> Result<(), Refusal> {
        if self.course.is_interrupted() {
            return Ok(());
        }
        match group_and_kind(&value) {
            ("", "Pod") => self.add_pod(value),
            ("", "PersistentVolumeClaim") => {
                claims::has_volume(&value).map_err(|Mistake { path, problem }| {
                    let claim = text_at(&value, &["metadata", "name"]);
                    self.refused(format!("PersistentVolumeClaim {claim}{path}: {problem}"))
                })?;
                self.add_object(value)
            }
            ("scheduling.k8s.io", "PodGroup") => {
                let group = pod_group(value, &self.workload.namespace, AT);
                let group = group.map_err(|wrong| self.refused(wrong.problem))?;
                add_group(self.course, &group, self.touched)
            }
            _ => self.add_dependents(&value),
        }
    }

    /// Pods that are alike share what is read of them.
    fn add_pod(&mut self, mut pod: Value) -> Result<(), Refusal> {
        let Creation { room, max, n_generated, length, different } = &mut *self.creation;
        *length += self.length;
        if *room == 0 {
            return Err(Refusal::TooMuch { asked: *max + 1, max: *max });
        }
        *room -= 1;
        let prefix = text_at(&pod, &["metadata", "generateName"]).to_owned();
        let name = match text_at(&pod, &["metadata", "name"]) {
            "" => {
                *n_generated += 1;
                generated_name(&prefix, *n_generated)
            }
            given => given.to_owned(),
        };
        meta_mut(&mut pod).remove("name");
        let is_like_last = self.last.as_ref().is_some_and(|(last, _)| *last == pod);
        *different += if is_like_last { 0 } else { self.length };
        if *length > MAX_LENGTH || *different > MAX_DIFFERENT {
            let problem = "its pods are too many for one question at their length: ask for fewer, or add them as pods with a count";
            return Err(self.refused(problem));
        }
        let namespace = self.workload.namespace.clone();
        if !is_like_last {
            let mut complete = pod.clone();
            complete_pod(&mut complete);
            let read = manifest(complete, &namespace, &POD, &self.workload.options);
            let read = read.map_err(|FieldProblem { field, problem }| match field {
                AT => self.refused(problem),
                field => self.refused(format!("{field} of its pods {problem}")),
            })?;
            self.last = Some((pod, read));
        }
        let Some((_, read)) = &self.last else { return Ok(()) };
        let uid = uid(&namespace, &name);
        let pod = Pod { namespace, name: name.into(), uid, ..read.clone() };
        add_pod(self.course, &Arc::new(pod), self.touched)
    }

    /// Adds a claim or controller, unless the cluster has one.
    fn add_object(&mut self, mut value: Value) -> Result<(), Refusal> {
        let namespace = &self.workload.namespace;
        let (kind, name) = (text_at(&value, &["kind"]), text_at(&value, &["metadata", "name"]));
        let uid = format!("{API_GROUP}/{kind}/{namespace}/{name}");
        let meta = meta_mut(&mut value);
        meta.insert("namespace".to_owned(), Value::from(&**namespace));
        meta.insert("uid".to_owned(), uid.into());
        let object = Object::from_value(value).map_err(|error| self.refused(error.to_string()))?;
        let Object { group, kind, namespace, name, .. } = &object;
        if self.course.engine.cluster().objects().get(group, kind, namespace, name).is_some() {
            let text =
                format!("{kind} {}: the cluster has one, which counts instead", object.key());
            self.touched.warnings.push(text);
        } else {
            self.course.handle(Input::ObjectApplied(Arc::new(object)));
        }
        Ok(())
    }

    fn refused(&self, problem: impl Into<String>) -> Refusal {
        let Workload { value, namespace, .. } = self.workload;
        let name = text_at(value, &["metadata", "name"]);
        let workload = format!("{} {namespace}/{name}", group_and_kind(value).1);
        Refusal::Workload { workload, problem: problem.into() }
    }
}
