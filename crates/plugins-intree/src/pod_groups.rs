//! What the plugins about pod groups have in common, and those plugins.
//!
//! Behaviour in `docs/spec/podgroups.md` §7.

pub(crate) mod coscheduling;
pub(crate) mod gang_scheduling;
pub(crate) mod pods_count;
pub(crate) mod topology_placement;

use std::sync::Arc;

use kube_scheduler_framework::ClusterView;
use kube_scheduler_framework::api::{Object, PodGroup};

/// Why there is no group to go by.
pub(crate) enum NoGroup {
    /// There is no such object.
    NotFound,
    /// The object cannot be read.
    Unreadable(String),
}

/// The PodGroup of this name.
pub(crate) fn find(
    cluster: ClusterView<'_>,
    namespace: &str,
    name: &str,
) -> Result<PodGroup, NoGroup> {
    read(object(cluster, namespace, name)?)
}

/// The object that is the PodGroup of this name.
fn object<'a>(
    cluster: ClusterView<'a>,
    namespace: &str,
    name: &str,
) -> Result<&'a Arc<Object>, NoGroup> {
    let objects = cluster.objects_of(PodGroup::GROUP);
    objects.get(PodGroup::KIND, namespace, name).ok_or(NoGroup::NotFound)
}

fn read(object: &Object) -> Result<PodGroup, NoGroup> {
    PodGroup::from_object(object).map_err(|error| NoGroup::Unreadable(error.to_string()))
}

impl NoGroup {
    /// The reference's words for it.
    pub(crate) fn text(&self, name: &str) -> String {
        match self {
            Self::NotFound => format!("podgroup.{} \"{name}\" not found", PodGroup::GROUP),
            Self::Unreadable(error) => error.clone(),
        }
    }
}
