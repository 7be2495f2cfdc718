//! The garbage collector: objects whose owners are all gone are deleted, and owners that are deleted in the foreground go
//! after their dependents.
//!
//! Invariants: an object with an owner that exists, by uid, is never deleted; an owner of a kind that is not served counts as
//! existing; one write looks at a bounded number of owners, and nothing here recurses, however long a chain of owners is.

use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::api::WriteOptions;
use crate::api::delete::{DeleteOptions, FOREGROUND, Propagation, delete_in};
use crate::api::update::{Part, Target, modify_in};
use crate::dependents::ObjectKey;
use crate::kinds::KindId;
use crate::object::{list_at, list_mut, meta_mut, text_at};
use crate::store::{State, Store};

/// How many owners are looked at in one write.
const BATCH: usize = 64;

/// Runs until `shutdown`.
pub(crate) async fn run(store: Arc<Store>, shutdown: CancellationToken) {
    start(&store);
    loop {
        while collect(&store) {
            tokio::task::yield_now().await;
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = store.garbage() => {}
        }
    }
}

/// Lets the store remember what has to be collected.
pub(crate) fn start(store: &Store) {
    // The closure returns no error, so neither does the write.
    let _ = store.write(|state| {
        state.dependents.start_collecting();
        Ok(())
    });
}

/// Looks at some owners; returns whether more are left.
pub(crate) fn collect(store: &Store) -> bool {
    let more = store.write(|state| {
        for _ in 0..BATCH {
            let Some(owner) = state.dependents.take_stale() else { break };
            look_at(state, &owner);
        }
        Ok(state.dependents.has_work())
    });
    more.unwrap_or(false)
}

fn look_at(state: &mut State, owner: &str) {
    let dependents: Vec<ObjectKey> = state.dependents.of(owner).cloned().collect();
    for dependent in &dependents {
        look_at_dependent(state, dependent);
    }
    finish_owner(state, owner);
}

/// What became of an owner that an object names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OwnerState {
    Present,
    /// It is being deleted, after its dependents.
    Waiting,
    Gone,
}

fn look_at_dependent(state: &mut State, (kind, key): &ObjectKey) {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    let Some(object) = state.get(*kind, namespace, name).cloned() else { return };
    if object.is_terminating() {
        return;
    }
    let value = object.value();
    let references = list_at(&value, &["metadata", "ownerReferences"]);
    let states: Vec<OwnerState> =
        references.iter().map(|reference| state_of(state, namespace, reference)).collect();
    let has_left = states.iter().any(|owner| *owner != OwnerState::Present);
    if !has_left {
        return;
    }
    if states.contains(&OwnerState::Present) {
        let target = Target { kind: *kind, namespace, name, part: Part::Main };
        // Rejected only when it is gone.
        let _ = modify_in(state, target, &WriteOptions::default(), |old| {
            let mut new = old.clone();
            let mut states = states.iter();
            list_mut(meta_mut(&mut new), "ownerReferences")
                .retain(|_| states.next() == Some(&OwnerState::Present));
            Ok(new)
        });
        return;
    }
    let is_owner = state.dependents.of(object.uid()).next().is_some();
    let in_foreground = is_owner && states.contains(&OwnerState::Waiting);
    let options = DeleteOptions {
        uid: Some(object.uid().to_owned()),
        propagation: if in_foreground { Propagation::Foreground } else { Propagation::Background },
        ..DeleteOptions::default()
    };
    // Rejected only when it is gone, or may never be deleted.
    let _ = delete_in(state, *kind, namespace, name, &options);
}

fn state_of(state: &mut State, namespace: &str, reference: &Value) -> OwnerState {
    let text = |field| text_at(reference, &[field]);
    let kind = KindId::by_manifest(text("apiVersion"), text("kind")).map(KindId::storage);
    let Some(kind) = kind else {
        return OwnerState::Present;
    };
    let namespace = if kind.get().namespaced { namespace } else { "" };
    let owner = state.get(kind, namespace, text("name")).cloned();
    let Some(owner) = owner.filter(|owner| owner.uid() == text("uid")) else {
        return OwnerState::Gone;
    };
    let waits = owner.is_terminating()
        && list_at(&owner.value(), &["metadata", "finalizers"]).contains(&FOREGROUND.into());
    if !waits {
        return OwnerState::Present;
    }
    // Not noted yet after a restart from a file.
    if state.dependents.waiting_owner(owner.uid()).is_none() {
        state.dependents.wait_for(kind, &owner);
    }
    OwnerState::Waiting
}

/// Releases an owner that waits for its dependents once none is left that blocks it.
fn finish_owner(state: &mut State, owner: &str) {
    let Some((kind, key)) = state.dependents.waiting_owner(owner).cloned() else { return };
    let is_blocking = |(kind, key): &ObjectKey| {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        state.get(*kind, namespace, name).is_some_and(|dependent| {
            list_at(&dependent.value(), &["metadata", "ownerReferences"]).iter().any(|reference| {
                text_at(reference, &["uid"]) == owner
                    && reference.get("blockOwnerDeletion") == Some(&Value::Bool(true))
            })
        })
    };
    if state.dependents.of(owner).any(is_blocking) {
        return;
    }
    let (namespace, name) = key.split_once('/').unwrap_or(("", &key));
    let target = Target { kind, namespace, name, part: Part::Main };
    // Rejected only when it is gone.
    let _ = modify_in(state, target, &WriteOptions::default(), |old| {
        let mut new = old.clone();
        list_mut(meta_mut(&mut new), "finalizers").retain(|finalizer| finalizer != FOREGROUND);
        Ok(new)
    });
}

#[cfg(test)]
mod tests;
