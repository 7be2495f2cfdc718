//! Writes of objects that were asked for on behalf of pods without waiting for an answer.
//!
//! Until the watch shows the result of such a write, the store has the object as it was before. A new revision is no proof
//! either: it may come from another client and be older than the write. So what a pod has written stays noted as long as the pod
//! may be tried again, whatever revision the store has: a decision about that pod must not rely on what the write takes away. A
//! patch of one revision, which is not tried again on another, is noted for all pods, until the store has another revision: it can
//! have no effect from then on.
//!
//! Invariant: an entry belongs to a pod that was not bound or gone when it was made, until
//! [`ObjectStore::forget_unanswered`], or is a patch of the revision that the store has; a pod has no more entries than there were
//! objects that it has written and that still existed when it wrote the last one, and all that are bound or gone together have no more
//! than there are objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_api_types::Object;

use super::{ObjectKey, ObjectStore};

/// A write of an object whose answer is not waited for. Sorted so that all replacements of an object are side by side.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnansweredWrite {
    /// The object's, so that one of the same name that was made later is not meant.
    uid: Arc<str>,
    /// Whether it changes a part of the status, instead of replacing the object or its status.
    is_patch: bool,
    /// The only revision that the write can change; absent if it changes any.
    revision: Option<Arc<str>>,
}

impl UnansweredWrite {
    /// Whether the write replaces exactly this revision, which is over as soon as the write is carried out.
    pub fn ends(&self, object: &Object) -> bool {
        !self.is_patch && self.revision.as_ref() == Some(&object.resource_version)
    }

    fn is_about(&self, object: &Object) -> bool {
        self.uid == object.uid && self.revision.as_ref() == Some(&object.resource_version)
    }

    /// Whether it is a patch of one revision only.
    fn is_patch_of_one(&self) -> bool {
        self.is_patch && self.revision.is_some()
    }
}

/// Stands in the place of a pod's UID, for all pods that are bound or gone. What is noted for them are patches of one revision,
/// which have the same effect on an object for any pod, so one entry for each object is enough.
const NOBODY: &str = "";

/// The last such write of each pod to each object, by the pod's UID.
#[derive(Clone, Debug, Default)]
pub(super) struct UnansweredWrites(Arc<Tables>);

#[derive(Clone, Debug, Default)]
struct Tables {
    by_object: BTreeMap<ObjectKey, ObjectWrites>,
    by_pod: BTreeMap<Arc<str>, BTreeSet<ObjectKey>>,
}

/// The writes to one object.
#[derive(Clone, Debug, Default)]
struct ObjectWrites {
    by_pod: BTreeMap<Arc<str>, UnansweredWrite>,
    /// For how many pods each is noted. The members of a group ask for the same one.
    counts: BTreeMap<UnansweredWrite, usize>,
}

impl ObjectWrites {
    fn insert(&mut self, pod_uid: &Arc<str>, write: UnansweredWrite) {
        self.remove(pod_uid);
        *self.counts.entry(write.clone()).or_default() += 1;
        self.by_pod.insert(pod_uid.clone(), write);
    }

    fn remove(&mut self, pod_uid: &str) {
        let Some(write) = self.by_pod.remove(pod_uid) else { return };
        if let Some(n_pods) = self.counts.get_mut(&write) {
            *n_pods -= 1;
            if *n_pods == 0 {
                self.counts.remove(&write);
            }
        }
    }

    /// One that can change this revision of the object; one that ends it, if there is any. O(log writes).
    fn strongest(&self, object: &Object) -> Option<&UnansweredWrite> {
        let write = |is_patch, revision| {
            let wanted = UnansweredWrite { uid: object.uid.clone(), is_patch, revision };
            self.counts.get_key_value(&wanted).map(|(known, _)| known)
        };
        let this_one = || Some(object.resource_version.clone());
        let first = UnansweredWrite { uid: object.uid.clone(), is_patch: false, revision: None };
        let mut replacements = self.counts.range(first..);
        let is_one = |known: &&UnansweredWrite| known.uid == object.uid && !known.is_patch;
        write(false, this_one())
            .or_else(|| replacements.next().map(|(known, _)| known).filter(is_one))
            .or_else(|| write(true, None))
            .or_else(|| write(true, this_one()))
    }
}

