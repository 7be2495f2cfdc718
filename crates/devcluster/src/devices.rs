//! Devices: the controller of resource claims, and a driver with sample devices.
//!
//! One task each, as in a real cluster, where the first is part of the controller manager and the second comes with the
//! hardware. Both are state machines like the workload controllers: a function looks at one object under the store's lock and
//! takes the next steps. Nothing in them waits for time.

mod claims;
mod driver;
mod sample;

use serde_json::Value;

use crate::object::{list_at, text_at};

pub(crate) use claims::run as run_claims;
pub(crate) use driver::run as run_driver;
pub use sample::SampleDevices;

/// The finalizer of claims that are allocated.
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// Name and uid of the pod that an object was generated for.
fn owning_pod(object: &Value) -> Option<(&str, &str)> {
    let owners = list_at(object, &["metadata", "ownerReferences"]);
    let pod = owners.iter().find(|owner| {
        owner.get("controller") == Some(&Value::Bool(true))
            && text_at(owner, &["apiVersion"]) == "v1"
            && text_at(owner, &["kind"]) == "Pod"
    })?;
    Some((text_at(pod, &["name"]), text_at(pod, &["uid"])))
}

#[cfg(test)]
mod tests;
