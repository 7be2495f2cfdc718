//! A store for tests: its clock stands still, and its only object is the namespace `default`.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api::WriteOptions;
use crate::api::create::create;
use crate::api::update::{Part, Target, modify};
use crate::clock::FixedClock;
use crate::kinds::{KindId, NAMESPACES};
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
    add(&store, NAMESPACES, "", json!({"metadata": {"name": "default"}}));
    store
}

pub(crate) fn add(store: &Store, kind: KindId, namespace: &str, value: Value) {
    create(store, kind, namespace, value, &WriteOptions::default()).expect("created");
}

/// Changes an object of the namespace `default`.
pub(crate) fn edit(
    store: &Store,
    kind: KindId,
    name: &str,
    part: Part,
    change: impl FnOnce(&mut Value),
) {
    let target = Target { kind, namespace: "default", name, part };
    modify(store, target, &WriteOptions::default(), |old| {
        let mut new = old.clone();
        change(&mut new);
        Ok(new)
    })
    .expect("changed");
}
