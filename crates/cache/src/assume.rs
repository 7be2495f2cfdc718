//! Pods are assumed, confirmed, forgotten, changed and removed (`docs/spec/core.md` §14).
//!
//! Invariants: an assumed pod stays assumed until it is confirmed, forgotten or removed, there is no expiry; every
//! operation either happens completely or, with an error, not at all. All are O(pod), and allocate nothing beyond the
//! pod's own record once lists and tables have grown.
//!
//! Parity: where the reference ends the process because a running pod is suddenly on another node, the pod is moved.

use std::sync::Arc;

use kube_scheduler_api_types::Pod;
use kube_scheduler_api_types::well_known::DISRUPTION_TARGET;

use crate::affinity_terms::{has_same_terms, terms_of};
use crate::change_log::ChangeKinds;
use crate::error::{CacheError, PodIdentity};
use crate::node_table::NodeIdx;
use crate::pod_table::PodIdx;
use crate::state::ClusterState;

impl ClusterState {
    /// Adds a pod that runs on a node, and returns the slot of that node. It replaces the assumed pod of the same UID, also
    /// one on another node. A node that is not known becomes a ghost.
    ///
    /// # Errors
    /// If the pod has no UID or no node, or was added before and is not assumed.
    pub fn add_pod(&mut self, pod: Arc<Pod>) -> Result<NodeIdx, CacheError> {
        check(&pod)?;
        match self.pods.idx(&pod.uid) {
            None => self.place(pod, false),
            Some(known) if self.pods.is_assumed(known) => self.replace(known, pod),
            Some(_) => Err(CacheError::AlreadyAdded(PodIdentity::from(&*pod))),
        }
    }

    /// Replaces a pod that was added by a newer version, on another node if need be, and returns the slot of its node.
    ///
    /// # Errors
    /// If the pod has no UID or no node, was not added, or is only assumed.
    pub fn update_pod(&mut self, pod: Arc<Pod>) -> Result<NodeIdx, CacheError> {
        check(&pod)?;
        let known = self
            .pods
            .idx(&pod.uid)
            .ok_or_else(|| CacheError::NotAdded(PodIdentity::from(&*pod)))?;
        if self.pods.is_assumed(known) {
            return Err(CacheError::Assumed(PodIdentity::from(&*pod)));
        }
        self.replace(known, pod)
    }

    /// Removes a pod, assumed or not, and returns it.
    ///
    /// # Errors
    /// If there is no pod with this UID.
    pub fn remove_pod(&mut self, uid: &str) -> Result<Arc<Pod>, CacheError> {
        let not_found = || CacheError::PodNotFound { uid: uid.into() };
        let known = self.pods.idx(uid).ok_or_else(not_found)?;
        let (pod, node) =
            self.pods.remove(known, &self.columns.allocatable).ok_or_else(not_found)?;
        self.columns.remove_pod(node, &pod.requests.accounted, pod.requests.non_zero);
        self.change_volumes(&pod, node, false);
        self.uncount_pod(&pod, node);
        self.drop_terms(&pod, node);
        self.record(node, ChangeKinds::PODS);
        self.drop_if_unused(node);
        Ok(pod)
    }

    /// Places a pod on the node it names before the API server confirms it, and returns the slot of that node.
    ///
    /// # Errors
    /// If the pod has no UID or no node, or is in the state already.
    pub fn assume_pod(&mut self, pod: Arc<Pod>) -> Result<NodeIdx, CacheError> {
        check(&pod)?;
        if self.pods.idx(&pod.uid).is_some() {
            return Err(CacheError::AlreadyKnown(PodIdentity::from(&*pod)));
        }
        let node = self.place(pod.clone(), true)?;
        self.groups.assumed(&pod, true);
        Ok(node)
    }

    /// Removes an assumed pod and returns it; `None` if there is no pod with this UID.
    ///
    /// # Errors
    /// If the UID is empty, or the pod is there but not assumed.
    pub fn forget_pod(&mut self, uid: &str) -> Result<Option<Arc<Pod>>, CacheError> {
        if uid.is_empty() {
            return Err(CacheError::EmptyUid);
        }
        let Some(known) = self.pods.idx(uid) else { return Ok(None) };
        if !self.pods.is_assumed(known) {
            return match self.pods.pod(known) {
                Some(pod) => Err(CacheError::NotAssumed(PodIdentity::from(&**pod))),
                None => Ok(None),
            };
        }
        let pod = self.remove_pod(uid)?;
        self.groups.assumed(&pod, false);
        Ok(Some(pod))
    }

    /// As [`forget_pod`](Self::forget_pod), provided that the pod is still on the node that `pod` names.
    ///
    /// # Errors
    /// If the pod is there but on another node, or not assumed.
    pub fn forget_pod_as(&mut self, pod: &Pod) -> Result<Option<Arc<Pod>>, CacheError> {
        if let Some(known) = self.pod(&pod.uid)
            && known.node_name != pod.node_name
        {
            let name = |pod: &Pod| pod.node_name.clone().unwrap_or_default();
            let (assumed, assigned) = (name(pod), name(known));
            return Err(CacheError::AssignedElsewhere {
                pod: PodIdentity::from(pod),
                assumed,
                assigned,
            });
        }
        self.forget_pod(&pod.uid)
    }

    fn place(&mut self, pod: Arc<Pod>, is_assumed: bool) -> Result<NodeIdx, CacheError> {
        let node = self.slot_for(&pod)?;
        self.pods.insert(pod.clone(), node, is_assumed, &self.columns.allocatable);
        self.columns.add_pod(node, &pod.requests.accounted, pod.requests.non_zero);
        self.change_volumes(&pod, node, true);
        self.count_pod(&pod, node);
        self.carry_terms(&pod, node);
        self.record(node, ChangeKinds::PODS);
        Ok(node)
    }

