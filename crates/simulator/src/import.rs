//! Parses texts into objects: manifests and dumps in YAML or JSON, traces in CSV.
//!
//! Texts are added one by one and form one input: a priority class in one file applies to a pod in another. Only
//! [`ClusterInput::finish`] returns objects, and only if all of them can be parsed.
//!
//! Controllers of which the input has no pods get those that they would create.
//!
//! Pods and nodes get the defaults that an API server would set on creation: namespace, name from `generateName`, UID,
//! requests from limits, host ports of the host network, priority from the priority class, allocatable from capacity. Pods
//! also get claims of devices from the templates of the input.
//! Fields that are set are never changed.

mod claims;
mod csv;
mod defaults;
mod error;
mod expansion;
pub(crate) mod groups;
mod locate;
mod manifest;
mod priority;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_answers::PodName;
use kube_scheduler_api_types::{
    CompileOptions, DecodeError, Node, Object, Pod, PodGroup, Timestamp,
};
use kube_scheduler_config::FeatureGates;
use kube_scheduler_workloads::Controller;
use kube_scheduler_workloads::defaults::complete_pod;
use serde_json::Value;

use claims::ClaimTemplates;
pub use error::{ImportError, SourceLocation};
use manifest::Document;
use priority::{PriorityClassError, PriorityClasses, UnknownClass};

/// The texts of one input. Add them all, then call [`ClusterInput::finish`].
#[derive(Debug, Default)]
pub struct ClusterInput {
    documents: Vec<Document>,
    /// The manifests, to find the line of a mistake. Rows of traces have their line already.
    texts: Vec<Arc<str>>,
    /// Whether what is added now is asked about.
    asks: bool,
    /// The namespace of what is asked about and names none.
    namespace: String,
    /// Whether what is asked about may name no other.
    is_confined: bool,
    /// The feature gates under which pods are read.
    options: CompileOptions,
}

/// The objects of an input, in its order.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ClusterObjects {
    /// The nodes of the cluster.
    pub nodes: Vec<Arc<Node>>,
    /// Pods that have not ended. Those with a node are running there.
    pub pods: Vec<Arc<Pod>>,
    /// Objects of all kinds but nodes and pods.
    pub objects: Vec<Arc<Object>>,
    /// Nodes that are not part of the cluster but asked about.
    pub asked_nodes: Vec<Arc<Node>>,
    /// Pods that are not part of the cluster but asked about.
    pub asked_pods: Vec<Arc<Pod>>,
    /// Pod groups that are not part of the cluster but asked about.
    pub asked_groups: Vec<Arc<Object>>,
    /// Nodes, pods and pod groups that are asked about, and what comes with them, as an API server would store them, in their
    /// order: claims, and services and controllers, of which there is what they select. A claim that is made for a pod from a
    /// template comes before the pod.
    pub asked_manifests: Vec<Value>,
    /// What else of the question decides about its pods, such as `StorageClass fast`: neither is it in the manifests,
    /// nor can it be. Classes of priorities, whose values pods have, are left out.
    pub asked_others: Vec<String>,
    /// When pods of traces are deleted, by UID.
    pub ends: BTreeMap<Arc<str>, Timestamp>,
    /// The number of pods that had ended (phase `Succeeded` or `Failed`) and were left out.
    pub(crate) n_finished: usize,
    /// The names of those of the cluster, with their phases.
    pub finished: BTreeMap<PodName, Arc<str>>,
    /// How many controllers of the cluster would have pods and have none, where something is asked: only those that are asked about
    /// get pods.
    pub n_without_pods: usize,
    /// What the user should know about the input.
    pub warnings: Vec<String>,
}

impl ClusterInput {
    /// An empty input, whose pods are read as a scheduler with these feature gates reads them.
    #[must_use]
    pub fn under(gates: &FeatureGates) -> Self {
        Self { options: gates.compile_options(), ..Self::default() }
    }

