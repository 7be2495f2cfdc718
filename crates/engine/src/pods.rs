//! Every pod as last seen from the API server, by name: what the reference calls the informer's view.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use hashbrown::{Equivalent, HashMap};
use kube_scheduler_api_types::Pod;
use rustc_hash::FxBuildHasher;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Key(Arc<str>, Arc<str>);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        KeyRef(&self.0, &self.1).hash(state);
    }
}

#[derive(Hash)]
struct KeyRef<'a>(&'a str, &'a str);

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        *self.0 == *key.0 && *self.1 == *key.1
    }
}

/// Pods by namespace and name.
#[derive(Debug, Default)]
pub(crate) struct PodIndex(HashMap<Key, Arc<Pod>, FxBuildHasher>);

impl PodIndex {
    /// The pod of this name.
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<Pod>> {
        self.0.get(&KeyRef(namespace, name))
    }

    /// Notes the newest state; gives the one before.
    pub(crate) fn insert(&mut self, pod: Arc<Pod>) -> Option<Arc<Pod>> {
        self.0.insert(Key(pod.namespace.clone(), pod.name.clone()), pod)
    }

    /// Forgets a pod.
    pub(crate) fn remove(&mut self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        self.0.remove(&KeyRef(namespace, name))
    }

    /// All pods, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.0.values()
    }

    /// How many pods there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
