//! Objects in the form that allocation reads, decoded once per revision.

use std::sync::Arc;

use kube_scheduler_devices::api::ObjectError;
use kube_scheduler_framework::api::{Json, Object};

type Answer<T> = Result<Arc<T>, ObjectError>;

/// How objects of one kind are decoded. What comes of it is kept with the object.
pub(super) struct Decoded<T> {
    decode: fn(&Json) -> Result<T, ObjectError>,
}

impl<T: Send + Sync + 'static> Decoded<T> {
    pub(super) fn new(decode: fn(&Json) -> Result<T, ObjectError>) -> Self {
        Self { decode }
    }

    /// The decoded form of `object`, or what is wrong with it.
    pub(super) fn get(&self, object: &Object) -> Answer<T> {
        let answer = object.read_as(|json| (self.decode)(json).map(Arc::new));
        Answer::clone(&answer)
    }
}
