//! One node as it would be with other pods: for nominated pods and for trying out preemption.
//!
//! Invariants: an overlay never touches the state; it is valid for the state it was made on, as long as that does not
//! change; reading it gives what applying the same additions and removals to a fork would give.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use kube_scheduler_api_types::{NonZeroRequest, Pod, Resources};
use smallvec::SmallVec;

use crate::error::CacheError;
use crate::node_table::NodeIdx;
use crate::pod_table::PodIdx;
use crate::ports::HostPorts;
use crate::state::ClusterState;
use crate::volumes_in_use::{NodeVolumes, VolumeChanges};

/// A hypothetical change to the pods of one node.
///
/// Adding is O(pod). The first removal copies the list of pod numbers and the first pod with host ports copies the
/// ports in use; nothing else is copied. Volumes are followed from when they are first asked for.
#[derive(Clone, Debug)]
pub struct NodeOverlay {
    node: NodeIdx,
    requested: Resources,
    non_zero: NonZeroRequest,
    n_pods: i64,
    /// The pods of the node that remain, once one of them was removed.
    remaining: Option<Vec<OverlayPod>>,
    /// Pods added while nothing was removed yet.
    added: SmallVec<[Arc<Pod>; 2]>,
    ports: Option<HostPorts>,
    volumes: OnceLock<VolumeChanges>,
}

#[derive(Clone, Debug)]
enum OverlayPod {
    Known(PodIdx),
    Added(Arc<Pod>),
}

impl NodeOverlay {
    /// An overlay that changes nothing yet.
    pub fn new(node: NodeIdx) -> Self {
        Self {
            node,
            requested: Resources::default(),
            non_zero: NonZeroRequest::default(),
            n_pods: 0,
            remaining: None,
            added: SmallVec::new(),
            ports: None,
            volumes: OnceLock::new(),
        }
    }

    /// The node as far as sums go if all pods of less than `priority` were gone: what is requested, and how many pods
    /// there are. **The list of pods and the host ports stay those of the node as it is.** O(priorities on the node),
    /// where removing every such pod would look at each.
    pub fn sums_without_pods_below(cluster: &ClusterState, node: NodeIdx, priority: i32) -> Self {
        let mut overlay = Self::new(node);
        let levels = cluster.pods.held_by(node).map(|pods| pods.levels.below(priority));
        for level in levels.unwrap_or_default() {
            overlay.requested.subtract(&level.requested);
            let non_zero = &mut overlay.non_zero;
            non_zero.milli_cpu = non_zero.milli_cpu.wrapping_sub(level.non_zero.milli_cpu);
            non_zero.memory = non_zero.memory.wrapping_sub(level.non_zero.memory);
            overlay.n_pods -= level.n_pods;
        }
        overlay
    }

    /// The slot of the node that the overlay is about.
    pub fn node(&self) -> NodeIdx {
        self.node
    }

    /// Adds what a pod asks for, and nothing else of it: **the list of pods and the host ports stay as they are.**
    pub fn add_sums(&mut self, cluster: &ClusterState, pod: &Pod) {
        self.requested.add(&cluster.allocatable().known_of(&pod.requests.accounted));
        self.non_zero.milli_cpu =
            self.non_zero.milli_cpu.wrapping_add(pod.requests.non_zero.milli_cpu);
        self.non_zero.memory = self.non_zero.memory.wrapping_add(pod.requests.non_zero.memory);
        self.n_pods += 1;
    }

    /// Subtracts the requests of a pod that [`add_sums`](Self::add_sums) added, or that is on the node.
    pub fn remove_sums(&mut self, cluster: &ClusterState, pod: &Pod) {
        self.requested.subtract(&cluster.allocatable().known_of(&pod.requests.accounted));
        self.non_zero.milli_cpu =
            self.non_zero.milli_cpu.wrapping_sub(pod.requests.non_zero.milli_cpu);
        self.non_zero.memory = self.non_zero.memory.wrapping_sub(pod.requests.non_zero.memory);
        self.n_pods -= 1;
    }