    /// Adds manifests: one or more documents in YAML or JSON, each an object or a list of objects, such as the output of
    /// `kubectl get … -o yaml`. Errors refer to the text as `file`.
    ///
    /// # Errors
    /// If the text is neither YAML nor JSON, or a document in it is not a Kubernetes object.
    pub fn add_manifests(&mut self, file: &str, text: &str) -> Result<(), ImportError> {
        let found =
            manifest::documents(file, text, self.texts.len(), self.asks).map_err(|error| {
                match error {
                    ImportError::NotAnObject { place, reason } => {
                        ImportError::NotAnObject { place: located(place, text, &[]), reason }
                    }
                    error => error,
                }
            })?;
        self.texts.push(text.into());
        self.documents.extend(found);
        Ok(())
    }

    /// Nodes, pods and pod groups that are added from here on are not part of the cluster but asked about. Objects of other
    /// kinds are part of it: claims and priority classes that come with pods. Only controllers that are added from here on get pods:
    /// a question is about the cluster as it is.
    ///
    /// The cluster may have objects of the same names. A node or pod, such as the one whose manifest was changed for the
    /// question, is one besides that of the cluster; pods get a UID of their own, whatever their manifests say. An object of
    /// another kind is left out with a warning, since that of the cluster has a state, such as the volume of a claim. A
    /// controller gets all of its pods, besides those that it has. What names no namespace is in `namespace`.
    pub fn begin_question(&mut self, namespace: &str) {
        self.asks = true;
        namespace.clone_into(&mut self.namespace);
    }

    /// What is asked about may be in no other namespace than that of [`begin_question`](Self::begin_question): as where the user
    /// names it for kubectl.
    pub fn confine_question(&mut self) {
        self.is_confined = true;
    }

    /// Adds manifests of the cluster, even after [`begin_question`](Self::begin_question).
    ///
    /// # Errors
    /// As of [`add_manifests`](Self::add_manifests).
    pub fn add_to_cluster(&mut self, file: &str, text: &str) -> Result<(), ImportError> {
        let asks = std::mem::replace(&mut self.asks, false);
        let added = self.add_manifests(file, text);
        self.asks = asks;
        added
    }

    /// Whether an object of this kind is asked about.
    pub fn asks_about(&self, group: &str, kind: &str) -> bool {
        self.documents.iter().any(|document| document.is_asked && document.is_of(group, kind))
    }

    /// Whether an object is asked about that stands for pods.
    pub fn asks_about_controllers(&self) -> bool {
        Controller::KINDS.iter().any(|(group, kind)| self.asks_about(group, kind))
    }

    /// Adds nodes from a trace: columns `sn`, `cpu_milli`, `memory_mib`, `gpu`, `model`, in any order.
    ///
    /// A node allows 110 pods, as kubelets do by default, and has its GPU model as label `gpu-model`.
    ///
    /// # Errors
    /// If a column is missing, or a field is not a value for its column.
    pub fn add_nodes_csv(&mut self, file: &str, text: &str) -> Result<(), ImportError> {
        self.documents.extend(csv::nodes(file, text)?);
        Ok(())
    }

    /// Adds pods from a trace: columns `name`, `cpu_milli`, `memory_mib`, `num_gpu` and optionally `creation_time`,
    /// `deletion_time`, `gpu_milli` and `gpu_spec`; without times of creation, pods are created in the order of the lines.
    /// All of them are pending, whatever their state in the trace.
    ///
    /// # Errors
    /// If a column is missing, or a field is not a value for its column.
    pub fn add_pods_csv(&mut self, file: &str, text: &str) -> Result<(), ImportError> {
        self.documents.extend(csv::pods(file, text)?);
        Ok(())
    }

