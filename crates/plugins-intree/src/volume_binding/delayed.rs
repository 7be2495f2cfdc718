//! Claims whose volumes are chosen together with the node: what is settled once per attempt, and the search on one node.
//!
//! A pod may have thousands of such claims. What they have in common is found out once, for the pod and for each node: what a class
//! can make, the volumes of a class, and which of them meet one demand.
//!
//! Invariant: claims without a selected node come by size. So whatever was left out for one claim on a node, because it is taken,
//! too small or out of reach, suits no later claim with the same demand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_framework::ClusterView;
use kube_scheduler_framework::api::{KeyedMap, Labels, Object, Quantity};

use super::matching::{Candidate, Candidates, ClassVolumes, Demand};
use super::provisioning::{Place, Provisioning, Room};
use super::reach::Places;
use crate::volumes::{VolumeClaim, storage_class};

/// A claim whose volume is chosen together with the node.
#[derive(Clone, Debug)]
pub(super) struct DelayedClaim {
    pub(super) object: Arc<Object>,
    /// The node that was chosen before, even if its name is empty.
    pub(super) selected_node: Option<Arc<str>>,
    size: Option<Quantity>,
    /// The volumes that are reserved for it, by name.
    reserved: Vec<Candidate>,
    /// The number of its demand, or why there is none.
    demand: Result<usize, String>,
    /// How many free volumes of its class are too small.
    n_smaller: usize,
    /// The number of its class.
    class: usize,
}

/// All such claims of a pod.
#[derive(Clone, Debug, Default)]
pub(super) struct DelayedClaims {
    /// First those with a selected node in the order of the pod's volumes, then the others by size: the smallest claim chooses
    /// first, so that it takes a small volume and leaves the large one to the larger claim.
    pub(super) claims: Vec<DelayedClaim>,
    /// By the number of the demand.
    candidates: Vec<Candidates>,
    /// By the number of the class.
    provisioning: Vec<Provisioning>,
}

impl DelayedClaims {
    /// Sorts the claims of a pod, which may name one more than once; all are in its namespace.
    pub(super) fn of<'a>(
        cluster: ClusterView<'a>,
        objects: impl IntoIterator<Item = &'a Arc<Object>>,
    ) -> Self {
        let mut all = Self::default();
        let mut known: BTreeMap<&str, usize> = BTreeMap::new();
        let mut classes: BTreeMap<&str, (usize, ClassVolumes<'a>)> = BTreeMap::new();
        let mut demands: KeyedMap<Demand<'a>, usize> = KeyedMap::default();
        for object in objects {
            let at = *known.entry(&object.name).or_insert(all.claims.len());
            if let Some(claim) = all.claims.get(at).cloned() {
                all.claims.push(claim);
                continue;
            }
            let claim = VolumeClaim::new(object);
            let (class, volumes) = classes.entry(claim.class()).or_insert_with(|| {
                // Without the class, the claim would not wait for a node.
                let class = storage_class(cluster, claim.class());
                let provisioning = class.map(|class| Provisioning::new(cluster, class));
                all.provisioning.push(provisioning.unwrap_or(Provisioning::Never));
                let volumes = ClassVolumes::new(cluster, claim.class(), &object.namespace);
                (all.provisioning.len() - 1, volumes)
            });
            let size = claim.requested_storage();
            let least = size.clone().unwrap_or_default();
            let demand = Demand::of(claim).map(|demand| {
                *demands.entry(demand).or_insert_with_key(|demand| {
                    all.candidates.push(Candidates::new(volumes, demand));
                    all.candidates.len() - 1
                })
            });
            all.claims.push(DelayedClaim {
                object: object.clone(),
                selected_node: claim.selected_node().map(Arc::from),
                size,
                reserved: volumes.reserved_for(claim, &least),
                demand,
                n_smaller: volumes.n_smaller(&least),
                class: *class,
            });
        }
        all.claims.sort_by_cached_key(|claim| {
            let is_open = claim.selected_node.is_none();
            is_open.then(|| claim.size.clone().unwrap_or_default())
        });
        all
    }
}

/// The search on one node.
#[derive(Debug)]
pub(super) struct Search<'a> {
    all: &'a DelayedClaims,
    labels: &'a Labels,
    taken: BTreeSet<*const Object>,
    /// By demand, the candidates that are left.
    left: BTreeMap<usize, Places<'a>>,
    /// By class.
    rooms: BTreeMap<usize, Room<'a>>,
}

impl<'a> Search<'a> {
    pub(super) fn new(all: &'a DelayedClaims, labels: &'a Labels) -> Self {
        let (left, rooms) = (BTreeMap::new(), BTreeMap::new());
        Self { all, labels, taken: BTreeSet::new(), left, rooms }
    }

    /// The existing volume that the claim gets, if there is one. No later claim gets it.
    pub(super) fn choose(
        &mut self,
        claim: &'a DelayedClaim,
    ) -> Result<Option<&'a Arc<Object>>, String> {
        let demand = *claim.demand.as_ref().map_err(Clone::clone)?;
        let Self { all, labels, taken, left, .. } = self;
        let is_open = |candidate: &Candidate| !taken.contains(&Arc::as_ptr(&candidate.volume));
        let found = match claim.reserved.iter().find(|candidate| is_open(candidate)) {
            Some(first) => first.is_reached_by(labels).then_some(&first.volume),
            None => all.candidates.get(demand).and_then(|candidates| {
                let left = left.entry(demand).or_insert_with(|| candidates.pins.on(labels));
                left.skip_to(claim.n_smaller);
                candidates
                    .next(left, |candidate| is_open(candidate) && candidate.is_reached_by(labels))
            }),
        };
        taken.extend(found.map(Arc::as_ptr));
        Ok(found)
    }

    /// Where a new volume for the claim goes.
    pub(super) fn place(&mut self, claim: &'a DelayedClaim) -> Place<'a> {
        let Some(class) = self.all.provisioning.get(claim.class) else { return Place::Never };
        let room = self.rooms.entry(claim.class).or_insert_with(|| class.on(self.labels));
        room.place(self.labels, claim.size.as_ref().map(Quantity::value))
    }
}

#[cfg(test)]
mod tests;
