//! What was read of a cluster that it does not keep up to date yet: counters, and columns of labels.
//!
//! Readers have the cluster by shared reference, so what they miss is noted here, and
//! [`ClusterState::follow_requested`](crate::ClusterState::follow_requested) acts on it between two attempts.
//!
//! Invariant: nothing here affects an answer, only how long it takes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube_scheduler_api_types::lock;

use crate::domains::DomainCounts;

/// How many columns are requested until they are made: each costs O(nodes). Pods that read more get the same answers,
/// more slowly, until the others are there.
const MAX_LABELS: usize = 16;
/// How many counters are requested until they are followed. If more are read, none is followed: no pod as people write them
/// needs this many, and each would have to be kept up to date.
pub(crate) const MAX_COUNTERS: usize = 64;

/// Requests that have not been carried out yet.
#[derive(Debug, Default)]
pub(crate) struct Requests(Mutex<DataRequests>);

/// What was asked for, nothing twice.
#[derive(Debug, Default)]
pub(crate) struct DataRequests {
    /// Counters as they were counted for the reader.
    pub(crate) counters: Vec<RequestedCounter>,
    /// Keys of labels without a column.
    pub(crate) labels: Vec<Arc<str>>,
}

/// A counter that was counted for a reader.
#[derive(Debug)]
pub(crate) struct RequestedCounter {
    pub(crate) counts: Arc<DomainCounts>,
    /// The states of nodes and pods, of other objects, and of the label columns that it was counted in; `None` if it is
    /// good for that reader alone.
    pub(crate) counted_at: Option<[u64; 3]>,
}

impl Requests {
    fn lock(&self) -> MutexGuard<'_, DataRequests> {
        // A list of requests is complete after every statement.
        lock(&self.0)
    }

    /// A counter had to be counted.
    pub(crate) fn counter(&self, counts: &Arc<DomainCounts>, counted_at: Option<[u64; 3]>) {
        let counters = &mut self.lock().counters;
        let is_known = |other: &RequestedCounter| other.counts.spec() == counts.spec();
        if counters.len() <= MAX_COUNTERS && !counters.iter().any(is_known) {
            counters.push(RequestedCounter { counts: counts.clone(), counted_at });
        }
    }

    /// A label has no column.
    pub(crate) fn label(&self, key: &str) {
        let labels = &mut self.lock().labels;
        if labels.len() < MAX_LABELS && !labels.iter().any(|known| **known == *key) {
            labels.push(key.into());
        }
    }

    /// Takes all requests.
    pub(crate) fn take(&mut self) -> DataRequests {
        let mut taken = std::mem::take(self.0.get_mut().unwrap_or_else(PoisonError::into_inner));
        if taken.counters.len() > MAX_COUNTERS {
            taken.counters.clear();
        }
        taken
    }
}

/// A fork has no requests of its own yet.
impl Clone for Requests {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Whether something was read since it was last a candidate for eviction. When there is too much of it, what was read gets
/// a second chance.
#[derive(Debug, Default)]
pub(crate) struct ReadMark(AtomicBool);

impl ReadMark {
    /// Notes that it is read. Once noted, this is a load: threads do not take the line from each other.
    #[inline]
    pub(crate) fn set(&self) {
        if !self.0.load(Ordering::Relaxed) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// Whether it was read since this was last called.
    pub(crate) fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

impl Clone for ReadMark {
    fn clone(&self) -> Self {
        Self(AtomicBool::new(self.0.load(Ordering::Relaxed)))
    }
}
