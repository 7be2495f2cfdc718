//! The workload controllers: Deployments, ReplicaSets, ReplicationControllers, StatefulSets, DaemonSets and Jobs get their
//! pods.
//!
//! One task has the roles of these controllers of a controller manager. Each is a state machine: a function that looks at one
//! object and what it owns, and takes the next steps; it runs again after every change of either. Nothing here waits for
//! time. Invariants: what a controller has decided because of an event is decided by the state under the store's lock; only
//! objects that name a controller by its uid are changed or counted for it; one write creates and deletes at most
//! [`pods::BURST`] pods.
//!
//! Differences from Kubernetes: a pod that is ready is available (`minReadySeconds` is ignored); there are no deadlines
//! (`progressDeadlineSeconds`, `activeDeadlineSeconds`, `ttlSecondsAfterFinished`) and no back-off; Jobs count the finished
//! pods that still exist, and pods that have no other length by [`crate::RUN_SECONDS`] succeed after a second; there are no
//! ControllerRevisions, so `kubectl rollout history` and `undo` work for Deployments alone; a controller has at most
//! [`pods::MOST_PODS`] pods. CronJobs create no Jobs, HorizontalPodAutoscalers scale nothing.

mod daemon;
mod deployment;
mod job;
mod owned;
mod pods;
mod replicas;
mod rollout;
mod stateful;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{FutureExt, select_all};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::history::ChangeType;
use crate::kinds::{
    DAEMON_SETS, DEPLOYMENTS, JOBS, KindId, NODES, PODS, REPLICA_SETS, REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
};
use crate::object::{StoredObject, key_of};
use crate::selectors::Selection;
use crate::status::StatusError;
use crate::store::{State, Store};
use crate::watch::{WatchEvent, Watcher};

/// Changes within this time are handled together.
const SETTLE: Duration = Duration::from_millis(5);

/// The kinds with a controller, dependents first.
const CONTROLLED: [KindId; 6] =
    [REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS, DAEMON_SETS, JOBS, DEPLOYMENTS];

/// A controlled object: its kind and its key.
type Key = (KindId, String);

/// Takes the next steps for one object, if it still exists; returns whether more can be taken at once.
fn settle(state: &mut State, (kind, key): &Key) -> bool {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    let Some(object) = state.get(*kind, namespace, name) else { return false };
    let value = object.value();
    let controller = owned::Controller::new(*kind, &value);
    match *kind {
        DEPLOYMENTS => deployment::settle(state, &controller),
        STATEFUL_SETS => stateful::settle(state, &controller),
        DAEMON_SETS => daemon::settle(state, &controller),
        JOBS => job::settle(state, &controller),
        _ => replicas::settle(state, &controller),
    }
}

/// Runs until `shutdown`.
pub(crate) async fn run(store: Arc<Store>, shutdown: CancellationToken) {
    while !shutdown.is_cancelled() {
        let mut task =
            WorkloadTask { store: store.clone(), by_uid: BTreeMap::new(), stale: BTreeSet::new() };
        if let Err(error) = task.follow(&shutdown).await {
            // Too far behind its watches: start over from the current state.
            debug!(%error, "workload controllers lost their watch");
        }
    }
}

struct WorkloadTask {
    store: Arc<Store>,
    /// The controlled objects by their uids.
    by_uid: BTreeMap<Box<str>, Key>,
    stale: BTreeSet<Key>,
}

impl WorkloadTask {
    async fn follow(&mut self, shutdown: &CancellationToken) -> Result<(), StatusError> {
        let mut watchers = Vec::new();
        for kind in CONTROLLED.into_iter().chain([PODS, NODES]) {
            let (objects, watcher) =
                Watcher::list_and_watch(self.store.clone(), kind, Selection::all())?;
            watchers.push((kind, watcher));
            if CONTROLLED.contains(&kind) {
                objects.iter().for_each(|object| self.see_controlled(kind, object));
            }
        }
        loop {
            while let Some(key) = self.stale.pop_first() {
                // The closure returns no error, so neither does the write.
                if self.store.write(|state| Ok(settle(state, &key))).unwrap_or(false) {
                    self.stale.insert(key);
                }
                // Other tasks run between two steps.
                tokio::task::yield_now().await;
            }
            let next = watchers
                .iter_mut()
                .map(|(kind, watcher)| watcher.next().map(|events| (*kind, events)).boxed());
            let (kind, events) = tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(()),
                ((kind, events), ..) = select_all(next) => (kind, events?),
            };
            for event in &events {
                self.see(kind, event);
            }
            tokio::select! {
                () = shutdown.cancelled() => return Ok(()),
                () = tokio::time::sleep(SETTLE) => {}
            }
        }
    }

    fn see(&mut self, kind: KindId, event: &WatchEvent) {
        let object = &event.object;
        if kind == NODES {
            let daemons = self.by_uid.values().filter(|(kind, _)| *kind == DAEMON_SETS);
            self.stale.extend(daemons.cloned());
            return;
        }
        for owner in object.owners() {
            self.stale.extend(self.by_uid.get(owner).cloned());
        }
        if kind == PODS {
            return;
        }
        if event.change_type == ChangeType::Deleted {
            self.by_uid.remove(object.uid());
        } else {
            self.see_controlled(kind, object);
        }
    }

    fn see_controlled(&mut self, kind: KindId, object: &StoredObject) {
        let key = (kind, key_of(object.namespace(), object.name()));
        self.by_uid.insert(object.uid().into(), key.clone());
        self.stale.insert(key);
    }
}

#[cfg(test)]
mod tests;
