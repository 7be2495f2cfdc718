//! Objects that come with the pods of a question: claims for volumes and devices, services, and controllers.
//!
//! Invariant: if the cluster already has an object of that name, the cluster's version is used.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_api_types::{LabelSelector, Object, Timestamp, wire};
use kube_scheduler_engine::{Engine, Input};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{RequestError, typed};
use crate::API_GROUP;
use crate::claims;
use crate::interrupt::Interrupt;
use crate::manifests::uid;
use crate::typed::Mistake;

/// How many objects may come with the pods of a question: each is one more in the copy.
const MAX_OBJECTS: usize = 1_000;
const EXPECTED: &str = "expected a PersistentVolumeClaim, Service or ReplicationController of v1, a ReplicaSet or StatefulSet of apps, or \
                        a ResourceClaim of resource.k8s.io, with a name";

/// What comes with the pods of a question.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    all: Vec<Arc<Object>>,
    /// Whether a claim has its volume or its devices already: these are objects of the whole cluster, as nodes are.
    pub(super) are_bound: bool,
    /// Whether one is of another namespace than the question.
    pub(super) are_elsewhere: bool,
}

impl Objects {
    /// Reads the objects of a question in `namespace`.
    pub(super) fn read(given: Vec<Value>, namespace: &Arc<str>) -> Result<Self, RequestError> {
        if given.len() > MAX_OBJECTS {
            let problem = format!("{}: at most {MAX_OBJECTS} are allowed", given.len());
            return Err(RequestError::Field { field: "spec.objects".into(), problem });
        }
        let (mut objects, mut names) = (Self::default(), BTreeSet::new());
        for (at, object) in given.into_iter().enumerate() {
            let at = format!("spec.objects[{at}]");
            let (object, is_bound) = read(object, namespace, &at)?;
            if !names.insert((object.kind.clone(), object.namespace.clone(), object.name.clone())) {
                let problem = format!("{}: is given twice", title(&object));
                return Err(RequestError::Field { field: at.into(), problem });
            }
            objects.are_bound |= is_bound;
            objects.are_elsewhere |= object.namespace != *namespace;
            objects.all.push(Arc::new(object));
        }
        Ok(objects)
    }

    /// Makes them part of the cluster. Returns warnings about those that it has already.
    pub(crate) fn add_to(
        &self,
        engine: &mut Engine,
        interrupt: &Interrupt,
        now: Timestamp,
    ) -> Vec<String> {
        let mut warnings = Vec::new();
        for object in &self.all {
            if interrupt.is_set() {
                break;
            }
            let Object { group, kind, namespace, name, .. } = &**object;
            if engine.cluster().objects().get(group, kind, namespace, name).is_some() {
                warnings
                    .push(format!("{}: the cluster has one, which counts instead", title(object)));
            } else {
                engine.handle(Input::ObjectApplied(object.clone()), now);
            }
        }
        warnings
    }
}

/// `PersistentVolumeClaim web/data`, for messages.
fn title(object: &Object) -> String {
    format!("{} {}", object.kind, object.key())
}

/// An object, and whether it is a claim that has its volume or devices already. `at` is its path, for errors.
fn read(mut object: Value, namespace: &Arc<str>, at: &str) -> Result<(Object, bool), RequestError> {
    let refused = |problem: String| RequestError::Field { field: at.to_owned().into(), problem };
    let decoded = |value: &Value| {
        Object::from_value(value.clone()).map_err(|error| refused(error.to_string()))
    };
    let found = decoded(&object)?;
    if found.name.is_empty() {
        return Err(refused(EXPECTED.to_owned()));
    }
    let namespace = if found.namespace.is_empty() { namespace } else { &found.namespace };
    let named = format!("{} {namespace}/{}", found.kind, found.name);
    let wrong = |Mistake { path, problem }| {
        let field = format!("{at}{path}");
        RequestError::Field { field: field.into(), problem: format!("{named}: {problem}") }
    };
    let is_bound = match (&*found.group, &*found.kind) {
        ("", "PersistentVolumeClaim") => claims::has_volume(&object).map_err(&wrong)?,
        ("resource.k8s.io", "ResourceClaim") => claims::has_devices(&object).map_err(&wrong)?,
        ("", "Service" | "ReplicationController") => {
            selector::<BTreeMap<String, String>>(&object, at, &named)?;
            false
        }
        ("apps", "ReplicaSet" | "StatefulSet") => {
            let given: Option<wire::LabelSelector> = selector(&object, at, &named)?;
            if let Some(Err(error)) = given.as_ref().map(LabelSelector::from_wire) {
                let field = format!("{at}.spec.selector");
                let problem = format!("{named}: {error}");
                return Err(RequestError::Field { field: field.into(), problem });
            }
            false
        }
        _ => return Err(refused(EXPECTED.to_owned())),
    };
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        let own = format!("{API_GROUP}/{}/{namespace}/{}", found.kind, found.name);
        metadata.insert("namespace".to_owned(), Value::from(&**namespace));
        metadata.insert("uid".to_owned(), own.into());
        let owners = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut);
        for owner in owners.into_iter().flatten().filter_map(Value::as_object_mut) {
            // A claim that was made for a pod is for that of the question, which has a UID of its own.
            if let (Some("Pod"), Some(pod)) = (text(owner, "kind"), text(owner, "name")) {
                let pod = uid(namespace, pod);
                owner.insert("uid".to_owned(), Value::from(&*pod));
            }
        }
    }
    Ok((decoded(&object)?, is_bound))
}

fn text<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    map.get(key).and_then(Value::as_str)
}

/// What a service or controller selects, with its type.
fn selector<T: DeserializeOwned>(
    object: &Value,
    at: &str,
    named: &str,
) -> Result<Option<T>, RequestError> {
    let given = object.pointer("/spec/selector").filter(|given| !given.is_null());
    given.map(|given| shaped(given, &format!("{at}.spec.selector"), named)).transpose()
}

/// A part of an object with its type; an error names the object.
fn shaped<T: DeserializeOwned>(part: &Value, at: &str, named: &str) -> Result<T, RequestError> {
    typed(at, part).map_err(|error| match error {
        RequestError::Field { field, problem } => {
            RequestError::Field { field, problem: format!("{named}: {problem}") }
        }
        other @ RequestError::Form { .. } => other,
    })
}
