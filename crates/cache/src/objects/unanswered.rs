//! Writes of objects that were asked for on behalf of pods without waiting for an answer.
//!
//! Until the watch shows what became of such a write, the store shows the object as it was before, and an object that
//! somebody else has changed in between still does not have the write. So what a pod has written stays noted as long as the
//! pod may be tried again, whatever revision the store has: a decision about that pod must not rely on what the write takes
//! away.
//!
//! Invariant: an entry belongs to a pod that was not bound or gone when it was made, until
//! [`ObjectStore::forget_unanswered`]; a pod has no more entries than there were objects that it has written and that still
//! existed when it wrote the last one.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_api_types::Object;

use super::{ObjectKey, ObjectStore};

/// A write of an object that nobody waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnansweredWrite {
    /// The object's, so that one of the same name that was made later is not meant.
    uid: Arc<str>,
    /// The only revision that the write can change; absent if it changes any.
    revision: Option<Arc<str>>,
}

impl UnansweredWrite {
    /// Whether the write was about exactly this revision, which is over as soon as the write is carried out.
    pub fn ends(&self, object: &Object) -> bool {
        self.revision.as_ref() == Some(&object.resource_version)
    }
}

/// The last such write of each object, by the UID of the pod.
#[derive(Clone, Debug, Default)]
pub(super) struct UnansweredWrites(Arc<BTreeMap<Arc<str>, BTreeMap<ObjectKey, UnansweredWrite>>>);

/// # Writes without an answer
impl ObjectStore {
    /// Notes that a write of a known object was asked for on behalf of a pod: of this revision alone, or of any. Unknown
    /// objects are left out.
    pub fn note_unanswered(
        &mut self,
        key: &ObjectKey,
        pod_uid: &Arc<str>,
        revision: Option<Arc<str>>,
    ) {
        let ObjectKey { group, kind, namespace, name } = key;
        let Some(known) = self.get(group, kind, namespace, name) else { return };
        let write = UnansweredWrite { uid: known.uid.clone(), revision };
        let mut all = std::mem::take(&mut self.unanswered);
        let of_pod = Arc::make_mut(&mut all.0).entry(pod_uid.clone()).or_default();
        let is_there =
            |of: &ObjectKey| self.get(&of.group, &of.kind, &of.namespace, &of.name).is_some();
        of_pod.retain(|key, _| is_there(key));
        of_pod.insert(key.clone(), write);
        self.unanswered = all;
        if let Some(store) = self.kind_mut(group, kind) {
            store.sequence += 1;
            self.sequence += 1;
        }
    }

    /// The last write of `object` that was asked for on behalf of a pod without waiting for an answer.
    pub fn unanswered(&self, object: &Object, pod_uid: &str) -> Option<&UnansweredWrite> {
        // Nearly always there is none.
        let of_pod = self.unanswered.0.get(pod_uid)?;
        of_pod.get(&ObjectKey::from(object)).filter(|write| write.uid == object.uid)
    }

    /// Forgets the writes of a pod that is bound or gone.
    pub fn forget_unanswered(&mut self, pod_uid: &str) {
        if self.unanswered.0.contains_key(pod_uid) {
            Arc::make_mut(&mut self.unanswered.0).remove(pod_uid);
        }
    }

    /// How many writes without an answer are noted.
    pub fn n_unanswered(&self) -> usize {
        self.unanswered.0.values().map(BTreeMap::len).sum()
    }
}
