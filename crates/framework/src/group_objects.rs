//! The objects of one API group, read so that changes in other groups need not matter to an answer.

use std::sync::Arc;

use kube_scheduler_api_types::Object;
use kube_scheduler_cache::ObjectStore;
use kube_scheduler_cache::reads::{ReadSet, Reads};

/// The objects of one API group that are neither pods nor nodes. Lookups are as in [`ObjectStore`]. An answer depends on the
/// objects of the kinds that are looked up.
#[derive(Clone, Copy, Debug)]
pub struct GroupObjects<'a> {
    objects: &'a ObjectStore,
    reads: &'a ReadSet,
    group: &'static str,
}

impl<'a> GroupObjects<'a> {
    pub(crate) const fn new(
        objects: &'a ObjectStore,
        reads: &'a ReadSet,
        group: &'static str,
    ) -> Self {
        Self { objects, reads, group }
    }

    fn of(self, kind: &str) -> &'a ObjectStore {
        self.reads.note(Reads::of_kind(self.group, kind));
        self.objects
    }

    /// One object. Cluster-wide kinds have the empty namespace.
    pub fn get(self, kind: &str, namespace: &str, name: &str) -> Option<&'a Arc<Object>> {
        self.of(kind).get(self.group, kind, namespace, name)
    }

    /// One object as it is expected to be: the assumed copy if there is one, else what [`get`](Self::get) gives.
    pub fn latest(self, kind: &str, namespace: &str, name: &str) -> Option<&'a Arc<Object>> {
        self.of(kind).latest(self.group, kind, namespace, name)
    }

    /// All objects of a kind, by namespace and name.
    pub fn list(self, kind: &str) -> impl Iterator<Item = &'a Arc<Object>> {
        self.of(kind).list(self.group, kind)
    }

    /// All objects of a kind in one namespace, by name.
    pub fn list_in(self, kind: &str, namespace: &str) -> impl Iterator<Item = &'a Arc<Object>> {
        self.of(kind).list_in(self.group, kind, namespace)
    }

    /// How many objects of a kind there are.
    pub fn n_objects(self, kind: &str) -> usize {
        self.of(kind).n_objects(self.group, kind)
    }
}
