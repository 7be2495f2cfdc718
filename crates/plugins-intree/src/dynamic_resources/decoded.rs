//! Objects in the form that allocation reads, decoded once per revision.

use std::sync::{Arc, Mutex, PoisonError};

use kube_scheduler_devices::api::ObjectError;
use kube_scheduler_framework::api::{Json, Object};
use rustc_hash::FxHashMap;

/// Below this many entries nothing is swept.
const MIN_ENTRIES: usize = 256;

type Answer<T> = Result<Arc<T>, ObjectError>;

/// The decoded forms of objects of one kind.
///
/// Entries are found by the object they were made from, which they keep alive: the same `Arc` is the same
/// revision, in whatever copy of the cluster's state. Those that are not held elsewhere any more are swept from time to time.
pub(super) struct Decoded<T> {
    decode: fn(&Json) -> Result<T, ObjectError>,
    entries: Mutex<Entries<T>>,
}

struct Entries<T> {
    /// By the address of the object.
    by_object: FxHashMap<usize, (Arc<Object>, Answer<T>)>,
    sweep_at: usize,
}

impl<T> Decoded<T> {
    pub(super) fn new(decode: fn(&Json) -> Result<T, ObjectError>) -> Self {
        let entries = Entries { by_object: FxHashMap::default(), sweep_at: MIN_ENTRIES };
        Self { decode, entries: Mutex::new(entries) }
    }

    /// The decoded form of `object`, or what is wrong with it.
    pub(super) fn get(&self, object: &Arc<Object>) -> Answer<T> {
        let key = Arc::as_ptr(object).addr();
        let entries = || self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let known = |entries: &Entries<T>| entries.by_object.get(&key).map(|(_, it)| it.clone());
        if let Some(answer) = known(&entries()) {
            return answer;
        }
        // Watches decode objects while attempts look others up.
        let answer = (self.decode)(&object.json).map(Arc::new);
        let mut entries = entries();
        if let Some(answer) = known(&entries) {
            return answer;
        }
        if entries.by_object.len() >= entries.sweep_at {
            entries.by_object.retain(|_, (object, _)| Arc::strong_count(object) > 1);
            entries.sweep_at = (2 * entries.by_object.len()).max(MIN_ENTRIES);
        }
        entries.by_object.insert(key, (object.clone(), answer.clone()));
        answer
    }
}