impl Tables {
    fn note(&mut self, key: &ObjectKey, pod_uid: &Arc<str>, write: UnansweredWrite) {
        self.by_object.entry(key.clone()).or_default().insert(pod_uid, write);
        self.by_pod.entry(pod_uid.clone()).or_default().insert(key.clone());
    }

    /// Forgets what a pod has written to an object.
    fn forget_one(&mut self, key: &ObjectKey, pod_uid: &str) {
        if let Some(keys) = self.by_pod.get_mut(pod_uid) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_pod.remove(pod_uid);
            }
        }
        if let Some(of_object) = self.by_object.get_mut(key) {
            of_object.remove(pod_uid);
            if of_object.by_pod.is_empty() {
                self.by_object.remove(key);
            }
        }
    }

    /// Forgets what a pod has written, except for what `is_kept`.
    fn forget(
        &mut self,
        pod_uid: &str,
        mut is_kept: impl FnMut(&ObjectKey, &UnansweredWrite) -> bool,
    ) {
        let Some((uid, mut keys)) = self.by_pod.remove_entry(pod_uid) else { return };
        keys.retain(|key| {
            let of_object = self.by_object.get(key);
            let write = of_object.and_then(|of_object| of_object.by_pod.get(pod_uid));
            let is_kept = write.is_some_and(|write| is_kept(key, write));
            if !is_kept && let Some(of_object) = self.by_object.get_mut(key) {
                of_object.remove(pod_uid);
                if of_object.by_pod.is_empty() {
                    self.by_object.remove(key);
                }
            }
            is_kept
        });
        if !keys.is_empty() {
            self.by_pod.insert(uid, keys);
        }
    }
}

/// # Writes without an answer
impl ObjectStore {
    /// Notes that a write of a known object was asked for on behalf of a pod: of this revision alone, or of any, and a patch or a
    /// replacement. Unknown objects are left out.
    pub fn note_unanswered(
        &mut self,
        key: &ObjectKey,
        pod_uid: &Arc<str>,
        revision: Option<Arc<str>>,
        is_patch: bool,
    ) {
        let ObjectKey { group, kind, namespace, name } = key;
        let Some(known) = self.get(group, kind, namespace, name) else { return };
        let write = UnansweredWrite { uid: known.uid.clone(), revision, is_patch };
        if write.is_patch_of_one() && !write.is_about(known) {
            return;
        }
        let mut all = std::mem::take(&mut self.unanswered);
        let tables = Arc::make_mut(&mut all.0);
        tables.forget(pod_uid, |of, _| {
            self.get(&of.group, &of.kind, &of.namespace, &of.name).is_some()
        });
        tables.note(key, pod_uid, write);
        self.unanswered = all;
        if let Some(store) = self.kind_mut(group, kind) {
            let changed = store.count_change();
            self.versions.count_change(changed);
        }
    }

    /// The last write of `object` that was asked for on behalf of a pod without waiting for an answer.
    pub fn unanswered(&self, object: &Object, pod_uid: &str) -> Option<&UnansweredWrite> {
        // Nearly always there is none.
        if !self.unanswered.0.by_pod.contains_key(pod_uid) {
            return None;
        }
        let of_object = self.unanswered.0.by_object.get(&ObjectKey::from(object))?;
        of_object.by_pod.get(pod_uid).filter(|write| write.uid == object.uid)
    }

    /// Such a write on behalf of any pod that can change this revision of `object`; one that ends it, if there is any.
    /// O(log writes), however many pods have asked for them.
    pub fn unanswered_of_any(&self, object: &Object) -> Option<&UnansweredWrite> {
        // Nearly always there is none.
        if self.are_all_answered() {
            return None;
        }
        self.unanswered.0.by_object.get(&ObjectKey::from(object))?.strongest(object)
    }