    /// Sets defaults and compiles all objects.
    ///
    /// # Errors
    /// If an object is invalid, is given twice in the cluster or in the question, or refers to a priority class that is not in
    /// the input.
    pub fn finish(mut self) -> Result<ClusterObjects, ImportError> {
        let n_without_pods = self.complete_documents()?;
        let warnings = self.check_asked();
        // Classes before pods, wherever they are in the input.
        let classes = PriorityClasses::collect(&self.documents).map_err(|error| {
            let PriorityClassError { document, reason } = error;
            ImportError::NotAnObject { place: self.place(document, &["value"]), reason }
        })?;
        for document in &mut self.documents {
            defaults::complete_claim(&mut document.value);
        }
        let mut templates = ClaimTemplates::collect(&self.documents);
        let mut found = ClusterObjects { warnings, n_without_pods, ..ClusterObjects::default() };
        let mut uids: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        for at in 0..self.documents.len() {
            let (group, kind) = self.documents[at].group_and_kind();
            let is_sent = is_claim(&group, &kind)
                || Object::selects_pods(&group, &kind)
                || kind == "ResourceClaimTemplate";
            if self.is_asked(at) && decides(&group, &kind) && !is_sent {
                found.asked_others.push(self.documents[at].title());
            }
            match (group.as_str(), kind.as_str()) {
                ("", "Pod") => {
                    let claims = templates.complete(&mut self.documents[at].value);
                    let pod = self.pod(at, &classes)?;
                    if pod.has_ended() {
                        self.leave_out(at, &pod, &mut found);
                        continue;
                    }
                    if let Some(first) = uids.insert(pod.uid.clone(), at) {
                        return Err(ImportError::RepeatedUid {
                            place: self.place(at, &["metadata", "uid"]),
                            object: format!("pod {}", pod.key()),
                            uid: pod.uid.to_string(),
                            first: Box::new(self.place(first, &[])),
                        });
                    }
                    for claim in claims {
                        if self.is_asked(at) {
                            found.asked_manifests.push(claim.clone());
                        }
                        let claim = Object::from_value(claim);
                        let claim = claim.map_err(|error| self.decode_error(at, error))?;
                        found.objects.push(Arc::new(claim));
                    }
                    if let Some(ends) = self.documents[at].ends {
                        found.ends.insert(pod.uid.clone(), ends);
                    }
                    self.note_manifest(at, &mut found);
                    let pods =
                        if self.is_asked(at) { &mut found.asked_pods } else { &mut found.pods };
                    pods.push(Arc::new(pod));
                }
                ("", "Node") => self.add_node(at, &mut found)?,
                (groups::GROUP, "PodGroup") => self.add_group(at, &classes, &mut found)?,
                _ => {
                    if is_claim(&group, &kind) {
                        self.note_manifest(at, &mut found);
                    } else if self.is_asked(at) && Object::selects_pods(&group, &kind) {
                        let selecting = Controller::new(&self.documents[at].value).selecting();
                        found.asked_manifests.push(selecting);
                    }
                    let value = std::mem::take(&mut self.documents[at].value);
                    let object =
                        Object::from_value(value).map_err(|error| self.decode_error(at, error))?;
                    found.objects.push(Arc::new(object));
                }
            }
        }
        found.warnings.extend(groups::missing(&found));
        Ok(found)
    }

    /// Makes the documents whole: with names, and with what controllers would create. Returns how many controllers of the cluster
    /// lack their pods, where something is asked.
    fn complete_documents(&mut self) -> Result<usize, ImportError> {
        // Names first, since repeats are found by name.
        let mut n_generated = 0;
        self.complete_names(&mut n_generated)?;
        self.reject_repeats()?;
        self.reject_negative_counts()?;
        let n_without_pods = match self.asks {
            true => expansion::without_pods(&self.documents),
            false => 0,
        };
        let documents = std::mem::take(&mut self.documents);
        self.documents = expansion::expand(documents, self.asks, &mut n_generated)?;
        Ok(n_without_pods)
    }

    fn add_node(&mut self, at: usize, found: &mut ClusterObjects) -> Result<(), ImportError> {
        let node = self.node(at)?;
        if node.allowed_pods == 0 {
            found.warnings.push(format!(
                "{}: node {}: status.allocatable says nothing of pods, so none fits there",
                self.place(at, &[]),
                node.name
            ));
        }
        self.note_manifest(at, found);
        let nodes = if self.is_asked(at) { &mut found.asked_nodes } else { &mut found.nodes };
        nodes.push(Arc::new(node));
        Ok(())
    }

    fn add_group(
        &mut self,
        at: usize,
        classes: &PriorityClasses,
        found: &mut ClusterObjects,
    ) -> Result<(), ImportError> {
        let group = self.pod_group(at, classes)?;
        self.note_manifest(at, found);
        let groups = if self.is_asked(at) { &mut found.asked_groups } else { &mut found.objects };
        groups.push(Arc::new(group));
        Ok(())
    }

