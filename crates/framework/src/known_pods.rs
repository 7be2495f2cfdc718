//! The lister of pods: every pod that the API server has reported, pending ones included.

use std::sync::Arc;

use kube_scheduler_api_types::Pod;

/// Read access to all pods as the API server last reported them, whichever scheduler is responsible for them.
///
/// A pod that is assumed on a node but not yet bound has no node here. Use
/// [`ClusterView::pod`](crate::ClusterView::pod) to find the node where it is assumed, and
/// [`WaitingPods`](crate::WaitingPods) to find out whether it waits on Permit.
///
/// Answers of plugins that read this are not cached.
pub trait KnownPods: Sync {
    /// All pods, by namespace and name. O(n log n) in all pods.
    fn all_pods(&self) -> Vec<Arc<Pod>>;
    /// All pods of a namespace, by name. O(n log n) in the pods of the namespace.
    fn pods_in(&self, namespace: &str) -> Vec<Arc<Pod>> {
        self.all_pods().into_iter().filter(|pod| *pod.namespace == *namespace).collect()
    }
    /// One pod.
    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        self.pods_in(namespace).into_iter().find(|pod| *pod.name == *name)
    }
}
