//! The objects that controllers would create for the input: controllers do not run in a simulation.
//!
//! A controller of which the input has dependents, such as a ReplicaSet with a pod, stays as it is: a dump shows what its
//! controller has made of it.

use std::collections::BTreeSet;

use kube_scheduler_api_types::Node;
use kube_scheduler_workloads::json::{group_and_kind, list_at, text_at};
use kube_scheduler_workloads::{Controller, Dependent, workload_of_group};
use serde_json::Value;

use super::defaults;
use super::error::ImportError;
use super::manifest::Document;

/// How many objects are created for one input: as many as the pods of the largest cluster that Kubernetes supports.
const MAX_CREATED: usize = 150_000;

/// Namespace, kind and name.
type Key = (String, String, String);

/// Adds the objects that controllers would create, each after its controller; with `asks`, those of controllers that are
/// asked about. All documents must have their names; `n_generated` counts those that were generated.
///
/// # Errors
/// If there are too many.
pub(super) fn expand(
    documents: Vec<Document>,
    asks: bool,
    n_generated: &mut usize,
) -> Result<Vec<Document>, ImportError> {
    let mut expansion = Expansion::new(&documents, asks);
    for document in documents {
        if asks && !document.is_asked {
            expansion.documents.push(document);
        } else {
            expansion.add(document, n_generated)?;
        }
    }
    Ok(expansion.documents)
}

/// How many controllers of the cluster would have pods, and have none. Runs of CronJobs come and go, and are not missed.
pub(super) fn without_pods(documents: &[Document]) -> usize {
    let mut expansion = Expansion::new(documents, false);
    expansion.owners = documents.iter().filter(|it| !it.is_asked).flat_map(owners).collect();
    let lacking = documents.iter().filter(|document| {
        let is_controller = Controller::KINDS.contains(&group_and_kind(&document.value));
        let comes_and_goes = document.is_of("batch", "CronJob");
        !document.is_asked
            && is_controller
            && !comes_and_goes
            && makes_pods(&document.value, &expansion.nodes)
            && !expansion.has_dependents(document)
    });
    lacking.count()
}

/// Whether the controller of an object, or one of those that it creates, would create a pod.
fn makes_pods(value: &Value, nodes: &[Node]) -> bool {
    Controller::new(value).dependents(nodes).any(|Dependent { value, .. }| {
        group_and_kind(&value) == ("", "Pod") || makes_pods(&value, nodes)
    })
}

struct Expansion {
    nodes: Vec<Node>,
    /// The objects that were given with the controllers that are expanded.
    given: BTreeSet<Key>,
    /// The controllers of these.
    owners: BTreeSet<Key>,
    n_created: usize,
    documents: Vec<Document>,
}

impl Expansion {
    fn new(documents: &[Document], asks: bool) -> Self {
        let key = |document: &Document| {
            let (namespace, name) = document.namespace_and_name();
            (namespace, document.group_and_kind().1, name)
        };
        let nodes = documents.iter().filter(|document| document.is_of("", "Node"));
        // A controller that is asked about stands for more pods, whatever the cluster has of it.
        let given = || documents.iter().filter(|document| document.is_asked || !asks);
        Self {
            // One that cannot be decoded is reported with the other nodes.
            nodes: nodes.filter_map(|node| Node::from_value(&node.value).ok()).collect(),
            given: given().map(key).collect(),
            owners: given().flat_map(owners).collect(),
            n_created: 0,
            documents: Vec::with_capacity(documents.len()),
        }
    }

    fn add(&mut self, document: Document, n_generated: &mut usize) -> Result<(), ImportError> {
        let room = MAX_CREATED - self.n_created;
        let below: Vec<Dependent> = if self.has_dependents(&document) {
            Vec::new()
        } else {
            Controller::new(&document.value).dependents(&self.nodes).take(room + 1).collect()
        };
        if below.len() > room {
            let (place, object) = (document.place.clone(), document.title());
            return Err(ImportError::TooManyCreated { place, object, limit: MAX_CREATED });
        }
        self.n_created += below.len();
        let at = (document.place.clone(), document.text, document.path.clone());
        let is_asked = document.is_asked;
        let (namespace, _) = document.namespace_and_name();
        self.documents.push(document);
        for Dependent { mut value, path } in below {
            // Dependents have their controller's name in theirs, and its namespace.
            defaults::complete_name(&mut value, &namespace, n_generated);
            let (place, text, outer) = at.clone();
            let path = outer.into_iter().chain(path).collect();
            let mut dependent = Document { place, text, path, value, is_asked, ends: None };
            if is_asked && dependent.is_of("", "Pod") {
                defaults::set_uid_of_question(&mut dependent.value);
            }
            let (namespace, name) = dependent.namespace_and_name();
            if !self.given.contains(&(namespace, dependent.group_and_kind().1, name)) {
                self.add(dependent, n_generated)?;
            }
        }
        Ok(())
    }

    fn has_dependents(&self, document: &Document) -> bool {
        let (namespace, name) = document.namespace_and_name();
        let kind = document.group_and_kind().1;
        // The pods may be there without what is between them and their controller, whose name begins with the controller's.
        let between = match kind.as_str() {
            "Deployment" => Some("ReplicaSet"),
            "CronJob" | "JobSet" => Some("Job"),
            _ => None,
        };
        let has_descendants = between.is_some_and(|between| {
            let prefix = format!("{name}-");
            let first = (namespace.clone(), between.to_owned(), prefix.clone());
            let mut following = self
                .owners
                .range(first.clone()..)
                .take_while(|(.., name)| name.starts_with(&prefix));
            following.any(|owner| {
                let end = &owner.2[prefix.len()..];
                (&owner.0, &owner.1) == (&first.0, &first.1)
                    && (kind == "JobSet" || !end.contains('-'))
            })
        });
        has_descendants || self.owners.contains(&(namespace, kind, name))
    }
}

/// The object's controller, and the workload that a pod group was made for.
fn owners(document: &Document) -> impl Iterator<Item = Key> {
    let value = &document.value;
    let namespace = text_at(value, &["metadata", "namespace"]);
    let owners = list_at(value, &["metadata", "ownerReferences"]).iter();
    let controllers = owners.filter(|owner| owner.get("controller") == Some(&true.into()));
    let named = controllers.map(|owner| (text_at(owner, &["kind"]), text_at(owner, &["name"])));
    let workload = workload_of_group(value);
    let workload = (!workload.is_empty()).then_some(("Workload", workload));
    named
        .chain(workload)
        .map(|(kind, name)| (namespace.to_owned(), kind.to_owned(), name.to_owned()))
}