    /// Forgets the writes of a pod that is bound or gone, except for patches of the revision that is there: another pod may rely on
    /// what they take away.
    pub fn forget_unanswered(&mut self, pod_uid: &str) {
        if self.unanswered.0.by_pod.contains_key(pod_uid) && pod_uid != NOBODY {
            let tables = Arc::make_mut(&mut self.unanswered.0);
            let mut left = Vec::new();
            tables.forget(pod_uid, |of, write| {
                if write.is_patch_of_one() {
                    left.push((of.clone(), write.clone()));
                }
                false
            });
            for (of, write) in left {
                tables.note(&of, &NOBODY.into(), write);
            }
        }
    }

    /// Forgets the patches of one revision that an object does not have any more. `now` is what there is instead.
    pub(super) fn forget_patches_of(&mut self, key: &ObjectKey, now: Option<&Object>) {
        let is_stale = |write: &UnansweredWrite| {
            write.is_patch_of_one() && now.is_none_or(|now| !write.is_about(now))
        };
        let Some(of_object) = self.unanswered.0.by_object.get(key) else { return };
        if !of_object.counts.keys().any(is_stale) {
            return;
        }
        let stale = of_object.by_pod.iter().filter(|(_, write)| is_stale(write));
        let stale: Vec<Arc<str>> = stale.map(|(pod, _)| pod.clone()).collect();
        for pod in stale {
            Arc::make_mut(&mut self.unanswered.0).forget_one(key, &pod);
        }
    }

    /// Whether no write without an answer is noted.
    pub(super) fn are_all_answered(&self) -> bool {
        self.unanswered.0.by_object.is_empty()
    }

    /// How many writes without an answer are noted.
    pub fn n_unanswered(&self) -> usize {
        self.unanswered.0.by_pod.values().map(BTreeSet::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn object(uid: usize, revision: usize) -> Object {
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"Claim","metadata":{{"name":"o","uid":"{uid}","resourceVersion":"{revision}"}}}}"#
        );
        Object::from_json(json).unwrap()
    }

    proptest! {
        /// The strongest write is one that looking at what every pod has asked for finds.
        #[test]
        fn the_strongest_write_is_found_without_a_look_at_every_pod(
            turns in prop::collection::vec((0..6_usize, 0..2_usize, 0..4_usize, any::<bool>(), 0..4_u8), 0..40),
        ) {
            let mut of_object = ObjectWrites::default();
            for (pod, uid, revision, is_patch, turn) in turns {
                let pod: Arc<str> = format!("pod-{pod}").into();
                if turn == 0 {
                    of_object.remove(&pod);
                } else {
                    let revision = (revision > 0).then(|| revision.to_string().into());
                    let write = UnansweredWrite { uid: uid.to_string().into(), is_patch, revision };
                    of_object.insert(&pod, write);
                }
                for (uid, revision) in (0..3).flat_map(|uid| (1..5).map(move |at| (uid, at))) {
                    let seen = object(uid, revision);
                    let all = of_object.by_pod.values().filter(|write| write.uid == seen.uid);
                    let all = all.filter(|write| !write.is_patch_of_one() || write.is_about(&seen));
                    let ends = all.map(|write| write.ends(&seen)).reduce(|a, b| a | b);
                    let found = of_object.strongest(&seen);
                    prop_assert_eq!(found.map(|write| write.ends(&seen)), ends);
                }
            }
        }
    }

    #[test]
    fn a_write_that_many_pods_ask_for_is_one_to_look_at() {
        let mut of_object = ObjectWrites::default();
        let write = UnansweredWrite { uid: "u".into(), is_patch: false, revision: None };
        for at in 0..1000 {
            of_object.insert(&format!("pod-{at}").into(), write.clone());
        }
        assert_eq!((of_object.by_pod.len(), of_object.counts.len()), (1000, 1));
        (0..1000).for_each(|at| of_object.remove(&format!("pod-{at}")));
        assert!(of_object.by_pod.is_empty() && of_object.counts.is_empty());
    }
}
