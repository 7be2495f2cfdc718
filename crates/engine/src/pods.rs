//! Every pod as last seen from the API server, by name: what the reference calls the informer's view.
//!
//! Invariant: no list that plugins get depends on the order of the hash maps: lists are sorted.

use std::sync::Arc;

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::CowMap;
use kube_scheduler_framework::KnownPods;

type ByName = CowMap<Arc<str>, Arc<Pod>>;

/// Pods by namespace and name. Copies share what neither changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodIndex {
    by_namespace: CowMap<Arc<str>, Arc<ByName>>,
    n_pods: usize,
    n_bytes: usize,
    /// How many have an affinity term that selects pods by their numbers.
    n_by_number: usize,
}

impl PodIndex {
    /// The pod of this name.
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<Pod>> {
        self.by_namespace.get(namespace)?.get(name)
    }

    /// Notes the newest state; gives the one before.
    pub(crate) fn insert(&mut self, pod: Arc<Pod>) -> Option<Arc<Pod>> {
        let by_name = self.by_namespace.get_or_insert_with(&pod.namespace, Arc::default);
        self.n_pods += 1;
        self.n_bytes += pod.own_bytes();
        self.n_by_number += usize::from(pod.has_affinity_by_number());
        let before = Arc::make_mut(by_name).insert(pod.name.clone(), pod);
        self.count_off(before.as_deref());
        before
    }

    /// Forgets a pod.
    pub(crate) fn remove(&mut self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        let by_name = Arc::make_mut(self.by_namespace.get_mut(namespace)?);
        let removed = by_name.remove(name);
        if by_name.is_empty() {
            self.by_namespace.remove(namespace);
        }
        self.count_off(removed.as_deref());
        removed
    }

    /// A pod is not in the table any more, if it was.
    fn count_off(&mut self, pod: Option<&Pod>) {
        let Some(pod) = pod else { return };
        self.n_pods -= 1;
        self.n_bytes -= pod.own_bytes();
        self.n_by_number -= usize::from(pod.has_affinity_by_number());
    }

    /// All pods, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.by_namespace.values().flat_map(|by_name| by_name.values())
    }

    /// How many pods there are.
    pub(crate) fn len(&self) -> usize {
        self.n_pods
    }

    /// Whether a pod has an affinity term that selects pods by one of the [labels that number
    /// them](kube_scheduler_api_types::well_known::NUMBERING_LABELS). O(1).
    pub(crate) fn select_by_number(&self) -> bool {
        self.n_by_number > 0
    }

    /// What the pods take in memory beside what they may share with others, about, in bytes.
    pub(crate) fn n_bytes(&self) -> usize {
        self.n_bytes
    }
}

impl KnownPods for PodIndex {
    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        self.get(namespace, name).cloned()
    }

    fn pods_in(&self, namespace: &str) -> Vec<Arc<Pod>> {
        let by_name = self.by_namespace.get(namespace);
        let mut pods: Vec<Arc<Pod>> =
            by_name.into_iter().flat_map(|by_name| by_name.values()).cloned().collect();
        pods.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        pods
    }

    fn all_pods(&self) -> Vec<Arc<Pod>> {
        let mut pods: Vec<Arc<Pod>> = self.iter().cloned().collect();
        pods.sort_unstable_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        pods
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(namespace: &str, name: &str) -> Arc<Pod> {
        let json = serde_json::json!({"metadata": {"namespace": namespace, "name": name}});
        Arc::new(Pod::from_value(&json).unwrap())
    }

    #[test]
    fn lists_are_sorted_and_counts_follow() {
        let mut index = PodIndex::default();
        for name in ["c", "a", "b"] {
            assert!(index.insert(pod("x", name)).is_none());
        }
        assert!(index.insert(pod("w", "z")).is_none());
        assert!(index.insert(pod("x", "a")).is_some());
        let names =
            |pods: Vec<Arc<Pod>>| pods.iter().map(|pod| pod.key()).collect::<Vec<_>>().join(" ");
        assert_eq!(names(index.all_pods()), "w/z x/a x/b x/c");
        assert_eq!(names(index.pods_in("x")), "x/a x/b x/c");
        assert_eq!(index.len(), 4);
        assert!(index.remove("w", "z").is_some());
        assert!(index.remove("w", "z").is_none());
        assert!(index.pods_in("w").is_empty());
        assert_eq!(index.len(), 3);
        let own = |pods: Vec<Arc<Pod>>| pods.iter().map(|pod| pod.own_bytes()).sum::<usize>();
        assert_eq!(index.n_bytes(), own(index.all_pods()));
        for name in ["a", "b", "c"] {
            index.remove("x", name);
        }
        assert_eq!(index.n_bytes(), 0);
    }

    #[test]
    fn terms_that_select_by_number_are_counted_as_long_as_a_pod_has_one() {
        let with_term = |name: &str, key: &str| {
            let selector =
                serde_json::json!({"matchExpressions": [{"key": key, "operator": "Exists"}]});
            let term = serde_json::json!({"topologyKey": "zone", "labelSelector": selector});
            let json = serde_json::json!({"metadata": {"namespace": "x", "name": name}, "spec": {"affinity":
                {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}});
            Arc::new(Pod::from_value(&json).unwrap())
        };
        let number = kube_scheduler_api_types::well_known::NUMBERING_LABELS[0];
        let mut index = PodIndex::default();
        index.insert(with_term("a", "app"));
        assert!(!index.select_by_number());
        index.insert(with_term("b", number));
        index.insert(with_term("c", number));
        index.insert(with_term("b", "app"));
        assert!(index.select_by_number(), "c has one");
        assert!(index.clone().select_by_number());
        index.remove("x", "c");
        assert!(!index.select_by_number());
        index.insert(with_term("a", number));
        assert!(index.select_by_number());
        index.remove("x", "a");
        assert!(!index.select_by_number());
    }
}
