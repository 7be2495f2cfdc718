//! PodGroupPostFilter: making room for a whole pod group.
//!
//! Behaviour: `docs/spec/podgroups.md` §9.

use std::sync::Arc;

use kube_scheduler_api_types::Pod;

use crate::context::Context;
use crate::points::PlacedGroup;
use crate::status::Status;

/// A hypothetical cluster in which a group is tried: pods can be taken off their nodes and put back.
pub trait GroupTrial {
    /// The cluster. Whether pods that were taken off are still to be seen in it is open.
    fn context(&self) -> Context<'_>;

    /// Takes pods off their nodes. Their groups count them as before.
    fn take_off(&mut self, pods: &[Arc<Pod>]);

    /// Puts back pods that were taken off.
    fn put_back(&mut self, pods: &[Arc<Pod>]);

    /// Whether the group is planned as a whole, in every placement that its constraints allow: it can make room in one of them.
    fn plans_as_a_whole(&self) -> bool {
        false
    }

    /// Whether the group would be scheduled. Expensive: a node is searched for every member.
    fn try_group(&mut self) -> Status;
}

/// Finds pods to evict so that a whole pod group can be scheduled.
pub trait PodGroupPostFilter: Send + Sync {
    /// The pods to evict, the most important first.
    ///
    /// # Errors
    /// The status that says why there is nothing to be done.
    fn pod_group_post_filter(
        &self,
        group: PlacedGroup<'_>,
        trial: &mut dyn GroupTrial,
    ) -> Result<Vec<Arc<Pod>>, Status>;
}
