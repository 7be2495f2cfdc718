//! Limits how many affinity terms about other namespaces the running pods of a namespace may impose on pods elsewhere.
//!
//! Every pending pod is compared with the affinity terms of running pods that may select it. Terms about their own namespace are
//! found by namespace; terms about other namespaces may select any pod, so their number determines what they cost all pods. Each
//! namespace therefore has room for [`MOST`] of them. The terms of further pods are ignored for all other pods: the pod enters
//! the cluster state without them. An event about the pod says so; it is recorded at the next attempt, because of several running
//! schedulers only the leader makes attempts and writes. Pods with at most [`USUAL`] such terms are not counted.
//!
//! Invariant: a pod counts with the same terms as long as it is there, so what is added is what is taken away.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_api_types::{KeyedMap, Pod, PodAffinity, PodAffinityTerm};

/// A pod with at most this many terms about other namespaces is not counted.
const USUAL: usize = 8;
/// The limit for a namespace: the sum of such terms over its pods that have more than [`USUAL`] of them.
const MOST: usize = 500;

/// A pod with more than the usual number.
#[derive(Clone, Copy, Debug)]
struct Carrier {
    n_terms: usize,
    counts: bool,
}

/// Running pods with many terms about other namespaces.
#[derive(Clone, Debug, Default)]
pub(crate) struct FarTerms {
    /// By UID.
    carriers: KeyedMap<Arc<str>, Carrier>,
    /// How many terms count, by namespace.
    counted: KeyedMap<Arc<str>, usize>,
    /// Pods whose terms are ignored and for which no event was recorded yet, each with the text of the event; by UID.
    unsaid: BTreeMap<Arc<str>, (Arc<Pod>, String)>,
}

impl FarTerms {
    /// Takes in a running pod that was added or changed. Returns the form in which the cluster state has to know it: without
    /// terms about other namespaces if those are ignored. O(its terms).
    pub(crate) fn admit(&mut self, pod: &Arc<Pod>) -> Arc<Pod> {
        let n_terms = n_far(pod);
        let known = self.carriers.get(&pod.uid).copied();
        let counts = match known {
            Some(known) if known.n_terms == n_terms => known.counts,
            _ => {
                self.gone(pod);
                n_terms <= USUAL || self.comes(pod, n_terms)
            }
        };
        if counts { pod.clone() } else { without_far(pod) }
    }

    /// Whether the terms of a pod with more than [`USUAL`] of them count.
    fn comes(&mut self, pod: &Arc<Pod>, n_terms: usize) -> bool {
        let counted = self.counted.get(&pod.namespace).copied().unwrap_or(0);
        let counts = counted + n_terms <= MOST;
        if counts {
            self.counted.insert(pod.namespace.clone(), counted + n_terms);
        } else {
            let note = format!(
                "{n_terms} pod affinity terms about other namespaces do not count for any other pod: with {counted} of other pods \
                 of this namespace they are more than {MOST}"
            );
            self.unsaid.insert(pod.uid.clone(), (pod.clone(), note));
        }
        self.carriers.insert(pod.uid.clone(), Carrier { n_terms, counts });
        counts
    }

    /// The pods whose terms are ignored and for which no event was recorded yet, each with the text of the event.
    pub(crate) fn take_unsaid(&mut self) -> impl Iterator<Item = (Arc<Pod>, String)> + use<> {
        std::mem::take(&mut self.unsaid).into_values()
    }

    /// Forgets a pod that is gone, or that has few terms now.
    pub(crate) fn gone(&mut self, pod: &Pod) {
        self.unsaid.remove(&pod.uid);
        let Some(Carrier { n_terms, counts: true }) = self.carriers.remove(&pod.uid) else {
            return;
        };
        if let Some(counted) = self.counted.get_mut(&pod.namespace) {
            *counted -= n_terms;
            if *counted == 0 {
                self.counted.remove(&pod.namespace);
            }
        }
    }

    /// How many pods have more terms than usual.
    pub(crate) fn len(&self) -> usize {
        self.carriers.len()
    }
}

/// Whether a term of a pod in `namespace` may select pods of other namespaces.
/// Such a term is left out as a whole, so if it names its own namespace as well, it does not count there either.
fn is_far(term: &PodAffinityTerm, namespace: &Arc<str>) -> bool {
    term.selector.is_some()
        && (term.namespace_selector.is_some()
            || term.namespaces.iter().any(|named| named != namespace))
}

fn n_far(pod: &Pod) -> usize {
    let affinities = [&pod.spec.pod_affinity, &pod.spec.pod_anti_affinity];
    let terms = affinities.into_iter().flatten().flat_map(|affinity| {
        let preferred = affinity.preferred.iter().map(|weighted| &weighted.term);
        affinity.required.iter().chain(preferred)
    });
    terms.filter(|term| is_far(term, &pod.namespace)).count()
}