    /// Puts `pod` in place of a known one; it is not assumed then. Returns its slot.
    fn replace(&mut self, known: PodIdx, pod: Arc<Pod>) -> Result<NodeIdx, CacheError> {
        // Before the pod is replaced, which it is compared with.
        let shows_nothing_new = self.shows_nothing_new(known, &pod);
        let node = self.slot_for(&pod)?;
        let not_added = || CacheError::NotAdded(PodIdentity::from(&*pod));
        let replaced = self.pods.replace(known, pod.clone(), node, &self.columns.allocatable);
        let (old, old_node) = replaced.ok_or_else(not_added)?;
        if node != old_node || old.requests != pod.requests {
            self.columns.remove_pod(old_node, &old.requests.accounted, old.requests.non_zero);
            self.columns.add_pod(node, &pod.requests.accounted, pod.requests.non_zero);
        }
        // The names of claims for ephemeral volumes are made of that of the pod.
        let identity = |pod: &Pod| (pod.namespace.clone(), pod.name.clone());
        if node != old_node || old.volumes != pod.volumes || identity(&old) != identity(&pod) {
            self.change_volumes(&old, old_node, false);
            self.change_volumes(&pod, node, true);
        }
        self.recount_pod((&old, old_node), (&pod, node));
        if node != old_node || !has_same_terms(&old, &pod) {
            self.drop_terms(&old, old_node);
            self.carry_terms(&pod, node);
        }
        if node == old_node {
            self.record(
                node,
                if shows_nothing_new { ChangeKinds::POD_STATUS } else { ChangeKinds::PODS },
            );
        } else {
            self.record(old_node, ChangeKinds::PODS);
            self.record(node, ChangeKinds::PODS);
            // After the change is recorded: a ghost without pods loses its slot.
            self.drop_if_unused(old_node);
        }
        Ok(node)
    }

    /// Whether putting `pod` in place of a known one changes nothing that decisions about other pods read: then the
    /// confirmation of an assumed pod makes no cached answer about its node stale.
    fn shows_nothing_new(&self, known: PodIdx, pod: &Pod) -> bool {
        let (Some(old), Some(node)) = (self.pods.pod(known), self.pods.node_of(known)) else {
            return false;
        };
        let ports = self.used_ports(node);
        self.nodes.live().contains(node)
            && is_same_for_others(old, pod)
            // One of two holders of a port may have gone, which frees it; taking the other out and in takes it again.
            && pod.spec.host_ports.iter().all(|port| ports.contains(port))
    }

    /// The slot of the node that a pod names.
    fn slot_for(&mut self, pod: &Pod) -> Result<NodeIdx, CacheError> {
        let unassigned = || CacheError::Unassigned(PodIdentity::from(pod));
        Ok(self.claim_slot(pod.node_name.as_ref().ok_or_else(unassigned)?))
    }

    /// The volumes of a pod begin to count on a node, or cease to.
    fn change_volumes(&mut self, pod: &Pod, node: NodeIdx, comes: bool) {
        if !pod.volumes.is_empty() {
            let is_live = self.nodes.live().contains(node);
            self.volumes.change(&self.objects, pod, (node, is_live), comes);
        }
    }

    /// The terms of a pod that has come to a node begin to count.
    fn carry_terms(&mut self, pod: &Pod, node: NodeIdx) {
        if !pod.has_pod_affinity() {
            return;
        }
        for term in terms_of(pod) {
            self.want_label_column(&term.term.topology_key);
        }
        self.affinity_terms.add(pod, node, &self.labels);
    }

    /// The terms of a pod that has left a node cease to count.
    fn drop_terms(&mut self, pod: &Pod, node: NodeIdx) {
        if !pod.has_pod_affinity() {
            return;
        }
        self.affinity_terms.remove(pod, node, &self.labels);
        for term in terms_of(pod) {
            // A column without holders is one of those that are kept for a while.
            if !self.affinity_terms.counts_by(&term.term.topology_key) {
                self.keep_label_column(&term.term.topology_key);
            }
        }
    }
}

fn check(pod: &Pod) -> Result<(), CacheError> {
    if pod.uid.is_empty() {
        return Err(CacheError::EmptyUid);
    }
    match &pod.node_name {
        Some(name) if !name.is_empty() => Ok(()),
        _ => Err(CacheError::Unassigned(PodIdentity::from(pod))),
    }
}

/// Whether two versions of a pod are the same to every decision about other pods.
fn is_same_for_others(old: &Pod, new: &Pod) -> bool {
    old.uid == new.uid
        && old.namespace == new.namespace
        && old.name == new.name
        && old.node_name == new.node_name
        && old.labels == new.labels
        && old.deletion_requested == new.deletion_requested
        && old.created == new.created
        && old.controller == new.controller
        && (Arc::ptr_eq(&old.requests, &new.requests) || old.requests == new.requests)
        && (Arc::ptr_eq(&old.spec, &new.spec) || old.spec == new.spec)
        && old.volumes == new.volumes
        && old.status.phase == new.status.phase
        && old.status.started == new.status.started
        && old.status.resource_claim_statuses == new.status.resource_claim_statuses
        && old.status.extended_resource_claim == new.status.extended_resource_claim
        && disruption_target(old) == disruption_target(new)
}

/// A pod that preemption has marked counts as leaving.
fn disruption_target(pod: &Pod) -> Option<&str> {
    let condition =
        pod.status.conditions.iter().find(|condition| &*condition.kind == DISRUPTION_TARGET);
    condition.map(|condition| &*condition.status)
}
