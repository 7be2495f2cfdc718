//! Adding, updating and removing objects that are neither pods nor nodes, with all that is derived from them.

use std::sync::Arc;

use kube_scheduler_api_types::Object;

use crate::domains::{CounterSpec, DomainCounts};
use crate::state::ClusterState;

/// # Objects of other kinds
impl ClusterState {
    /// Adds or replaces an object that is neither pod nor node, and returns the one that was there.
    pub fn upsert_object(&mut self, object: Arc<Object>) -> Option<Arc<Object>> {
        let is_namespace = is_namespace(&object.group, &object.kind);
        let name = object.name.clone();
        let old = self.objects.upsert(object.clone());
        self.storage_changed(old.as_deref(), Some(&object));
        self.volumes.object_changed(&self.objects, old.as_deref(), Some(&object));
        self.groups.object_changed(old.as_deref(), Some(&object));
        if is_namespace {
            self.namespace_changed(&name, old.as_deref());
        }
        old
    }

    /// Takes over the revision of a known object that the API server answered a write with, and returns the one that was
    /// there. `None`, without any change, if the object is not known or not older. Watch events of this revision and older
    /// ones are [stale](crate::ObjectStore::is_stale) from then on.
    pub fn confirm_object(&mut self, object: Arc<Object>) -> Option<Arc<Object>> {
        if !self.objects.is_newer(&object) {
            return None;
        }
        let old = self.upsert_object(object.clone());
        self.objects.note_confirmed(&object);
        old
    }

    /// Removes an object that is neither pod nor node, and returns it.
    pub fn remove_object(
        &mut self,
        group: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Option<Arc<Object>> {
        let old = self.objects.remove(group, kind, namespace, name)?;
        self.storage_changed(Some(&old), None);
        self.volumes.object_changed(&self.objects, Some(&old), None);
        self.groups.object_changed(Some(&old), None);
        if is_namespace(group, kind) {
            self.namespace_changed(name, Some(&old));
        }
        Some(old)
    }

    /// Counts again where a namespace is selected now and was not before, or the other way round. O(pods) for each such
    /// counter.
    fn namespace_changed(&mut self, name: &str, old: Option<&Object>) {
        let old = old.map(|object| &object.labels);
        let new = self.objects.namespace_labels(name);
        if old == new {
            return;
        }
        let specs: Vec<CounterSpec> = self
            .counters
            .all()
            .map(|counts| counts.spec())
            .filter(|spec| spec.pods.distinguishes(old, new))
            .cloned()
            .collect();
        for spec in specs {
            let counts = DomainCounts::count(self, &spec);
            self.counters.replace(Arc::new(counts));
        }
    }
}

fn is_namespace(group: &str, kind: &str) -> bool {
    group.is_empty() && kind == "Namespace"
}
