//! The latest changes of the objects of devices, for followers that keep something up to date about all of them: claims
//! are too many to be looked at for every pod.
//!
//! Of claims only those are of interest that hold devices, or that a scheduler made: what anybody may write is not kept once it
//! is gone.
//!
//! Followers start over when an object goes that was deleted before it was seen ([`ObjectStore::note_deletion`]).
//!
//! Invariant: two stores with the same latest change of a kind have the same objects of that kind, as far as they are of
//! interest. A change is itself and no other, so copies of a store that went different ways are distinguished.

use std::collections::VecDeque;
use std::sync::Arc;

use kube_scheduler_api_types::Object;
use kube_scheduler_api_types::well_known::{EXTENDED_RESOURCE_CLAIM, RESOURCE_GROUP};

use super::{KindStore, ObjectKey, ObjectStore};
use crate::store_size::StoreSize;

/// How many changes of a kind are kept at most. Followers that fall further behind start over.
const MAX_CHANGES: usize = 1024;

const CLAIM: &str = "ResourceClaim";

/// How many deletions are remembered for a kind until the watch shows them. The oldest is forgotten.
const MAX_DELETIONS: usize = 1024;

/// Bytes of objects that the changes of a kind may hold, even if few objects of it are left.
const MIN_BYTES: usize = 8 << 20;

/// What a change takes beside its objects, in bytes.
const PER_CHANGE: usize = size_of::<(usize, Arc<ObjectChange>)>() + size_of::<ObjectChange>();

/// What a deletion takes, in bytes, with the text of a UID.
const PER_DELETION: usize = size_of::<Arc<str>>() + 64;

/// A change of one object.
#[derive(Debug)]
pub struct ObjectChange {
    /// What it was before; `None` if it was added, or was of no interest.
    pub old: Option<Arc<Object>>,
    /// What it is now; `None` if it was removed, or is of no interest.
    pub new: Option<Arc<Object>>,
    /// Whether it is about the [pending](ObjectStore::pending) form.
    pub is_pending: bool,
}

/// The latest changes of one kind. They hold no more bytes than the objects that are there, or `MIN_BYTES`. Not much less: who
/// starts over forgets in which order devices came to claims, on which it depends who holds one that two claims have.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// Oldest first, each with the bytes of its objects.
    changes: VecDeque<(usize, Arc<ObjectChange>)>,
    /// Whether there were changes before these.
    has_dropped: bool,
    /// What `changes` hold.
    n_bytes: usize,
    /// What the objects of interest hold that are there, pending ones aside.
    n_bytes_there: usize,
    /// The UIDs of objects that are deleted before the watch has shown them as they were, oldest first.
    deletions: VecDeque<Arc<str>>,
}

impl History {
    fn push(&mut self, change: ObjectChange) {
        let [old, new] = [&change.old, &change.new]
            .map(|object| object.as_ref().map_or(0, |object| object.n_bytes()));
        if !change.is_pending {
            self.n_bytes_there = self.n_bytes_there + new - old;
        }
        self.n_bytes += old + new;
        self.changes.push_back((old + new, Arc::new(change)));
        let may_hold = self.n_bytes_there.max(MIN_BYTES);
        while self.changes.len() > MAX_CHANGES || self.n_bytes > may_hold {
            let Some((n_bytes, _)) = self.changes.pop_front() else { break };
            self.n_bytes -= n_bytes;
            self.has_dropped = true;
            if self.changes.is_empty() {
                self.start_over();
            }
        }
    }

    /// Forgets all changes, so that all followers start over.
    fn start_over(&mut self) {
        self.changes.clear();
        (self.n_bytes, self.has_dropped) = (0, true);
        // Followers know by the latest change that there is nothing new. None of them reads this one: those that are behind it
        // start over.
        let nameless = ObjectChange { old: None, new: None, is_pending: false };
        self.changes.push_back((0, Arc::new(nameless)));
    }

    fn forget_deletion(&mut self, uid: &str) {
        self.deletions.retain(|known| **known != *uid);
    }
}

/// # Changes
impl ObjectStore {
    /// The changes and deletions that are noted; the number of bytes is an upper bound. O(kinds).
    pub fn size_of_history(&self) -> StoreSize {
        let of_kind = |store: &KindStore| {
            let History { changes, n_bytes: held, deletions, .. } = &store.history;
            // What a plugin has read the JSON as is kept with it. That is taken to be as large.
            let n_bytes = 2 * held + changes.len() * PER_CHANGE + deletions.len() * PER_DELETION;
            StoreSize { n_entries: changes.len() + deletions.len(), n_bytes }
        };
        self.kinds.iter().map(of_kind).sum()
    }

    /// The latest change of a kind of `resource.k8s.io`, as far as they are kept; `None` if there never was one. Of claims only those
    /// changes are kept that are about devices that they hold, or about claims that a scheduler made for a pod; of other kinds none.
    pub fn latest_change(&self, group: &str, kind: &str) -> Option<&Arc<ObjectChange>> {
        self.kind(group, kind)?.history.changes.back().map(|(_, change)| change)
    }

