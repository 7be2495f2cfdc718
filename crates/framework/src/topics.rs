//! Topics: what a rejected pod waits for and what an event is about, so that a queueing hint is not asked about every pod at every
//! event. See [`EventRegistration::by_topic`](crate::EventRegistration::by_topic).

use std::hash::{BuildHasher, Hash};

use kube_scheduler_api_types::KeyedState;
pub use kube_scheduler_queue::Topics;

/// The topic of a value, such as a name or a label. Equal values have the same one within a process; that others may share it
/// is harmless.
pub fn topic(of: impl Hash) -> u64 {
    KeyedState::default().hash_one(of)
}