    /// Counts a pod that has ended.
    fn leave_out(&self, at: usize, pod: &Pod, found: &mut ClusterObjects) {
        found.n_finished += 1;
        if self.is_asked(at) {
            let (place, pod) = (self.place(at, &[]), pod.key());
            found.warnings.push(format!("{place}: pod {pod} has ended, and is ignored"));
        } else {
            found.finished.insert(PodName::from(pod), pod.status.phase.clone());
        }
    }

    fn note_manifest(&self, at: usize, found: &mut ClusterObjects) {
        if self.is_asked(at) {
            found.asked_manifests.push(self.documents[at].value.clone());
        }
    }

    fn is_asked(&self, at: usize) -> bool {
        self.documents[at].is_asked
    }

    fn pod(&mut self, at: usize, classes: &PriorityClasses) -> Result<Pod, ImportError> {
        complete_pod(&mut self.documents[at].value);
        self.set_priority(at, classes)?;
        if let Err(error) = defaults::check_pod(&self.documents[at].value) {
            return Err(self.decode_error(at, error));
        }
        Pod::from_value_with(&self.documents[at].value, &self.options)
            .map_err(|error| self.decode_error(at, error))
    }

    fn pod_group(&mut self, at: usize, classes: &PriorityClasses) -> Result<Object, ImportError> {
        groups::complete(&mut self.documents[at].value);
        self.set_priority(at, classes)?;
        if let Err(error) = groups::check(&self.documents[at].value) {
            return Err(self.decode_error(at, error));
        }
        let group = Object::from_value(self.documents[at].value.clone())
            .map_err(|error| self.decode_error(at, error))?;
        // A scheduler goes on without a group that it cannot read, and the pods wait.
        match PodGroup::from_object(&group) {
            Ok(_) => Ok(group),
            Err(error) => {
                let object = format!("PodGroup {}", group.key());
                Err(self.decode_error(at, DecodeError { object, ..error }))
            }
        }
    }

    /// Sets the priority of a pod or a group of pods that has none.
    fn set_priority(&mut self, at: usize, classes: &PriorityClasses) -> Result<(), ImportError> {
        classes.complete(&mut self.documents[at].value).map_err(|UnknownClass(class)| {
            ImportError::UnknownPriorityClass {
                place: self.place(at, &["spec", "priorityClassName"]),
                object: self.documents[at].title(),
                class,
            }
        })
    }

    fn node(&mut self, at: usize) -> Result<Node, ImportError> {
        let document = &mut self.documents[at];
        defaults::complete_node(&mut document.value);
        if let Err(error) = defaults::check_node(&document.value) {
            return Err(self.decode_error(at, error));
        }
        Node::from_value(&document.value).map_err(|error| self.decode_error(at, error))
    }

    fn complete_names(&mut self, n_generated: &mut usize) -> Result<(), ImportError> {
        for at in 0..self.documents.len() {
            let document = &mut self.documents[at];
            let namespace =
                if document.is_asked { &*self.namespace } else { defaults::DEFAULT_NAMESPACE };
            if !defaults::complete_name(&mut document.value, namespace, n_generated) {
                let kind = self.documents[at].group_and_kind().1;
                return Err(ImportError::NoName { place: self.place(at, &["metadata"]), kind });
            }
            self.check_namespace(at)?;
            let document = &mut self.documents[at];
            if document.is_asked && document.is_of("", "Pod") {
                defaults::set_uid_of_question(&mut document.value);
            }
        }
        Ok(())
    }

    /// Refuses an object of the question that is in another namespace than the one it is confined to.
    fn check_namespace(&self, at: usize) -> Result<(), ImportError> {
        let document = &self.documents[at];
        let (namespace, _) = document.namespace_and_name();
        let is_refused = document.is_asked
            && self.is_confined
            && !namespace.is_empty()
            && namespace != self.namespace;
        if !is_refused {
            return Ok(());
        }
        Err(ImportError::OtherNamespace {
            place: Box::new(self.place(at, &["metadata", "namespace"])),
            object: document.title(),
            namespace,
            given: self.namespace.clone(),
        })
    }

