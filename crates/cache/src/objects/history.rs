//! The latest changes of the objects of devices, for followers that keep something up to date about all of them: claims
//! are too many to be looked at for every pod.
//!
//! Invariant: two stores with the same latest change of a kind have the same objects of that kind. A change is itself and
//! no other, so copies of a store that went different ways are distinguished.

use std::collections::VecDeque;
use std::sync::Arc;

use kube_scheduler_api_types::Object;

use super::ObjectStore;

/// The API group of claims, slices and classes of devices.
pub(crate) const DEVICE_GROUP: &str = "resource.k8s.io";

/// How many changes of a kind are kept at most. Followers that fall further behind start over.
const MAX_CHANGES: usize = 1024;

/// Bytes of JSON that the changes of a kind may hold, even if few objects of it are left.
const MIN_BYTES: usize = 8 << 20;

/// A change of one object.
#[derive(Debug)]
pub struct ObjectChange {
    /// What it was before; `None` if it was added.
    pub old: Option<Arc<Object>>,
    /// What it is now; `None` if it was removed.
    pub new: Option<Arc<Object>>,
    /// Whether it is about the [pending](ObjectStore::pending) form.
    pub is_pending: bool,
}

/// The latest changes of one kind. They hold no more bytes than the objects that are there, or `MIN_BYTES`. Not much less: who
/// starts over forgets in which order devices came to claims, on which it depends who holds one that two claims have.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// Oldest first, each with its bytes of JSON.
    changes: VecDeque<(usize, Arc<ObjectChange>)>,
    /// What `changes` hold.
    n_bytes: usize,
    /// What the objects hold that are there, pending ones aside.
    n_bytes_there: usize,
}

impl History {
    fn push(&mut self, change: ObjectChange) {
        let [old, new] = [&change.old, &change.new]
            .map(|object| object.as_ref().map_or(0, |object| object.json.n_bytes()));
        if !change.is_pending {
            self.n_bytes_there = self.n_bytes_there + new - old;
        }
        self.n_bytes += old + new;
        self.changes.push_back((old + new, Arc::new(change)));
        let may_hold = self.n_bytes_there.max(MIN_BYTES);
        while self.changes.len() > MAX_CHANGES || self.n_bytes > may_hold {
            let Some((n_bytes, change)) = self.changes.pop_front() else { break };
            self.n_bytes -= n_bytes;
            if self.changes.is_empty() {
                // Followers know by the latest change that there is nothing new. None of them reads this one: those that are
                // behind it start over.
                let is_pending = change.is_pending;
                let nameless = ObjectChange { old: None, new: None, is_pending };
                self.changes.push_back((0, Arc::new(nameless)));
            }
        }
    }
}

/// # Changes
impl ObjectStore {
    /// The latest change of a kind of `resource.k8s.io`; `None` if there never was one. Of other kinds no changes are kept.
    pub fn latest_change(&self, group: &str, kind: &str) -> Option<&Arc<ObjectChange>> {
        self.kind(group, kind)?.history.changes.back().map(|(_, change)| change)
    }

    /// The changes of a kind after `last`, oldest first. `None` if that is not known: `last` is too long ago, or did not
    /// happen in this copy of the store. O(changes).
    pub fn changes_after(
        &self,
        group: &str,
        kind: &str,
        last: &Arc<ObjectChange>,
    ) -> Option<impl Iterator<Item = &Arc<ObjectChange>>> {
        let changes = &self.kind(group, kind)?.history.changes;
        let at = changes.iter().rposition(|(_, change)| Arc::ptr_eq(change, last))?;
        Some(changes.range(at + 1..).map(|(_, change)| change))
    }

    /// Keeps a change of an object of `group` and `kind`, if changes of that kind are kept.
    pub(super) fn note_change(&mut self, group: &str, kind: &str, change: ObjectChange) {
        if group != DEVICE_GROUP {
            return;
        }
        if let Some(store) = self.kind_mut(group, kind) {
            store.history.push(change);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const CLAIM: &str = "ResourceClaim";

    fn claim(name: &str, n_bytes: usize) -> Arc<Object> {
        let claim = json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": CLAIM,
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"text": "x".repeat(n_bytes)},
        });
        Arc::new(Object::from_value(claim).unwrap())
    }

    fn held(store: &ObjectStore) -> (usize, usize) {
        let history = &store.kind(DEVICE_GROUP, CLAIM).unwrap().history;
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
            store.remove(DEVICE_GROUP, CLAIM, "default", &format!("claim-{i}"));
        }
        let (n_changes, n_held) = held(&store);
        assert!(n_changes > 0 && n_held <= MIN_BYTES, "{n_changes} {n_held}");
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

    impl Follower {
        fn follow(&mut self, store: &ObjectStore) {
            let latest = store.latest_change(DEVICE_GROUP, CLAIM).cloned();
            let last = std::mem::replace(&mut self.last, latest);
            let changes =
                last.as_ref().and_then(|last| store.changes_after(DEVICE_GROUP, CLAIM, last));
            let Some(changes) = changes else {
                self.known = store.list(DEVICE_GROUP, CLAIM).cloned().collect();
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
                        drop(store.remove(DEVICE_GROUP, CLAIM, "default", &name.to_string()));
                    }
                    Step::AddPending(name, size) => {
                        store.add_pending(claim(&name.to_string(), size));
                    }
                    Step::Follow => {
                        follower.follow(&store);
                        let there: Vec<_> = store.list(DEVICE_GROUP, CLAIM).cloned().collect();
                        prop_assert_eq!(&follower.known, &there);
                    }
                }
                let of_objects = store.list(DEVICE_GROUP, CLAIM).map(|object| object.json.n_bytes());
                let may_hold = of_objects.sum::<usize>().max(MIN_BYTES);
                if store.latest_change(DEVICE_GROUP, CLAIM).is_some() {
                    prop_assert!(held(&store).1 <= may_hold);
                }
            }
        }
    }
}
