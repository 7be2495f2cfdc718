//! What a reflector keeps, for others to look at.

use std::sync::{Arc, Mutex, MutexGuard};

use kube_scheduler_api_types::lock;
use kube_scheduler_engine::{KnownObjects, SharedSize};

/// What the core knows of one kind, and how much a reflector keeps beside it. The locks are held for moments only.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedObjects {
    known: Arc<Mutex<KnownObjects>>,
    parts: Arc<Mutex<SharedSize>>,
}

impl SharedObjects {
    pub(crate) fn lock(&self) -> MutexGuard<'_, KnownObjects> {
        lock(&self.known)
    }

    /// The tables in which equal parts of objects are found, as of the last list or bookmark.
    pub(crate) fn parts(&self) -> SharedSize {
        *lock(&self.parts)
    }

    pub(super) fn set_parts(&self, size: SharedSize) {
        *lock(&self.parts) = size;
    }
}
