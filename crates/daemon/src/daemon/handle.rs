//! What others ask a running scheduler.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::{oneshot, watch};

use super::startup::FollowedObjects;
use crate::debugger::WatchedState;
use crate::inbox::{Inbox, Observation};
use crate::metrics::Metrics;
use crate::progress::Progress;

/// Looks at a running scheduler.
#[derive(Clone, Debug)]
pub struct DaemonHandle {
    pub(super) metrics: Arc<Metrics>,
    pub(super) progress: watch::Receiver<Progress>,
    pub(super) address: Option<SocketAddr>,
    pub(super) inbox: Inbox,
    pub(super) followed: FollowedObjects,
}

impl DaemonHandle {
    /// What the scheduler has seen and done so far, as it was last published.
    pub fn progress(&self) -> Progress {
        *self.progress.borrow()
    }

    /// Waits until everything in the cluster has been seen. `false` when the scheduler ended before.
    pub async fn synced(&self) -> bool {
        let mut progress = self.progress.clone();
        progress.wait_for(|progress| progress.is_synced).await.is_ok()
    }

    /// Writes into the log where the caches differ from what the watches brought, and what is in them. Returns when that
    /// is done.
    pub async fn debug_caches(&self) {
        let nodes = self.followed.nodes.lock().iter().map(|((_, name), _)| name.clone()).collect();
        let pods = self.followed.pods.lock().iter().map(|(_, uid)| uid.clone()).collect();
        let parts = [("nodes", self.followed.nodes.parts()), ("pods", self.followed.pods.parts())];
        let (done, is_done) = oneshot::channel();
        let actual = WatchedState { nodes, pods, parts };
        if self.inbox.observe(Observation::CompareCaches(actual, done)).is_ok() {
            // A core that ends meanwhile answers nothing.
            let _ = is_done.await;
        }
    }

    /// How many objects of a kind the watch has brought in a namespace, such as `podgroups.scheduling.k8s.io`; `None` for
    /// kinds that are not watched, and for pods and nodes. O(objects of the kind).
    pub fn n_watched(&self, kind: &str, namespace: &str) -> Option<usize> {
        let known = self.followed.others.get(kind)?.lock();
        Some(known.iter().filter(|((of, _), _)| **of == *namespace).count())
    }

    /// The metrics, as `/metrics` shows them.
    pub fn metrics(&self) -> String {
        self.metrics.text()
    }

    /// Where health and metrics are served, if anywhere.
    pub const fn address(&self) -> Option<SocketAddr> {
        self.address
    }
}
