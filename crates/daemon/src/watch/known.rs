//! What the core was last told of the objects of one kind: enough to notice what a watch missed.
//!
//! Invariant: after every call the core, told of the returned inputs, knows exactly what this knows.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;

use kube_scheduler_api_types::Object;
use kube_scheduler_engine::Input;

use super::decode::{Followed, Key};
use crate::kinds::Form;

#[derive(Debug)]
struct Told {
    uid: Arc<str>,
    resource_version: Arc<str>,
    /// The object itself, for kinds whose deletion is reported with its last state.
    object: Option<Arc<Object>>,
}

/// The objects of one kind, as told.
#[derive(Debug)]
pub(crate) struct Known {
    form: Form,
    told: BTreeMap<Key, Told>,
}

impl Known {
    pub(crate) const fn new(form: Form) -> Self {
        Self { form, told: BTreeMap::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.told.len()
    }

    /// The object exists in this state. Says nothing when that is known, and reports another object of the same name
    /// as a deletion and an addition.
    pub(crate) fn apply(&mut self, object: Followed, inputs: &mut Vec<Input>) {
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
            object: match &object {
                Followed::Other(object) => Some(object.clone()),
                Followed::Pod(_) | Followed::Node(_) => None,
            },
        };
        self.told.insert(key, told);
        inputs.push(object.into_applied());
    }

    /// The object is gone. Says nothing when it was not known.
    pub(crate) fn delete(&mut self, key: &Key, inputs: &mut Vec<Input>) {
        let Some(told) = self.told.remove(key) else { return };
        let (namespace, name) = key.clone();
        match (self.form, told.object) {
            (Form::Pod, _) => inputs.push(Input::PodDeleted { namespace, name }),
            (Form::Node, _) => inputs.push(Input::NodeDeleted { name }),
            (Form::Generic, Some(object)) => inputs.push(Input::ObjectDeleted(object)),
            (Form::Generic, None) => {}
        }
    }

    /// Nothing but `seen` exists.
    pub(crate) fn keep_only(&mut self, seen: &BTreeSet<Key>, inputs: &mut Vec<Input>) {
        let gone: Vec<Key> = self.told.keys().filter(|key| !seen.contains(*key)).cloned().collect();
        for key in gone {
            self.delete(&key, inputs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_scheduler_api_types::Pod;

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
        let mut known = Known::new(Form::Pod);
        assert_eq!(told(&mut known, pod("a", "1", "5")), ["+a@5"]);
        assert_eq!(told(&mut known, pod("a", "1", "5")), [""; 0]);
        assert_eq!(told(&mut known, pod("a", "1", "6")), ["+a@6"]);
        assert_eq!(told(&mut known, pod("a", "2", "7")), ["-a", "+a@7"]);
    }

    #[test]
    fn what_a_list_lacks_is_gone() {
        let mut known = Known::new(Form::Pod);
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
