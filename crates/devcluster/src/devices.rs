//! Devices: the controller of resource claims, and a driver with sample devices.
//!
//! One task each, as in a real cluster, where the first is part of the controller manager and the second comes with the
//! hardware. Both are state machines like the workload controllers: a function looks at one object under the store's lock and
//! takes the next steps. Nothing in them waits for time.

mod claims;
mod driver;
mod generated;
mod rules;
mod sample;

use serde_json::Value;

use crate::object::{list_at, text_at};

pub(crate) use claims::run as run_claims;
pub(crate) use driver::run as run_driver;
pub use rules::{ClaimController, ClaimKind, ClaimStore};
pub use sample::SampleDevices;

/// Name and uid of the pod that an object was generated for.
fn owning_pod(object: &Value) -> Option<(&str, &str)> {
    owner(object, "", "Pod")
}

/// Name and uid of the pod group that an object was generated for.
fn owning_group(object: &Value) -> Option<(&str, &str)> {
    owner(object, "scheduling.k8s.io", "PodGroup")
}

fn owner<'a>(object: &'a Value, group: &str, kind: &str) -> Option<(&'a str, &'a str)> {
    let owners = list_at(object, &["metadata", "ownerReferences"]);
    let owner = owners.iter().find(|owner| {
        let version = text_at(owner, &["apiVersion"]);
        owner.get("controller") == Some(&Value::Bool(true))
            && version.split_once('/').map_or("", |(group, _)| group) == group
            && text_at(owner, &["kind"]) == kind
    })?;
    Some((text_at(owner, &["name"]), text_at(owner, &["uid"])))
}

#[cfg(test)]
mod tests;