/// The pod with the terms about its own namespace alone.
fn without_far(pod: &Arc<Pod>) -> Arc<Pod> {
    let mut pod = Pod::clone(pod);
    let namespace = &pod.namespace;
    let spec = Arc::make_mut(&mut pod.spec);
    for affinity in [&mut spec.pod_affinity, &mut spec.pod_anti_affinity].into_iter().flatten() {
        let near = |term: &PodAffinityTerm| !is_far(term, namespace);
        let PodAffinity { required, preferred, .. } = &**affinity;
        let required = required.iter().filter(|term| near(term)).cloned().collect();
        let preferred = preferred.iter().filter(|weighted| near(&weighted.term)).cloned().collect();
        let affinity = Arc::make_mut(affinity);
        (affinity.required, affinity.preferred) = (required, preferred);
    }
    Arc::new(pod)
}

#[cfg(test)]
mod tests {
    use kube_scheduler_api_types::Pod;
    use serde_json::{Value, json};

    use super::*;

    fn term(at: usize, far: bool) -> Value {
        let mut term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": format!("a{at}")}}});
        if far {
            term["namespaceSelector"] = json!({});
        }
        term
    }

    fn pod(namespace: &str, name: &str, n_far: usize, n_near: usize) -> Arc<Pod> {
        let terms: Vec<Value> = (0..n_far + n_near).map(|at| term(at, at < n_far)).collect();
        let weighted: Vec<Value> =
            terms.iter().map(|term| json!({"weight": 1, "podAffinityTerm": term})).collect();
        let json = json!({"metadata": {"namespace": namespace, "name": name, "uid": name}, "spec": {
            "nodeName": "n", "affinity": {
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": &terms[..n_far / 2]},
                "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": &weighted[n_far / 2..]}}}});
        Arc::new(Pod::from_value(&json).unwrap())
    }

    #[test]
    fn a_namespace_has_room_for_so_many_terms_about_others() {
        let mut far = FarTerms::default();
        // As people write them: not even counted.
        for at in 0..1000 {
            let usual = pod("a", &format!("u{at}"), USUAL, 3);
            assert!(Arc::ptr_eq(&far.admit(&usual), &usual));
        }
        assert_eq!(far.len(), 0);
        let pods: Vec<_> = (0..7).map(|at| pod("a", &format!("p{at}"), 100, 10)).collect();
        let admitted: Vec<_> = pods.iter().map(|pod| far.admit(pod)).collect();
        for (at, pod) in admitted.iter().enumerate() {
            assert_eq!(n_far(pod), if at < MOST / 100 { 100 } else { 0 }, "{at}");
            let near = pod.spec.pod_affinity.as_ref().unwrap().preferred.len() - n_far(pod) / 2;
            assert_eq!(near, 10, "terms about its own namespace stay");
        }
        let said: Vec<_> = far.take_unsaid().collect();
        assert!(said.iter().map(|(pod, _)| &pod.uid).eq(pods[5..].iter().map(|pod| &pod.uid)));
        let note = &said[0].1;
        assert!(
            note.starts_with("100 pod affinity terms") && note.contains("with 500 of other"),
            "{note}"
        );
        // The event is sent once, and an ignored pod stays ignored when there is room later.
        assert_eq!(n_far(&far.admit(&pods[6])), 0);
        far.gone(&pods[0]);
        assert_eq!(n_far(&far.admit(&pods[6])), 0);
        assert_eq!(far.take_unsaid().count(), 0);
        far.gone(&pods[6]);
        assert_eq!(n_far(&far.admit(&pods[6])), 100);
        // Others have room of their own.
        assert_eq!(n_far(&far.admit(&pod("b", "q", 400, 0))), 400);
        // Of what is gone before anything could be said, nothing is.
        assert_eq!(n_far(&far.admit(&pod("b", "r", 200, 0))), 0);
        far.gone(&pod("b", "r", 200, 0));
        assert_eq!(far.take_unsaid().count(), 0);
        pods.iter().for_each(|pod| far.gone(pod));
        far.gone(&pod("b", "q", 400, 0));
        assert!(far.carriers.is_empty() && far.counted.is_empty());
    }

    #[test]
    fn a_pod_that_changes_its_terms_is_looked_at_again() {
        let mut far = FarTerms::default();
        assert_eq!(n_far(&far.admit(&pod("a", "p", 600, 0))), 0);
        assert_eq!(n_far(&far.admit(&pod("a", "p", 300, 0))), 300);
        assert_eq!(far.counted["a"], 300);
        assert_eq!(n_far(&far.admit(&pod("a", "p", 2, 0))), 2);
        assert!(far.carriers.is_empty() && far.counted.is_empty() && far.unsaid.is_empty());
    }
}
