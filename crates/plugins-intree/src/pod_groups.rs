//! What the plugins about pod groups have in common, and those plugins.
//!
//! Behaviour in `docs/spec/podgroups.md` §7.

pub(crate) mod coscheduling;
pub(crate) mod gang_scheduling;
pub(crate) mod pods_count;
pub(crate) mod topology_placement;

use kube_scheduler_framework::api::PodGroup;
use kube_scheduler_framework::groups::PodGroupError;

/// Why there is no group of this name to go by, in the reference's words.
pub(crate) fn text_of(error: &PodGroupError, name: &str) -> String {
    match error {
        PodGroupError::NotFound => format!("podgroup.{} \"{name}\" not found", PodGroup::GROUP),
        PodGroupError::Unreadable(error) => error.to_string(),
    }
}
