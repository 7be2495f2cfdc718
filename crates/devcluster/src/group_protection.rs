//! The controller that lets a deleted group go once no pod belongs to it any more.
//!
//! Invariant: the finalizer is taken away only from groups that are being deleted and whose pods have ended or are gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::api::WriteOptions;
use crate::api::update::{Part, Target, modify_in};
use crate::groups::{FINALIZER, group_of};
use crate::history::ChangeType;
use crate::kinds::{POD_GROUPS, PODS};
use crate::object::{StoredObject, key_of, list_mut, meta_mut, text_at};
use crate::selectors::Selection;
use crate::status::StatusError;
use crate::store::{State, Store};
use crate::watch::{WatchEvent, Watcher};

/// Runs until `shutdown`.
pub(crate) async fn run(store: Arc<Store>, shutdown: CancellationToken) {
    while !shutdown.is_cancelled() {
        let mut protection = Protection::default();
        if let Err(error) = protection.follow(&store, &shutdown).await {
            // Too far behind its watches: start over from the current state.
            debug!(%error, "the protection of pod groups lost its watch");
        }
    }
}

/// Which groups have pods, and which are to go.
#[derive(Debug, Default)]
pub(crate) struct Protection {
    /// The pods of a group that have not ended, by the group's key.
    members: BTreeMap<String, BTreeSet<String>>,
    /// The group of a pod, by the pod's key.
    group_of: BTreeMap<String, String>,
    terminating: BTreeSet<String>,
}

impl Protection {
    async fn follow(
        &mut self,
        store: &Arc<Store>,
        shutdown: &CancellationToken,
    ) -> Result<(), StatusError> {
        let all = |kind| Watcher::list_and_watch(store.clone(), kind, Selection::all());
        // Pods first: a group must not be taken for empty because its pods were not seen yet.
        let (pods, mut pod_watch) = all(PODS)?;
        let (groups, mut group_watch) = all(POD_GROUPS)?;
        pods.iter().for_each(|pod| self.see_pod(pod, ChangeType::Added));
        groups.iter().for_each(|group| self.see_group(group, ChangeType::Added));
        loop {
            self.release_empty(store);
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(()),
                events = pod_watch.next() => {
                    for WatchEvent { change_type, object } in events? {
                        self.see_pod(&object, change_type);
                    }
                }
                events = group_watch.next() => {
                    for WatchEvent { change_type, object } in events? {
                        self.see_group(&object, change_type);
                    }
                }
            }
        }
    }

    pub(crate) fn see_pod(&mut self, pod: &StoredObject, change: ChangeType) {
        let key = key_of(pod.namespace(), pod.name());
        let group = if change == ChangeType::Deleted || !may_have_group(pod) {
            None
        } else {
            let value = pod.value();
            let has_ended = matches!(text_at(&value, &["status", "phase"]), "Succeeded" | "Failed");
            let group = group_of(&value).filter(|_| !has_ended);
            group.map(|group| key_of(pod.namespace(), group))
        };
        if let Some(before) = self.group_of.remove(&key)
            && let Some(members) = self.members.get_mut(&before)
        {
            members.remove(&key);
            if members.is_empty() {
                self.members.remove(&before);
            }
        }
        if let Some(group) = group {
            self.members.entry(group.clone()).or_default().insert(key.clone());
            self.group_of.insert(key, group);
        }
    }

    pub(crate) fn see_group(&mut self, group: &StoredObject, change: ChangeType) {
        let key = key_of(group.namespace(), group.name());
        if change != ChangeType::Deleted && group.is_terminating() {
            self.terminating.insert(key);
        } else {
            self.terminating.remove(&key);
        }
    }

    /// Takes the finalizer away from groups that nothing holds any more.
    pub(crate) fn release_empty(&mut self, store: &Store) {
        let empty: Vec<String> = self
            .terminating
            .iter()
            .filter(|key| !self.members.contains_key(*key))
            .cloned()
            .collect();
        if empty.is_empty() {
            return;
        }
        // The closure returns no error, so neither does the write.
        let _ = store.write(|state| {
            for key in &empty {
                self.terminating.remove(key);
                release(state, key);
            }
            Ok(())
        });
    }
}

fn release(state: &mut State, key: &str) {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    let target = Target { kind: POD_GROUPS, namespace, name, part: Part::Main };
    // A group that is gone needs nothing.
    let _ = modify_in(state, target, &WriteOptions::default(), |group| {
        let mut group = group.clone();
        list_mut(meta_mut(&mut group), "finalizers").retain(|finalizer| finalizer != FINALIZER);
        Ok(group)
    });
}

/// A cheap look at the text: most pods have no group and need not be parsed.
fn may_have_group(pod: &StoredObject) -> bool {
    const FIELD: &[u8] = b"\"schedulingGroup\":";
    pod.json().windows(FIELD.len()).any(|window| window == FIELD)
}