    /// Adds a pod to the node, whatever node the pod names.
    pub fn add_pod(&mut self, cluster: &ClusterState, pod: &Arc<Pod>) {
        self.add_sums(cluster, pod);
        if !pod.spec.host_ports.is_empty() {
            self.ports_mut(cluster).insert(&pod.spec.host_ports);
        }
        match &mut self.remaining {
            Some(remaining) => remaining.push(OverlayPod::Added(pod.clone())),
            None => self.added.push(pod.clone()),
        }
        self.change_volumes(cluster, pod, 1);
    }

    /// Removes a pod by UID, whether it is on the node or was added here, and returns it. O(pods on the node).
    ///
    /// # Errors
    /// [`CacheError::PodNotOnNode`] if it is neither; nothing is changed then.
    pub fn remove_pod(
        &mut self,
        cluster: &ClusterState,
        uid: &str,
    ) -> Result<Arc<Pod>, CacheError> {
        let Some(pod) = self.unlist(cluster, uid) else {
            let node = cluster.node_name(self.node).cloned().unwrap_or_default();
            return Err(CacheError::PodNotOnNode { pod: uid.into(), node });
        };
        self.remove_sums(cluster, &pod);
        if !pod.spec.host_ports.is_empty() {
            self.ports_mut(cluster).remove(&pod.spec.host_ports);
        }
        self.change_volumes(cluster, &pod, -1);
        Ok(pod)
    }

    /// The requests of the pods of the overlay minus those in the state; negative where pods were removed. Of scalar resources
    /// only those that some node offers.
    pub fn requested_delta(&self) -> &Resources {
        &self.requested
    }

    /// [`requested_delta`](Self::requested_delta), with defaults for CPU and memory.
    pub fn non_zero_delta(&self) -> NonZeroRequest {
        self.non_zero
    }

    /// The sum of what the pods on the node request, changes included.
    pub fn requested(&self, cluster: &ClusterState) -> Resources {
        let mut total = cluster.requested().resources_of(self.node);
        total.add(&self.requested);
        cluster.add_unoffered(self.pods(cluster), &mut total);
        total
    }

    /// CPU and memory that the pods ask for, defaults filled in.
    pub fn non_zero_requested(&self, cluster: &ClusterState) -> NonZeroRequest {
        let base = cluster.non_zero_requested_on(self.node);
        NonZeroRequest {
            milli_cpu: base.milli_cpu.wrapping_add(self.non_zero.milli_cpu),
            memory: base.memory.wrapping_add(self.non_zero.memory),
        }
    }

    /// How many pods are on the node, changes included. O(1).
    pub fn pod_count(&self, cluster: &ClusterState) -> i64 {
        cluster.pod_count().get(self.node) + self.n_pods
    }

    /// The host ports that the pods on the node use, changes included.
    pub fn used_ports<'a>(&'a self, cluster: &'a ClusterState) -> &'a HostPorts {
        self.ports.as_ref().unwrap_or_else(|| cluster.used_ports(self.node))
    }

