//! The objects of one kind as an engine was last given them: enough to notice what a watch missed.
//!
//! A shell that feeds an engine from lists and watches needs the same few rules as any other, so they are here, without any
//! IO: a state that is known already is passed on once, an object of the same name with another UID is the end of one
//! object and the start of another, and what a complete list lacks is gone.
//!
//! Invariant: after every call, an engine that was given the returned inputs knows exactly the objects of [`KnownObjects`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_api_types::Object;
use kube_scheduler_framework::EventObject;

use crate::input::Input;

/// Namespace and name; the namespace is empty for cluster-wide kinds.
pub type WatchedKey = (Arc<str>, Arc<str>);

impl From<EventObject> for Input {
    /// The input that says that the object exists in this state.
    fn from(object: EventObject) -> Self {
        match object {
            EventObject::Pod(pod) => Self::PodApplied(pod),
            EventObject::Node(node) => Self::NodeApplied(node),
            EventObject::Other(object) => Self::ObjectApplied(object),
        }
    }
}

/// What the input about a deletion needs.
#[derive(Debug)]
enum Form {
    Pod,
    Node,
    /// The last state of the object.
    Other(Arc<Object>),
}

#[derive(Debug)]
struct KnownObject {
    uid: Arc<str>,
    resource_version: Arc<str>,
    form: Form,
}

/// The objects of one kind that an engine knows.
#[derive(Debug, Default)]
pub struct KnownObjects {
    by_key: BTreeMap<WatchedKey, KnownObject>,
}

impl KnownObjects {
    /// How many objects are known.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Names and UIDs, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&WatchedKey, &Arc<str>)> {
        self.by_key.iter().map(|(key, known)| (key, &known.uid))
    }

    /// Whether no object is known.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// The object exists in this state. Adds nothing to `inputs` when that is known, and reports another object of the same
    /// name as a deletion and an addition.
    pub fn apply(&mut self, object: EventObject, inputs: &mut Vec<Input>) {
        let key = object.key();
        if let Some(known) = self.by_key.get(&key) {
            if known.uid != *object.uid() {
                self.delete(&key, inputs);
            } else if known.resource_version == *object.resource_version()
                && !known.resource_version.is_empty()
            {
                return;
            }
        }
        let known = KnownObject {
            uid: object.uid().clone(),
            resource_version: object.resource_version().clone(),
            form: match &object {
                EventObject::Pod(_) => Form::Pod,
                EventObject::Node(_) => Form::Node,
                EventObject::Other(object) => Form::Other(object.clone()),
            },
        };
        self.by_key.insert(key, known);
        inputs.push(object.into());
    }

    /// The object is gone. Adds nothing to `inputs` when it was not known.
    pub fn delete(&mut self, key: &WatchedKey, inputs: &mut Vec<Input>) {
        let Some(known) = self.by_key.remove(key) else { return };
        let (namespace, name) = key.clone();
        inputs.push(match known.form {
            Form::Pod => Input::PodDeleted { namespace, name },
            Form::Node => Input::NodeDeleted { name },
            Form::Other(object) => Input::ObjectDeleted(object),
        });
    }

    /// Takes in a complete list: adds a deletion to `inputs` for every known object that is not in `listed`.
    pub fn keep_only(&mut self, listed: &BTreeSet<WatchedKey>, inputs: &mut Vec<Input>) {
        let gone: Vec<WatchedKey> =
            self.by_key.keys().filter(|key| !listed.contains(*key)).cloned().collect();
        for key in gone {
            self.delete(&key, inputs);
        }
    }
}

#[cfg(test)]
mod tests {
    use kube_scheduler_api_types::Pod;

    use super::*;

    fn pod(name: &str, uid: &str, version: &str) -> EventObject {
        let json = format!(
            r#"{{"metadata":{{"namespace":"x","name":"{name}","uid":"{uid}","resourceVersion":"{version}"}}}}"#
        );
        EventObject::Pod(Arc::new(Pod::from_json(json).unwrap()))
    }

    fn applied(known: &mut KnownObjects, object: EventObject) -> Vec<String> {
        let mut inputs = Vec::new();
        known.apply(object, &mut inputs);
        brief(&inputs)
    }

    fn brief(inputs: &[Input]) -> Vec<String> {
        let brief = |input: &Input| match input {
            Input::PodApplied(pod) => format!("+{}@{}", pod.name, pod.resource_version),
            Input::PodDeleted { name, .. } => format!("-{name}"),
            other => panic!("{other:?}"),
        };
        inputs.iter().map(brief).collect()
    }

    #[test]
    fn a_known_state_is_passed_on_once() {
        let mut known = KnownObjects::default();
        assert_eq!(applied(&mut known, pod("a", "1", "5")), ["+a@5"]);
        assert_eq!(applied(&mut known, pod("a", "1", "5")), [""; 0]);
        assert_eq!(applied(&mut known, pod("a", "1", "6")), ["+a@6"]);
        assert_eq!(applied(&mut known, pod("a", "2", "7")), ["-a", "+a@7"]);
    }

    #[test]
    fn what_a_list_lacks_is_gone() {
        let mut known = KnownObjects::default();
        for name in ["a", "b", "c"] {
            applied(&mut known, pod(name, name, "1"));
        }
        let mut inputs = Vec::new();
        known.keep_only(&BTreeSet::from([("x".into(), "b".into())]), &mut inputs);
        assert_eq!(brief(&inputs), ["-a", "-c"]);
        assert_eq!(known.len(), 1);
        inputs.clear();
        known.delete(&("x".into(), "a".into()), &mut inputs);
        assert!(inputs.is_empty());
    }
}
