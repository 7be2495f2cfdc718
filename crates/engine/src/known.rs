//! What the engine was last told of the objects of one kind: enough to notice what a watch missed.
//!
//! Whoever feeds an engine from lists and watches needs the same few rules, so they are here, without any IO: news are told
//! once, an object of the same name with another UID is the end of one and the beginning of another, and what a complete
//! list lacks is gone.
//!
//! Invariant: after every call the engine, told of the returned inputs, knows exactly what this knows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_api_types::{Node, Object, Pod};

use crate::input::Input;

/// Namespace and name; the namespace is empty for cluster-wide kinds.
pub type FollowedKey = (Arc<str>, Arc<str>);

/// An object of a kind that is followed.
#[derive(Clone, Debug)]
pub enum Followed {
    /// A pod.
    Pod(Arc<Pod>),
    /// A node.
    Node(Arc<Node>),
    /// An object of any other kind.
    Other(Arc<Object>),
}

impl Followed {
    /// Namespace and name.
    pub fn key(&self) -> FollowedKey {
        match self {
            Self::Pod(pod) => (pod.namespace.clone(), pod.name.clone()),
            Self::Node(node) => (Arc::default(), node.name.clone()),
            Self::Other(object) => (object.namespace.clone(), object.name.clone()),
        }
    }

    /// Identity.
    pub fn uid(&self) -> &Arc<str> {
        match self {
            Self::Pod(pod) => &pod.uid,
            Self::Node(node) => &node.uid,
            Self::Other(object) => &object.uid,
        }
    }

    /// Revision.
    pub fn resource_version(&self) -> &Arc<str> {
        match self {
            Self::Pod(pod) => &pod.resource_version,
            Self::Node(node) => &node.resource_version,
            Self::Other(object) => &object.resource_version,
        }
    }

    /// What the engine is told when the object exists in this state.
    pub fn into_applied(self) -> Input {
        match self {
            Self::Pod(pod) => Input::PodApplied(pod),
            Self::Node(node) => Input::NodeApplied(node),
            Self::Other(object) => Input::ObjectApplied(object),
        }
    }
}

/// What a deletion has to say.
#[derive(Debug)]
enum Form {
    Pod,
    Node,
    /// The object, since its deletion is told with its last state.
    Other(Arc<Object>),
}

#[derive(Debug)]
struct Told {
    uid: Arc<str>,
    resource_version: Arc<str>,
    form: Form,
}

/// The objects of one kind, as told.
#[derive(Debug, Default)]
pub struct Known {
    told: BTreeMap<FollowedKey, Told>,
}

impl Known {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.told.len()
    }

    /// Names and UIDs, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&FollowedKey, &Arc<str>)> {
        self.told.iter().map(|(key, told)| (key, &told.uid))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.told.is_empty()
    }

    /// The object exists in this state. Says nothing when that is known, and reports another object of the same name
    /// as a deletion and an addition.
    pub fn apply(&mut self, object: Followed, inputs: &mut Vec<Input>) {
        let key = object.key();
        if let Some(told) = self.told.get(&key) {
            if told.uid != *object.uid() {
                self.delete(&key, inputs);
            } else if told.resource_version == *object.resource_version()
                && !told.resource_version.is_empty()
            {
                return;
            }
        }
        let told = Told {
            uid: object.uid().clone(),
            resource_version: object.resource_version().clone(),
            form: match &object {
                Followed::Pod(_) => Form::Pod,
                Followed::Node(_) => Form::Node,
                Followed::Other(object) => Form::Other(object.clone()),
            },
        };
        self.told.insert(key, told);
        inputs.push(object.into_applied());
    }

    /// The object is gone. Says nothing when it was not known.
    pub fn delete(&mut self, key: &FollowedKey, inputs: &mut Vec<Input>) {
        let Some(told) = self.told.remove(key) else { return };
        let (namespace, name) = key.clone();
        inputs.push(match told.form {
            Form::Pod => Input::PodDeleted { namespace, name },
            Form::Node => Input::NodeDeleted { name },
            Form::Other(object) => Input::ObjectDeleted(object),
        });
    }

    /// Nothing but `seen` exists.
    pub fn keep_only(&mut self, seen: &BTreeSet<FollowedKey>, inputs: &mut Vec<Input>) {
        let gone: Vec<FollowedKey> =
            self.told.keys().filter(|key| !seen.contains(*key)).cloned().collect();
        for key in gone {
            self.delete(&key, inputs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, uid: &str, version: &str) -> Followed {
        let json = format!(
            r#"{{"metadata":{{"namespace":"x","name":"{name}","uid":"{uid}","resourceVersion":"{version}"}}}}"#
        );
        Followed::Pod(Arc::new(Pod::from_json(json).unwrap()))
    }

    fn told(known: &mut Known, object: Followed) -> Vec<String> {
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
    fn only_news_is_told() {
        let mut known = Known::default();
        assert_eq!(told(&mut known, pod("a", "1", "5")), ["+a@5"]);
        assert_eq!(told(&mut known, pod("a", "1", "5")), [""; 0]);
        assert_eq!(told(&mut known, pod("a", "1", "6")), ["+a@6"]);
        assert_eq!(told(&mut known, pod("a", "2", "7")), ["-a", "+a@7"]);
    }

    #[test]
    fn what_a_list_lacks_is_gone() {
        let mut known = Known::default();
        for name in ["a", "b", "c"] {
            told(&mut known, pod(name, name, "1"));
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