    /// The changes of a kind after `last`, oldest first; all there ever were if that is `None`. `None` if they are not known: `last` is
    /// too long ago, or did not happen in this copy of the store. O(changes).
    pub fn changes_after(
        &self,
        group: &str,
        kind: &str,
        last: Option<&Arc<ObjectChange>>,
    ) -> Option<impl Iterator<Item = &Arc<ObjectChange>>> {
        let History { changes, has_dropped, .. } = &self.kind(group, kind)?.history;
        let first = match last {
            None => (!has_dropped).then_some(0)?,
            Some(last) => 1 + changes.iter().rposition(|(_, it)| Arc::ptr_eq(it, last))?,
        };
        Some(changes.range(first..).map(|(_, change)| change))
    }

    /// Keeps a change of an object of `group` and `kind`, if changes of that kind are kept.
    pub(super) fn note_change(&mut self, group: &str, kind: &str, change: ObjectChange) {
        if group != RESOURCE_GROUP {
            return;
        }
        let ObjectChange { old, new, is_pending } = change;
        let [old, new] = [old, new].map(|object| object.filter(|it| is_of_interest(kind, it)));
        if old.is_none() && new.is_none() {
            return;
        }
        if let Some(KindStore { history, .. }) = self.kind_mut(group, kind) {
            let deleted =
                old.as_ref().filter(|old| !is_pending && history.deletions.contains(&old.uid));
            let deleted = deleted.cloned();
            let is_other = |old: &Object| new.as_ref().is_none_or(|new| new.uid != old.uid);
            let is_gone = deleted.as_deref().is_some_and(is_other);
            let holds_no_more = deleted.as_deref().is_some_and(holds_devices)
                && !new.as_deref().is_some_and(holds_devices);
            history.push(ObjectChange { old, new, is_pending });
            // What it held may have been given to another object since its deletion was noted, and followers that free it now
            // would take it from that one: see `note_deletion`.
            if let Some(deleted) = deleted
                && (is_gone || holds_no_more)
            {
                history.start_over();
                if is_gone {
                    history.forget_deletion(&deleted.uid);
                }
            }
        }
    }

    /// Notes that `object`, which a scheduler has made, is about to be deleted at the API server.
    ///
    /// If the watch has not shown it in this revision yet, what it holds counts as free, and may be given to others before the watch
    /// shows it. Then two objects seem to hold the same, and followers that free what the deleted one held would take it from
    /// the other. So they start over once the watch shows that it holds nothing or is gone. O(deletions that are noted).
    pub fn note_deletion(&mut self, object: &Object) {
        let ObjectKey { group, kind, namespace, name } = ObjectKey::from(object);
        if *group != *RESOURCE_GROUP {
            return;
        }
        let known = self.get(&group, &kind, &namespace, &name);
        // What holds devices in this revision holds no others later.
        let is_this = |known: &Arc<Object>| known.resource_version == object.resource_version;
        if known.is_some_and(|known| is_this(known) && holds_devices(known)) {
            return;
        }
        let history = &mut self.kind_or_new(&group, &kind).history;
        history.forget_deletion(&object.uid);
        history.deletions.push_back(object.uid.clone());
        if history.deletions.len() > MAX_DELETIONS {
            history.deletions.pop_front();
        }
    }
}

fn is_of_interest(kind: &str, object: &Object) -> bool {
    let is_made = || !object.json["metadata"]["annotations"][EXTENDED_RESOURCE_CLAIM].is_null();
    kind != CLAIM || holds_devices(object) || is_made()
}

