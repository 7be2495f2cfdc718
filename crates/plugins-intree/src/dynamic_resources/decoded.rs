//! Objects in the form that allocation reads, decoded once per revision: what comes of it is kept with the object.

use std::sync::Arc;

use kube_scheduler_devices::api::{
    DeviceClass, DeviceTaintRule, ObjectError, ResourceClaim, ResourceSlice,
};
use kube_scheduler_framework::api::{Json, Object};

/// The decoded form of an object, or what is wrong with it.
type Answer<T> = Result<Arc<T>, ObjectError>;

fn decoded<T: Send + Sync + 'static>(
    object: &Object,
    decode: fn(&Json) -> Result<T, ObjectError>,
) -> Answer<T> {
    let answer = object.read_as(|json| decode(json).map(Arc::new));
    Answer::clone(&answer)
}

pub(super) fn claim(object: &Object) -> Answer<ResourceClaim> {
    decoded(object, ResourceClaim::from_json)
}

pub(super) fn class(object: &Object) -> Answer<DeviceClass> {
    decoded(object, DeviceClass::from_json)
}

pub(super) fn slice(object: &Object) -> Answer<ResourceSlice> {
    decoded(object, ResourceSlice::from_json)
}

pub(super) fn taint_rule(object: &Object) -> Answer<DeviceTaintRule> {
    decoded(object, DeviceTaintRule::from_json)
}
