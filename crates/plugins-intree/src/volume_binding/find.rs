//! How a pod's claims would be served on one node: the verdict of Filter, and what Reserve does about it
//! (`docs/spec/plugins-storage.md` §3.4 to §3.7).

use std::sync::Arc;

use kube_scheduler_framework::api::{Object, named_enum};
use kube_scheduler_framework::{ClusterView, NodeView};
use smallvec::SmallVec;

use super::claims::PodClaims;
use super::delayed::{DelayedClaim, Search};
use super::log::SearchLog;
use super::provisioning::{Capacity, Place};
use crate::volumes::csi_node;

/// An unbound claim and the existing volume that it gets.
#[derive(Clone, Debug)]
pub(super) struct StaticBinding {
    pub(super) claim: Arc<Object>,
    pub(super) volume: Arc<Object>,
}

/// A claim for which a volume is made.
#[derive(Clone, Debug)]
pub(super) struct Provision<'a> {
    pub(super) claim: &'a Arc<Object>,
    pub(super) capacity: Option<&'a Capacity>,
}

named_enum! {
    /// Why a node is rejected, in the order in which reasons are reported.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(super) enum Obstacle {
        /// A bound volume cannot be reached from there.
        NodeConflict = "node(s) didn't match PersistentVolume's node affinity",
        /// There is no volume for an unbound claim.
        BindConflict = "node(s) didn't find available persistent volumes to bind",
        /// There is no room for a new volume.
        NotEnoughSpace = "node(s) did not have enough free storage",
        /// A bound volume does not exist.
        VolumeMissing = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
    }
}

/// How the claims would be served. The lists are complete only when there are no obstacles.
#[derive(Clone, Debug, Default)]
pub(super) struct VolumeMatch<'a> {
    pub(super) bindings: Vec<StaticBinding>,
    pub(super) provisions: Vec<Provision<'a>>,
    /// At most one for bound claims, and one for the others.
    pub(super) obstacles: SmallVec<[Obstacle; 2]>,
}

impl PodClaims {
    /// How the claims are served on a node that Filter has accepted.
    pub(super) fn served<'a>(
        &'a self,
        cluster: ClusterView<'_>,
        node: &NodeView<'a>,
    ) -> Option<VolumeMatch<'a>> {
        self.find(cluster, node, None).ok().filter(|found| found.obstacles.is_empty())
    }

    /// Looks at one node. An error ends the whole attempt.
    pub(super) fn find<'a>(
        &'a self,
        cluster: ClusterView<'_>,
        node: &NodeView<'a>,
        log: Option<SearchLog<'_>>,
    ) -> Result<VolumeMatch<'a>, String> {
        let mut found = VolumeMatch::default();
        if !self.bound.is_empty() {
            found.obstacles.extend(self.check_bound(cluster, node, log)?);
        }
        if !self.delayed.claims.is_empty() {
            self.serve_delayed(node, &mut found, log)?;
        }
        Ok(found)
    }

    fn check_bound(
        &self,
        cluster: ClusterView<'_>,
        node: &NodeView<'_>,
        log: Option<SearchLog<'_>>,
    ) -> Result<Option<Obstacle>, String> {
        let labels = node.labels();
        for volume in &self.bound {
            let Some(volume) = volume else { return Ok(Some(Obstacle::VolumeMissing)) };
            let affinity = volume.on(|| csi_node(cluster, node.name()))?;
            if let Some(log) = log {
                log.bound_volume(&volume.volume, affinity.check(labels));
            }
            if !affinity.matches(labels) {
                return Ok(Some(Obstacle::NodeConflict));
            }
        }
        if let Some(log) = log {
            log.all_bound_match();
        }
        Ok(None)
    }

    fn serve_delayed<'a>(
        &'a self,
        node: &NodeView<'a>,
        found: &mut VolumeMatch<'a>,
        log: Option<SearchLog<'_>>,
    ) -> Result<(), String> {
        let mut search = Search::new(&self.delayed, node.labels());
        let mut to_provision: Vec<&DelayedClaim> = Vec::new();
        let mut n_to_match = 0;
        for claim in &self.delayed.claims {
            match &claim.selected_node {
                // A claim with a selected node is being provisioned there, and can be served on no other node.
                Some(selected) if *selected == *node.name() => {
                    to_provision.push(claim);
                    continue;
                }
                Some(_) => {
                    found.obstacles.push(Obstacle::BindConflict);
                    return Ok(());
                }
                None => n_to_match += 1,
            }
            let volume = search.choose(claim)?;
            if let Some(log) = log {
                log.matching(&claim.object, volume.map(|volume| &**volume));
            }
            match volume {
                Some(volume) => {
                    let (claim, volume) = (claim.object.clone(), volume.clone());
                    found.bindings.push(StaticBinding { claim, volume });
                }
                None => to_provision.push(claim),
            }
        }
        if let Some(log) = log.filter(|_| n_to_match > 0 && found.bindings.len() == n_to_match) {
            log.all_matching();
        }
        provide(&to_provision, &mut search, found, log);
        Ok(())
    }
}

/// Looks for places for the volumes that are to be made, until one claim has none.
fn provide<'a>(
    claims: &[&'a DelayedClaim],
    search: &mut Search<'a>,
    found: &mut VolumeMatch<'a>,
    log: Option<SearchLog<'_>>,
) {
    for claim in claims {
        let place = search.place(claim);
        let obstacle = match place {
            Place::Fits(capacity) => {
                found.provisions.push(Provision { claim: &claim.object, capacity });
                continue;
            }
            Place::Never | Place::Unavailable => Obstacle::BindConflict,
            Place::Full => Obstacle::NotEnoughSpace,
        };
        found.obstacles.push(obstacle);
        if let Some(log) = log {
            log.no_place(&claim.object, place);
        }
        return;
    }
    if let Some(log) = log.filter(|_| !claims.is_empty()) {
        log.provisioned(claims.len());
    }
}