    /// The pods, in the order in which the node would have them.
    pub fn pods<'a>(
        &'a self,
        cluster: &'a ClusterState,
    ) -> impl Iterator<Item = &'a Arc<Pod>> + 'a {
        let untouched = if self.remaining.is_none() { cluster.pods.list(self.node) } else { &[] };
        let remaining = self.remaining.iter().flatten().filter_map(|pod| pod.resolve(cluster));
        untouched
            .iter()
            .filter_map(|pod| cluster.pods.pod(*pod))
            .chain(remaining)
            .chain(&self.added)
    }

    /// The pods that are gone, and those that have come. A pod that is there again, as it was, is neither. O(pods on the node) if
    /// any was removed.
    fn changed_pods<'a>(
        &'a self,
        cluster: &'a ClusterState,
    ) -> (Vec<&'a Arc<Pod>>, Vec<&'a Arc<Pod>>) {
        let mut added: Vec<_> = self.added.iter().collect();
        let Some(remaining) = &self.remaining else { return (Vec::new(), added) };
        let mut known = BTreeSet::new();
        for pod in remaining {
            match pod {
                OverlayPod::Known(pod) => drop(known.insert(*pod)),
                OverlayPod::Added(pod) => added.push(pod),
            }
        }
        let on_node = cluster.pods.list(self.node).iter();
        let gone = on_node.filter(|pod| !known.contains(pod));
        let mut removed: Vec<_> = gone.filter_map(|pod| cluster.pods.pod(*pod)).collect();
        let of = |pods: &[&Arc<Pod>]| -> BTreeSet<*const Pod> {
            pods.iter().map(|pod| Arc::as_ptr(pod)).collect()
        };
        let (were_there, are_there) = (of(&removed), of(&added));
        removed.retain(|pod| !are_there.contains(&Arc::as_ptr(pod)));
        added.retain(|pod| !were_there.contains(&Arc::as_ptr(pod)));
        (removed, added)
    }

    /// The volumes in use. O(pods on the node + volumes of those that have come or gone) the first time, then O(1).
    pub fn volumes<'a>(&'a self, cluster: &'a ClusterState) -> NodeVolumes<'a> {
        let changes = self.volumes.get_or_init(|| {
            let (removed, added) = self.changed_pods(cluster);
            let mut changes = VolumeChanges::default();
            removed.into_iter().for_each(|pod| follow(&mut changes, cluster, (self.node, pod), -1));
            added.into_iter().for_each(|pod| follow(&mut changes, cluster, (self.node, pod), 1));
            changes
        });
        cluster.volumes_on(self.node).with_changes(changes)
    }

    /// How many volumes were looked at to find those in use.
    #[cfg(test)]
    pub(crate) fn n_volumes_looked_up(&self) -> usize {
        self.volumes.get().map_or(0, |changes| changes.n_looked_up)
    }

    fn change_volumes(&mut self, cluster: &ClusterState, pod: &Arc<Pod>, n: i64) {
        if let Some(changes) = self.volumes.get_mut() {
            follow(changes, cluster, (self.node, pod), n);
        }
    }

    fn ports_mut(&mut self, cluster: &ClusterState) -> &mut HostPorts {
        self.ports.get_or_insert_with(|| cluster.used_ports(self.node).clone())
    }

    /// Takes a pod out of the list the way a node does: the last one takes its place.
    fn unlist(&mut self, cluster: &ClusterState, uid: &str) -> Option<Arc<Pod>> {
        let (node, added) = (self.node, &mut self.added);
        let remaining = self.remaining.get_or_insert_with(|| {
            let known = cluster.pods.list(node).iter().map(|pod| OverlayPod::Known(*pod));
            known.chain(added.drain(..).map(OverlayPod::Added)).collect()
        });
        let at = match cluster.pods.idx(uid) {
            // Comparing numbers avoids dereferencing every pod; an added pod may be known too, after its removal.
            Some(wanted) => remaining.iter().position(|pod| pod.is(wanted, uid)),
            None => remaining
                .iter()
                .position(|pod| matches!(pod, OverlayPod::Added(pod) if *pod.uid == *uid)),
        }?;
        match remaining.swap_remove(at) {
            OverlayPod::Known(pod) => cluster.pods.pod(pod).cloned(),
            OverlayPod::Added(pod) => Some(pod),
        }
    }
}

/// Follows the volumes of `n` more pods on a node.
fn follow(
    changes: &mut VolumeChanges,
    cluster: &ClusterState,
    (node, pod): (NodeIdx, &Arc<Pod>),
    n: i64,
) {
    let idx = cluster.pods.idx(&pod.uid).filter(|idx| cluster.pods.node_of(*idx) == Some(node));
    let known = idx.and_then(|idx| cluster.pods.pod(idx));
    let is_own = known.is_some_and(|known| Arc::ptr_eq(known, pod));
    changes.change((cluster.objects(), &cluster.volumes), node, (&**pod, is_own), n);
}

impl OverlayPod {
    fn is(&self, wanted: PodIdx, uid: &str) -> bool {
        match self {
            Self::Known(pod) => *pod == wanted,
            Self::Added(pod) => *pod.uid == *uid,
        }
    }

    fn resolve<'a>(&'a self, cluster: &'a ClusterState) -> Option<&'a Arc<Pod>> {
        match self {
            Self::Known(pod) => cluster.pods.pod(*pod),
            Self::Added(pod) => Some(pod),
        }
    }
}