fn holds_devices(claim: &Object) -> bool {
    !claim.json["status"]["allocation"].is_null()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Holds a device if it is of an even size.
    fn claim(name: &str, n_bytes: usize) -> Arc<Object> {
        let claim = json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": CLAIM,
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"text": "x".repeat(n_bytes)},
            "status": {"allocation": if n_bytes.is_multiple_of(2) { json!({}) } else { json!(null) }},
        });
        Arc::new(Object::from_value(claim).unwrap())
    }

    fn held(store: &ObjectStore) -> (usize, usize) {
        let history = &store.kind(RESOURCE_GROUP, CLAIM).unwrap().history;
        (history.changes.len(), history.n_bytes)
    }

    #[test]
    fn objects_that_are_gone_are_not_held() {
        const N_BYTES: usize = 100_000;
        let mut store = ObjectStore::default();
        for i in 0..200 {
            store.upsert(claim(&format!("claim-{i}"), N_BYTES));
        }
        let (_, n_held) = held(&store);
        assert!(n_held >= 200 * N_BYTES, "all are there, so their changes are kept: {n_held}");
        for i in 0..200 {
            store.remove(RESOURCE_GROUP, CLAIM, "default", &format!("claim-{i}"));
        }
        let (n_changes, n_held) = held(&store);
        assert!(n_changes > 0 && n_held <= MIN_BYTES, "{n_changes} {n_held}");

        let mut store = ObjectStore::default();
        store.upsert(claim("without-devices", N_BYTES + 1));
        store.remove(RESOURCE_GROUP, CLAIM, "default", "without-devices");
        assert!(store.latest_change(RESOURCE_GROUP, CLAIM).is_none());
    }

    #[test]
    fn who_follows_starts_over_when_an_object_goes_that_was_deleted_unseen() {
        let mut store = ObjectStore::default();
        let starts_over = |store: &ObjectStore, last: &Option<Arc<ObjectChange>>| {
            store.changes_after(RESOURCE_GROUP, CLAIM, last.as_ref()).is_none()
        };
        let latest = |store: &ObjectStore| store.latest_change(RESOURCE_GROUP, CLAIM).cloned();
        let remove =
            |store: &mut ObjectStore, name| store.remove(RESOURCE_GROUP, CLAIM, "default", name);
        // With an even number of bytes it holds a device.
        let with_uid = |name: &str, n_bytes| {
            let mut claim = Object::clone(&claim(name, n_bytes));
            claim.uid = name.into();
            Arc::new(claim)
        };
        for (name, seen) in [("unseen", None), ("without", Some(1))] {
            if let Some(n_bytes) = seen {
                store.upsert(with_uid(name, n_bytes));
            }
            store.note_deletion(&with_uid(name, seen.unwrap_or(2)));
            store.upsert(with_uid(name, 2));
            let last = latest(&store);
            let mut copy = store.clone();
            assert!(!starts_over(&store, &last));
            remove(&mut store, name);
            remove(&mut copy, name);
            assert!(starts_over(&store, &last) && starts_over(&copy, &last), "{name}");
            let last = latest(&store);
            store.upsert(with_uid(name, 2));
            remove(&mut store, name);
            assert!(!starts_over(&store, &last), "{name}: it is forgotten");
        }
        store.upsert(with_uid("seen", 2));
        store.note_deletion(&with_uid("seen", 2));
        let last = latest(&store);
        remove(&mut store, "seen");
        assert!(!starts_over(&store, &last));
        (0..5000).for_each(|at| store.note_deletion(&with_uid(&at.to_string(), 2)));
        let n_noted = store.kind(RESOURCE_GROUP, CLAIM).unwrap().history.deletions.len();
        assert_eq!(n_noted, MAX_DELETIONS);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Put(u8, usize),
        Remove(u8),
        AddPending(u8, usize),
        Follow,
    }

    fn step() -> impl Strategy<Value = Step> {
        let size = || prop_oneof![6 => 0_usize..100, 1 => Just(5_000_000_usize)];
        prop_oneof![
            4 => (0_u8..6, size()).prop_map(|(name, size)| Step::Put(name, size)),
            2 => (0_u8..6).prop_map(Step::Remove),
            1 => (6_u8..8, size()).prop_map(|(name, size)| Step::AddPending(name, size)),
            2 => Just(Step::Follow),
        ]
    }

    /// Applies changes, and starts over where they are not known.
    #[derive(Default)]
    struct Follower {
        last: Option<Arc<ObjectChange>>,
        known: Vec<Arc<Object>>,
    }

    fn of_interest(store: &ObjectStore) -> Vec<Arc<Object>> {
        let all = store.list(RESOURCE_GROUP, CLAIM);
        all.filter(|claim| is_of_interest(CLAIM, claim)).cloned().collect()
    }

    impl Follower {
        fn follow(&mut self, store: &ObjectStore) {
            let latest = store.latest_change(RESOURCE_GROUP, CLAIM).cloned();
            let last = std::mem::replace(&mut self.last, latest);
            let changes = store.changes_after(RESOURCE_GROUP, CLAIM, last.as_ref());
            let Some(changes) = changes else {
                self.known = of_interest(store);
                return;
            };
            for change in changes.filter(|change| !change.is_pending) {
                let is_old =
                    |object: &Arc<Object>| change.old.iter().any(|old| Arc::ptr_eq(old, object));
                self.known.retain(|object| !is_old(object));
                self.known.extend(change.new.clone());
            }
            self.known.sort_by(|a, b| a.name.cmp(&b.name));
        }
    }

    proptest! {
        #[test]
        fn followers_know_what_is_there(steps in proptest::collection::vec(step(), 1..60)) {
            let mut store = ObjectStore::default();
            let mut follower = Follower::default();
            for step in steps {
                match step {
                    Step::Put(name, size) => drop(store.upsert(claim(&name.to_string(), size))),
                    Step::Remove(name) => {
                        drop(store.remove(RESOURCE_GROUP, CLAIM, "default", &name.to_string()));
                    }
                    Step::AddPending(name, size) => {
                        store.add_pending(claim(&name.to_string(), size));
                    }
                    Step::Follow => {
                        follower.follow(&store);
                        prop_assert_eq!(&follower.known, &of_interest(&store));
                    }
                }
                let of_objects = of_interest(&store).iter().map(|object| object.n_bytes()).sum();
                let may_hold = MIN_BYTES.max(of_objects);
                if store.latest_change(RESOURCE_GROUP, CLAIM).is_some() {
                    prop_assert!(held(&store).1 <= may_hold);
                }
            }
        }
    }
}
