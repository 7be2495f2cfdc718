//! The objects of `resource.k8s.io/v1` in the form that allocation reads.
//!
//! Decoded from the JSON that the API server serves. Unknown fields are ignored and `null` counts as absent; a field of
//! the wrong type is an error that names the object and the field. These types are for deciding only: a caller that writes an
//! object back must write the JSON it came from, or fields of newer API servers would be lost.

mod claim;
mod class;
mod decode;
mod device;
mod result;
mod slice;
mod taint_rule;

pub use claim::{
    AllocatedDeviceStatus, AllocationMode, ClaimConfig, ClaimStatus, Condition, Constraint,
    Consumer, DeviceRequest, DeviceSelector, DeviceToleration, ExactRequest, Request,
    ResourceClaim,
};
pub use class::DeviceClass;
pub use decode::{Map, ObjectError};
pub use device::{
    Attribute, CounterConsumption, CounterSet, Device, DeviceCapacity, DeviceTaint,
    NodeResourceMapping, RequestPolicy, ValidRange,
};
pub use result::{Allocation, AllocationConfig, DeviceResult};
pub use slice::{NodeReach, ResourceSlice};
pub use taint_rule::{DeviceTaintRule, TaintedDevices};
