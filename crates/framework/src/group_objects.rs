//! The objects of one API group, read so that changes in other groups need not matter to an answer.

use std::sync::Arc;

use kube_scheduler_api_types::Object;
use kube_scheduler_cache::ObjectStore;

/// The objects of one API group that are neither pods nor nodes. Lookups are as in [`ObjectStore`].
#[derive(Clone, Copy, Debug)]
pub struct GroupObjects<'a> {
    objects: &'a ObjectStore,
    group: &'static str,
}

impl<'a> GroupObjects<'a> {
    pub(crate) const fn new(objects: &'a ObjectStore, group: &'static str) -> Self {
        Self { objects, group }
    }

    /// One object. Cluster-wide kinds have the empty namespace.
    pub fn get(self, kind: &str, namespace: &str, name: &str) -> Option<&'a Arc<Object>> {
        self.objects.get(self.group, kind, namespace, name)
    }

    /// One object as it is expected to be: the assumed copy if there is one, else what [`get`](Self::get) gives.
    pub fn latest(self, kind: &str, namespace: &str, name: &str) -> Option<&'a Arc<Object>> {
        self.objects.latest(self.group, kind, namespace, name)
    }

    /// All objects of a kind, by namespace and name.
    pub fn list(self, kind: &str) -> impl Iterator<Item = &'a Arc<Object>> {
        self.objects.list(self.group, kind)
    }

    /// All objects of a kind in one namespace, by name.
    pub fn list_in(self, kind: &str, namespace: &str) -> impl Iterator<Item = &'a Arc<Object>> {
        self.objects.list_in(self.group, kind, namespace)
    }

    /// How many objects of a kind there are.
    pub fn n_objects(self, kind: &str) -> usize {
        self.objects.n_objects(self.group, kind)
    }
}