    fn reject_negative_counts(&self) -> Result<(), ImportError> {
        for (at, document) in self.documents.iter().enumerate() {
            if let Some((field, count)) = Controller::new(&document.value).negative_count() {
                let path = format!("spec.{field}");
                let reason = format!("expected 0 or more, found {count}");
                return Err(
                    self.decode_error(at, DecodeError { object: document.title(), path, reason })
                );
            }
        }
        Ok(())
    }

    fn reject_repeats(&self) -> Result<(), ImportError> {
        let mut seen = BTreeMap::new();
        for (at, document) in self.documents.iter().enumerate() {
            if let Some(first) = seen.insert((document.is_asked, document.identity()), at) {
                return Err(ImportError::Repeated {
                    place: self.place(at, &[]),
                    object: document.title(),
                    first: Box::new(self.place(first, &[])),
                });
            }
        }
        Ok(())
    }

    /// Leaves out objects of the question that the cluster has, other than nodes and pods. Returns warnings about those, and about
    /// objects of a kind that decides about nothing.
    fn check_asked(&mut self) -> Vec<String> {
        if !self.asks {
            return Vec::new();
        }
        let mut warnings = Vec::new();
        let documents = std::mem::take(&mut self.documents);
        let others = documents.iter().filter(|document| !document.is_node_or_pod());
        let known: BTreeSet<_> =
            others.filter(|other| !other.is_asked).map(Document::identity).collect();
        for document in documents {
            if document.is_asked && !defaults::is_known(&document.group_and_kind().1) {
                let (place, title) = (self.place_of(&document, &[]), document.title());
                warnings.push(format!("{place}: {title}: this kind is not known, and is ignored"));
            }
            if !document.is_asked || !known.contains(&document.identity()) {
                self.documents.push(document);
                continue;
            }
            let (group, kind) = document.group_and_kind();
            if decides(&group, &kind) || kind == "PodGroup" {
                let (place, title) = (self.place_of(&document, &[]), document.title());
                warnings
                    .push(format!("{place}: {title}: the cluster has one, which counts instead"));
            }
        }
        warnings
    }

    fn decode_error(&self, at: usize, error: DecodeError) -> ImportError {
        let steps = locate::steps(&error.path);
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
        ImportError::Object { place: self.place(at, &steps), error: Box::new(error) }
    }

    /// The location of a field of a document, as precisely as it can be found.
    fn place(&self, at: usize, steps: &[&str]) -> SourceLocation {
        self.place_of(&self.documents[at], steps)
    }

    fn place_of(&self, document: &Document, steps: &[&str]) -> SourceLocation {
        match document.text.and_then(|text| self.texts.get(text)) {
            Some(text) => {
                let path = document.path.iter().map(String::as_str);
                let path: Vec<&str> = path.chain(steps.iter().copied()).collect();
                located(document.place.clone(), text, &path)
            }
            None => document.place.clone(),
        }
    }
}

/// Whether it is a claim for a volume or for devices.
fn is_claim(group: &str, kind: &str) -> bool {
    matches!((group, kind), ("", "PersistentVolumeClaim") | ("resource.k8s.io", "ResourceClaim"))
}

/// Whether an object of this kind that stands beside pods and nodes decides about them.
fn decides(group: &str, kind: &str) -> bool {
    match group {
        "" => !matches!(
            kind,
            "Pod" | "Node" | "ReplicationController" | "ConfigMap" | "Secret" | "ServiceAccount"
        ),
        "apps" | "batch" | "jobset.x-k8s.io" => false,
        // Pod groups can be in a question, and a workload stands for them.
        groups::GROUP => !matches!(kind, "PriorityClass" | "PodGroup" | "Workload"),
        _ => true,
    }
}

/// Adds the line of a field of the object at `place`.
fn located(place: SourceLocation, text: &str, steps: &[&str]) -> SourceLocation {
    let item = place.item.map(|item| item.to_string());
    let prefix = item.iter().flat_map(|item| ["items", item.as_str()]);
    let path: Vec<&str> = prefix.chain(steps.iter().copied()).collect();
    let line = locate::line(text, place.document.unwrap_or(1), &path).or(place.line);
    SourceLocation { line, ..place }
}
