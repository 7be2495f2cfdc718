//! A store for tests: its clock stands still, and its only object is the namespace `default`.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api::WriteOptions;
use crate::api::create::create;
use crate::api::delete::{DeleteOptions, delete};
use crate::api::update::{Part, Target, modify};
use crate::clock::FixedClock;
use crate::kinds::{KindId, NAMESPACES, PODS};
use crate::selectors::Selection;
use crate::store::{Store, StoreOptions};

/// A store that keeps the last `history` changes for watches, and nothing in it.
pub(crate) fn empty_store(history: usize) -> Arc<Store> {
    Arc::new(Store::new(StoreOptions {
        clock: Arc::new(FixedClock::new(Timestamp::UNIX_EPOCH)),
        seed: 1,
        history,
        events_kept: 10,
        events_ttl_seconds: 3600,
    }))
}

/// A store with the namespace `default`.
pub(crate) fn store() -> Arc<Store> {
    let store = empty_store(100_000);
    store.add(NAMESPACES, "", json!({"metadata": {"name": "default"}}));
    store
}

/// What tests do with a store. Names are those of the namespace `default`, or of none.
impl Store {
    /// Creates an object, as a client does.
    pub(crate) fn add(&self, kind: KindId, namespace: &str, value: Value) {
        create(self, kind, namespace, value, &WriteOptions::default()).expect("created");
    }

    /// Changes an object.
    pub(crate) fn edit(
        &self,
        kind: KindId,
        name: &str,
        part: Part,
        change: impl FnOnce(&mut Value),
    ) {
        let target = Target { kind, namespace: "default", name, part };
        let changed = modify(self, target, &WriteOptions::default(), |old| {
            let mut new = old.clone();
            change(&mut new);
            Ok(new)
        });
        changed.expect("changed");
    }

    /// A pod ends, with this phase.
    pub(crate) fn end_pod(&self, name: &str, phase: &str) {
        self.edit(PODS, name, Part::Status, |pod| pod["status"]["phase"] = phase.into());
    }

    /// Deletes an object, without grace unless something holds it.
    pub(crate) fn delete(&self, kind: KindId, name: &str) {
        let namespace = if kind.get().namespaced { "default" } else { "" };
        let options = DeleteOptions { grace_seconds: Some(0), ..DeleteOptions::default() };
        delete(self, kind, namespace, name, &options).expect("deleted");
    }

    /// An object; null if there is no such one.
    pub(crate) fn value(&self, kind: KindId, name: &str) -> Value {
        self.get(kind, "default", name).map(|object| object.value()).unwrap_or_default()
    }

    /// All objects of a kind.
    pub(crate) fn values(&self, kind: KindId) -> Vec<Value> {
        self.list(kind, &Selection::all()).items.iter().map(|object| object.value()).collect()
    }

    /// The names of all objects of a kind.
    pub(crate) fn names(&self, kind: KindId) -> Vec<String> {
        let all = self.list(kind, &Selection::all()).items;
        all.iter().map(|object| object.name().to_owned()).collect()
    }
}
